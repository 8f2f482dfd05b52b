"""Campaigns: the same studies on several sites, one job for each study and site, on an engine that exists (Snakemake).

`file` reads what is asked for, `places` says what sites are made of, `asked` asks them, `checks` refuses what cannot
be, `jobs` are its sessions, `plan` says what they take, `engine` runs them through `job`, `summary` says what is there,
and `exclusive` proves from the ledgers that a site was never measured by two at a time.
"""
