"""Sessions with a known answer: A/A is told as such, an injected effect is found, and a wrong answer fails."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import infrabench as ib
from infrabench.analysis import results
from infrabench.analysis.tidy import PLAN_COLUMNS
from infrabench.core import DesignError, InfrabenchError, SchemaError
from infrabench.ledger import catalogue
from infrabench_selfcheck import known_answers
from tests.support.analysis_fixtures import table_of

SAME = {"system": "native", "prefix": [], "enter": [["server", ["true"]]], "leave": []}
SLOW = {**SAME, "prefix": ["env", "SLOW=1"]}


def session(values: Mapping[str, Any], folder: Path, **data: Any) -> results.Results:
    table = table_of(values)
    told = {
        "study": "s", "title": "T", "profile": "quick", "blocks": 30, "baseline": next(iter(values)), "seed": 1,
        "systems": list(values), "not_run": {}, "margins": {"": 0.02}, "site": {"name": "lab", "kind": "lab"},
        "primary": [["sysbench-cpu", "events_per_s"]], "variants": {}, "known": [], **data,
    }  # fmt: skip
    return results.results(told, table, pd.DataFrame(columns=list(PLAN_COLUMNS)), folder)


def noisy(seed: int, factor: float = 1.0) -> list[float]:
    shared = np.random.default_rng(7).normal(100, 3, 30)
    return list(factor * shared * np.random.default_rng(seed).normal(1, 0.004, 30))


def test_labels_that_stand_for_the_same_are_found() -> None:
    data = {"baseline": "u", "systems": ["u", "again", "slow"], "variants": {"u": SAME, "again": SAME, "slow": SLOW}}
    assert known_answers.same_labels(data) == ["again"]
    aa = {"baseline": "docker", "systems": ["docker", "docker-again"]}
    plain = {"system": "docker", "prefix": [], "enter": [], "leave": []}
    assert known_answers.same_labels({**aa, "variants": {"docker-again": plain}}) == ["docker-again"]
    assert known_answers.same_labels({**aa, "systems": ["docker", "native"], "variants": {}}) == []


def test_a_system_under_two_labels_is_not_told_apart(tmp_path: Path) -> None:
    found = session({"u": noisy(1), "again": noisy(2)}, tmp_path, variants={"u": SAME, "again": SAME})
    (same,) = known_answers.same(found)
    assert (same.label, same.contrasts, same.different, same.significant) == ("again", 1, 0, 0)
    assert same.swapped.band.low <= same.swapped.share <= same.swapped.band.high
    assert "again" in "\n".join(known_answers.lines(found))
    apart = session({"u": noisy(1), "again": noisy(2, 1.01)}, tmp_path, variants={"u": SAME, "again": SAME})
    with pytest.raises(InfrabenchError, match="again is called different from itself"):
        list(known_answers.lines(apart))


@pytest.mark.parametrize(
    ("factor", "said"), [(0.95, ""), (0.97, "truth outside the interval"), (1.0, "not told from 1")]
)
def test_an_injected_effect_is_found_and_one_of_the_wrong_size_fails(tmp_path: Path, factor: float, said: str) -> None:
    known = [["slow", "sysbench-cpu", "events_per_s", 0.95]]
    values = {"u": noisy(1), "slow": noisy(2, factor)}
    found = session(values, tmp_path, variants={"u": SAME, "slow": SLOW}, known=known)
    if said:
        with pytest.raises(InfrabenchError, match=f"not the known answer: .*slow: {said}"):
            list(known_answers.lines(found))
        return
    assert "| slow |" in "\n".join(known_answers.lines(found))
    assert known_answers.injected_effects(found)[["covers", "excludes_1"]].all(axis=None)


def test_an_effect_that_was_not_measured_is_refused(tmp_path: Path) -> None:
    found = session({"u": noisy(1)}, tmp_path, known=[["slow", "sysbench-cpu", "events_per_s", 0.95]])
    with pytest.raises(SchemaError, match="no contrast of slow in sysbench-cpu events_per_s"):
        known_answers.injected_effects(found)


def test_a_session_without_a_known_answer_is_refused(tmp_path: Path) -> None:
    found = session({"u": noisy(1), "v": noisy(2)}, tmp_path)
    with pytest.raises(DesignError, match="no known answer"):
        list(known_answers.lines(found))
    assert "No label" in known_answers.same_table(found).text
    assert "No effect" in known_answers.known_table(found).text


def test_simulations_can_be_left_out_and_unknown_forms_are_refused() -> None:
    assert "were not run" in known_answers.simulations("none").text
    with pytest.raises(DesignError, match="unknown form 'fats'"):
        known_answers.simulations("fats")


def test_the_recorded_session_that_few_blocks_dominate_fails_and_says_so(tmp_path: Path) -> None:
    """Its labels differ too seldom when they are swapped: kept as it was recorded, and not passed off as right."""
    found = ib.results(ib.open_session(catalogue.find(None, "lab-quick-2026-11-aa-2")), str(tmp_path))
    with pytest.raises(InfrabenchError, match=r"differ in 2\.53 % of cases, and in 4\.42 % of those that no"):
        list(known_answers.lines(found))
    (same,) = known_answers.same(found)
    assert same.significant == 0
    assert same.swapped.share < same.swapped.band.low <= same.swapped.even <= same.swapped.band.high
