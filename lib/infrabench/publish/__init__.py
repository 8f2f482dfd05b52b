"""What leaves the project: the report as a static site, numbers and tables for LaTeX, and the archive of an artifact.

In: executed notebooks, sessions and their analysis. Out: files. Needs no host, container engine or cluster.
"""
