"""Machines and what is made on them: hosts, sites, the embedded lab, clusters of Kubernetes, and stores.

In: names of sites, inventories, kubeconfigs. Out: hosts by role that run argument lists.
"""
