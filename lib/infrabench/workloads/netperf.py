"""netperf: round-trip latency (``TCP_RR``, ``UDP_RR``), with a connection each (``TCP_CRR``), and throughput.

In ``TCP_RR`` and ``UDP_RR`` the client sends ``request_bytes``, waits for ``response_bytes`` and asks again, for
``seconds``. Metrics: ``transactions_per_s``, ``latency_mean_s`` and percentiles ``latency_p50_s``, ``latency_p90_s``,
``latency_p99_s`` of the time from request to answer; in ``TCP_CRR`` every request has a connection of its own, and
the time is that from its opening to its end. With ``outstanding`` more than one, so many requests are under way on the
one connection at any time: each answer makes the client send the next one. By Little's law the rate times the mean time
is how many they were, and a request has to be a packet of its own; otherwise the trial is refused. netperf reads
percentiles off a histogram with steps of 1 us below 100 us, 10 us below 1 ms, 100 us below 10 ms and so on, between
which it interpolates, and cuts them to whole microseconds: differences that are not seen in them are in the mean.
Metric of ``TCP_STREAM``, of one connection: ``throughput_bit_per_s``, payload that the server received.

``port`` is that of control, ``data_port`` that of the data: fixed, since a service forwards no others. `_network`
describes the path parameters. netperf never sends a lost datagram again and waits until the end: then the rate does not
fit the latency, and the trial is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from infrabench.core import Capture, DesignError, Measurements, Param, Params, ParseError, Roles, Step, Steps
from infrabench.workloads import _network
from infrabench.workloads._counters import Amount
from infrabench.workloads._parse import NUMBER, equal, higher, in_order, lower, number, one, positive, text

PROGRAMS = {"server": {"netperf": "netperf", "netserver": "netperf"}, "far": {"netperf": "netperf"}}
VERSION = ("netperf", "-V"), r"^Netperf version (\S+)$"
TOOL = "netperf"
READS = ("2.7.0", "2.7.1")
SERVER = "netserver"
SEVERAL = ("TCP_RR", "UDP_RR")  # may have more than one request under way
PROTOCOLS = {"TCP_RR": "TCP", "UDP_RR": "UDP", "TCP_CRR": "TCP", "TCP_STREAM": "TCP"}
PARAMS = {
    **_network.PATH,
    "test": Param(
        "TCP_RR", choices=tuple(PROTOCOLS), meaning="netperf's test", words={each: each.lower() for each in PROTOCOLS}
    ),
    "seconds": Param(5, least=1, unit="s", meaning="length of the run"),
    "request_bytes": Param(1, least=1, unit="B", meaning="size of a request"),
    "response_bytes": Param(1, least=1, unit="B", meaning="size of an answer"),
    "outstanding": Param(1, least=1, meaning="requests under way at once, in TCP_RR and UDP_RR"),
    "port": Param(12865, least=1, most=65535, meaning="port of control"),
    "data_port": Param(12866, least=1, most=65535, meaning="port of the data, another one"),
}
NAMES = {
    "TCP_RR": "TCP REQUEST/RESPONSE", "UDP_RR": "UDP REQUEST/RESPONSE", "TCP_CRR": "TCP Connect/Request/Response",
    "TCP_STREAM": "TCP STREAM",
}  # fmt: skip
COMMON = ("PROTOCOL", "DIRECTION", "ELAPSED_TIME", "THROUGHPUT", "THROUGHPUT_UNITS", "REMOTE_BYTES_RECVD")
LATENCIES = {"mean": "MEAN_LATENCY", "p50": "P50_LATENCY", "p90": "P90_LATENCY", "p99": "P99_LATENCY"}
RR = (*COMMON, "REQUEST_SIZE", "RESPONSE_SIZE", *LATENCIES.values(), "MIN_LATENCY", "MAX_LATENCY")
KEYS = {"TCP_RR": RR, "UDP_RR": RR, "TCP_CRR": RR, "TCP_STREAM": COMMON}  # of the output, by test
MICROSECOND = 1e-6
TIME_S = 0.005  # ELAPSED_TIME has two decimals
SLACK = 0.1  # largest share by which the time may miss what was asked
# Share of the requests that is under way on average: all but for netperf's own work, less where a datagram was lost.
UNDER_WAY = (0.95, 1.01)
SETTLE_S = 30.0
METRICS = {
    **dict.fromkeys(("throughput_bit_per_s", "transactions_per_s"), "fixed-time rate"),
    **{f"latency_{name}_s": "time" for name in LATENCIES},
}


def plan(params: Params, roles: Roles) -> Steps:
    """Return start of netserver, readings, the run, readings and stop."""
    serve, found = server(params), _network.ends(params, roles)
    argv = command(params, found.address, _network.pinned(params, "-T"))
    tool = Step("netperf", found.client.role, argv, timeout_s=params["seconds"] + SETTLE_S)
    return _network.around(found, params, serve, tool)


def server(params: Params) -> tuple[str, ...]:
    """Return netserver's command: in the foreground, one connection after the other, and no log files of its own.

    `DesignError` for two equal ports.
    """
    if params["port"] == params["data_port"]:
        raise DesignError("netperf takes two ports that differ")
    return (SERVER, "-D", "-f", "-N", "-p", str(params["port"]))


def command(params: Params, address: str, more: Sequence[str] = ()) -> tuple[str, ...]:
    """Return netperf's command, with `more` of its general options; `DesignError` for a test without `outstanding`."""
    test, seconds, outstanding = params["test"], params["seconds"], params.get("outstanding", 1)
    if outstanding > 1 and test not in SEVERAL:
        raise DesignError(f"netperf has several requests under way in {' and '.join(SEVERAL)} alone, not in {test}")
    # Without -D the kernel keeps a request back until the one before it is answered.
    several = () if outstanding == 1 else ("-b", str(outstanding - 1), "-D")
    sizes = () if test == "TCP_STREAM" else ("-r", f"{params['request_bytes']},{params['response_bytes']}")
    return (
        TOOL, "-H", address, "-p", str(params["port"]), "-t", test, "-l", str(seconds),
        *more, "--",
        "-P", f",{params['data_port']}", *sizes, *several, "-k", ",".join(KEYS[test]),
    )  # fmt: skip


