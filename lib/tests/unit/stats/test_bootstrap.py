"""Bootstrap intervals against exact enumeration, scipy with the same draws, resamples made one by one, and coverage."""

from __future__ import annotations

import tracemalloc
import warnings
from collections.abc import Callable
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from infrabench.stats.intervals import (
    RESAMPLES,
    SEED,
    Interval,
    bootstrap_quantile_ratio,
    bootstrap_t,
    median_interval,
    quantiles,
    resample_counts,
)
from tests.support.analysis_fixtures import DATA_A

A = {name: np.array(values) for name, values in DATA_A.items()}
MANY = 10**6  # at 10^5 the simulation error of the far ends of BCa is 0.02

STUDENTISED = {"native": (99.3950, 101.9901), "docker": (98.6773, 102.8293)}
# four standard errors of simulation at 10^6, measured over seeds: the pivot of ten values has a long tail
STUDENTISED_ERROR = {"native": (0.045, 0.004), "docker": (0.008, 0.03)}


# ------------------------------------------------------------------------------------------ enumeration


class Exact(NamedTuple):
    """All compositions of a resample of ten and their multinomial probabilities."""

    counts: np.ndarray
    weights: np.ndarray

    def quantile(self, made: np.ndarray, shares: np.ndarray) -> np.ndarray:
        """Inverse of the step distribution function."""
        order = np.argsort(made, kind="stable")
        below = np.cumsum(self.weights[order])
        return made[order][np.searchsorted(below, shares * (1 - 1e-12))]


@pytest.fixture(scope="module")
def exact() -> Exact:
    bars = np.array(list(combinations(range(19), 9)))
    edges = np.column_stack([np.full(len(bars), -1), bars, np.full(len(bars), 19)])
    counts = np.diff(edges, axis=1) - 1
    weights = np.exp(special.gammaln(11) - special.gammaln(counts + 1.0).sum(axis=1) - 10 * np.log(10))
    assert len(counts) == 92378
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    return Exact(counts, weights)


@pytest.mark.parametrize("system", STUDENTISED)
def test_studentised_mean_against_enumeration(exact: Exact, system: str) -> None:
    x = A[system]
    mean = exact.counts @ x / 10
    variance = exact.counts @ (x - x.mean()) ** 2 / 10 - (mean - x.mean()) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        pivot = (mean - x.mean()) / np.sqrt(np.where(variance > 1e-12, variance, 0))
    limits = x.mean() - exact.quantile(pivot, np.array([0.975, 0.025])) * x.std()
    assert limits == pytest.approx(STUDENTISED[system], abs=5.1e-5)
    found = np.array(bootstrap_t(x, resamples=MANY)[:2])
    assert (np.abs(found - limits) < STUDENTISED_ERROR[system]).all()


# ---------------------------------------------------------------------------------- the same draws elsewhere


def resamples_of(x: np.ndarray, seed: int = SEED) -> np.ndarray:
    return x[..., np.random.default_rng(seed).integers(0, x.shape[-1], (RESAMPLES, x.shape[-1]))]


@pytest.mark.parametrize("n", [9, 30, 50, 130])
@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.9, 0.99, 1.0])
def test_quantiles_are_those_of_resamples_made_one_by_one(n: int, share: float) -> None:
    x, y = np.round(np.random.default_rng([4, n]).normal(10, 2, (2, n)), 1)
    above, below = (np.quantile(resamples_of(sample), share, axis=-1) for sample in (x, y))
    np.testing.assert_allclose(quantiles(x[None], resample_counts(n), share)[0], above, rtol=1e-12)
    found = bootstrap_quantile_ratio(x, y, share)
    if max(share, 1 - share) ** n <= 0.025:
        assert found[:2] == pytest.approx(np.quantile(above / below, [0.025, 0.975]), rel=1e-12)
    else:
        assert np.isnan(found).all()


@pytest.mark.parametrize("n", [8, 30])
def test_studentised_intervals_are_those_of_resamples_made_one_by_one(n: int) -> None:
    x = np.random.default_rng([5, n]).lognormal(2, 0.4, n)
    made = resamples_of(x)
    mean, sd = made.mean(axis=-1), made.std(axis=-1, ddof=1)
    t = np.quantile((mean - x.mean()) / sd, [0.975, 0.025])
    assert bootstrap_t(x)[:2] == pytest.approx(x.mean() - t * x.std(ddof=1), rel=1e-9)


# ------------------------------------------------------------------------------------------ properties

ONE: dict[str, Callable[[np.ndarray], Interval]] = {
    "t": lambda x: bootstrap_t(x, resamples=499),
}
TWO: dict[str, Callable[[np.ndarray, np.ndarray], Interval]] = {
    "medians": lambda x, y: bootstrap_quantile_ratio(x, y, resamples=499),
}
values = st.lists(st.integers(400, 1200).map(lambda i: i / 8), min_size=6, max_size=30).map(np.array)


