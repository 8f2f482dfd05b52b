from __future__ import annotations

import itertools
import json
import random
from contextlib import nullcontext

import numpy as np
import pytest

from infrabench import cli, registry
from infrabench.core import Case, CommandFailed, DesignError, ParseError, Result, SiteError, Target, default_params
from infrabench_selfcheck import bare_tools, fidelity
from infrabench_selfcheck.bare_tools import Tool
from infrabench_selfcheck.validation.generators import campaigns_table
from tests.support.fakes import PLUGINS, fake_site
from tests.support.places import TESTS

DATA = TESTS / "data"
# What they print on this machine: iperf3 3.12 and netperf 2.7.0 on the loopback device, fio 3.33 of 256 writes.
PRINTED = {name: (DATA / f"by-hand/{name}.txt").read_bytes() for name in ("iperf3", "netperf", "fio")}
SYSTEMS = ("fake-base", "fake-other")


@pytest.fixture(autouse=True)
def _plugins(monkeypatch):
    monkeypatch.setenv(registry.VARIABLE, str(PLUGINS))
    monkeypatch.setattr(bare_tools, "LISTENS_S", 0.0)


@pytest.fixture
def tools(monkeypatch):
    """Replace the tools by the fake workload; the function returned sets what a hand gets."""

    def with_hand(by_hand):
        tool = Tool(Case("fake", "value=100", {"value": 100.0}, seconds=0.01), ("value",), by_hand)
        monkeypatch.setattr(fidelity, "TOOLS", {"fake": tool})

    with_hand(lambda roles: {"value": 101.0})
    return with_hand


def compared(blocks=3, systems=SYSTEMS, seed=1, site=None):
    wanted = fidelity.request(systems, blocks, seed)
    return fidelity.compare(wanted, site or fake_site(), lambda progress: None)


@pytest.mark.usefixtures("tools")
def test_every_treatment_of_every_block_is_measured_both_ways():
    rows, left_out = compared()
    assert left_out == {}
    by_hand = [f"{name}, by hand" for name in SYSTEMS]
    assert sorted(rows["system"]) == sorted([*SYSTEMS, *by_hand] * 3)
    assert set(rows["block"]) == {0, 1, 2}
    columns = ["workload", "metric", "value"]
    for names, value in ((SYSTEMS, 100.0), (by_hand, 101.0)):
        some = rows.loc[rows["system"].isin(names), columns]
        assert set(some.itertuples(index=False, name=None)) == {("fake", "value", value)}


def test_a_coin_says_which_way_is_first_and_the_seed_says_how_it_falls(tools, monkeypatch):
    order, real = [], fidelity.execute

    def executed(trial, *rest):
        order.append(f"trial {trial.block} {trial.system}")
        return real(trial, *rest)

    def ordered(seed):
        order.clear()
        compared(blocks=6, seed=seed)
        return list(order)

    monkeypatch.setattr(fidelity, "execute", executed)
    tools(lambda roles: order.append("hand") or {"value": 1.0})
    first = ordered(1)
    assert first == ordered(1) != ordered(2)
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

    def agreed():
        (row,) = fidelity.agreement(compared(systems=SYSTEMS[:1])[0], 0.02).itertuples(index=False)
        return row.system, row.n, row.verdict, row.reason

    tools(sometimes)
    assert agreed()[:2] == ("fake-base", "2 blocks")
    monkeypatch.setattr(registry.workload("fake"), "parse", lambda capture: [])
    assert agreed() == ("fake-base", "0 blocks", "not comparable", "no ok trial of fake-base")


def noisy(bias, blocks=30):
    rng = np.random.default_rng(5)
    drift, (ours, hand) = rng.normal(100, 5, blocks), rng.normal(0, 1, (2, blocks))
    return campaigns_table(np.array([[bias * (drift + ours), drift + hand]]), ["native", "native, by hand"])


def agreement(rows, margin=0.02):
    """Return the one row of the table, with the ends of its intervals as numbers."""
    (row,) = fidelity.agreement(rows, margin).to_dict("records")
    ends = [json.loads(row[f"ratio {level} % CI"]) for level in (95, 90)]
    return row["verdict"].partition(" (")[0], *ends, row


