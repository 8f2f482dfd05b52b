"""iperf3: throughput over TCP, and loss and jitter over UDP at a rate that is offered.

``streams`` connections send for ``seconds`` after ``omit_s`` that are left out of the result; ``rate_bit_per_s`` is
what UDP offers on all streams together (0: as fast as it can), in datagrams of ``length_bytes`` of payload, which fit
into the smallest MTU of an overlay network. `_network` describes the path parameters, and the window of CPU time.

Metrics of TCP: ``throughput_bit_per_s`` (payload that the server received), ``retransmits``. Of UDP:
``received_bit_per_s``, ``offered_bit_per_s`` (really sent), ``loss_percent``, ``jitter_s`` (RFC 3550, smoothed
variation of the one-way delay: no latency). Of both: ``cpu_s_per_B``, CPU seconds of the machines of both nodes per
byte delivered, omitted seconds included on both sides of the ratio; ``sender_cpu_s_per_B`` and
``receiver_cpu_s_per_B`` of one node alone, where two are told apart; ``cpu_percent``, busy share of all CPUs of the
server's machine.

The server's own report is read (``--get-server-output``): with ``-O`` the clients of iperf3 3.9 and 3.12 add losses of
the omitted seconds to the others, up to more than 100 %, and that of 3.9 does not tell what UDP received.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from infrabench.core import Capture, Deployment, DesignError, Measurement, ParseError, Step, Target
from infrabench.workloads import _network
from infrabench.workloads._reading import (
    at,
    at_least,
    equal,
    json_object,
    missing,
    positive,
    text,
    tool_version,
    value,
)
from infrabench.workloads._witness import Amount

DEFAULTS: Mapping[str, Any] = {
    **_network.PATH,
    "protocol": "tcp",
    "streams": 1,
    "seconds": 5,
    "omit_s": 1,
    "rate_bit_per_s": 0,
    "length_bytes": 1400,
    "port": 5201,
}
NEEDS = {"server": {"iperf3": "iperf3"}, "far": {"iperf3": "iperf3"}}
TOOL = "iperf3"
MOST_STREAMS = 128  # iperf3's own limit
SLACK = 0.1  # largest share by which a report's time may miss what was asked
# Datagrams that come late across the border between omitted and counted seconds are counted on one side only.
STRAY = 0.001
# Intervals that follow each other touch. The first begins soon after the whole does, how soon depends on the machine;
# the last one ends with it.
TOUCH_S, BEGIN_S, END_S = 1e-5, 0.1, 0.001
SETTLE_S = 30.0  # connecting, exchange of results


def plan(params: Mapping[str, Any], roles: Mapping[str, Target]) -> Sequence[Step]:
    """Return start of the server, readings, the run, readings and stop."""
    found = _network.ends(params, roles)
    seconds, omit_s, port = params["seconds"], params["omit_s"], params["port"]
    for name in ("streams", "seconds", "omit_s", "rate_bit_per_s", "length_bytes", "port"):
        if not isinstance(params[name], int):
            raise DesignError(f"{name} of iperf3 must be a whole number, not {params[name]!r}")
    at_least("seconds", seconds, 1)
    at_least("omit_s", omit_s, 0)
    at_least("streams", params["streams"], 1)
    at_least("length_bytes", params["length_bytes"], 16)
    at_least("rate_bit_per_s", params["rate_bit_per_s"], 0)
    if params["streams"] > MOST_STREAMS or params["protocol"] not in ("tcp", "udp"):
        raise DesignError(f"iperf3 takes tcp or udp and at most {MOST_STREAMS} streams")
    if params["protocol"] == "tcp" and params["rate_bit_per_s"]:
        raise DesignError("iperf3: rate_bit_per_s is what UDP offers; TCP finds its own")
    argv = (
        TOOL, "-c", found.address, "-p", str(port), "-t", str(seconds), "-O", str(omit_s), "-P", str(params["streams"]),
        "-i", "1", "-J", "--get-server-output", "--connect-timeout", "5000",
        *_network.pinned(params, "-A"), *_udp(params),
    )  # fmt: skip
    tool = Step("iperf3", found.client.role, argv, timeout_s=seconds + omit_s + SETTLE_S)
    return _network.around(found, params, (TOOL, "-s", "-1", "-J", "-p", str(port)), tool)


def version(target: Target) -> str:
    """Return iperf3's version."""
    return tool_version(target, TOOL, r"^iperf (\S+)(?: \(.*\))?$", TOOL, "--version")


