"""pods-stream: memory bandwidth of four kernels in many pods at once, by `ib-stream`, behind a barrier.

Every pod has three arrays of ``array_bytes`` and touches them; when all are ready they start at one instant and work
until ``seconds`` have passed since it, on ``threads`` threads each. What counts is the time in which all of them work:
after the last pod's first repetition, which `stream` leaves out too, until the first pod ends. Metrics:
``KERNEL_pod_B_per_s`` (copy, scale, add, triad), the bytes that all pods move in it by a kernel over the time that they
spend in that kernel, and ``KERNEL_B_per_s``, so many times that as there are pods. (The sum of the rates that pods have
over times of their own would be too high: who begins late counts what it moves while others rest already.) Time
includes waiting for a processor that other pods use: that is what many pods cost each other. What all pods hold
together should be larger than the last-level caches; each pod's own report in the raw output says how large those are.

``start_spread_s``: from the first to the last start, as the tool itself noted when it woke up for the instant (20 ms
before it), on the conductor's clock. A trial in which they are more than a tenth of a second apart is invalid, and so
is one whose pods all work together for less than a quarter of ``seconds``. ``begin_spread_s``: from the first to the
last pod that began its first kernel. With more pods than processors that is longer, since each begins when it gets one.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

from infrabench.core import Capture, Measurements, NotAsClaimed, Param, Params, ParseError, Roles, Steps
from infrabench.workloads import _pods, stream
from infrabench.workloads._parse import higher, lower, positive, value, within

VERSION = stream.VERSION
PARAMS = {
    **_pods.PODS,
    "array_bytes": Param(32 * 2**20, least=4096, unit="B", meaning="size of each of the three arrays of a pod"),
    "seconds": Param(5.0, least=0.1, unit="s", meaning="how long each pod works"),
    "threads": Param(1, least=1, meaning="threads of a pod"),
}
GATE = "stdin"
ROUND_S = 60.0  # longest first touch, and longest three rounds beyond the time: with all other pods on the processors
LEAST_ROUNDS = 3
LEAST_SHARE = 0.25  # of the time, in which all pods work
EARLY_S = 0.02  # how long before the instant it wakes up
TIMES = ("awake_s", "started_s", "begun_s", "ended_s")
supported = _pods.needing(stream.TOOL)
METRICS = {
    **{f"{kernel}_{each}": "fixed-time rate" for kernel in stream.ARRAYS_MOVED for each in ("B_per_s", "pod_B_per_s")},
    **dict.fromkeys(("start_spread_s", "begin_spread_s"), "time"),
    "cpu_percent": "quantity",
}


def plan(params: Params, roles: Roles) -> Steps:
    """Return the steps around one run of ib-stream in all pods."""
    # Threads are not bound: every pod would bind its first one to the same processor.
    command = (
        stream.TOOL, "--wait", "--threads", str(params["threads"]), "--seconds", f"{params['seconds']:g}",
        "--array-bytes", str(params["array_bytes"]),
    )  # fmt: skip
    return _pods.conducted(params, roles, command, params["seconds"] + ROUND_S, ("--gate", GATE))


def parse(capture: Capture) -> Measurements:
    """Return the bandwidths and the spread of the starts; `NotAsClaimed` when pods did not start or work together."""
    run, seconds = _pods.read(capture, GATE), capture.params["seconds"]
    read = [_report(pod, run.go_s, capture.params) for pod in run.pods]
    reports, awake, begun, ended = zip(*read, strict=True)
    apart_s = _pods.together(awake, stream.TOOL)
    # Seconds since the instant: those since 1970 are exact to a quarter of a microsecond only.
    calls = [_calls(report, at_s - run.go_s) for report, at_s in zip(reports, begun, strict=True)]
    ends = [at_s - run.go_s for at_s in ended]
    if any(each[-1][3] > end_s + _pods.CLOCK_S for each, end_s in zip(calls, ends, strict=True)):
        raise ParseError(stream.TOOL, "a pod's calls take longer than from its begin to its end", "")
    since_s, until_s = max(each[len(stream.ARRAYS_MOVED) - 1][3] for each in calls), min(ends)
    if until_s - since_s < LEAST_SHARE * seconds:
        raise NotAsClaimed(f"said that all pods work {seconds:g} s together, but do for {until_s - since_s:.3f} s")
    moved, spent = dict.fromkeys(stream.ARRAYS_MOVED, 0.0), dict.fromkeys(stream.ARRAYS_MOVED, 0.0)
    for kernel, amount, start_s, end_s in chain(*calls):
        inside_s = max(0.0, min(end_s, until_s) - max(start_s, since_s))
        moved[kernel] += amount * inside_s / (end_s - start_s)
        spent[kernel] += inside_s
    found: dict[str, float] = {}
    for kernel in stream.ARRAYS_MOVED:
        rate = moved[kernel] / positive(stream.TOOL, f"time of {kernel}", spent[kernel])
        found |= {f"{kernel}_B_per_s": rate * len(calls), f"{kernel}_pod_B_per_s": rate}
    spreads = lower("s", start_spread_s=apart_s, begin_spread_s=max(begun) - min(begun))
    return (*higher("B/s", **found), *spreads, *_pods.cpu(capture))


def _calls(report: Mapping[str, Any], begun_s: float) -> list[tuple[str, float, float, float]]:
    """Return kernel, bytes, start and end of every call of a pod: each begins where the one before it ends."""
    kernels = {kernel: stream.read_times(report, kernel) for kernel in stream.ARRAYS_MOVED}
    calls, now_s = [], begun_s
    for times in zip(*(times for _, times in kernels.values()), strict=True):
        for (kernel, (moved, _)), took_s in zip(kernels.items(), times, strict=True):
            calls.append((kernel, moved, now_s, now_s + took_s))
            now_s += took_s
    return calls


def _report(pod: _pods.Pod, go_s: float, params: Params) -> tuple[Mapping[str, Any], float, float, float]:
    """Return a pod's report, and when it woke up, began and ended (conductor's clock).

    It has to have started at the instant, and worked as long as was asked for.
    """
    report = stream.read(pod.output, params)
    if value(stream.TOOL, report, "repetitions") < LEAST_ROUNDS:
        raise ParseError(stream.TOOL, f"{pod.name}: fewer than {LEAST_ROUNDS} repetitions", pod.output)
    awake_s, started_s, begun_s, ended_s = (value(stream.TOOL, report, key) - pod.offset_s for key in TIMES)
    times = [go_s - EARLY_S - _pods.CLOCK_S, awake_s, started_s, begun_s, ended_s, pod.end_s]
    if times != sorted(times) or started_s < go_s - _pods.CLOCK_S:
        raise ParseError(stream.TOOL, f"{pod.name}: its times are not in order after the instant", pod.output)
    least_s = params["seconds"] - _pods.CLOCK_S
    within(stream.TOOL, f"time that {pod.name} worked", ended_s - started_s, least_s, params["seconds"] + ROUND_S)
    return report, awake_s, begun_s, ended_s
