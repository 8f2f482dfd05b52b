"""How far the values of a cell are from a normal distribution: arrays (..., n) in, one number for each cell out.

Shown beside a result, never used to choose its test: a choice after a look distorts the level of what follows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from infrabench.stats.arrays import sample
from infrabench.stats.dependence import Test
from infrabench.stats.intervals import NAN, Array, Numbers, constant

ROYSTON = 5000  # largest n for which the approximation of Shapiro and Wilk's p was made


def skewness(x: ArrayLike) -> Numbers:
    """Return the sample skewness G1, corrected for the size (Joanes and Gill 1998).

    `x`: (..., n); no unit. NaN below three values or without spread.
    """
    x = sample(x)
    n = x.shape[-1]
    if n < 3:
        return np.full(x.shape[:-1], NAN)[()]
    centred = x - x.mean(axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        g1 = (centred**3).mean(axis=-1) / (centred**2).mean(axis=-1) ** 1.5
    return np.where(constant(x), NAN, np.sqrt(n * (n - 1)) / (n - 2) * g1)[()]


def shapiro(x: ArrayLike) -> Test:
    """Return W and p of Shapiro and Wilk's test of normality (Shapiro and Wilk 1965, Royston 1995), cell by cell.

    `x`: (..., n), any unit. NaN below three or above 5000 values, or without spread.
    """
    x = sample(x)
    found = np.full((2, *x.shape[:-1]), NAN)
    if 3 <= x.shape[-1] <= ROYSTON:
        for cell in map(tuple, np.argwhere(_spread(x))):
            found[:, *cell] = stats.shapiro(x[cell])
    return Test(*(each[()] for each in found))


def _spread(x: Array) -> Array:
    """Which cells vary by more than rounding."""
    return np.ptp(x, axis=-1) > 1e-12 * np.abs(x).max(axis=-1)
