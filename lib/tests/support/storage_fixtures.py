"""A made-up session of the storage study on disk, in the ledger's format: nobody has measured these numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from infrabench import registry
from infrabench.core import Measurement, Request, Trial, TrialRecord
from infrabench.experiment.design import design as designs
from tests.support.runtimes_fixtures import begin_of, write_plan, write_provenance

NO_LOOP = "the machine has no loop devices: /dev/loop-control is missing"
NO_RBD, NO_DEVICE = "it has no RBD image", "its volume is no block device of the kernel"
USER_SPACE = {"qualifier": "user space", "engine": "OpenZFS 2.1.11 in user space (libzpool), zvol served over NBD"}
FACTS: Mapping[str, Mapping[str, Any]] = {
    "zfs": {**USER_SPACE, "version": "2.1.11"},
    "ceph": {"engine": "Ceph 16.2.15, BlueStore, RBD", "version": "16.2.15"},
}
CAPABILITIES: Mapping[str, Mapping[str, Any]] = {
    "zfs": {"copies": "mirror of 2 disks", "cache": "ARC 1 GiB", "default": "sync=standard"},
    "ceph": {
        "copies": "pool size 2, 2 OSDs",
        "cache": "2 x 512 MiB",
        "default": "librbd's cache",
        "throttle_open": {"osd_max_backfills": 8, "osd_recovery_sleep": 0},
        "osd_class": ["hdd"],
    },
}
IOPS = {  # pattern, mode -> zfs, ceph
    ("read", "default"): (40e3, 5.3e3), ("write", "default"): (17e3, 29e3), ("randread", "default"): (13.9e3, 7.2e3),
    ("randwrite", "default"): (7.4e3, 3.6e3), ("read", "strict"): (39e3, 5.4e3), ("write", "strict"): (5e3, 3.8e3),
    ("randread", "strict"): (13.5e3, 7.3e3), ("randwrite", "strict"): (2.65e3, 1.6e3),
}  # fmt: skip
DEPTH, HALF_DEPTH = 32, 8  # requests outstanding at the rates above; at which a system does half of what it can at most
RATE_B_PER_S = {"open": (200e6, 120e6), "default": (190e6, 14e6)}
Row = tuple[str, float, str, str]


def write_session(
    folder: Path, *, profile: str = "quick", systems: Iterable[str] | None = None,
    not_run: Mapping[str, str] | None = None, user_space: bool = True, failed: Iterable[tuple[str, str]] = (),
    wrong: bool = False, seed: int | None = None,
) -> Path:  # fmt: skip
    """Write a session of `profile`; `failed`: (system, workload) without a valid trial; `wrong`: Ceph's files are."""
    study = registry.study("storage")
    known = registry.names("systems")
    complete = {"rebuild": registry.workload("rebuild").PARAMS}  # its output is read again
    wanted = designs.design(study, Request(study.name, profile, systems=systems, seed=seed), known, complete)
    gone = {name: why for name, why in (not_run or {}).items() if name in wanted.systems}
    absent = {
        (system, case.workload, case.scenario): NO_DEVICE if case.params["path"] == "kernel" else NO_RBD
        for system in wanted.systems
        for case in wanted.cases
        if case.params.get("path") == "kernel" or (case.params.get("path") == "rbd" and system == "zfs")
    }
    absent = {key: why for key, why in absent.items() if key[0] not in gone}
    kept = write_plan(folder, study, wanted, gone, absent)
    for trial in designs.trials(kept):
        _write_trial(folder / "trials" / trial.id, trial, (trial.system, trial.workload) in set(failed), wrong)
    told = {}
    for name in kept.systems:
        facts = {key: value for key, value in FACTS[name].items() if key != "qualifier" or user_space}
        facts["capabilities"] = CAPABILITIES[name]
        told[name] = {"facts": facts, "targets": {}, "tools": {"fio-4k": "3.33"}}
    write_provenance(folder, told, kept.deployments, "store")
    return folder


