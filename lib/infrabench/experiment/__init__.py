"""A study carried out: design, execution, provenance, and campaigns over several sites.

In: a request and a site. Out: session folders, written trial by trial.
"""
