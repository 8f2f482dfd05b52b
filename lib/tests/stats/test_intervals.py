"""Reference values of method.md 10.1-10.3 and the simulations V1, V2, V5 with their negative control."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from infrabench.stats.intervals import constant, median_interval, median_ranks, paired_fieller, t_interval
from tests.analysis_fixtures import DATA_A

A = {name: np.array(values) for name, values in DATA_A.items()}
REL = 1e-6

MEAN = {
    "native": (100.3077323, 102.1822677),
    "docker": (98.27998958, 101.7920104),
    "lxc": (100.2244943, 101.3795057),
    "lxd": (100.8879169, 102.2460831),
}
MEDIAN = {"native": (99.39, 102.48), "docker": (97.92, 102.46), "lxc": (100.07, 101.46), "lxd": (100.97, 102.74)}
FIELLER = {
    "docker": (0.9742567286, 1.001833226),
    "lxc": (0.9908060579, 1.000519232),
    "lxd": (0.9966932012, 1.009751228),
}
RANKS = {
    6: (1, 6, 0.96875), 7: (1, 7, 0.98438), 8: (1, 8, 0.99219), 9: (2, 8, 0.96094), 10: (2, 9, 0.97852),
    11: (2, 10, 0.98828), 12: (3, 10, 0.96143), 15: (4, 12, 0.96484), 20: (6, 15, 0.95861),
    25: (8, 18, 0.95671), 30: (10, 21, 0.95723), 40: (14, 27, 0.96152), 50: (18, 33, 0.96716),
    100: (40, 61, 0.96480),
}


@pytest.mark.parametrize("system", MEAN)
def test_reference_mean_and_median(system: str) -> None:
    assert t_interval(A[system])[:2] == pytest.approx(MEAN[system], rel=REL)
    assert median_interval(A[system]) == pytest.approx((*MEDIAN[system], 0.978515625), rel=REL)


@pytest.mark.parametrize("system", FIELLER)
def test_reference_paired_fieller(system: str) -> None:
    assert paired_fieller(A[system], A["native"])[:2] == pytest.approx(FIELLER[system], rel=REL)


@pytest.mark.parametrize("n", RANKS)
def test_rank_table(n: int) -> None:
    low, high, level = median_ranks(n)
    assert (low, high) == RANKS[n][:2]
    assert level == pytest.approx(RANKS[n][2], abs=5.1e-6)  # printed with five decimals


@pytest.mark.parametrize("n", range(6))
def test_no_median_interval_below_six_values(n: int) -> None:
    assert median_ranks(n)[0] == 0
    assert np.isnan(median_interval(np.arange(float(n)))).all()


@pytest.mark.parametrize("n", range(6, 101))
def test_ranks_are_the_narrowest_that_keep_the_level(n: int) -> None:
    low, high, level = median_ranks(n)
    assert high == n + 1 - low
    assert level >= 0.95
    assert 1 - 2 * stats.binom.cdf(low, n, 0.5) < 0.95


def test_no_interval_without_spread_or_with_one_value() -> None:
    for values in (np.array([3.0] * 8), np.array([0.1] * 8), np.array([1.0]), np.empty(0)):
        assert np.isnan(t_interval(values)).all()
        assert np.isnan(median_interval(values)).all()
    assert constant(np.array([0.1] * 8))
    assert not constant(np.array([1.0]))


def test_fieller_is_unbounded_when_the_baseline_is_too_noisy() -> None:
    y = np.array([-1.0, 3.0, -2.0, 4.0, 0.5, 1.0])
    assert np.isnan(paired_fieller(np.ones(6) + np.arange(6), y)).all()


def test_fieller_of_proportional_samples_is_their_factor() -> None:
    y = A["native"]
    assert paired_fieller(2 * y, y)[:2] == pytest.approx((2, 2), rel=1e-6)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    st.lists(st.tuples(st.floats(50, 150), st.floats(50, 150)), min_size=3, max_size=40),
    st.floats(1e-3, 1e9),
)
def test_fieller_brackets_the_ratio_and_ignores_the_unit(pairs: list[tuple[float, float]], unit: float) -> None:
    x, y = np.array(pairs).T
    low, high, _ = paired_fieller(x, y)
    if np.isnan(low):
        return
    assert low <= x.mean() / y.mean() * (1 + 1e-9)
    assert high >= x.mean() / y.mean() * (1 - 1e-9)
    assert paired_fieller(x * unit, y * unit)[:2] == pytest.approx((low, high), rel=1e-6)


# ------------------------------------------------------------------------------------------ simulations
# Fixed seeds; a share over R replicates passes inside its 99.9 % binomial band (method.md 10.5).

R = 2000
BAND = (0.9335, 0.9655)


def band(share: float, replicates: int = R) -> tuple[float, float]:
    half = stats.norm.ppf(0.9995) * np.sqrt(share * (1 - share) / replicates)
    return share - half, share + half


def covered(intervals: np.ndarray, truth: float) -> float:
    return float(((intervals[:, 0] <= truth) & (truth <= intervals[:, 1])).mean())


@pytest.mark.parametrize("n", [5, 10, 30])
def test_v1_t_interval_covers(n: int) -> None:
    draws = np.random.default_rng([1, n]).normal(10, 2, (R, n))
    assert BAND[0] <= covered(np.array([t_interval(row)[:2] for row in draws]), 10) <= BAND[1]


@pytest.mark.parametrize("n", [10, 30])
@pytest.mark.parametrize("shape", ["normal", "lognormal", "bimodal", "outliers"])
def test_v2_median_interval_covers_at_its_exact_level(shape: str, n: int) -> None:
    rng = np.random.default_rng([2, n])
    normal = rng.normal(size=(R, n))
    rare = rng.random((R, n))
    draws, truth = {
        "normal": (normal, 0.0),
        "lognormal": (np.exp(normal), 1.0),
        "bimodal": (normal + 20 * (rare < 0.2), float(stats.norm.ppf(0.5 / 0.8))),
        "outliers": (normal + 10 * (rare < 0.05), float(stats.norm.ppf(0.5 / 0.95))),
    }[shape]
    low, high = band(median_ranks(n)[2])
    assert low <= covered(np.array([median_interval(row)[:2] for row in draws]), truth) <= high


@pytest.mark.parametrize(
    ("n", "cov_x", "cov_y", "correlation"),
    [(5, 0.02, 0.02, 0.0), (30, 0.02, 0.02, 0.0), (30, 0.02, 0.10, 0.0), (30, 0.03, 0.03, 0.8)],
)
def test_v5_paired_fieller_covers(n: int, cov_x: float, cov_y: float, correlation: float) -> None:
    rng = np.random.default_rng([5, n, int(100 * cov_y), int(10 * correlation)])
    shared, a, b = rng.normal(size=(3, R, n))
    x = 0.95 * (1 + cov_x * (np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * a))
    y = 1 + cov_y * (np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * b)
    assert BAND[0] <= covered(np.array([paired_fieller(i, j)[:2] for i, j in zip(x, y, strict=True)]), 0.95) <= BAND[1]


def test_negative_control_a_baseline_taken_as_exact_covers_too_little() -> None:
    rng = np.random.default_rng(50)
    x, y = 0.95 * (1 + 0.02 * rng.normal(size=(R, 30))), 1 + 0.02 * rng.normal(size=(R, 30))
    naive = np.array([t_interval(i / j.mean())[:2] for i, j in zip(x, y, strict=True)])
    assert 0.82 <= covered(naive, 0.95) <= 0.87


def test_negative_control_percentile_bootstrap_of_five_covers_too_little() -> None:
    rng = np.random.default_rng(51)
    draws = rng.normal(size=(R, 5))
    means = np.take_along_axis(draws[:, None, :], rng.integers(0, 5, (R, 400, 5)), axis=2).mean(axis=2)
    assert 0.81 <= covered(np.quantile(means, [0.025, 0.975], axis=1).T, 0.0) <= 0.87
