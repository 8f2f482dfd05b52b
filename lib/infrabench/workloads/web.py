"""web: Apache serves one fixed page of 11 KiB, ApacheBench on the client asks for it with many users at once.

``users`` is ab's number of concurrent connections, ``requests`` the number of requests in all (at least one a user),
each on a connection of its own (no keep-alive). Metrics: ``total_s``, ``requests_per_s``, percentiles of the time of
a request ``latency_p50_s``, ``latency_p95_s``, ``latency_p99_s``, and ``failed_requests`` (failures and answers other
than 2xx; with few of them a trial is still one, and they stand beside its rate). ab is not told to go on after a
reset connection (``-r``): such a trial failed. ab itself uses one thread, so on a fast server it can be the limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from infrabench.core import Capture, Deployment, DesignError, Measurement, ParseError, Step, Target
from infrabench.workloads._reading import at_least, equal, missing, number, one, positive, quantity, text, tool_version

DEFAULTS: Mapping[str, Any] = {"users": 1000, "requests": 10000, "port": 18080}
NEEDS = {
    "server": {"apache2": "apache2", "ib-service": ""},
    "client": {"ab": "apache2-utils", "curl": "curl", "prlimit": "util-linux"},
}
TOOL = "ab"
PAGE = "/index.html"
PAGE_BYTES = 11264
MOST_USERS = 20000  # ab's own limit
CSV = "/tmp/infrabench-ab.csv"
SPARE_FILES = 1024  # descriptors beyond one for each user
# The percentiles that ab prints are whole milliseconds; those that it writes to a file have microseconds.
SCRIPT = 'file=$1; shift; "$@" && cat "$file"; status=$?; rm -f "$file"; exit $status'
NUMBER = r"([0-9]+(?:\.[0-9]+)?)"


def plan(params: Mapping[str, Any], roles: Mapping[str, Target]) -> Sequence[Step]:
    """Return start, readiness (the client gets the page), load and stop."""
    users, requests, port = params["users"], params["requests"], params["port"]
    at_least("users", users, 1)
    at_least("requests", requests, users)
    if users > MOST_USERS:
        raise DesignError(f"ab takes at most {MOST_USERS} users, not {users}")
    url = f"http://{roles['server'].address}:{port}{PAGE}"
    ready = ("curl", "--fail", "--silent", "--show-error", "--max-time", "2", "--output", "/dev/null", url)
    load = (
        "sh", "-c", SCRIPT, "sh", CSV, "prlimit", f"--nofile={users + SPARE_FILES}:",
        TOOL, "-q", "-s", "60", "-n", str(requests), "-c", str(users), "-e", CSV, url,
    )  # fmt: skip
    return (
        Step("start", "server", ("ib-service", "start", "web"), phase="prepare"),
        Step("ready", "client", ready, timeout_s=5.0, phase="prepare", until_ok_s=20.0),
        Step("ab", "client", load, timeout_s=120.0 + requests / 100),
        Step("stop", "server", ("ib-service", "stop", "web"), phase="cleanup"),
    )


def version(target: Target) -> str:
    """Return ab's version; the web server's is that of the image."""
    return tool_version(target, TOOL, r"^This is ApacheBench, Version (\S+) ", TOOL, "-V")


def supported(deployment: Deployment) -> str | None:
    """Return None, or which part of the web server is missing."""
    return missing(deployment, *NEEDS["server"])


def parse(capture: Capture) -> Sequence[Measurement]:
    """Return total time, rate, latency percentiles and the number of failed requests."""
    output = text(capture["ab"])
    latency_s = _percentiles(output)
    users = number(TOOL, "concurrency", rf"^Concurrency Level: +{NUMBER}$", output)
    equal(TOOL, "concurrency", users, float(capture.params["users"]))
    complete = number(TOOL, "complete requests", rf"^Complete requests: +{NUMBER}$", output)
    equal(TOOL, "complete requests", complete, float(capture.params["requests"]))
    size = number(TOOL, "document length", rf"^Document Length: +{NUMBER} bytes$", output)
    equal(TOOL, "length of the page", size, float(PAGE_BYTES))
    total_s = positive(TOOL, "time", number(TOOL, "time taken", rf"^Time taken for tests: +{NUMBER} seconds$", output))
    rate = number(TOOL, "rate", rf"^Requests per second: +{NUMBER} \[#/sec\] \(mean\)$", output)
    # The time is printed in whole milliseconds, the rate is not.
    if abs(complete / positive(TOOL, "rate", rate) - total_s) > 0.001 + 0.01 * total_s:
        raise ParseError(TOOL, f"{complete:g} requests in {total_s:g} s are not {rate:g} per second", output)
    # ab 2.3 may tell of a request that took a hundred thousand years, and not at its place.
    if list(latency_s.values()) != sorted(latency_s.values()) or latency_s[100] > total_s + 0.001:
        raise ParseError(TOOL, f"percentiles are not in order, or above the {total_s:g} s of all", output[-200:])
    failed = number(TOOL, "failed requests", rf"^Failed requests: +{NUMBER}$", output)
    if "Non-2xx responses:" in output:  # ab leaves the line out when there is none
        failed += number(TOOL, "other answers", rf"^Non-2xx responses: +{NUMBER}$", output)
    return (
        Measurement("total_s", total_s, "s", "lower"),
        Measurement("requests_per_s", rate, "1/s", "higher"),
        *(Measurement(f"latency_p{p}_s", latency_s[p], "s", "lower") for p in (50, 95, 99)),
        Measurement("failed_requests", failed, "1", "lower"),
    )


def _percentiles(output: str) -> dict[int, float]:
    """Return percentile -> seconds from the CSV that follows ab's report."""
    pattern = rf"^Percentage served,Time in ms\n((?:[0-9]{{1,3}},{NUMBER}\n)+)\Z"
    table = one(TOOL, "the table of percentiles", pattern, output)
    rows = [line.split(",") for line in table[1].splitlines()]
    equal(TOOL, "the list of percentiles", [int(percent) for percent, _ in rows], list(range(101)))
    return {int(percent): quantity(TOOL, "a percentile", time_ms) / 1000 for percent, time_ms in rows}
