"""Campaigns: the same studies on several sites, one job for each study and site, on an engine that exists (Snakemake).

`file` reads what is asked for and which sites there are, `checks` asks them and refuses what cannot be, `plan` says
which jobs there are and what they take, `engine` runs them through `job` (by `slurm`, where it is there), and `summary`
says what is there, and proves from the ledgers that a site was never measured by two at a time.
"""
