"""A session on a store that was killed: what the kernel keeps of it is found, and removed with the lab."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from infrabench.ledger.records import read_plan, read_trial, recorded, verify
from infrabench.workloads import rebuild
from infrabench_platforms import lab
from infrabench_platforms.lab import nodes
from tests.support.storm import in_long_form

SESSION = """
import pathlib, sys, time
from infrabench import registry
from infrabench.core import DeploySpec, Limits
from infrabench.machines.sites.site import open_site
spec = DeploySpec("test", Limits(memory_bytes=5 * 2**30), "", disk_bytes=2**30)
with open_site("lab") as site, registry.system("ceph").deploy(site, spec) as made:
    target = made.targets["server"]
    target.check((*target.lifecycle["store"], "mount", "default", str(2**28)), timeout_s=60)
    pathlib.Path(sys.argv[1]).touch()
    time.sleep(300)
"""


@pytest.mark.usefixtures("nothing_left")
def test_what_a_killed_session_leaves_is_found_and_removed(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", SESSION, str(tmp_path / "up")])
    try:
        deadline = time.monotonic() + 300
        while not (tmp_path / "up").exists():
            assert child.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.2)
    finally:
        child.kill()
        child.wait()
    assert len(nodes.find_loops()) == 3  # two disks, and the file area
    assert "ceph-store" in lab.status().nodes
    lab.down()
    assert nodes.find_loops() == []
    assert lab.status().leftovers == ()


def rebuilds() -> bool:
    """Tell whether a node of this machine runs the script that loses and replaces a disk."""
    script = rebuild.SCRIPT.read_bytes()[:200]
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if script in entry.read_bytes() and b"python3\0-c\0" in entry.read_bytes():
                return True
        except OSError:  # it ended meanwhile
            continue
    return False


@in_long_form
@pytest.mark.usefixtures("nothing_left")
def test_a_session_killed_in_a_rebuild_goes_on_with_each_trial_once(tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    words = ("run", "storage", "--profile", "smoke", "--systems", "zfs", "--workloads", "rebuild")
    more = ("--runs", "2", "--deployments", "1", "--site", "lab", "--session", str(folder))
    argv = (sys.executable, "-m", "infrabench.cli", *words, *more)
    with (tmp_path / "said").open("wb") as said:
        child = subprocess.Popen(argv, stdout=said, stderr=said)
        try:
            deadline = time.monotonic() + 240
            while not ((folder / "trials").is_dir() and recorded(folder) and rebuilds()):
                assert child.poll() is None, (tmp_path / "said").read_text()[-2000:]
                assert time.monotonic() < deadline
                time.sleep(0.1)
            time.sleep(3.5)  # the disk is lost after three seconds of load
            assert rebuilds()
        finally:
            child.kill()
            child.wait()
    before = {name: (folder / "trials" / name / "trial.json").read_bytes() for name in recorded(folder)}
    assert len(before) == 1
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert verify(folder) == []
    records = [read_trial(folder, name) for name in recorded(folder)]
    assert sorted(each.trial.id for each in records if not each.trial.attempt) == sorted(
        trial.id for trial in read_plan(folder)
    )
    assert {each.state for each in records} <= {"ok", "invalid"}
    assert all((folder / "trials" / name / "trial.json").read_bytes() == data for name, data in before.items())
    assert nodes.find_loops() == []
