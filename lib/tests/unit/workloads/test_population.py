"""Workloads on populations of pods: what they plan, and what they refuse to read."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infrabench import registry
from infrabench.core import Capture, Deployment, NotAsClaimed, NotRunnable, ParseError, Target
from infrabench.machines.hosts.host import LocalHost
from infrabench.workloads import _pods, pods_pi, pods_sysbench_fileio, stream
from infrabench_platforms.clusters import _population
from tests.support.captures import with_stdout
from tests.support.workloads import Change, captured, changed, measured, planned, refused

NAMES = ("pods-startup", "pods-netperf", "pods-stream", "pods-sysbench-cpu", "pods-sysbench-fileio", "pods-pi")
# Of a public collection of computations on Linux (github.com/tkoz0/y-cruncher), as ib-pods tells it: by bytes.
VALIDATION = Path(__file__).with_name("ycruncher-0.7.8.txt").read_bytes().decode("latin-1")
Rows = list[dict[str, Any]]
SETTINGS = settings(max_examples=100)


def roles(*names: str, pods: int | None = 61, **lifecycle: tuple[str, ...]) -> dict[str, Target]:
    host = LocalHost("here")
    commands = {"population": ("python3", "-c", "TEXT"), "pods_reason": ("memory of the node",), **lifecycle}
    every = {
        "conductor": Target("conductor", host, ("enter",)),
        "control": Target("control", host, lifecycle=commands, pods=pods),
        "worker1": Target("worker1", host, counters=("/cpu",), lifecycle={"memory": ("memory",)}),
    }
    return {name: every[name] for name in names or every}


def told(workload: str, step: str = "run") -> Rows:
    return [json.loads(line) for line in captured(workload)[step].stdout.splitlines()]


def retold(workload: str, rows: Rows, step: str = "run", **params: Any) -> Capture:
    """Return a captured run in which ib-pods said `rows`."""
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    return with_stdout(captured(workload, **params), step, lines.encode())


@pytest.mark.parametrize("name", NAMES)
def test_pods_stand_before_and_those_of_a_failed_trial_go(name: str) -> None:
    steps = planned(name, roles(), pods=20)
    first, evidence, remove = steps[0], *steps[-2:]
    assert (first.argv[2:], first.role, first.host, first.phase) == (
        ("TEXT", "ensure", "20"), "control", True, "prepare",
    )  # fmt: skip
    assert [(step.argv[3:], step.phase) for step in (evidence, remove)] == [
        (("evidence",), "rescue"), (("remove",), "rescue"),
    ]  # fmt: skip
    cleanup = ["node-after"] * (name != "pods-startup") + ["after"] * (name == "pods-sysbench-fileio")
    assert [step.name for step in steps if step.phase == "cleanup"] == cleanup
    # A node that is not given is not read.
    assert {step.role for step in planned(name, roles("conductor", "control"))} == {"conductor", "control"}


@pytest.mark.parametrize("name", NAMES)
def test_a_system_without_room_a_conductor_or_its_tools_says_so(name: str) -> None:
    for most in (61, 8):
        with pytest.raises(NotRunnable, match=rf"^80 pods do not fit, {most} do: memory of the node$"):
            planned(name, roles(pods=most), pods=80)
    assert planned(name, roles(pods=None), pods=80)
    for absent in (("control",), ("conductor",), ("worker1",)):
        with pytest.raises(NotRunnable, match="it makes no populations of pods"):
            planned(name, roles(*absent))
    bare = Target("server", LocalHost("here"), ("env", "PATH=/nowhere"))
    supported = registry.workload(name).supported
    assert supported(Deployment("x", {"server": bare}, {})) == "it makes no populations of pods"
    assert (supported(Deployment("x", {"server": bare, "conductor": bare}, {})) or "").startswith("ib-pods")


def test_the_conductor_is_told_what_to_do() -> None:
    def run(name: str, **params: Any) -> str:
        return " ".join(next(step.argv for step in planned(name, roles(), **params) if step.name == "run"))

    netperf = run("pods-netperf", pods=4, load="first", test="TCP_RR", seconds=2)
    assert netperf.startswith(
        "ib-pods run -n 4 -t 32 --pairs first --server-port 12865 --server netserver --server -D "
    )
    assert "-- netperf -H {peer} -p 12865 -t TCP_RR -l 2 -- -P ,12866 -r 1,1 -k " in netperf
    assert "--pairs all" in run("pods-netperf", pods=4)
    assert run("pods-stream", pods=1, seconds=2, array_bytes=8192) == (
        "ib-pods run -n 1 -t 62 --gate stdin -- ib-stream --wait --threads 1 --seconds 2 --array-bytes 8192"
    )
    assert run("pods-sysbench-cpu", pods=3, seconds=1).endswith(
        "-- sysbench cpu --threads=1 --time=1 --events=0 --cpu-max-prime=10000 run"
    )
    assert run("pods-pi", pods=3, digits=999).endswith(' -- sh -c pi "$0" | sha256sum 1000')
    for step in planned("pods-stream", roles(), seconds=100):
        if step.name == "run":  # it gives up by itself before it is given up
            assert step.timeout_s > 2 * 160 + 20


def test_files_are_made_before_the_node_is_read_and_removed_after() -> None:
    steps = planned("pods-sysbench-fileio", roles(), pods=3, seconds=1, file_bytes=8192)
    assert [step.name for step in steps[:-2]] == ["ensure", "before", "node-before", "run", "node-after", "after"]
    commands = {step.name: step.argv for step in steps if step.role == "conductor"}
    assert {argv[:7] for argv in commands.values()} == {("ib-pods", "run", "-n", "3", "-t", "62", "--")}
    before, run, after = (commands[name][7:] for name in ("before", "run", "after"))
    assert before[:2] == run[:2] == ("sh", "-c")
    assert [argv[2].startswith("cd /dev/shm && ") for argv in (before, run)] == [True, True]
    assert (before[3:-1], before[-1], run[-1]) == (run[3:-1], "prepare", "run")
    assert {"--file-total-size=8192", "--file-fsync-freq=0", "--file-fsync-end=off"} < set(run)
    assert after == ("rm", "/dev/shm/test_file.0")


@pytest.mark.parametrize(("pods", "load"), [(1, "pairs"), (5, "pairs"), (1, "first")])
def test_what_makes_no_pairs_is_left_out(pods: int, load: str) -> None:
    with pytest.raises(NotRunnable, match=f"{pods} pods make no pairs"):
        planned("pods-netperf", roles(), pods=pods, load=load)


def test_ycruncher_runs_where_it_is() -> None:
    def run(given: dict[str, Target], **params: Any) -> tuple[str, ...]:
        return next(step.argv for step in planned("pods-pi", given, **params) if step.name == "run")

    there = roles(**{"y-cruncher": ("/opt/y-cruncher/y-cruncher",)})
    assert run(there, digits=500)[-2:] == ("/opt/y-cruncher/y-cruncher", "500")
    assert run(there, digits=500, program="pi")[-1] == "501"
    with pytest.raises(NotRunnable, match="y-cruncher is not in its pods"):
        run(roles(), program="y-cruncher")


def test_a_percentile_of_a_start_is_the_time_of_one_pod() -> None:
    found, capture = measured("pods-startup", captured("pods-startup")), captured("pods-startup")
    for step, key, last in (("create", "ready", "all_ready_s"), ("teardown", "gone", "teardown_s")):
        said = json.loads(capture[step].stdout)
        taken_s = sorted(pod[f"{key}_s"] - said["begun_s"] for pod in said["pods"])
        assert [found[f"{key}_p50_s"], found[f"{key}_p90_s"], found[last]] == pytest.approx(
            [taken_s[4], taken_s[8], taken_s[9]]
        )


def test_start_up_is_between_two_looks_at_the_node() -> None:
    names = [step.name for step in planned("pods-startup", roles()) if step.phase == "measure"]
    assert names == [
        "teardown", "calls-before", "rest", "memory-before", "free-before", "node-before", "create", "node-after",
        "calls-after", "settle", "memory-after", "free-after", "clock", "hello",
    ]  # fmt: skip


def test_times_are_brought_to_the_conductors_clock() -> None:
    rows = told("pods-sysbench-cpu")
    before = _pods.read(retold("pods-sysbench-cpu", rows))
    for key in ("start_s", "end_s", "offset_s"):
        rows[2][key] += 1000
    after = _pods.read(retold("pods-sysbench-cpu", rows))
    assert after.pods[1].start_s == pytest.approx(before.pods[1].start_s, abs=1e-5)
    assert after.pods[1].end_s == pytest.approx(before.pods[1].end_s, abs=1e-5)


def put(row: int, **changes: Any) -> Callable[[Rows], None]:
    return lambda rows: rows[row].update(changes)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (put(0, count=3), "count must be 4"),
        (put(0, gate="stdin"), "gate must be exec"),
        (put(0, pairs="all"), "pairs must be None"),
        (put(0, command=["sysbench", "memory", "run"]), "command must be ['sysbench', 'cpu', '--threads=1'"),
        (put(0, limit_s=61), "limit_s must be 62.0"),
        (put(0, go_s=None), "go_s is no finite number"),
        (put(0, sent_s=2e9), "the word to go came after the instant"),
        (put(0, more=1), "the run's keys must be"),
        (put(2, error="lost: it closed the connection"), "error of pod-002 must be None in: 'lost: it closed"),
        (put(2, role="client"), "role of pod-002 must be tool"),
        (put(2, timed_out=True), "timed_out of pod-002 must be False"),
        (put(2, signal=9), "signal of pod-002 must be None"),
        (put(2, status=1), "status of pod-002 must be 0"),
        (put(2, start_s=None), "start_s is no finite number"),
        (put(2, start_s=1e9), "pod-002 started before the instant"),
        (put(2, end_s=1e9), "times of pod-002 are not in order"),
        (put(2, user_s=-1), "times of pod-002 are not in order"),
        (put(2, stdout=None), "pod-002 has no output"),
        (put(2, name="pod-001"), "a pod is there twice"),
        (put(2, name=None), "a pod has no name"),
        (lambda rows: rows[2].pop("ready_s"), "a pod's keys must be"),
        (lambda rows: rows.pop(2), "number of pods must be 4"),
        (lambda rows: rows.pop(), "the last line must be {'end': 4}"),
        (lambda rows: rows[-1].update(end=5), "the last line must be {'end': 4}"),
        (lambda rows: rows.insert(2, rows[2]), "number of pods must be 4"),
        (lambda rows: rows.clear(), "the last line is cut off"),
    ],
)
def test_what_is_not_whole_is_not_read(change: Callable[[Rows], Any], said: str) -> None:
    rows = told("pods-sysbench-cpu")
    assert len(_pods.read(retold("pods-sysbench-cpu", rows)).pods) == 4
    change(rows)
    with pytest.raises(ParseError) as caught:
        _pods.read(retold("pods-sysbench-cpu", rows))
    assert said in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)


@SETTINGS
@given(data=st.data())
def test_any_value_anywhere_is_read_or_refused(data: st.DataObject) -> None:
    rows = told("pods-pi")
    row = data.draw(st.integers(0, len(rows) - 1))
    rows[row][data.draw(st.sampled_from(sorted(rows[row])))] = data.draw(JSON)
    try:
        run = _pods.read(retold("pods-pi", rows))
    except (ParseError, NotAsClaimed):
        return
    assert all(math.isfinite(each) for pod in run.pods for each in (pod.start_s, pod.end_s, pod.offset_s))


def test_starts_that_are_apart_are_not_together() -> None:
    assert _pods.together([5.0, 5.1, 5.05], "x") == pytest.approx(0.1)
    with pytest.raises(NotAsClaimed, match=r"said that all pods start x together, but starts are 0\.101 s apart"):
        _pods.together([5.0, 5.101], "x")


def one_processor(late_s: float, seconds: float = 0.5) -> Capture:
    """Return a run of four pods on one processor that moves 4 GB/s: the first has it for itself, others begin late."""
    first, *rows, end = told("pods-stream")
    for index, row in enumerate(rows):
        begun_s, alone = first["go_s"] + row["offset_s"] + late_s * (index > 0), round(late_s / 0.01) * (index == 0)
        report = json.loads(row["stdout"])
        rounds = [0.01] * alone + [0.04] * math.ceil((seconds - late_s) / 0.04)
        report |= {"repetitions": len(rounds), "begun_s": begun_s, "ended_s": begun_s + sum(rounds)}
        for kernel, arrays in stream.ARRAYS_MOVED.items():
            times = [took * arrays / 10 for took in rounds]
            summary = {"mean_s": sum(times[1:]) / (len(times) - 1), "best_s": min(times[1:])}
            report["kernels"][kernel] |= {"times_s": times, **summary}
        row |= {"stdout": json.dumps(report), "end_s": report["ended_s"] + 0.01}
    return retold("pods-stream", [first, *rows, end])


def test_bandwidth_is_that_of_the_time_in_which_all_pods_work() -> None:
    """A sum of rates over own times would say that a processor moves more the later some pods begin."""
    for late_s in (0.0, 0.1, 0.2):
        found = measured("pods-stream", one_processor(late_s))
        for kernel in stream.ARRAYS_MOVED:
            assert found[f"{kernel}_B_per_s"] == pytest.approx(4e9, rel=1e-4)
            assert found[f"{kernel}_pod_B_per_s"] == pytest.approx(1e9, rel=1e-4)
        assert found["begin_spread_s"] == pytest.approx(late_s, abs=1e-5)
    said = refused("pods-stream", one_processor(0.4), NotAsClaimed)
    assert said.startswith("said that all pods work 0.5 s together, but do for 0.0")


def test_starts_are_compared_on_one_clock() -> None:
    rows = told("pods-stream")[1:-1]
    found = measured("pods-stream", captured("pods-stream"))
    for metric, key in (("start_spread_s", "awake_s"), ("begin_spread_s", "begun_s")):
        times = [json.loads(row["stdout"])[key] - row["offset_s"] for row in rows]
        assert found[metric] == max(times) - min(times)


def test_all_is_counted_from_the_instant_until_the_last_end() -> None:
    """Not the sum of what each tells of its own time: those which begin late would count while others rest."""
    first, *rows, _ = told("pods-sysbench-cpu")
    events = [int(re.search(r"total number of events: +(\d+)", row["stdout"])[1]) for row in rows]  # type: ignore[index]
    span = max(row["end_s"] - row["offset_s"] for row in rows) - first["go_s"]
    found = measured("pods-sysbench-cpu", captured("pods-sysbench-cpu"))
    assert found["events_per_s"] == pytest.approx(sum(events) / span)
    assert found["pod_events_per_s"] == pytest.approx(sum(events) / span / 4)
    late = [{**row, "start_s": row["start_s"] + k, "end_s": row["end_s"] + k} for k, row in enumerate(rows)]
    other = retold("pods-sysbench-cpu", [first, *late, {"end": 4}])
    assert measured("pods-sysbench-cpu", other)["events_per_s"] < 0.5 * found["events_per_s"]


def test_each_pair_counts_once_and_idle_pods_not_at_all() -> None:
    found = measured("pods-netperf", captured("pods-netperf"))
    assert found["throughput_bit_per_s"] == pytest.approx(2 * found["pair_throughput_bit_per_s"])
    assert 0 < found["lowest_share"] < 1
    first = measured("pods-netperf", captured("pods-netperf", "first"))
    assert first["throughput_bit_per_s"] == first["pair_throughput_bit_per_s"]
    assert first["lowest_share"] == 1


def in_pod(workload: str, row: int, old: str, new: str, step: str = "run") -> Capture:
    """Return a captured run with one place of a pod's output changed; the place has to be there."""
    rows = told(workload, step)
    assert old in rows[row]["stdout"]
    rows[row]["stdout"] = rows[row]["stdout"].replace(old, new, 1)
    return retold(workload, rows, step)


