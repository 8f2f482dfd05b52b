"""pods-sysbench-cpu: prime numbers in many pods at once, by sysbench, from one instant on for ``seconds``.

Metrics: ``events_per_s`` (the events of all pods over the time from that instant until the last of them ended: how
long sysbench takes to begin counts, and weighs less the longer it runs), ``pod_events_per_s`` (mean of a pod) and
``lowest_share`` (the slowest pod over that mean: 1 where all get the same). `sysbench_cpu` describes the tool,
`_pods` the pods and ``cpu_percent``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from infrabench.core import Capture, Measurements, Param, Params, Roles, Steps
from infrabench.workloads import _pods, sysbench_cpu

VERSION = sysbench_cpu.VERSION
PARAMS = {
    **_pods.PODS,
    "seconds": Param(5, least=1, unit="s", meaning="length of the run"),
    "cpu_max_prime": sysbench_cpu.PARAMS["cpu_max_prime"],
    "threads": Param(1, least=1, meaning="threads of a pod"),
}
TOOL = "sysbench"
READS = sysbench_cpu.READS
LATE_S = 60.0  # how much later than asked for a pod may end, that shares its processor
TOLERANCE = 0.5  # the rate that sysbench tells counts its own end, which takes long where many wait for a processor
supported = _pods.needing(TOOL)
METRICS = {
    **dict.fromkeys(("events_per_s", "pod_events_per_s"), "fixed-time rate"),
    **dict.fromkeys(("lowest_share", "cpu_percent"), "quantity"),
}


def plan(params: Params, roles: Roles) -> Steps:
    """Return the steps around one run of sysbench in all pods."""
    return _pods.conducted(params, roles, sysbench_cpu.command(_bare_params(params)), 2 * params["seconds"] + LATE_S)


def parse(capture: Capture) -> Measurements:
    """Return the rates of all pods, of a pod, and the slowest one's share."""
    bare = _bare_params(capture.params)
    run = _pods.read(capture)
    done = []
    for pod in run.pods:
        values = {each.metric: each.value for each in sysbench_cpu.read(pod.output, bare, TOLERANCE, math.inf)}
        done.append(values["events"])
    return (*_pods.shares("events_per_s", "1/s", done, run.span_s), *_pods.cpu(capture))


def _bare_params(params: Params) -> Mapping[str, Any]:
    """Return the parameters of sysbench: a time, no amount of work."""
    return {**params, "events": 0}
