"""Hosts over SSH and this machine itself: commands and files, each with a limit of time.

In: addresses and argument lists. Out: `Result` objects. ``probes/`` holds the programs that run on a host.
"""