@pytest.mark.parametrize(
    ("workload", "old", "new", "said"),
    [
        ("pods-stream", '"valid": true', '"valid": false', "valid must be True"),
        ("pods-stream", '"array_bytes": 4000000', '"array_bytes": 4000008', "array_bytes must be 4000000"),
        ("pods-stream", '"threads": 1', '"threads": 2', "threads must be 1"),
        ("pods-stream", '"awake_s": 17', '"awake_s": 16', "its times are not in order after the instant"),
        ("pods-stream", '"started_s": 17', '"started_s": 16', "its times are not in order after the instant"),
        ("pods-stream", '"begun_s": 17', '"begun_s": 27', "its times are not in order after the instant"),
        ("pods-stream", '"ended_s": 17', '"ended_s": 27', "its times are not in order after the instant"),
        ("pods-stream", '8000000, "times_s": [0', '8000000, "times_s": [9', "longer than from its begin to its end"),
        ("pods-stream", '"awake_s"', '"awake"', "awake_s is missing"),
        ("pods-stream", '"ended_s"', '"ended"', "ended_s is missing"),
        ("pods-sysbench-cpu", "Number of threads: 1", "Number of threads: 2", "number of threads must be 1"),
        ("pods-sysbench-fileio", "Number of threads: 1", "Number of threads: 2", "number of threads must be 1"),
        ("pods-sysbench-fileio", "1 files, 16MiB", "2 files, 16MiB", "expected the options"),
        ("pods-sysbench-fileio", "Block size 4KiB", "Block size 16KiB", "expected the options"),
        ("pods-sysbench-fileio", "(none)", "direct", "expected the options"),
        ("pods-sysbench-fileio", "ratio for combined random IO test: 1.00", "ratio: 1.50", "expected the options"),
        ("pods-sysbench-fileio", "Using synchronous", "Using asynchronous", "expected the options"),
        ("pods-sysbench-fileio", "Using s", "Calling fsync() at the end of test.\nUsing s", "expected the options"),
        ("pods-sysbench-fileio", "fsyncs/s:                     0.00", "fsyncs/s: 9.00", "fsyncs/s must be 0"),
        ("pods-sysbench-fileio", " writes/s:                     ", " writes/s:      9", "are not"),
        ("pods-sysbench-fileio", " read, MiB/s:                  ", " read, MiB/s:   9", "read, MiB/s must be from"),
        ("pods-sysbench-fileio", "total number of events:              ", "total number of events: 9", "are not"),
        ("pods-netperf", " to 10.77.0.1 ", " to 10.77.0.2 ", "expected the test's name once"),
        ("pods-pi", "  -\n", "  -", "expected the hash of pod-002 once"),
    ],
)
def test_one_pod_that_did_something_else_is_refused(workload: str, old: str, new: str, said: str) -> None:
    assert said in refused(workload, in_pod(workload, 2, old, new))


