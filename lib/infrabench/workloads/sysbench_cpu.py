"""sysbench-cpu: prime numbers on all threads, by sysbench 1.0.

With ``events`` = 0 a trial lasts ``seconds`` and the metric is the rate ``events_per_s``; with ``events`` > 0 it is
that much work and ``total_s`` is reported too, as the published studies did (sysbench 0.4.12: 10000 events).
``latency_avg_s`` and ``latency_p95_s`` are of single events; sysbench prints hundredths of a millisecond, so at the
default prime limit they carry two significant digits and the rate is the metric to compare.
"""

from __future__ import annotations

from infrabench.core import Capture, DesignError, Measurements, Param, Params, ParseError, Roles, Step, Steps
from infrabench.workloads import _parse
from infrabench.workloads._parse import Field, equal, higher, lower, one, positive, text, within

PARAMS = {
    "threads": Param(1, least=1, meaning="threads"),
    "seconds": Param(
        10.0, least=1, unit="s", meaning="length of the run; not used when events is given", instead="events"
    ),
    "events": Param(0, least=0, meaning="fixed amount of work instead; 0: none", work=True),
    "cpu_max_prime": Param(10000, least=3, meaning="largest number that is tested for being prime"),
}
PROGRAMS = {"server": {"sysbench": "sysbench"}}
VERSION = ("sysbench", "--version"), r"^sysbench (\S+)$"
TOOL = "sysbench cpu"
READS = ("1.0.20",)
# The last line of a report proves that nothing is cut off before it.
END = rf"^ +execution time \(avg/stddev\): +{_parse.NUMBER}/{_parse.NUMBER}$\n\n\Z"
TOTALS = {"total time": Field(r"^ +total time: +NUMs$"), "events": Field(r"^ +total number of events: +NUM$")}
REPORT = {
    "number of threads": Field(r"^Number of threads: NUM$", equals="threads"),
    "prime limit": Field(r"^Prime numbers limit: NUM$", equals="cpu_max_prime"),
    "rate": Field(r"^ +events per second: +NUM$"),
    **TOTALS,
}
# sysbench's rate and events / total time differ by its own start and stop: milliseconds, tens of them where it waits
# for a processor, however short the run is, and more under a quota.
RATE_TOLERANCE, START_STOP_S, LEAST_START_STOP_S = 0.1, 0.25, 0.05
BUCKET = 1.02  # the percentile is the border of a bucket, of 1024 that reach from 1 us to 100 s: each is 1.8 % wide
EARLY = 0.001  # share of the time by which a timer may be early
ROUNDED = HALF_HUNDREDTH = 0.0051  # ms, and events a second: half of what is printed
LATENCIES = rf"""^Latency \(ms\):
 +min: +{_parse.NUMBER}
 +avg: +{_parse.NUMBER}
 +max: +{_parse.NUMBER}
 +95th percentile: +{_parse.NUMBER}
 +sum: +{_parse.NUMBER}
$"""
METRICS = {
    "events_per_s": {"events": "fixed-time rate", "total_s": "fixed-work rate"},
    "total_s": "total time",
    **dict.fromkeys(("latency_avg_s", "latency_p95_s"), "time"),
    "events": "quantity",
}


def plan(params: Params, roles: Roles) -> Steps:
    """Return the one run; `DesignError` for a time that sysbench would not take."""
    given, events = params["seconds"], params["events"]
    if given % 1:
        raise DesignError(f"sysbench-cpu: seconds must be whole, sysbench would round {given:g}")
    seconds = 0 if events else round(given)
    return (Step("sysbench", "server", command(params), timeout_s=2 * seconds + 60.0 + events / 10),)


def command(params: Params) -> tuple[str, ...]:
    """Return sysbench's command."""
    # sysbench takes whole seconds only. With a fixed amount of work there is no time limit of its own.
    seconds = 0 if params["events"] else round(params["seconds"])
    return (
        "sysbench", "cpu", f"--threads={params['threads']}", f"--time={seconds}", f"--events={params['events']}",
        f"--cpu-max-prime={params['cpu_max_prime']}", "run",
    )  # fmt: skip


def parse(capture: Capture) -> Measurements:
    """Return rate, latencies, number of events, and the total time when the amount of work was fixed."""
    return read(text(capture["sysbench"]), capture.params)


def read(
    output: str, params: Params, tolerance: float = RATE_TOLERANCE, start_stop_s: float = START_STOP_S
) -> Measurements:
    """Return what one run of sysbench with `params` says; `ParseError` when it is another run, or not whole.

    `tolerance` is the largest share by which its own rate and that of its events over its total time may differ, and
    `start_stop_s` the longest time that this may be; `LEAST_START_STOP_S` is allowed to the shortest run.
    """
    one(TOOL, "the end of the report", END, output)
    report = _parse.read_fields(TOOL, REPORT, output, params)
    rate = positive(TOOL, "events per second", report["rate"])
    total_s, events = (positive(TOOL, name, report[name]) for name in TOTALS)
    slack_s = min(max(tolerance * events / rate, LEAST_START_STOP_S), start_stop_s)
    _parse.check_rate(TOOL, "events", events, total_s, rate, HALF_HUNDREDTH, slack_s, output)
    average_s, longest_s, p95_s = latencies_s(output, events)
    found = (*higher("1/s", events_per_s=rate), *lower("s", latency_avg_s=average_s, latency_p95_s=p95_s))
    if params["events"]:
        equal(TOOL, "number of events", events, float(params["events"]))
        return (*found, *lower("s", total_s=total_s))
    seconds = round(params["seconds"])
    check_time(total_s, seconds, longest_s, min(tolerance * seconds, start_stop_s))
    return (*found, *higher("1", events=events))


def latencies_s(output: str, events: float) -> tuple[float, float, float]:
    """Return mean, longest and 95th percentile of the latencies of `events`, in seconds: what sysbench tells in ms.

    `ParseError` for another unit, and when they are not those of so many events. sysbench prints hundredths; its
    percentile is the border of a bucket, and may be above the longest by as much as that is wide.
    """
    block = one(TOOL, "latencies in ms", LATENCIES, output)
    least, average, longest, p95, whole = (_parse.quantity(TOOL, "a latency in ms", each) for each in block.groups())
    within(TOOL, "the sum of the latencies", whole, (average - ROUNDED) * events, (average + ROUNDED) * events)
    if not least <= average <= longest or not least / BUCKET - ROUNDED <= p95 <= BUCKET * longest + ROUNDED:
        raise ParseError(TOOL, "latencies are not in order", block[0])
    return average / 1000, longest / 1000, p95 / 1000


def check_time(total_s: float, seconds: float, longest_s: float, late_s: float) -> None:
    """Raise `ParseError` unless a run lasted as long as it was to.

    A thread looks at the time between two events, so it may be later by one event, of which there may be one for each
    processor that threads wait for: that is in the longest latency. `late_s` is for start and end.
    """
    within(TOOL, "total time", total_s, (1 - EARLY) * seconds, seconds + late_s + longest_s)
