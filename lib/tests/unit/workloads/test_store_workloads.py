"""Workloads on a store: what they plan and refuse, and which answers of a store their parsers do not take."""

from __future__ import annotations

import json
import math
import re
from functools import reduce
from itertools import permutations
from operator import getitem
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infrabench import registry
from infrabench.core import Deployment, NotAsClaimed, NotRunnable, ParseError, Step, Target
from infrabench.machines.hosts.host import LocalHost
from infrabench.workloads import _fio_report, _volume, rebuild
from infrabench.workloads.rebuild import sample_copied, sample_load
from tests.support import workloads
from tests.support.captures import with_stdout
from tests.support.workloads import STORE, Change, captured, changed, measured, refused, replaced

NAMES = ("fio-4k", "file-copy", "oltp", "rebuild", "integrity")
SETTINGS = settings(max_examples=100)


def roles(*without: str) -> dict[str, Target]:
    commands = {name: words for name, words in STORE.items() if name not in without}
    return {"server": Target("server", LocalHost("here"), lifecycle=commands)}


def planned(name: str, given_roles: dict[str, Target] | None = None, **params: Any) -> list[Step]:
    return workloads.planned(name, roles() if given_roles is None else given_roles, **params)


@pytest.mark.parametrize("name", NAMES)
def test_a_system_that_stores_nothing_is_not_run(name: str) -> None:
    for given_roles in (roles("store"), {"client": roles()["server"]}, {}):
        with pytest.raises(NotRunnable, match="it is no storage system"):
            planned(name, given_roles)
    host = LocalHost("here")
    for targets in ({"server": Target("server", host)}, {"near": Target("near", host)}):
        assert registry.workload(name).supported(Deployment("x", targets, {})) == "it is no storage system"


@pytest.mark.parametrize("name", NAMES)
def test_a_store_without_the_programs_says_which(name: str) -> None:
    bare = Target("server", LocalHost("here"), ("env", "PATH=/nowhere"), lifecycle=STORE)
    assert "not found" in registry.workload(name).supported(Deployment("x", {"server": bare}, {}))


@pytest.mark.parametrize(
    ("name", "lacks", "params", "said"),
    [
        ("fio-4k", "uri", {}, "it serves no volume over NBD"),
        ("fio-4k", "uri-rbd", {"path": "rbd"}, "it has no RBD image"),
        ("fio-4k", "device", {"path": "kernel"}, "its volume is no block device of the kernel"),
        ("rebuild", "uri", {}, "it serves no volume over NBD"),
        ("file-copy", "mount", {}, "no file system can be made on it"),
        ("oltp", "mount", {}, "no file system can be made on it"),
        ("integrity", "mount", {}, "no file system can be made on it"),
    ],
)
def test_what_a_store_has_no_place_for_is_not_run(name: str, lacks: str, params: dict[str, Any], said: str) -> None:
    assert planned(name, **params)
    with pytest.raises(NotRunnable, match=said):
        planned(name, roles(lacks), **params)


@pytest.mark.parametrize("name", NAMES)
def test_a_failed_trial_keeps_evidence_and_leaves_a_new_pool(name: str) -> None:
    rescue = [step for step in planned(name) if step.phase == "rescue"]
    assert [step.argv[-1] for step in rescue[-2:]] == ["evidence", "remake"]


def test_what_was_damaged_is_made_anew_and_what_was_mounted_is_unmounted() -> None:
    for damage, made in (("none", []), ("one", ["remake"]), ("both", ["remake"])):
        cleanup = [step.argv[-1] for step in planned("integrity", damage=damage) if step.phase == "cleanup"]
        assert cleanup == ["unmount", *made, "default"]
    assert "unmount" in [step.argv[-1] for step in planned("file-copy") if step.phase == "cleanup"]