@pytest.mark.parametrize("step", ["before", "after"])
def test_a_pod_that_made_or_kept_another_file_is_refused(step: str) -> None:
    rows = told("pods-sysbench-fileio", step)
    rows[2]["status"] = 1
    assert "status of pod-002 must be 0" in refused("pods-sysbench-fileio", retold("pods-sysbench-fileio", rows, step))
    less = in_pod("pods-sysbench-fileio", 2, "16777216 bytes", "16773120 bytes", "before")
    assert "bytes written of pod-002 must be 16777216" in refused("pods-sysbench-fileio", less)


def test_reads_and_writes_alternate() -> None:
    name = "pods-sysbench-fileio"
    found = re.search(r"reads/s: +([0-9.]+)\n +writes/s: +([0-9.]+)", told(name)[2]["stdout"])
    assert found
    reads, writes = (float(rate) for rate in found.groups())
    other = in_pod(name, 2, found[0], f"reads/s: {reads - 90:.2f}\n    writes/s: {writes + 90:.2f}")
    assert "writes/s must be from" in refused(name, other)


def test_sizes_are_those_that_sysbench_prints() -> None:
    sizes = {
        1000: "1000B", 1023: "1023B", 12288: "12KiB", 100_000: "97.656KiB", 1_500_000: "1.4305MiB",
        16_781_312: "16.004MiB", 2**27: "128MiB", 2**30: "1GiB",
    }  # fmt: skip
    assert {size: pods_sysbench_fileio._size(size) for size in sizes} == sizes


