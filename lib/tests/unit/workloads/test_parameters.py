"""What an output says of its own parameters is compared with what was asked for, in every parser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infrabench import registry
from infrabench.core import Capture, NotAsClaimed, NotRunnable, ParseError, Target
from infrabench.machines.hosts.host import LocalHost
from tests.support import parameters
from tests.support.captures import GOOD, label, read, with_stdout
from tests.support.checks import check_each
from tests.support.workloads import captured, measured, planned, refused, replaced


def test_the_output_of_other_parameters_is_refused() -> None:
    """Each parameter of which the outputs of a good capture tell is changed alone."""
    cases = list[str]()

    def check(folder: Path) -> Iterator[str]:
        capture, about = read(folder)
        for name in parameters.told(folder.parent.name, capture.params, about["tool"]):
            cases.append(name)
            asked = {**capture.params, name: parameters.other(name, capture.params[name])}
            try:
                registry.workload(folder.parent.name).parse(Capture(capture.steps, asked))
            except (ParseError, NotAsClaimed, NotRunnable):
                continue
            yield f"another {name} is taken"

    check_each(check, GOOD, label)
    assert len(cases) > 300


def test_what_is_called_silent_is_a_parameter() -> None:
    def check(workload: str) -> list[str]:
        there = registry.workload(workload).PARAMS
        return [f"{name} is no parameter" for name in parameters.SILENT[workload] if name not in there]

    check_each(check, parameters.SILENT)


def answers(
    requests: int, length: int, other: int, connect: int = 0, receive: int = 0, exceptions: int = 0, lines: str = ""
) -> Capture:
    """Return a run of `requests` with so many failures of each kind, as ab reports them."""
    failed = connect + receive + length + exceptions
    kinds = f"   (Connect: {connect}, Receive: {receive}, Length: {length}, Exceptions: {exceptions})\n" * (failed > 0)
    bodies = (requests - max(length, other)) * 11264 + max(length, other) * 299
    capture = replaced(
        captured("web", "one-user"),
        "ab",
        ("Complete requests:      100\n", f"Complete requests:      {requests}\n"),
        ("Failed requests:        0\n", f"Failed requests:        {failed}\n{kinds}{lines}"
         + f"Non-2xx responses:      {other}\n" * (other > 0)),
        ("HTML transferred:       1126400 bytes", f"HTML transferred:       {bodies} bytes"),
        ("0.010 seconds", f"{requests / 10000:.3f} seconds"), ("10096.93 [#/sec]", "10000.00 [#/sec]"),
    )  # fmt: skip
    return Capture(capture.steps, {**capture.params, "requests": requests})


def test_a_server_with_an_ipv6_address_is_asked_and_its_output_read() -> None:
    """ab prints the host of ``http://[HOST]:PORT/`` without brackets."""
    target = Target("server", LocalHost("here"), address="2001:db8::9")
    hostname = "Server Hostname:        "
    capture = replaced(captured("web"), "ab", (f"{hostname}127.0.0.1", f"{hostname}2001:db8::9"))
    steps = planned("web", {"server": target, "client": target}, **capture.params)
    argv = next(step.argv for step in steps if step.name == "ab")
    assert argv[-1] == f"http://[2001:db8::9]:{capture.params['port']}/index.html"
    asked = Capture({**capture.steps, "ab": replace(capture["ab"], argv=argv)}, capture.params)
    assert {*measured("web", asked)} == {*registry.metric_kinds("web")}