@given(values, st.sampled_from([0.5, 1024.0, 1e9, 1e-9]), st.integers(-5, 100))
def test_unit_and_origin(x: np.ndarray, unit: float, origin: int) -> None:
    for method in ONE.values():
        before, scaled, moved = method(x), method(x * unit), method(x + origin)
        np.testing.assert_allclose(scaled[:2], np.multiply(before[:2], unit), rtol=1e-7)
        np.testing.assert_allclose(moved[:2], np.add(before[:2], origin), rtol=1e-7)
    for method in TWO.values():
        y = x[::-1] + 10
        np.testing.assert_allclose(method(x * unit, y * unit)[:2], method(x, y)[:2], rtol=1e-7)
        np.testing.assert_allclose(method(x * unit, y)[:2], np.multiply(method(x, y)[:2], unit), rtol=1e-7)


@given(values, st.floats(1e-3, 1e3))
def test_a_system_in_proportion_to_its_baseline_has_that_ratio(y: np.ndarray, c: float) -> None:
    for method in TWO.values():
        found = method(c * y, y)
        if np.ptp(y):
            assert found[:2] == pytest.approx((c, c), rel=1e-12)
        else:
            assert np.isnan(found).all()


def test_nothing_to_infer_from_is_not_a_number() -> None:
    rng = np.random.default_rng(6)
    noisy = rng.normal(0, 1, 12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in (np.empty(0), np.ones(1), np.full(8, 0.1), np.zeros(8), np.empty((3, 0)), np.empty((0, 5))):
            for one in ONE.values():
                assert np.isnan(one(x)).all()
            for two in TWO.values():
                assert np.isnan(two(x, 2 * x)).all()
        for two in TWO.values():
            assert np.isnan(two(noisy + 3, noisy)).all()  # a baseline around 0
            assert np.isnan(two(noisy, np.zeros(12))).all()
        for few in (np.array([1.0, 2.0]), np.array([1.0, 2.0, 4.0])):
            assert np.isnan(bootstrap_t(few)).all()


def test_cells_are_told_apart() -> None:
    rng = np.random.default_rng(7)
    x, y = rng.normal(10, 1, (2, 3, 40, 11))
    x[1, 7] = y[1, 7] = 4.0
    for name, found in ((name, method(x)) for name, method in ONE.items()):
        assert found.low.shape == (3, 40)
        assert np.argwhere(np.isnan(found.low)).tolist() == [[1, 7]]
        np.testing.assert_allclose([end[2, 39] for end in found], ONE[name](x[2, 39]), rtol=1e-12)
    for name, found in ((name, method(x, y)) for name, method in TWO.items()):
        assert np.argwhere(np.isnan(found.low)).tolist() == [[1, 7]]
        np.testing.assert_allclose([end[2, 39] for end in found], TWO[name](x[2, 39], y[2, 39]), rtol=1e-12)


def test_memory_does_not_grow_with_the_number_of_cells() -> None:
    x = np.random.default_rng(12).normal(size=(4000, 30))
    tracemalloc.start()
    bootstrap_t(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6  # all resampled means at once would take 320 MB


def test_the_seed_decides() -> None:
    x = A["native"]
    assert bootstrap_t(x) == bootstrap_t(x, seed=SEED)
    assert bootstrap_t(x) != bootstrap_t(x, seed=1)
    counts = resample_counts(10)
    assert (counts.sum(axis=0) == 10).all()
    with pytest.raises(ValueError, match="read-only"):
        counts[0, 0] = 1


# ------------------------------------------------------------------------------------------ coverage


def covered(found: Interval, truth: float) -> float:
    return float(((found.low <= truth) & (truth <= found.high)).mean())


def test_ratios_of_medians_cover_nearly_at_thirty_blocks() -> None:
    shared, a, b = np.random.default_rng(11).normal(size=(3, 500, 30))
    x, y = 0.95 * (1 + 0.02 * (shared + a)), 1 + 0.02 * (shared + b)
    assert 0.93 <= covered(bootstrap_quantile_ratio(x, y, resamples=999), 0.95) <= 0.99


@pytest.mark.parametrize("n", range(2, 8))
def test_a_ratio_of_medians_has_an_interval_from_six_blocks_on(n: int) -> None:
    """As `median_interval`: below six, no ranks hold the median with 95 %, and no resample repairs that."""
    x, y = np.random.default_rng([13, n]).normal(10, 1, (2, 3, n))
    exists = np.isfinite(bootstrap_quantile_ratio(x, y))
    assert exists.all() == exists.any() == bool(np.isfinite(median_interval(x).low).all()) == (n >= 6)
    assert np.isfinite(bootstrap_quantile_ratio(x, y, level=0.5).low).all() == (n >= 2)
