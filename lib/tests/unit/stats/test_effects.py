from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats
from statsmodels.stats.proportion import proportion_confint

from infrabench.stats.pairwise import FAR, noncentrality, paired_d, share_above
from tests.support.analysis_fixtures import DATA_A

A = {name: np.array(values) for name, values in DATA_A.items()}
OTHERS = np.array([A[name] for name in ("docker", "lxc", "lxd")])


def test_reference_paired_d() -> None:
    d = paired_d(OTHERS, np.broadcast_to(A["native"], OTHERS.shape))
    logs = np.log(OTHERS / A["native"])
    assert d.value == pytest.approx(logs.mean(axis=-1) / logs.std(axis=-1, ddof=1), rel=1e-12)
    assert d.value == pytest.approx([-0.6373739454, -0.6329496407, 0.3529326573], rel=1e-9)
    assert (d.interval.level == 0.95).all()
    assert d.value[0] * np.sqrt(10) == pytest.approx(stats.ttest_1samp(logs[0], 0).statistic)


@pytest.mark.parametrize("t", [-40.0, -3.0, 0.0, 0.5, 7.0, 60.0])
def test_the_interval_inverts_the_noncentral_t(t: float) -> None:
    off = np.linspace(-1, 1, 12)
    logs = (off + t * off.std(ddof=1) / np.sqrt(12)) / 100
    found = paired_d(np.exp(logs), np.ones(12))
    assert found.value == pytest.approx(t / np.sqrt(12), abs=1e-9)
    tails = stats.nct.cdf(t, 11, np.array(found.interval[:2]) * np.sqrt(12))
    assert tails == pytest.approx([0.975, 0.025], abs=2e-6)


@pytest.mark.parametrize("df", [1, 2, 5, 29])
@pytest.mark.parametrize("p", [0.975, 0.025])
def test_beyond_scipys_reach_the_inversion_goes_on(df: int, p: float) -> None:
    """T <= t exactly where t U - Z is at least the noncentrality: the chance of that, by a sum over Z."""
    z = np.linspace(-8, 8, 4001)
    for t in (1.01 * FAR, 1e4, 1e7, 1e12):
        u = np.maximum((noncentrality(t, df, p) + z) / t, 0)
        assert np.average(special.chdtrc(df, df * u**2), weights=np.exp(-(z**2) / 2)) == pytest.approx(p, abs=1e-6)
        assert noncentrality(-t, df, 1 - p) == pytest.approx(-noncentrality(t, df, p), rel=1e-9)
    inside, outside = noncentrality(np.array([FAR, np.nextafter(FAR, np.inf)]), df, p)
    assert outside == pytest.approx(inside, rel=2e-4)


def test_systems_that_hardly_vary_have_an_interval_at_once() -> None:
    """As of memory in bytes, where SciPy's inversion does not come to an end."""
    y = 1e9 + np.array([0.0, 1, 0, 2, 1, 0])
    found = paired_d(2 * y[::-1], y)
    assert 0 < found.interval.low < found.value < found.interval.high


def test_what_a_block_does_to_both_is_no_part_of_the_effect() -> None:
    rng = np.random.default_rng(4)
    x, y = np.exp(rng.normal(0, 0.01, (2, 20)))
    block = np.exp(rng.normal(0, 1, 20))
    assert paired_d(x * block, y * block).value == pytest.approx(paired_d(x, y).value)
    assert share_above(x * block, y * block) == share_above(x, y)


@given(st.integers(0, 40), st.integers(1, 40))
def test_share_of_pairs_has_wilsons_interval(above: int, n: int) -> None:
    above = min(above, n)
    x = np.where(np.arange(n) < above, 2.0, 1.0)
    found = share_above(x, np.full(n, 1.5))
    assert found.value == above / n
    assert found.interval[:2] == pytest.approx(proportion_confint(above, n, method="wilson"), abs=1e-12)


def test_equal_values_are_above_on_neither_side() -> None:
    assert share_above([1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 4.0, 4.0]).value == 0.25
    assert share_above([1.0, 1.0, 4.0, 4.0], [1.0, 2.0, 3.0, 4.0]).value == 0.25


def test_too_little_says_nothing() -> None:
    assert np.isnan(share_above([], []).value)
    assert np.isnan(share_above([], []).interval.low)
    for x, y in (([], []), ([1.0], [2.0]), ([2.0, 2.0], [3.0, 3.0]), ([0.0, 1.0], [1.0, 2.0]), ([-1.0, 2.0], [1.0, 1])):
        found = paired_d(x, y)
        assert np.isnan([found.value, found.interval.low, found.interval.high]).all()
