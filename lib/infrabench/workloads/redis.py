"""redis: a Redis server answers requests of one kind, redis-benchmark on the client sends them with many connections.

``test`` is ``SET`` (write one key) or ``GET`` (read it back), ``requests`` how many in all, each with ``size_bytes`` of
payload, over ``clients`` connections that stay open, ``pipeline`` of them at a time; redis-benchmark uses ``threads``
threads (the server executes commands in one). Metrics: ``requests_per_s`` and percentiles of the time of a request
``latency_p50_s``, ``latency_p95_s``, ``latency_p99_s``. Nothing is written to disk: snapshots and the append-only file
are off, and the output says so.
"""

from __future__ import annotations

from infrabench.core import Capture, DesignError, Measurements, Param, Params, ParseError, Roles, Step, Steps
from infrabench.workloads import _parse
from infrabench.workloads._parse import equal, higher, in_order, lower, one, positive, quantity, text

PROGRAMS = {
    "server": {"redis-server": "redis-server", "redis-cli": "redis-tools"},
    "client": {"redis-benchmark": "redis-tools", "redis-cli": "redis-tools", "prlimit": "util-linux"},
}
VERSION = ("redis-benchmark", "--version"), r"^redis-benchmark (\S+)"
TOOL = "redis-benchmark"
READS = ("7.0.15", "8.0.2")
TESTS = ("SET", "GET")
KEY = "key:__rand_int__"  # the one that redis-benchmark writes and reads where no range of keys is named
MOST_CLIENTS = 10000  # the server's own default
PARAMS = {
    "test": Param("SET", choices=TESTS, meaning="SET writes one key, GET reads it back"),
    "requests": Param(100000, least=1, meaning="requests in all", work=True),
    "clients": Param(50, least=1, most=MOST_CLIENTS, meaning="connections that stay open"),
    "size_bytes": Param(64, least=1, unit="B", meaning="payload of a request"),
    "pipeline": Param(1, least=1, meaning="requests that are sent at a time"),
    "threads": Param(1, least=1, meaning="threads of redis-benchmark"),
    "port": Param(16379, least=1, most=65535, meaning="port of the server"),
}
SPARE_FILES = 1024  # descriptors beyond one for each client
# What a killed trial left is stopped first. The server leaves nothing attached to the streams of its starter.
START = 'redis-cli -h "$1" -p "$2" shutdown nosave >/dev/null 2>&1; shift 2; exec "$@" >/dev/null'
# Stopped is a server that no longer answers: one that had ended before is no failure here.
STOP = 'redis-cli -h "$1" -p "$2" shutdown nosave >/dev/null 2>&1; ! redis-cli -h "$1" -p "$2" ping >/dev/null 2>&1'
COUNT = "([0-9]{1,12})"
# Before the report stands its progress, lines that end in a carriage return.
HEAD = rf"""(?:^|\r)====== ([A-Z]+) ====== *
  {COUNT} requests completed in {_parse.NUMBER} seconds
  {COUNT} parallel clients
  {COUNT} bytes payload
  keep alive: 1
  host configuration "save": (.*)
  host configuration "appendonly": (.*)
  multi-thread: (?:no|yes
  threads: {COUNT})

Latency by percentile distribution:
"""
SUMMARY = rf"""^Summary:
  throughput summary: {_parse.NUMBER} requests per second
  latency summary \(msec\):
          avg       min       p50       p95       p99       max
 +{_parse.NUMBER} +{_parse.NUMBER} +{_parse.NUMBER} +{_parse.NUMBER} +{_parse.NUMBER} +{_parse.NUMBER}
\s*\Z"""
ROUNDED_S = 0.00501  # half of what the total time is printed with, and the rate
LATENCIES = ("latency_p50_s", "latency_p95_s", "latency_p99_s")
METRICS = {"requests_per_s": "fixed-work rate", **dict.fromkeys(LATENCIES, "time")}