def supported(deployment: Deployment) -> str | None:
    """Return None, or that iperf3 is missing."""
    return missing(deployment, *NEEDS["server"])


def parse(capture: Capture) -> Sequence[Measurement]:
    """Return the metrics; `NotAsClaimed` when the traffic took another path than the parameters say."""
    report = json_object(TOOL, text(capture["iperf3"]))
    for side, told in (("client", report), ("server", report.get("server_output_json"))):
        if isinstance(told, dict) and "error" in told:
            raise ParseError(TOOL, f"the {side} says: {told['error']}", str(told["error"]))
    server = at(TOOL, report, "server_output_json")
    _check_asked(capture, report, server)
    read = _udp_result if capture.params["protocol"] == "udp" else _tcp_result
    found = read(capture.params, report, server)
    delivered = _bytes(server, omitted=False) + _bytes(server, omitted=True)
    spent = _network.cpu_measurements(capture, delivered)
    _network.check_path(capture, Amount(delivered, "B"))
    return (*found, *spent)


def _udp(params: Mapping[str, Any]) -> tuple[str, ...]:
    if params["protocol"] == "tcp":
        return ()
    each = params["rate_bit_per_s"] // params["streams"]  # iperf3's rate is that of one stream
    return ("-u", "-b", str(each), "-l", str(params["length_bytes"]))


def _check_asked(capture: Capture, report: Any, server: Any) -> None:
    """Check that both reports are of the run that was asked for, and of its whole length."""
    params, address = capture.params, _network.asked(capture["iperf3"], TOOL, "-c")
    equal(TOOL, "address of the server", at(TOOL, report, "start", "connecting_to", "host"), address)
    equal(TOOL, "port of the server", value(TOOL, report, "start", "connecting_to", "port"), float(params["port"]))
    for told in (report, server):
        test = at(TOOL, told, "start", "test_start")
        equal(TOOL, "protocol", at(TOOL, test, "protocol"), params["protocol"].upper())
        equal(TOOL, "reverse", value(TOOL, test, "reverse"), 0.0)
        asked = {"num_streams": "streams", "duration": "seconds", "omit": "omit_s"}
        asked |= {"blksize": "length_bytes"} if params["protocol"] == "udp" else {}
        for key, name in asked.items():
            equal(TOOL, name, value(TOOL, test, key), float(params[name]))
        equal(TOOL, "streams at the end", len(_list(told, "end", "streams")), params["streams"])
        _check_gapless(told, omitted=True, least_s=params["omit_s"])
        _check_gapless(told, omitted=False, least_s=params["seconds"])


def _tcp_result(params: Mapping[str, Any], report: Any, server: Any) -> Sequence[Measurement]:
    received = _bytes(server, omitted=False)
    for told in (report, server):
        equal(TOOL, "bytes received", value(TOOL, told, "end", "sum_received", "bytes"), received)
    rate = 8 * received / _seconds(params, server, "sum_received")
    _agree("bit/s received", rate, value(TOOL, server, "end", "sum_received", "bits_per_second"))
    return (
        Measurement("throughput_bit_per_s", positive(TOOL, "bytes received", rate), "bit/s", "higher"),
        Measurement("retransmits", _count(report, "end", "sum_sent", "retransmits"), "1", "lower"),
    )


