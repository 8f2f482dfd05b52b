"""Normality against published digits and scipy, and its properties."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from infrabench.stats.diagnostics import shapiro, skewness
from tests.support.analysis_fixtures import DATA_A

X = np.array([DATA_A[name] for name in ("native", "docker", "lxc", "lxd")])


def test_reference_values() -> None:
    found = shapiro(X)
    assert found.statistic == pytest.approx([0.857945502, 0.896925052, 0.871702108, 0.966956201], rel=1e-6)
    assert found.p == pytest.approx([0.072164132, 0.202640348, 0.10463324, 0.86127912], abs=1e-6)


@given(st.lists(st.integers(-60, 60), max_size=15), st.sampled_from([0.25, 64.0]), st.integers(-99, 99))
def test_shift_scale_and_too_little(values: list[int], scale: float, shift: int) -> None:
    x = np.array(values, dtype=float)
    other = scale * x + shift
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(skewness(other), skewness(x), atol=1e-9)
        np.testing.assert_allclose(shapiro(other), shapiro(x), atol=1e-6)
        if x.size < 3 or np.ptp(x) == 0:
            assert np.isnan([skewness(x), *shapiro(x)]).all()
        else:
            assert skewness(-x) == pytest.approx(-skewness(x))
            assert skewness(x) == pytest.approx(stats.skew(x, bias=False))
