from __future__ import annotations

import itertools
import json
import random

import numpy as np
import pytest

from infrabench import cli, registry
from infrabench.core import Case, CommandFailed, DesignError, ParseError, Result, SiteError, Target, default_params
from infrabench_selfcheck import bare_tools, fidelity
from infrabench_selfcheck.bare_tools import Tool
from infrabench_selfcheck.fidelity import ToolPair
from tests.support.fakes import PLUGINS, fake_site
from tests.support.places import TESTS

DATA = TESTS / "data"
SYSTEMS = ("fake-base", "fake-other")


@pytest.fixture(autouse=True)
def _plugins(monkeypatch):
    monkeypatch.setenv(registry.VARIABLE, str(PLUGINS))


@pytest.fixture
def tools(monkeypatch):
    """Replace the tools by the fake workload; the function returned sets what a hand gets."""

    def with_hand(by_hand):
        tool = Tool(Case("fake", "value=100", {"value": 100.0}, seconds=0.01), ("value",), by_hand)
        monkeypatch.setattr(fidelity, "TOOLS", {"fake": tool})

    return with_hand


def compared(blocks=3, systems=SYSTEMS, seed=1, site=None):
    wanted = fidelity.request(systems, blocks, seed)
    return fidelity.compare(wanted, site or fake_site(), lambda progress: None)


def test_every_treatment_of_every_block_is_measured_both_ways(tools):
    tools(lambda roles: {"value": 101.0})
    pairs, left_out = compared()
    assert left_out == {}
    assert sorted(pair.system for pair in pairs) == sorted(SYSTEMS * 3)
    assert {(pair.workload, pair.metric, pair.harness, pair.by_hand) for pair in pairs} == {
        ("fake", "value", 100.0, 101.0)
    }


def test_a_coin_says_which_way_is_first_and_the_seed_says_how_it_falls(tools, monkeypatch):
    order = []
    real = fidelity.execute

    def executed(trial, *rest):
        order.append(f"trial {trial.block} {trial.system}")
        return real(trial, *rest)

    monkeypatch.setattr(fidelity, "execute", executed)
    tools(lambda roles: order.append("hand") or {"value": 1.0})
    compared(blocks=6)
    first, order[:] = list(order), []
    compared(blocks=6)
    again, order[:] = list(order), []
    compared(blocks=6, seed=2)
    assert first == again != order
    couples = [first[i : i + 2] for i in range(0, len(first), 2)]
    assert all(couple.count("hand") == 1 for couple in couples)
    assert {couple.index("hand") for couple in couples} == {0, 1}


def test_only_the_system_being_measured_runs(tools):
    site = fake_site()
    running = []
    tools(lambda roles: running.append(list(site.facts["log"])) or {"value": 1.0})
    compared(site=site)
    for log in running:
        last = {entry.split()[1]: entry.split()[0] for entry in log}
        assert sorted(last.values()) == ["pause", "resume"]


def test_what_fails_by_hand_or_as_a_trial_is_left_out_and_counted(tools, monkeypatch):
    calls = iter(range(100))

    def sometimes(roles):
        if next(calls) % 3 == 0:
            raise CommandFailed(Result(("tool",), 1, b"", b"no", 0.0, 0.1), "here")
        return {"value": 100.0 + random.Random(3).random()}

    tools(sometimes)
    pairs, _ = compared(blocks=3, systems=SYSTEMS[:1])
    (row,) = fidelity.summary(pairs)
    assert (row.pairs, row.left_out) == (2, 1)
    workload = registry.workload("fake")
    monkeypatch.setattr(workload, "parse", lambda capture: [])
    pairs, _ = compared(blocks=3, systems=SYSTEMS[:1])
    (row,) = fidelity.summary(pairs)
    assert (row.pairs, row.left_out, row.verdict) == (0, 3, "no interval")
    assert list(fidelity.markdown([row]))[-1].endswith("| nan | [nan, nan] | [nan, nan] | 2 | no interval |")


