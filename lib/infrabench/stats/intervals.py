"""Intervals of one sample and of a paired ratio: arrays in, numbers out.

Formulas: Student's t; exact binomial order statistics for a median (Le Boudec 2010, with exact ranks);
Fieller 1954 with the covariance kept for a ratio of paired means.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]
LEVEL = 0.95
NAN = float("nan")


class Interval(NamedTuple):
    """Ends of an interval and its actual level; NaN where no interval exists."""

    low: float
    high: float
    level: float


NO_INTERVAL = Interval(NAN, NAN, NAN)


def constant(values: Array) -> bool:
    """Return whether two or more values are all equal, so that there is no spread to infer from."""
    return values.size > 1 and bool((values == values[0]).all())


def t_interval(values: Array, level: float = LEVEL) -> Interval:
    """Return Student's t interval of the mean; none below two values or without spread."""
    n = values.size
    if n < 2 or constant(values):
        return NO_INTERVAL
    half = stats.t.ppf((1 + level) / 2, n - 1) * values.std(ddof=1) / np.sqrt(n)
    return Interval(values.mean() - half, values.mean() + half, level)


def median_ranks(n: int, level: float = LEVEL) -> tuple[int, int, float]:
    """Return the exact ranks (k, n + 1 - k), counted from 1, and their actual level; k = 0 when none exist.

    k is the `(1 - level) / 2` quantile of Bin(n, 1/2): n = 30 gives (10, 21, 0.957).
    """
    k = int(stats.binom.ppf((1 - level) / 2, n, 0.5)) if n else 0
    if k == 0:
        return 0, 0, NAN
    return k, n + 1 - k, float(1 - 2 * stats.binom.cdf(k - 1, n, 0.5))


def median_interval(values: Array, level: float = LEVEL) -> Interval:
    """Return the exact order-statistic interval of the median; none below six values or without spread."""
    low, high, actual = median_ranks(values.size, level)
    if low == 0 or constant(values):
        return NO_INTERVAL
    ordered = np.sort(values)
    return Interval(float(ordered[low - 1]), float(ordered[high - 1]), actual)


def paired_fieller(x: Array, y: Array, level: float = LEVEL) -> Interval:
    """Return Fieller's interval of mean(x) / mean(y) for paired values, their covariance kept.

    None when the set is unbounded (the baseline `y` is too noisy to divide by), below two pairs, or when neither
    sample has any spread.
    """
    n = x.size
    if n < 2 or (constant(x) and constant(y)):
        return NO_INTERVAL
    t2 = stats.t.ppf((1 + level) / 2, n - 1) ** 2
    covariance = np.cov(x, y, ddof=1) / n
    mx, my = x.mean(), y.mean()
    a = my**2 - t2 * covariance[1, 1]
    b = mx * my - t2 * covariance[0, 1]
    c = mx**2 - t2 * covariance[0, 0]
    if a <= 0:
        return NO_INTERVAL
    # b^2 - a c >= 0 whenever a > 0; rounding may make it a tiny negative when x is proportional to y
    root = np.sqrt(max(b**2 - a * c, 0.0))
    return Interval(float((b - root) / a), float((b + root) / a), level)