def parse(capture: Capture) -> Measurements:
    """Return the metrics of the test; `NotAsClaimed` when it took another path than the parameters say."""
    address = _network.read_option(capture["netperf"], TOOL, "-H")
    found, amount = read(text(capture["netperf"]), capture.params, address)
    _network.check_path(capture, amount)
    return found


def read(output: str, params: Params, address: str, late_s: float = 0.0) -> tuple[Measurements, Amount]:
    """Return what one run of netperf against `address` says, and how much it moved at the least.

    `late_s`: how much later than asked for it may end, where many share the processors; rates are over the time it
    took. `ParseError` when it is another run than `params` ask for, not whole, or contradicts itself.
    """
    test = params["test"]
    if not output.endswith("\n"):
        raise ParseError(TOOL, "the output is cut off", output)
    named = rf"^MIGRATED {NAMES[test]} TEST from .* to {re.escape(address)} .*port ([0-9]+) AF_INET6?( : .*)?$"
    banner = one(TOOL, "the test's name", named, output)
    equal(TOOL, "port of the data", int(banner[1]), params["data_port"])
    equal(TOOL, "binding to processors", "cpu bind" in (banner[2] or ""), params.get("cpus", "free") != "free")
    burst = re.search(r" : nodelay\b.* : first burst ([0-9]+)\b", banner[2] or "")  # those that follow the first
    equal(TOOL, "requests outstanding", 1 + int(burst[1]) if burst else 1, params.get("outstanding", 1))
    fields = {key: one(TOOL, key, rf"^{key}=(.+)$", output)[1] for key in KEYS[test]}
    equal(TOOL, "protocol", fields["PROTOCOL"], PROTOCOLS[test])
    elapsed_s = _value(fields, "ELAPSED_TIME")
    slack_s = SLACK * params["seconds"]
    # The transaction that is under way when the time is over is waited for: no longer than the longest took.
    last_s = 0.0 if test == "TCP_STREAM" else _value(fields, "MAX_LATENCY") * MICROSECOND
    if not -slack_s <= elapsed_s - params["seconds"] <= slack_s + late_s + last_s:
        raise ParseError(TOOL, f"it ran {elapsed_s:g} s of {params['seconds']} s", output)
    if test == "TCP_STREAM":
        return _stream(fields, elapsed_s)
    equal(TOOL, "direction", fields["DIRECTION"], "Connect|Send|Recv" if test == "TCP_CRR" else "Send|Recv")
    return _transactions(params, fields, elapsed_s, crowded=late_s > 0)