def noisy(bias, seed=5):
    rng = np.random.default_rng(seed)
    for _ in range(30):
        drift, (ours, hand) = rng.normal(100, 5), rng.normal(0, 1, 2)
        yield ToolPair("fake", "value", "native", bias * (drift + ours), drift + hand)


def test_a_harness_that_changes_the_metric_is_found_and_one_that_does_not_is_not(tools):
    tools(lambda roles: {})
    (same,), (slower,) = fidelity.summary(noisy(1.0)), fidelity.summary(noisy(0.98))
    assert same.verdict == "equivalent"
    assert slower.verdict == "different"
    assert slower.low < 0.98 < slower.high < 1
    (line,) = list(fidelity.markdown([same]))[2:]
    assert line.startswith("| fake | value | native | 30 | 0 | 1.00")
    assert line.endswith("] | 2 | equivalent |")


def test_an_interval_that_holds_1_shows_no_agreement_by_itself(tools):
    """Two pairs, or a margin that is narrower than the noise: the interval holds 1, and nothing was shown."""
    tools(lambda roles: {})
    pairs = list(noisy(1.0))
    (few,), (tight,) = fidelity.summary(pairs[:2]), fidelity.summary(pairs, margin=0.001)
    for row in (few, tight):
        assert row.low < 1 < row.high
        assert row.verdict == "inconclusive"
    (small,), (still,) = (fidelity.summary(noisy(0.98), margin) for margin in (0.05, 0.02))
    assert (small.verdict, still.verdict) == ("different, within the margin", "different")
    assert still.low < still.narrow[0] < still.narrow[1] < still.high


def test_what_is_not_there_is_said(tools, monkeypatch):
    tools(lambda roles: {"value": 1.0})
    site = fake_site(refuse={"fake-other": "no engine"})
    pairs, left_out = compared(site=site)
    assert left_out == {"fake-other": "no engine"}
    assert {pair.system for pair in pairs} == {"fake-base"}
    monkeypatch.setattr(registry.workload("fake"), "supported", lambda deployment: "tool not found inside")
    with pytest.raises(SiteError, match="none of the tools: fake on fake-base: tool not found inside"):
        compared()


@pytest.mark.parametrize(
    ("systems", "blocks", "study", "said"),
    [
        (["fake-bse"], 3, "containers", "did you mean fake-base"),
        ([], 3, "containers", "name at least one system"),
        (["fake-base"], 1, "containers", "blocks must be at least 2"),
        (["fake-base"], 3, "cni", "did you mean cnis"),
    ],
)
def test_what_cannot_be_done_is_refused(systems, blocks, study, said):
    with pytest.raises(DesignError, match=said):
        fidelity.request(systems, blocks, 1, study)


