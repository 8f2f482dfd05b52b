"""A real session is killed at any moment, and Ctrl-C is pressed: going on finishes exactly what was planned."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from infrabench import registry
from infrabench.core import canonical
from infrabench.experiment.design import design as designs
from infrabench.experiment.execution import session
from infrabench.ledger.records import read_plan, read_trial, recorded, verify
from infrabench_platforms import lab
from tests.support.started_commands import end_command, hash_trials, start_command, wait_for_trials
from tests.support.storm import size

KILLS = size(4, 10)
SEED = 20203
EARLIEST_S, INTO_TRIALS_S = 0.5, 4.0  # from the first import over making systems ready to the trials
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


def until_trials_begin(folder: Path, *asked: str) -> float:
    """Return after how many seconds a session, which is killed then, records its first trial on this machine now."""
    begin, child = time.monotonic(), started(folder, *asked)
    wait_for_trials(folder, 1, child)
    child.send_signal(signal.SIGKILL)
    assert end_command(child)[0] == -signal.SIGKILL
    return time.monotonic() - begin


def planned(systems: list[str], runs: int) -> bytes:
    """Return the plan of the request, from its parameters alone."""
    wanted = session.request(
        registry.study("unguarded"), profile="smoke", systems=systems, workloads=["null", "sysbench-cpu"], runs=runs
    )
    return "".join(canonical(trial.as_json()) + "\n" for trial in designs.trials(wanted)).encode()


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
def test_a_session_killed_at_random_moments_ends_with_every_planned_trial_once(tmp_path: Path) -> None:
    lab.up()
    folder, rng = tmp_path / "session", random.Random(SEED)
    asked = ("--systems", "native", "docker", "--runs", "15")
    plan, counts = planned(["native", "docker"], 15), []
    latest_s = until_trials_begin(folder, *asked) + INTO_TRIALS_S
    before = hash_trials(folder)
    # One moment in each of equal parts of the time, in any order: few kills come before trials and in them.
    moments = [EARLIEST_S + (latest_s - EARLIEST_S) * (part + rng.random()) / KILLS for part in range(KILLS)]
    rng.shuffle(moments)
    for moment_s in moments:
        child = started(folder, *asked)
        time.sleep(moment_s)
        child.send_signal(signal.SIGKILL)
        assert end_command(child)[0] == -signal.SIGKILL, "the session was over before it was killed: ask for more runs"
        now = hash_trials(folder)
        assert before.items() <= now.items()  # nothing recorded is lost or changed
        if folder.exists():
            assert verify(folder) == []
            assert (folder / "plan.jsonl").read_bytes() == plan
        counts.append(len(now))
        before = now
    assert len(set(counts) - {0, 60}) >= KILLS // 3, f"too few kills came between trials: {counts}"
    status, said = end_command(started(folder, *asked))
    assert status == 0, said
    assert "60 of 60 trials" in said
    assert verify(folder) == []
    assert (folder / "plan.jsonl").read_bytes() == plan
    assert before.items() <= hash_trials(folder).items()
    assert_each_planned_trial_once(folder)
    listed = [line.split()[1] for line in (folder / "SHA256SUMS").read_text().splitlines()]
    assert sorted(name for name in listed if name.startswith("trials/")) == sorted(
        f"trials/{name}/SHA256SUMS" for name in recorded(folder)
    )
    assert not list(folder.rglob(".tmp-*"))
    assert left_on_server() == b""


@pytest.mark.usefixtures("nothing_left")
def test_a_session_of_other_systems_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    lab.up()
    until_trials_begin(tmp_path / "killed", "--systems", "native", "docker", "--runs", "15")
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
