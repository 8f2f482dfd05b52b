"""Sites: the lab, inventories of hosts, clusters by kubeconfig; their import from elsewhere and their preparation.

In: files that people write. Out: open sites.
"""