def test_the_command_prints_a_markdown_table(tools, monkeypatch, capsys):
    from contextlib import nullcontext

    tools(lambda roles: {"value": 101.0})
    monkeypatch.setattr(fidelity, "open_site", lambda spec, session: nullcontext(fake_site()))
    assert cli.main(["selfcheck", "fidelity", "--blocks", "2", "--systems", *SYSTEMS, "--site", "local"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "infrabench / by hand on fake: 2 blocks, seed 20200315, ratio of means with 95 % interval"
    assert "90 % interval lies within 2 %" in lines[1]
    assert [line.split(" | ")[2] for line in lines[5:]] == ["fake-base", "fake-other"]
    assert cli.main(["selfcheck", "fidelity", "--systems", *SYSTEMS, "--site", "local", "--margin", "0"]) == 2
    assert "a margin of 0 % is none" in capsys.readouterr().err
    assert cli.main(["selfcheck", "fidelity", "--site", "nowhere"]) == 2
    assert "unknown site 'nowhere'" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------- by hand


class Replay:
    """A host that prints what was captured of a tool, and keeps what it was asked."""

    name, address = "replay", "198.18.64.10"

    def __init__(self, answers):
        self.answers, self.asked = answers, []

    def run(self, argv, *, timeout_s, stdin=b""):
        self.asked.append(argv)
        word = next((word for word in self.answers if word in argv), None)
        out = self.answers[word].pop(0) if word and isinstance(self.answers[word], list) else self.answers.get(word)
        return Result(tuple(argv), 0 if out != b"down" else 7, out or b"", b"", 0.0, 0.1)


def roles(host):
    return {
        "server": Target("server", host, ("enter", "it"), "198.18.64.10"),
        "client": Target("client", host, (), "198.18.0.12"),
        "far": Target("far", host, ("enter", "far"), "198.19.1.3"),
    }


@pytest.mark.parametrize(
    ("workload", "program", "file"),
    [
        ("sysbench-cpu", "sysbench", "sysbench.stdout"),
        ("iozone", "iozone", "iozone.stdout"),
        ("web", "ab", "ab.stdout"),
    ],
)
def test_the_eye_reads_what_the_parser_reads(workload, program, file):
    case = json.loads((DATA / workload / "ok" / "case.json").read_text())
    parsed = {row[0]: row[1] for row in case["expect"]["measurements"]}
    captured = (DATA / workload / "ok" / file).read_bytes().replace(b"16384 ", b"32768 ")
    host = Replay({program: captured})
    values = bare_tools.TOOLS[workload].by_hand(roles(host))
    assert values == {metric: parsed[metric] for metric in bare_tools.TOOLS[workload].metrics}
    typed = next(argv for argv in host.asked if program in argv)
    assert typed[:2] == (("ab", "-n") if workload == "web" else ("enter", "it"))


def test_the_server_is_waited_for_and_stopped_also_when_the_load_fails():
    ab = (DATA / "web/ok/ab.stdout").read_bytes()
    host = Replay({"curl": [b"down", b"down", b"up"], "ab": ab})
    bare_tools.TOOLS["web"].by_hand(roles(host))
    assert [" ".join(argv).removeprefix("enter it ").split()[0] for argv in host.asked] == [
        "ib-service", "curl", "curl", "curl", "ab", "ib-service",
    ]  # fmt: skip
    host = Replay({"ab": b"down"})
    with pytest.raises(CommandFailed):
        bare_tools.TOOLS["web"].by_hand(roles(host))
    assert host.asked[-1] == ("enter", "it", "ib-service", "stop", "web")


def test_an_eye_that_finds_nothing_says_so():
    with pytest.raises(ParseError, match="no line begins with 'events"):
        bare_tools.find_number("nothing here\n", "events", 1)
    with pytest.raises(ParseError, match="word 1 is no number"):
        bare_tools.find_number("events many\n", "events", 1)


def test_the_hand_does_the_work_that_the_trial_does():
    """Sizes of both ways are written down twice, on purpose; here they are held against each other."""
    tools = {name: tool for name, tool in bare_tools.TOOLS.items() if tool.study == "containers"}
    params = {name: tool.case.params for name, tool in tools.items()}
    assert params["sysbench-cpu"] == {"threads": 1, "seconds": 1}
    assert params["iozone"] == {"size_bytes": 32768 * 1024}
    assert params["web"] == {"users": 100, "requests": 1000}
    said = {"sysbench": b"events per second: 1", "iozone": b"32768 4 1 2 3 4", "ab": b"Requests per second: 1"}
    host = Replay(said)
    for tool in tools.values():
        tool.by_hand(roles(host))
    typed = [" ".join(argv) for argv in host.asked]
    assert any("--threads=1 --time=1 --cpu-max-prime=10000" in line for line in typed)
    assert any("-r 4k -s 32m -e -c" in line for line in typed)
    assert any("ab -n 1000 -c 100" in line for line in typed)
    assert registry.workload("sysbench-cpu").PARAMS["cpu_max_prime"].default == 10000
    assert registry.workload("web").PARAMS["port"].default == 18080
    assert registry.workload("iozone").PARAMS["record_bytes"].default == 4096


# What both print on this machine's loopback device: iperf3 3.12, netperf 2.7.0.
IPERF3 = b"""\
Connecting to host 127.0.0.1, port 25201
[  5] local 127.0.0.1 port 32954 connected to 127.0.0.1 port 25201
[ ID] Interval           Transfer     Bitrate         Retr  Cwnd
[  5]   0.00-1.00   sec  2.10 GBytes  18012987 Kbits/sec    2   1023 KBytes
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-1.00   sec  2.10 GBytes  18012987 Kbits/sec    2             sender
[  5]   0.00-1.00   sec  2.09 GBytes  17966177 Kbits/sec                  receiver

iperf Done.
"""
NETPERF = b"""\
MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 127.0.0.1 () port 22866 AF_INET : demo
Throughput,Mean Latency Microseconds,50th Percentile Latency Microseconds,90th Percentile,99th Percentile
52765.71,18.90,7,59,97
"""
# What fio 3.33 prints of 256 requests written in 3 ms, in its terse form.
FIO = (
    b"nbd: a line of its engine\n"
    b"3;fio-3.33;x;0;0;0;0;0;0;0;0;0.000000;0.000000;0;0;0.000000;0.000000;1.000000%=0;5.000000%=0;"
    b"10.000000%=0;20.000000%=0;30.000000%=0;40.000000%=0;50.000000%=0;60.000000%=0;70.000000%=0;"
    b"80.000000%=0;90.000000%=0;95.000000%=0;99.000000%=0;99.500000%=0;99.900000%=0;99.950000%=0;"
    b"99.990000%=0;0%=0;0%=0;0%=0;0;0;0.000000;0.000000;0;0;0.000000%;0.000000;0.000000;1024;341333;85333;"
    b"3;0;0;0.000000;0.000000;1;65;2.815105;5.546585;1.000000%=1;5.000000%=1;10.000000%=1;20.000000%=1;"
    b"30.000000%=1;40.000000%=1;50.000000%=2;60.000000%=2;70.000000%=2;80.000000%=2;90.000000%=2;"
    b"95.000000%=3;99.000000%=28;99.500000%=56;99.900000%=65;99.950000%=65;99.990000%=65;0%=0;0%=0;0%=0;1;"
    b"65;2.838117;5.555186;0;0;0.000000%;0.000000;0.000000;50.000000%;0.000000%;6;0;10;100.0%;0.0%;0.0%;"
    b"0.0%;0.0%;0.0%;0.0%;44.14%;52.73%;1.56%;0.39%;0.39%;0.78%;0.00%;0.00%;0.00%;0.00%;0.00%;0.00%;0.00%;"
    b"0.00%;0.00%;0.00%;0.00%;0.00%;0.00%;0.00%;0.00%;0.00%;vda;0;0;0;0;0;0;0;0.00%\n"
)


@pytest.fixture
def in_a_hurry(monkeypatch):
    monkeypatch.setattr(bare_tools, "LISTENS_S", 0.0)


@pytest.mark.parametrize(
    ("workload", "said", "values"),
    [
        ("iperf3", {"iperf3": IPERF3}, {"throughput_bit_per_s": 17966177e3}),
        (
            "netperf",
            {"netperf": NETPERF},
            {"transactions_per_s": 52765.71, "latency_mean_s": 18.9e-6, "latency_p50_s": 7e-6, "latency_p99_s": 97e-6},
        ),
    ],
)
@pytest.mark.usefixtures("in_a_hurry")
def test_network_tools_are_typed_in_the_pods_of_the_trial_with_its_options(workload, said, values):
    host = Replay({"sh": b"4711\n", **said})
    tool, plugin = bare_tools.TOOLS[workload], registry.workload(workload)
    assert tool.by_hand(roles(host)) == pytest.approx(values)
    assert set(values) == set(tool.metrics)
    begun, typed, ended = (" ".join(argv) for argv in host.asked)
    assert begun.startswith("enter it sh -c ")
    assert typed.startswith(f"enter far {workload} ")
    assert ended == "enter it kill 4711"
    given = {**default_params(plugin), **tool.case.params}
    measured = next(step for step in plugin.plan(given, roles(host)) if step.phase == "measure")
    assert measured.role == "far"
    own = measured.argv[: measured.argv.index("--")] if "--" in measured.argv else measured.argv
    values_of = dict(itertools.pairwise(own))
    by_hand = typed.split()
    for option in {"-c", "-H", "-p", "-t", "-l", "-O", "-P"} & set(own):
        assert by_hand[by_hand.index(option) + 1] == values_of[option], option
    if workload == "netperf":
        assert "-- -P ,12866 -r 1,1 -o THROUGHPUT,MEAN_LATENCY,P50_LATENCY,P90_LATENCY,P99_LATENCY" in typed
        assert "-P ,12866 -r 1,1" in " ".join(measured.argv)


@pytest.mark.usefixtures("in_a_hurry")
def test_a_server_typed_by_hand_is_stopped_also_when_its_client_fails():
    host = Replay({"sh": b"4711\n", "iperf3": b"down"})
    with pytest.raises(CommandFailed):
        bare_tools.TOOLS["iperf3"].by_hand(roles(host))
    assert host.asked[-1] == ("enter", "it", "kill", "4711")


@pytest.mark.usefixtures("in_a_hurry")
def test_network_tools_that_say_nothing_give_no_number():
    for workload, said in (("iperf3", b"iperf Done.\n"), ("netperf", b"no response\n")):
        host = Replay({"sh": b"4711\n", workload: said})
        with pytest.raises(ParseError):
            bare_tools.TOOLS[workload].by_hand(roles(host))


def test_fio_is_typed_at_the_volume_of_the_trial_with_its_options():
    lifecycle = {"store": ("python3", "/main.py", "it.json"), "uri": ("nbd+unix:///?socket=/s",)}
    host = Replay({"fio": FIO})
    server = Target("server", host, ("enter", "it"), lifecycle=lifecycle)
    tool, plugin = bare_tools.TOOLS["fio-4k"], registry.workload("fio-4k")
    assert tool.by_hand({"server": server}) == {"iops": 85333}
    *prepared, typed = (" ".join(argv) for argv in host.asked)
    params = {**default_params(plugin), **tool.case.params}
    steps = plugin.plan(params, {"server": server})
    told = [f"enter it {' '.join(step.argv)}" for step in steps if step.phase == "prepare" and "/main.py" in step.argv]
    assert prepared == told
    own = {word.split("=")[0]: word for step in steps if step.name == "fio" for word in step.argv[1:]}
    same = (
        "--ioengine", "--uri", "--rw", "--iodepth", "--randrepeat", "--refill_buffers", "--end_fsync", "--time_based",
        "--runtime", "--ramp_time", "--size",
    )  # fmt: skip
    assert all(own[option] in typed.split() for option in same), own
    assert (own["--bs"], "--bs=4k" in typed) == ("--bs=4096", True)
    with pytest.raises(ParseError):
        tool.by_hand({"server": Target("server", Replay({"fio": b"no line\n"}), lifecycle=lifecycle)})


def test_each_study_has_its_own_tools(monkeypatch):
    monkeypatch.delenv(registry.VARIABLE)
    wanted = fidelity.request(["flannel", "cilium"], 2, 1, "cnis")
    assert {case.workload for case in wanted.cases} == {"iperf3", "netperf"}
    wanted = fidelity.request(["native"], 2, 1)
    assert {case.workload for case in wanted.cases} == {"sysbench-cpu", "iozone", "web"}
    assert set(fidelity.SYSTEMS) == {tool.study for tool in bare_tools.TOOLS.values()}
