"""The proof that no two trials met: it holds where they did not, and finds those that did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrabench import registry
from infrabench.experiment.campaign import overlap
from infrabench.experiment.campaign.overlap import Span, closest, overlaps
from infrabench.experiment.campaign.plan import Plan
from infrabench.ledger import records
from infrabench.machines.hosts.host import LocalHost
from tests.support.fakes import PLUGINS, fake_site, run_session
from tests.unit.campaign.test_campaign_plan import planned


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
        ("a 0 1, b 0 1, c 0 1", (), "", []),
        ("a 0 2, a 1 3", (), "", [("0", "1", 1.0)]),
        ("a 0 9, a 1 2, a 3 4", (), "", [("0", "1", 1.0), ("0", "2", 1.0)]),
        ("a 0 2, b 1.5 3", ("ab",), "", [("0", "1", 0.5)]),
        ("a 0 2, c 1.5 3", ("ab",), "", []),
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
def test_every_pair_is_found_that_looking_at_all_pairs_finds(
    drawn: list[tuple[str, int, int]], shares: Sequence[str]
) -> None:
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


def test_a_real_ledger_is_read_and_two_of_one_time_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(registry.VARIABLE, str(PLUGINS))
    folder = tmp_path / "session"
    run_session(registry.study("fakes"), folder, fake_site(LocalHost("here")))
    found = overlap.spans("a", folder)
    assert len(found) == 12
    assert all(each.end_s > each.begin_s for each in found)
    rule = planned("ab", shares=("ab",))
    assert overlaps(found, rule) == []
    # The same trials on a site that shares with it met all of them.
    assert len(overlaps([*found, *overlap.spans("b", folder)], rule)) == 12
    assert overlap.spans("a", tmp_path / "none") == []


@pytest.mark.parametrize("kept", [True, False])
def test_a_trial_that_begins_as_another_ends_does_not_meet_it(
    kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    monkeypatch.setattr(overlap, "read_trials", lambda where: [first, second])
    found = overlap.spans("a", folder)
    assert overlaps(found, planned("a")) == []
    assert closest(found, planned("a")) == 0


def test_what_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    rule: Plan = planned("ab", shares=("ab",))
    drawn = {"c.a.s0": spans("a 0 1, a 2 3"), "c.b.s0": spans("b 1.5 1.75")}
    monkeypatch.setattr(overlap, "spans", lambda site, folder: drawn[str(folder)])
    assert overlap.describe_overlaps(rule) == (
        ["exclusive: 3 trials on 2 sites; no two that must not meet overlap; the closest two were 0.250 s apart"],
        True,
    )
    drawn["c.b.s0"] = spans("b 0.5 1.75")
    told, alone = overlap.describe_overlaps(rule)
    assert not alone
    assert told == [
        "NOT exclusive: 3 trials on 2 sites; 1 pair at the same time",
        "  a s-a 0 and b s-b 0: 0.500 s",
    ]