def test_what_is_measured_begins_cold() -> None:
    for name, step in (
        ("fio-4k", "fio"), ("file-copy", "write"), ("file-copy", "read"), ("oltp", "start-cold"),
        ("rebuild", "rebuild"), ("integrity", "read-before"), ("integrity", "read-some"), ("integrity", "read-after"),
    ):  # fmt: skip
        names = [each.name for each in planned(name)]
        last = max(at for at, each in enumerate(planned(name)) if each.argv[-1] == "drop" and at < names.index(step))
        between = set(names[last + 1 : names.index(step)])
        assert between <= {"usage-before", "usage-before-write", "usage-before-read", "state-before", "settle"}


def test_parameters_reach_fio() -> None:
    for path, said in (
        ("nbd", "fio --name=requests --ioengine=nbd --uri=nbd+unix:///?socket=/sock --rw=randwrite --bs=4096"),
        ("rbd", "env CEPH_CONF=/ceph.conf fio --name=requests --ioengine=rbd --clientname=admin --pool=rbd --rbdname="),
        ("kernel", "fio --name=requests --ioengine=libaio --direct=1 --filename=/dev/zvol --rw=randwrite"),
    ):
        steps = planned("fio-4k", path=path, pattern="randwrite")
        argv = " ".join(next(step for step in steps if step.name == "fio").argv)
        assert argv.startswith(said)
        assert "--end_fsync=1" in argv
    reading = next(step for step in planned("fio-4k") if step.name == "fio").argv
    assert "--end_fsync=1" not in reading
    assert planned("fio-4k", mode="strict")[0].argv[-2:] == ("serve", "strict")
    four = next(step for step in planned("fio-4k", clients=4, area_bytes=16384) if step.name == "fio").argv
    assert {"--size=4096", "--numjobs=4", "--offset_increment=4096", "--group_reporting"} <= set(four)
    assert not any(word.startswith(("--numjobs", "--offset", "--group")) for word in reading)


def test_files_are_of_whole_mebibytes_and_their_file_system_holds_them() -> None:
    steps = {step.name: step for step in planned("file-copy", files=44, total_bytes=4_000_000_000)}
    assert "--filesize=90177536" in steps["write"].argv
    size = 44 * 90177536
    assert int(steps["mount"].argv[-1]) > 1.08 * size
    assert int(steps["mount"].argv[-1]) % 2**20 == 0


def usage(at_s: float, busy_s: float = 0.0, total_s: float = 0.0, **daemons: float) -> bytes:
    told = {
        "verb": "usage", "begun_s": at_s, "done_s": at_s + 0.1, "machine": {"busy_s": busy_s, "total_s": total_s},
        "storage": {name: {"cpu_s": cpu_s, "rss_B": 1} for name, cpu_s in daemons.items()}, "client": {},
    }  # fmt: skip
    return json.dumps(told).encode()


def between(before: bytes, after: bytes) -> _volume.Used:
    base = captured("fio-4k")
    return _volume.used(with_stdout(with_stdout(base, "usage-before", before), "usage-after", after), "before", "after")


def test_cpu_time_is_shared_out_between_storage_and_the_rest() -> None:
    found = between(usage(10, 100, 1000, osd=5, mon=1), usage(20, 112, 1020, osd=9, mon=2))
    assert (found.storage_s, found.busy_s, found.total_s) == (5, 12, 20)
    assert found.client_s == 7
    assert found.percent == 60
    assert between(usage(1, 0, 0, osd=0), usage(2, 1, 2, osd=1.01)).client_s == 0  # ticks
    with pytest.raises(ParseError, match="counters went backwards"):
        between(usage(1, 0, 0, osd=0), usage(2, 0, 0, osd=0))


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (usage(1, 0, 0, osd=1), usage(2, 1, 2, mon=1), "the storage daemons must be ['osd']"),
        (usage(1, 0, 0, osd=1, mon=1), usage(2, 1, 2, osd=1), "the storage daemons must be ['mon', 'osd']"),
        (usage(1, 0, 0), usage(2, 1, 2), "it names no storage daemons"),
        (usage(1, 0, 0, osd=2), usage(2, 1, 2, osd=1), "counters went backwards"),
        (usage(1, 5, 5, osd=1), usage(2, 4, 9, osd=1), "counters went backwards"),
        (usage(2, 0, 0, osd=1), usage(1, 1, 2, osd=1), "was read before"),
        (usage(1, 0, 0, osd=math.nan), usage(2, 1, 2, osd=1), "is no finite number"),
        (usage(-5, 0, 0, osd=1), usage(2, 1, 2, osd=1), "must be above 0"),
        (b'{"verb": "drop"}', usage(2, 1, 2, osd=1), "verb of usage-before must be usage"),
        (b"store: no home\n", usage(2, 1, 2, osd=1), "no JSON"),
    ],
)
def test_readings_that_do_not_fit_are_refused(before: bytes, after: bytes, said: str) -> None:
    with pytest.raises(ParseError) as caught:
        between(before, after)
    assert said in str(caught.value)


