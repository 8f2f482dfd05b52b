"""Limits and cgroup controllers are put back as they were; what somebody else has set, or may rely on, stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from infrabench.core import NotRunnable, ProvisionError
from infrabench.machines.lab import kernel_limits

INSTANCES = "fs/inotify/max_user_instances"


@pytest.fixture
def limit(tmp_path: Path) -> Path:
    """One limit of a tree that has them all."""
    for name in kernel_limits.LEAST:
        file = tmp_path / "sys" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("128\n")
    return tmp_path / "sys" / INSTANCES


def test_a_low_limit_is_raised_and_put_back(limit: Path, tmp_path: Path) -> None:
    kernel_limits.raise_limits(tmp_path / "known", tmp_path / "sys")
    assert limit.read_text() == "1024\n"
    kernel_limits.restore_limits(tmp_path / "known", tmp_path / "sys")
    assert limit.read_text() == "128\n"


def test_a_higher_limit_is_left_alone(limit: Path, tmp_path: Path) -> None:
    limit.write_text("8192\n")
    kernel_limits.raise_limits(tmp_path / "known", tmp_path / "sys")
    kernel_limits.restore_limits(tmp_path / "known", tmp_path / "sys")
    assert limit.read_text() == "8192\n"


def test_what_somebody_sets_meanwhile_stays(limit: Path, tmp_path: Path) -> None:
    kernel_limits.raise_limits(tmp_path / "known", tmp_path / "sys")
    limit.write_text("4096\n")
    kernel_limits.restore_limits(tmp_path / "known", tmp_path / "sys")
    assert limit.read_text() == "4096\n"


def test_nothing_is_put_back_where_nothing_was_raised(limit: Path, tmp_path: Path) -> None:
    kernel_limits.restore_limits(tmp_path / "known", tmp_path / "sys")
    assert limit.read_text() == "128\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "cgroup"
    populate(root, "system.slice")
    (root / "cgroup.subtree_control").write_text("memory pids\n")
    return root


def populate(root: Path, name: str) -> None:
    (root / name).mkdir(parents=True)
    (root / name / "cgroup.events").write_text("populated 1\nfrozen 0\n")


def test_what_was_switched_on_meanwhile_is_switched_off(root: Path, tmp_path: Path) -> None:
    kernel_limits.remember_controllers(tmp_path / "known", root)
    (root / "cgroup.subtree_control").write_text("cpuset memory pids\n")
    kernel_limits.restore_controllers(tmp_path / "known", root)
    assert (root / "cgroup.subtree_control").read_text() == "-cpuset"


def test_nothing_is_written_when_nothing_changed(root: Path, tmp_path: Path) -> None:
    kernel_limits.remember_controllers(tmp_path / "known", root)
    kernel_limits.restore_controllers(tmp_path / "known", root)
    assert (root / "cgroup.subtree_control").read_text() == "memory pids\n"


def test_a_cgroup_that_came_meanwhile_keeps_its_controllers(root: Path, tmp_path: Path) -> None:
    kernel_limits.remember_controllers(tmp_path / "known", root)
    (root / "cgroup.subtree_control").write_text("cpuset memory pids\n")
    populate(root, "machine.slice")
    kernel_limits.restore_controllers(tmp_path / "known", root)
    assert (root / "cgroup.subtree_control").read_text() == "cpuset memory pids\n"


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
