"""The plan of a campaign: time and disk by site, what runs at the same time, and that what must not never does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrabench import registry
from infrabench.experiment.campaign import plan
from infrabench.experiment.campaign.file import Site
from infrabench.experiment.campaign.plan import Job, Plan, Slot, Stand, schedule
from infrabench.experiment.execution import session

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
def test_whatever_is_declared_nothing_meets_that_must_not(
    shares: list[str], alone: str, at_once: int, each: int
) -> None:
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


def test_the_schedule_is_what_snakemake_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    found = planned("abc", shares=("ab",), alone="c")
    assert found.limits(2) == {"site_0": 1, "site_1": 1, "site_2": 1, "share_0": 1, "here": 2}
    assert found.holds(found.jobs[0], 2) == {"site_0": 1, "share_0": 1, "here": 1}
    assert found.holds(found.jobs[2], 2) == {"site_2": 1, "here": 2}
