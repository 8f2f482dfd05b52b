from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats import rates
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from infrabench.stats.events import (
    dispersion_p,
    newcombe_interval,
    newcombe_p,
    poisson_difference,
    poisson_equivalence,
    poisson_interval,
    poisson_p,
    poisson_ratio,
    subset_sums,
    subsets,
    typical_p,
    typical_values,
)
from infrabench.stats.pairwise import sign_flip

COUNTS = st.integers(0, 60)


@settings(deadline=None, max_examples=60)
@given(COUNTS, COUNTS)
def test_ratio_follows_from_clopper_and_pearson(x: int, y: int) -> None:
    if x + y:
        ends = (share / (1 - share) if share < 1 else np.inf for share in proportion_confint(x, x + y, method="beta"))
        assert poisson_ratio(x, y).interval[:2] == pytest.approx(tuple(ends), rel=1e-9)
        exact = rates.test_poisson_2indep(x, 1, y, 1, method="exact-cond").pvalue
        assert poisson_p(x, y) == pytest.approx(exact, rel=1e-9)


@settings(deadline=None, max_examples=60)
@given(COUNTS, COUNTS)
def test_interval_and_p_never_contradict(x: int, y: int) -> None:
    if not x + y:
        return
    p, ends = poisson_p(x, y), poisson_ratio(x, y).interval
    assert (p < 0.05 - 1e-9) <= (not ends.low <= 1 <= ends.high) <= (p <= 0.05 + 1e-9)
    tails = (stats.binomtest(x, x + y, 0.5, side).pvalue for side in ("less", "greater"))
    assert p == pytest.approx(min(1.0, 2 * min(tails)))
    narrow, inside = poisson_ratio(x, y, 0.9).interval, poisson_equivalence(x, y, 0.8, 1.25)
    assert (inside < 0.05 - 1e-9) <= (narrow.low > 0.8 and narrow.high < 1.25) <= (inside <= 0.05 + 1e-9)


def test_no_event_at_all_says_nothing_of_a_ratio() -> None:
    found = poisson_ratio([0, 1], [0, 1])
    assert np.isnan([found.value[0], found.interval.low[0], found.interval.high[0]]).all()
    assert np.isfinite(found.interval.low[1])
    assert np.isnan(poisson_p(0, 0))
    assert np.isnan(poisson_equivalence(0, 0, 0.9, 1.1))
    assert poisson_difference(0, 0, 30)[:2] == pytest.approx((-3.688879 / 30, 3.688879 / 30))


def test_interval_of_one_rate_is_garwoods() -> None:
    for x in (0, 1, 7, 200):
        assert poisson_interval(x, 4.0)[:2] == pytest.approx(rates.confint_poisson(x, 4.0, method="exact-c"), rel=1e-9)
    assert np.isnan(poisson_interval(np.nan, 1.0).low)


@pytest.mark.parametrize(
    ("x", "m", "y", "n", "ends"),
    [  # Newcombe 1998, table II, method 10
        (56, 70, 48, 80, (0.0524, 0.3339)),
        (9, 10, 3, 10, (0.1705, 0.8090)),
        (6, 7, 2, 7, (0.0582, 0.8062)),
        (5, 56, 0, 29, (-0.0381, 0.1926)),
        (0, 10, 0, 20, (-0.1611, 0.2775)),
        (10, 10, 0, 20, (0.6791, 1.0000)),
        (10, 10, 0, 10, (0.6075, 1.0000)),
    ],
)
def test_reference_newcombe(x: int, m: int, y: int, n: int, ends: tuple[float, float]) -> None:
    found = newcombe_interval(x, m, y, n)[:2]
    assert found == pytest.approx(ends, abs=5e-5)
    assert found == pytest.approx(confint_proportions_2indep(x, m, y, n, method="newcomb"), abs=1e-9)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 30), st.integers(0, 30), st.floats(-0.3, 0.3))
def test_newcombes_p_is_that_of_its_interval(x: int, y: int, margin: float) -> None:
    p = newcombe_p(x, 30, y, 30, margin)
    if not 1e-6 < p < 1 - 1e-6:
        return
    low, high = newcombe_interval(x, 30, y, 30, 1 - p)[:2]
    assert min(abs(low - margin), abs(high - margin)) < 1e-5


