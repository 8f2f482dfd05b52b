"""web: Apache serves one fixed page of 11 KiB, ApacheBench on the client asks for it with many users at once.

``users`` is ab's number of concurrent connections, ``requests`` the number of requests in all (at least one a user),
each on a connection of its own (no keep-alive). Metrics: ``total_s``, ``requests_per_s``, percentiles of the time of
a request ``latency_p50_s``, ``latency_p95_s``, ``latency_p99_s``, and ``failed_requests`` (failures and answers other
than 2xx, each request once; with few of them a trial is still one: the rate is that of the others, the times are those
of all). ab is not told to go on after a reset connection (``-r``): such a trial failed. ab itself uses one thread, so
on a fast server it can be the limit.

Connections that have ended keep their port for a minute (TIME_WAIT). Where they fill the half of the ephemeral ports
that Linux tries first, each new connection searches all of it, in the kernel and on ab's processor, and the rate falls
to a tenth. So those to this server are removed before each run of ab, which takes root and changes no setting; how many
there are at its end stands in its output, and a trial with too many is refused.
"""

from __future__ import annotations

import re

from infrabench.core import Capture, Measurements, Param, Params, ParseError, Roles, Step, Steps
from infrabench.workloads import _parse
from infrabench.workloads._parse import Field, equal, higher, lower, one, positive, text, within

PROGRAMS = {
    "server": {"apache2": "apache2", "ib-service": ""},
    "client": {"ab": "apache2-utils", "curl": "curl", "prlimit": "util-linux", "ss": "iproute2"},
}
VERSION = ("ab", "-V"), r"^This is ApacheBench, Version (\S+) "
TOOL = "ab"
READS = ("2.3",)
PAGE = "/index.html"
PAGE_BYTES = 11264
MOST_USERS = 20000  # ab's own limit
PARAMS = {
    "users": Param(1000, least=1, most=MOST_USERS, meaning="requests at a time"),
    "requests": Param(10000, least=1, meaning="requests in all", work=True),
    "port": Param(18080, least=1, most=65535, meaning="port of the server"),
}
CSV = "/tmp/infrabench-ab.csv"
SPARE_FILES = 1024  # descriptors beyond one for each user
COUNT = "([0-9]{1,12})"
# The percentiles that ab prints are whole milliseconds; those that it writes to a file have microseconds.
SCRIPT = r"""
file=$1; to="dst $2 and dport = :$3"; shift 3
ss --kill --no-header --tcp --all --numeric state time-wait "$to" >/dev/null 2>&1
"$@" && cat "$file"; status=$?; rm -f "$file"
[ "$status" = 0 ] || exit "$status"
waiting=$(ss --no-header --tcp --all --numeric state time-wait "$to" | wc -l)
set -- $(cat /proc/sys/net/ipv4/ip_local_port_range /proc/sys/net/ipv4/tcp_tw_reuse)
echo "ports: $waiting of $(($2 - $1 + 1)) in TIME_WAIT, tcp_tw_reuse $3"
"""
PORTS = rf"^ports: {COUNT} of {COUNT} in TIME_WAIT, tcp_tw_reuse {COUNT}$"  # not in sessions of before
MOST_WAITING = 0.4  # of the ports: 80 % of the half that is tried first, where two are tried for each on the average
REPORT = {
    "concurrency": Field(r"^Concurrency Level: +NUM$", equals="users"),
    "length of the page": Field(r"^Document Length: +NUM bytes$", equals=PAGE_BYTES),
    "port": Field(r"^Server Port: +NUM$", equals="port"),
    "time taken": Field(r"^Time taken for tests: +NUM seconds$"),
    "rate": Field(r"^Requests per second: +NUM \[#/sec\] \(mean\)$"),
}
HALF_MS, HALF_HUNDREDTH = 0.000501, 0.00501  # half a printing step, of the time in s and of the rate
# All that ab says between two lines that are always there: what else stands in between is no report of ab.
COUNTS = rf"""^Complete requests: +{COUNT}
Failed requests: +{COUNT}
(?:   \(Connect: {COUNT}, Receive: {COUNT}, Length: {COUNT}, Exceptions: {COUNT}\)
)?(?:Write errors: +{COUNT}
)?(?:Non-2xx responses: +{COUNT}
)?Total transferred: +{COUNT} bytes
HTML transferred: +{COUNT} bytes
Requests per second: """
PERCENTILES = (50, 95, 99)
METRICS = {
    "requests_per_s": "fixed-work rate",
    "total_s": "total time",
    **{f"latency_p{percent}_s": "time" for percent in PERCENTILES},
    "failed_requests": "count",
}
LESS_FAILED = {"requests_per_s": ("total_s", "failed_requests")}


def plan(params: Params, roles: Roles) -> Steps:
    """Return start, readiness (the client gets the page), load and stop."""
    users, requests, port = params["users"], params["requests"], params["port"]
    _parse.at_least("requests", requests, users)
    host = bracket(roles["server"].address)
    url = f"http://{host}:{port}{PAGE}"
    load = (
        "sh", "-c", SCRIPT, "sh", CSV, host, str(port),
        "prlimit", f"--nofile={users + SPARE_FILES}:",
        TOOL, "-q", "-s", "60", "-n", str(requests), "-c", str(users), "-e", CSV, url,
    )  # fmt: skip
    return around(url, Step("ab", "client", load, timeout_s=120.0 + requests / 100))


