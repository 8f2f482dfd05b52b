"""Rules that make a trial invalid, or failed, without looking at its metric (pure functions of two monitor samples)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from infrabench.core import Guards

CLOCK_S = 0.5  # what the two clocks of a machine may differ by after a trial
OWN = ", by the system itself"
Sample = Mapping[str, Any]
BUSY = ("user", "nice", "system", "irq", "softirq")
CPU = (*BUSY, "idle", "iowait", "steal")


class Judgement(NamedTuple):
    """Why the machine makes a trial invalid, why the system itself has failed it, and what was seen by host."""

    invalid: list[str]
    failed: list[str]
    conditions: dict[str, dict[str, Any]]


def judge(
    guards: Guards, before: Mapping[str, Sample], after: Mapping[str, Sample], cgroups: Mapping[str, Sequence[str]]
) -> Judgement:
    """Return why a trial is invalid, or failed (both empty: it is neither), and what was seen by host.

    What the machine did to the system makes a trial invalid, and another trial may show what it would have been. What
    the system did to itself in its own cgroups is a result of it, which no repeat may hide.

    `before` and `after` are one sample of each host from either end of the window, `cgroups` by host the folders of the
    system that was measured. What was seen is, by host: ``window_s``, ``steal_share``, ``busy_share`` (of all CPUs),
    ``runnable_per_cpu`` and ``own_runnable_per_cpu``, those of them in the system's cgroups (before),
    ``memory_full_share``, ``memory_limit_hits``, ``throttled_periods``, ``oom_kills``; null where the host does not
    tell.
    """
    invalid: list[str] = []
    failed: list[str] = []
    conditions: dict[str, dict[str, Any]] = {}
    for host in sorted(before):
        seen = conditions[host] = _conditions(before[host], after[host], cgroups.get(host, ()))
        steal = seen["steal_share"]
        if steal:
            # Of the time that was wanted, whatever idles beside it, but of one processor at the least, so that little
            # is not much of nearly nothing; and less the one tick that may be of before.
            one = seen["window_s"] / (seen["cpu_ticks"] * after[host]["cpu"]["tick_s"])
            steal = (steal - 1 / seen["cpu_ticks"]) / max(steal + seen["busy_share"], one)
        runnable, most = seen["runnable_per_cpu"], guards.runnable_per_cpu
        others = None if runnable is None else runnable - (seen["own_runnable_per_cpu"] or 0.0)
        crowds = others is not None and most is not None and others <= most
        thrashes = bool(seen["memory_limit_hits"])
        rules = (
            ("CPU time stolen by the hypervisor (share of what was wanted)", steal, guards.steal_share, False),
            ("throttled cgroup periods", seen["throttled_periods"], guards.throttled_periods, True),
            ("runnable tasks per CPU just before the trial", runnable, most, crowds),
            ("time with all tasks waiting for memory (share)", seen["memory_full_share"], guards.memory_full_share,
             thrashes),
        )  # fmt: skip
        for what, value, limit, own in rules:
            if value is not None and limit is not None and value > limit:
                (failed if own else invalid).append(f"{host}: {what} {value:.4g} > {limit:g}{OWN if own else ''}")
        stepped_s = (after[host]["time_s"] - before[host]["time_s"]) - seen["window_s"]
        if abs(stepped_s) > CLOCK_S:  # tools that take times of day have measured that too
            invalid.append(f"{host}: its clock was set by {stepped_s:+.1f} s while it was measured, or it slept")
        if seen["oom_kills"]:
            failed.append(f"{host}: {seen['oom_kills']} processes of the system were killed for want of memory")
    return Judgement(invalid, failed, conditions)


def _conditions(before: Sample, after: Sample, cgroups: Sequence[str]) -> dict[str, Any]:
    window = after["monotonic_s"] - before["monotonic_s"]
    cpu, load, spent, total = before["cpu"], before["load"], dict[str, float](), 0.0
    if cpu and after["cpu"]:  # a counter that a kernel lets run backwards (idle, iowait) spent nothing
        spent = {key: max(0.0, after["cpu"][key] - cpu[key]) for key in CPU}
        total = sum(spent.values())
    # The folders of one system, one for each controller, hold the same tasks.
    own = [count for folder, count in ((load or {}).get("own") or {}).items() if folder in cgroups]
    waits = [(each or {}).get("memory_full_s") for each in (before["psi"], after["psi"])]

    def count(*keys: str) -> int | None:
        """Return by how much counters of the system's cgroups have grown."""
        grown = []
        for folder in cgroups:
            old, new = before["cgroups"].get(folder) or {}, after["cgroups"].get(folder) or {}
            grown += [new[key] - old[key] for key in keys if key in old and key in new]
        return sum(grown) if grown else None

    return {
        "window_s": window,
        "cpu_ticks": round(total / after["cpu"]["tick_s"]) if spent else None,
        "steal_share": spent["steal"] / total if total > 0 else None,
        "busy_share": sum(spent[key] for key in BUSY) / total if total > 0 else None,
        "runnable_per_cpu": load["running"] / cpu["cpus"] if load and cpu else None,
        "own_runnable_per_cpu": max(own) / cpu["cpus"] if own and cpu else None,
        "memory_full_share": None if None in waits or window <= 0 else (waits[1] - waits[0]) / window,
        "memory_limit_hits": count("memory.events:max", "memory.failcnt"),
        "throttled_periods": count("cpu.stat:nr_throttled"),
        "oom_kills": count("memory.events:oom_kill", "memory.oom_control:oom_kill"),
    }
