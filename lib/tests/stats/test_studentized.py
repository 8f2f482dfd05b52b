from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from infrabench.stats import studentized


@pytest.mark.parametrize("k", [2, 3, 4, 10])
@pytest.mark.parametrize("df", [1, 1.7, 2, 5, 13.7430243, 57, 1e4, np.inf])
def test_tail_is_that_of_adaptive_integration(k, df):
    q = np.array([0.0, 0.3, 1.5, 3.63, 6.0, 12.0])
    assert studentized.sf(q, k, df) == pytest.approx(stats.studentized_range.sf(q, k, df), abs=1e-8)


def test_two_means_are_a_t_test():
    t, df = np.array([0.1, 1.0, 2.5, 6.0]), np.array([3.0, 8.5, 20.0, 200.0])
    assert studentized.sf(t * np.sqrt(2), 2, df) == pytest.approx(2 * stats.t.sf(t, df), abs=1e-9)


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_quantile_undoes_the_tail_and_keeps_the_shape(level):
    df = np.array([[1.0, 3.3], [29.0, np.inf]])
    q = studentized.ppf(level, 4, df)
    assert q.shape == df.shape
    assert studentized.sf(q, 4, df) == pytest.approx(np.full(df.shape, 1 - level), abs=1e-10)
    assert q[1, 0] == pytest.approx(stats.studentized_range.ppf(level, 4, 29), rel=1e-7)


def test_tabulated_five_per_cent_points():
    # Pearson and Hartley's table, four systems: 10, 20 and infinite degrees of freedom
    assert np.round(studentized.ppf(0.95, 4, [10, 20, np.inf]), 2).tolist() == [4.33, 3.96, 3.63]


def test_what_is_missing_stays_missing():
    assert np.isnan(studentized.sf([np.nan, 2.0], 4, [5.0, np.nan])).all()
    assert np.isnan(studentized.ppf(0.95, 4, np.nan))