def _write_trial(own: Path, trial: Trial, failed: bool, wrong: bool) -> None:
    own.mkdir()
    step = {"name": trial.workload, "role": "server", "phase": "measure", "argv": ["true"], "status": 0,
            "timed_out": False, "started_s": 0.0, "duration_s": 1.0}  # fmt: skip
    rows = () if failed else _measured(trial, wrong)
    state, reason = ("failed", "rebuild: the load ended with 1") if failed else ("ok", "")
    record = TrialRecord(
        trial=trial, state=state, reason=reason, started_utc=begin_of(trial), duration_s=1.05, tool_s=1.0,
        steps=(step,), measurements=tuple(Measurement(*row) for row in rows), conditions={},  # type: ignore[arg-type]
    )  # fmt: skip
    (own / "trial.json").write_text(json.dumps(record.as_json()))
    if trial.workload == "rebuild" and not failed:
        (own / "rebuild.stdout").write_text(json.dumps(course(trial)))


def _speed(trial: Trial) -> float:
    """The noise of a pool and of a trial."""
    pool = np.random.default_rng([trial.deployment, len(trial.system)]).normal(0, 0.03)
    return float(np.exp(pool + np.random.default_rng([trial.block, trial.position]).normal(0, 0.02)))


def _which(trial: Trial) -> int:
    return 1 if trial.system.startswith("ceph") else 0


def _measured(trial: Trial, wrong: bool) -> list[Row]:
    makers: Mapping[str, Callable[[Trial], list[Row]]] = {
        "fio-4k": _requests, "file-copy": _copy, "oltp": _oltp, "rebuild": _rebuild,
        "integrity": lambda each: _integrity(each, wrong),
    }  # fmt: skip
    return makers[trial.workload](trial)


def _requests(trial: Trial) -> list[Row]:
    params = trial.params
    rate = IOPS[params["pattern"], params["mode"]][_which(trial)] * _speed(trial)
    rate *= 1.4 if params["path"] == "rbd" else 1.0
    depth = params.get("depth", DEPTH)
    rate *= depth / (depth + HALF_DEPTH) * (DEPTH + HALF_DEPTH) / DEPTH
    mean = depth / rate
    return [
        ("iops", rate, "1/s", "higher"), ("latency_mean_s", mean, "s", "lower"),
        ("latency_p50_s", 0.8 * mean, "s", "lower"), ("latency_p99_s", 4 * mean, "s", "lower"),
        ("latency_p999_s", 9 * mean, "s", "lower"), ("steady", float(trial.position % 7 > 0), "1", "higher"),
        ("cpu_percent", 88.0 + trial.position % 5, "%", "lower"),
    ]  # fmt: skip


def _copy(trial: Trial) -> list[Row]:
    found: list[Row] = []
    for way, rate, storage, client in (
        ("write", (226e6, 320e6), (8e-9, 3.1e-9), (3e-9, 3e-9)),
        ("read", (195e6, 600e6), (7.5e-9, 1.2e-9), (2e-9, 2e-9)),
    ):  # fmt: skip
        at, noise = _which(trial), _speed(trial)
        found += [
            (f"{way}_B_per_s", rate[at] * noise, "B/s", "higher"),
            (f"{way}_storage_cpu_s_per_B", storage[at] / noise, "s/B", "lower"),
            (f"{way}_client_cpu_s_per_B", client[at] / noise, "s/B", "lower"),
            (f"{way}_cpu_percent", 90.0 + 2 * noise, "%", "lower"),
        ]
    return found


def _oltp(trial: Trial) -> list[Row]:
    rate = (430.0, 250.0)[_which(trial)] * _speed(trial) * (0.6 if trial.params["mode"] == "strict" else 1.0)
    rate *= 2.5 if trial.params["test"] == "oltp_read_only" else 1.0
    return [
        ("transactions_per_s", rate, "1/s", "higher"), ("queries_per_s", 20 * rate, "1/s", "higher"),
        ("latency_mean_s", 4 / rate, "s", "lower"), ("latency_p95_s", 8 / rate, "s", "lower"),
        ("errors_per_s", 0.0, "1/s", "lower"), ("cpu_percent", 91.0 + trial.position % 3, "%", "lower"),
    ]  # fmt: skip


