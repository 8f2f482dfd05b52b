"""Ratios of means to a baseline with their intervals: arrays in, arrays out.

Samples have one shape (..., n), and element i of both comes from the same block. A ratio is system / baseline; it has
no unit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from infrabench.stats.arrays import paired
from infrabench.stats.intervals import LEVEL, NAN, Interval, Numbers, constant, interval, no_interval


class LogRatio(NamedTuple):
    """A ratio of geometric means, its interval, and p of the t test that it is 1."""

    ratio: Numbers
    interval: Interval
    p: Numbers


def paired_fieller(x: ArrayLike, y: ArrayLike, level: float = LEVEL) -> Interval:
    """Return Fieller's interval of mean(x) / mean(y) for paired values, their covariance kept.

    `x`, `y`: (..., n), one unit; n - 1 degrees of freedom. Fieller 1954; Kalibera and Jones (2013) give his form for
    independent means, without the covariance. NaN when the set is unbounded, because the mean of `y` cannot be told
    from 0, below two pairs, or when neither sample has any spread.
    """
    x, y = paired(x, y)
    n = x.shape[-1]
    if n < 2:
        return no_interval(x.shape[:-1])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        mean_y = y.mean(axis=-1)
        ratio = x.mean(axis=-1) / mean_y
        off = x - np.asarray(ratio)[..., None] * y
        off = off - off.mean(axis=-1, keepdims=True)
        dev_y = y - np.asarray(mean_y)[..., None]
        scale = n * (n - 1)
        v_off, v_y = (off**2).sum(axis=-1) / scale, (dev_y**2).sum(axis=-1) / scale
        covariance = (off * dev_y).sum(axis=-1) / scale
        # With e = x - r y, whose mean is 0, and d the distance from the estimated ratio r, the set is
        # (mean_y^2 - t^2 v_y) d^2 + 2 t^2 cov(e, y) d - t^2 v_e <= 0. Written so, no two large terms are subtracted,
        # and an x in proportion to y gives a width of 0.
        t = stats.t.ppf((1 + level) / 2, n - 1.0)
        a = mean_y**2 - t**2 * v_y
        middle = -(t**2) * covariance
        root = t * np.sqrt(np.maximum(t**2 * covariance**2 + a * v_off, 0.0))
        exists = ~(constant(x) & constant(y)) & (a > 0)
        return interval(ratio + (middle - root) / a, ratio + (middle + root) / a, level, exists)


def paired_log_ratio(x: ArrayLike, y: ArrayLike, level: float = LEVEL) -> LogRatio:
    """Return the ratio of geometric means of paired samples, from Student's t on log(x / y), and p of a ratio of 1.

    `x`, `y`: (..., n), one unit, positive (Student 1908, on the logarithms of the pairs); NaN throughout where a value
    is not, NaN interval and p below two pairs or when neither sample has any spread. A system in fixed proportion
    to its baseline has an interval of no width and p NaN.
    """
    x, y = paired(x, y)
    n = x.shape[-1]
    if n == 0:
        return LogRatio(np.full(x.shape[:-1], NAN)[()], no_interval(x.shape[:-1]), np.full(x.shape[:-1], NAN)[()])
    positive = ((x > 0) & (y > 0)).all(axis=-1)
    logs = np.log(np.where(x > 0, x, 1.0) / np.where(y > 0, y, 1.0))
    mean = logs.mean(axis=-1)
    ratio = np.where(positive, np.exp(mean), NAN)[()]
    if n < 2:
        return LogRatio(ratio, no_interval(x.shape[:-1]), np.full(x.shape[:-1], NAN)[()])
    error = logs.std(axis=-1, ddof=1) / np.sqrt(n)
    exists = positive & ~(constant(x) & constant(y))
    half = stats.t.ppf((1 + level) / 2, n - 1) * error
    # spread of the size of rounding is no spread to test against
    tested = exists & (error > 1e-14 * np.maximum(np.abs(mean), 1.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.where(tested, 2 * stats.t.sf(np.abs(mean) / error, n - 1), NAN)[()]
    return LogRatio(ratio, interval(np.exp(mean - half), np.exp(mean + half), level, exists), p)
