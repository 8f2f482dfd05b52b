"""Ratios of means: reference values, an independent solution, properties."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from infrabench.stats.pairwise import paired_fieller, paired_log_ratio
from tests.support.analysis_fixtures import DATA_A

A = {name: np.array(values) for name, values in DATA_A.items()}
REL = 1e-6
SYSTEMS = ("docker", "lxc", "lxd")

PAIRED = {
    "docker": (0.9742567286, 1.001833226),
    "lxc": (0.9908060579, 1.000519232),
    "lxd": (0.9966932012, 1.009751228),
}
LOG_RATIO = {
    "docker": (0.9878704222, 0.9744319281, 1.001494248),
    "lxc": (0.995671262, 0.9908014933, 1.000564966),
    "lxd": (1.003217183, 0.9967070327, 1.009769855),
}
EQUIVALENCE = {
    "docker": (0.9769665693, 0.9988959722),
    "lxc": (0.9917232674, 0.9996349734),
    "lxd": (0.997938503, 1.008523784),
}


@pytest.mark.parametrize("system", SYSTEMS)
def test_reference_fieller(system: str) -> None:
    x, y = A[system], A["native"]
    assert paired_fieller(x, y) == pytest.approx((*PAIRED[system], 0.95), rel=REL)


@pytest.mark.parametrize("system", SYSTEMS)
def test_reference_log_ratios(system: str) -> None:
    x, y = A[system], A["native"]
    found = paired_log_ratio(x, y)
    assert (found.value, *found.interval[:2]) == pytest.approx(LOG_RATIO[system], rel=REL)
    assert paired_log_ratio(x, y, level=0.90).interval[:2] == pytest.approx(EQUIVALENCE[system], rel=REL)


def test_ends_are_the_ratios_that_a_t_test_just_rejects() -> None:
    """The definition itself, by root finding: t of mean(x) - r mean(y) is at its quantile."""
    x, y = np.random.default_rng(8).normal((9, 10), 2, (12, 2)).T
    found = paired_fieller(x, y)

    def gap(r: float) -> float:
        error = (x - r * y).var(ddof=1)
        return float(abs(x.mean() - r * y.mean()) / np.sqrt(error / 12) - stats.t.ppf(0.975, 11))

    middle = x.mean() / y.mean()
    ends = optimize.brentq(gap, middle - 0.6, middle), optimize.brentq(gap, middle, middle + 0.9)
    assert found[:2] == pytest.approx(ends, rel=1e-8)


def test_unbounded_when_the_baseline_is_too_noisy() -> None:
    y = np.array([-1.0, 3.0, -2.0, 4.0, 0.5, 1.0])
    assert np.isnan(paired_fieller(np.arange(1.0, 7), y)).all()


def test_nothing_to_infer_from_is_not_a_number() -> None:
    same = np.full(8, 0.1)
    samples = ((same, 2 * same), (np.ones(1), np.ones(1)), (np.empty(0), np.empty(0)), (np.zeros(4), np.zeros(4)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x, y in samples:
            assert np.isnan(paired_fieller(x, y)).all()
            assert np.isnan(paired_log_ratio(x, y).interval).all()
        noisy = np.arange(5.0)
        assert np.isnan(paired_log_ratio(noisy, noisy + 1).value)  # a zero has no logarithm
        assert np.isnan(paired_fieller(noisy, np.zeros(5))).all()
    assert paired_log_ratio(2 * same, same).value == pytest.approx(2)


@given(st.lists(st.floats(50, 150), min_size=3, max_size=40), st.floats(1e-3, 1e3))
def test_a_system_in_proportion_to_its_baseline_has_that_ratio(values: list[float], c: float) -> None:
    y = np.array(values)
    found, logs = paired_fieller(c * y, y), paired_log_ratio(c * y, y)
    assert logs.value == pytest.approx(c, rel=1e-12)
    if not np.isnan(found.low):
        assert found[:2] == pytest.approx((c, c), rel=1e-12)
        assert logs.interval[:2] == pytest.approx((c, c), rel=1e-12)
