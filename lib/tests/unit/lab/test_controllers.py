"""The root's cgroup v2 controllers are put back as they were, and left alone where somebody else may rely on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from infrabench.machines.lab import kernel_limits


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