def _udp_result(params: Mapping[str, Any], report: Any, server: Any) -> Sequence[Measurement]:
    received = _udp_received(server)
    packets = positive(TOOL, "packets", value(TOOL, server, "end", "sum", "packets"))
    lost = _count(server, "end", "sum", "lost_packets")
    arrived = received / params["length_bytes"]
    if abs(packets - lost - arrived) > STRAY * packets + params["streams"]:
        raise ParseError(TOOL, f"{packets:g} packets less {lost:g} lost are not {arrived:g}", str(server["end"]["sum"]))
    sent = positive(TOOL, "bytes sent", _bytes(report, omitted=False))
    equal(TOOL, "bytes sent", value(TOOL, report, "end", "sum", "bytes"), sent)
    offered = 8 * sent / _seconds(params, report, "sum")
    jitter_s = value(TOOL, server, "end", "sum", "jitter_ms") / 1000
    if not (jitter_s >= 0 and lost <= packets):
        raise ParseError(TOOL, f"jitter {jitter_s:g} s or loss {lost:g} of {packets:g} cannot be", str(server["end"]))
    rate = 8 * received / _seconds(params, server, "sum")
    return (
        Measurement("received_bit_per_s", rate, "bit/s", "higher"),
        Measurement("loss_percent", 100 * lost / packets, "%", "lower"),
        Measurement("jitter_s", jitter_s, "s", "lower"),
        Measurement("offered_bit_per_s", offered, "bit/s", "higher"),
    )


def _udp_received(server: Any) -> float:
    """Return the bytes that the server received in the counted seconds, of which its last interval has seen the end."""
    found, end = positive(TOOL, "bytes received", _bytes(server, omitted=False)), at(TOOL, server, "end")
    if "sum_received" in end:
        equal(TOOL, "bytes of all intervals", found, value(TOOL, end, "sum_received", "bytes"))
    else:  # of iperf3 3.9, whose sum says zero
        last = _intervals(server, omitted=False)[-1]
        if abs(value(TOOL, last, "end") - value(TOOL, end, "sum", "end")) > END_S:
            raise ParseError(TOOL, "the last interval does not end when the result does", str(last))
    return found


def _seconds(params: Mapping[str, Any], told: Any, key: str) -> float:
    """Return the time that a report's sum is over; `ParseError` when it is not about what was asked."""
    seconds = value(TOOL, told, "end", key, "seconds")
    if abs(seconds - params["seconds"]) > SLACK * params["seconds"]:
        raise ParseError(TOOL, f"the result is over {seconds:g} s of {params['seconds']} s", str(told["end"][key]))
    return seconds


def _intervals(told: Any, *, omitted: bool) -> list[Any]:
    """Return the sums over all streams of a report's intervals, either of the omitted ones or of the others."""
    sums = [at(TOOL, each, "sum") for each in _list(told, "intervals")]
    for each in sums:
        if not isinstance(at(TOOL, each, "omitted"), bool):
            raise ParseError(TOOL, "an interval does not say whether it is omitted", str(each))
    return [each for each in sums if each["omitted"] is omitted]


def _bytes(told: Any, *, omitted: bool) -> float:
    return sum(_count(each, "bytes") for each in _intervals(told, omitted=omitted))


def _check_gapless(told: Any, *, omitted: bool, least_s: float) -> None:
    """Check that intervals follow each other from zero to the end of what was asked: none is missing, none is twice."""
    end_s, apart_s = 0.0, BEGIN_S
    for each in _intervals(told, omitted=omitted):
        begin_s = value(TOOL, each, "start")
        if abs(begin_s - end_s) > apart_s:
            raise ParseError(
                TOOL, f"an interval begins at {begin_s:g} s, the one before it ends at {end_s:g} s", str(each)
            )
        end_s, apart_s = value(TOOL, each, "end"), TOUCH_S
    if end_s < (1 - SLACK) * least_s:
        raise ParseError(TOOL, f"the intervals end at {end_s:g} s of {least_s:g} s", str(told["intervals"]))


def _list(told: Any, *path: str) -> list[Any]:
    found = at(TOOL, told, *path)
    if not isinstance(found, list):
        raise ParseError(TOOL, f"{'.'.join(path)} is no list", str(found))
    return found


def _count(told: Any, *path: str) -> float:
    found = value(TOOL, told, *path)
    if found < 0 or found != int(found):
        raise ParseError(TOOL, f"{'.'.join(path)} is no count", str(found))
    return found


def _agree(what: str, found: float, told: float) -> None:
    if abs(found - told) > 0.001 * abs(told):
        raise ParseError(TOOL, f"{what}: the intervals give {found:g}, the report says {told:g}", str(told))
