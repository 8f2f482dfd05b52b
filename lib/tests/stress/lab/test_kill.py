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
from infrabench.ledger.records import read_plan, read_trial, recorded, verify
from infrabench_platforms import lab
from tests.support.started_commands import end_command, hash_trials, start_command, wait_for_trials

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


def assert_each_planned_trial_once(folder: Path) -> None:
    """Every planned trial is recorded, none a second time, and all ended well."""
    records = [read_trial(folder, name) for name in recorded(folder)]
    assert sorted(record.trial.id for record in records) == sorted(trial.id for trial in read_plan(folder))
    assert {record.state for record in records} == {"ok"}


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
    assert_each_planned_trial_once(tmp_path / "other")
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
    assert_each_planned_trial_once(folder)
    assert json.loads((folder / "session.json").read_text())["blocks"] == 4


@pytest.mark.usefixtures("nothing_left")
def test_a_killed_session_leaves_no_pod_sandbox_mount_or_namespace(tmp_path: Path) -> None:
    words = ("run", "runtimes", "--profile", "smoke", "--systems", "containerd-runc", "--workloads", "pods-startup")
    argv = (sys.executable, "-m", "infrabench.cli", *words, "--session", str(tmp_path / "killed"), "--runs", "50")
    with (tmp_path / "said").open("wb") as said:
        child = subprocess.Popen(argv, stdout=said, stderr=said)
        deadline = time.monotonic() + 120
        while not list(tmp_path.glob("killed/trials/*")) and time.monotonic() < deadline and child.poll() is None:
            time.sleep(0.2)
        child.send_signal(signal.SIGKILL)
        child.wait(timeout=30)
    assert list(tmp_path.glob("killed/trials/*")), (tmp_path / "said").read_text()[-2000:]
