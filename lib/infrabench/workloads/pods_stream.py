"""pods-stream: memory bandwidth of four kernels in many pods at once, by `ib-stream`, behind a barrier.

Every pod has three arrays of ``array_bytes`` and touches them; when all are ready they start at one instant and work
until ``seconds`` have passed since it, on ``threads`` threads each. Metrics: ``KERNEL_B_per_s`` (copy, scale, add,
triad), the sum over the pods, and ``KERNEL_pod_B_per_s``, the mean of a pod; a pod's rate is that of the workload
``stream``. Its time includes waiting for a processor that other pods use: that is what many pods cost each other. What
all pods hold together should be larger than the last-level caches; each pod's own report in the raw output says how
large those are.

``start_spread_s``: from the first to the last start, as the tool itself noted when it woke up for the instant (20 ms
before it), on the conductor's clock. A trial in which they are more than a tenth of a second apart is invalid: sums
would add up what did not run together. ``begin_spread_s``: from the first to the last pod that began its first kernel.
With more pods than processors that is longer, since each begins when it gets one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from infrabench.core import Capture, Measurements, Param, Params, ParseError, Roles, Steps
from infrabench.workloads import _pods, stream
from infrabench.workloads._parse import higher, lower, value, within

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
    """Return the bandwidths and the spread of the starts; `NotAsClaimed` when pods did not start together."""
    run = _pods.read(capture, GATE)
    reports = [_report(pod, run.go_s, capture.params) for pod in run.pods]
    awake, begun = (
        [value(stream.TOOL, report, key) - pod.offset_s for report, pod in zip(reports, run.pods, strict=True)]
        for key in ("awake_s", "begun_s")
    )
    apart_s = _pods.together(awake, stream.TOOL)
    found: dict[str, float] = {}
    for kernel in stream.ARRAYS_MOVED:
        total = math.fsum(stream.bandwidth(report, kernel) for report in reports)
        found |= {f"{kernel}_B_per_s": total, f"{kernel}_pod_B_per_s": total / len(reports)}
    spreads = lower("s", start_spread_s=apart_s, begin_spread_s=max(begun) - min(begun))
    return (*higher("B/s", **found), *spreads, *_pods.cpu(capture))


def _report(pod: _pods.Pod, go_s: float, params: Params) -> Mapping[str, Any]:
    """Return a pod's report; it has to have started at the instant, and worked as long as was asked for."""
    report = stream.read(pod.output, params)
    if value(stream.TOOL, report, "repetitions") < LEAST_ROUNDS:
        raise ParseError(stream.TOOL, f"{pod.name}: fewer than {LEAST_ROUNDS} repetitions", pod.output)
    awake_s, started_s, begun_s, ended_s = (value(stream.TOOL, report, key) - pod.offset_s for key in TIMES)
    times = [go_s - EARLY_S - _pods.CLOCK_S, awake_s, started_s, begun_s, ended_s, pod.end_s]
    if times != sorted(times) or started_s < go_s - _pods.CLOCK_S:
        raise ParseError(stream.TOOL, f"{pod.name}: its times are not in order after the instant", pod.output)
    least_s = params["seconds"] - _pods.CLOCK_S
    within(stream.TOOL, f"time that {pod.name} worked", ended_s - started_s, least_s, params["seconds"] + ROUND_S)
    return report