def plan(params: Params, roles: Roles) -> Steps:
    """Return start, readiness (the server answers PING), the one key where it is read, load and stop."""
    _parse.at_least("requests", params["requests"], params["clients"] * params["pipeline"])
    if params["requests"] % params["pipeline"]:
        raise DesignError(f"requests must be a multiple of pipeline, not {params['requests']} of {params['pipeline']}")
    place = (roles["server"].address, str(params["port"]))
    server = ("-h", place[0], "-p", place[1])
    serve = (
        "redis-server", "--bind", place[0], "--port", place[1], "--protected-mode", "no", "--daemonize", "yes",
        "--save", "", "--appendonly", "no", "--dir", "/tmp",
    )  # fmt: skip
    fill = ("redis-cli", *server, "-e", "setrange", KEY, str(params["size_bytes"] - 1), "x")
    threads = ("--threads", str(params["threads"])) if params["threads"] > 1 else ()
    load = (
        "prlimit", f"--nofile={params['clients'] + SPARE_FILES}:",
        TOOL, *server, "-t", params["test"].lower(), "-n", str(params["requests"]), "-c", str(params["clients"]),
        "-d", str(params["size_bytes"]), "-P", str(params["pipeline"]), *threads,
    )  # fmt: skip
    return (
        Step("start", "server", ("sh", "-c", START, "sh", *place, *serve), phase="prepare"),
        Step("ready", "client", ("redis-cli", *server, "-e", "ping"), timeout_s=5.0, phase="prepare", until_ok_s=20.0),
        *((Step("fill", "client", fill, timeout_s=20.0, phase="prepare"),) if params["test"] == "GET" else ()),
        Step("redis", "client", load, timeout_s=60.0 + params["requests"] / 1000),
        Step("stop", "server", ("sh", "-c", STOP, "sh", *place), phase="cleanup"),
    )


def parse(capture: Capture) -> Measurements:
    """Return rate and latency percentiles; `ParseError` when the report is of another run than the one asked for."""
    output, params = text(capture["redis"]), capture.params
    equal("redis-cli", "the answer to PING", text(capture["ready"]), "PONG\n")
    if params["test"] == "GET":
        equal("redis-cli", "bytes of the key", text(capture["fill"]), f"{params['size_bytes']}\n")
    total_s = _check_parameters(output, params)
    argv = capture["redis"].argv  # of these two parameters the report says nothing
    for name, option in (("port", "-p"), ("pipeline", "-P")):
        equal(TOOL, name, argv[argv.index(option) + 1] if option in argv[:-1] else None, str(params[name]))
    summary = one(TOOL, "a summary", SUMMARY, output)
    rate, mean_ms, *ordered_ms = (quantity(TOOL, "a number", each) for each in summary.groups())
    positive(TOOL, "rate", rate)
    # It divides the one by the other; what it prints is rounded, both to hundredths.
    _parse.check_rate(TOOL, "requests", params["requests"], total_s, rate, ROUNDED_S, ROUNDED_S, output)
    lowest_ms, *_, highest_ms = ordered_ms
    in_order(TOOL, "latencies", ordered_ms, output[-200:])
    in_order(TOOL, "latencies", (lowest_ms, mean_ms, highest_ms), output[-200:])
    if highest_ms / 1000 > total_s + ROUNDED_S:
        raise ParseError(TOOL, f"a request took longer than the {total_s:g} s of all", output[-200:])
    latencies_s = (positive(TOOL, "latency", each) / 1000 for each in ordered_ms[1:4])
    return (*higher("1/s", requests_per_s=rate), *lower("s", **dict(zip(LATENCIES, latencies_s, strict=True))))


def _check_parameters(output: str, params: Params) -> float:
    """Return the total time in seconds; `ParseError` unless the report says what was asked for."""
    test, requests, total_s, clients, size, save, appendonly, threads = one(TOOL, "a report", HEAD, output).groups()
    equal(TOOL, "test", test, params["test"])
    numbers = {"requests": requests, "clients": clients, "size_bytes": size, "threads": threads or "1"}
    for name, found in numbers.items():
        equal(TOOL, name, quantity(TOOL, name, found), float(params[name]))
    equal(TOOL, "host configuration save", save, "")
    equal(TOOL, "host configuration appendonly", appendonly, "no")
    return quantity(TOOL, "the total time", total_s)