def test_processor_time_is_by_the_formulas() -> None:
    capture = captured("pods-pi")
    rows = told("pods-pi")
    cpus = json.loads(capture["facts"].stdout)["cpus"]
    before, after = ([int(n) for n in line.split()[1:]] for line in capture["run"].stderr.decode().splitlines())
    used = 0.01 * sum(after[i] - before[i] for i in (0, 1, 2, 5, 6))
    span = max(row["end_s"] - row["offset_s"] for row in rows[1:-1]) - rows[0]["go_s"]
    found = measured("pods-pi", capture)
    assert found["all_done_s"] == pytest.approx(span)
    assert found["cpu_utilisation_percent"] == pytest.approx(100 * used / span)
    assert found["efficiency_percent"] == pytest.approx(100 * used / span / cpus)
    assert found["time_s"] < span


@pytest.mark.parametrize(
    ("step", "change", "error", "said"),
    [
        ("create", lambda d: d["cri"]["start_container"].update(count=3), NotAsClaimed, "3 times start_container"),
        ("teardown", lambda d: d["cri"]["stop_podsandbox"].update(count=3), NotAsClaimed, "3 times stop_podsandbox"),
        ("create", lambda d: d.update(verb="ensure"), ParseError, "verb must be create"),
        ("create", lambda d: d.update(count=5), ParseError, "count of create must be 10"),
        ("create", lambda d: d["pods"].pop(), ParseError, "pods of create must be 10"),
        ("create", lambda d: d.update(pods=7), ParseError, "pods is no list"),
        ("create", lambda d: d["pods"][1].update(name="pod-001"), ParseError, "a name of their own must be 10"),
        ("create", lambda d: d["pods"][1].update(name="pod-011"), ParseError, "pods that answered must be"),
        ("create", lambda d: d["pods"][1].update(ready_s=1.0), ParseError, "not between its begin and its end"),
        ("create", lambda d: d.update(begun_s=d["begun_s"] + 1.9), ParseError, "clocks differ, or it began again"),
        ("create", lambda d: d["cri"]["run_podsandbox"].update(seconds=0), ParseError, "sandbox_s must be above 0"),
    ],
)
def test_a_start_up_that_contradicts_itself_is_refused(
    step: str, change: Change, error: type[ParseError | NotAsClaimed], said: str
) -> None:
    assert said in refused("pods-startup", changed(captured("pods-startup"), step, change), error)


