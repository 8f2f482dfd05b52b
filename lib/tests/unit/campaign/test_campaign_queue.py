"""The lab's Slurm: what its nodes are told of each other, and what is done with each before it takes jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from infrabench.core import ProvisionError, Result
from infrabench_platforms.lab import images, node_groups, nodes
from tests.support import slurm_cluster


def test_nodes_know_each_other_and_jobs_take_whole_ones() -> None:
    team = node_groups.place_nodes("slurm", 2, nodes.QUEUE)
    told = slurm_cluster.config({node.role: node.address for node in team})
    assert f"SlurmctldHost=queue({team[0].address})" in told
    assert told.count("NodeName=node") == 3
    assert f"NodeName=node2 NodeAddr={team[2].address} " in told
    assert "SelectType=select/linear" in told
    assert f"PartitionName={slurm_cluster.PARTITION} Nodes=ALL Default=YES" in told


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


class Answering:
    """A controller that says one thing after the other."""

    def __init__(self, *said: bytes) -> None:
        self.said = list(said)

    def run(self, argv: tuple[str, ...], *, timeout_s: float, stdin: bytes = b"") -> Result:
        out = self.said.pop(0) if len(self.said) > 1 else self.said[0]
        return Result(argv, 0, out, b"", 0.0, 0.0)


def test_jobs_are_handed_out_when_every_node_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_cluster, "IDLE_S", 0.0)
    slurm_cluster._wait_until_idle(Answering(b"node1 idle\nnode2 idle\n"), ["node1", "node2"])  # type: ignore[arg-type]
    with pytest.raises(ProvisionError, match=r"not ready after 0 s: node1 idle\nnode2 down\*"):
        slurm_cluster._wait_until_idle(Answering(b"node1 idle\nnode2 down*\n"), ["node1", "node2"])  # type: ignore[arg-type]
