"""pods-netperf: throughput (``TCP_STREAM``) and round trips (``TCP_RR``) between many pods at once.

Every pair of pods (``load`` = ``pairs``) or the first alone (``first``, all other pods stand idle) runs netperf for
``seconds``, from one instant on. Metrics of ``TCP_STREAM``: ``throughput_bit_per_s`` (payload that all servers received
over the time from that instant until the last pair ended), ``pair_throughput_bit_per_s`` (mean of a pair) and
``lowest_share`` (the slowest pair over that mean: 1 where all get the same). Of ``TCP_RR``: ``transactions_per_s`` (all
round trips over the same time), and ``latency_mean_s``,
``latency_p50_s``, ``latency_p99_s``: what each pair told, averaged over the pairs, every pair the same weight. The mean
of percentiles is no percentile of all round trips together: it is the percentile that a pair saw, on average; a few
slow pairs raise it less than they would raise the other. How finely netperf tells them stands in ``netperf``.

A pair that gets its processor late ends late. How long netperf takes to begin counts, and weighs less the longer it
runs. ``netperf`` describes the tool, `_pods` the pods and ``cpu_percent``.
"""

from __future__ import annotations

import math
from statistics import fmean

from infrabench.core import Capture, Measurements, Param, Params, ParseError, Roles, Steps
from infrabench.workloads import _pods, netperf
from infrabench.workloads._parse import higher, lower, text

VERSION = netperf.VERSION
READS = netperf.READS
TESTS = ("TCP_STREAM", "TCP_RR")
PARAMS = {
    **_pods.PODS,
    "test": Param("TCP_STREAM", choices=TESTS, meaning="netperf's test", words={each: each.lower() for each in TESTS}),
    "seconds": netperf.PARAMS["seconds"],
    "load": Param("pairs", choices=tuple(_pods.LOADS), meaning="whether every pair of pods works, or the first alone"),
    **{name: netperf.PARAMS[name] for name in ("request_bytes", "response_bytes", "port", "data_port")},
}
LATENCIES = ("latency_mean_s", "latency_p50_s", "latency_p99_s")
LATE_S = 2.0  # how much later than asked for a pair may end
PEER = "{peer}"  # as ib-pods writes the address of the other pod
supported = _pods.needing(netperf.TOOL, netperf.SERVER)
METRICS = {
    **dict.fromkeys(("throughput_bit_per_s", "pair_throughput_bit_per_s", "transactions_per_s"), "fixed-time rate"),
    **dict.fromkeys(LATENCIES, "time"),
    **dict.fromkeys(("lowest_share", "cpu_percent"), "quantity"),
}


def plan(params: Params, roles: Roles) -> Steps:
    """Return the steps around one run of netperf in all pairs."""
    command = netperf.command(params, PEER)
    words = [part for word in netperf.server(params) for part in ("--server", word)]
    options = ("--pairs", _pods.pairs(params), "--server-port", str(params["port"]), *words)
    return _pods.conducted(params, roles, command, params["seconds"] + netperf.SETTLE_S, options)


def parse(capture: Capture) -> Measurements:
    """Return the metrics of the test."""
    params = capture.params
    run = _pods.read(capture, paired=_pods.pairs(params))
    servers, clients = run.of("server"), run.of("client")
    values: list[dict[str, float]] = []
    moved: list[float] = []  # bytes, or round trips
    for server, client in zip(servers, clients, strict=True):
        found, amount = netperf.read(client.output, params, server.address, LATE_S)
        values.append({each.metric: each.value for each in found})
        moved.append(amount.quantity)
    if not values:
        raise ParseError(netperf.TOOL, "no pair ran it", text(capture["run"]))
    if params["test"] == "TCP_STREAM":
        rates = _pods.shares("throughput_bit_per_s", "bit/s", [8 * each for each in moved], run.span_s, "pair")
        return (*rates, *_pods.cpu(capture))
    latencies = {name: fmean(each[name] for each in values) for name in LATENCIES}
    rate = higher("1/s", transactions_per_s=math.fsum(moved) / run.span_s)
    return (*rate, *lower("s", **latencies), *_pods.cpu(capture))
