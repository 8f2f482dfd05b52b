"""Pairs: ratio of means and its tests, equivalence, exact tests and effect sizes against scipy and by enumeration."""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from infrabench.stats import pairwise
from tests.support.analysis_fixtures import DATA_A

NATIVE = np.array(DATA_A["native"])
OTHERS = np.array([DATA_A[name] for name in ("docker", "lxc", "lxd")])
BASE = np.broadcast_to(NATIVE, OTHERS.shape)


PAIRS = st.tuples(st.integers(0, 2**32), st.floats(0.001, 0.2), st.integers(2, 40))


def some(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    x, y = 100 * np.exp(np.random.default_rng(seed).normal(0, 0.03, (2, n)))
    return x, y


@pytest.mark.parametrize("margin", [0.01, 0.02, np.array([0.01, 0.02, 0.05])])
def test_equivalence_is_two_one_sided_t_tests_of_x_minus_a_margins_end(margin) -> None:
    found = pairwise.ratio_equivalence(OTHERS, BASE, margin)
    for i, m in enumerate(np.broadcast_to(margin, 3)):
        above = stats.ttest_1samp(OTHERS[i] - (1 - m) * NATIVE, 0, alternative="greater").pvalue
        below = stats.ttest_1samp(OTHERS[i] - (1 + m) * NATIVE, 0, alternative="less").pvalue
        assert found.p[i] == pytest.approx(max(above, below), rel=1e-9)
    assert found.interval.level == pytest.approx(0.9)
    bare = pairwise.paired_fieller(OTHERS, BASE, 0.9)
    assert found.interval.low == pytest.approx(bare.low)
    assert found.interval.high == pytest.approx(bare.high)


@given(PAIRS, st.sampled_from([0.0, 0.001, 0.01, 0.3]))
def test_p_and_interval_never_contradict_each_other(how: tuple[int, float, int], off: float) -> None:
    seed, margin, n = how
    x, y = some(seed, n)
    found, wide = pairwise.ratio_equivalence(x, y, margin, off), pairwise.paired_fieller(x, y)
    assert (found.p < 0.05) == bool(1 - margin < found.interval.low and found.interval.high < 1 + margin)
    assert (pairwise.difference_p(x, y, off) < 0.05) == bool(wide.low - off > 1 or wide.high + off < 1)
    assert pairwise.ratio_equivalence(7 * x, 7 * y, margin, off).p == pytest.approx(found.p, rel=1e-6, abs=1e-12)
    assert pairwise.ratio_equivalence(-x, -y, margin, off).p == pytest.approx(found.p, rel=1e-6, abs=1e-12)
    assert pairwise.difference_p(y, x) == pytest.approx(pairwise.difference_p(x, y), rel=1e-6, abs=1e-12)


@given(PAIRS)
def test_the_ends_of_fiellers_interval_are_where_the_statistic_is_its_quantile(how: tuple[int, float, int]) -> None:
    seed, _, n = how
    x, y = some(seed, n)
    ends = pairwise.paired_fieller(x, y)
    quantile = stats.t.ppf(0.975, n - 1)
    assert pairwise.fieller_t(x, y, ends.low)[0] == pytest.approx(quantile, rel=1e-5)
    assert pairwise.fieller_t(x, y, ends.high)[0] == pytest.approx(-quantile, rel=1e-5)


def test_a_constant_distance_from_a_ratio_is_beyond_every_quantile() -> None:
    assert pairwise.fieller_t(NATIVE + 0.5, NATIVE, 1.0)[0] == np.inf
    assert pairwise.difference_p(NATIVE - 0.5, NATIVE) == 0


def test_rounding_that_is_wider_than_the_margin_leaves_nothing_to_show() -> None:
    assert pairwise.ratio_equivalence(NATIVE, NATIVE + np.tile([1e-4, -1e-4], 5), 0.02, 0.02).p >= 0.05
    assert pairwise.ratio_equivalence(NATIVE, NATIVE + np.tile([1e-4, -1e-4], 5), 0.02, 0.019).p < 0.05


WHOLE = st.lists(st.integers(-4, 4), min_size=2, max_size=9)


@given(WHOLE)
def test_signed_rank_counts_every_pattern_with_ties_and_zeros(differences: list[int]) -> None:
    d = np.array(differences, float)
    found = pairwise.signed_rank(d, np.zeros_like(d))
    if not d.any():
        assert np.isnan(found.p)
        return
    ranks = stats.rankdata(np.abs(d)) * np.sign(d)
    sums = np.array(list(product([-1, 1], repeat=ranks.size))) @ ranks
    assert found.p == pytest.approx(np.mean(np.abs(sums) >= abs(ranks.sum()) - 1e-9))
    scale = 0.1 * d + 1000  # decimals that are not exact in binary are the same differences
    assert pairwise.signed_rank(scale, np.full_like(d, 1000)).p == pytest.approx(found.p)


@pytest.mark.parametrize("n", [2, 5, 20, 50])
def test_signed_rank_without_ties_is_scipys(n: int) -> None:
    x, y = np.random.default_rng(n).normal(size=(2, 6, n)) + 0.2
    expected = stats.wilcoxon(x - y, axis=-1, method="exact")
    found = pairwise.signed_rank(x, y)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-9)
    assert found.statistic == pytest.approx(expected.statistic)


