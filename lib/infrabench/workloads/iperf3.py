"""iperf3: throughput over TCP, and loss and jitter over UDP at a rate that is offered.

``streams`` connections send for ``seconds``; ``rate_bit_per_s`` is what UDP offers on all streams together (0: as fast
as it can), in datagrams of ``length_bytes`` of payload, which fit into the smallest MTU of an overlay network.
`_network` describes the path parameters, and the window of CPU time.

Metrics of TCP: ``throughput_bit_per_s`` (payload that the server received), ``retransmits``. Of UDP:
``received_bit_per_s``, ``offered_bit_per_s`` (really sent), ``loss_percent``, ``jitter_s`` (RFC 3550, smoothed
variation of the one-way delay: no latency). Of both: ``cpu_s_per_B``, CPU seconds of both nodes per byte delivered;
``sender_cpu_s_per_B`` and ``receiver_cpu_s_per_B`` of one node alone, where they are two machines; ``cpu_percent``, the
same time as a share of all CPUs of the server's machine.

The first seconds count too: with ``-O``, which omits them, iperf3 forgets what it moved in the last of them where its
timer for their end fires before that of the interval, as it does in most runs, and CPU time per byte cannot be told.
A longer run makes the share of its beginning as small.
"""

from __future__ import annotations

from typing import Any

from infrabench.core import Capture, DesignError, Measurements, Param, Params, ParseError, Roles, Step, Steps
from infrabench.workloads import _network
from infrabench.workloads._counters import Amount
from infrabench.workloads._parse import at, equal, higher, items, json_object, lower, one, positive, text, value, within

PROGRAMS = {"server": {"iperf3": "iperf3"}, "far": {"iperf3": "iperf3"}}
VERSION = ("iperf3", "--version"), r"^iperf (\S+)(?: \(.*\))?$"
TOOL = "iperf3"
READS = ("3.9", "3.12", "3.18")
MOST_STREAMS = 128  # iperf3's own limit
PARAMS = {
    **_network.PATH,
    "protocol": Param("tcp", choices=("tcp", "udp"), meaning="protocol of transport"),
    "streams": Param(1, least=1, most=MOST_STREAMS, meaning="connections"),
    "seconds": Param(5, least=1, unit="s", meaning="length of the run"),
    "rate_bit_per_s": Param(
        0, least=0, unit="bit/s", meaning="what UDP offers on all streams together; 0: as fast as it can"
    ),
    "length_bytes": Param(1400, least=16, unit="B", meaning="payload of a datagram"),
    "port": Param(5201, least=1, most=65535, meaning="port of the server"),
}
SLACK = 0.1  # largest share by which a report's time may miss what was asked
# Intervals that follow each other touch. The first begins soon after the whole does, how soon depends on the machine;
# the last one ends with it.
TOUCH_S, BEGIN_S, END_S = 1e-5, 0.1, 0.001
# Since 3.16 each stream has a thread of its own, which goes on while the main one writes down an interval and then sets
# its count to 0 (`iperf_stats_callback`): what is moved in between is in the sum at the end and in no interval. Seen:
# up to 0.035 %, with 16 streams and intervals of a second; nearly three times that is allowed. In older ones one thread
# does both, and the sums are equal. It leaves out a last interval of less than a tenth of the others in which
# nothing was moved.
THREADS, BETWEEN, LAST_S = (3, 16), 0.001, 0.1
SETTLE_S = 30.0  # connecting, exchange of results
METRICS = {
    "throughput_bit_per_s": "fixed-time rate",
    "retransmits": "count",
    "received_bit_per_s": "fixed-time rate",
    "offered_bit_per_s": "fixed-time rate",
    # How many datagrams that is of is not reported beside it: losses come in bursts, so that a trial, and no datagram,
    # is what was repeated; and systems that cannot send as fast as was asked have fewer chances, which a count hides.
    "loss_percent": "share",
    "jitter_s": "time",
    **dict.fromkeys(("cpu_s_per_B", "sender_cpu_s_per_B", "receiver_cpu_s_per_B", "cpu_percent"), "quantity"),
}


