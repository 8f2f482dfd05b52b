"""A real session is killed, or Ctrl-C is pressed: what it left is removed, and going on finishes what was planned."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from infrabench import registry
from infrabench.core import wait
from infrabench.ledger.records import read_trials, verify
from infrabench.workloads import rebuild
from infrabench_platforms import lab
from tests.support.started_commands import (
    check_whole,
    end_command,
    hash_trials,
    processes_with,
    start_command,
    wait_for_trials,
)
from tests.support.storm import in_long_form

REQUEST = ("unguarded", "--profile", "smoke", "--workloads", "null", "sysbench-cpu", "--site", "lab")
# What is counted here are trials, not how quiet the machine was while they ran.
STUDY = """
from dataclasses import replace
from infrabench.core import Guards
from infrabench.studies.containers import STUDY as CONTAINERS
STUDY = replace(CONTAINERS, name="unguarded", guards=Guards(None, None, None, None))
"""
# Prints what systems leave on the server node; what belongs to the node itself is not named infrabench.
LEFT = """
ip netns; docker ps -aq; docker network ls -q --filter label=infrabench; ip -br link | grep -E 'ib-native|infrabench1'
ls -d /run/infrabench/native /sys/fs/cgroup/infrabench-* /sys/fs/cgroup/*/infrabench-*; pgrep -a sysbench
"""


@pytest.fixture(autouse=True)
def unguarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The containers study without guards, known to this process and to those that it starts."""
    (tmp_path / "plugins/studies").mkdir(parents=True)
    (tmp_path / "plugins/studies/unguarded.py").write_text(STUDY)
    monkeypatch.setenv(registry.VARIABLE, str(tmp_path / "plugins"))


def started(folder: Path, *more: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "INFRABENCH_HOME": str(folder.parent)}
    return start_command("run", *REQUEST, *more, "--session", str(folder), environment=environment)


def check_all_ok(folder: Path) -> None:
    """Every planned trial is recorded, none a second time, and all ended well."""
    check_whole(folder)
    assert {(record.trial.attempt, record.state) for record in read_trials(folder)} == {(0, "ok")}


def left_on_server() -> bytes:
    server = lab.nodes.host(lab.nodes.SERVER)
    try:
        return server.run(("sh", "-c", f"({LEFT}) 2>/dev/null"), timeout_s=20).stdout
    finally:
        server.close()


@pytest.mark.usefixtures("nothing_left")
def test_a_session_of_other_systems_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    lab.up()
    killed = started(tmp_path / "killed", "--systems", "native", "docker", "--runs", "15")
    wait_for_trials(tmp_path / "killed", 1, killed)
    killed.send_signal(signal.SIGKILL)
    assert end_command(killed)[0] == -signal.SIGKILL
    assert left_on_server() != b""
    child = started(tmp_path / "other", "--systems", "native", "lxc", "--runs", "1")
    wait_for_trials(tmp_path / "other", 1, child)
    server = lab.nodes.host(lab.nodes.SERVER)
    try:
        assert server.run(("docker", "ps", "-aq"), timeout_s=20).stdout == b""
    finally:
        server.close()
    status, said = end_command(child)
    assert status == 0, said
    assert "Removing what a killed session has left on server" in said
    check_all_ok(tmp_path / "other")
    assert left_on_server() == b""


@pytest.mark.usefixtures("nothing_left")
def test_ctrl_c_cleans_up_and_the_same_command_goes_on(tmp_path: Path) -> None:
    lab.up()
    folder, asked = tmp_path / "session", ("--systems", "native", "--runs", "4")
    child = started(folder, *asked)
    wait_for_trials(folder, 2, child)
    child.send_signal(signal.SIGINT)
    status, said = end_command(child)
    assert status == 130, said
    assert "the same command goes on" in said
    assert "Traceback" not in said
    first = hash_trials(folder)
    assert 2 <= len(first) < 8
    assert verify(folder) == []
    assert left_on_server() == b""
    status, said = end_command(started(folder, *asked))
    assert status == 0, said
    assert first.items() < hash_trials(folder).items()
    check_all_ok(folder)
    assert json.loads((folder / "session.json").read_text())["blocks"] == 4


# A session on a store, until it is killed.
STORE = """
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
def test_what_the_kernel_keeps_of_a_killed_store_is_found_and_removed_with_the_lab(tmp_path: Path) -> None:
    up = tmp_path / "up"
    with subprocess.Popen([sys.executable, "-c", STORE, str(up)]) as child:
        try:
            assert wait.until(lambda: up.exists() or child.poll() is not None, 300, 0.2)
            assert child.poll() is None
        finally:
            child.kill()
    assert len(lab.nodes.find_loops()) == 3  # two disks, and the file area
    assert "ceph-store" in lab.status().nodes
    lab.down()
    assert lab.nodes.find_loops() == []
    assert lab.status().leftovers == ()


@in_long_form
@pytest.mark.usefixtures("nothing_left")
def test_a_session_killed_in_a_rebuild_goes_on_with_each_trial_once(tmp_path: Path) -> None:
    folder, script = tmp_path / "killed", rebuild.SCRIPT.read_text()[:200]
    words = ("run", "storage", "--profile", "smoke", "--systems", "zfs", "--workloads", "rebuild", "--runs", "2")
    words += ("--deployments", "1", "--site", "lab", "--session", str(folder))
    child = start_command(*words)
    wait_for_trials(folder, 1, child)
    assert wait.until(lambda: processes_with(script, "python3\0-c\0"), 240, 0.1)
    time.sleep(3.5)  # the disk is lost after three seconds of load
    assert processes_with(script, "python3\0-c\0")
    child.kill()
    end_command(child)
    before = hash_trials(folder)
    assert len(before) == 1
    status, said = end_command(start_command(*words))
    assert status == 0, said
    check_whole(folder)
    assert {record.state for record in read_trials(folder)} <= {"ok", "invalid"}
    assert before.items() < hash_trials(folder).items()
    assert lab.nodes.find_loops() == []