def test_a_trend_is_told_as_kendall_tells_it() -> None:
    # All of ten rise: S = 45, its variance 125, so z = 44 / sqrt(125).
    assert _fio_report.trend(range(10)) == pytest.approx(math.erfc(44 / math.sqrt(250)))
    assert _fio_report.trend([5.0] * 9) == 1
    # 1, 1, 2: two pairs rise; the variance is (3 * 2 * 11 - 2 * 1 * 9) / 18.
    assert _fio_report.trend([1, 1, 2]) == pytest.approx(math.erfc(1 / math.sqrt(2 * 48 / 18)))
    scores = [sum((b > a) - (b < a) for i, a in enumerate(p) for b in p[i + 1 :]) for p in permutations(range(7))]
    for series in ((1, 2, 3, 4, 5, 7, 6), (2, 1, 3, 5, 4, 6, 7), (4, 2, 6, 1, 7, 3, 5)):
        mine = sum((b > a) - (b < a) for i, a in enumerate(series) for b in series[i + 1 :])
        exact = np.mean(np.abs(scores) >= abs(mine))
        assert _fio_report.trend(series) == pytest.approx(exact, abs=0.03)


def test_steady_runs_are_called_steady_and_others_are_not() -> None:
    noise = np.random.default_rng(20200315)
    flat = [1000 + 30 * noise.standard_normal(20) for _ in range(2000)]
    called = np.mean([_fio_report.steady(each.tolist()) for each in flat])
    assert 0.985 <= called <= 0.997  # a test at 0.01, and halves that never differ by a tenth
    assert not _fio_report.steady([1000.0] * 10 + [880.0] * 10)
    assert not _fio_report.steady([1000.0 - 5 * at for at in range(20)])  # 5 % between halves, and always down
    with pytest.raises(ParseError, match="too few"):
        _fio_report.steady([1.0])


@SETTINGS
@given(
    rows=st.lists(st.tuples(st.floats(0.01, 2), st.integers(0, 10**6)), min_size=1, max_size=60),
    most=st.integers(1, 20),
)
def test_parts_of_a_run_hold_all_its_requests(rows: list[tuple[float, int]], most: int) -> None:
    ends = np.cumsum([width for width, _ in rows])
    found = _fio_report.rates([(float(end), count) for end, (_, count) in zip(ends, rows, strict=True)], most)
    assert len(found) == min(most, len(rows))
    assert sum(found) * ends[-1] / len(found) == pytest.approx(sum(count for _, count in rows), abs=1e-3)
    assert min(found) >= -1e-6


def test_a_run_that_stood_still_for_a_while_is_not_steady() -> None:
    rows = [(0.25 * (at + 1), 1000) for at in range(20)]
    assert _fio_report.steady(_fio_report.rates(rows, 20))
    still = [*rows[:10], (4.5, 1000), *((4.5 + 0.25 * (at + 1), 1000) for at in range(2))]
    assert not _fio_report.steady(_fio_report.rates(still, 20))


LINE = "250, 1, 4096" + 29 * ", 3" + "\n"


