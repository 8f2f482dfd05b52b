"""From a plan to records: deployments, preflight, guards, trials in order, and going on after an interruption.

In: a plan, a site and a session folder. Out: the folder, with a record of every trial.
"""
