"""Kernels of dependence against scipy and statsmodels, their properties, and the size and power of the flag."""

from __future__ import annotations

import time

import numpy as np
import pytest
from scipy import stats

from infrabench.stats.dependence import kendall_trend


@pytest.mark.parametrize(("n", "different"), [(700, 30), (5_000, 10**9), (2**16 + 1, 10**9), (70_000, 500)])
def test_kendall_of_thousands_is_that_of_scipy_and_takes_no_square_of_them(n: int, different: int) -> None:
    x = np.random.default_rng(n).integers(0, different, (2, n)) + np.arange(n) * different // (4 * n)
    begin = time.process_time()
    found = kendall_trend(x.astype(float))
    assert time.process_time() - begin < 3  # 70 000 squared are 5 000 million pairs
    for cell, row in enumerate(x):
        known = stats.kendalltau(np.arange(n), row)
        assert found.statistic[cell] == pytest.approx(known.statistic, abs=1e-12)
        assert found.p[cell] == pytest.approx(known.pvalue, abs=1e-12)
