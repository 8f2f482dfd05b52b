"""What a CNI's programs take: the probe on this machine's own processes, and who is asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from infrabench import registry
from infrabench.core import Capture, NotAsClaimed, NotRunnable, ParseError, Result, Target, default_params
from infrabench.machines.hosts.host import LocalHost
from infrabench.workloads import cni_agents
from infrabench.workloads._agents_probe import read

SYSTEMCTL = """#!/bin/sh
for unit; do :; done
case $unit in gone) echo MainPID=0;; *) echo MainPID={};; esac
echo NRestarts=0
"""


def probe(folder: Path, *units: str, seconds: float = 0.0) -> subprocess.CompletedProcess[str]:
    """Run the probe with a `systemctl` that takes every unit but ``gone`` for this process."""
    (folder / "systemctl").write_text(SYSTEMCTL.format(os.getpid()))
    (folder / "systemctl").chmod(0o755)
    asked = json.dumps({"units": units, "settle_s": 0.0, "seconds": seconds})
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    return subprocess.run(
        [sys.executable, "-c", cni_agents.PROBE.read_text(), asked], capture_output=True, text=True, env=environment,
        check=False,
    )  # fmt: skip


def capture(stdout: str, *units: str, seconds: float) -> Capture:
    asked = json.dumps({"units": units, "settle_s": 0.0, "seconds": seconds})
    result = Result(("python3", "-c", "", asked), 0, stdout.encode(), b"", 0.0, 1.0)
    return Capture({"agents": result}, {**default_params(registry.workload("cni-agents")), "seconds": seconds})


def test_the_probe_reads_the_cpu_clock_and_the_memory_of_a_process() -> None:
    first = read(os.getpid())
    sum(range(200_000))
    last = read(os.getpid())
    assert last[0] > first[0] > 0
    assert last[1] > 2**20


def test_programs_that_a_process_ran_and_waited_for_count_as_its_own() -> None:
    before = read(os.getpid())[0]
    subprocess.run([sys.executable, "-c", "sum(range(3_000_000))"], check=True)
    own = time.process_time_ns()
    assert read(os.getpid())[0] - before >= 10**7  # a tick
    assert read(os.getpid())[0] > own


def test_what_the_probe_says_is_read_whole(tmp_path: Path) -> None:
    done = probe(tmp_path, "a", "b")
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert [each["pid"] for each in report["agents"].values()] == [os.getpid()] * 2
    for each in report["agents"].values():
        each["cpu_ns"] += 1000  # this process sleeps
    found = {m.metric: m.value for m in cni_agents.parse(capture(json.dumps(report), "a", "b", seconds=0.0))}
    assert set(found) == {"agents_cpu_percent", "agents_memory_B"}
    assert found["agents_memory_B"] == sum(each["resident_bytes"] for each in report["agents"].values())


def test_a_program_that_does_not_run_is_named(tmp_path: Path) -> None:
    done = probe(tmp_path, "a", "gone")
    assert (done.returncode, done.stderr) == (1, "not running: gone\n")


def test_a_report_of_other_units_another_time_or_of_a_restart_is_refused(tmp_path: Path) -> None:
    told = probe(tmp_path, "a").stdout
    with pytest.raises(ParseError, match="expected a, b"):
        cni_agents.parse(capture(told, "a", "b", seconds=0.0))
    with pytest.raises(ParseError, match="time between both readings"):
        cni_agents.parse(capture(told, "a", seconds=10.0))
    report = json.loads(told)
    for restarts, age_s, good in ((0, 1.0, True), (1, 59.0, False), (1, 61.0, True)):
        report["agents"]["a"] |= {"restarts": restarts, "age_s": age_s, "cpu_ns": 0}
        given = capture(json.dumps(report), "a", seconds=0.0)
        if good:
            assert len(cni_agents.parse(given)) == 2
        else:
            with pytest.raises(NotAsClaimed, match="said that a is at rest, but it was restarted 59 s before"):
                cni_agents.parse(given)


def test_a_system_without_such_programs_is_left_out() -> None:
    workload, host = registry.workload("cni-agents"), LocalHost("here")
    alone = {"server": Target("server", host), "worker1": Target("worker1", host), "control": Target("control", host)}
    with pytest.raises(NotRunnable, match="it has no programs on a node that can be read here"):
        workload.plan(default_params(workload), alone)
    one = {**alone, "worker1": Target("worker1", host, lifecycle={"agents": ("x.service",)})}
    assert [step.name for step in workload.plan(default_params(workload), one)] == ["agents"]