def test_a_harness_that_changes_the_metric_is_found_and_one_that_does_not_is_not():
    (same, _, _, row), (slower, wide, narrow, _) = agreement(noisy(1.0)), agreement(noisy(0.98))
    assert (same, slower) == ("equivalent", "different")
    assert (row["system"], row["n"], row["margin %"]) == ("native", "30 blocks", "2")
    assert wide[0] < 0.98 < wide[1] < 1
    assert wide[0] < narrow[0] < narrow[1] < wide[1]
    assert agreement(noisy(0.98), 0.05)[0] == "different, within the margin"


def test_an_interval_that_holds_1_shows_no_agreement_by_itself():
    """Two pairs, or a margin that is narrower than the noise: the interval holds 1, and nothing was shown."""
    for verdict, (low, high), *_ in (agreement(noisy(1.0, 2)), agreement(noisy(1.0), 0.001)):
        assert low < 1 < high
        assert verdict == "inconclusive"


@pytest.mark.usefixtures("tools")
def test_what_is_not_there_is_said(monkeypatch):
    rows, left_out = compared(site=fake_site(refuse={"fake-other": "no engine"}))
    assert left_out == {"fake-other": "no engine"}
    assert set(rows["system"]) == {"fake-base", "fake-base, by hand"}
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


@pytest.mark.usefixtures("tools")
def test_the_command_prints_a_markdown_table(monkeypatch, capsys):
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

    @property
    def typed(self):
        return [" ".join(argv) for argv in self.asked]


def roles(host):
    lifecycle = {"store": ("python3", "/main.py", "it.json"), "uri": ("nbd+unix:///?socket=/s",)}
    return {
        "server": Target("server", host, ("enter", "it"), "198.18.64.10", lifecycle),
        "client": Target("client", host, (), "198.18.0.12"),
        "far": Target("far", host, ("enter", "far"), "198.19.1.3"),
    }


@pytest.mark.parametrize(("workload", "program"), [("sysbench-cpu", "sysbench"), ("iozone", "iozone"), ("web", "ab")])
def test_the_eye_reads_what_the_parser_reads(workload, program):
    case = json.loads((DATA / workload / "ok" / "case.json").read_text())
    parsed = {row[0]: row[1] for row in case["expect"]["measurements"]}
    captured = (DATA / workload / "ok" / f"{program}.stdout").read_bytes().replace(b"16384 ", b"32768 ")
    host = Replay({program: captured})
    values = bare_tools.TOOLS[workload].by_hand(roles(host))
    assert values == {metric: parsed[metric] for metric in bare_tools.TOOLS[workload].metrics}
    typed = next(argv for argv in host.asked if program in argv)
    assert typed[:2] == (("ab", "-n") if workload == "web" else ("enter", "it"))


def test_a_server_is_waited_for_and_stopped_also_when_the_load_fails():
    host = Replay({"curl": [b"down", b"down", b"up"], "ab": (DATA / "web/ok/ab.stdout").read_bytes()})
    bare_tools.TOOLS["web"].by_hand(roles(host))
    assert [line.removeprefix("enter it ").split()[0] for line in host.typed] == [
        "ib-service", "curl", "curl", "curl", "ab", "ib-service",
    ]  # fmt: skip
    for workload, tool, stop in (("web", "ab", "ib-service stop web"), ("iperf3", "iperf3", "kill 4711")):
        host = Replay({"sh": b"4711\n", tool: b"down"})
        with pytest.raises(CommandFailed):
            bare_tools.TOOLS[workload].by_hand(roles(host))
        assert host.typed[-1] == f"enter it {stop}"


def test_an_eye_that_finds_nothing_says_so():
    with pytest.raises(ParseError, match="no line begins with 'events"):
        bare_tools.find_number("nothing here\n", "events", 1)
    with pytest.raises(ParseError, match="word 1 is no number"):
        bare_tools.find_number("events many\n", "events", 1)
    for workload, tool, said in (
        ("iperf3", "iperf3", b"iperf Done.\n"), ("netperf", "netperf", b"no response\n"), ("fio-4k", "fio", b"no\n"),
    ):  # fmt: skip
        with pytest.raises(ParseError):
            bare_tools.TOOLS[workload].by_hand(roles(Replay({"sh": b"4711\n", tool: said})))