def test_shares_without_trials_say_nothing() -> None:
    assert np.isnan(newcombe_interval(0, 0, 1, 3).low)
    assert np.isnan(newcombe_p(0, 0, 1, 3))
    assert newcombe_p(3, 3, 3, 3) == 1.0


def test_dispersion_is_fishers_index() -> None:
    counts = np.random.default_rng(1).poisson(3.0, 20)
    square = ((counts - counts.mean()) ** 2).sum() / counts.mean()
    assert dispersion_p(counts[None], 1.0) == pytest.approx(stats.chi2.sf(square, 19))
    trials, hits = np.array([10.0, 20, 30]), np.array([3.0, 9, 5])
    table = np.array([hits, trials - hits])
    expected = stats.chi2_contingency(table, correction=False).pvalue
    assert dispersion_p(hits[None], trials, of_trials=True) == pytest.approx(expected)
    assert dispersion_p([[6.0, 0, 0, 0, 0, 0], [0.0] * 6], 1.0) < 1e-4  # all in one block
    assert np.isnan(dispersion_p([[3.0], [1.0]], 1.0))
    assert np.isnan(dispersion_p([[0.0, 0.0]], 1.0))


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=10))
def test_typical_values_are_the_sign_flip_test_inverted(pairs: list[tuple[int, int]]) -> None:
    x, y = np.array(pairs, dtype=float).T
    sums = subset_sums(x, y, np.ones(x.size))
    found, p = typical_values(sums), typical_p(sums)
    signs = np.array(list(itertools.product((-1, 1), repeat=x.size)))
    flipped, own = signs @ (x - y), (x - y).sum()
    tail = min((flipped >= own).mean(), (flipped <= own).mean())
    assert p == pytest.approx(min(1.0, 2 * tail))
    if x.size < 6:
        assert np.isnan(found.ratio.low)
        return
    apart = p <= 0.05 + 1e-12
    assert apart == (not found.difference.low <= 0 <= found.difference.high)
    assert apart == (not found.ratio.low <= 1 <= found.ratio.high)


def test_typical_values_drawn_agree_with_the_test_that_counts() -> None:
    x, y = np.random.default_rng(2).poisson((3.0, 1.5), (30, 2)).T.astype(float)
    sums = subset_sums(x, y, np.ones(30))
    found = typical_values(sums)
    assert typical_p(sums) == pytest.approx(sign_flip(x, y).p, abs=0.003)
    assert found.ratio.low < x.sum() / y.sum() < found.ratio.high
    turn = np.random.default_rng(3).permutation(30)
    assert typical_values(subset_sums(x[turn], y[turn], np.ones(30))) == found
    other = typical_values(subset_sums(y, x, np.ones(30))).ratio
    assert (1 / other.high, 1 / other.low) == pytest.approx(found.ratio[:2], rel=0.05)


def test_events_of_one_block_decide_nothing() -> None:
    x, none = np.zeros(30), np.zeros(30)
    x[4] = 500.0
    sums = subset_sums(x, none, np.ones(30))
    assert typical_p(sums) == pytest.approx(1.0, abs=0.02)
    assert typical_values(sums).ratio[:2] == (0.0, np.inf)


def test_units_weigh_by_their_exposure() -> None:
    x, y, blocks = np.arange(6.0) + 8, np.full(6, 4.0), np.array([1.0, 2, 1, 2, 1, 2])
    found = typical_values(subset_sums(x, y, blocks)).difference
    each = (x - y) / blocks
    assert (found.low, found.high) == (each.min(), each.max())  # of 63 subsets the outermost, single units
    assert np.isnan(typical_p(subset_sums(np.zeros(0), np.zeros(0), np.zeros(0))))


def test_subsets_are_all_or_drawn() -> None:
    assert subsets(3).tolist() == [[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1], [1, 0, 1], [0, 1, 1], [1, 1, 1]]
    assert subsets(0).shape == (0, 0)
    assert subsets(30).shape == (19_999, 30)
    assert subsets(30).any(axis=1).all()
    assert subsets(30).mean() == pytest.approx(0.5, abs=0.005)
