"""Watching hosts while a trial runs, and the rules that make it invalid, or failed, without looking at its metric.

A host has one long-lived process, asked once before and once after the measurement; the rules are pure functions of two
of its samples.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

from infrabench.core import Guards, Host, SiteError, Stream, add_up
from infrabench.machines.hosts.remote_shell import probe

ANSWER_S = 15.0  # a host that cannot answer its monitor for this long cannot be measured either
CLOCK_S = 0.5  # what the two clocks of a machine may differ by after a trial, at most: see `largest_step_s`
OWN = ", by the system itself"
Sample = Mapping[str, Any]
BUSY = ("user", "nice", "system", "irq", "softirq")
CPU = (*BUSY, "idle", "iowait", "steal")


class Monitor:
    """The monitors of a session's hosts. A window is what lies between `begin` and `end`."""

    def __init__(self, streams: Mapping[str, Stream]) -> None:
        self._streams = streams

    def of(self, hosts: Iterable[str]) -> Monitor:
        """Return the monitors of these hosts alone."""
        return Monitor({host: self._streams[host] for host in dict.fromkeys(hosts)})

    def begin(self, mark: str, cgroups: Mapping[str, Sequence[str]] = MappingProxyType({})) -> dict[str, Sample]:
        """Return one sample of now by host name, and forget all earlier ones.

        `cgroups` names, by host, folders whose tasks that run or wait for a processor are counted: they are all looked
        at, which takes a tenth of a second for the thousands of a web server.
        """
        lines = {host: "\t".join((f"begin {mark}", *cgroups.get(host, ()))) for host in self._streams}
        return {host: samples[-1] for host, samples in self._ask(lines, mark).items()}

    def end(self, mark: str) -> dict[str, list[Sample]]:
        """Return the samples since `begin` by host name, 1 Hz; the last one is of now."""
        return self._ask(dict.fromkeys(self._streams, f"end {mark}"), mark)

    def _ask(self, lines: Mapping[str, str], mark: str) -> dict[str, list[Sample]]:
        for host, stream in self._streams.items():  # ask all before any answer is awaited: one round trip in all
            try:
                stream.write_line(lines[host])
            except (OSError, EOFError) as error:
                raise _lost(host, error) from error
        return {host: _read_samples(host, stream, mark) for host, stream in self._streams.items()}


@contextmanager
def watching(hosts: Sequence[Host], cgroups: Mapping[str, Sequence[str]]) -> Iterator[Monitor]:
    """Yield a `Monitor` of `hosts`; `cgroups` names, by host, the cgroup folders to read in every sample.

    Raises `SiteError` when a host has no python3 or stops answering.
    """
    with ExitStack() as stack:
        streams: dict[str, Stream] = {}
        for host in hosts:
            if host.name not in streams:
                argv = (*probe("machines/hosts/probes/monitor.py"), *cgroups.get(host.name, ()))
                streams[host.name] = stack.enter_context(host.stream(argv))
        monitor = Monitor(streams)
        monitor.begin("start")
        yield monitor


def _read_samples(host: str, stream: Stream, mark: str) -> list[Sample]:
    samples: list[Sample] = []
    while not samples or samples[-1]["mark"] != mark:
        try:
            samples.append(json.loads(stream.read_line(ANSWER_S)))
        except (OSError, EOFError, TimeoutError, ValueError) as error:
            raise _lost(host, error) from error
    return samples


def _lost(host: str, error: Exception) -> SiteError:
    return SiteError(f"{host}: its monitor stopped answering ({error}). Is the host up, and has it python3?")


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
        if abs(stepped_s) > largest_step_s(seen["window_s"]):  # tools that take times of day have measured that too
            invalid.append(f"{host}: its clock was set by {stepped_s:+.2f} s while it was measured, or it slept")
        if seen["oom_kills"]:
            failed.append(f"{host}: {seen['oom_kills']} processes of the system were killed for want of memory")
    return Judgement(invalid, failed, conditions)


def largest_step_s(window_s: float) -> float:
    """Return by how much a clock may be set in a window: little of what is measured, and what two readings may miss."""
    return min(CLOCK_S, 0.02 + 0.01 * window_s)


def _conditions(before: Sample, after: Sample, cgroups: Sequence[str]) -> dict[str, Any]:
    window = after["monotonic_s"] - before["monotonic_s"]
    cpu, load, spent, total = before["cpu"], before["load"], dict[str, float](), 0.0
    if cpu and after["cpu"]:  # a counter that a kernel lets run backwards (idle, iowait) spent nothing
        spent = {key: max(0.0, after["cpu"][key] - cpu[key]) for key in CPU}
        total = add_up(spent.values())
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
        "busy_share": add_up(spent[key] for key in BUSY) / total if total > 0 else None,
        "runnable_per_cpu": load["running"] / cpu["cpus"] if load and cpu else None,
        "own_runnable_per_cpu": max(own) / cpu["cpus"] if own and cpu else None,
        "memory_full_share": None if None in waits or window <= 0 else (waits[1] - waits[0]) / window,
        "memory_limit_hits": count("memory.events:max", "memory.failcnt"),
        "throttled_periods": count("cpu.stat:nr_throttled"),
        "oom_kills": count("memory.events:oom_kill", "memory.oom_control:oom_kill"),
    }
