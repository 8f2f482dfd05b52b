"""Trials that are cut into rounds: the systems of a case take turns, and each trial has one value of all its rounds."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from infrabench import registry
from infrabench.core import (
    Capture,
    Case,
    DesignError,
    Guards,
    LedgerError,
    Measurement,
    Param,
    ParseError,
    ProvisionError,
    Result,
    SiteError,
    Step,
    Target,
    Trial,
    share_out,
    trial_id,
)
from infrabench.experiment.execution import session
from infrabench.experiment.execution.monitor import judge
from infrabench.experiment.execution.rounds import group_turns, join_windows, pool_rounds
from infrabench.experiment.execution.trial import Bench, execute_turns, parse_capture, parse_trial

PARAMS = {"requests": Param(12, least=1, work=True), "users": Param(3, least=1)}
METRICS = {"rate": "fixed-work rate", "total_s": "total time", "p95_s": "time", "failures": "count"}
OFF = Guards(None, None, None, None)


def parse(capture: Capture) -> list[Measurement]:
    requests, rate, failures = capture["ask"].stdout.decode().split()
    if int(requests) != capture.params["requests"]:
        raise ParseError("fake", f"{requests} requests, not {capture.params['requests']}")
    return [
        Measurement("rate", float(rate), "1/s", "higher"),
        Measurement("total_s", int(requests) / float(rate), "s", "lower"),
        Measurement("p95_s", 1 / float(rate), "s", "lower"),
        Measurement("failures", float(failures), "1", "lower"),
    ]


def plan(params: Any, roles: Any) -> list[Step]:
    return [
        Step("start", "server", ("start",), phase="prepare"),
        Step("ask", "server", ("ask", str(params["requests"]))),
        Step("evidence", "server", ("evidence",), phase="rescue"),
        Step("stop", "server", ("stop",), phase="cleanup"),
    ]


WORKLOAD: Any = SimpleNamespace(plan=plan, parse=parse, PARAMS=PARAMS, METRICS=METRICS)


@dataclass
class Server:
    """A host whose tool answers with the next of `rates`; ``None`` is a failure, an exception is raised."""

    rates: list[Any]
    log: list[str]
    name: str = "h"
    address: str = "127.0.0.1"
    system: str = field(default="")

    def run(self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"") -> Result:
        program, *arguments = argv[4:]  # after timeout(1), its options and the limit
        self.log.append(f"{self.system} {program}")
        status, out = 0, b""
        if program == "start" and not self.rates:
            raise SiteError("h: connection lost")
        if program == "ask":
            rate = self.rates.pop(0)
            if isinstance(rate, BaseException):
                raise rate
            status, out = (1, b"") if rate is None else (0, f"{arguments[0]} {rate} 1".encode())
        return Result(tuple(argv), status, out, b"", time.time(), 0.5)


@dataclass
class Watch:
    """A monitor whose host's processors are stolen for a tenth of each window."""

    now: float = 0.0
    counted: list[Mapping[str, Sequence[str]]] = field(default_factory=list)

    def sample(self, steal: float) -> dict[str, Any]:
        cpu = dict.fromkeys(("user", "nice", "system", "irq", "softirq", "iowait"), 0.0)
        return {
            "time_s": 1e9 + self.now, "monotonic_s": self.now, "psi": None, "cgroups": {},
            "load": {"running": 1.0}, "cpu": {**cpu, "idle": self.now, "steal": steal, "cpus": 2, "tick_s": 0.01},
        }  # fmt: skip

    def begin(self, mark: str, cgroups: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        self.counted.append(cgroups)
        self.now += 100.0  # whatever happens between two windows is not the trial's
        return {"h": self.sample(self.now)}

    def end(self, mark: str) -> dict[str, Any]:
        before, self.now = self.now, self.now + 2.0
        return {"h": [self.sample(before + 0.2)]}


def trial(system: str = "a", rounds: int = 3, **changes: Any) -> Trial:
    made = Trial("", 0, 0, system, "w", "s", {"requests": 12, "users": 3}, None, None, 1.0, 0, rounds=rounds)
    return replace(made, id=trial_id("study", 1, made), **changes)


def benches(log: list[str], guards: Guards = OFF, **rates: list[Any]) -> list[tuple[Trial, Bench]]:
    found = []
    for system, answers in rates.items():
        server = Server(answers, log, system=system)

        @contextmanager
        def turn(system: str = system) -> Iterator[None]:
            log.append(f"{system} alone")
            yield

        bench = Bench({"server": Target("server", server)}, Watch(), {}, guards, turn=turn)  # type: ignore[arg-type]
        found.append((trial(system), bench))
    return found


def test_systems_take_turns_each_alone_and_none_is_always_the_first() -> None:
    log: list[str] = []
    both = execute_turns(benches(log, a=[10, 20, 30], b=[1, 1, 1]), WORKLOAD)
    assert log == [
        "a alone", "a start", "b alone", "b start",
        "a alone", "a ask", "b alone", "b ask",
        "b alone", "b ask", "a alone", "a ask",
        "a alone", "a ask", "b alone", "b ask",
        "a alone", "a stop", "b alone", "b stop",
    ]  # fmt: skip
    assert [each.record.trial.system for each in both] == ["a", "b"]
    assert {each.record.state for each in both} == {"ok"}


def test_tasks_that_wait_are_counted_once_before_the_servers_start() -> None:
    """All of them are looked at: with the thousands of a web server that takes longer than a round should wait."""
    [(one, bench)] = benches([], a=[10, 20, 30])
    watch, own = Watch(), {"h": ("/c",)}
    execute_turns([(one, replace(bench, monitor=watch, cgroups=own))], WORKLOAD)  # type: ignore[arg-type]
    assert watch.counted == [own, {}, {}, {}]


def test_the_value_of_a_trial_is_that_of_all_its_work() -> None:
    [found] = execute_turns(benches([], a=[10, 20, 30]), WORKLOAD)
    values = {each.metric: each.value for each in found.record.measurements}
    assert values["rate"] == pytest.approx(12 / (4 / 10 + 4 / 20 + 4 / 30))  # all requests over all the time
    assert values["total_s"] == pytest.approx(12 / values["rate"])
    assert values["p95_s"] == pytest.approx((1 / 10 + 1 / 20 + 1 / 30) / 3)
    assert values["failures"] == 3.0
    assert found.record.tool_s == pytest.approx(1.5)


def round_of(good: int, time_s: float, failed: int = 0) -> list[Measurement]:
    return [
        Measurement("rate", good / time_s, "1/s", "higher"),
        Measurement("total_s", time_s, "s", "lower"),
        Measurement("failures", float(failed), "1", "lower"),
    ]


def test_a_rate_without_what_failed_is_what_was_done_over_the_time_of_all_rounds() -> None:
    less: Any = SimpleNamespace(METRICS=METRICS, LESS_FAILED={"rate": ("total_s", "failures")})
    rounds = [*[round_of(1000, 1.0)] * 4, round_of(500, 5.0, failed=500)]
    values = {each.metric: each.value for each in pool_rounds(rounds, less)}
    assert values == {"rate": pytest.approx(4500 / 9), "total_s": 9.0, "failures": 500.0}
    even = [round_of(1000, time_s) for time_s in (0.7, 1.1, 5.3)]
    assert pool_rounds(even, less) == pool_rounds(even, WORKLOAD)  # to the last digit as without failures
    assert pool_rounds(even, less)[0].value == pytest.approx(3000 / 7.1)


def test_a_workload_names_metrics_of_its_own_for_a_rate_without_what_failed() -> None:
    found = 0
    for name in registry.names("workloads"):
        kinds = registry.metric_kinds(name)
        for rate, (time_s, failed) in getattr(registry.workload(name), "LESS_FAILED", {}).items():
            assert (kinds[rate], kinds[time_s], kinds[failed]) == ("fixed-work rate", "total time", "count")
            found += 1
    assert found


def test_every_round_is_kept_and_read_again() -> None:
    [found] = execute_turns(benches([], a=[10, 20, 30]), WORKLOAD)
    assert [found.blobs[f"ask-round-{n}.stdout"] for n in (1, 2, 3)] == [b"4 10 1", b"4 20 1", b"4 30 1"]
    assert len(found.blobs["monitor-h.jsonl"].splitlines()) == 6
    results = {
        step["name"]: Result(tuple(step["argv"]), 0, found.blobs.get(f"{step['name']}.stdout", b""), b"", 0.0, 0.5)
        for step in found.record.steps
    }
    assert parse_trial(WORKLOAD, found.record.trial, results) == found.record.measurements
    results.pop("ask-round-2")
    with pytest.raises(ParseError, match="step 'ask' is missing"):
        parse_trial(WORKLOAD, found.record.trial, results)


def test_a_failed_round_fails_its_trial_and_no_other() -> None:
    log: list[str] = []
    first, second = execute_turns(benches(log, a=[10, None], b=[1, 2, 3]), WORKLOAD)
    assert (first.record.state, second.record.state) == ("failed", "ok")
    assert "measure step ask-round-2" in first.record.reason
    assert log.count("a ask") == 2
    assert log.count("b ask") == 3
    assert [line for line in log if line in ("a evidence", "b evidence")] == ["a evidence"]


def test_a_lost_host_aborts_what_had_begun_and_was_not_failed() -> None:
    log: list[str] = []
    lost = SiteError("h: connection lost")
    first, second, third = execute_turns(benches(log, a=[None], b=[1, lost], c=[1, 1]), WORKLOAD)
    assert [each.record.state for each in (first, second, third)] == ["failed", "aborted", "aborted"]
    assert second.fatal is lost
    assert [line for line in log if "stop" in line] == ["a stop", "b stop", "c stop"]


def test_a_host_that_is_lost_for_good_leaves_every_outcome_as_it_was() -> None:
    log: list[str] = []
    lost = SiteError("h: connection lost")
    trials = benches(log, a=[None], b=[1, lost])
    alone = trials[0][1].turn

    @contextmanager
    def turn() -> Iterator[None]:
        if trials[1][1].roles["server"].host.rates == []:  # type: ignore[attr-defined]
            raise lost  # nothing can be frozen or thawed there any more
        with alone():
            yield

    first, second = execute_turns([(each, replace(bench, turn=turn)) for each, bench in trials], WORKLOAD)
    assert [each.record.state for each in (first, second)] == ["failed", "aborted"]
    assert first.fatal is second.fatal is lost
    assert {"stop"} <= set(first.record.conditions["cleanup_failed"])


@pytest.mark.parametrize("for_good", [False, True])
def test_systems_that_cannot_be_frozen_end_the_session_and_every_trial_keeps_its_record(for_good: bool) -> None:
    log: list[str] = []
    trials = benches(log, a=[None], b=[1, 1, 1], c=[1, 1, 1])
    turns = []

    @contextmanager
    def turn() -> Iterator[None]:
        turns.append("b")
        if len(turns) == 3 or (for_good and len(turns) > 3):  # prepare, and the first round, went well
            raise ProvisionError("a: it is not frozen")
        yield

    trials[1] = (trials[1][0], replace(trials[1][1], turn=turn))
    found = execute_turns(trials, WORKLOAD)
    assert [each.record.state for each in found] == ["failed", "aborted", "aborted"]
    assert found[1].record.reason == "the systems could not take turns: a: it is not frozen"
    assert found[1].blobs["ask-round-1.stdout"] == b"4 1 1"
    assert [str(each.fatal) for each in found if each.fatal] == [found[1].record.reason]
    assert isinstance(found[1].fatal, SiteError)
    assert ("cleanup_failed" in found[1].record.conditions) == for_good
    assert [line for line in log if "stop" in line] == ["a stop", *([] if for_good else ["b stop"]), "c stop"]


@pytest.mark.parametrize("number", [0, 2], ids=["the first of all", "the last"])
def test_a_trial_whose_system_never_had_its_turn_is_still_to_be_run(number: int) -> None:
    """No step stands before its measurement: it has run no command."""
    log: list[str] = []
    job = SimpleNamespace(**{**vars(WORKLOAD), "plan": lambda params, roles: plan(params, roles)[1:]})
    trials = benches(log, a=[1, 1, 1], b=[None], c=[1, 1, 1])

    @contextmanager
    def turn() -> Iterator[None]:
        raise ProvisionError("c: no freezer at /sys/fs/cgroup/c")
        yield

    trials[number] = (trials[number][0], replace(trials[number][1], turn=turn))
    told = "the systems could not take turns: c: no freezer at /sys/fs/cgroup/c"
    if number == 0:
        with pytest.raises(SiteError, match=f"^{told}$"):
            execute_turns(trials, job)
        assert log == []
        return
    found = execute_turns(trials, job)
    assert [(each.record.trial.system, each.record.state) for each in found] == [("a", "aborted"), ("b", "failed")]
    assert (found[0].record.reason, str(found[0].fatal)) == (told, told)
    assert not any(line.startswith("c") for line in log)


def test_a_trial_that_had_not_begun_when_a_host_was_lost_is_still_to_be_run() -> None:
    log: list[str] = []
    [first] = execute_turns(benches(log, a=[], b=[1, 2, 3]), WORKLOAD)
    assert (first.record.trial.system, first.record.state) == ("a", "aborted")
    assert not any(line.startswith("b") for line in log)


def test_an_interrupt_cleans_up_after_all_of_them() -> None:
    log: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        execute_turns(benches(log, a=[10, 10, 10], b=[1, KeyboardInterrupt()]), WORKLOAD)
    assert [line for line in log if "stop" in line] == ["a stop", "b stop"]


def test_guards_see_what_happened_in_the_windows_and_nothing_between_them() -> None:
    [found] = execute_turns(benches([], Guards(steal_share=0.05), a=[10, 20, 30]), WORKLOAD)
    seen = found.record.conditions["h"]
    assert seen["window_s"] == pytest.approx(6.0)
    assert seen["steal_share"] == pytest.approx(0.6 / 6.6)
    assert found.record.state == "invalid"


def test_one_window_is_what_it_was() -> None:
    before, after = {"h": {"n": 1, "on": True, "name": "x"}}, {"h": {"n": 5, "on": False, "name": "y", "new": 2}}
    assert join_windows([(before, after)]) == (before, after)
    joined = join_windows([(before, after), ({"h": {"n": 100}}, {"h": {"n": 103, "gone": None}})])
    assert joined == (before, {"h": {"n": 8, "gone": None}})
    assert judge(OFF, {}, {}, {}).invalid == []


@pytest.mark.parametrize(
    "found",
    [
        None,
        Measurement("/index.html p95", 1.0, "s", "lower"),
        Measurement("rate", True, "1/s", "higher"),
        Measurement("rate", "1", "1/s", "higher"),  # type: ignore[arg-type]
        Measurement("rate", 2**63, "1/s", "higher"),
        Measurement("rate", 1.0, "furlongs", "higher"),
        Measurement("rate", float("inf"), "1/s", "higher"),
    ],
)
def test_what_could_not_be_read_again_is_no_measurement(found: Any) -> None:
    workload: Any = SimpleNamespace(parse=lambda capture: [found])
    with pytest.raises(ParseError, match="is no measurement"):
        parse_capture(workload, Capture({}, {}))


def test_rounds_with_different_metrics_are_no_trial() -> None:
    one = [Measurement("rate", 1.0, "1/s", "higher")]
    with pytest.raises(ParseError, match="not the same metrics"):
        pool_rounds([one, []], WORKLOAD)


@pytest.mark.parametrize("order", ["adjacent", "williams", "random"])
def test_those_of_one_case_take_turns_unless_the_order_keeps_nothing_together(order: str) -> None:
    whole = trial("a", rounds=1)
    cut = [trial("a"), trial("b"), trial("a", scenario="t"), trial("b", scenario="t")]
    expected = [[each] for each in cut] if order == "random" else [cut[:2], cut[2:]]
    assert group_turns([whole, whole, *cut], order) == [[whole], [whole], *expected]


def test_rounds_are_part_of_what_a_trial_is_and_one_round_is_as_it_was() -> None:
    assert trial(rounds=2).id != trial(rounds=3).id
    assert "rounds" not in trial(rounds=1).as_json()
    assert "rounds" not in Case("w", "s").as_json()
    assert Trial.from_json(trial().as_json()) == trial()
    with pytest.raises(LedgerError, match="rounds is 0"):
        Trial.from_json(trial().as_json() | {"rounds": 0})


def test_work_is_shared_out_in_equal_parts() -> None:
    assert share_out({"requests": 12, "users": 3}, PARAMS, 4) == {"requests": 3, "users": 3}
    with pytest.raises(DesignError, match=r"requests = 12 cannot be cut into 5 equal rounds"):
        share_out({"requests": 12}, PARAMS, 5)
    with pytest.raises(DesignError, match="what has no amount of work"):
        share_out({"users": 3}, PARAMS, 2)


def test_rounds_are_asked_for_and_go_to_what_can_be_cut() -> None:
    wanted = session.request(registry.study("containers"), profile="smoke", workloads=["web", "ftp"], rounds=5)
    assert {case.workload: case.rounds for case in wanted.cases} == {"web": 5, "ftp": 1}
    assert (
        session.request(registry.study("containers"), profile="smoke", workloads=["web"], rounds=1).cases[0].rounds == 1
    )
    with pytest.raises(DesignError, match=r"web users=100: requests = 2000 cannot be cut into 7"):
        session.request(registry.study("containers"), profile="smoke", workloads=["web"], rounds=7)
