"""How far the values of a cell are from a normal distribution: arrays (..., n) in, one number for each cell out.

Shown beside a result, never used to choose its test: a choice after a look distorts the level of what follows.
"""

from __future__ import annotations

import numpy as np
from scipy import special, stats

from infrabench.stats.dependence import Test
from infrabench.stats.intervals import NAN, Array, Numbers, constant

ROYSTON = 5000  # largest n for which the approximation of Shapiro and Wilk's p was made
LEAST_ANDERSON = 8  # values below which Stephens' approximation of p was not made
FLAT_A2 = 150.0  # beyond, the last of Stephens' curves would rise again; p is below 1e-180 there


def skewness(x: Array) -> Numbers:
    """Return the sample skewness G1, corrected for the size (Joanes and Gill 1998).

    `x`: (..., n); no unit. NaN below three values or without spread.
    """
    n = x.shape[-1]
    if n < 3:
        return np.full(x.shape[:-1], NAN)[()]
    centred = x - x.mean(axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        g1 = (centred**3).mean(axis=-1) / (centred**2).mean(axis=-1) ** 1.5
    return np.where(constant(x), NAN, np.sqrt(n * (n - 1)) / (n - 2) * g1)[()]


def shapiro(x: Array) -> Test:
    """Return W and p of Shapiro and Wilk's test of normality (Shapiro and Wilk 1965, Royston 1995), cell by cell.

    `x`: (..., n), any unit. NaN below three or above 5000 values, or without spread.
    """
    found = np.full((2, *x.shape[:-1]), NAN)
    if 3 <= x.shape[-1] <= ROYSTON:
        for cell in map(tuple, np.argwhere(_spread(x))):
            found[:, *cell] = stats.shapiro(x[cell])
    return Test(*(each[()] for each in found))


def anderson_darling(x: Array) -> Test:
    """Return A2 and p of Anderson and Darling's test of normality, mean and variance estimated.

    `x`: (..., n), any unit. It weighs the tails more than Shapiro and Wilk's. p by the approximation of Stephens 1986
    (in D'Agostino and Stephens, table 4.9). NaN below eight values or without spread.
    """
    n = x.shape[-1]
    if n < LEAST_ANDERSON:
        none = np.full(x.shape[:-1], NAN)[()]
        return Test(none, none)
    spread = _spread(x)
    ordered = np.sort(x, axis=-1)
    scale = np.where(spread, x.std(axis=-1, ddof=1), 1.0)[..., None]
    z = (ordered - x.mean(axis=-1, keepdims=True)) / scale
    weights = 2 * np.arange(1, n + 1) - 1
    a2 = -n - (weights * (special.log_ndtr(z) + special.log_ndtr(-z[..., ::-1]))).mean(axis=-1)
    a = np.minimum(a2 * (1 + 0.75 / n + 2.25 / n**2), FLAT_A2)
    p = np.select(
        [a < 0.2, a < 0.34, a < 0.6],
        [
            -np.expm1(-13.436 + 101.14 * a - 223.73 * a**2),
            -np.expm1(-8.318 + 42.796 * a - 59.938 * a**2),
            np.exp(0.9177 - 4.279 * a - 1.38 * a**2),
        ],
        default=np.exp(1.2937 - 5.709 * a + 0.0186 * a**2),
    )
    return Test(*(np.where(spread, each, NAN)[()] for each in (a2, p)))


def _spread(x: Array) -> Array:
    """Which cells vary by more than rounding."""
    return np.ptp(x, axis=-1) > 1e-12 * np.abs(x).max(axis=-1)
