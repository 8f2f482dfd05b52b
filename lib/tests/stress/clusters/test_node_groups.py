"""Sets of machines: each has addresses of its own, what fails or is killed half way is removed; freezing; killing."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from infrabench_platforms.lab import nodes
from tests.support.cluster_fakes import sleeper
from tests.unit.clusters import test_node_groups

tree = test_node_groups.tree  # the fixture of the module beside it in the gate


@pytest.fixture
def population(tree: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Cgroups by name with one process in each; like the kernel, one that is empty of processes can be removed."""
    names = (
        "lxc.payload.infrabench-abcd-flannel-worker1", "lxc.payload.infrabench-abcd-flannel-worker1-1",
        "lxc.monitor.infrabench-abcd-flannel-worker1", "lxc.payload.infrabench-abcd-flannel-worker2",
        "lxc.payload.infrabench-abcd-server", "lxc.payload.somebody-infrabench-abcd-server",
        "lxc.payload.infrabench-1a2b-server", "lxc.payload.web", "user.slice",
    )  # fmt: skip
    children = {}
    for name in names:
        folder = tree / "memory" / name / "inner"
        folder.mkdir(parents=True)
        children[name] = sleeper()
        (folder / "cgroup.procs").write_text(f"{children[name].pid}\n")
        (folder.parent / "cgroup.procs").write_text("")

    def rmdir(path: Path) -> None:
        procs = (path / "cgroup.procs").read_text() if (path / "cgroup.procs").exists() else ""
        if all(_is_dead(int(pid)) for pid in procs.split()) and not any(each.is_dir() for each in path.iterdir()):
            shutil.rmtree(path)

    monkeypatch.setattr(Path, "rmdir", rmdir)
    yield children
    for child in children.values():
        child.kill()
        child.wait()


def _is_dead(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except FileNotFoundError:
        return True


def alive(population: dict[str, subprocess.Popen[bytes]]) -> set[str]:
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline and all(child.poll() is None for child in population.values()):
        time.sleep(0.01)
    return {name for name, child in population.items() if child.poll() is None}


def test_removing_one_node_kills_its_processes_alone(
    population: dict[str, subprocess.Popen[bytes]], tree: Path
) -> None:
    nodes._kill_cgroups("infrabench-abcd-flannel-worker1")
    ours = {name for name in population if "flannel-worker1" in name}
    assert len(ours) == 3
    assert alive(population) == set(population) - ours
    assert {path.name for path in (tree / "memory").iterdir()} == set(population) - ours


def test_removing_all_nodes_touches_nothing_of_others(population: dict[str, subprocess.Popen[bytes]]) -> None:
    nodes._kill_cgroups(f"{nodes.container_prefix()}*")
    assert alive(population) == {
        "lxc.payload.somebody-infrabench-abcd-server", "lxc.payload.infrabench-1a2b-server",
        "lxc.payload.web", "user.slice",
    }  # fmt: skip
