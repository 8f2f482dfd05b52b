"""Who talks with whom, the server of one trial, and what counters that contradict a claim make of it."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from operator import getitem
from pathlib import Path
from typing import Any

import pytest

from infrabench.core import Capture, NotAsClaimed, NotRunnable, ParseError, Step, Target
from infrabench.machines.hosts.host import LocalHost
from infrabench.workloads import _counters, _network, iperf3, netperf, pod_network
from tests.support import workloads
from tests.support.captures import with_stdout
from tests.support.started_commands import unused_port
from tests.support.workloads import captured, changed, measured, refused

LISTENER = """
import socket, sys, time
with socket.create_server(("127.0.0.1", int(sys.argv[1]))):
    time.sleep(60)
"""
PYTHON = Path(sys.executable).resolve()


def roles(*names: str, **addresses: str) -> dict[str, Target]:
    host = LocalHost("here")
    own = {"primary": "10.0.1.5", **addresses}
    devices = {"primary": "eth0", "second": "net1"}
    return {name: Target(name, host, (), "10.0.1.5", addresses=own, devices=devices) for name in names}


def cluster(**addresses: str) -> dict[str, Target]:
    nodes = {
        name: replace(each, devices={"uplink": "eth0", "overlay": "flannel.1"}, counters=("/cpu",))
        for name, each in roles("worker1", "worker2").items()
    }
    pods = roles("server", "near", "far", "server-plain", "near-plain", "far-plain", "server-guarded", **addresses)
    return {**pods, **nodes}


def ends(given: dict[str, Target], **params: Any) -> _network.Ends:
    return _network.ends({**{name: each.default for name, each in _network.PATH.items()}, **params}, given)


def planned(given: dict[str, Target], **params: Any) -> dict[str, Step]:
    return {step.name: step for step in workloads.planned("iperf3", given, **params)}


def edited(capture: Capture, step: str, pattern: str, changed: str | Callable[[re.Match[str]], str]) -> Capture:
    """Return `capture` with one place of a step's output changed; the place has to be there, once."""
    output, times = re.subn(pattern, changed, capture[step].stdout.decode(), flags=re.MULTILINE)
    assert times == 1
    return with_stdout(capture, step, output.encode())


def claiming(capture: Capture, step: str, **changes: Any) -> Capture:
    """Return `capture` with another claim stored at one of its steps."""
    place = next(i for i, part in enumerate(capture[step].argv) if part.startswith(_counters.CLAIM))
    claim = json.loads(capture[step].argv[place].removeprefix(_counters.CLAIM)) | changes
    argv = list(capture[step].argv)
    argv[place] = _counters.CLAIM + json.dumps(claim)
    return Capture({**capture.steps, step: replace(capture[step], argv=tuple(argv))}, capture.params)


# ------------------------------------------------------------------------------------------------------ ends, plans


def test_ends_of_every_path() -> None:
    given = cluster(second="10.9.1.5", service="10.96.0.9")
    found = ends(given, placement="same-node")
    assert (found.server.role, found.client.role, found.address) == ("server", "near", "10.0.1.5")
    assert [node.role for node in found.nodes.values()] == ["worker1"]
    found = ends(given, interface="service", multus=False)
    assert (found.server.role, found.client.role, found.address) == ("server-plain", "far-plain", "10.96.0.9")
    assert {key: node.role for key, node in found.nodes.items()} == {"server-node": "worker1", "client-node": "worker2"}
    found = ends(given, policy=True, interface="second")
    assert (found.server.role, found.client.role, found.address) == ("server-guarded", "far", "10.9.1.5")


@pytest.mark.parametrize(
    ("names", "params", "reason"),
    [
        (("server", "near"), {}, "joins no two nodes"),
        (("server", "far"), {"placement": "same-node"}, "no second pod on a node"),
        (("server", "far"), {"interface": "second"}, "no second interface here"),
        (("server", "far"), {"interface": "service"}, "no service that leads to the server here"),
        (("server", "far"), {"multus": False}, "no pods that were made without Multus"),
        (("server", "far"), {"policy": True}, "no server behind a network policy here"),
        (("server", "server-plain", "far-plain"), {"policy": True, "multus": False}, "behind a network policy"),
    ],
)
def test_what_a_system_has_no_place_for_says_why(names: tuple[str, ...], params: dict[str, Any], reason: str) -> None:
    for workload in ("iperf3", "netperf"):
        with pytest.raises(NotRunnable, match=reason):
            workloads.planned(workload, roles(*names), **params)