def test_the_hand_does_the_work_that_the_trial_does():
    """Sizes of both ways are written down twice, on purpose; here they are held against each other."""
    tools = {name: tool for name, tool in bare_tools.TOOLS.items() if tool.study == "containers"}
    assert {name: tool.case.params for name, tool in tools.items()} == {
        "sysbench-cpu": {"threads": 1, "seconds": 1},
        "iozone": {"size_bytes": 32768 * 1024},
        "web": {"users": 100, "requests": 1000},
    }
    host = Replay({"sysbench": b"events per second: 1", "iozone": b"32768 4 1 2 3 4", "ab": b"Requests per second: 1"})
    for tool in tools.values():
        tool.by_hand(roles(host))
    for words in ("--threads=1 --time=1 --cpu-max-prime=10000", "-r 4k -s 32m -e -c", "ab -n 1000 -c 100"):
        assert any(words in line for line in host.typed)
    for name, parameter, value in (
        ("sysbench-cpu", "cpu_max_prime", 10000), ("web", "port", 18080), ("iozone", "record_bytes", 4096),
    ):  # fmt: skip
        assert registry.workload(name).PARAMS[parameter].default == value


def planned(workload, host):
    """Return the steps of the trial that is compared with the tool."""
    plugin = registry.workload(workload)
    return plugin.plan({**default_params(plugin), **bare_tools.TOOLS[workload].case.params}, roles(host))


@pytest.mark.parametrize(
    ("workload", "values"),
    [
        ("iperf3", {"throughput_bit_per_s": 17966177e3}),
        (
            "netperf",
            {"transactions_per_s": 52765.71, "latency_mean_s": 18.9e-6, "latency_p50_s": 7e-6, "latency_p99_s": 97e-6},
        ),
    ],
)
def test_network_tools_are_typed_in_the_pods_of_the_trial_with_its_options(workload, values):
    host = Replay({"sh": b"4711\n", workload: PRINTED[workload]})
    tool = bare_tools.TOOLS[workload]
    assert tool.by_hand(roles(host)) == pytest.approx(values)
    assert set(values) == set(tool.metrics)
    begun, typed, ended = host.typed
    assert begun.startswith("enter it sh -c ")
    assert typed.startswith(f"enter far {workload} ")
    assert ended == "enter it kill 4711"
    measured = next(step for step in planned(workload, host) if step.phase == "measure")
    assert measured.role == "far"
    own = measured.argv[: measured.argv.index("--")] if "--" in measured.argv else measured.argv
    values_of = dict(itertools.pairwise(own))
    by_hand = typed.split()
    for option in {"-c", "-H", "-p", "-t", "-l", "-O", "-P"} & set(own):
        assert by_hand[by_hand.index(option) + 1] == values_of[option], option
    if workload == "netperf":
        assert "-- -P ,12866 -r 1,1 -o THROUGHPUT,MEAN_LATENCY,P50_LATENCY,P90_LATENCY,P99_LATENCY" in typed
        assert "-P ,12866 -r 1,1" in " ".join(measured.argv)


def test_fio_is_typed_at_the_volume_of_the_trial_with_its_options():
    host = Replay({"fio": PRINTED["fio"]})
    assert bare_tools.TOOLS["fio-4k"].by_hand(roles(host)) == {"iops": 85333}
    *prepared, typed = host.typed
    steps = planned("fio-4k", host)
    told = [f"enter it {' '.join(step.argv)}" for step in steps if step.phase == "prepare" and "/main.py" in step.argv]
    assert prepared == told
    own = {word.split("=")[0]: word for step in steps if step.name == "fio" for word in step.argv[1:]}
    same = (
        "--ioengine", "--uri", "--rw", "--iodepth", "--randrepeat", "--refill_buffers", "--end_fsync", "--time_based",
        "--runtime", "--ramp_time", "--size",
    )  # fmt: skip
    assert all(own[option] in typed.split() for option in same), own
    assert (own["--bs"], "--bs=4k" in typed) == ("--bs=4096", True)


def test_each_study_has_its_own_tools(monkeypatch):
    monkeypatch.delenv(registry.VARIABLE)
    wanted = fidelity.request(["flannel", "cilium"], 2, 1, "cnis")
    assert {case.workload for case in wanted.cases} == {"iperf3", "netperf"}
    wanted = fidelity.request(["native"], 2, 1)
    assert {case.workload for case in wanted.cases} == {"sysbench-cpu", "iozone", "web"}
    assert set(fidelity.SYSTEMS) == {tool.study for tool in bare_tools.TOOLS.values()}