@pytest.mark.parametrize(
    ("requests", "kinds", "failed"),
    [
        (801, {"length": 780, "other": 781}, 781),
        (200, {"length": 18, "other": 18}, 18),
        (200, {"length": 20, "other": 18}, 20),  # two pages were cut off
        (200, {"length": 0, "other": 18}, 18),
        (200, {"length": 18, "other": 18, "connect": 2, "exceptions": 1}, 21),
        (200, {"length": 199, "other": 199, "connect": 0}, 199),
        (200, {"length": 1, "other": 0, "lines": "Write errors:           1\n"}, 1),
        (200, {"length": 0, "other": 0}, 0),
    ],
)
def test_a_failed_request_counts_once_and_in_no_rate(requests: int, kinds: dict[str, Any], failed: int) -> None:
    found, whole = measured("web", answers(requests, **kinds)), measured("web", answers(requests, length=0, other=0))
    assert found["failed_requests"] == failed
    assert found["requests_per_s"] == pytest.approx(whole["requests_per_s"] * (requests - failed) / requests)


def test_a_trial_in_which_every_request_failed_has_no_rate() -> None:
    assert "rate of whole pages" in refused("web", answers(200, length=200, other=200, connect=2))


@pytest.mark.parametrize(
    ("seconds", "changes", "said"),
    [
        (1, [("limit: 10000", "limit: 200000")], "prime limit must be 10000"),
        (1, [("1.0004s", "300.0000s"), ("  2881.63", "  9.62")], "total time must be from"),
        (1, [("1.0004s", "0.9900s"), ("  2881.63", "  2916.16")], "total time must be from"),
        (1, [("Latency (ms):", "Latency (us):")], "expected latencies in ms once"),
        (1, [("Latency (ms):", "Latency (s):")], "expected latencies in ms once"),
        (1, [("999.63", "99.96")], "the sum of the latencies must be from"),
        (1, [("0.32", "0.36")], "latencies are not in order"),
        (1, [("95th percentile:                        0.39", "95th percentile:                        3.90")],
         "latencies are not in order"),
        (1, [("95th percentile:                        0.39", "95th percentile:                        0.03")],
         "latencies are not in order"),
        (1, [("  2881.63", "  3255.00")], "2887 events in 1.0004 s are not 3255 per second"),
        # a quarter of a second too long, of a run of any length: one of 11 s is none of 10 s
        (10, [("1.0004s", "11.0004s"), ("  2881.63", "  262.40")], "total time must be from 9.99 to 10.25"),
        (10, [("1.0004s", "10.0004s"), ("  2881.63", "  280.80")], "2887 events in 10.0004 s are not 280.8 per second"),
    ],
)  # fmt: skip
def test_another_run_of_sysbench_is_refused(seconds: int, changes: list[tuple[str, str]], said: str) -> None:
    capture = captured("sysbench-cpu", seconds=seconds)
    assert said in refused("sysbench-cpu", replaced(capture, "sysbench", *changes))


def test_a_short_run_of_sysbench_may_start_as_late_as_a_longer_one() -> None:
    capture = captured("sysbench-cpu", "fixed-events")
    late, later = (replaced(capture, "sysbench", ("0.1678s", total)) for total in ("0.1300s", "0.1100s"))
    assert measured("sysbench-cpu", late)["events_per_s"] == 2958.66
    assert "500 events in 0.11 s are not 2958.66 per second" in refused("sysbench-cpu", later)


def test_remarks_of_fio_may_stand_before_its_report() -> None:
    capture = captured("fio")
    report = capture["fio"].stdout
    for remark in (b"fio: pid 7: terminating\n", b"fio: one\nfio: two\n"):
        assert measured("fio", with_stdout(capture, "fio", remark + report)) == measured("fio", capture)
    said = refused("fio", with_stdout(capture, "fio", b"Killed\n" + report))
    assert "it begins with something else than remarks of fio" in said