@pytest.mark.parametrize(
    "log",
    ["", LINE[:-1], LINE + LINE.replace("250", "249"), LINE.replace(" 1,", " 0,"), LINE.replace("4096", "512"),
     LINE.replace(", 3\n", "\n"),
     LINE.replace("250", "-250"), LINE.replace("250", "0"), "x" + LINE, LINE + "\n", LINE.replace(", 3,", ", 3.5,", 1)],
)  # fmt: skip
def test_a_log_that_is_not_whole_is_refused(log: str) -> None:
    assert _fio_report.completed(LINE + LINE.replace("250", "760") * 2, "write", 4096) == [(0.25, 87), (0.76, 174)]
    with pytest.raises(ParseError):
        _fio_report.completed(log, "write", 4096)


def test_the_logs_of_several_clients_are_told_apart_and_added_up() -> None:
    second = LINE.replace("250", "240") + LINE.replace("250", "760")
    logs = _fio_report.split_log(LINE + LINE.replace("250", "500") + second, 2)
    assert logs == [LINE + LINE.replace("250", "500"), second]
    rows = _fio_report.add_up([_fio_report.completed(log, "write", 4096) for log in logs])
    assert [end for end, _ in rows] == [0.24, 0.25, 0.5, 0.76]
    assert [count for _, count in rows] == pytest.approx(
        [87 * 0.24 / 0.25 + 87, 87 * 0.01 / 0.25 + 87 * 0.01 / 0.52, 87 + 87 * 0.25 / 0.52, 87 * 0.26 / 0.52]
    )
    assert _fio_report.split_log(LINE * 2 + second, 1) == [LINE * 2 + second]
    for jobs in (2, 4):
        with pytest.raises(ParseError, match="number of jobs in the log must be"):
            _fio_report.split_log(second * 3, jobs)


def test_several_clients_are_one_run_of_so_many_jobs() -> None:
    capture = captured("fio-4k", "clients-debian-13")
    for clients in (1, 2, 8):
        assert "option size must be" in refused("fio-4k", captured("fio-4k", "clients-debian-13", clients=clients))
    log = capture["log"].stdout
    cut = log.rindex(b"\n251,") + 1  # where the last one's begins
    size = b"%d %s\n" % (cut, capture["log-size"].stdout.split()[1])
    less = with_stdout(with_stdout(capture, "log", log[:cut]), "log-size", size)
    assert "number of jobs in the log must be 4" in refused("fio-4k", less)


def rerun(way: str, more_bytes: int = 0, **changes: int) -> Change:
    """Return a change of a job's numbers that its rates follow, as those of another run would."""

    def change(job: dict[str, Any]) -> None:
        side = job[way]
        side.update(changes)
        side["io_bytes"] += more_bytes
        side["bw_bytes"] = side["io_bytes"] * 1000 // side["runtime"]
        side["iops"] = side["total_ios"] * 1000 / side["runtime"]

    return change


def options(*absent: str, **others: str) -> Change:
    """Return a change of the options that a job of fio repeats: some are not there, others are not those."""

    def change(job: dict[str, Any]) -> None:
        for name in absent:
            del job["job options"][name]
        job["job options"].update(others)

    return change


def state(index: int, **keys: Any) -> Change:
    return lambda told: told["states"][index].update(keys)


