"""Intervals of one sample: reference values, enumeration, resamples made one by one, properties and coverage."""

from __future__ import annotations

import itertools
import tracemalloc
import warnings

import numpy as np
import pytest
from scipy import stats

from infrabench.stats import intervals
from tests.support.analysis_fixtures import DATA_A

A = {name: np.array(values) for name, values in DATA_A.items()}
REL = 1e-6

MEAN = {
    "native": (100.3077323, 102.1822677),
    "docker": (98.27998958, 101.7920104),
    "lxc": (100.2244943, 101.3795057),
    "lxd": (100.8879169, 102.2460831),
}
GEOMETRIC = {
    "native": (101.2373087, 100.2988136, 102.1845853),
    "docker": (100.0093429, 98.29036326, 101.7583854),
    "lxc": (100.7990789, 100.2215143, 101.379972),
    "lxd": (101.5630076, 100.8862356, 102.2443197),
}
MEDIAN = {"native": (99.39, 102.48), "docker": (97.92, 102.46), "lxc": (100.07, 101.46), "lxd": (100.97, 102.74)}
PSEUDO_MEDIAN = {
    "native": (101.57, 100.265, 102.17),
    "docker": (99.645, 98.42, 101.97),
    "lxc": (100.815, 100.21, 101.395),
    "lxd": (101.515, 100.97, 102.215),
}


@pytest.mark.parametrize("system", MEAN)
def test_reference_values(system: str) -> None:
    x = A[system]
    assert intervals.t_interval(x)[:2] == pytest.approx(MEAN[system], rel=REL)
    assert intervals.median_interval(x) == pytest.approx((*MEDIAN[system], 0.978515625), rel=REL)
    geometric, pseudo = intervals.log_t_interval(x), intervals.hodges_lehmann(x)
    assert (geometric.value, *geometric.interval[:2]) == pytest.approx(GEOMETRIC[system], rel=REL)
    assert (pseudo.value, *pseudo.interval[:2]) == pytest.approx(PSEUDO_MEDIAN[system], rel=REL)
    assert geometric.value == pytest.approx(stats.gmean(x), rel=1e-12)


def test_ranks_are_the_narrowest_that_keep_the_level() -> None:
    for n in range(6, 101):
        low, high, level = intervals.median_ranks(n)
        assert high == n + 1 - low
        assert level >= 0.95
        assert 1 - 2 * stats.binom.cdf(low, n, 0.5) < 0.95


@pytest.mark.parametrize("n", [6, 10])
def test_pseudo_median_level_is_that_of_all_sign_patterns(n: int) -> None:
    """Every sign pattern of the ranks 1 .. n is as likely; the interval rejects as many as its level says."""
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=n)))
    found = intervals.hodges_lehmann(signs * np.arange(1, n + 1) * (1 + 1e-3 * np.sqrt(np.arange(n)))).interval
    covers = ((found.low <= 0) & (found.high >= 0)).mean()
    assert covers == pytest.approx(found.level[0], abs=1e-12)
    assert covers >= 0.95


@pytest.mark.parametrize("n", [10, 30])
def test_ends_are_where_the_exact_test_of_scipy_begins_to_reject(n: int) -> None:
    x = np.random.default_rng(n).normal(size=n)
    step = 1e-9
    one = intervals.hodges_lehmann(x).interval
    for inside, outside in ((one.low + step, one.low - step), (one.high - step, one.high + step)):
        assert stats.wilcoxon(x - inside, method="exact").pvalue > 0.05
        assert stats.wilcoxon(x - outside, method="exact").pvalue <= 0.05


def test_equal_values_have_a_centre() -> None:
    assert intervals.constant(np.array([0.1] * 8))
    assert not intervals.constant(np.array([1.0]))
    assert intervals.log_t_interval(np.array([0.1] * 8)).value == pytest.approx(0.1)
    assert intervals.hodges_lehmann(np.array([0.1] * 8)).value == 0.1
    assert np.isnan(intervals.hodges_lehmann(np.empty(0)).value)


