"""Bootstrap intervals against exact enumeration and resamples made one by one, and coverage."""

from __future__ import annotations

import tracemalloc
import warnings
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from infrabench.stats.intervals import (
    RESAMPLES,
    SEED,
    bootstrap_median_ratio,
    bootstrap_t,
    median_interval,
    medians,
    resample_counts,
)
from tests.support.analysis_fixtures import DATA_A

MANY = 10**6
# ends, and four standard errors of simulation at 10^6, measured over seeds: the pivot of ten values has a long tail
STUDENTISED = {
    "native": ((99.3950, 101.9901), (0.045, 0.004)),
    "docker": ((98.6773, 102.8293), (0.008, 0.03)),
}


@pytest.fixture(scope="module")
def compositions() -> tuple[np.ndarray, np.ndarray]:
    """All compositions of a resample of ten and their multinomial probabilities."""
    bars = np.array(list(combinations(range(19), 9)))
    edges = np.column_stack([np.full(len(bars), -1), bars, np.full(len(bars), 19)])
    counts = np.diff(edges, axis=1) - 1
    return counts, np.exp(special.gammaln(11) - special.gammaln(counts + 1.0).sum(axis=1) - 10 * np.log(10))


@pytest.mark.parametrize("system", STUDENTISED)
def test_studentised_mean_against_enumeration(compositions: tuple[np.ndarray, np.ndarray], system: str) -> None:
    (counts, weights), x, (ends, error) = compositions, np.array(DATA_A[system]), STUDENTISED[system]
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    mean = counts @ x / 10
    variance = counts @ (x - x.mean()) ** 2 / 10 - (mean - x.mean()) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        pivot = (mean - x.mean()) / np.sqrt(np.where(variance > 1e-12, variance, 0))
    order = np.argsort(pivot, kind="stable")
    quantiles = pivot[order][np.searchsorted(np.cumsum(weights[order]), np.array([0.975, 0.025]) * (1 - 1e-12))]
    limits = x.mean() - quantiles * x.std()
    assert limits == pytest.approx(ends, abs=5.1e-5)
    assert (np.abs(np.array(bootstrap_t(x, resamples=MANY)[:2]) - limits) < error).all()


def resamples_of(x: np.ndarray) -> np.ndarray:
    return x[..., np.random.default_rng(SEED).integers(0, x.shape[-1], (RESAMPLES, x.shape[-1]))]


@pytest.mark.parametrize("n", [9, 30, 50, 130])
def test_medians_are_those_of_resamples_made_one_by_one(n: int) -> None:
    x, y = np.round(np.random.default_rng([4, n]).normal(10, 2, (2, n)), 1)
    above, below = (np.median(resamples_of(sample), axis=-1) for sample in (x, y))
    np.testing.assert_allclose(medians(x[None], resample_counts(n))[0], above, rtol=1e-12)
    assert bootstrap_median_ratio(x, y)[:2] == pytest.approx(np.quantile(above / below, [0.025, 0.975]), rel=1e-12)


@pytest.mark.parametrize("n", [8, 30])
def test_studentised_intervals_are_those_of_resamples_made_one_by_one(n: int) -> None:
    x = np.sort(np.random.default_rng([5, n]).lognormal(2, 0.4, n))
    made = resamples_of(x)
    mean, sd = made.mean(axis=-1), made.std(axis=-1, ddof=1)
    t = np.quantile((mean - x.mean()) / sd, [0.975, 0.025])
    assert bootstrap_t(x)[:2] == pytest.approx(x.mean() - t * x.std(ddof=1), rel=1e-9)
    assert bootstrap_t(x[::-1]) == bootstrap_t(x)  # in whatever order they came


values = st.lists(st.integers(400, 1200).map(lambda i: i / 8), min_size=6, max_size=30).map(np.array)


@given(values, st.floats(1e-3, 1e3))
def test_a_system_in_proportion_to_its_baseline_has_that_ratio(y: np.ndarray, c: float) -> None:
    found = bootstrap_median_ratio(c * y, y)
    assert np.isnan(found).all() if np.ptp(y) == 0 else found[:2] == pytest.approx((c, c), rel=1e-12)


def test_nothing_to_infer_from_is_not_a_number() -> None:
    noisy = np.random.default_rng(6).normal(0, 1, 12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for few in (np.full(8, 0.1), np.array([1.0, 2.0]), np.array([1.0, 2.0, 4.0])):
            assert np.isnan(bootstrap_t(few)).all()
        assert np.isnan(bootstrap_median_ratio(noisy + 3, noisy)).all()  # a baseline around 0
        assert np.isnan(bootstrap_median_ratio(noisy, np.zeros(12))).all()


def test_memory_does_not_grow_with_the_number_of_cells() -> None:
    x = np.random.default_rng(12).normal(size=(4000, 30))
    tracemalloc.start()
    bootstrap_t(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6  # all resampled means at once would take 320 MB


def test_counts_are_those_of_whole_resamples_and_read_only() -> None:
    counts = resample_counts(10)
    assert (counts.sum(axis=0) == 10).all()
    with pytest.raises(ValueError, match="read-only"):
        counts[0, 0] = 1


def test_ratios_of_medians_cover_nearly_at_thirty_blocks() -> None:
    shared, a, b = np.random.default_rng(11).normal(size=(3, 500, 30))
    low, high, _ = bootstrap_median_ratio(0.95 * (1 + 0.02 * (shared + a)), 1 + 0.02 * (shared + b))
    assert 0.93 <= np.mean((low <= 0.95) & (high >= 0.95)) <= 0.99


@pytest.mark.parametrize("n", range(2, 8))
def test_a_ratio_of_medians_has_an_interval_from_six_blocks_on(n: int) -> None:
    """As `median_interval`: below six, no ranks hold the median with 95 %, and no resample repairs that."""
    x, y = np.random.default_rng([13, n]).normal(10, 1, (2, 3, n))
    exists = np.isfinite(bootstrap_median_ratio(x, y))
    assert exists.all() == exists.any() == bool(np.isfinite(median_interval(x).low).all()) == (n >= 6)