INVALID = ("compare went over", "read went over", "was not clean before", "but the pool holds")  # by its own evidence
ANSWERS: dict[tuple[Any, ...], list[tuple[Change, str]]] = {  # workload and case, step, where in its JSON
    ("fio-4k", "fio", "jobs", 0): [
        (lambda job: job.update(error=5), "error of job requests must be 0"),
        (lambda job: job.update(jobname="other"), "name of the job must be requests"),
        (options(iodepth="1"), "option iodepth must be 32"),
        (options(rw="write"), "option rw must be randwrite"),
        (options(size="1G"), "option size must be 1073741824"),
        (lambda job: job["write"].update(total_ios=0), "write requests must be above 0"),
        (rerun("write", runtime=3000), "it ran 3 s of 4 s"),
        (rerun("write", io_bytes=4096), "bytes are of 1 requests"),
        (rerun("write", more_bytes=1), "bytes are of"),
        (lambda job: job["write"].update(iops=job["write"]["iops"] + 1), "write iops must be from"),
        (options(runtime="5"), "option runtime must be 4"),
        (options(ramp_time="0"), "option ramp_time must be 1"),
        (options(ioengine="rbd"), "option ioengine must be nbd"),
        (lambda job: job["write"]["lat_ns"].update(N=3), "latencies are of 3 requests"),
        (lambda job: job["write"]["lat_ns"].update(mean=0), "write latency must be above 0"),
        (lambda job: job["write"]["lat_ns"].pop("percentile"), "50.000000 is missing"),
        (lambda job: job["write"]["lat_ns"]["percentile"].pop("99.900000"), "99.900000 is missing"),
        (lambda job: job.pop("write"), "write is missing"),
    ],
    ("fio", "fio", "jobs", 1): [
        (options(bs="8192"), "option bs must be 4096"),
        (options(direct="1"), "option direct must be 0"),
        (options("direct"), "job options.direct is missing"),
        (options(rw="randread"), "option rw must be read"),
        (options(ioengine="io_uring"), "option ioengine must be psync"),
        (options(filename="/dev/null"), "option filename must be /var/tmp/infrabench"),
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
    ("fio-4k/debian-13", "fio", "jobs", 0): [
        (options(direct="0"), "option direct must be 1"),  # libaio, past the page cache
        (options("direct"), "job options.direct is missing"),
        (options(randrepeat="1"), "option randrepeat must be 0"),
    ],
    ("fio-4k/randwrite-debian-13", "fio", "jobs", 0): [(options(end_fsync="0"), "option end_fsync must be 1")],
    ("fio-4k/randread-ceph", "fio", "jobs", 0): [(options("randrepeat"), "job options.randrepeat is missing")],
    ("file-copy", "compare", "jobs", 0): [
        (options(ioengine="other"), "option ioengine must be psync"),
        (lambda job: job.update(error=84), "error of job compare must be 0"),
        (rerun("read", io_bytes=2**20, total_ios=1), "compare went over"),
    ],
    ("file-copy", "read", "jobs", 0): [
        (rerun("read", io_bytes=2**20, total_ios=1), "read went over 1048576"),
        (options(invalidate="other"), "option invalidate must be 0"),
    ],
    ("file-copy", "write", "jobs", 0): [
        (rerun("write", total_ios=7), "bytes of write in pieces"),
        (options(nrfiles="4"), "option nrfiles must be 44"),
        (options(end_fsync="other"), "option end_fsync must be 1"),
    ],
    ("rebuild", "rebuild"): [
        (lambda told: told.update(disk=2), "there is no such disk"),
        (lambda told: told.pop("events"), "events is missing"),
        (lambda told: told["events"]["fail"].update(verb="replace"), "verb of fail must be fail"),
        (lambda told: told["events"]["fail"].update(noticed_s=0), "noticed_s must be above 0"),
        (lambda told: told["events"]["fail"].update(noticed_s=60), "are not in order"),
        (lambda told: told["events"]["replace"].update(begun_s=1.0), "are not in order"),
        (state(0, clean=False), "was not clean before"),
        (state(-1, clean=False), "not clean at the end"),
        (state(-1, clean="yes"), "does not say whether it is clean"),
        (state(-1, begun_s=1.0), "states are not in order"),
        (state(-1, copied_B="much"), "copied_B is no finite number"),
        (lambda told: [row.update(clean=True) for row in told["states"]], "never not clean"),
        (lambda told: told.update(states=[]), "there are no states"),
        (lambda told: told.update(bins=[]), "no bins"),
        (lambda told: told["bins"].pop(3), "requests of all bins that"),
        (lambda told: told["bins"][3].pop(), "not whole"),
        (lambda told: told["bins"].reverse(), "bins are not in order"),
        (lambda told: told["bins"][3].__setitem__(2, -1.0), "hold less than nothing"),
        (lambda told: told.update(bin_s=1.0), "bin_s must be 0.5"),
    ],
    ("rebuild", "rebuild", "fio", "jobs", 0): [
        (lambda job: job.update(error=5), "error of job load must be 0"),
        (options(rate_iops="50,50"), "option rate_iops must be 100,100"),
    ],
    ("integrity", "write"): [
        (lambda told: told.update(bytes=63_999_999), "bytes written must be 64000000"),
        (lambda told: told["files"].popitem(), "16 files were to be written"),
    ],
    ("integrity", "read-after"): [(lambda told: told.update(bytes=63_999_999), "bytes, which are less")],
    ("integrity", "corrupt"): [
        (lambda told: told.update(disks=[0, 1]), "disks with damage must be 1"),
        (lambda told: told.update(disks=1), "disks with damage must be 1"),
        (lambda told: told.update(places=0), "places of the damage must be above 0"),
    ],
    ("integrity", "scrub-again"): [(lambda told: told.update(supported=False), "without a deep scrub")],
    ("integrity", "scrub-deep"): [(lambda told: told.pop("errors"), "errors is missing")],
    ("integrity", "state-read"): [(lambda told: told.update(detail={}), "detail.errors is missing")],
    ("integrity", "read-before"): [
        (lambda told: told["files"].update({"file-0000": "abc"}), "no hash of a file"),
        (lambda told: told["files"].update({"x": "0" * 64}), "no hash of a file"),
        (lambda told: told["unreadable"].update({"file-0000": "EIO"}), "which files it read"),
        (lambda told: told.update(verb="write"), "verb of read-before must be read"),
    ],
    ("integrity/disk-lost", "wait"): [
        (lambda told: told["state"].update(clean=False), "clean after the rebuild must be True"),
    ],
    ("integrity/disk-lost", "fail"): [(lambda told: told.update(verb="state"), "verb of fail must be fail")],
    ("rebuild", "usage-before"): [(lambda told: told["pool"].update(used_B=1000), "but the pool holds 1000")],
}


@pytest.mark.parametrize(
    ("place", "change", "said"), [(place, *row) for place, rows in ANSWERS.items() for row in rows]
)
def test_an_answer_of_another_run_or_against_itself_fails(place: tuple[Any, ...], change: Change, said: str) -> None:
    (workload, _, name), step, *path = place[0].partition("/"), *place[1:]
    error = NotAsClaimed if said.startswith(INVALID) else ParseError
    capture = changed(captured(workload, name or "ok"), step, lambda told: change(reduce(getitem, path, told)))
    assert said in refused(workload, capture, error)


def test_the_log_belongs_to_the_report() -> None:
    capture = captured("fio-4k")
    log = capture["log"].stdout
    cut = log[: log.rindex(b"\n", 0, -1) + 1]
    with pytest.raises(ParseError, match="the log's size"):
        measured("fio-4k", with_stdout(capture, "log", cut))
    more = with_stdout(capture, "log", log.replace(b", 0\n", b", 99999999\n"))
    size = f"{len(more['log'].stdout)} {capture['log-size'].stdout.split()[1].decode()}\n".encode()
    with pytest.raises(ParseError, match="the log tells of"):
        measured("fio-4k", with_stdout(more, "log-size", size))


def test_a_rate_that_contradicts_its_own_count_is_refused() -> None:
    capture = captured("oltp")
    count = capture["sysbench"].stdout.decode().split("transactions:")[1].split()[0]
    twice = replaced(capture, "sysbench", (f" {count} ", f" {int(count) * 2} "))
    assert re.search(r"transactions in \S+ s are not", refused("oltp", twice))


def test_the_end_is_after_the_last_state_that_was_not_clean() -> None:
    capture = captured("rebuild")
    told = json.loads(capture["rebuild"].stdout)
    replaced_s = told["events"]["replace"]["begun_s"]
    relapse = changed(capture, "rebuild", lambda t: t["states"][-3].update(clean=False))
    assert measured("rebuild", relapse)["rebuild_s"] == told["states"][-2]["begun_s"] - replaced_s
    assert measured("rebuild", capture)["rebuild_s"] < measured("rebuild", relapse)["rebuild_s"]


@pytest.mark.parametrize(("earlier_s", "ends_s"), [(0.75, 0.75), (-0.25, 0.0)])
def test_the_end_is_when_the_system_itself_was_clean_where_it_says_that(earlier_s: float, ends_s: float) -> None:
    capture = captured("rebuild")
    states = json.loads(capture["rebuild"].stdout)["states"]
    first = 1 + max(place for place, row in enumerate(states) if not row["clean"])
    since_s = states[first]["begun_s"] - earlier_s
    told = changed(capture, "rebuild", lambda t: t["states"][first].update(since_s=since_s))
    before, after = (measured("rebuild", each)["rebuild_s"] for each in (capture, told))
    assert before - after == pytest.approx(ends_s)
    later = changed(capture, "rebuild", lambda t: t["states"][first].update(since_s="soon"))
    assert "since_s" in refused("rebuild", later)


def test_what_the_question_itself_takes_is_not_used_between_two_readings() -> None:
    before = json.loads(usage(10, 100, 1000, osd=5))
    before["done"] = {"machine": {"busy_s": 103.0, "total_s": 1003.0}, "storage": {"osd": {"cpu_s": 6.0, "rss_B": 1}}}
    found = between(json.dumps(before).encode(), usage(20, 112, 1020, osd=9))
    assert (found.storage_s, found.busy_s, found.total_s) == (3, 9, 17)


def test_a_file_that_came_back_shorter_is_one_of_another_content() -> None:
    def shorten(told: dict[str, Any]) -> None:
        told["bytes"] -= 4096
        told["files"][min(told["files"])] = "0" * 64

    cut = changed(captured("integrity"), "read-before", shorten)
    assert measured("integrity", cut)["silently_wrong_files"] >= 1
    assert "which are less" in refused(
        "integrity", changed(captured("integrity"), "read-before", lambda told: told.update(bytes=told["bytes"] - 4096))
    )


def test_a_load_that_stood_still_has_a_lower_rate_and_no_latency_there() -> None:
    capture = captured("rebuild")

    def still(told: dict[str, Any]) -> None:
        lost = told["events"]["fail"]["begun_s"]
        gone = [row for row in told["bins"] if lost + 4 < row[0] < lost + 5]
        told["bins"] = [row for row in told["bins"] if row not in gone]
        for way, column in (("read", 1), ("write", 3)):
            told["fio"]["jobs"][0][way]["total_ios"] -= sum(row[column] for row in gone)

    before, after = rebuild.timeline(capture), rebuild.timeline(changed(capture, "rebuild", still))
    whole, less = (measured("rebuild", each) for each in (capture, changed(capture, "rebuild", still)))
    assert less["foreground_iops_during"] < 0.97 * whole["foreground_iops_during"]
    assert less["foreground_iops_before"] == whole["foreground_iops_before"]
    rates = [each for each in after.samples if each.series == "foreground_iops"]
    assert [each.at_s for each in rates] == [each.at_s for each in before.samples if each.series == "foreground_iops"]
    zeros = [
        [each.value for each in of.samples if each.series == "foreground_iops"].count(0.0) for of in (before, after)
    ]
    assert zeros[1] == zeros[0] + 2 >= 3  # the real load stood still too, when the disk was lost
    assert after.events["lost"] < after.events["noticed"] < after.events["replaced"] == 0 < after.events["clean"]


@pytest.mark.parametrize("case", ["both-ceph", "both-zfs"])
def test_both_copies_damaged_is_never_fine(case: str) -> None:
    capture = captured("integrity", case)
    found = measured("integrity", capture)
    assert found["lost_files"] + found["silently_wrong_files"] > 0
    assert found["repaired"] == 0
    whole = json.loads(capture["write"].stdout)["files"]
    size = json.loads(capture["write"].stdout)["bytes"]
    capture = changed(capture, "read-after", lambda told: told.update(files=whole, unreadable={}, bytes=size))
    with pytest.raises(NotAsClaimed, match="both copies of data are damaged, but every file"):
        measured("integrity", capture)


def test_files_are_counted_by_what_became_of_them() -> None:
    capture = captured("integrity")
    files = json.loads(capture["write"].stdout)["files"]
    first, second, third, *_ = sorted(files)

    def after(told: dict[str, Any]) -> None:
        told["files"] = {**files, first: "0" * 64}
        del told["files"][second], told["files"][third]
        told["unreadable"] = {second: "Input/output error"}  # and the third is not even listed
        told["bytes"] = 14 * 4_000_000

    found = measured("integrity", changed(capture, "read-after", after))
    assert (found["lost_files"], found["silently_wrong_files"], found["intact_after"]) == (2, 1, 13 / 16)


def test_a_report_that_lost_a_file_is_no_lost_file() -> None:
    lost = changed(captured("integrity"), "read-after", lambda told: told["files"].popitem())
    with pytest.raises(ParseError, match="tells of 15 files"):
        measured("integrity", lost)


def test_who_found_the_damage() -> None:
    quiet = captured("integrity", "one-zfs")  # as if reading had met none of it
    before = json.loads(quiet["state-before"].stdout)["detail"]["errors"]
    quiet = changed(quiet, "state-read", lambda told: told["detail"].update(errors=before))
    assert measured("integrity", quiet)["found_by_read"] == 0
    seen = changed(quiet, "state-read", lambda told: told["detail"].update(errors=before + 1))
    assert measured("integrity", seen)["found_by_read"] == 1
    felt = changed(quiet, "read-some", lambda told: told.update(bytes=0, files={}, unreadable={"file-0000": "EIO"}))
    assert measured("integrity", felt)["found_by_read"] == 1
    blind = changed(quiet, "scrub-deep", lambda told: told.update(errors=0, repaired=0))
    assert {measured("integrity", blind)[key] for key in ("found_by_read", "found_by_deep_scrub", "repaired")} == {0}
    left = changed(quiet, "scrub-again", lambda told: told.update(unrecoverable=1))
    assert measured("integrity", left)["repaired"] == 0
    assert "found_by_light_scrub" in measured("integrity", captured("integrity"))
    assert "found_by_light_scrub" not in measured("integrity", quiet)


def test_a_bin_in_which_nothing_was_completed_is_a_rate_of_nothing_and_no_latency() -> None:
    bins = [
        [100.0, 9, 9.0, 9, 9.0, 5.0],
        [100.5, 30, 0.3, 20, 0.7, 0.1],
        [102.0, 10, 0.1, 0, 0.0, 0.1],
        [102.5, 1, 1, 1, 1, 1],
    ]
    found = sample_load(bins, 101.0)
    rates = {each.at_s: each.value for each in found if each.series == "foreground_iops"}
    assert rates == {-0.25: 100.0, 0.25: 0.0, 0.75: 0.0, 1.25: 20.0}  # neither the first bin nor the last
    latency = {each.at_s: each.value for each in found if each.series == "foreground_latency_s"}
    assert latency[-0.25] == (0.3 + 0.7) / 50
    assert [at_s for at_s, value in latency.items() if math.isnan(value)] == [0.25, 0.75]
    assert {each.unit for each in found} == {"1/s", "s"}


def test_what_is_copied_is_told_from_the_replacement_until_all_is_clean() -> None:
    states = [{"begun_s": float(at), "copied_B": at * 10, "left_B": 100 - at * 10} for at in range(8)]
    assert [(each.at_s, each.value) for each in sample_copied(states, 2.0, 5.0)] == [(0, 20), (1, 30), (2, 40), (3, 50)]
    assert {each.series for each in sample_copied(states, 2.0, 5.0)} == {"copied_B"}
    silent = [{**state, "copied_B": None} for state in states]
    assert [(each.series, each.value) for each in sample_copied(silent, 6.0, 7.0)] == [("left_B", 40), ("left_B", 30)]
    assert sample_copied([{**state, "left_B": None} for state in silent], 2.0, 5.0) == ()
