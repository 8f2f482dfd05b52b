"""Kernels of dependence against scipy and statsmodels, and their properties.

How often the flags are raised is simulated in the validation (V14, V25).
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from infrabench.stats import dependence
from infrabench.stats.intervals import t_interval
from infrabench_selfcheck.validation.generators import ar1

RNG = np.random.default_rng(71)
SAMPLES = [RNG.normal(size=n) for n in (5, 6, 9, 10, 30, 33, 34, 50)]
TIED = [RNG.integers(0, 4, size=n).astype(float) for n in (5, 7, 10, 31, 50)]


def test_ljung_box_is_that_of_statsmodels() -> None:
    from statsmodels.stats.diagnostic import acorr_ljungbox

    for x in SAMPLES + TIED:
        known, found = acorr_ljungbox(x, lags=[1]), dependence.ljung_box(x)
        assert found.statistic == pytest.approx(known["lb_stat"].iloc[0], rel=1e-9)
        assert found.p == pytest.approx(known["lb_pvalue"].iloc[0], abs=1e-9)


def test_kendall_is_that_of_scipy() -> None:
    x = np.array([RNG.normal(size=33), RNG.integers(0, 4, size=33), np.ones(33), np.arange(33)])
    known = [stats.kendalltau(np.arange(33), row) for row in x]
    assert pytest.approx(np.array(known), nan_ok=True) == np.array(dependence.kendall_trend(x)).T


def test_effective_n_of_a_correlated_series_widens_the_interval() -> None:
    x = np.array([0.0, 0, 0, 1, 1, 1, 2, 2, 2, 1, 1, 1])
    r1 = dependence.autocorrelation(x)
    n_eff = dependence.effective_n(x)
    assert n_eff == pytest.approx(12 * (1 - r1) / (1 + r1))
    naive, wide = t_interval(x), dependence.effective_interval(x, n_eff)
    assert wide.low < naive.low < naive.high < wide.high
    assert dependence.effective_interval(x, 12) == pytest.approx(naive)


def test_a_negative_correlation_narrows_nothing() -> None:
    x = np.array([1.0, -1] * 8)
    assert dependence.autocorrelation(x) == pytest.approx(-15 / 16)
    assert dependence.effective_n(x) == 16
    assert dependence.dependent(x)


def test_there_is_no_interval_of_one_effective_value() -> None:
    x = np.arange(50.0)
    assert dependence.effective_n(x) < 2
    assert np.isnan(dependence.effective_interval(x, dependence.effective_n(x))).all()


def test_pairs_are_flagged_by_their_effective_n_too() -> None:
    noise = np.random.default_rng(15).normal(size=(2000, 30))
    few = np.asarray(dependence.effective_n(noise)) < 18
    assert (dependence.dependent_pairs(noise) == few | dependence.dependent(noise)).mean() > 0.99
    assert not dependence.dependent_pairs(noise[:, :4]).any()


def test_pairs_are_looked_at_as_log_ratios_and_their_rounding_is_not() -> None:
    rng = np.random.default_rng(16)
    block, wave = rng.normal(0, 0.1, 30), ar1(0.8, 30)(rng, 1)[0]
    y = 100 * np.exp(block)
    x = y * np.exp(0.01 * wave)
    found = dependence.of_pairs(x[None], y[None])
    assert found["lag1"] == pytest.approx(dependence.autocorrelation(wave))
    assert found["dependent"].tolist() == [True]
    assert found["n_eff"] == pytest.approx(dependence.effective_n(wave))
    assert found["n_eff"] < 15
    assert not dependence.of_pairs(y[None] * rng.normal(1, 0.01, 30), y[None])["dependent"].any()
    with_zero = dependence.of_pairs((x - y)[None], np.zeros((1, 30)))  # no logarithm: the differences
    assert with_zero["lag1"] == pytest.approx(dependence.autocorrelation(x - y))
    for factor in (1.0, 0.1, 3.7):
        alike = dependence.of_pairs(factor * y[None], y[None])
        assert np.isnan(alike["lag1"]).all()
        assert (alike["n_eff"].tolist(), alike["dependent"].tolist()) == ([30.0], [False])
    assert dependence.of_pairs(np.empty((2, 0)), np.empty((2, 0)))["n_eff"].tolist() == [0.0, 0.0]