def plan(params: Params, roles: Roles) -> Steps:
    """Return start of the server, readings, the run, readings and stop."""
    if params["protocol"] == "tcp" and params["rate_bit_per_s"]:
        raise DesignError("rate_bit_per_s is what UDP offers, and TCP finds its own: set iperf3.rate_bit_per_s=0")
    found = _network.ends(params, roles)
    seconds, port = params["seconds"], params["port"]
    udp = ("-u", "-b", str(_rate(params)), "-l", str(params["length_bytes"]))
    argv = (
        TOOL, "-c", found.address, "-p", str(port), "-t", str(seconds), "-P", str(params["streams"]),
        "-i", "1", "-J", "--get-server-output", "--connect-timeout", "5000",
        *_network.pinned(params, "-A"), *(udp if params["protocol"] == "udp" else ()),
    )  # fmt: skip
    tool = Step("iperf3", found.client.role, argv, timeout_s=seconds + SETTLE_S)
    return _network.around(found, params, (TOOL, "-s", "-1", "-J", "-p", str(port)), tool)


def parse(capture: Capture) -> Measurements:
    """Return the metrics; `NotAsClaimed` when the traffic took another path than the parameters say."""
    report = json_object(TOOL, text(capture["iperf3"]))
    for side, told in (("client", report), ("server", report.get("server_output_json"))):
        if isinstance(told, dict) and "error" in told:
            raise ParseError(TOOL, f"the {side} says: {told['error']}", str(told["error"]))
    server = at(TOOL, report, "server_output_json")
    _check_asked(capture, report, server)
    read = _udp_result if capture.params["protocol"] == "udp" else _tcp_result
    found = read(capture.params, report, server)
    delivered = _received(server)
    spent = _network.cpu_measurements(capture, delivered)
    _network.check_path(capture, Amount(delivered, "B"))
    return (*found, *spent)


def _rate(params: Params) -> int:
    """Return the rate that is offered on each stream, as iperf3 takes it; 0: no limit."""
    each: int = params["rate_bit_per_s"] // params["streams"]
    return each


def _check_asked(capture: Capture, report: Any, server: Any) -> None:
    """Check that both reports are of the run that was asked for, and of its whole length."""
    params, address = capture.params, _network.read_option(capture["iperf3"], TOOL, "-c")
    equal(TOOL, "address of the server", at(TOOL, report, "start", "connecting_to", "host"), address)
    equal(TOOL, "port of the server", value(TOOL, report, "start", "connecting_to", "port"), float(params["port"]))
    for source in (report, server):
        test = at(TOOL, source, "start", "test_start")
        equal(TOOL, "protocol", at(TOOL, test, "protocol"), params["protocol"].upper())
        for key in ("reverse", "omit"):
            equal(TOOL, key, value(TOOL, test, key), 0.0)
        names = {"num_streams": "streams", "duration": "seconds"}
        names |= {"blksize": "length_bytes"} if params["protocol"] == "udp" else {}
        for key, name in names.items():
            equal(TOOL, name, value(TOOL, test, key), float(params[name]))
        also = {"bytes": 0, "blocks": 0, "bidir": 0, "interval": 1, "target_bitrate": _rate(params)}
        for key in also.keys() & set(test):  # some versions say more than others
            equal(TOOL, key, value(TOOL, test, key), float(also[key]))
        equal(TOOL, "streams at the beginning", len(items(TOOL, source, "start", "connected")), params["streams"])
        equal(TOOL, "streams at the end", len(items(TOOL, source, "end", "streams")), params["streams"])
        _check_gapless(source, params["seconds"])


def _tcp_result(params: Params, report: Any, server: Any) -> Measurements:
    received = _received(server)
    _total(report, "sum_sent")
    equal(TOOL, "bytes received", value(TOOL, report, "end", "sum_received", "bytes"), received)
    rate = 8 * received / _seconds(params, server, "sum_received")
    said = value(TOOL, server, "end", "sum_received", "bits_per_second")
    if abs(rate - said) > 0.001 * abs(said):
        raise ParseError(TOOL, f"bit/s received: the intervals give {rate:g}, the report says {said:g}", str(said))
    return (
        *higher("bit/s", throughput_bit_per_s=positive(TOOL, "bytes received", rate)),
        *lower("1", retransmits=_count(report, "end", "sum_sent", "retransmits")),
    )


