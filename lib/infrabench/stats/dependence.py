"""Signs that the values of a cell depend on one another or on the time: arrays in, arrays out.

Arrays have the shape (..., n): the last axis holds the values in executed order, the leading axes are cells. A silent
test proves little: at n = 30 and an autocorrelation of 0.3 the best of these finds the dependence in one cell of four,
while Student's interval already covers 85 % in place of 95 %.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from infrabench.stats.intervals import LEVEL, NAN, ROUNDING, Array, Interval, Numbers, constant, interval
from infrabench.stats.table import paired, sample

SMALL_P = 0.01  # of Ljung-Box at lag 1 and of Kendall's trend: together 1.9 % false alarms at n = 30
UPPER_5_PERCENT = 1.6449  # of a standard normal: one-sided, for only positive correlation makes an interval too short
MIN_VALUES = 5  # below this, neither a correlation nor a trend says anything


class Test(NamedTuple):
    """A statistic and its two-sided p-value; NaN where the test does not exist."""

    statistic: Numbers
    p: Numbers


def autocorrelation(x: ArrayLike) -> Numbers:
    """Return the sample autocorrelation at lag 1, the sum of lagged products over the sum of squares.

    `x`: (..., n); no unit. Box and Jenkins 1976. NaN below two values or where a cell has no spread.
    """
    x = sample(x)
    shape = x.shape[:-1]
    if x.shape[-1] < 2:
        return np.full(shape, NAN)[()]
    centred = x - x.mean(axis=-1, keepdims=True)
    products = (centred[..., 1:] * centred[..., :-1]).sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(constant(x), NAN, products / (centred**2).sum(axis=-1))[()]


def autoregressive(noise: Array, correlation: float) -> Array:
    """Return first-order autoregressive series (..., n) of the variance of independent `noise` of that shape.

    Each value holds `correlation` times the one before it (Box and Jenkins 1976). Empty for empty noise.
    """
    series = noise.copy()
    for i in range(1, noise.shape[-1]):
        series[..., i] = correlation * series[..., i - 1] + np.sqrt(1 - correlation**2) * noise[..., i]
    return series


def ljung_box(x: ArrayLike) -> Test:
    """Return Ljung and Box's Q at lag 1 and its p from chi-square with one degree of freedom.

    `x`: (..., n). Ljung and Box 1978. NaN below two values or where a cell has no spread.
    """
    x = sample(x)
    n = x.shape[-1]
    q = n * (n + 2) * (autocorrelation(x) ** 2 / max(n - 1, 1))
    return Test(q, stats.chi2.sf(q, 1)[()])


def kendall_trend(x: ArrayLike) -> Test:
    """Return Kendall's tau-b of the values with their order, and its two-sided p (Mann 1945; Kendall 1970).

    `x`: (..., n). By scipy, cell by cell: exact without ties up to n = 33, and beyond where at most one pair disagrees;
    else normal with the variance corrected for ties. NaN when n < 2 or a cell has no spread.
    """
    x = sample(x)
    found = np.full((2, *x.shape[:-1]), NAN)
    if x.shape[-1] > 1:
        order = np.arange(x.shape[-1])
        for cell in map(tuple, np.argwhere(~constant(x))):
            found[:, *cell] = stats.kendalltau(order, x[cell])
    return Test(*(each[()] for each in found))


def dependent(x: ArrayLike) -> NDArray[np.bool_]:
    """Return whether a cell is flagged dependent: Ljung-Box at lag 1 or Kendall's trend has p < 0.01.

    `x`: (..., n), in executed order. 1.9 % of independent normal cells of 30 are flagged; False below five values.
    """
    x = sample(x)
    if x.shape[-1] < MIN_VALUES:
        return np.zeros(x.shape[:-1], dtype=bool)[()]
    return (ljung_box(x).p < SMALL_P) | (kendall_trend(x).p < SMALL_P)


def dependent_pairs(x: ArrayLike) -> NDArray[np.bool_]:
    """Return whether the paired values of a contrast are flagged dependent: as `dependent`, or by their effective n.

    `x`: (..., n), log ratios in executed order. The effective n is flagged where so few are left by chance in 5 of 100
    campaigns: an autocorrelation at lag 1 above its mean -1 / n by 1.645 standard deviations (n - 2) / (n sqrt(n - 1))
    (Moran 1948). At n = 30 that is an effective n below 18. 6.4 % of independent normal samples of 30 are flagged in
    all, and 92 % of an AR(1) process of 0.6. Where as much independent noise lies on top (autocorrelation 0.3 at lag
    1), 44 %; there the best test that knows both finds 45 % at that rate of false alarms, and 60 % only at 11 %. False
    below five values and without spread.
    """
    x = sample(x)
    n = x.shape[-1]
    if n < MIN_VALUES:
        return np.zeros(x.shape[:-1], dtype=bool)[()]
    few = autocorrelation(x) > UPPER_5_PERCENT * (n - 2) / (n * np.sqrt(n - 1)) - 1 / n
    return dependent(x) | few


def of_pairs(x: ArrayLike, y: ArrayLike) -> dict[str, Any]:
    """Return how the pairs of a contrast depend on one another, in executed order: columns of (cells,).

    `x`, `y`: (cells, n), one unit. ``lag1``: autocorrelation of the log ratios, or of the differences where a value is
    not positive (Box and Jenkins 1976); ``dependent``: as of `dependent_pairs`; ``n_eff``: as of `effective_n` where
    that is raised, else n. Differences of the size of rounding are none: ``lag1`` is NaN there.
    """
    x, y = paired(x, y)
    positive = ((x > 0) & (y > 0)).all(axis=-1, keepdims=True)
    size = np.maximum(np.abs(x), np.abs(y)).max(axis=-1, keepdims=True, initial=0.0)
    logs = np.log(np.where(positive, x, 1.0) / np.where(positive, y, 1.0))
    apart = np.where(positive, logs, x - y)
    rounding = ROUNDING * np.where(positive, 1 + np.abs(logs).max(axis=-1, keepdims=True, initial=0.0), size)
    spread = np.ptp(apart, axis=-1, keepdims=True) > rounding if apart.shape[-1] else np.zeros_like(size, dtype=bool)
    apart = np.where(spread, apart, 0.0)
    flagged = dependent_pairs(apart)
    n_eff = np.where(flagged, effective_n(apart), float(x.shape[-1]))
    return {"lag1": autocorrelation(apart), "n_eff": n_eff, "dependent": flagged}


def effective_n(x: ArrayLike) -> Numbers:
    """Return how many independent values say as much of the mean as these: n (1 - r1) / (1 + r1).

    `x`: (..., n), in executed order. The sum of an AR(1) process (Bayley and Hammersley 1946; Wilks 2019), r1 as
    estimated, kept within 1 .. n: a negative r1 is no reason for a narrower interval. NaN below five values or without
    spread.
    """
    x = sample(x)
    n = x.shape[-1]
    r1 = autocorrelation(x) if n >= MIN_VALUES else np.full(x.shape[:-1], NAN)[()]
    return np.clip(n * (1 - r1) / (1 + r1), 1, n)


def effective_interval(x: ArrayLike, n_eff: Numbers) -> Interval:
    """Return the t interval of the mean as if `x` were `n_eff` independent values.

    `x`: (..., n), any unit; `n_eff`: (...); the ends have the unit of `x`. With `n_eff` = n it is Student's; else as
    in Wilks 2019. NaN when `n_eff` is below 2 or NaN, or a cell has no spread.
    """
    x = sample(x)
    n_eff = np.asarray(n_eff, dtype=float)
    exists = (n_eff >= 2) & ~constant(x)
    known = np.where(exists, n_eff, 2.0)
    mean = np.asarray(x.mean(axis=-1))
    variance = ((x - mean[..., None]) ** 2).sum(axis=-1) / max(x.shape[-1] - 1, 1)
    half = stats.t.ppf((1 + LEVEL) / 2, known - 1) * np.sqrt(variance / known)
    return interval(mean - half, mean + half, LEVEL, exists)
