"""Pitman and Morgan's test against its definition by a correlation, and its level under correlated pairs."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from infrabench.stats.spreads import pitman_morgan
from tests.analysis_fixtures import DATA_A

NATIVE = np.array(DATA_A["native"])
OTHERS = np.array([DATA_A[name] for name in ("docker", "lxc", "lxd")])


@pytest.mark.parametrize("row", range(3))
def test_is_the_correlation_of_sums_and_differences(row: int) -> None:
    x, y = OTHERS[row], NATIVE
    found = pitman_morgan(x, y)
    known = stats.pearsonr(x + y, x - y)
    assert found.p == pytest.approx(known.pvalue, rel=1e-9)
    assert found.statistic == pytest.approx(known.statistic * np.sqrt(8 / (1 - known.statistic**2)), rel=1e-9)
    assert found.ratio == pytest.approx(x.std() / y.std(), rel=1e-12)
    assert found.df == 8


@pytest.mark.parametrize("n", [3, 10, 40])
def test_ends_are_the_ratios_that_the_test_just_rejects(n: int) -> None:
    x, y = np.random.default_rng(n).multivariate_normal([5, 9], [[4, 1], [1, 1]], n).T
    found = pitman_morgan(x, y)

    def gap(log_ratio: float) -> float:
        scaled = np.exp(log_ratio) * y
        return stats.pearsonr(x + scaled, x - scaled).pvalue - 0.05

    middle = float(np.log(found.ratio))
    ends = optimize.brentq(gap, middle - 9, middle), optimize.brentq(gap, middle, middle + 9)
    assert np.log(found.interval[:2]) == pytest.approx(ends, abs=1e-8)


@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_holds_its_level_whatever_the_blocks_share(correlation: float) -> None:
    """R = 10 000; an F test of independent samples is far too cautious at 0.8."""
    shared, a, b = np.random.default_rng(64).normal(size=(3, 10_000, 12))
    x, y = (np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * each for each in (a, b))
    found = pitman_morgan(2 * x, y)
    assert 0.9427 <= ((found.interval.low <= 2) & (found.interval.high >= 2)).mean() <= 0.9570
    assert 0.0430 <= (pitman_morgan(x, y).p < 0.05).mean() <= 0.0570
    by_f = stats.f.cdf(x.var(axis=-1) / y.var(axis=-1), 11, 11)
    assert ((np.minimum(by_f, 1 - by_f) < 0.025).mean() < 0.02) == (correlation > 0)


@settings(deadline=None, max_examples=40)
@given(st.floats(1e-6, 1e9), st.permutations(range(10)))
def test_units_order_and_exchange(unit: float, order: list[int]) -> None:
    found, moved = pitman_morgan(OTHERS, NATIVE[None]), pitman_morgan(unit * OTHERS[:, order], 3 * NATIVE[order][None])
    assert moved.ratio == pytest.approx(found.ratio * unit / 3)
    assert moved.interval.low == pytest.approx(found.interval.low * unit / 3)
    turned = pitman_morgan(np.broadcast_to(NATIVE, OTHERS.shape), OTHERS)
    assert turned.p == pytest.approx(found.p)
    assert turned.interval.high == pytest.approx(1 / found.interval.low)


def test_too_little_says_nothing_and_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x, y in (([1.0, 2], [3.0, 5]), ([], []), ([2.0] * 6, NATIVE[:6]), (NATIVE, 3 * NATIVE), (NATIVE, NATIVE)):
            found = pitman_morgan(x, y)
            assert np.isnan([found.ratio, found.p, found.interval.low, found.interval.high]).all()
        stack = pitman_morgan(np.stack([OTHERS[0], np.full(10, 0.1)]), np.stack([NATIVE, NATIVE]))
    assert np.isnan(stack.p).tolist() == [False, True]
    assert pitman_morgan(np.ones((4, 0)), np.ones((4, 0))).p.shape == (4,)
