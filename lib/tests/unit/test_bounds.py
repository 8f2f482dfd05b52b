"""What a contrast rules out, decided or not: both ends of its interval, by the metric's better direction."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from infrabench.analysis import results, tables
from infrabench.analysis.tables import ruled_out, ruled_out_label, state_bounds
from infrabench.analysis.tables.bounds import NOTHING
from tests.support.frames import CONTRAST, NAN, contrasts_frame

OPEN: dict[str, Any] = {"verdict": "inconclusive", "ratio": 0.99, "ratio_low": 0.9491, "ratio_high": 1.0202}
NO_RATIO = {"ratio": NAN, "ratio_low": NAN, "ratio_high": NAN}
NO_DIFFERENCE = {"difference_low": NAN, "difference_high": NAN}


def row(**changes: Any) -> SimpleNamespace:
    return SimpleNamespace(**CONTRAST | OPEN | changes)


@pytest.mark.parametrize(
    ("low", "high", "better", "said"),
    [
        (0.9487, 0.9689, "higher", "costs 3.1 to 5.2 %"),
        (1.0312, 1.0513, "lower", "costs 3.1 to 5.2 %"),
        (1.0312, 1.0513, "higher", "gains 3.1 to 5.2 %"),
        (0.720686, 0.999929, "lower", "gains 0.0071 to 28 %"),
        (1.05, 1.1, "lower", "costs 5.0 to 10 %"),  # less one, both are a little more than 0.05 and 0.1
        (1.9, float("inf"), "lower", "costs at least 90 %"),
    ],
)
def test_an_interval_without_no_effect_says_at_least_how_much(low: float, high: float, better: str, said: str) -> None:
    decided = row(verdict="different", ratio_low=low, ratio_high=high, better=better)
    assert ruled_out(decided) == f"{said} (95 %)"
    assert ruled_out_label(decided) == said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"better": "higher"}, "costs at most 5.1 %, gains at most 2.1 % (95 %)"),
        ({}, "costs at most 2.1 %, gains at most 5.1 % (95 %)"),
        # 1.05 - 1 is a little more than 0.05
        ({"ratio_low": 0.98, "ratio_high": 1.05}, "costs at most 5.0 %, gains at most 2.0 % (95 %)"),
        ({"ratio_low": 0.99999, "ratio_high": 1.123401}, "costs at most 13 %, gains at most 0.0010 % (95 %)"),
        ({"ratio_low": 0.0, "ratio_high": 3.456}, "costs at most 250 %, gains at most 100 % (95 %)"),
        ({"ratio_low": 1.0, "ratio_high": 1.0995}, "costs at most 10 %, gains nothing (95 %)"),
        ({"ratio_low": 0.66, "ratio_high": float("inf")}, "may cost any amount, gains at most 34 % (95 %)"),
        ({"verdict": "not comparable"}, ""),
    ],
)
def test_an_end_is_never_rounded_towards_no_effect(changes: dict[str, Any], said: str) -> None:
    assert ruled_out(row(**{"better": "lower", **changes})) == said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"better": "higher"}, "costs ≤ 5.1 %, gains ≤ 2.1 %"),
        ({"better": "lower"}, "costs ≤ 2.1 %, gains ≤ 5.1 %"),
        ({"better": "lower", "ratio_low": 1.0, "ratio_high": float("inf")}, "costs unbounded, gains nothing"),
        ({"verdict": "equivalent"}, "equivalent: costs ≤ 5.1 %, gains ≤ 2.1 %"),
        (
            {"verdict": "different, within the margin", "ratio_low": 0.9902, "ratio_high": 0.9953},
            "costs 0.47 to 0.98 %, within the margin",
        ),
        (NO_RATIO, "no interval"),
        ({"verdict": "not comparable"}, "not comparable"),
    ],
)
def test_a_figure_has_the_bounds_in_place_of_no_verdict(changes: dict[str, Any], said: str) -> None:
    assert ruled_out_label(row(**changes)) == said


def test_without_an_interval_of_the_ratio_the_difference_says_it() -> None:
    ends = {"difference_low": -0.02, "difference_high": 0.31}
    said = ruled_out(row(better="lower", unit="%", **NO_RATIO, **ends))
    assert said == "as a difference, costs at most 0.31 percentage points, gains at most 0.020 percentage points (95 %)"
    share = ruled_out(row(better="higher", unit="1", **NO_RATIO, **ends))
    assert share == "as a difference, costs at most 0.020, gains at most 0.31 (95 %)"
    assert ruled_out(row(**NO_RATIO, difference_low=NAN, difference_high=NAN)) == NOTHING


def test_it_stands_in_the_sentence_behind_what_was_there() -> None:
    told = results.sentence(row(n_to_decide=80.0, better="higher", sensitive=True, reason="dependent"))
    first, ruled, flagged = told.split("; ")[1:]
    assert first == "higher is better: inconclusive, about 80 blocks would decide"
    assert ruled == "costs at most 5.1 %, gains at most 2.1 % (95 %)"
    assert flagged == "without the values flagged as outliers: different (dependent)."
    shares = results.sentence(row(unit="1", better="lower", difference_low=-0.28, difference_high=0.28,
                                   reason="a share", **NO_RATIO))  # fmt: skip
    assert "inconclusive; as a difference, costs at most 0.28, gains at most 0.28 (95 %) (a share)." in shares
    assert "different; costs 1.1 to 3.9 % (95 %)." in results.sentence(SimpleNamespace(**CONTRAST))


def test_the_table_says_it_beside_every_verdict() -> None:
    shown = tables.contrasts_table(contrasts_frame(OPEN, {}, {"verdict": "not comparable"}))
    assert list(shown["ruled out"]) == [
        "costs at most 5.1 %, gains at most 2.1 % (95 %)", "costs 1.1 to 3.9 % (95 %)", "",
    ]  # fmt: skip
    assert list(shown.columns).index("ruled out") == list(shown.columns).index("verdict") + 1


COSTLY = {"verdict": "different", "ratio_low": 0.90, "ratio_high": 0.95}
COSTLIER = {"verdict": "different", "ratio_low": 0.80, "ratio_high": 0.92}
SAME = {"verdict": "equivalent", "ratio_low": 0.991, "ratio_high": 1.004}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([OPEN], "costs at most 5.1 %, gains at most 2.1 %"),
        ([COSTLY, COSTLIER], "costs 5.0 to 20 % (each of 2 settings)"),
        (
            [OPEN, OPEN | {"ratio_low": 0.98, "ratio_high": 1.07}],
            "costs at most 2.0 to 5.1 %, gains at most 2.1 to 7.0 % (each of 2 settings)",
        ),
        (
            [COSTLY, OPEN, SAME, {"verdict": "not comparable"}],
            "costs 5.0 to 10 % (s0); is the same within 2 % (costs at most 0.90 %, gains at most 0.40 %) (s2); "
            "costs at most 5.1 %, gains at most 2.1 % (s1); not comparable (s3)",
        ),
        ([OPEN | NO_RATIO | NO_DIFFERENCE], f"inconclusive, {NOTHING}"),
        (
            [
                OPEN | NO_RATIO | {"difference_low": -0.02, "difference_high": 0.31, "unit": "1"},
                OPEN | NO_RATIO | NO_DIFFERENCE,
            ],
            "inconclusive, as a difference, costs at most 0.020, gains at most 0.31 (95 %) or "
            f"inconclusive, {NOTHING} (each of 2 settings)",
        ),
    ],
)
def test_a_sentence_holds_the_settings_of_one_answer_together(rows: list[dict[str, Any]], said: str) -> None:
    each = [SimpleNamespace(**CONTRAST | changes | {"scenario": f"s{n}"}) for n, changes in enumerate(rows)]
    assert state_bounds(each) == said
