from __future__ import annotations

import numpy as np
import pytest

from infrabench.stats import diagnostics
from infrabench.stats.diagnostics import COLUMNS, diagnose, lag1, outliers
from tests.analysis_fixtures import DATA_A, table_of


def test_columns_and_cells() -> None:
    found = diagnostics(table_of(DATA_A))
    assert tuple(found.columns) == COLUMNS
    assert len(found) == 4
    assert found.set_index("system").loc["docker", "n"] == 10


def test_executed_order_is_what_counts() -> None:
    table = table_of({"native": [1.0, 2, 3, 4, 5, 6, 7, 8]})
    assert "dependent" in diagnostics(table.sample(frac=1, random_state=1))["flags"].iloc[0]


def test_lag1_of_an_alternating_series() -> None:
    assert lag1(np.array([1.0, -1] * 4)) == pytest.approx(-7 / 8)


def test_outliers_by_modified_z() -> None:
    values = np.array([1.0, 2, 3, 4, 5, 100])
    # median 3.5, MAD 1.5: |z| of 100 is 0.6745 * 96.5 / 1.5 = 43.4, of 5 it is 0.67
    assert outliers(values) == 1
    assert outliers(np.array([1.0, 1, 1, 1, 9])) == 0  # MAD 0: the rule has no scale
    assert outliers(np.empty(0)) == 0


def test_constant_and_short_cells() -> None:
    assert diagnose(np.full(9, 2.0))["flags"] == "deterministic"
    assert diagnose(np.array([1.0, 2, 3]))["flags"] == "few values"
    assert np.isnan(diagnose(np.array([1.0, 2, 3]))["lag1"])


def test_v14_size_and_power_of_the_dependence_flag() -> None:
    rng = np.random.default_rng(14)
    noise = rng.normal(size=(2000, 30))
    size = np.mean(["dependent" in diagnose(row)["flags"] for row in noise])
    assert 0.010 <= size <= 0.030
    ramp = 3 * np.linspace(-0.5, 0.5, 30)
    power = np.mean(["dependent" in diagnose(row + ramp)["flags"] for row in noise[:400]])
    assert power > 0.92
