"""web-rate: Apache serves one fixed page of 11 KiB, requests come at a fixed rate, whatever it makes of them.

The workload `web` keeps a number of users: who waits does not ask, and so a slow server is asked less (a closed loop).
Here requests begin at instants that were drawn before the first (an open loop), as those of many independent users do:
``rate`` a second for ``seconds``, each on a connection of its own, at exponential gaps (``arrivals`` even: all alike).
The gaps are the same for every system and block, by ``seed``. A request's time runs from its instant, and not from when
it could be begun, so what waits behind a slow answer counts (no coordinated omission). One that has no whole answer
``timeout_s`` after its instant counts with that time, and is one of ``failed_requests``.

Metrics: the mean and percentiles of all requests' times (``latency_mean_s``, ``latency_p50_s``, ``latency_p95_s``,
``latency_p99_s``), ``answers_per_s`` (whole answers by the time until the last), and ``failed_requests``. Over several
rates the mean leaves its plateau where the server cannot follow: `infrabench.stats.knee`.

`ib-rate` (its source is in the platforms' ``lab/guest/src``) says how late it began requests itself. Where that is more
than half of the mean, the times are the load generator's own: the trial has no value, and no repeat draws another one.
"""

from __future__ import annotations

from infrabench.core import Capture, DesignError, Measurements, Param, Params, ParseError, Roles, Step
from infrabench.workloads._parse import at, equal, higher, in_order, json_object, lower, positive, text, value, within
from infrabench.workloads.web import PAGE, SPARE_FILES, around, bracket

PROGRAMS = {
    "server": {"apache2": "apache2", "ib-service": ""},
    "client": {"ib-rate": "", "curl": "curl", "prlimit": "util-linux"},
}
VERSION = ("ib-rate", "--version"), r"^ib-rate (\S+)$"
TOOL = "ib-rate"
MOST_REQUESTS = 2_000_000
PARAMS = {
    "rate": Param(500, least=1, most=100_000, unit="1/s", meaning="requests that begin in a second"),
    "seconds": Param(2.0, least=0.1, most=3600, unit="s", meaning="how long requests begin"),
    "timeout_s": Param(1.0, least=0.01, most=60, unit="s", meaning="a request that takes longer is given up"),
    "arrivals": Param("poisson", choices=("poisson", "even"), meaning="gaps between requests: drawn, or all alike"),
    "seed": Param(1, least=0, most=2**32 - 1, meaning="of the gaps that are drawn"),
    "port": Param(18080, least=1, most=65535, meaning="port of the server"),
}
MOST_DELAY = 0.5  # of the mean time, that the load generator may have begun requests late
SLACK_S = 0.25  # until the last request has ended, beyond its timeout
PERCENTILES = (50, 95, 99)
METRICS = {
    "latency_mean_s": "time",
    **{f"latency_p{percent}_s": "time" for percent in PERCENTILES},
    "answers_per_s": "fixed-time rate",
    "failed_requests": "count",
}


def plan(params: Params, roles: Roles) -> tuple[Step, ...]:
    """Return start, readiness (the client gets the page), load and stop."""
    rate, seconds, port = params["rate"], params["seconds"], params["port"]
    if not 1 <= rate * seconds <= MOST_REQUESTS:
        raise DesignError(f"rate times seconds must be from 1 to {MOST_REQUESTS} requests, not {rate * seconds:g}")
    address = roles["server"].address
    waiting = int(rate * min(seconds, params["timeout_s"]))
    load = (
        "prlimit", f"--nofile={waiting + SPARE_FILES}:",
        TOOL, address, str(port), PAGE, "--rate", f"{rate:g}", "--seconds", f"{seconds:g}",
        "--timeout", f"{params['timeout_s']:g}", "--seed", str(params["seed"]),
        *(("--even",) if params["arrivals"] == "even" else ()),
    )  # fmt: skip
    url = f"http://{bracket(address)}:{port}{PAGE}"
    return around(url, Step("rate", "client", load, timeout_s=seconds + params["timeout_s"] + 30.0))


def parse(capture: Capture) -> Measurements:
    """Return mean and percentiles of the times, the rate of whole answers, and the number of failed requests."""
    report, params = json_object(TOOL, text(capture["rate"])), capture.params
    equal(TOOL, "program", str(at(TOOL, report, "program")).partition(" ")[0], TOOL)
    argv = capture["rate"].argv
    address = argv[argv.index(TOOL) + 1] if TOOL in argv[:-1] else ""
    equal(TOOL, "address", at(TOOL, report, "address"), f"{bracket(address)}:{params['port']}")
    equal(TOOL, "path", at(TOOL, report, "path"), PAGE)
    equal(TOOL, "arrivals", at(TOOL, report, "arrivals"), params["arrivals"])
    for name in ("rate", "seconds", "timeout_s", "seed"):
        equal(TOOL, name, value(TOOL, report, name), float(params[name]))
    requests, whole, late, broken = (value(TOOL, report, name) for name in ("requests", "whole", "late", "broken"))
    equal(TOOL, "requests", requests, float(int(params["rate"] * params["seconds"] + 0.5)))  # as it rounds
    equal(TOOL, "requests of each kind", whole + late + broken, requests)
    positive(TOOL, "whole answers", whole)
    timeout_s, elapsed_s = float(params["timeout_s"]), positive(TOOL, "elapsed_s", value(TOOL, report, "elapsed_s"))
    ordered_s = [positive(TOOL, "a time", value(TOOL, report, f"p{percent}_s")) for percent in (50, 90, 95, 99, 100)]
    in_order(TOOL, "times", ordered_s, str(report))
    # A whole answer may have come a moment after its time, before that was looked at.
    within(TOOL, "the longest time", ordered_s[-1], 0, timeout_s + SLACK_S)
    mean_s = within(TOOL, "the mean time", value(TOOL, report, "mean_s"), 0, ordered_s[-1])
    failed = late + broken
    if mean_s < failed * timeout_s / requests * (1 - 1e-6):
        raise ParseError(
            TOOL, f"{failed:g} requests of {timeout_s:g} s are more than a mean of {mean_s:g} s", str(report)
        )
    delay_s = within(TOOL, "delay_mean_s", value(TOOL, report, "delay_mean_s"), 0, value(TOOL, report, "delay_max_s"))
    if delay_s > MOST_DELAY * mean_s:
        # Not invalid: it would be repeated until the times are long enough.
        raise ParseError(
            TOOL, f"the load generator began requests {delay_s * 1e3:.3g} ms late on average, of {mean_s * 1e3:.3g} ms "
            "that they took: lower the rate, or give the client a processor of its own", str(report),
        )  # fmt: skip
    return (
        *lower("s", latency_mean_s=positive(TOOL, "the mean time", mean_s)),
        *lower("s", **{f"latency_p{each}_s": value(TOOL, report, f"p{each}_s") for each in PERCENTILES}),
        *higher("1/s", answers_per_s=whole / elapsed_s),
        *lower("1", failed_requests=failed),
    )
