"""Machines: hosts and how commands run on them, and the sites that they make.

In: names of sites, inventories, kubeconfigs. Out: hosts by role that run argument lists.
"""
