"""Variance components: published worked examples, one-way analysis of variance, and properties."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from infrabench.core import DesignError
from infrabench.stats.planning import one_way, repetitions

# the worked example of Kalibera and Jones 2013: 3 x 2 x 2
F = np.array([[[9, 5], [8, 3]], [[10, 6], [7, 11]], [[1, 12], [2, 4]]], dtype=float)


def test_reference_of_the_optimum() -> None:
    t2 = 0.7266667, 0.2627778, 0.7747222
    assert repetitions(t2, (3, 20, 100)) == pytest.approx((4.293660, 1.302286), rel=1e-6)
    assert [int(np.ceil(r)) for r in repetitions(t2, (3, 20, 100))] == [5, 2]


def test_levels_without_variance() -> None:
    assert repetitions((16.5, -5.7, 2.3), (1, 1, 1)) == (float("inf"), 1.0)
    for costs in ((1, 1), (1, 0, 1)):
        with pytest.raises(DesignError, match="one positive cost"):
            repetitions((1.0, 1.0, 1.0), costs)


def test_one_way_of_balanced_groups_is_the_published_one_of_two_levels() -> None:
    found = one_way(F.ravel(), np.repeat([0, 1, 2], 4))
    assert (found.within, found.between) == pytest.approx((12.722222, 0.381944), rel=1e-5)
    assert found.share == pytest.approx(0.381944 / (12.722222 + 0.381944), rel=1e-5)


def test_one_way_of_unequal_groups() -> None:
    x = np.random.default_rng(51).normal(10, 1, 14)
    group = np.repeat([7, 3, 9], [2, 5, 7])
    found = one_way(x, group)
    parts = [x[group == label] for label in (7, 3, 9)]
    size = (14 - (4 + 25 + 49) / 14) / 2  # the number of trials that a group counts as having
    assert found.within == pytest.approx(sum(p.var() * p.size for p in parts) / 11)
    # the F of an analysis of variance is the ratio of the mean squares
    f = stats.f_oneway(*parts).statistic
    assert (found.between * size + found.within) / found.within == pytest.approx(f)


def test_one_way_is_unbiased() -> None:
    rng = np.random.default_rng(52)
    group = np.repeat(np.arange(5), [2, 3, 5, 8, 2])
    x = rng.normal(0, 2, (4000, 20)) + rng.normal(0, 3, (4000, 5))[:, group]
    found = np.array([one_way(row, group)[:2] for row in x])
    assert found.mean(axis=0) == pytest.approx((4, 9), rel=0.05)


def test_one_way_without_groups_or_within() -> None:
    assert np.isnan(one_way(np.arange(4.0), np.zeros(4, dtype=np.int64))).all()
    assert np.isnan(one_way(np.arange(4.0), np.arange(4))).all()
    assert np.isnan(one_way(np.full(4, 2.0), np.array([0, 0, 1, 1])).share)
    assert one_way(np.array([1.0, 3, 1, 3]), np.array([0, 0, 1, 1])).share == 0
