"""sysbench-cpu: prime numbers on all threads, by sysbench 1.0.

With ``events`` = 0 a trial lasts ``seconds`` and the metric is the rate ``events_per_s``; with ``events`` > 0 it is
that much work and ``total_s`` is reported too, as the published studies did (sysbench 0.4.12: 10000 events).
``latency_avg_s`` and ``latency_p95_s`` are of single events; sysbench prints hundredths of a millisecond, so at the
default prime limit they carry two significant digits and the rate is the metric to compare.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from infrabench.core import Capture, Deployment, Measurement, ParseError, Step, Target
from infrabench.workloads._reading import at_least, equal, missing, number, one, positive, text, tool_version

DEFAULTS: Mapping[str, Any] = {
    "threads": 1,
    "seconds": 10.0,  # length of the run; not used when `events` is given
    "events": 0,  # fixed amount of work instead; 0: none
    "cpu_max_prime": 10000,
}
NEEDS = {"server": {"sysbench": "sysbench"}}
TOOL = "sysbench cpu"
NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
# sysbench's rate and events / total time differ by its own start and stop, a few per cent in the shortest runs.
RATE_TOLERANCE = 0.1


def plan(params: Mapping[str, Any], roles: Mapping[str, Target]) -> Sequence[Step]:
    """Return the one run; `DesignError` when a parameter is out of range."""
    seconds = 0 if params["events"] else round(params["seconds"])
    return (Step("sysbench", "server", command(params), timeout_s=2 * seconds + 60.0 + params["events"] / 10),)


def command(params: Mapping[str, Any]) -> tuple[str, ...]:
    """Return sysbench's command; `DesignError` when a parameter is out of range."""
    for name, lowest in (("threads", 1), ("seconds", 1), ("events", 0), ("cpu_max_prime", 3)):
        at_least(name, params[name], lowest)
    # sysbench takes whole seconds only. With a fixed amount of work there is no time limit of its own.
    seconds = 0 if params["events"] else round(params["seconds"])
    return (
        "sysbench", "cpu", f"--threads={params['threads']}", f"--time={seconds}", f"--events={params['events']}",
        f"--cpu-max-prime={params['cpu_max_prime']}", "run",
    )  # fmt: skip


def version(target: Target) -> str:
    """Return sysbench's version."""
    return tool_version(target, TOOL, r"^sysbench (\S+)$", "sysbench", "--version")


def supported(deployment: Deployment) -> str | None:
    """Return None, or that sysbench is missing."""
    return missing(deployment, *NEEDS["server"])


def parse(capture: Capture) -> Sequence[Measurement]:
    """Return rate, latencies, number of events, and the total time when the amount of work was fixed."""
    return read(text(capture["sysbench"]), capture.params)


def read(output: str, params: Mapping[str, Any], tolerance: float = RATE_TOLERANCE) -> Sequence[Measurement]:
    """Return what one run of sysbench with `params` says; `ParseError` when it is another run, or not whole.

    `tolerance` is the largest share by which its own rate and that of its events over its total time may differ.
    """
    # The last line proves that nothing is cut off before it.
    one(TOOL, "the end of the report", rf"^ +execution time \(avg/stddev\): +{NUMBER}/{NUMBER}$\n\n\Z", output)
    threads = number(TOOL, "number of threads", rf"^Number of threads: {NUMBER}$", output)
    equal(TOOL, "number of threads", threads, float(params["threads"]))
    rate = positive(TOOL, "events per second", number(TOOL, "rate", rf"^ +events per second: +{NUMBER}$", output))
    total_s = positive(TOOL, "total time", number(TOOL, "total time", rf"^ +total time: +{NUMBER}s$", output))
    events = positive(TOOL, "events", number(TOOL, "events", rf"^ +total number of events: +{NUMBER}$", output))
    if abs(events / total_s / rate - 1.0) > tolerance:
        raise ParseError(TOOL, f"{events:g} events in {total_s:g} s are not {rate:g} per second", output)
    average_ms = number(TOOL, "average latency", rf"^ +avg: +{NUMBER}$", output)
    p95_ms = number(TOOL, "95th percentile", rf"^ +95th percentile: +{NUMBER}$", output)
    found = [
        Measurement("events_per_s", rate, "1/s", "higher"),
        Measurement("latency_avg_s", average_ms / 1000, "s", "lower"),
        Measurement("latency_p95_s", p95_ms / 1000, "s", "lower"),
    ]
    if params["events"]:
        equal(TOOL, "number of events", events, float(params["events"]))
        return (*found, Measurement("total_s", total_s, "s", "lower"))
    return (*found, Measurement("events", events, "1", "higher"))
