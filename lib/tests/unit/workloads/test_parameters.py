"""What an output says of its own parameters is compared with what was asked for, in every parser."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infrabench import registry
from infrabench.core import Capture, NotAsClaimed, NotRunnable, ParseError, Target
from infrabench.machines.hosts.host import LocalHost
from tests.support import parameters
from tests.support.captures import case_folders, read, with_stdout
from tests.support.checks import check_each
from tests.support.workloads import Change, captured, changed, measured, planned, refused, replaced

GOOD = [path for path in case_folders() if "measurements" in read(path)[1]["expect"]]


def label(path: Path) -> str:
    return f"{path.parent.name}-{path.name}"


def parameters_of(folder: Path) -> Sequence[str]:
    """Return the parameters of which the outputs of a capture tell."""
    capture, about = read(folder)
    return parameters.told(folder.parent.name, capture.params, about["tool"])


def test_the_output_of_other_parameters_is_refused() -> None:
    """Each parameter of which the outputs of a good capture tell is changed alone."""

    def check(case: tuple[Path, str]) -> None:
        folder, name = case
        capture, _ = read(folder)
        asked = {**capture.params, name: parameters.other(name, capture.params[name])}
        with pytest.raises((ParseError, NotAsClaimed, NotRunnable)):
            registry.workload(folder.parent.name).parse(Capture(capture.steps, asked))

    cases = [(folder, name) for folder in GOOD for name in parameters_of(folder)]
    assert len(cases) > 300
    check_each(check, cases, lambda case: f"{label(case[0])} {case[1]}")


def test_what_is_called_silent_is_a_parameter() -> None:
    def check(workload: str) -> list[str]:
        there = registry.workload(workload).PARAMS
        return [f"{name} is no parameter" for name in parameters.SILENT[workload] if name not in there]

    check_each(check, parameters.SILENT)


# ----------------------------------------------------------------------------------------------------------------- web


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
        (200, {"length": 200, "other": 200, "connect": 2}, 200),
        (200, {"length": 1, "other": 0, "lines": "Write errors:           1\n"}, 1),
        (200, {"length": 0, "other": 0}, 0),
    ],
)
def test_a_request_that_failed_is_counted_once(requests: int, kinds: dict[str, Any], failed: int) -> None:
    assert measured("web", answers(requests, **kinds))["failed_requests"] == failed


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
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
)
def test_counts_of_requests_that_contradict_each_other_are_refused(old: str, new: str, said: str) -> None:
    assert said in refused("web", replaced(captured("web", "errors"), "ab", (old, new)))


# ------------------------------------------------------------------------------------------------------------ sysbench


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


# -------------------------------------------------------------------------------------------------------------- iozone

ROW = "           16384       4   960147  1290777  6277582  5951384"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
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
)
def test_a_table_of_iozone_is_read_by_its_columns(old: str, new: str, said: str) -> None:
    assert said in refused("iozone", replaced(captured("iozone"), "iozone", (old, new)))


def test_a_run_of_iozone_that_was_not_direct_is_refused() -> None:
    capture = replaced(captured("iozone", "direct"), "iozone", ("\tO_DIRECT feature enabled\n", ""))
    assert "O_DIRECT must be True" in refused("iozone", capture)


# ----------------------------------------------------------------------------------------------------------------- fio


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda job: job["job options"].update(bs="8192"), "option bs must be 4096"),
        (lambda job: job["job options"].update(direct="1"), "option direct must be 0"),
        (lambda job: job["job options"].pop("direct"), "job options.direct is missing"),
        (lambda job: job["job options"].update(rw="randread"), "option rw must be read"),
        (lambda job: job["job options"].update(ioengine="io_uring"), "option ioengine must be psync"),
        (lambda job: job["job options"].update(filename="/dev/null"), "option filename must be /var/tmp/infrabench"),
        (lambda job: job["read"].update(short_ios=1), "read short_ios must be 0"),
        (lambda job: job["read"].update(drop_ios=1), "read drop_ios must be 0"),
        (lambda job: job["read"].update(bw_bytes=409200392), "read bw_bytes must be from"),
        (lambda job: job["read"].update(iops=99902.44), "read iops must be from"),
        (lambda job: job["read"].update(runtime=165), "read bw_bytes must be from"),
        (lambda job: job["read"].update(total_ios=8192, iops=8192 / 0.164), "requests of job read must be 16384"),
        (lambda job: job["read"]["clat_ns"]["percentile"].update({"99.000000": 10**9}), "(clat_ns) are not in order"),
        (lambda job: job["read"]["clat_ns"].update(mean=10**9), "read latencies (clat_ns) are not in order"),
        (lambda job: job["read"]["clat_ns"].update(max=1), "read latencies (clat_ns) are not in order"),
    ],
)
def test_another_job_of_fio_is_refused(change: Change, said: str) -> None:
    assert said in refused("fio", changed(captured("fio"), "fio", lambda report: change(report["jobs"][1])))


@pytest.mark.parametrize(
    ("workload", "case", "step", "option", "told"),
    [
        ("fio-4k", "debian-13", "fio", "direct", "0"),  # libaio, past the page cache
        ("fio-4k", "debian-13", "fio", "direct", None),
        ("fio-4k", "debian-13", "fio", "randrepeat", "1"),
        ("fio-4k", "randwrite-debian-13", "fio", "end_fsync", "0"),
        ("fio-4k", "randread-ceph", "fio", "randrepeat", None),
        ("file-copy", "ok", "write", "end_fsync", "other"),
        ("file-copy", "ok", "read", "invalidate", "other"),
        ("file-copy", "ok", "compare", "ioengine", "other"),
    ],
)
def test_another_job_on_a_volume_is_refused(workload: str, case: str, step: str, option: str, told: str | None) -> None:
    def change(report: dict[str, Any]) -> None:
        options = report["jobs"][0]["job options"]
        options.pop(option) if told is None else options.update({option: told})

    said = f"option {option} must be" if told else f"job options.{option} is missing"
    assert said in refused(workload, changed(captured(workload, case), step, change))


def test_remarks_of_fio_may_stand_before_its_report() -> None:
    capture = captured("fio")
    report = capture["fio"].stdout
    for remark in (b"fio: pid 7: terminating\n", b"fio: one\nfio: two\n"):
        assert measured("fio", with_stdout(capture, "fio", remark + report)) == measured("fio", capture)
    said = refused("fio", with_stdout(capture, "fio", b"Killed\n" + report))
    assert "it begins with something else than remarks of fio" in said


# ------------------------------------------------------------------------------------------ netperf, stream, ftp, mail


@pytest.mark.parametrize(
    ("workload", "step", "old", "new", "said"),
    [
        ("netperf", "netperf", "port 12866", "port 12867", "port of the data must be 12866"),
        ("netperf", "netperf", "TCP REQUEST/RESPONSE", "TCP STREAM", "expected the test's name once"),
        ("netperf", "netperf", ": demo", ": demo : cpu bind", "binding to processors must be False"),
        ("stream", "stream", '"program": "ib-stream"', '"program": "stream"', "program must be ib-stream"),
        ("stream", "stream", '"mean_s": 0.0', '"mean_s": 0.9', "mean_s of copy must be from"),
        ("stream", "stream", '"best_s": 0.0', '"best_s": 0.9', "best_s of copy must be from"),
        ("redis", "ready", "PONG", "NOAUTH Authentication required.", "the answer to PING must be PONG"),
        ("redis", "redis", '"save": ', '"save": 3600 1', "host configuration save must be"),
        ("redis", "redis", '"appendonly": no', '"appendonly": yes', "host configuration appendonly must be no"),
        ("redis", "redis", "requests completed in 0.", "requests completed in 9.", "are not"),
        ("redis", "redis", "requests completed in 0.73", "requests completed in 0.72", "are not"),
        ("redis", "redis", " parallel clients", " clients", "expected a report once"),
        ("ftp", "file", "16777216.bin", "16777217.bin", "the file must be /srv/infrabench/ftp/16777216.bin"),
        ("ftp", "download", '"login_s": 0.008', '"login_s": 0.018', "the first byte came after"),
        ("mail", "postal", '"seconds": 2.0', '"seconds": 3.0', "seconds must be 2.0"),
        ("mail", "postal", '"elapsed_s": 2.0', '"elapsed_s": 1.0', "elapsed_s must be from 2 to 67"),
        ("mail", "postal", '"elapsed_s": 2.0', '"elapsed_s": 300.0', "elapsed_s must be from 2 to 67"),
        ("mail", "count", '"connections": 1047', '"connections": 1045', "came on fewer connections"),
        ("mail", "count", '"bytes": 139385613', '"bytes": 139385613000', "bytes must be from"),
    ],
)
def test_another_run_of_a_tool_is_refused(workload: str, step: str, old: str, new: str, said: str) -> None:
    assert said in refused(workload, replaced(captured(workload), step, (old, new)))


def test_netperf_may_end_later_by_its_longest_transaction() -> None:
    late = (("ELAPSED_TIME=1.00", "ELAPSED_TIME=1.16"), ("THROUGHPUT=27221.10", "THROUGHPUT=23468.97"))
    stalled = (("MAX_LATENCY=10490", "MAX_LATENCY=177721"), ("MEAN_LATENCY=36.68", "MEAN_LATENCY=42.56"))
    capture = captured("netperf", "tcp-rr-debian-13")
    assert "it ran 1.16 s of 1 s" in refused("netperf", replaced(capture, "netperf", *late))
    assert measured("netperf", replaced(capture, "netperf", *late, *stalled))["transactions_per_s"] == 23468.97


# ------------------------------------------------------------------------------------------------------------ terminal


def texts() -> list[tuple[Path, str]]:
    """Return the steps of good captures that printed lines, and none as on a terminal."""
    steps = [(path, step) for path in GOOD for step in read(path)[0].steps]
    files = [path / f"{step}.stdout" for path, step in steps]
    return [each for each, file in zip(steps, files, strict=True) if file.exists() and b"\r" not in file.read_bytes()]


def test_lines_of_a_terminal_are_read_as_those_of_the_tool() -> None:
    """``docker run -t`` ends every line with CRLF. A log whose size was counted is refused: it is another one."""

    def check(case: tuple[Path, str]) -> None:
        folder, step = case
        capture = read(folder)[0]
        parse = registry.workload(folder.parent.name).parse
        lines = with_stdout(capture, step, capture[step].stdout.replace(b"\n", b"\r\n"))
        if (folder.parent.name, step) == ("fio-4k", "log"):
            with pytest.raises(ParseError, match="the log's size must be"):
                parse(lines)
            return
        assert parse(lines) == parse(capture)

    cases = texts()
    assert len(cases) > 300
    check_each(check, cases, lambda case: f"{label(case[0])} {case[1]}")


def test_output_of_which_some_lines_are_of_a_terminal_is_refused() -> None:
    capture = captured("sysbench-cpu")
    mixed = re.sub(rb"\n", b"\r\n", capture["sysbench"].stdout, count=3)
    said = refused("sysbench-cpu", with_stdout(capture, "sysbench", mixed))
    assert "3 of 31 lines end as on a terminal (CRLF), the others do not" in said


def test_ib_pods_was_given_what_it_says() -> None:
    capture = captured("pods-sysbench-cpu")
    argv = tuple("--cpu-max-prime=9" if part.startswith("--cpu-max-prime") else part for part in capture["run"].argv)
    given = Capture({**capture.steps, "run": replace(capture["run"], argv=argv)}, capture.params)
    assert "command must be ['sysbench', 'cpu'" in refused("pods-sysbench-cpu", given)
