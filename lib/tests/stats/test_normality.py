"""Normality against published digits, scipy and statsmodels, its properties and the level of its p."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.diagnostic import normal_ad

from infrabench.stats.normality import anderson_darling, shapiro, skewness
from tests.analysis_fixtures import DATA_A

X = np.array([DATA_A[name] for name in ("native", "docker", "lxc", "lxd")])


def test_reference_values() -> None:
    found = shapiro(X)
    assert found.statistic == pytest.approx([0.857945502, 0.896925052, 0.871702108, 0.966956201], rel=1e-6)
    assert found.p == pytest.approx([0.072164132, 0.202640348, 0.10463324, 0.86127912], abs=1e-6)
    tails = anderson_darling(X[:2])
    assert tails.statistic == pytest.approx([0.6592851447, 0.4304273835], rel=1e-6)
    assert tails.p == pytest.approx([0.05916665, 0.24374574], abs=1e-6)


@pytest.mark.parametrize("shape", ["normal", "uniform", "exponential", "heavy"])
@pytest.mark.parametrize("n", [8, 9, 30, 200])
def test_anderson_darling_is_that_of_statsmodels(shape: str, n: int) -> None:
    """All four of Stephens' curves are met: p from above 0.9 to below 1e-6."""
    rng = np.random.default_rng([61, n])
    draw = {
        "normal": rng.normal, "uniform": rng.uniform, "exponential": rng.exponential,
        "heavy": lambda size: rng.standard_t(1.5, size),
    }[shape]  # fmt: skip
    x = draw(size=(20, n))
    found = anderson_darling(x)
    known = np.array([normal_ad(row) for row in x]).T
    kept = known[0] < 5  # far out it takes the log of 1 - cdf rounded to 0, and its p is 0 above 13
    np.testing.assert_allclose(found.statistic[kept], known[0][kept], rtol=1e-9)
    np.testing.assert_allclose(found.p[kept], known[1][kept], rtol=1e-8)
    assert np.isfinite(found.statistic).all()
    assert (found.p > 0).all()
    assert (found.p[known[0] > 13] < 1e-29).all()


def test_anderson_darling_holds_its_level() -> None:
    x = np.random.default_rng(62).normal(3, 2, (10_000, 20))
    for alpha, (low, high) in {0.05: (0.043, 0.057), 0.01: (0.0067, 0.0133)}.items():
        assert low <= (anderson_darling(x).p < alpha).mean() <= high


@given(st.lists(st.integers(-60, 60), max_size=15), st.sampled_from([0.25, 64.0]), st.integers(-99, 99))
@settings(deadline=None)
def test_shift_scale_and_too_little(values: list[int], scale: float, shift: int) -> None:
    x = np.array(values, dtype=float)
    other = scale * x + shift
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(skewness(other), skewness(x), atol=1e-9)
        np.testing.assert_allclose(shapiro(other), shapiro(x), atol=1e-6)
        np.testing.assert_allclose(anderson_darling(other), anderson_darling(x), atol=1e-6)
        assert np.isnan(anderson_darling(x)).all() == (x.size < 8 or np.ptp(x) == 0)
        if x.size < 3 or np.ptp(x) == 0:
            assert np.isnan([skewness(x), *shapiro(x)]).all()
        else:
            assert skewness(-x) == pytest.approx(-skewness(x))
            assert skewness(x) == pytest.approx(stats.skew(x, bias=False))


def test_leading_axes_are_cells_and_a_constant_one_leaves_its_neighbours() -> None:
    x = np.random.default_rng(63).normal(size=(2, 3, 12))
    x[0, 1] = 0.1
    for test in (shapiro, anderson_darling):
        whole = test(x)
        assert np.argwhere(np.isnan(whole.p)).tolist() == [[0, 1]]
        np.testing.assert_allclose([part[1, 2] for part in whole], test(x[1, 2]))
    assert shapiro(np.empty((2, 0))).p.shape == anderson_darling(np.empty((2, 0))).p.shape == (2,)
