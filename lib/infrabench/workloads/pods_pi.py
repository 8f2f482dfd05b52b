"""pods-pi: the time in which many pods at once compute pi to ``digits`` decimals, from one instant on.

``program``: ``pi`` (of the number library CLN, one thread), ``y-cruncher`` (all processors; where its user has put it
into the pods), or ``auto``: y-cruncher where it is there, else pi. Every pod's digits are compared with digits that are
computed here: a pod that is wrong makes the trial unparsable.

Metrics, from the times at which tools started and ended and the CPU time that the pods' kernel counted for them:

* ``time_s``: mean over the pods of end minus start;
* ``all_done_s``: last end minus the instant at which all were to start;
* ``cpu_utilisation_percent`` = 100 x (CPU seconds that the node's machine was busy while the tools ran, all that their
  runtimes did included) / ``all_done_s``: in percent of one processor, so that two busy processors are 200;
* ``efficiency_percent`` = ``cpu_utilisation_percent`` / number of processors that the pods share (those the conductor
  may use): about 100 where none of them was ever idle.

Both say how busy the processors were, not how fast the pods were: a runtime that spends more on the same digits raises
them. They are the machine's count and not the pods' own: a pod with a kernel of its own (gVisor, Kata) counts time that
it was given only in part. The machine counts each processor in steps of 10 ms, and until the last pod has told its end.
With y-cruncher ``computation_s``, ``told_utilisation_percent`` and ``told_efficiency_percent`` are the pods' means of
what each one tells of itself.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

from infrabench.core import (
    Capture,
    Deployment,
    Measurement,
    MetricKind,
    NotRunnable,
    Param,
    ParseError,
    Step,
    Target,
)
from infrabench.workloads import _barrier_output, _counters, _pods, _ycruncher
from infrabench.workloads._barrier_output import Run
from infrabench.workloads._digits import decimals
from infrabench.workloads._parse import equal, json_object, one, positive, value

VERSION = ("pi", "--version"), r"^pi \(CLN ([0-9.]+)\)$"
TOOL = "pi"
READS = ("1.3.6",)
CHOICES = ("auto", TOOL, _ycruncher.TOOL)
PARAMS: Mapping[str, Param] = {
    **_pods.PODS,
    "digits": Param(100_000, least=50, most=10**9, meaning="decimals of pi"),
    "program": Param("auto", choices=CHOICES, meaning="pi of CLN or y-cruncher; auto: y-cruncher where it is"),
}
SCRIPT = 'pi "$0" | sha256sum'
# The conductor sees its node's processors: their times at the instant and at the end go to its standard error.
STAT = ("--stat", "/proc/stat")
SLOWEST = 10_000  # digits a second of a pod that has a processor for itself: far below any
LEAST_S = 60.0
METRICS: Mapping[str, MetricKind] = {
    "time_s": "time",
    "all_done_s": "time",
    "cpu_utilisation_percent": "quantity",
    "efficiency_percent": "quantity",
    "computation_s": "time",
    "told_utilisation_percent": "quantity",
    "told_efficiency_percent": "quantity",
    "cpu_percent": "quantity",
}


def plan(params: Mapping[str, Any], roles: Mapping[str, Target]) -> Sequence[Step]:
    """Return the steps around one computation in all pods."""
    digits = params["digits"]
    command = _command(params, roles)
    limit_s = LEAST_S + params["pods"] * digits / SLOWEST
    first, *others = _pods.conducted(params, roles, command, min(limit_s, 3600.0), STAT)
    facts = Step("facts", "conductor", ("ib-pods", "facts"), timeout_s=_pods.COMMAND_S, phase="prepare")
    return (first, facts, *others)


def supported(deployment: Deployment) -> str | None:
    """Return None, or what is missing."""
    return _pods.without(deployment, TOOL)


def parse(capture: Capture) -> Sequence[Measurement]:
    """Return the times and what the processors did; `ParseError` when a pod computed anything but pi."""
    run = _barrier_output.read(capture)
    cpus = positive(TOOL, "processors", value(TOOL, json_object(TOOL, _pods.whole(capture, "facts")), "cpus"))
    used = _ycruncher.TOOL if _ycruncher.is_validation(run.pods[0].output) else TOOL
    if capture.params["program"] != "auto":
        equal(TOOL, "program", used, capture.params["program"])
    told = _ycruncher_rows(run, capture.params["digits"]) if used == _ycruncher.TOOL else ()
    if used == TOOL:
        _check(run, capture.params["digits"])
    all_done_s = positive(TOOL, "time", run.span_s)
    time_s = math.fsum(pod.end_s - pod.start_s for pod in run.pods) / len(run.pods)
    busy = _counters.busy_s(capture["run"].stderr.decode("utf-8", "replace"))
    percent = 100 * positive(TOOL, "CPU time", busy) / all_done_s
    return (
        Measurement("time_s", positive(TOOL, "time", time_s), "s", "lower"),
        Measurement("all_done_s", all_done_s, "s", "lower"),
        Measurement("cpu_utilisation_percent", percent, "%", "higher"),
        Measurement("efficiency_percent", percent / cpus, "%", "higher"),
        *told,
        *_pods.cpu(capture),
    )


def _command(params: Mapping[str, Any], roles: Mapping[str, Target]) -> tuple[str, ...]:
    """Return the command of one pod. Where y-cruncher is, the life cycle of ``control`` says by its name."""
    path = roles["control"].lifecycle.get(_ycruncher.TOOL) if "control" in roles else None
    if params["program"] == _ycruncher.TOOL and path is None:
        raise NotRunnable("y-cruncher is not in its pods")
    if path is None or params["program"] == TOOL:
        return ("sh", "-c", SCRIPT, str(params["digits"] + 1))  # pi counts the 3 as well
    return _ycruncher.command(path[0], params["digits"])


def _check(run: Run, digits: int) -> None:
    """Compare every pod's hash of its output with that of the digits."""
    right = hashlib.sha256(f"3.{decimals(digits)}\n".encode()).hexdigest()
    for pod in run.pods:
        found = one(TOOL, f"the hash of {pod.name}", r"\A([0-9a-f]{64})  -\n\Z", pod.output)[1]
        if found != right:
            raise ParseError(TOOL, f"{pod.name} computed other digits than those of pi", pod.output)


def _ycruncher_rows(run: Run, digits: int) -> tuple[Measurement, ...]:
    """Return what y-cruncher tells of itself, once the digits of every pod are known to be right."""
    right = _ycruncher.decimal_hash(decimals(digits))
    reports = [_ycruncher.read(pod.output) for pod in run.pods]
    for pod, report in zip(run.pods, reports, strict=True):
        equal(_ycruncher.TOOL, f"decimals of {pod.name}", report.decimals, digits)
        equal(_ycruncher.TOOL, f"hash of the decimals of {pod.name}", report.hash, right)
    means = [
        math.fsum(getattr(report, name) for report in reports) / len(reports)
        for name in ("computation_s", "utilisation_percent", "efficiency_percent")
    ]
    return (
        Measurement("computation_s", means[0], "s", "lower"),
        Measurement("told_utilisation_percent", means[1], "%", "higher"),
        Measurement("told_efficiency_percent", means[2], "%", "higher"),
    )
