"""The lab's nodes for Slurm: what a set of them has, and folders that they share."""

from __future__ import annotations

from pathlib import Path

from infrabench_platforms.lab import images, node_groups, nodes


def test_a_set_is_removed_whatever_it_was() -> None:
    every = node_groups.all_nodes("x", 0)
    assert {node.role for node in every} >= {"control", "worker2", nodes.STORE, *nodes.QUEUE}
    assert len({node.container for node in every}) == len(every)
    # Its nodes have the data folders of the lab's own two: engines run in them.
    assert all(node.data == nodes.DATA for node in every if node.role in nodes.QUEUE)
    assert "slurm" in images.ON_DEMAND


def test_a_shared_folder_is_seen_where_it_is_and_can_be_written_to(tmp_path: Path) -> None:
    (node,) = node_groups.place_nodes("slurm", 0, nodes.QUEUE[:1])
    image = images.Image("slurm", "0", tmp_path)
    told = nodes._config(node, image, tmp_path, {"/opt/x": Path("/a")}, (), (Path("/work/here"),))
    assert "lxc.mount.entry = /work/here work/here none bind,create=dir 0 0\n" in told
    assert "lxc.mount.entry = /a opt/x none bind,ro,create=dir 0 0\n" in told