def around(url: str, load: Step) -> tuple[Step, ...]:
    """Return the steps of a trial: start, readiness (the client gets the page), `load` and stop."""
    ready = ("curl", "--fail", "--silent", "--show-error", "--max-time", "2", "--output", "/dev/null", url)
    return (
        Step("start", "server", ("ib-service", "start", "web"), phase="prepare"),
        Step("ready", "client", ready, timeout_s=5.0, phase="prepare", until_ok_s=20.0),
        load,
        Step("stop", "server", ("ib-service", "stop", "web"), phase="cleanup"),
    )


def parse(capture: Capture) -> Measurements:
    """Return total time, rate, latency percentiles and the number of failed requests."""
    output = text(capture["ab"])
    latency_s = _percentiles(output)
    params = capture.params
    complete, failed = _counts(output)
    report = _parse.read_fields(TOOL, REPORT, output, params)
    names = ("Server Hostname", "Server Port", "Document Path")
    host, port, path = (one(TOOL, f"the {name.lower()}", rf"^{name}: +(\S+)$", output)[1] for name in names)
    equal(TOOL, "address", f"http://{bracket(host)}:{port}{path}", capture["ab"].argv[-1])
    _check_ports(output, host)
    equal(TOOL, "complete requests", complete, params["requests"])
    total_s, rate = positive(TOOL, "time", report["time taken"]), positive(TOOL, "rate", report["rate"])
    # ab divides the one by the other; what it prints is rounded, the time to milliseconds and the rate to hundredths.
    _parse.check_rate(TOOL, "requests", complete, total_s, rate, HALF_HUNDREDTH, HALF_MS, output)
    # ab 2.3 may tell of a request that took a hundred thousand years, and not at its place.
    if list(latency_s.values()) != sorted(latency_s.values()) or latency_s[100] > total_s + 0.001:
        raise ParseError(TOOL, f"percentiles are not in order, or above the {total_s:g} s of all", output[-200:])
    return (
        *lower("s", total_s=total_s),
        *higher("1/s", requests_per_s=positive(TOOL, "the rate of whole pages", rate * (1 - failed / complete))),
        *lower("s", **{f"latency_p{percent}_s": latency_s[percent] for percent in PERCENTILES}),
        *lower("1", failed_requests=float(failed)),
    )


def bracket(host: str) -> str:
    """Return an address as it stands in a URL."""
    return f"[{host}]" if ":" in host else host


def _counts(output: str) -> tuple[int, int]:
    """Return how many requests were complete, and how many of all were no whole page.

    ab counts an answer of another length than the page's under "Length", and one with another status than 2xx under
    "Non-2xx"; an error's answer is both, since its text has not the length of the page. They are the same requests, so
    the larger of the two counts both: they would have to be added only for pages that were cut off beside errors that
    have the very length of the page. A connection that broke while ab wrote ("Write errors") got no answer, and is
    under "Length" too. One that was refused, reset or lost has no answer to count anywhere else. There are never more
    failures than requests: ab tries again where it could not connect.
    """
    groups = one(TOOL, "the counts of requests", COUNTS, output).groups()
    complete, failed, connect, receive, length, exceptions, _, other, _, html = (int(each or 0) for each in groups)
    equal(TOOL, "failed requests", failed, connect + receive + length + exceptions)
    equal(TOOL, "the kinds of failed requests", groups[2] is not None, failed > 0)
    for name, count in (("Length", length), ("Non-2xx", other)):
        within(TOOL, f"requests under {name}", count, 0, complete)
    if html < (complete - max(length, other)) * PAGE_BYTES:
        raise ParseError(TOOL, f"{html} bytes are not the pages of {complete} requests less the failed ones", output)
    return complete, min(connect + receive + exceptions + max(length, other), complete)


def _check_ports(output: str, host: str) -> None:
    """Raise `ParseError` where ended connections held so many ports that ab had to search for free ones.

    With tcp_tw_reuse 1, and on the loopback interface with 2, the kernel gives their ports to new connections.
    """
    found = re.findall(PORTS, output, re.MULTILINE)
    for waiting, ports, reuse in (map(int, each) for each in found):
        reused = reuse == 1 or (reuse == 2 and host.startswith(("127.", "::1")))
        if waiting > MOST_WAITING * ports and not reused:
            raise ParseError(
                TOOL,
                f"{waiting} of {ports} ports were in TIME_WAIT, so that the search for free ones was measured: measure "
                "as root, with fewer requests, or set net.ipv4.tcp_tw_reuse = 1 on the client",
                output[-200:],
            )


def _percentiles(output: str) -> dict[int, float]:
    """Return percentile -> seconds from the CSV that follows ab's report."""
    pattern = rf"^Percentage served,Time in ms\n((?:[0-9]{{1,3}},{_parse.NUMBER}\n)+)(?:ports: .*\n)?\Z"
    table = one(TOOL, "the table of percentiles", pattern, output)
    rows = [line.split(",") for line in table[1].splitlines()]
    equal(TOOL, "the list of percentiles", [int(percent) for percent, _ in rows], list(range(101)))
    return {int(percent): _parse.quantity(TOOL, "a percentile", time_ms) / 1000 for percent, time_ms in rows}
