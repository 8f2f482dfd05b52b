"""Does a metric rise with the load or the count: systems under ordered levels, all of them in every block.

Blocked data are (..., levels, blocks): the last axis holds the blocks, the one before it the levels in ascending
order; leading axes are cells.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from infrabench.stats.dependence import Test
from infrabench.stats.intervals import LEVEL, NAN
from infrabench.stats.pairwise import Comparison, paired_t


def page(x: ArrayLike) -> Test:
    """Return Page's L and its p, one-sided, that the values rise with the level (Page 1963), shape (...).

    `x`: (..., levels, blocks). Declare the direction beforehand; for a fall turn the levels around. Ranks are taken
    within blocks, so blocks may differ by any amount. Computed by scipy, cell by cell: the exact distribution for few
    blocks and levels, else the normal one; with ties the p is approximate. NaN below three levels or two blocks, and
    when every block is tied throughout.
    """
    x = np.asarray(x, dtype=float)
    found = np.full((2, *x.shape[:-2]), NAN)
    if x.shape[-2] >= 3 and x.shape[-1] >= 2:
        untied = (x != x[..., :1, :]).any(axis=(-2, -1))
        for cell in map(tuple, np.argwhere(untied)):
            test = stats.page_trend_test(x[cell].T)
            found[:, *cell] = test.statistic, test.pvalue
    return Test(*(each[()] for each in found))


def log_slope(x: ArrayLike, at: ArrayLike, level: float = LEVEL) -> Comparison:
    """Return the slope of log x over the level with its interval, t, df and two-sided p, shape (...).

    `x`: (..., levels, blocks), positive; `at`: (levels,), any unit; the slope is per unit of `at`, and with the
    logarithm of the level it is the power of the level that x grows with. Least squares within each block, then
    Student's t over the slopes of the blocks (two-stage analysis of repeated measures, Matthews and others 1990): what
    a block does to all its trials cancels, and no level needs the spread of another. NaN below two different levels and
    where a value is not positive; no interval or test below two blocks and without spread.
    """
    x, at = np.asarray(x, dtype=float), np.asarray(at, dtype=float)
    off = at - at.mean() if at.size else at
    squares = float(off @ off) or NAN
    positive = (x > 0).all(axis=(-2, -1), keepdims=True)
    logs = np.where(positive, np.log(np.where(x > 0, x, 1.0)), NAN)
    # the blocks' slopes are the difference of what rises with the level and what falls with it
    up, down = np.maximum(off, 0), np.maximum(-off, 0)
    rising, falling = (np.einsum("l,...lb->...b", side, logs) / squares for side in (up, down))
    return paired_t(rising, falling, level)
