"""What a campaign cancels in Slurm; the lab's nodes for Slurm: what a set of them has, and folders that they share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from infrabench.core import Result, SiteError
from infrabench.experiment.campaign import slurm
from infrabench.ledger import catalogue
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


def test_jobs_of_another_checkout_are_left_in_the_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prefixes, queue, cancelled = list[str](), list[str](), list[str]()

    class Queue:
        def __init__(self, environment: object) -> None: ...

        def run(self, argv: tuple[str, ...], **more: Any) -> Result:
            cancelled.extend(argv[1:] if argv[0] == "scancel" else ())
            return Result(argv, 0, "".join(queue).encode(), b"", 0.0, 0.0)

    monkeypatch.setattr(slurm, "LocalHost", Queue)
    for checkout in ("ours", "theirs"):
        monkeypatch.setattr(catalogue, "home", lambda checkout=checkout: tmp_path / checkout)
        for name in ("c", "c" * 38):
            prefixes.append(slurm.job_prefix(name))
            queue.append(f"{len(queue)} {prefixes[-1]}_0b7e4c3a-1111-4222-8333-444455556666\n")
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,50}", each) for each in prefixes)
    assert (slurm.cancel("c"), cancelled) == (["2"], ["2"])


def test_jobs_that_cannot_be_cancelled_stop_the_next_start(monkeypatch: pytest.MonkeyPatch) -> None:
    class Queue:
        def __init__(self, environment: object) -> None: ...

        def run(self, argv: tuple[str, ...], **more: Any) -> Result:
            jobs = "".join(f"{n} {slurm.job_prefix('c')}_0b7e4c3a-1111-4222-8333-444455556666\n" for n in (7, 8))
            return Result(argv, int(argv[0] == "scancel"), jobs.encode(), b"scancel: error: Access denied.\n", 0.0, 0.0)

    monkeypatch.setattr(slurm, "LocalHost", Queue)
    told = r"cannot be cancelled: scancel exited with 1: .*: Access denied\. Cancel them by hand: scancel 7 8$"
    with pytest.raises(SiteError, match=told):
        slurm.cancel("c")