ROW = "           16384       4   960147  1290777  6277582  5951384"  # of iozone
OTHER_RUNS: dict[tuple[str, str, str], list[tuple[str, str, str]]] = {  # workload, case, step: old, new, what is said
    ("web", "errors", "ab"): [
        ("Non-2xx responses:  ", "Non-2xx resp\x00nses:  ", "expected the counts of requests once"),
        ("Non-2xx responses:      18", "Non-2xx responses:      lots", "expected the counts of requests once"),
        ("Non-2xx responses:      18", "Non-2xx responses:      5001", "Non-2xx must be from 0 to 5000"),
        ("Length: 18", "Length: 17", "failed requests must be 17"),
        ("Failed requests:        18", "Failed requests:        0", "failed requests must be 18"),
        ("(Connect: 0, Receive: 0, Length: 18, Exceptions: 0)", "(some)", "expected the counts of requests once"),
        ("HTML transferred:       56122630", "HTML transferred:       56117247", "are not the pages of 5000 requests"),
        ("Document Path:          /index.html", "Document Path:          /other.html", "address must be http://127"),
        ("Server Hostname:        127.0.0.1", "Server Hostname:        127.0.0.2", "address must be http://127"),
        # what is rounded is half a printing step off, and no more
        ("20668.25 [#/sec]", "20730.00 [#/sec]", "5000 requests in 0.242 s are not 20730 per second"),
    ],
    ("iozone", "ok", "iozone"): [
        # What random reading and writing took stands under their own columns; those of reading are blank.
        (ROW, ROW[:42] + " " * 18 + "  6277582  5951384", "expected a number under each of"),
        (ROW, ROW[:42] + " " * 18, "expected a number under each of"),
        (ROW, ROW[:51] + " " * 9, "expected a number under each of"),
        (ROW, ROW.replace("  1290777", " 12907 77"), "expected a number under each of"),
        (ROW, ROW + "  6277582", "expected a number under each of"),
        ("    random    random ", "    random  sequential ", "expected one complete row of results once"),
        ("\tOutput is", "\tO_DIRECT feature enabled\n\tOutput is", "O_DIRECT must be False"),
        ("\tInclude fsync in write timing\n", "", "expected Include fsync in write timing once"),
        ("-i 1 -r", "-i 2 -r", "its command must be iozone -i 0 -i 1"),
    ],
    ("iozone", "direct", "iozone"): [("\tO_DIRECT feature enabled\n", "", "O_DIRECT must be True")],
    ("oltp", "ok", "sysbench"): [
        (f"reconnects:{26 * ' '}0 ", f"reconnects:{26 * ' '}2 ", "reconnects"),
        ("Number of threads: 4", "Number of threads: 8", "threads must be 4"),
        (" 5.0108", " 4.0108", "total time must be from 4.995 to 5.55375"),
        (" 5.0108", " 300.0108", "total time must be from 4.995 to 5.55375"),
        ("Latency (ms):", "Latency (us):", "expected latencies in ms once"),
        ("every 1 second(s)", "every 2 second(s)", "expected a report each second once"),
        ("other:                           2812", "other:                           2813", "of all kinds"),
        ("write:                           5624", "write:                           0", "that it wrote"),
        ("per sec.)", "per min.)", "expected"),
        ("    transactions: ", "    deadlocks: ", "expected transactions once"),
    ],
    ("oltp", "ok", "settings"): [
        ("O_DIRECT", "fsync", "its settings must be"),
        ("67108864", "134217728", "its settings must be"),
    ],
    ("oltp", "ok", "count"): [("20000", "19999", "every table must have 20000 rows")],
    ("netperf", "ok", "netperf"): [
        ("port 12866", "port 12867", "port of the data must be 12866"),
        ("TCP REQUEST/RESPONSE", "TCP STREAM", "expected the test's name once"),
        (": demo", ": demo : cpu bind", "binding to processors must be False"),
    ],
    ("netperf", "tcp-rr-outstanding", "netperf"): [
        ("first burst 15", "first burst 7", "requests outstanding must be 16"),
        (" : nodelay", "", "requests outstanding must be 16"),
        ("MEAN_LATENCY=200.95", "MEAN_LATENCY=186.01", "14.802 of 16 requests were under way"),
        ("MEAN_LATENCY=200.95", "MEAN_LATENCY=205.95", "16.389 of 16 requests were under way"),
    ],
    ("stream", "ok", "stream"): [
        ('"program": "ib-stream"', '"program": "stream"', "program must be ib-stream"),
        ('"mean_s": 0.0', '"mean_s": 0.9', "mean_s of copy must be from"),
        ('"best_s": 0.0', '"best_s": 0.9', "best_s of copy must be from"),
    ],
    ("web-rate", "ok", "rate"): [('"delay_mean_s": 0.000', '"delay_mean_s": 0.001', "began requests 1.13 ms late on")],
    ("redis", "ok", "ready"): [("PONG", "NOAUTH Authentication required.", "the answer to PING must be PONG")],
    ("redis", "ok", "redis"): [
        ('"save": ', '"save": 3600 1', "host configuration save must be"),
        ('"appendonly": no', '"appendonly": yes', "host configuration appendonly must be no"),
        ("requests completed in 0.", "requests completed in 9.", "are not"),
        ("requests completed in 0.73", "requests completed in 0.72", "are not"),
        (" parallel clients", " clients", "expected a report once"),
    ],
    ("ftp", "ok", "file"): [("16777216.bin", "16777217.bin", "the file must be /srv/infrabench/ftp/16777216.bin")],
    ("ftp", "ok", "download"): [('"login_s": 0.008', '"login_s": 0.018', "the first byte came after")],
    ("mail", "ok", "postal"): [
        ('"seconds": 2.0', '"seconds": 3.0', "seconds must be 2.0"),
        ('"elapsed_s": 2.0', '"elapsed_s": 1.0', "elapsed_s must be from 2 to 67"),
        ('"elapsed_s": 2.0', '"elapsed_s": 300.0', "elapsed_s must be from 2 to 67"),
    ],
    ("mail", "ok", "count"): [
        ('"connections": 1047', '"connections": 1045', "came on fewer connections"),
        ('"bytes": 139385613', '"bytes": 139385613000', "bytes must be from"),
    ],
}


