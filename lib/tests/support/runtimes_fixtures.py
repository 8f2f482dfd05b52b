"""A made-up session of the runtimes study on disk, in the ledger's format: nobody has measured these numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from infrabench import registry
from infrabench.core import Measurement, Request, Study, Trial, TrialRecord, canonical, digest
from infrabench.experiment.design import design as designs

NO_KATA = "Kata is not installed: /opt/kata has no hypervisor"
# how much slower a system is than the baseline: start-up, network (and files), memory bandwidth, processor, memory
COST: Mapping[str, tuple[float, float, float, float, float]] = {
    "containerd-runc": (1.0, 1.0, 1.0, 1.0, 1.0),
    "crio-runc": (1.12, 1.0, 1.0, 1.0, 1.1),
    "containerd-crun": (0.95, 1.0, 1.0, 1.0, 0.9),
    "crio-crun": (1.06, 1.0, 1.0, 1.0, 1.0),
    "containerd-runsc": (1.3, 2.4, 1.02, 1.03, 4.0),
    "crio-runsc": (1.42, 2.4, 1.02, 1.03, 4.4),
    "containerd-kata": (3.0, 8.0, 1.6, 5.0, 20.0),
    "crio-kata": (3.2, 8.0, 1.6, 5.0, 20.0),
}
FACTS: Mapping[str, Mapping[str, Any]] = {
    "runc": {"isolation": "namespaces of the node's kernel", "kernel of a pod": "the node's"},
    "crun": {"isolation": "namespaces of the node's kernel", "kernel of a pod": "the node's"},
    "runsc": {"isolation": "a kernel in user space", "kernel of a pod": "4.4.0 (gVisor)"},
    "kata": {"isolation": "a virtual machine", "kernel of a pod": "6.12.28 (guest)"},
}


def write_session(
    folder: Path, *, profile: str = "quick", systems: Iterable[str] | None = None,
    not_run: Mapping[str, str] | None = None, fits: Mapping[str, int] | None = None, emulated: Iterable[str] = (),
    seed: int | None = None,
) -> Path:  # fmt: skip
    """Write a session of `profile`. `fits`: pods that a system has room for; more are left out with the reason."""
    study = registry.study("runtimes")
    wanted = designs.design(study, Request(study.name, profile, systems=systems, seed=seed))
    gone = dict.fromkeys(("containerd-kata", "crio-kata"), NO_KATA) if not_run is None else dict(not_run)
    gone = {name: why for name, why in gone.items() if name in wanted.systems}
    absent = {
        (system, case.workload, case.scenario): f"{case.level:g} pods do not fit, {room} do: memory of the node"
        for system, room in (fits or {}).items()
        for case in wanted.cases
        if case.level > room
    }
    kept = write_plan(folder, study, wanted, gone, absent)
    for trial in designs.trials(kept):
        (folder / "trials" / trial.id).mkdir()
        (folder / "trials" / trial.id / "trial.json").write_text(json.dumps(_record(trial).as_json()))
    told = {
        name: {
            "facts": {
                "version": "1", "emulated": name in emulated,
                "capabilities": {**FACTS[name.partition("-")[2]], "pods that fit": 61},
            },
            "targets": {}, "tools": {},
        }
        for name in kept.systems
    }  # fmt: skip
    write_provenance(folder, told, kept.deployments, "node-a")
    return folder


def write_plan(
    folder: Path, study: Study, wanted: designs.Design, gone: Mapping[str, str], absent: Mapping[Any, str]
) -> designs.Design:  # fmt: skip
    """Write what a session begins with: its request and plan; return the design without what cannot be run."""
    asked = {"systems": list(wanted.systems), "cases": [asdict(case) for case in wanted.cases]}
    kept = designs.without(wanted, systems=tuple(gone), excluded=absent)
    keys = ("system", "workload", "scenario", "reason")
    session = {
        "format": 1, "study": study.name, "title": study.title, "profile": kept.profile, "seed": kept.seed,
        "blocks": kept.blocks, "deployments": kept.deployments, "order": "random", "stopping": None, "aa": "",
        "variants": {}, "known": [], "systems": list(kept.systems), "workloads": designs.workloads(kept),
        "baseline": kept.baseline, "site": {"name": "lab", "kind": "lab"}, "not_run": gone, "left_out": {},
        "not_applicable": [dict(zip(keys, (*cell, why), strict=True)) for cell, why in absent.items()],
        "margins": dict(study.margins), "primary": [list(each) for each in study.primary], "guards": {}, "limits": {},
        "parameters": asked, "parameters_sha256": digest(asked, 64), "created_utc": "2026-01-01T00:00:00+00:00",
        "versions": {"infrabench": "0.1.0"},
    }  # fmt: skip
    (folder / "trials").mkdir(parents=True)
    (folder / "session.json").write_text(json.dumps(session, indent=1))
    plan = "".join(canonical(trial.as_json()) + "\n" for trial in designs.trials(kept))
    (folder / "plan.jsonl").write_text(plan)
    return kept


def begin_of(trial: Trial) -> str:
    """Return when a trial began: each takes a second."""
    hours, seconds = divmod(trial.position, 3600)
    return f"2026-01-01T{hours:02d}:{seconds // 60:02d}:{seconds % 60:02d}.000Z"


def _record(trial: Trial) -> TrialRecord:
    return TrialRecord(
        trial=trial, state="ok", reason="", started_utc=begin_of(trial), duration_s=1.05, tool_s=1.0, steps=(),
        measurements=tuple(_measured(trial)), conditions={},
    )  # fmt: skip


def _measured(trial: Trial) -> list[Measurement]:
    """Values that follow the number of pods on two processors, with noise of the deployment and of the trial."""
    system = sorted(COST).index(trial.system)
    shared = np.random.default_rng([trial.deployment, system]).normal(0, 0.02)
    noise = np.random.default_rng([trial.block, trial.position]).normal(0, 0.01, 30)
    start, net, memory, cpu, room = COST[trial.system]
    n = trial.params["pods"]
    pairs = max(n // 2, 1) if trial.params.get("load", "pairs") == "pairs" else 1
    rows = {
        "pods-startup": lambda: _startup(n, start, room),
        "pods-netperf": lambda: _netperf(trial.params.get("test", ""), pairs, net),
        "pods-stream": lambda: (
            [
                row
                for kernel, rate in (("copy", 11e9), ("scale", 10.8e9), ("add", 12e9), ("triad", 12.1e9))
                for row in (
                    (f"{kernel}_B_per_s", rate / memory * min(1, 0.7 + n / 50), "B/s", "higher"),
                    (f"{kernel}_pod_B_per_s", rate / memory * min(1, 0.7 + n / 50) / n, "B/s", "higher"),
                )
            ]
            + [("start_spread_s", 0.002 + 0.0002 * n, "s", "lower")]
        ),
        "pods-sysbench-cpu": lambda: [
            ("events_per_s", 2400 / cpu * min(n, 2) / 2, "1/s", "higher"),
            ("pod_events_per_s", 2400 / cpu * min(n, 2) / 2 / n, "1/s", "higher"),
            ("lowest_share", 0.9, "1", "higher"),
            ("cpu_percent", 98.0, "%", "lower"),
        ],
        "pods-sysbench-fileio": lambda: [
            ("requests_per_s", 450_000 / net * min(n, 2) / 2, "1/s", "higher"),
            ("pod_requests_per_s", 450_000 / net * min(n, 2) / 2 / n, "1/s", "higher"),
            ("lowest_share", 0.9, "1", "higher"),
            ("cpu_percent", 98.0, "%", "lower"),
        ],
        "pods-pi": lambda: [
            ("time_s", 0.07 * cpu * max(1, n / 2), "s", "lower"),
            ("all_done_s", 0.075 * cpu * max(1, n / 2), "s", "lower"),
            ("cpu_utilisation_percent", 200 * 0.07 / 0.075 * min(n, 2) / 2, "%", "higher"),
            ("efficiency_percent", 100 * 0.07 / 0.075 * min(n, 2) / 2, "%", "higher"),
        ],
    }[trial.workload]()
    speed = [np.exp(shared + each) for each in noise]
    return [
        Measurement(name, float(value * speed[i] if unit != "%" else value * (1 - abs(noise[i]))), unit, better)  # type: ignore[arg-type]
        for i, (name, value, unit, better) in enumerate(rows)
    ]


def _startup(n: int, start: float, room: float) -> list[tuple[str, float, str, str]]:
    seconds = {
        "first_instruction_s": (0.5 + 0.09 * n) * start, "ready_s": (0.9 + 0.1 * n) * start,
        "all_ready_s": (1.2 + 0.19 * n) * start, "sandbox_s": 0.12 * start * (1 + n / 20), "create_s": 0.05 * start,
        "runtime_s": (0.12 * (1 + n / 20) + 0.11) * start, "start_s": 0.06 * start, "cpu_s": 0.12 * start,
        "teardown_s": 1.1 + 0.05 * n * start, "stop_s": 0.09 * start,
    }  # fmt: skip
    made = [(name, value, "s", "lower") for name, value in seconds.items()]
    return [*made, ("memory_B_per_pod", 2.6e6 * room, "B", "lower")]


def _netperf(test: str, pairs: int, net: float) -> list[tuple[str, float, str, str]]:
    if test == "TCP_RR":
        mean = 3e-5 * net * max(1, pairs / 2)
        return [
            ("transactions_per_s", pairs / mean, "1/s", "higher"), ("latency_mean_s", mean, "s", "lower"),
            ("latency_p50_s", 0.9 * mean, "s", "lower"), ("latency_p99_s", 3 * mean, "s", "lower"),
            ("cpu_percent", 96.0, "%", "lower"),
        ]  # fmt: skip
    return [
        ("throughput_bit_per_s", 2.4e10 / net, "bit/s", "higher"),
        ("pair_throughput_bit_per_s", 2.4e10 / net / pairs, "bit/s", "higher"),
        ("lowest_share", 0.85, "1", "higher"), ("cpu_percent", 97.0, "%", "lower"),
    ]  # fmt: skip


def write_provenance(folder: Path, told: Mapping[str, Any], count: int, host: str) -> None:
    """Write what systems say of themselves, at each of `count` deployments, and a host."""
    (folder / "provenance").mkdir()
    for number in range(count):
        name = f"deployments{f'.resumed-{number}' if number else ''}.json"
        (folder / "provenance" / name).write_text(json.dumps(told))
    (folder / "provenance" / f"{host}.json").write_text(json.dumps({"name": host, "cpu": {"usable_cpus": 2}}))