def _stream(told: Mapping[str, str], elapsed_s: float) -> tuple[Measurements, Amount]:
    equal(TOOL, "unit", told["THROUGHPUT_UNITS"], "10^6bits/s")
    equal(TOOL, "direction", told["DIRECTION"], "Send")
    rate = positive(TOOL, "throughput", _value(told, "THROUGHPUT")) * 1e6
    received = _value(told, "REMOTE_BYTES_RECVD")
    _agree(told, rate / 8, received, elapsed_s)
    return higher("bit/s", throughput_bit_per_s=rate), Amount(received, "B")


def _transactions(
    params: Params, told: Mapping[str, str], elapsed_s: float, crowded: bool
) -> tuple[Measurements, Amount]:
    """Return rate and latencies; `crowded`: many wait for a processor, netperf's own beginning and end included."""
    equal(TOOL, "unit", told["THROUGHPUT_UNITS"], "Trans/s")
    for key, name in (("REQUEST_SIZE", "request_bytes"), ("RESPONSE_SIZE", "response_bytes")):
        equal(TOOL, name, _value(told, key), float(params[name]))
    rate = positive(TOOL, "rate", _value(told, "THROUGHPUT"))
    done = _value(told, "REMOTE_BYTES_RECVD") / params["request_bytes"]
    _agree(told, rate, done, elapsed_s, cut_off=int(crowded))
    times_s = {name: _value(told, key) * MICROSECOND for name, key in LATENCIES.items()}
    low, high = (_value(told, key) * MICROSECOND for key in ("MIN_LATENCY", "MAX_LATENCY"))
    positive(TOOL, "median", times_s["p50"])
    in_order(TOOL, "latencies", (low, times_s["p50"], times_s["p90"], times_s["p99"], high), str(told))
    in_order(TOOL, "latencies", (low, times_s["mean"], high), str(told))
    outstanding = params.get("outstanding", 1)
    under_way = rate * times_s["mean"]  # Little's law
    least = 0.0 if crowded and told["PROTOCOL"] == "TCP" else UNDER_WAY[0]  # over TCP none is lost
    if not least <= under_way / outstanding <= UNDER_WAY[1]:
        # One was lost, or (of several) the end came while answers stood still, whose times are in no mean.
        share = f"{under_way:.3f} of {outstanding} requests were under way"
        raise ParseError(TOOL, f"{share}: one has no answer", str(told))
    latencies = lower("s", **{f"latency_{name}_s": time_s for name, time_s in times_s.items()})
    return (*higher("1/s", transactions_per_s=rate), *latencies), Amount(done, "packets")


def _agree(told: Mapping[str, str], per_s: float, moved: float, elapsed_s: float, cut_off: int = 0) -> None:
    """Check that the rate is what the server received over the time; `cut_off`: requests that its end may cut off."""
    if abs(per_s * elapsed_s - moved) > per_s * TIME_S + 0.01 * moved + cut_off:
        raise ParseError(TOOL, f"{moved:g} received in {elapsed_s:g} s are not {per_s:g} per second", str(told))


def _value(told: Mapping[str, str], key: str) -> float:
    return number(TOOL, key, rf"\A{NUMBER}\Z", told[key])