def _took_s(trial: Trial) -> float:
    rate = RATE_B_PER_S[trial.params["throttle"]][_which(trial)] * _speed(trial)
    return float(trial.params["used_bytes"] / rate + (8.0 if trial.system == "ceph" else 0.5))


def _rebuild(trial: Trial) -> list[Row]:
    took, during = _took_s(trial), (0.004, 0.02)[_which(trial)] * _speed(trial)
    return [
        ("rebuild_s", took, "s", "lower"), ("rebuild_B_per_s", trial.params["used_bytes"] / took, "B/s", "higher"),
        ("noticed_s", (0.1, 1.5)[_which(trial)] * _speed(trial), "s", "lower"),
        ("foreground_iops_before", 200.0, "1/s", "higher"),
        ("foreground_iops_during", 198.0 - 20 * _which(trial), "1/s", "higher"),
        ("foreground_latency_before_s", 0.002 * _speed(trial), "s", "lower"),
        ("foreground_latency_during_s", during, "s", "lower"), ("foreground_worst_s", 12 * during, "s", "lower"),
        ("foreground_longest_s", 20 * during, "s", "lower"),
    ]  # fmt: skip


def course(trial: Trial, begun_s: float = 1_800_000_000.25) -> dict[str, Any]:
    """Return what the rebuild's script prints: a load of 200 requests a second, a stall when the disk is lost."""
    took, noticed = _took_s(trial), (0.1, 1.5)[_which(trial)]
    lost = begun_s + 5.0
    replaced = lost + noticed + 0.4
    clean = replaced + took
    noise = np.random.default_rng([trial.block, trial.position])
    bins = []
    for number in range(int(begun_s * 2), int((clean + 3.0) * 2)):
        begin = number / 2
        if lost <= begin < lost + noticed - 0.5:
            continue  # nothing is completed
        slow = (0.004, 0.02)[_which(trial)] if lost <= begin < clean else 0.002
        each = slow * float(np.exp(noise.normal(0, 0.3)))
        bins.append([begin, 50, 50 * each, 50, 50 * 1.5 * each, 6 * each])
    states = [
        {"begun_s": at, "done_s": at + 0.05, "clean": not lost + noticed <= at < clean,
         "copied_B": max(0.0, min(1.0, (at - replaced) / took)) * trial.params["used_bytes"], "left_B": None}
        for at in np.arange(begun_s, clean + 3.0, 0.5).tolist()
    ]  # fmt: skip
    events = {
        "fail": {"verb": "fail", "begun_s": lost, "done_s": lost + noticed + 0.2, "noticed_s": noticed},
        "replace": {"verb": "replace", "begun_s": replaced, "done_s": replaced + 0.3},
    }
    done = 50 * len(bins)
    half, size = trial.params["foreground_iops"] // 2, trial.params["used_bytes"] // 2**20 * 2**20
    options = {"rw": "randrw", "bs": "4096", "iodepth": "16", "rate_iops": f"{half},{half}", "size": str(size)}
    job = {
        "jobname": "load",
        "error": 0,
        "job options": options,
        "read": {"total_ios": done},
        "write": {"total_ios": done},
    }
    return {"disk": 1, "events": events, "states": states, "bin_s": 0.5, "bins": bins, "fio": {"jobs": [job]}}


def _integrity(trial: Trial, wrong: bool) -> list[Row]:
    ceph, damage, files = trial.system == "ceph", trial.params["damage"], trial.params["files"]
    silent = float(wrong and ceph and damage == "both")
    lost = float(files // 4) if damage == "both" and not silent else 0.0
    found: list[Row] = [("intact_before", 1.0, "1", "higher")]
    if damage == "none":
        found.append(("intact_degraded", 1.0, "1", "higher"))
    else:
        found.append(("found_by_read", float(trial.block % 2 == 0 or not ceph), "1", "higher"))
        found += [("found_by_light_scrub", 0.0, "1", "higher")] if ceph else []
        found += [("found_by_deep_scrub", 1.0, "1", "higher"), ("repaired", float(damage == "one"), "1", "higher")]
    found.append(("intact_after", 1.0 - (lost + silent) / files, "1", "higher"))
    return [*found, ("lost_files", lost, "1", "lower"), ("silently_wrong_files", silent, "1", "lower")]