def started(round_trip_s: float = 0.004, ahead_s: float = 1000.0) -> Capture:
    """Return the captured start-up with steps for counts and clock, as if the conductor's clock were ahead."""
    capture = captured("pods-startup")
    rows = [json.loads(line) for line in capture["hello"].stdout.splitlines()]
    for row in rows[:-1]:
        row["offset_s"] -= ahead_s
    cri = json.loads(capture["create"].stdout)["cri"]
    before = {name: {"count": 7, "seconds": 2.5} for name in cri}
    after = {name: {key: cri[name][key] + before[name][key] for key in cri[name]} for name in cri}
    said = {"calls-before": {"cri": before}, "calls-after": {"cri": after}}
    said["clock"] = {"offset_s": ahead_s, "round_trip_s": round_trip_s}
    capture = changed(capture, "create", lambda told: told.pop("cri"))
    new = {name: replace(capture["create"], stdout=json.dumps(each).encode()) for name, each in said.items()}
    capture = Capture({**capture.steps, **new}, capture.params)
    return with_stdout(capture, "hello", "".join(json.dumps(row) + "\n" for row in rows).encode())


def test_first_instructions_are_on_the_clock_that_hears_the_api() -> None:
    assert measured("pods-startup", started()) == pytest.approx(measured("pods-startup", captured("pods-startup")))
    said = refused("pods-startup", started(round_trip_s=0.2), NotAsClaimed)
    assert said.endswith("the conductor did what, but its clock is known within 0.100 s only")


