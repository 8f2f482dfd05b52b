"""What a verdict that decides nothing still rules out: both ends of its interval, by the metric's better direction."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from infrabench.analysis import results, tables
from infrabench.analysis.tables.cells import NOTHING, ruled_out, ruled_out_label
from infrabench.publish.report.pages import matrix
from tests.support.frames import CONTRAST, NAN, contrasts_frame

OPEN: dict[str, Any] = {"verdict": "inconclusive", "ratio": 0.99, "ratio_low": 0.9491, "ratio_high": 1.0202}
NO_RATIO = {"ratio": NAN, "ratio_low": NAN, "ratio_high": NAN}


def row(**changes: Any) -> SimpleNamespace:
    return SimpleNamespace(**CONTRAST | OPEN | changes)


def test_both_ends_by_the_better_direction() -> None:
    assert ruled_out(row(better="higher")) == "costs at most 5.1 %, gains at most 2.1 % (95 %)"
    assert ruled_out(row(better="lower")) == "costs at most 2.1 %, gains at most 5.1 % (95 %)"


@pytest.mark.parametrize("verdict", ["different", "different, within the margin", "equivalent", "not comparable"])
def test_a_verdict_that_says_something_needs_no_more(verdict: str) -> None:
    assert ruled_out(row(verdict=verdict)) == ""


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.98, 1.05, "costs at most 5.0 %, gains at most 2.0 %"),  # 1.05 - 1 is a little more than 0.05
        (0.99999, 1.123401, "costs at most 13 %, gains at most 0.0010 %"),
        (0.0, 3.456, "costs at most 250 %, gains at most 100 %"),
        (1.0, 1.0995, "costs at most 10 %, gains nothing"),
    ],
)
def test_an_end_is_never_rounded_towards_no_effect(low: float, high: float, said: str) -> None:
    assert ruled_out(row(better="lower", ratio_low=low, ratio_high=high)) == f"{said} (95 %)"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"better": "higher"}, "costs ≤ 5.1 %, gains ≤ 2.1 %"),
        ({"better": "lower"}, "costs ≤ 2.1 %, gains ≤ 5.1 %"),
        ({"better": "lower", "ratio_low": 1.0, "ratio_high": float("inf")}, "costs unbounded, gains nothing"),
        ({"verdict": "equivalent"}, "equivalent"),
        (NO_RATIO, "inconclusive"),
    ],
)
def test_a_figure_has_the_bounds_in_place_of_no_verdict(changes: dict[str, Any], said: str) -> None:
    assert ruled_out_label(row(**changes)) == said


def test_an_infinite_end_is_told_in_words() -> None:
    said = ruled_out(row(better="lower", ratio=float("inf"), ratio_low=0.66, ratio_high=float("inf")))
    assert said == "may cost any amount, gains at most 34 % (95 %)"


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
    assert "at most" not in results.sentence(SimpleNamespace(**CONTRAST))


def test_the_table_has_a_column_where_a_verdict_is_open() -> None:
    shown = tables.contrasts_table(contrasts_frame(OPEN, {}))
    assert list(shown["ruled out"]) == ["costs at most 5.1 %, gains at most 2.1 % (95 %)", ""]
    assert list(shown.columns).index("ruled out") == list(shown.columns).index("verdict") + 1
    assert "ruled out" not in tables.contrasts_table(contrasts_frame({}))


def test_the_page_of_verdicts_says_it_beside_the_ratio() -> None:
    made = tables.contrasts_table(contrasts_frame(OPEN, {"system": "lxc"})).fillna("").assign(better="higher")
    if "verdict without flagged" not in made:
        made["verdict without flagged"] = ""
    told = {
        "title": "T", "systems": ["native", "docker", "lxc"], "baseline": "native", "note": "", "not_run": {},
        "planned": 1, "recorded": 1, "ok": 1, "profile": "quick", "blocks": 30, "site": {"name": "x", "kind": "local"},
        "created_utc": "2026-01-01", "versions": {}, "study": "s", "deployments": 1, "order": "random", "seed": 1,
        "name": "n", "sessions": [], "aa": None, "known": [],
        "verdicts": {"columns": list(made.columns), "rows": made.to_numpy().tolist()},
    }  # fmt: skip
    remarks = [cell["remark"] for cell in matrix(told)["rows"][0]["cells"]]
    assert "costs at most 5.1 %, gains at most 2.1 % (95 %)" in remarks[0]
    assert "at most" not in remarks[1]
    # what an older notebook tells has no such column
    told["verdicts"] = {"columns": list(made.drop(columns="ruled out").columns),
                        "rows": made.drop(columns="ruled out").to_numpy().tolist()}  # fmt: skip
    assert "at most" not in matrix(told)["rows"][0]["cells"][0]["remark"]