@pytest.mark.parametrize("n", [1_000, 1_100])
def test_signed_rank_of_more_pairs_than_powers_of_two_have_room_for(n: int) -> None:
    rng = np.random.default_rng(n)
    difference = rng.integers(-20, 22, n).astype(float)  # ties, so that every sum is counted
    known = stats.wilcoxon(difference, zero_method="pratt", correction=False, method="asymptotic")
    found = pairwise.signed_rank(difference, np.zeros(n))
    assert 0 < found.p == pytest.approx(known.pvalue, rel=0.02)
    alike = pairwise.signed_rank(np.abs(difference) * np.tile([1.0, -1], n // 2), np.zeros(n))
    assert 0.05 < alike.p <= 1


@pytest.mark.parametrize("t", [-40.0, -3.0, 0.0, 0.5, 7.0, 60.0])
def test_the_interval_inverts_the_noncentral_t(t: float) -> None:
    off = np.linspace(-1, 1, 12)
    logs = (off + t * off.std(ddof=1) / np.sqrt(12)) / 100
    found = pairwise.paired_d(np.exp(logs), np.ones(12))
    assert (found.value, found.interval.level) == pytest.approx((t / np.sqrt(12), 0.95), abs=1e-9)
    tails = stats.nct.cdf(t, 11, np.array(found.interval[:2]) * np.sqrt(12))
    assert tails == pytest.approx([0.975, 0.025], abs=2e-6)


@pytest.mark.parametrize("df", [1, 2, 5, 29])
@pytest.mark.parametrize("p", [0.975, 0.025])
def test_beyond_scipys_reach_the_inversion_goes_on(df: int, p: float) -> None:
    """T <= t exactly where t U - Z is at least the noncentrality: the chance of that, by a sum over Z."""
    z = np.linspace(-8, 8, 4001)
    for t in (1.01 * pairwise.FAR, 1e4, 1e7, 1e12):
        u = np.maximum((pairwise.noncentrality(t, df, p) + z) / t, 0)
        assert np.average(special.chdtrc(df, df * u**2), weights=np.exp(-(z**2) / 2)) == pytest.approx(p, abs=1e-6)
        assert pairwise.noncentrality(-t, df, 1 - p) == pytest.approx(-pairwise.noncentrality(t, df, p), rel=1e-9)
    inside, outside = pairwise.noncentrality(np.array([pairwise.FAR, np.nextafter(pairwise.FAR, np.inf)]), df, p)
    assert outside == pytest.approx(inside, rel=2e-4)


def test_systems_that_hardly_vary_have_an_interval_at_once() -> None:
    """As of memory in bytes, where SciPy's inversion does not come to an end."""
    y = 1e9 + np.array([0.0, 1, 0, 2, 1, 0])
    found = pairwise.paired_d(2 * y[::-1], y)
    assert 0 < found.interval.low < found.value < found.interval.high


def test_equal_values_are_above_on_neither_side() -> None:
    assert pairwise.share_above([1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 4.0, 4.0]).value == 0.25
    assert np.isnan(pairwise.share_above([], []).value)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.full(8, 0.1), np.full(8, 0.2)),
        (np.zeros(4), np.zeros(4)),
        (np.arange(5.0), np.zeros(5)),
        (np.arange(1.0, 7), np.array([-1.0, 3.0, -2.0, 4.0, 0.5, 1.0])),  # a baseline that may be 0
    ],
)
def test_nothing_to_infer_from_is_not_a_number(x: np.ndarray, y: np.ndarray) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(pairwise.paired_fieller(x, y)).all()
        assert np.isnan(pairwise.paired_log_ratio(x, y).interval).all()
    found = pairwise.paired_d(x, y)
    assert np.isnan([found.value, *found.interval[:2]]).all()


def test_too_little_has_no_test_and_equal_up_to_rounding_is_equal() -> None:
    with np.errstate(all="raise"):
        assert np.isnan([pairwise.paired_t([0.1] * 3, [0.3] * 3).p, pairwise.paired_t(NATIVE, NATIVE + 0.1).p]).all()
    assert np.isnan(pairwise.fieller_t(1.1 * NATIVE, NATIVE, 1.1)[0])
    assert np.isnan([pairwise.difference_p([1.0], [2.0]), pairwise.ratio_equivalence([1.0], [1.0], 0.02).p]).all()
    assert np.isnan(pairwise.ratio_equivalence([2.0, 3.0, 1.0], [1.0, -1.0, 0.0], 0.02).p)  # a baseline of 0
    assert np.isnan(pairwise.ratio_equivalence(np.empty((2, 0)), np.empty((2, 0)), 0.02).p).all()
    assert np.isnan(pairwise.paired_log_ratio(np.arange(5.0), np.arange(1.0, 6)).value)  # a zero has no logarithm