def test_a_clock_that_is_compared_over_a_long_round_trip_makes_a_trial_invalid() -> None:
    rows = told("pods-sysbench-cpu")
    rows[2]["round_trip_s"] = 0.03
    with pytest.raises(NotAsClaimed, match=r"pod-002 did what, but its clock is known within 0\.015 s only"):
        _pods.read(retold("pods-sysbench-cpu", rows))


def test_a_creation_or_removal_begins_when_the_api_tells_of_it() -> None:
    """And not before a program asks for it; None where the watch came late."""

    def event(kind: str, name: str, *, started: bool = True, going: bool = False) -> bytes:
        metadata = {"name": name, **({"deletionTimestamp": "now"} if going else {})}
        status = {"phase": "Running", **({"startTime": "now"} if started else {})}
        return json.dumps({"type": kind, "object": {"metadata": metadata, "status": status}}).encode()

    def until(begins: Callable[[str, Any], bool], last: str, *events: bytes) -> Any:
        watch = _population.Watch(SimpleNamespace(config={"wait_s": 60, "wait_s_per_pod": 0}), 2)
        for at_s, each in enumerate(events):
            watch.events.put((float(at_s), each))
        begun_s, found, left = watch.until(begins, lambda kind, _: kind == last, {"a", "b"})
        return begun_s, {name: at_s for name, (at_s, _) in found.items()}, left

    new = [event("ADDED", name, started=False) for name in "xab"]
    ready = [event("MODIFIED", name) for name in "ba"]
    assert until(_population.is_new, "MODIFIED", *new, *ready) == (1.0, {"b": 3.0, "a": 4.0}, set())
    assert until(_population.is_new, "MODIFIED", event("ADDED", "a"), *new[2:], *ready)[0] is None
    there = [event("ADDED", name) for name in "ab"]
    going = [event("MODIFIED", name, going=True) for name in "ba"]
    gone = [event("DELETED", name, going=True) for name in "ab"]
    assert until(_population.is_going, "DELETED", *there, *going, *gone) == (2.0, {"a": 4.0, "b": 5.0}, set())


