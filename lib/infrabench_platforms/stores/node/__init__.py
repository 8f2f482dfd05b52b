"""What a store node does to itself: a package of the standard library alone that the harness brings and calls by verbs.

It imports nothing of infrabench. `main` is the command; `config` what it is told; `disks`, `daemons`, `nbd` and `block`
are common to all engines; `ceph`, `zfs`, `client` are engines, modules of the functions that `main.StoreEngine` names.
"""
