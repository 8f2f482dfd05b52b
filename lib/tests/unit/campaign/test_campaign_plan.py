"""The plan of a campaign: time and disk, what runs at once; and the proof that what must not never did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from math import ceil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrabench import registry
from infrabench.experiment.campaign import engine, plan, slurm, summary
from infrabench.experiment.campaign.file import Site
from infrabench.experiment.campaign.plan import Job, Plan, Slot, Stand, schedule
from infrabench.experiment.campaign.summary import Span, closest, overlaps
from infrabench.experiment.execution import session
from infrabench.ledger import records
from infrabench.ledger.pace import Pace
from infrabench.machines.hosts.host import LocalHost
from tests.support.fakes import PLUGINS, fake_site, run_session

STUDY = registry.study("containers")
WANTED = session.request(STUDY, profile="smoke", systems=["native"], workloads=["sysbench-cpu"], runs=2)


def job(site: str, label: str = "containers") -> Job:
    name = f"c.{site}.{label}"
    return Job(label, Site(site, f"/{site}.yml", site, "inventory"), STUDY, WANTED, Path(name))


def planned(sites: Sequence[str], *, each: int = 1, shares: Sequence[str] = (), alone: str = "") -> Plan:
    jobs = [job(site, f"s{number}") for site in sites for number in range(each)]
    stands = {each.id: Stand("missing", 0, 2) for each in jobs}
    return Plan("c", jobs, stands, tuple(frozenset(group) for group in shares), frozenset(alone))


def together(slots: Sequence[Slot]) -> set[str]:
    """Return the pairs of sites that are measured at the same time."""
    return {
        "".join(sorted((a.job.site.label, b.job.site.label)))
        for a, b in combinations(slots, 2)
        if a.begin_s < b.end_s and b.begin_s < a.end_s
    }


@pytest.mark.parametrize(
    ("shares", "alone", "at_once", "met"),
    [
        ((), "", 3, {"ab", "ac", "bc"}),
        (("ab",), "", 3, {"ac"}),
        (("ab", "bc"), "", 3, {"ac"}),
        (("abc",), "", 3, set()),
        ((), "a", 3, {"bc"}),
        ((), "", 1, set()),
    ],
)
def test_only_what_may_meet_meets(shares: Sequence[str], alone: str, at_once: int, met: set[str]) -> None:
    assert together(schedule(planned("abc", shares=shares, alone=alone), at_once)) == met


GROUPS = st.lists(st.sets(st.sampled_from("abcd"), min_size=2).map("".join), max_size=3)


@given(GROUPS, st.sets(st.sampled_from("abcd")).map("".join), st.integers(1, 4), st.integers(1, 3))
def test_whatever_is_declared_none_meet_that_must_not(shares: list[str], alone: str, at_once: int, each: int) -> None:
    found = planned("abcd", each=each, shares=shares, alone=alone)
    slots = schedule(found, at_once)
    assert len(slots) == len(found.jobs)
    assert not [pair for pair in together(slots) if found.apart(pair[0], pair[1])]
    for slot in slots:
        assert sum(1 for other in slots if other.begin_s <= slot.begin_s < other.end_s) <= at_once
    for site in "abcd":  # one after the other, in the order of the file
        mine = [slot for slot in slots if slot.job.site.label == site]
        assert [slot.job.label for slot in mine] == [f"s{number}" for number in range(each)]
        assert all(a.end_s <= b.begin_s for a, b in pairwise(mine))


def test_the_plan_says_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    found = planned("abc", shares=("ab",), alone="c")
    each = found.seconds(found.jobs[0])
    assert each == pytest.approx(plan.cost(found.jobs[0]).seconds)
    told = list(plan.lines(found, 2))
    assert told[0] == "campaign c: 3 jobs on 3 sites"
    assert "one at a time, for they share a machine, a switch or storage: a, b" in told
    assert "alone, for this machine steers the others: c" in told
    assert "1 at once at the most" in told[-1]
    assert max(slot.end_s for slot in schedule(found, 2)) == pytest.approx(3 * each)


def test_what_is_there_is_not_planned_again() -> None:
    found = planned("ab")
    half = replace(found, stands={"a.s0": Stand("complete", 2, 2), "b.s0": Stand("partial", 1, 2)})
    assert half.seconds(half.jobs[0]) == 0
    assert 0 < half.seconds(half.jobs[1]) < found.seconds(found.jobs[1])
    assert [slot.job.site.label for slot in schedule(half, 2)] == ["b"]
    assert plan.ledger_bytes(half) < plan.ledger_bytes(found)
    done = replace(found, stands={name: Stand("complete", 2, 2) for name in found.stands})
    assert list(plan.lines(done, 2))[-1] == "nothing is left to measure"
    out = replace(found, without=frozenset("a"))
    assert [slot.job.site.label for slot in schedule(out, 2)] == ["b"]
    assert any(line.startswith("  s0: left out, ") for line in plan.lines(out, 2))


def asking(**more: Any) -> Plan:
    """Return the plan of one job that asks for this, too."""
    wanted = session.request(STUDY, profile="smoke", systems=["native"], workloads=["sysbench-cpu"], **more)
    found = planned("a")
    return replace(found, jobs=[replace(found.jobs[0], wanted=wanted)])


@pytest.mark.parametrize(("more", "times"), [({}, 10), ({"minutes": 5}, None), ({"minutes": 100_000}, 10)])
def test_slurm_gives_a_job_the_time_of_every_block_that_it_may_add(
    more: dict[str, float], times: float | None, tmp_path: Path
) -> None:
    found = asking(runs=30, precision=0.005, most=300, **more)
    (job,) = found.jobs
    most, first_s = found.most_seconds(job), found.seconds(job) - STUDY.deploy_s
    blocks_s = 60 * more["minutes"] if times is None else times * first_s
    assert most == pytest.approx(STUDY.deploy_s + blocks_s)
    (spec,) = engine.described(found, engine.How("slurm"), found.jobs, tmp_path)
    assert spec["resources"]["runtime"] == ceil((slurm.TIMES * most + slurm.MORE_S) / 60)
    done = replace(found, stands={job.id: Stand("partial", 40, 40)})  # of as many as it has added so far
    assert done.most_seconds(job) == most
    assert replace(found, stands={job.id: Stand("complete", 40, 40)}).most_seconds(job) == 0


def test_a_job_that_shares_out_a_time_has_what_is_left_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = asking(minutes=480)
    job = replace(found.jobs[0], folder=tmp_path)
    (tmp_path / "session.json").touch()
    stored = SimpleNamespace(awaited=[SimpleNamespace(id="t")], records={"t": None})  # all that is planned is there
    monkeypatch.setattr(plan, "SessionFolder", lambda path: stored)
    monkeypatch.setattr(plan.session, "is_complete", lambda *rest: False)
    monkeypatch.setattr(plan, "measure_pace", lambda records: Pace(100 * 60, {}))
    begun = replace(found, jobs=[job], stands={job.id: plan.read_stand(job)})
    assert begun.seconds(job) == begun.most_seconds(job) == pytest.approx(STUDY.deploy_s + 380 * 60)
    assert plan.ledger_bytes(begun) == pytest.approx(plan.ledger_bytes(found) * 380 / 480, rel=0.01)


def test_the_schedule_is_what_snakemake_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    found = planned("abc", shares=("ab",), alone="c")
    assert found.limits(2) == {"site_0": 1, "site_1": 1, "site_2": 1, "share_0": 1, "here": 2}
    assert found.holds(found.jobs[0], 2) == {"site_0": 1, "share_0": 1, "here": 1}
    assert found.holds(found.jobs[2], 2) == {"site_2": 1, "here": 2}


def spans(text: str) -> list[Span]:
    """Return spans written as ``site begin end``, separated by commas."""
    words = [each.split() for each in text.split(",")]
    return [
        Span(site, f"s-{site}", (n,), str(n), float(begin), float(end)) for n, (site, begin, end) in enumerate(words)
    ]


@pytest.mark.parametrize(
    ("text", "shares", "alone", "met"),
    [
        ("a 0 1, a 1 2, a 3 4", (), "", []),
        ("a 0 9, a 1 2, a 3 4", (), "", [("0", "1", 1.0), ("0", "2", 1.0)]),
        ("a 0 2, b 1.5 3", ("ab",), "", [("0", "1", 0.5)]),
        ("a 0 2, c 1.5 3", (), "a", [("0", "1", 0.5)]),
        ("b 0 2, c 1.5 3", (), "a", []),
        ("a 5 6, a 0 1, a 0.5 0.6", (), "", [("1", "2", 0.1)]),
    ],
)
def test_overlaps(text: str, shares: Sequence[str], alone: str, met: list[tuple[str, str, float]]) -> None:
    found = overlaps(spans(text), planned("abc", shares=shares, alone=alone))
    assert [(a.trial, b.trial, pytest.approx(seconds)) for a, b, seconds in found] == met


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30), st.integers(1, 6)), max_size=25),
    st.sampled_from([(), ("ab",), ("ab", "bc")]),
)
def test_overlaps_are_those_of_all_pairs(drawn: list[tuple[str, int, int]], shares: Sequence[str]) -> None:
    every = [Span(site, "s", (n,), str(n), begin, begin + took) for n, (site, begin, took) in enumerate(drawn)]
    rule = planned("abc", shares=shares)
    all_pairs = {
        frozenset((a.trial, b.trial))
        for n, a in enumerate(every)
        for b in every[:n]
        if rule.apart(a.site, b.site) and a.begin_s < b.end_s and b.begin_s < a.end_s
    }
    found = [frozenset((a.trial, b.trial)) for a, b, _ in overlaps(every, rule)]
    assert len(found) == len(set(found))
    assert set(found) == all_pairs


def test_the_closest_two_are_told() -> None:
    rule = planned("abc", shares=("ab",))
    assert closest(spans("a 0 1, c 1 2, b 1.25 2, a 3 4"), rule) == 0.25
    assert closest(spans("a 0 1, c 1 2"), rule) is None
    assert closest(spans("a 0 2, a 1 3"), rule) == -1
    rounds = [replace(each, case=("rounds",)) for each in spans("a 0 100, a 1 98")]  # the first ends last
    assert closest([*rounds, *spans("a 100.25 101")], rule) == 0.25


def test_a_real_ledger_is_read_and_two_of_one_time_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(registry.VARIABLE, str(PLUGINS))
    folder = tmp_path / "session"
    run_session(registry.study("fakes"), folder, fake_site(LocalHost("here")))
    found = summary.spans("a", folder)
    assert len(found) == 12
    assert all(each.end_s > each.begin_s for each in found)
    rule = planned("ab", shares=("ab",))
    assert overlaps(found, rule) == []
    # The same trials on a site that shares with it met all of them.
    assert len(overlaps([*found, *summary.spans("b", folder)], rule)) == 12
    assert summary.spans("a", tmp_path / "none") == []


@pytest.mark.parametrize("kept", [True, False])
def test_a_trial_meets_none_that_has_just_ended(kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a beginning of 0.0004 s the ledger says 0.000 s; the duration is finer, and of a clock that may run apart."""
    monkeypatch.setenv(registry.VARIABLE, str(PLUGINS))
    folder = tmp_path / "session"
    run_session(registry.study("fakes"), folder)
    first, second, *_ = records.read_trials(folder)
    instants = [f"2026-11-22T10:00:{each}Z" for each in ("00.000", "01.001", "02.001")]
    first, second = (
        replace(each, started_utc=begin, ended_utc=end if kept else "", duration_s=1.00135)
        for each, begin, end in zip((first, second), instants, instants[1:], strict=False)
    )
    monkeypatch.setattr(summary, "read_trials", lambda where: [first, second])
    found = summary.spans("a", folder)
    assert overlaps(found, planned("a")) == []
    assert closest(found, planned("a")) == 0


def test_what_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    rule: Plan = planned("ab", shares=("ab",))
    drawn = {"c.a.s0": spans("a 0 1, a 2 3"), "c.b.s0": spans("b 1.5 1.75")}
    monkeypatch.setattr(summary, "spans", lambda site, folder: drawn[str(folder)])
    assert summary.describe_overlaps(rule) == (
        ["exclusive: 3 trials on 2 sites; no two that must not meet overlap; the closest two were 0.250 s apart"],
        True,
    )
    drawn["c.b.s0"] = spans("b 0.5 1.75")
    told, alone = summary.describe_overlaps(rule)
    assert not alone
    assert told == [
        "NOT exclusive: 3 trials on 2 sites; 1 pair at the same time",
        "  a s-a 0 and b s-b 0: 0.500 s",
    ]