def test_start_up_without_a_node_tells_what_the_conductor_sees() -> None:
    capture = captured("pods-startup")
    steps = {name: each for name, each in capture.steps.items() if not name.startswith(("node-", "memory-"))}
    found = measured("pods-startup", Capture(steps, capture.params))
    assert "cpu_s" not in found
    free = [int(capture[f"free-{when}"].stdout.split(b"MemAvailable:")[1].split()[0]) for when in ("before", "after")]
    assert found["memory_B_per_pod"] == (free[0] - free[1]) * 1024 / capture.params["pods"]
    uncounted = replace(capture["node-before"], argv=("cat", "/proc/net/dev", "/proc/stat"))
    found = measured("pods-startup", Capture({**capture.steps, "node-before": uncounted}, capture.params))
    assert "cpu_s" not in found
    assert "memory_B_per_pod" in found


def test_a_reading_that_failed_is_no_reading() -> None:
    capture = captured("pods-pi")
    failed = replace(capture["node-after"], status=1)
    with pytest.raises(ParseError, match="step node-after ended with 1"):
        _pods.cpu(Capture({**capture.steps, "node-after": failed}, capture.params))


def test_digits_are_those_of_pi() -> None:
    assert pods_pi.decimals(50) == "14159265358979323846264338327950288419716939937510"
    assert pods_pi.decimals(768)[761:] == "9999998"  # R. Feynman's point, and what follows it: cut off, not rounded
    # Of "3." and a hundred thousand significant digits with a newline, as the program of CLN 1.3.6 prints them.
    digest = hashlib.sha256(f"3.{pods_pi.decimals(99_999)}\n".encode()).hexdigest()
    assert digest == "f196976547f0e42d25806690a839a958162f86a5c045e27a7532b9f08ec09db1"


@SETTINGS
@given(count=st.integers(1, 3000))
def test_fewer_digits_are_the_first_of_more(count: int) -> None:
    assert pods_pi.decimals(count) == pods_pi.decimals(5000)[:count]