def test_readings_are_the_neighbours_of_the_tool() -> None:
    order = list(planned(cluster()))
    assert order == [
        "start", "client-node-before", "server-node-before", "iperf3", "server-node-after", "client-node-after", "stop",
    ]  # fmt: skip
    steps = planned(cluster())
    assert [steps[name].role for name in order] == [
        "server", "worker2", "worker1", "far", "worker1", "worker2", "server",
    ]  # fmt: skip
    assert [name for name, step in steps.items() if step.phase == "cleanup"] == order[4:]
    assert steps["server-node-before"].argv[2:] == ("cat", "/cpu", "/proc/net/dev", "/proc/stat")
    assert list(planned(roles("server", "far"))) == ["start", "iperf3", "stop"]


def test_claim_names_the_device_of_the_interface() -> None:
    def devices(given: dict[str, Target], **params: Any) -> dict[str, bool]:
        argv = planned(given, **params)["start"].argv
        return json.loads(argv[1].removeprefix(_counters.CLAIM))["devices"]

    given = cluster(second="10.9.1.5", service="10.96.0.9")
    assert devices(given) == devices(given, interface="service") == {"eth0": True, "net1": False}
    assert devices(given, interface="second") == {"eth0": False, "net1": True}
    given["near"] = replace(given["near"], devices={"primary": "lo"})
    assert devices(given, placement="same-node") == {"eth0": False, "net1": False, "lo": True}
    given["server"] = replace(given["server"], devices={})
    assert devices(given) == {}


# ------------------------------------------------------------------------------------------- the server of one trial


@pytest.fixture
def port() -> int:
    return unused_port()


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[tuple[str, str]]:
    found = (str(tmp_path / "server.pid"), PYTHON.name[:15])
    yield found
    script("STOP", *found)