@pytest.mark.parametrize(("place", "change"), [(place, row) for place, rows in OTHER_RUNS.items() for row in rows])
def test_another_run_of_a_tool_is_refused(place: tuple[str, str, str], change: tuple[str, str, str]) -> None:
    (workload, case, step), (old, new, said) = place, change
    assert said in refused(workload, replaced(captured(workload, case), step, (old, new)))


def test_netperf_may_end_later_by_its_longest_transaction() -> None:
    late = (("ELAPSED_TIME=1.00", "ELAPSED_TIME=1.16"), ("THROUGHPUT=27221.10", "THROUGHPUT=23468.97"))
    stalled = (("MAX_LATENCY=10490", "MAX_LATENCY=177721"), ("MEAN_LATENCY=36.68", "MEAN_LATENCY=42.56"))
    capture = captured("netperf", "tcp-rr-debian-13")
    assert "it ran 1.16 s of 1 s" in refused("netperf", replaced(capture, "netperf", *late))
    assert measured("netperf", replaced(capture, "netperf", *late, *stalled))["transactions_per_s"] == 23468.97


def test_lines_of_a_terminal_are_read_as_those_of_the_tool() -> None:
    """``docker run -t`` ends every line with CRLF. A log whose size was counted is refused: it is another one."""
    cases = list[str]()

    def check(folder: Path) -> Iterator[str]:
        capture, parse = read(folder)[0], registry.workload(folder.parent.name).parse
        for step in [name for name, each in capture.steps.items() if each.stdout and b"\r" not in each.stdout]:
            cases.append(step)
            lines = with_stdout(capture, step, capture[step].stdout.replace(b"\n", b"\r\n"))
            if (folder.parent.name, step) == ("fio-4k", "log"):
                with pytest.raises(ParseError, match="the log's size must be"):
                    parse(lines)
            elif parse(lines) != parse(capture):
                yield f"{step} has other numbers"

    check_each(check, GOOD, label)
    assert len(cases) > 300