def test_what_ycruncher_validates_is_read() -> None:
    """With a byte-order mark and lines that end with CRLF, or without; newer layouts of times too."""
    assert VALIDATION.startswith("\xef\xbb\xbfBenchmark Validation File")
    assert VALIDATION.count("\n") == VALIDATION.count("\r\n")
    assert "\tSeries: E ( 0 ) 72.083%\r\n" in VALIDATION
    found = pods_pi.read_validation(VALIDATION)
    times = {"computation time": 310.881, "wall time": 361.912, "utilisation": 379.61, "efficiency": 94.90}
    assert found == (times, 1_000_000_050, 1022368949635857095)
    for other in (
        VALIDATION.removeprefix("\xef\xbb\xbf").replace("\r\n", "\n"),
        VALIDATION.replace("310.881 seconds", "310.881 seconds  ( 5.181 minutes )"),
    ):
        assert pods_pi.read_validation(other) == found


@SETTINGS
@given(kept=st.integers(0, len(VALIDATION) - 1))
def test_a_validation_that_is_cut_off_is_refused(kept: int) -> None:
    with pytest.raises(ParseError):
        pods_pi.read_validation(VALIDATION[:kept])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Constant:              Pi\r\n", "Constant:              e\r\n"),
        ("Good through 1,000,000,000", "Failed"),
        ("310.881 seconds", "0.000 seconds"),
        ("379.61 %  +", "lots %  +"),
        ("Dec Hash", "Hash"),
    ],
)
def test_a_validation_that_is_not_good_is_refused(old: str, new: str) -> None:
    assert old in VALIDATION
    with pytest.raises(ParseError):
        pods_pi.read_validation(VALIDATION.replace(old, new))


def test_the_hash_is_of_the_number_without_its_point() -> None:
    decimals = pods_pi.decimals(4100)
    assert pods_pi.hash_decimals(decimals[:300]) == int("3" + decimals[:300]) % (2**61 - 1)
    whole = int("3" + decimals[:4000]) * 10**100 + int(decimals[4000:])
    assert pods_pi.hash_decimals(decimals) == whole % (2**61 - 1)


def with_ycruncher(*, right: bool = True, text: str = VALIDATION, **params: Any) -> Capture:
    """Return a capture in which every pod left a validation file of 1500 digits."""
    hashed = pods_pi.hash_decimals(pods_pi.decimals(1500)) + (not right)
    said = text.replace("1,000,000,050", "1,500").replace("1022368949635857095", str(hashed))
    rows = [row | ({"stdout": said} if "stdout" in row else {}) for row in told("pods-pi")]
    return retold("pods-pi", rows, **{"digits": 1500, **params})


@pytest.mark.parametrize("program", ["auto", "y-cruncher"])
@pytest.mark.parametrize("text", [VALIDATION, VALIDATION.removeprefix("\xef\xbb\xbf").replace("\r\n", "\n")])
def test_ycrunchers_own_figures_stand_beside_ours(program: str, text: str) -> None:
    found = measured("pods-pi", with_ycruncher(text=text, program=program))
    assert (found["computation_s"], found["told_efficiency_percent"]) == (310.881, 94.90)
    assert found["told_utilisation_percent"] == 379.61
    assert found["time_s"] == measured("pods-pi", captured("pods-pi"))["time_s"]


def test_other_digits_than_those_of_pi_are_refused() -> None:
    for capture, said in (
        (with_ycruncher(right=False), "hash of the decimals of pod-001"),
        (with_ycruncher(digits=1600), "decimals of pod-001 must be 1600"),
        (with_ycruncher(program="pi"), "program must be pi"),
        (in_pod("pods-pi", 1, _sha(20_000), _sha(20_001)), "computed other digits"),
    ):
        with pytest.raises(ParseError, match=said):
            pods_pi.parse(capture)


def _sha(digits: int) -> str:
    return hashlib.sha256(f"3.{pods_pi.decimals(digits)}\n".encode()).hexdigest()
