"""Inventories from elsewhere: Terraform's outputs, a Slurm allocation. What comes out is a plain inventory, as YAML."""
