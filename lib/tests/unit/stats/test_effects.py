from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from infrabench.stats.effects import paired_d, share_above
from tests.support.analysis_fixtures import DATA_A

A = {name: np.array(values) for name, values in DATA_A.items()}
OTHERS = np.array([A[name] for name in ("docker", "lxc", "lxd")])


def test_reference_paired_d() -> None:
    d = paired_d(OTHERS, np.broadcast_to(A["native"], OTHERS.shape))
    logs = np.log(OTHERS / A["native"])
    assert d.estimate == pytest.approx(logs.mean(axis=-1) / logs.std(axis=-1, ddof=1), rel=1e-12)
    assert d.estimate == pytest.approx([-0.6373739454, -0.6329496407, 0.3529326573], rel=1e-9)
    assert (d.interval.level == 0.95).all()
    assert d.estimate[0] * np.sqrt(10) == pytest.approx(stats.ttest_1samp(logs[0], 0).statistic)


@pytest.mark.parametrize("t", [-40.0, -3.0, 0.0, 0.5, 7.0, 60.0])
def test_the_interval_inverts_the_noncentral_t(t: float) -> None:
    off = np.linspace(-1, 1, 12)
    logs = (off + t * off.std(ddof=1) / np.sqrt(12)) / 100
    found = paired_d(np.exp(logs), np.ones(12))
    assert found.estimate == pytest.approx(t / np.sqrt(12), abs=1e-9)
    tails = stats.nct.cdf(t, 11, np.array(found.interval[:2]) * np.sqrt(12))
    assert tails == pytest.approx([0.975, 0.025], abs=2e-6)


def test_what_a_block_does_to_both_is_no_part_of_the_effect() -> None:
    rng = np.random.default_rng(4)
    x, y = np.exp(rng.normal(0, 0.01, (2, 20)))
    block = np.exp(rng.normal(0, 1, 20))
    assert paired_d(x * block, y * block).estimate == pytest.approx(paired_d(x, y).estimate)
    assert share_above(x * block, y * block) == share_above(x, y)


@given(st.integers(0, 40), st.integers(1, 40))
def test_share_of_pairs_has_wilsons_interval(above: int, n: int) -> None:
    above = min(above, n)
    x = np.where(np.arange(n) < above, 2.0, 1.0)
    found = share_above(x, np.full(n, 1.5))
    assert found.estimate == above / n
    assert found.interval[:2] == pytest.approx(proportion_confint(above, n, method="wilson"), abs=1e-12)


def test_equal_values_are_above_on_neither_side() -> None:
    assert share_above([1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 4.0, 4.0]).estimate == 0.25
    assert share_above([1.0, 1.0, 4.0, 4.0], [1.0, 2.0, 3.0, 4.0]).estimate == 0.25


def test_too_little_says_nothing() -> None:
    assert np.isnan(share_above([], []).estimate)
    assert np.isnan(share_above([], []).interval.low)
    for x, y in (([], []), ([1.0], [2.0]), ([2.0, 2.0], [3.0, 3.0]), ([0.0, 1.0], [1.0, 2.0]), ([-1.0, 2.0], [1.0, 1])):
        found = paired_d(x, y)
        assert np.isnan([found.estimate, found.interval.low, found.interval.high]).all()
