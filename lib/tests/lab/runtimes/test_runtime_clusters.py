"""Runtimes on the lab for real: what makes the pods, what they say of their start, how they fail, and nothing left."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from infrabench import registry
from infrabench.core import Deployment, DeploySpec, Site, Target
from infrabench.machines.sites.site import open_site
from infrabench.studies.runtimes import STUDY
from infrabench_platforms.clusters import pods, runtimes
from tests.support.lab_trials import build_tools, run_trial, values
from tests.support.started_commands import thawed

# The first test builds what is not built yet: half an hour where nothing is.
pytestmark = [pytest.mark.timeout(3600)]

SYSTEMS = ("containerd-runc", "crio-runc", "containerd-runsc")
PARTS = ("crio", "gvisor")
SPEC = DeploySpec("test", STUDY.limits, "")
BARRIER_S = 0.1
# A runtime's own log of an operation on a pod: when it began, and when it was done.
CONTAINERD = {
    "run_podsandbox": (r'RunPodSandbox for name:\\"(pod-\d+)\\"(?!.* returns)',
                       r'RunPodSandbox for name:\\"(pod-\d+)\\".* returns sandbox id'),
    "start_container": (r'StartContainer for \\"([0-9a-f]+)\\""', r'StartContainer for \\"([0-9a-f]+)\\" returns'),
}  # fmt: skip
CRIO = {
    "run_podsandbox": (r"Running pod sandbox: infrabench/(pod-\d+)/", r"Ran pod sandbox .* infrabench/(pod-\d+)/"),
    "create_container": (r"Creating container: infrabench/(pod-\d+)/", r"Created container .* infrabench/(pod-\d+)/"),
}
LOGS = {"containerd-runc": CONTAINERD, "crio-runc": CRIO}


@pytest.fixture(scope="module")
def fleet(nothing_left_of_module: None) -> Iterator[tuple[Site, dict[str, Deployment]]]:
    """Every runtime that the lab can have, each frozen."""
    build_tools(PARTS)
    with ExitStack() as stack:
        site = stack.enter_context(open_site("lab"))
        made = {}
        for name in SYSTEMS:
            made[name] = stack.enter_context(registry.system(name).deploy(site, SPEC))
            made[name].pause()
        yield site, made


def verb(targets: Mapping[str, Target], *words: str) -> Any:
    control = targets["control"]
    result = control.host.run((*control.lifecycle["population"], *words), timeout_s=200)
    assert result.ok, result.stderr
    return json.loads(result.stdout)


def standing(targets: Mapping[str, Target]) -> list[str]:
    config = json.loads(targets["control"].lifecycle["population"][-1])
    argv = (*config["kubectl"], f"--namespace={pods.NAMESPACE}", "get", "pods", "--output=name")
    return targets["control"].host.run(argv, timeout_s=30).stdout.decode().split()


def test_every_runtime_is_what_it_claims(fleet: tuple[Site, dict[str, Deployment]]) -> None:
    told = {name: each.facts for name, each in fleet[1].items()}
    assert told["containerd-runc"]["version"].startswith("containerd://")
    assert told["crio-runc"]["version"].startswith("cri-o://")
    assert "gVisor" in told["containerd-runsc"]["capabilities"]["isolation"]
    assert "the node's" not in told["containerd-runsc"]["capabilities"]["kernel"]
    assert {each["capabilities"]["memory_limit"] for each in told.values()} == {"256 MiB"}


@pytest.mark.parametrize("name", list(LOGS))
def test_times_at_the_runtime_are_those_of_its_own_log_for_the_same_pods(
    fleet: tuple[Site, dict[str, Deployment]], name: str
) -> None:
    with thawed(fleet[1][name]) as targets:
        verb(targets, "remove")
        path = f"/var/log/infrabench/{name.partition('-')[0]}.log"
        begin = len(targets["worker1"].check(("cat", path), timeout_s=20))
        before = verb(targets, "calls")["cri"]
        verb(targets, "create", "4")
        after = verb(targets, "calls")["cri"]
        log = targets["worker1"].check(("cat", path), timeout_s=20)[begin:].decode()
        verb(targets, "remove")
    for operation, (first, last) in LOGS[name].items():
        own_s = _logged_s(log, first, last)
        counted = {key: after[operation][key] - before[operation][key] for key in ("count", "seconds")}
        assert counted["count"] == 4
        # The kubelet's figure has the call itself on top.
        assert own_s - 0.02 < counted["seconds"] < own_s + 0.1 * own_s + 0.1


def _logged_s(log: str, first: str, last: str) -> float:
    """Return the seconds between two messages, summed over the four things (pods, containers) that they name."""
    times: list[dict[str, float]] = [{}, {}]
    for line in log.splitlines():
        stamp = re.match(r'time="([^"]+)Z"', line)
        for found, pattern in zip(times, (first, last), strict=True):
            if stamp and (said := re.search(pattern, line)):
                # Nanoseconds, without the zeros at the end: datetime takes six digits.
                whole, _, part = stamp[1].partition(".")
                found[said[1]] = datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{part or 0}")
    assert len(times[0]) == len(times[1]) == 4, (times, log[-3000:])
    return sum(times[1][key] - times[0][key] for key in times[0])


@pytest.mark.parametrize("name", SYSTEMS)
def test_all_pods_start_at_once_and_bandwidth_is_that_of_the_raw_record(
    fleet: tuple[Site, dict[str, Deployment]], name: str
) -> None:
    site, made = fleet
    with thawed(made[name]):
        for _ in range(3):  # a machine that stalls for a moment makes starts late, and the trial invalid
            finished = run_trial(site, made[name], "pods-stream", pods=10, seconds=1, array_bytes=4 * 2**20)
            if finished.record.state != "invalid":
                break
    found = values(finished.record)
    rows = [json.loads(line) for line in finished.blobs["run.stdout"].decode().splitlines()]
    reports = [(row, json.loads(row["stdout"])) for row in rows if "stdout" in row]
    assert len(reports) == 10
    starts = [report["started_s"] - row["offset_s"] for row, report in reports]
    assert max(starts) - min(starts) < BARRIER_S
    woken = [report["awake_s"] - row["offset_s"] for row, report in reports]
    assert found["start_spread_s"] == pytest.approx(max(woken) - min(woken), abs=1e-4)
    rates = []
    for _, report in reports:
        copy = report["kernels"]["copy"]
        rates.append(copy["bytes"] * len(copy["times_s"][1:]) / sum(copy["times_s"][1:]))
    # Each pod's own rate is over a time of its own, in which not all of them work: their sum is somewhat higher.
    assert 0.6 * sum(rates) < found["copy_B_per_s"] < 1.1 * sum(rates)
    assert found["copy_pod_B_per_s"] == pytest.approx(found["copy_B_per_s"] / 10)


def test_forty_pods_run_and_their_start_is_timed(fleet: tuple[Site, dict[str, Deployment]]) -> None:
    site, made = fleet
    with thawed(made["crio-runc"]) as targets:
        if (targets["control"].pods or 0) < 40:
            pytest.skip(f"not run: {targets['control'].lifecycle['pods_reason'][0]}")
        timed = run_trial(site, made["crio-runc"], "pods-startup", pods=40, settle_s=0.2)
        assert abs(json.loads(timed.blobs["clock.stdout"])["offset_s"]) < 0.05  # nodes have this machine's clock
        found = values(timed.record)
        assert 0 < found["first_instruction_s"] < found["all_ready_s"] < 60
        assert 2**18 < found["memory_B_per_pod"] < 2**27
        rates = values(run_trial(site, made["crio-runc"], "pods-netperf", pods=40, seconds=1).record)
        assert rates["throughput_bit_per_s"] > 1e8
        verb(targets, "remove")


def test_pods_that_do_not_start_fail_their_trial_with_evidence_and_are_removed(
    fleet: tuple[Site, dict[str, Deployment]],
) -> None:
    site, made = fleet
    sick = made["containerd-runc"]
    control = sick.targets["control"]
    config = json.loads(control.lifecycle["population"][-1])
    config["pod"]["spec"]["containers"][0]["image"] = "localhost/infrabench/nothing:here"
    config["pod"]["spec"]["containers"][0]["imagePullPolicy"] = "Never"
    config |= {"wait_s": 6.0, "wait_s_per_pod": 0.0}
    population = (*control.lifecycle["population"][:-1], json.dumps(config))
    ill = replace(control, lifecycle={**control.lifecycle, "population": population})
    with thawed(sick):
        verb(sick.targets, "remove")
        finished = run_trial(site, replace(sick, targets={**sick.targets, "control": ill}), "pods-stream", pods=2)
        assert standing(sick.targets) == ["pod/conductor"]
    assert finished.record.state == "failed"
    assert "2 of 2 pods are not Ready" in finished.record.reason
    assert "ErrImageNeverPull" in finished.record.reason
    evidence = finished.blobs["evidence.stdout"].decode()
    assert "ErrImageNeverPull" in evidence
    assert "RunPodSandbox" in evidence  # the runtime's own log


def test_the_wrapper_of_gvisors_shim_shows_the_map_to_the_verb_that_starts_and_to_nothing_else(tmp_path: Path) -> None:
    shim, users = tmp_path / "shim", tmp_path / "map"
    shim.write_text("#!/bin/sh\ncat /proc/self/uid_map; head -n 1 /proc/$$/uid_map; printf '%s\\n' \"$@\"\n")
    users.write_text("0 0 7\n")
    shim.chmod(0o755)
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(runtimes._SHIM_WRAPPER.format(shim=shim).replace(runtimes.GVISOR_USER_MAP, str(users)))

    def run(*words: str) -> list[str]:
        argv = ["sh", str(wrapper), *words]
        return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=20).stdout.splitlines()

    child, own, *words = run("-id", "a b", "start")
    assert words == ["-id", "a b", "start"]
    assert own == "0 0 7"
    assert child.split() != ["0", "0", "7"]  # a program that the shim starts sees its own
    assert run("-id", "x", "delete")[1].split() == child.split()
    assert "0 0 7" not in Path("/proc/self/mountinfo").read_text()
    assert str(users) not in Path("/proc/self/mountinfo").read_text()