@pytest.mark.parametrize("n", [1, 7, 1000, 10**7])
def test_wilson_is_that_of_scipy(n: int) -> None:
    for lost in (0, n // 1000, n // 3, n):
        found = intervals.wilson_interval(lost, n)
        by_scipy = stats.binomtest(lost, n).proportion_ci(method="wilson")
        assert found[:2] == pytest.approx((by_scipy.low, by_scipy.high), rel=1e-9, abs=1e-15)
        assert 0 <= found.low <= lost / n <= found.high <= 1


def test_wilson_of_nothing_or_of_no_count() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = intervals.wilson_interval([0, np.nan, -1, 4, 2], [0, 5, 5, 3, 3])
    assert np.isnan(found.low).tolist() == np.isnan(found.level).tolist() == [True] * 4 + [False]


def test_a_geometric_mean_needs_positive_values() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = intervals.log_t_interval(np.array([[1.0, 2, 3], [0.0, 2, 3], [-1.0, 2, 3]]))
    assert np.isnan(found.value).tolist() == [False, True, True]
    assert np.isnan(found.interval.low).tolist() == [False, True, True]


def test_large_stacks_are_worked_off_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(2).normal(size=(40, 20))
    whole = intervals.hodges_lehmann(x)
    monkeypatch.setattr("infrabench.stats.intervals.EXPANDED", 1000)
    pieces = intervals.hodges_lehmann(x)
    assert (whole.value == pieces.value).all()
    assert (whole.interval.low == pieces.interval.low).all()


@pytest.mark.parametrize("n", [8, 30])
def test_studentised_intervals_are_those_of_resamples_made_one_by_one(n: int) -> None:
    x = np.sort(np.random.default_rng([5, n]).lognormal(2, 0.4, n))
    made = x[np.random.default_rng(intervals.SEED).integers(0, n, (intervals.RESAMPLES, n))]
    mean, sd = made.mean(axis=-1), made.std(axis=-1, ddof=1)
    t = np.quantile((mean - x.mean()) / sd, [0.975, 0.025])
    assert intervals.bootstrap_t(x)[:2] == pytest.approx(x.mean() - t * x.std(ddof=1), rel=1e-9)
    assert intervals.bootstrap_t(x[::-1]) == intervals.bootstrap_t(x)  # in whatever order they came


@pytest.mark.parametrize("n", [2, 30, 3000])
def test_sums_of_resamples_are_the_same_in_whatever_order_and_beside_whatever_cells(n: int) -> None:
    rng = np.random.default_rng([14, n])
    x, counts = rng.lognormal(3, 2, (7, n)) - 40, intervals.resample_counts(n, 50)
    found = intervals.sums(x, counts)
    assert found == pytest.approx(x @ counts, rel=1e-9, abs=1e-12 * n * np.abs(x).max())
    order = rng.permutation(n)
    assert np.array_equal(found, intervals.sums(x[:, order], counts[order]))
    for row in range(len(x)):
        assert np.array_equal(found[row : row + 1], intervals.sums(x[row : row + 1], counts))
    assert not intervals.sums(np.zeros((1, n)), counts).any()


def test_no_bootstrap_without_something_to_infer_from() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for few in (np.full(8, 0.1), np.array([1.0, 2.0]), np.array([1.0, 2.0, 4.0])):
            assert np.isnan(intervals.bootstrap_t(few)).all()


def test_memory_does_not_grow_with_the_number_of_cells() -> None:
    x = np.random.default_rng(12).normal(size=(4000, 30))
    tracemalloc.start()
    intervals.bootstrap_t(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6  # all resampled means at once would take 320 MB


def test_counts_are_those_of_whole_resamples_and_read_only() -> None:
    counts = intervals.resample_counts(10)
    assert (counts.sum(axis=0) == 10).all()
    with pytest.raises(ValueError, match="read-only"):
        counts[0, 0] = 1


@pytest.mark.parametrize("n", range(8))
def test_ranks_have_an_interval_from_six_values_on(n: int) -> None:
    """Below six, no ranks hold the median with 95 %."""
    x = np.random.default_rng([13, n]).normal(10, 1, (3, n))
    for found in (intervals.median_interval(x), intervals.hodges_lehmann(x).interval):
        assert (np.isfinite(found.low) == (n >= 6)).all()
    assert (intervals.median_ranks(n)[0] > 0) == (n >= 6)
