"""Limits and cgroup controllers are put back as they were; what somebody else has set, or may rely on, stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from infrabench.core import NotRunnable, ProvisionError
from infrabench_platforms.lab import kernel_limits

INSTANCES = "fs/inotify/max_user_instances"


@pytest.fixture
def limit(tmp_path: Path) -> Path:
    """One limit of a tree that has them all."""
    for name in kernel_limits.LEAST:
        file = tmp_path / "sys" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("128\n")
    return tmp_path / "sys" / INSTANCES


@pytest.mark.parametrize(
    ("before", "while_up", "meanwhile", "after"),
    [
        ("128\n", "1024\n", None, "128\n"),  # raised, and put back
        ("8192\n", "8192\n", None, "8192\n"),  # higher already
        ("128\n", "1024\n", "4096\n", "4096\n"),  # set by somebody else meanwhile
    ],
)
def test_a_low_limit_is_raised_and_put_back(
    limit: Path, tmp_path: Path, before: str, while_up: str, meanwhile: str | None, after: str
) -> None:
    limit.write_text(before)
    kernel_limits.restore_limits(tmp_path / "known", tmp_path / "sys")  # nothing was raised yet
    assert limit.read_text() == before
    kernel_limits.raise_limits(tmp_path / "known", tmp_path / "sys")
    assert limit.read_text() == while_up
    limit.write_text(meanwhile or while_up)
    kernel_limits.restore_limits(tmp_path / "known", tmp_path / "sys")
    assert limit.read_text() == after


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "cgroup"
    populate(root, "system.slice")
    (root / "cgroup.subtree_control").write_text("memory pids\n")
    return root


def populate(root: Path, name: str) -> None:
    (root / name).mkdir(parents=True)
    (root / name / "cgroup.events").write_text("populated 1\nfrozen 0\n")


@pytest.mark.parametrize(
    ("while_up", "newcomer", "after"),
    [
        ("cpuset memory pids\n", None, "-cpuset"),  # what is written to the file
        ("memory pids\n", None, "memory pids\n"),  # nothing
        ("cpuset memory pids\n", "machine.slice", "cpuset memory pids\n"),  # it may rely on them
    ],
)
def test_controllers_that_were_switched_on_meanwhile_are_switched_off(
    root: Path, tmp_path: Path, while_up: str, newcomer: str | None, after: str
) -> None:
    kernel_limits.remember_controllers(tmp_path / "known", root)
    (root / "cgroup.subtree_control").write_text(while_up)
    if newcomer:
        populate(root, newcomer)
    kernel_limits.restore_controllers(tmp_path / "known", root)
    assert (root / "cgroup.subtree_control").read_text() == after


def test_cgroup_v1_has_nothing_to_put_back(tmp_path: Path) -> None:
    kernel_limits.remember_controllers(tmp_path / "known", tmp_path)
    kernel_limits.restore_controllers(tmp_path / "known", tmp_path)
    assert not (tmp_path / "known").exists()


@pytest.fixture
def modprobe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The calls of modprobe, which brings the settings of bridges below `tmp_path`."""
    calls: list[tuple[str, ...]] = []

    def sh(*argv: str, ok: tuple[int, ...] = (0,)) -> None:
        calls.append(argv)
        (tmp_path / "net/bridge").mkdir(parents=True, exist_ok=True)
        (tmp_path / "net/bridge/bridge-nf-call-iptables").write_text("1\n")

    monkeypatch.setattr(kernel_limits, "sh", sh)
    return calls


def test_a_module_that_is_missing_is_loaded_and_changes_no_bridge_of_this_machine(
    modprobe: list[tuple[str, ...]], tmp_path: Path
) -> None:
    note = tmp_path / "note"
    kernel_limits.load_bridge_filter(note, tmp_path)
    assert modprobe == [("modprobe", "br_netfilter")]
    assert (tmp_path / "net/bridge/bridge-nf-call-iptables").read_text() == "0\n"
    kernel_limits.load_bridge_filter(note, tmp_path)  # of a second cluster
    kernel_limits.unload_bridge_filter(note)
    kernel_limits.unload_bridge_filter(note)
    assert [argv[-2:] for argv in modprobe] == [("modprobe", "br_netfilter"), ("--remove", "br_netfilter")]


def test_a_module_that_was_there_is_left_alone(modprobe: list[tuple[str, ...]], tmp_path: Path) -> None:
    (tmp_path / "net/bridge").mkdir(parents=True)
    kernel_limits.load_bridge_filter(tmp_path / "note", tmp_path)
    kernel_limits.unload_bridge_filter(tmp_path / "note")
    assert modprobe == []


def test_a_kernel_without_the_module_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def sh(*argv: str) -> None:
        raise ProvisionError("modprobe: FATAL: Module br_netfilter not found")

    monkeypatch.setattr(kernel_limits, "sh", sh)
    with pytest.raises(NotRunnable, match="kernel has not the module br_netfilter"):
        kernel_limits.load_bridge_filter(tmp_path / "note", tmp_path)
    kernel_limits.unload_bridge_filter(tmp_path / "note")  # where modprobe itself is missing, it would fail for ever
