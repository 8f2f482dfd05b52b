"""Stores: storage systems on a node of their own. `node` is what runs there; the rest is the harness's side of it."""
