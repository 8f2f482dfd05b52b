"""What tests on the lab share: that nothing of it is left on this machine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from infrabench import lab
from infrabench.lab.shell import sh


def traces() -> dict[str, set[str]]:
    """What a lab could leave on this machine: links, routes, mounts, cgroups and their controllers, processes."""
    root = Path("/sys/fs/cgroup")
    cgroups = {str(p) for top in (root, *root.iterdir()) if top.is_dir() for p in top.glob("*lxc*")}
    controllers = root / "cgroup.subtree_control"
    routes = sh("ip", "route", "show", "table", "all").stdout.decode()
    processes = set()
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().decode("utf-8", "replace")
        except OSError:  # it ended while we looked
            continue
        if "infrabench-server" in words or "infrabench-client" in words:
            processes.add(words)
    return {
        "links": {line.split()[0].split("@")[0] for line in sh("ip", "-br", "link").stdout.decode().splitlines()},
        "routes": {line.split(" expires ")[0] for line in routes.splitlines()},
        "controllers": set(controllers.read_text().split()) if controllers.exists() else set(),
        "mounts": {line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()},
        "cgroups": cgroups,
        "processes": processes,
    }


@pytest.fixture
def nothing_left() -> Iterator[None]:
    lab.down()
    before = traces()
    yield
    lab.down()
    deadline = time.monotonic() + 5
    while traces() != before and time.monotonic() < deadline:  # the kernel removes a container's veth a moment later
        time.sleep(0.1)
    assert traces() == before
