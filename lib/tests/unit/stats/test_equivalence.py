from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from infrabench.stats.pairwise import difference_p, fieller_t, margin_ends, paired_fieller, ratio_equivalence
from tests.support.analysis_fixtures import DATA_A

NATIVE = np.array(DATA_A["native"])
OTHERS = np.array([DATA_A[name] for name in ("docker", "lxc", "lxd")])
BASE = np.broadcast_to(NATIVE, OTHERS.shape)
PAIRS = st.tuples(st.integers(0, 2**32), st.floats(0.001, 0.2), st.integers(2, 40))


def some(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    x, y = 100 * np.exp(np.random.default_rng(seed).normal(0, 0.03, (2, n)))
    return x, y


def test_reference_the_difference_is_the_paired_t() -> None:
    assert difference_p(OTHERS, BASE) == pytest.approx([0.08153253, 0.0736588528, 0.2976378009], rel=1e-6)


@pytest.mark.parametrize("margin", [0.01, 0.02, np.array([0.01, 0.02, 0.05])])
def test_equivalence_is_two_one_sided_t_tests_of_x_minus_a_margins_end(margin) -> None:
    found = ratio_equivalence(OTHERS, BASE, margin)
    for i, m in enumerate(np.broadcast_to(margin, 3)):
        above = stats.ttest_1samp(OTHERS[i] - (1 - m) * NATIVE, 0, alternative="greater").pvalue
        below = stats.ttest_1samp(OTHERS[i] - (1 + m) * NATIVE, 0, alternative="less").pvalue
        assert found.p[i] == pytest.approx(max(above, below), rel=1e-9)
    assert found.interval.level == pytest.approx(0.9)
    bare = paired_fieller(OTHERS, BASE, 0.9)
    assert found.interval.low == pytest.approx(bare.low)
    assert found.interval.high == pytest.approx(bare.high)


@given(PAIRS, st.sampled_from([0.0, 0.001, 0.01, 0.3]))
def test_p_and_interval_never_contradict_each_other(how: tuple[int, float, int], off: float) -> None:
    seed, margin, n = how
    x, y = some(seed, n)
    low, high = margin_ends(margin)
    found, wide = ratio_equivalence(x, y, margin, off), paired_fieller(x, y)
    assert (found.p < 0.05) == bool(low < found.interval.low and found.interval.high < high)
    assert (difference_p(x, y, off) < 0.05) == bool(wide.low - off > 1 or wide.high + off < 1)
    assert ratio_equivalence(7 * x, 7 * y, margin, off).p == pytest.approx(found.p, rel=1e-6, abs=1e-12)
    assert ratio_equivalence(-x, -y, margin, off).p == pytest.approx(found.p, rel=1e-6, abs=1e-12)
    assert difference_p(y, x) == pytest.approx(difference_p(x, y), rel=1e-6, abs=1e-12)


@given(PAIRS)
def test_the_ends_of_fiellers_interval_are_where_the_statistic_is_its_quantile(how: tuple[int, float, int]) -> None:
    seed, _, n = how
    x, y = some(seed, n)
    ends = paired_fieller(x, y)
    quantile = stats.t.ppf(0.975, n - 1)
    assert fieller_t(x, y, ends.low)[0] == pytest.approx(quantile, rel=1e-5)
    assert fieller_t(x, y, ends.high)[0] == pytest.approx(-quantile, rel=1e-5)


def test_a_constant_distance_from_a_ratio_is_beyond_every_quantile_and_none_is_no_test() -> None:
    assert fieller_t(NATIVE + 0.5, NATIVE, 1.0)[0] == np.inf
    assert difference_p(NATIVE - 0.5, NATIVE) == 0
    assert np.isnan(fieller_t(1.1 * NATIVE, NATIVE, 1.1)[0])  # equal up to rounding is equal


def test_one_pair_or_a_baseline_of_zero_gives_no_test() -> None:
    assert np.isnan(ratio_equivalence([1.0], [1.0], 0.02).p)
    assert np.isnan(difference_p([1.0], [2.0]))
    assert np.isnan(ratio_equivalence([2.0, 3.0, 1.0], [1.0, -1.0, 0.0], 0.02).p)
    assert np.isnan(ratio_equivalence(np.empty((2, 0)), np.empty((2, 0)), 0.02).p).all()


def test_rounding_that_is_wider_than_the_margin_leaves_nothing_to_show() -> None:
    assert ratio_equivalence(NATIVE, NATIVE + np.tile([1e-4, -1e-4], 5), 0.02, 0.02).p >= 0.05
    assert ratio_equivalence(NATIVE, NATIVE + np.tile([1e-4, -1e-4], 5), 0.02, 0.019).p < 0.05
