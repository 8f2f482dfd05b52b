"""Workloads: one file each, its name is the workload's. See `infrabench.core.Workload` for the contract."""
