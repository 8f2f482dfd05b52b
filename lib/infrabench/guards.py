"""Rules that make a trial invalid without looking at its metric (pure functions of two monitor samples)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from infrabench.core import Guards

LEAST_TICKS = 100  # a window with fewer clock ticks resolves its CPU shares no better than 1 %: shown, not judged
Sample = Mapping[str, Any]
BUSY = ("user", "nice", "system", "irq", "softirq")
CPU = (*BUSY, "idle", "iowait", "steal")


def judge(
    guards: Guards, before: Mapping[str, Sample], after: Mapping[str, Sample], cgroups: Mapping[str, Sequence[str]]
) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """Return why the trial is invalid (empty: it is not), and what was seen by host.

    Parameters
    ----------
    guards
        The limits; None switches a rule off.
    before, after
        One sample of each host from either end of the window.
    cgroups
        By host, the cgroup folders of the system that was measured.

    Returns
    -------
    reasons, conditions
        `conditions` by host: ``window_s``, ``steal_share``, ``busy_share`` (of all CPUs), ``runnable_per_cpu``
        (before), ``memory_full_share``, ``throttled_periods``, ``oom_kills``; null where the host does not tell.
    """
    reasons: list[str] = []
    conditions: dict[str, dict[str, Any]] = {}
    for host in sorted(before):
        seen = conditions[host] = _conditions(before[host], after[host], cgroups.get(host, ()))
        steal = seen["steal_share"] if seen["cpu_ticks"] is not None and seen["cpu_ticks"] >= LEAST_TICKS else None
        rules = (
            ("CPU time stolen by the hypervisor (share)", steal, guards.steal_share),
            ("throttled cgroup periods", seen["throttled_periods"], guards.throttled_periods),
            ("runnable tasks per CPU just before the trial", seen["runnable_per_cpu"], guards.runnable_per_cpu),
            ("time with all tasks waiting for memory (share)", seen["memory_full_share"], guards.memory_full_share),
        )
        reasons += [
            f"{host}: {what} {value:.4g} > {limit:g}"
            for what, value, limit in rules
            if value is not None and limit is not None and value > limit
        ]
        if seen["oom_kills"]:
            reasons.append(f"{host}: {seen['oom_kills']} processes of the system were killed for want of memory")
    return reasons, conditions


def _conditions(before: Sample, after: Sample, cgroups: Sequence[str]) -> dict[str, Any]:
    window = after["monotonic_s"] - before["monotonic_s"]
    spent = _spent(before["cpu"], after["cpu"])
    total = sum(spent.values()) if spent else 0.0
    return {
        "window_s": window,
        "cpu_ticks": round(total / after["cpu"]["tick_s"]) if spent else None,
        "steal_share": spent["steal"] / total if spent and total > 0 else None,
        "busy_share": sum(spent[key] for key in BUSY) / total if spent and total > 0 else None,
        "runnable_per_cpu": before["load"]["running"] / before["cpu"]["cpus"]
        if before["load"] and before["cpu"]
        else None,
        "memory_full_share": _grown(before["psi"], after["psi"], "memory_full_s", window),
        "throttled_periods": _counted(before, after, cgroups, ("cpu.stat:nr_throttled",)),
        "oom_kills": _counted(before, after, cgroups, ("memory.events:oom_kill", "memory.oom_control:oom_kill")),
    }


def _spent(before: Sample | None, after: Sample | None) -> dict[str, float]:
    # A counter that a kernel lets run backwards (idle, iowait) spent nothing.
    return {key: max(0.0, after[key] - before[key]) for key in CPU} if before and after else {}


def _grown(before: Sample | None, after: Sample | None, key: str, window: float) -> float | None:
    if not before or not after or key not in before or key not in after or window <= 0:
        return None
    return (after[key] - before[key]) / window


def _counted(before: Sample, after: Sample, folders: Sequence[str], keys: Sequence[str]) -> int | None:
    counts = []
    for folder in folders:
        old, new = before["cgroups"].get(folder) or {}, after["cgroups"].get(folder) or {}
        counts += [new[key] - old[key] for key in keys if key in old and key in new]
    return sum(counts) if counts else None