def script(which: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = ["sh", "-c", getattr(_network, which), "sh", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, timeout=30)


def start(mark: tuple[str, str], port: int, source: str = LISTENER) -> subprocess.CompletedProcess[str]:
    return script("START", *mark, f"{port:04X}", str(PYTHON), "-c", source, str(port))


def answers(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


def test_server_listens_when_start_returns_and_not_after_stop(mark: tuple[str, str], port: int) -> None:
    started = start(mark, port)
    assert (started.returncode, started.stderr) == (0, "")
    assert started.stdout.startswith("Inter-|")
    assert answers(port)
    stopped = script("STOP", *mark)
    assert (stopped.returncode, stopped.stdout.startswith("Inter-|")) == (0, True)
    assert not answers(port)
    assert not list(Path(mark[0]).parent.iterdir())
    assert script("STOP", *mark).returncode == 0


def test_start_replaces_what_an_interrupted_trial_left(mark: tuple[str, str], port: int) -> None:
    assert start(mark, port).returncode == 0
    first = Path(mark[0]).read_text()
    assert start(mark, port).returncode == 0
    assert Path(mark[0]).read_text() != first


def test_start_fails_where_another_server_has_the_port(mark: tuple[str, str], port: int) -> None:
    with socket.create_server(("127.0.0.1", port)):
        done = start(mark, port)
    assert done.returncode == 1
    assert f"port 0x{port:04X} is taken" in done.stderr


def test_start_says_why_the_server_ended(mark: tuple[str, str], port: int) -> None:
    done = start(mark, port, "import sys; sys.exit('no memory')")
    assert done.returncode == 1
    assert "no memory" in done.stderr
    assert "does not listen" in done.stderr


def test_stop_leaves_a_process_that_has_got_the_number(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "30"]) as other:
        file = tmp_path / "server.pid"
        file.write_text(str(other.pid))
        assert script("STOP", str(file), "iperf3").returncode == 0
        assert other.poll() is None
        other.kill()


# ------------------------------------------------------------------------------------------------- what was claimed


def carried(capture: Capture, step: str, device: str, received: int = 0, sent: int = 0) -> Capture:
    """Return `capture` with bytes and packets added to what `device` had counted when `step` read it."""

    def more(found: re.Match[str]) -> str:
        numbers = [int(number) for number in found[2].split()]
        added = {0: received, 1: received, 8: sent, 9: sent}
        return found[1] + " ".join(str(number + added.get(i, 0)) for i, number in enumerate(numbers))

    return edited(capture, step, rf"^( *{re.escape(device)}: )(.+)$", more)


@pytest.mark.parametrize(
    ("before", "after", "device", "said"),
    [
        ("start", "stop", "eth0", "over the server's eth0, but its device eth0 carried 0 of"),
        ("server-node-before", "server-node-after", "flannel.1", "that device of worker1 carried 0 of"),
        ("client-node-before", "client-node-after", "flannel.1", "that device of worker2 carried 0 of"),
        ("server-node-before", "server-node-after", "eth0", "over eth0, but that device of worker1 carried 0 of"),
    ],
)
def test_device_that_carried_nothing_is_not_the_path(before: str, after: str, device: str, said: str) -> None:
    line = rf"^ *{re.escape(device)}: .+$"
    for workload in (iperf3, netperf):
        capture = captured(workload.TOOL)
        found = re.search(line, capture[after].stdout.decode(), re.MULTILINE)
        assert found is not None
        with pytest.raises(NotAsClaimed, match=re.escape(said)):
            workload.parse(edited(capture, before, line, found[0]))


@pytest.mark.parametrize(
    ("case", "step", "device"),
    [
        ("second-interface", "server-node-after", "flannel.1"),
        ("second-interface", "client-node-after", "flannel.1"),
        ("second-interface", "stop", "eth0"),
        ("same-node", "server-node-after", "flannel.1"),
        ("same-node", "server-node-after", "eth0"),
        ("same-node", "stop", "net1"),
        ("ok", "stop", "net1"),
    ],
)
def test_device_that_should_be_quiet_and_was_not(case: str, step: str, device: str) -> None:
    capture = captured("iperf3", case)
    payload = 10**9
    iperf3.parse(carried(capture, step, device, received=10**5))
    with pytest.raises(NotAsClaimed, match=device):
        iperf3.parse(carried(capture, step, device, sent=payload))


def test_other_node_over_the_overlay_is_not_the_same_node() -> None:
    """The path that was taken between two nodes, under the claim that both ends were on one."""
    capture = claiming(captured("iperf3"), "start", placement="same-node", nodes=1)
    with pytest.raises(NotAsClaimed, match=r"said same node, not over (flannel\.1|eth0)"):
        iperf3.parse(capture)


def test_too_little_traffic_proves_nothing() -> None:
    capture = captured("netperf")
    told = capture["netperf"].stdout.decode()
    for key, few in (("THROUGHPUT", "900"), ("REMOTE_BYTES_RECVD", "900"), ("MEAN_LATENCY", "1110")):
        told = re.sub(rf"^{key}=.*$", f"{key}={few}", told, flags=re.MULTILINE)
    with pytest.raises(NotAsClaimed, match="too few"):
        netperf.parse(with_stdout(capture, "netperf", re.sub("MAX_LATENCY=.*", "MAX_LATENCY=9999", told).encode()))


@pytest.mark.parametrize("case", ["tcp-3.9", "udp", "udp-losses-3.18", "udp-losses-3.9"])
@pytest.mark.parametrize("side", ["client", "server"])
def test_an_interval_that_is_missing_or_told_twice_is_noticed(case: str, side: str) -> None:
    """Each interval has to be there once; a last one of half a millisecond changes nothing since 3.16."""
    capture = captured("iperf3", case)
    whole = iperf3.parse(capture)
    for number in range(2 if side == "client" else 3):
        for more in (0, 2):
            report = json.loads(capture["iperf3"].stdout)
            intervals = (report if side == "client" else report["server_output_json"])["intervals"]
            if number < len(intervals):
                tail = intervals[number]["sum"]["seconds"] < 0.001 and "3.18" in case and not more
                intervals[number : number + 1] = [intervals[number]] * more
                changed = with_stdout(capture, "iperf3", json.dumps(report).encode())
                if tail:
                    assert iperf3.parse(changed) == whole
                    continue
                with pytest.raises(ParseError, match=r"interval|bytes received"):
                    iperf3.parse(changed)


def more_at_end(more: int) -> Capture:
    """Return a run whose server counted `more` bytes at the end than its intervals add up to."""

    def change(report: dict[str, Any]) -> None:
        counted = sum(each["sum"]["bytes"] for each in report[SERVER]["intervals"])
        for told in (report, report[SERVER]):
            end = told["end"]["sum_received"]
            end["bytes"] = counted + more
            end["bits_per_second"] = 8 * end["bytes"] / end["seconds"]

    return changed(captured("iperf3", "tcp-3.18"), "iperf3", change)


def test_threads_count_on_after_an_interval_and_one_thread_does_not() -> None:
    """As of 3.16 the sum at the end is up to 0.1 % more than its intervals, and it is what was received."""
    end = json.loads(more_at_end(131072)["iperf3"].stdout)[SERVER]["end"]["sum_received"]
    assert measured("iperf3", more_at_end(131072))["throughput_bit_per_s"] == 8 * end["bytes"] / end["seconds"]
    older = more_at_end(131072)["iperf3"].stdout.replace(b"iperf 3.18", b"iperf 3.12")
    wrong = (more_at_end(-1), more_at_end(end["bytes"] // 500), with_stdout(more_at_end(0), "iperf3", older))
    for each in wrong:
        assert "bytes at the end, of all intervals" in refused("iperf3", each)


@pytest.mark.parametrize("lost", [None, 1, 2])
def test_an_interval_whose_bytes_nobody_would_miss_is_not_missing(lost: int | None) -> None:
    """Of a long test one is less than the share that threads may miss: the times say that it is not there."""

    def change(report: dict[str, Any]) -> None:
        for told in (report, report[SERVER]):
            whole = told["intervals"].pop()["sum"]
            ends = [whole["start"] + part * (whole["end"] - whole["start"]) / 3 for part in range(4)]
            for part, (start, end) in enumerate(pairwise(ends)):
                third = {**whole, "start": start, "end": end, "bytes": whole["bytes"] if part == 0 else 0}
                told["intervals"] += [{"sum": third}] if part != lost else []

    capture = changed(captured("iperf3", "tcp-3.18"), "iperf3", change)
    assert iperf3.parse(capture) if lost is None else "interval" in refused("iperf3", capture)


def told(key: str, value: str) -> tuple[str, str]:
    """Return a pattern of what netperf tells of a key, and another value of it."""
    return rf"^{key}=.*$", f"{key}={value}"


COUNT, SUM = (rf'(_seconds_{what}\{{operation_type="set_up_pod"\}})' for what in ("count", "sum"))
FAILURES = f'{pod_network.CONTAINERD}_errors_total_total{{operation_type="set_up_pod"}}'
OTHERS: dict[tuple[str, str, str], list[tuple[str, str, str]]] = {  # workload, case, step: pattern, other, what is said
    ("iperf3", "ok", "server-node-after"): [(r"^.*flannel\.1:.*\n", "", "no device flannel.1")],
    ("iperf3", "ok", "server-node-before"): [
        (r"\A([0-9]+)$", r"\g<1>999", "CPU time must be above 0"),
        ("^ctxt ", "ctxt 9", "/proc/stat went backwards"),
        (r"\A([0-9]+\n)", "", "expected 1 CPU counters"),
    ],
    ("netperf", "udp-rr", "netperf"): [
        (*told("PROTOCOL", "TCP"), "protocol must be UDP"),
        (*told("THROUGHPUT_UNITS", "10^6bits/s"), "unit must be Trans/s"),
        (*told("REQUEST_SIZE", "1"), "request_bytes must be 100"),
        (*told("ELAPSED_TIME", "10.00"), "it ran 10 s of 1 s"),
        (*told("P99_LATENCY", "3"), "latencies are not in order"),
        (*told("MEAN_LATENCY", "20.5"), "one has no answer"),
    ],
    ("netperf", "tcp-stream", "netperf"): [
        (*told("THROUGHPUT_UNITS", "MBytes/s"), "unit must be"),
        (*told("REMOTE_BYTES_RECVD", "100000000"), "are not"),
    ],
    ("netperf", "ok", "netperf"): [(*told("P50_LATENCY", "nan"), "once")],
    ("pod-network", "ok", "after"): [
        (f"{COUNT} 8$", r"\1 7", "it 0 times"),
        (f"{COUNT} 8$", r"\1 1", "it -6 times"),
        (f"{SUM} .*$", r"\1 0.1", "must be above 0"),
        (f"^.*{SUM} .*\n", "", "once, found it 0"),
        ("^# EOF$", f"{FAILURES} 1\n# EOF", "1 failures of set_up_pod"),
    ],
    ("pod-network", "ok", "end"): [
        (r'(_seconds_count\{operation_type="tear_down_pod"\}) 2$', r"\1 3", "2 times tear_down"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("place", "change"), [(place, row) for place, rows in OTHERS.items() for row in rows])
def test_another_run_or_reading_is_refused(place: tuple[str, str, str], change: tuple[str, str, str]) -> None:
    (workload, case, step), (pattern, other, said) = place, change
    error = NotAsClaimed if said.startswith("2 times") else ParseError  # by its own evidence
    assert said in refused(workload, edited(captured(workload, case), step, pattern, other), error)


def test_a_reading_that_failed_or_goes_backwards_is_no_reading() -> None:
    capture = captured("iperf3")
    backwards = carried(capture, "server-node-before", "flannel.1", received=10**12)
    assert "counters of flannel.1 went backwards" in refused("iperf3", backwards)
    for step in ("server-node-after", "client-node-after", "stop"):
        failed = {**capture.steps, step: replace(capture[step], status=1)}
        with pytest.raises(ParseError, match=f"step {step} ended with 1"):
            iperf3.parse(Capture(failed, capture.params))


# --------------------------------------------------------------------------------------------------------- CPU time


def cpu_metrics(capture: Capture) -> dict[str, float]:
    return {metric: value for metric, value in measured("iperf3", capture).items() if "cpu" in metric}


def on_two_machines(capture: Capture, pattern: str = r"^btime ([0-9]+)$", other: str = "btime 1000000000") -> Capture:
    """Return `capture` as if the client's node were a machine of its own."""
    for when in ("before", "after"):
        capture = edited(capture, f"client-node-{when}", pattern, other)
    return capture


def without_counters(capture: Capture) -> Capture:
    """Return `capture` as of nodes that do not count their own CPU time."""
    for key in _network.NODES:
        capture = claiming(capture, f"{key}-before", counters=0)
        for when in ("before", "after"):
            capture = edited(capture, f"{key}-{when}", r"\A[0-9]+\n", "")
    return capture


def test_busy_time_of_one_machine_is_counted_once_and_of_two_is_added() -> None:
    capture = without_counters(captured("iperf3"))
    one, two = cpu_metrics(capture), cpu_metrics(on_two_machines(capture))
    assert two["cpu_s_per_B"] > 1.9 * one["cpu_s_per_B"]
    assert two["cpu_percent"] == one["cpu_percent"]  # of the server's machine
    # Those that booted together are told apart by what they count.
    assert cpu_metrics(on_two_machines(capture, "^ctxt ", "ctxt 9"))["cpu_s_per_B"] > 1.9 * one["cpu_s_per_B"]


def test_what_nodes_count_is_theirs_alone_and_no_end_is_told_apart_on_one_machine() -> None:
    capture = captured("iperf3")
    one, two = cpu_metrics(capture), cpu_metrics(on_two_machines(capture))
    assert set(one) == {"cpu_s_per_B", "cpu_percent"}
    assert one["cpu_s_per_B"] < cpu_metrics(without_counters(capture))["cpu_s_per_B"]  # the machine did more than that
    assert two["cpu_s_per_B"] == one["cpu_s_per_B"]
    assert two["sender_cpu_s_per_B"] + two["receiver_cpu_s_per_B"] == pytest.approx(two["cpu_s_per_B"])
    assert two["cpu_percent"] < one["cpu_percent"]
    # A node that does not count makes both those of the machine.
    half = edited(edited(capture, "client-node-before", r"\A[0-9]+\n", ""), "client-node-after", r"\A[0-9]+\n", "")
    half = claiming(half, "client-node-before", counters=0)
    assert cpu_metrics(half) == cpu_metrics(without_counters(capture))


def test_counter_of_version_2_is_in_microseconds() -> None:
    capture = captured("iperf3")
    same = capture
    for key in _network.NODES:
        for when in ("before", "after"):
            text = "usage_usec {}\nuser_usec 1\nsystem_usec 1\n"
            same = edited(
                same, f"{key}-{when}", r"\A([0-9]+)\n", lambda found, text=text: text.format(int(found[1]) // 1000)
            )
    assert cpu_metrics(same) == pytest.approx(cpu_metrics(capture), rel=1e-4)


def test_trial_without_nodes_has_no_cpu_time() -> None:
    capture = claiming(captured("iperf3"), "start", nodes=0)
    assert [m.metric for m in iperf3.parse(capture)] == ["throughput_bit_per_s", "retransmits"]


# ---------------------------------------------------------------------------------------------- traps of the two tools


ASKED = {  # in both reports
    "num_streams": 3, "duration": 2, "omit": 2, "reverse": 1, "bidir": 1, "bytes": 1000, "blocks": 10,
    "target_bitrate": 10**6, "interval": 2, "protocol": "UDP",
}  # fmt: skip
SERVER = "server_output_json"


@pytest.mark.parametrize(
    ("case", "path", "other", "said"),
    [
        *(("tcp-3.18", f"start.test_start.{key}", other, " must be ") for key, other in ASKED.items()),
        *(("tcp-3.18", f"{SERVER}.start.test_start.{key}", other, " must be ") for key, other in ASKED.items()),
        ("ok", "start.connecting_to.host", "10.0.0.1", "address of the server must be 198.19.0.2"),
        ("ok", "error", "control socket has closed", "the client says: control socket has closed"),
        ("ok", f"{SERVER}.error", "idle", "the server says: idle"),
        ("ok", f"{SERVER}.end.sum_received.seconds", 3.0, "over 3 s of 1 s"),
        ("ok", "end.sum_received.bytes", 5, "bytes received must be"),
        ("udp", f"{SERVER}.start.test_start.blksize", 1448, "length_bytes must be 1400"),
        ("udp", f"{SERVER}.end.sum.lost_packets", 4000, "packets less 4000 lost are not"),
        ("udp", f"{SERVER}.end.sum.jitter_ms", -1, "cannot be"),
    ],
)
def test_report_of_another_run_is_refused(case: str, path: str, other: object, said: str) -> None:
    *parents, last = path.split(".")
    changes = {last: other}
    capture = changed(captured("iperf3", case), "iperf3", lambda data: reduce(getitem, parents, data).update(changes))
    assert said in refused("iperf3", capture)


def test_options_of_the_way_into_a_target_are_not_the_tools() -> None:
    capture = captured("iperf3")
    entered = ("kubectl", "exec", "pod", "-c", "iperf3", "--", *capture["iperf3"].argv)
    steps = {**capture.steps, "iperf3": replace(capture["iperf3"], argv=entered)}
    assert iperf3.parse(Capture(steps, capture.params)) == iperf3.parse(capture)


# ------------------------------------------------------------------------------------------------------ pod-network


def pods(control: dict[str, tuple[str, ...]], worker: dict[str, tuple[str, ...]]) -> dict[str, Target]:
    given = roles("control", "worker1")
    lifecycles = {"control": control, "worker1": worker}
    return {name: replace(each, lifecycle=lifecycles[name]) for name, each in given.items()}


def test_pod_network_makes_the_pod_that_is_asked_for() -> None:
    control = {"create": ("make",), "create-plain": ("make", "plain"), "remove": ("unmake",)}
    given = pods(control, {"metrics": ("tell",)})
    for multus, argv in ((True, ("make",)), (False, ("make", "plain"))):
        steps = {step.name: step for step in pod_network.plan({"multus": multus}, given)}
        assert steps["create"].argv == argv
        assert [step.phase for step in steps.values()] == ["prepare", "measure", "cleanup", "cleanup", "cleanup"]
        assert steps["after"].argv[-1] == "tell"
    with pytest.raises(NotRunnable, match="cannot be reached through a kubeconfig"):
        pod_network.plan({"multus": True}, pods({}, {}))
    with pytest.raises(NotRunnable, match="makes no pods without Multus"):
        pod_network.plan({"multus": False}, pods({"create": ("make",), "remove": ("unmake",)}, {"metrics": ("tell",)}))
    with pytest.raises(NotRunnable, match=r"makes no pods$"):
        pod_network.plan({"multus": True}, roles("server"))


def test_pod_network_knows_the_runtime_that_the_cluster_tells() -> None:
    control = roles("control")["control"]
    assert pod_network.version(replace(control, lifecycle={"version": ("echo", "containerd://2")})) == "containerd://2"
    assert pod_network.version(control) == "unknown"


def test_pod_network_starts_to_count_with_the_first_pod() -> None:
    capture = captured("pod-network")
    none = edited(capture, "after", r'(_seconds_count\{operation_type="set_up_pod"\}) 8$', r"\1 1")
    first = re.sub(r'^.*"set_up_pod".*\n', "", none["before"].stdout.decode(), flags=re.MULTILINE)
    found = pod_network.parse(with_stdout(none, "before", first.encode()))
    total = re.search(r'_seconds_sum\{operation_type="set_up_pod"\} (.*)$', none["after"].stdout.decode(), re.MULTILINE)
    assert total is not None
    assert found[0].value == pytest.approx(float(total[1]))


@pytest.mark.parametrize("case", ["tcp-rr-2.7.1", "udp-rr-2.7.1"])
def test_a_request_that_is_not_under_way_was_lost_over_udp_and_had_to_wait_over_tcp(case: str) -> None:
    capture = captured("netperf", case)
    told = capture["netperf"].stdout.decode()
    # A third fewer, each as long as before.
    told = re.sub(
        r"^(THROUGHPUT|REMOTE_BYTES_RECVD)=(.*)$",
        lambda found: f"{found[1]}={round(0.67 * float(found[2]))}", told, flags=re.MULTILINE,
    )  # fmt: skip
    slower = with_stdout(capture, "netperf", told.encode())
    address = slower["netperf"].argv[slower["netperf"].argv.index("-H") + 1]
    with pytest.raises(ParseError, match="no answer"):  # nothing keeps netperf from its work: it is no slow start
        netperf.read(told, slower.params, address)
    if case.startswith("tcp"):
        rates = {each.metric: each.value for each in netperf.read(told, slower.params, address, 5.0)[0]}
        before = measured("netperf", capture)["transactions_per_s"]
        assert rates["transactions_per_s"] == pytest.approx(0.67 * before, rel=1e-3)


def test_the_end_cuts_off_one_request_and_no_more() -> None:
    capture = captured("netperf", "tcp-rr-2.7.1")
    told = capture["netperf"].stdout.decode()
    elapsed_s = float(re.search(r"^ELAPSED_TIME=(.*)$", told, re.MULTILINE)[1])  # type: ignore[index]
    few = re.sub(r"^THROUGHPUT=.*$", f"THROUGHPUT={25 / elapsed_s:.2f}", told, flags=re.MULTILINE)
    address = capture["netperf"].argv[capture["netperf"].argv.index("-H") + 1]
    for received, good in ((25, True), (26, True), (28, False)):
        text = re.sub(r"^REMOTE_BYTES_RECVD=.*$", f"REMOTE_BYTES_RECVD={received}", few, flags=re.MULTILINE)
        if good:
            assert netperf.read(text, capture.params, address, 5.0)
        else:
            with pytest.raises(ParseError, match="28 received"):
                netperf.read(text, capture.params, address, 5.0)