def _udp_result(params: Params, report: Any, server: Any) -> Measurements:
    received = _received(server)
    packets = positive(TOOL, "packets", value(TOOL, server, "end", "sum", "packets"))
    lost = _count(server, "end", "sum", "lost_packets")
    arrived = received / params["length_bytes"]
    if abs(packets - lost - arrived) > params["streams"]:  # the last of a stream may be counted when its bytes are not
        raise ParseError(TOOL, f"{packets:g} packets less {lost:g} lost are not {arrived:g}", str(server["end"]["sum"]))
    sent = positive(TOOL, "bytes sent", _total(report, "sum"))
    # Over the client's own seconds, not those that were asked for: its bytes are those that it sent until its timer
    # fired, which is up to a thousandth late. Divided by the agreed time, a late timer would look like a higher rate.
    offered = 8 * sent / _seconds(params, report, "sum")
    jitter_s = value(TOOL, server, "end", "sum", "jitter_ms") / 1000
    if not (jitter_s >= 0 and lost <= packets):
        raise ParseError(TOOL, f"jitter {jitter_s:g} s or loss {lost:g} of {packets:g} cannot be", str(server["end"]))
    return (
        *higher("bit/s", received_bit_per_s=8 * received / _seconds(params, server, "sum")),
        *lower("%", loss_percent=100 * lost / packets),
        *lower("s", jitter_s=jitter_s),
        *higher("bit/s", offered_bit_per_s=offered),
    )


def _received(server: Any) -> float:
    """Return the bytes that the server received."""
    end = at(TOOL, server, "end")
    if "sum_received" in end:
        return positive(TOOL, "bytes received", _total(server, "sum_received"))
    # iperf3 3.9 says zero of what UDP received: its intervals tell, of which the last has seen the end.
    last = _intervals(server)[-1]
    if abs(value(TOOL, last, "end") - value(TOOL, end, "sum", "end")) > END_S:
        raise ParseError(TOOL, "the last interval does not end when the result does", str(last))
    return positive(TOOL, "bytes received", _bytes(server))


def _total(told: Any, key: str) -> float:
    """Return the bytes as the end of a report tells them, whose intervals have to agree.

    Where bytes agree only nearly (`BETWEEN`), the intervals have to reach the end of the result: of a long test one is
    a small share. What was counted is the sum at the end.
    """
    found, parts = _count(told, "end", key, "bytes"), _bytes(told)
    threads = _version(told) >= THREADS
    within(TOOL, "bytes at the end, of all intervals,", found, parts, parts * (1 + BETWEEN * threads))
    end_s = value(TOOL, told, "end", key, "end")
    if threads and abs(value(TOOL, _intervals(told)[-1], "end") - end_s) > LAST_S:
        raise ParseError(TOOL, f"the last interval does not end at {end_s:g} s", str(told["end"][key]))
    return found


def _version(told: Any) -> tuple[int, ...]:
    said = one(TOOL, "a version", r"\Aiperf ([0-9]+)\.([0-9]+)(?![0-9])", str(at(TOOL, told, "start", "version")))
    return (int(said[1]), int(said[2]))


def _seconds(params: Params, told: Any, key: str) -> float:
    """Return the time that a report's sum is over; `ParseError` when it is not about what was asked."""
    seconds = value(TOOL, told, "end", key, "seconds")
    if abs(seconds - params["seconds"]) > SLACK * params["seconds"]:
        raise ParseError(TOOL, f"the result is over {seconds:g} s of {params['seconds']} s", str(told["end"][key]))
    return seconds


def _intervals(told: Any) -> list[Any]:
    """Return the sums over all streams of a report's intervals."""
    sums = [at(TOOL, each, "sum") for each in items(TOOL, told, "intervals")]
    for each in sums:
        if at(TOOL, each, "omitted") is not False:
            raise ParseError(TOOL, "an interval does not say that it counts", str(each))
    return sums


def _bytes(told: Any) -> float:
    return sum(_count(each, "bytes") for each in _intervals(told))


def _check_gapless(told: Any, least_s: float) -> None:
    """Check that intervals follow each other from zero to the end of what was asked: none is missing, none is twice."""
    end_s, apart_s = 0.0, BEGIN_S
    for each in _intervals(told):
        begin_s = value(TOOL, each, "start")
        if abs(begin_s - end_s) > apart_s:
            raise ParseError(
                TOOL, f"an interval begins at {begin_s:g} s, the one before it ends at {end_s:g} s", str(each)
            )
        end_s, apart_s = value(TOOL, each, "end"), TOUCH_S
    if end_s < (1 - SLACK) * least_s:
        raise ParseError(TOOL, f"the intervals end at {end_s:g} s of {least_s:g} s", str(told["intervals"]))


def _count(told: Any, *path: str) -> float:
    found = value(TOOL, told, *path)
    if found < 0 or found != int(found):
        raise ParseError(TOOL, f"{'.'.join(path)} is no count", str(found))
    return found
