"""The rule of re-measurement: what passes, what contradicts, and how seldom two sessions of one truth contradict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from infrabench.stats.verdicts import DIFFERENT, EQUIVALENT, NOT_COMPARABLE, WITHIN, Pairs, decide, judge
from infrabench.stats.verdicts import INCONCLUSIVE as UNDECIDED
from infrabench_selfcheck.claims import remeasurement
from infrabench_selfcheck.claims.claim import FAIL, INCONCLUSIVE, PASS

MARGIN = 0.02


def contrast(low: float | None, high: float | None, verdict: str, **given: Any) -> dict[str, Any]:
    ratio = None if low is None or high is None else (low * high) ** 0.5
    return {
        "system": "docker", "baseline": "native", "better": "higher", "pair_unit": "blocks", "n_pairs": 30,
        "margin": MARGIN, "ratio": ratio, "ratio_low": low, "ratio_high": high, "verdict": verdict, "reason": "",
        **given,
    }  # fmt: skip


BELOW, ABOVE = contrast(0.90, 0.94, DIFFERENT), contrast(1.05, 1.10, DIFFERENT)
NEAR, SAME = contrast(0.985, 0.995, WITHIN), contrast(0.995, 1.004, EQUIVALENT)
JUST, WIDE = contrast(0.97, 0.99, DIFFERENT), contrast(0.8, 1.3, UNDECIDED)


def test_a_count_without_an_upper_end_is_on_its_side() -> None:
    """Failures against none: the ratio has no upper end, which a recorded claim writes as null."""
    some = contrast(1.4, None, DIFFERENT)
    assert remeasurement.claims_something(some)
    assert remeasurement.statement(some).startswith("docker is above native")
    assert remeasurement.judge(some, some).outcome == PASS
    assert "[1.40, ∞)" in remeasurement.judge(some, some).found
    assert remeasurement.judge(BELOW, some).outcome == FAIL
    assert remeasurement.judge(some, BELOW).outcome == FAIL


@pytest.mark.parametrize(
    ("then", "now", "outcome"),
    [
        (BELOW, BELOW, PASS),
        (BELOW, contrast(0.6, 0.7, DIFFERENT), PASS),  # the size is another question
        (BELOW, NEAR, PASS),
        (BELOW, ABOVE, FAIL),
        (ABOVE, BELOW, FAIL),
        (BELOW, SAME, FAIL),  # at most 2 % here, at least 6 % there
        (JUST, SAME, INCONCLUSIVE),  # both may be right: 0.985 is in one interval and within the margin
        (BELOW, WIDE, INCONCLUSIVE),
        (SAME, SAME, PASS),
        (SAME, NEAR, PASS),
        (NEAR, SAME, PASS),
        (SAME, BELOW, FAIL),
        (SAME, ABOVE, FAIL),
        (NEAR, BELOW, FAIL),
        (SAME, JUST, INCONCLUSIVE),
        (SAME, WIDE, INCONCLUSIVE),
        (BELOW, contrast(None, None, NOT_COMPARABLE, reason="no ok trial of docker"), INCONCLUSIVE),
    ],
)
def test_outcomes(then: dict[str, Any], now: dict[str, Any], outcome: str) -> None:
    assert remeasurement.judge(then, now).outcome == outcome


def test_what_decides_nothing_claims_nothing() -> None:
    assert [remeasurement.claims_something(each) for each in (BELOW, NEAR, SAME, WIDE)] == [True, True, True, False]
    assert not remeasurement.claims_something(contrast(None, None, NOT_COMPARABLE))


def test_statements_and_findings_are_sentences() -> None:
    assert remeasurement.statement(BELOW) == "docker is below native (higher is better)"
    assert remeasurement.statement(ABOVE) == "docker is above native (higher is better)"
    assert remeasurement.statement(SAME) == "docker and native are the same within 2 %"
    found = remeasurement.judge(BELOW, contrast(0.6, 0.7, DIFFERENT, n_pairs=5)).found
    assert found.startswith("here 0.648 [0.600, 0.700], n = 5 blocks: different; outside the prediction interval [")
    assert "; inside the prediction interval [" in remeasurement.judge(BELOW, BELOW).found
    none = contrast(None, None, NOT_COMPARABLE, reason="no ok trial of docker")
    assert remeasurement.judge(BELOW, none).found == "here no interval: no ok trial of docker"


@pytest.mark.parametrize("true", [1.0, 0.99, 0.98, 0.975, 0.9])
@pytest.mark.parametrize("blocks", [5, 30])
def test_two_sessions_of_one_truth_seldom_contradict(true: float, blocks: int) -> None:
    """At most 5 % may fail, by the module's word; seen with 2 000 pairs of sessions, the band of 99.9 % added."""
    rng, cells = np.random.default_rng([int(1000 * true), blocks]), 2_000
    then, now = (session(rng, true, n, cells) for n in (30, blocks))
    claimed = [(a, b) for a, b in zip(then, now, strict=True) if remeasurement.claims_something(a)]
    outcomes = [remeasurement.judge(a, b).outcome for a, b in claimed]
    allowed = 0.05 + 3.3 * (0.05 * 0.95 / len(claimed)) ** 0.5 if claimed else 1.0
    assert outcomes.count(FAIL) <= allowed * len(claimed)
    if true == 0.9:
        assert outcomes.count(PASS) >= 0.99 * cells  # and what is clear is found again


def session(rng: np.random.Generator, true: float, blocks: int, cells: int) -> list[dict[str, Any]]:
    shared = rng.normal(100, 3, (cells, blocks))
    x, y = true * shared * rng.normal(1, 0.01, (cells, blocks)), shared * rng.normal(1, 0.01, (cells, blocks))
    none = np.full(cells, np.nan)
    found = judge(Pairs(x, y, np.full(cells, MARGIN), none, none, "native", "blocks"))
    verdicts = decide(found, found["p_equivalence"])
    ends = ([None if np.isnan(each) else each for each in found[name]] for name in ("ratio_low", "ratio_high"))
    return [
        contrast(low, high, verdict, ratio=ratio, n_pairs=blocks)
        for low, high, verdict, ratio in zip(*ends, verdicts, found["ratio"], strict=True)
    ]
