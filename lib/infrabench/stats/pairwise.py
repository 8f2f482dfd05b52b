"""Two systems compared by the means of their pairs, and the distance that mean ranks need.

Samples are (..., n): the last axis holds the trials, leading axes are cells; element i of both is one block.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from infrabench.stats.arrays import paired
from infrabench.stats.intervals import LEVEL, Array, Interval

ROUNDING = 8 * np.finfo(float).eps  # relative; differences closer than this are one value


class Moments(NamedTuple):
    """A difference of means, its standard error (NaN without spread) and its degrees of freedom."""

    estimate: Any
    error: Any
    df: Any


class Comparison(NamedTuple):
    """A difference of means with its interval, and the t test that goes with it."""

    estimate: Any
    interval: Interval
    statistic: Any
    df: Any
    p: Any


def paired_t(x: ArrayLike, y: ArrayLike, level: float = LEVEL) -> Comparison:
    """Return the paired t test of x against y: mean of x - y, interval, t, df and two-sided p, shape (...).

    `x`, `y`: (..., n), one unit (Student 1908). On log values it compares geometric means. NaN below two pairs and when
    the differences have no spread.
    """
    return _t_test(paired_moments(x, y), level)


def critical_distance(k: int, n: ArrayLike, level: float = LEVEL) -> Any:
    """Return Nemenyi's critical distance of the mean ranks of `k` systems over `n` blocks, shape of `n` (Demsar 2006).

    Infinite without blocks.
    """
    n = np.asarray(n, dtype=float)
    with np.errstate(divide="ignore"):
        return _range_quantile(level, k) / np.sqrt(2) * np.sqrt(k * (k + 1) / (6 * n))


def paired_moments(x: ArrayLike, y: ArrayLike) -> Moments:
    """Return mean, standard error and df of x - y, shape (...), paired on the last axis (Student 1908).

    `x`, `y`: (..., n), one unit. The error is NaN below two pairs and without spread beyond rounding.
    """
    x, y = paired(x, y)
    size = np.maximum(np.abs(x), np.abs(y)).max(axis=-1, initial=0.0)
    return _one_sample(x - y, ROUNDING * size)


def log_moments(x: ArrayLike, y: ArrayLike) -> Moments:
    """Return mean, standard error and df of log(x / y), shape (...), paired on the last axis (Student 1908).

    `x`, `y`: (..., n), one unit. All NaN where a value is not positive; the error also below two pairs and without
    spread beyond rounding.
    """
    x, y = paired(x, y)
    positive = (x > 0) & (y > 0)
    logs = np.log(np.divide(x, y, out=np.full(positive.shape, np.nan), where=positive))
    return _one_sample(logs, ROUNDING * (1 + np.abs(logs).max(axis=-1, initial=0.0)))


def t_p(moments: Moments) -> Any:
    """Return the two-sided p of the t test that an estimate is 0 (Student 1908), shape (...); NaN without an error."""
    return 2 * special.stdtr(moments.df, -np.abs(moments.estimate / moments.error))


@lru_cache(maxsize=64)
def _range_quantile(level: float, k: int) -> float:
    """The quantile of the range of `k` standard normals; scipy takes tens of milliseconds for each."""
    return float(stats.studentized_range.ppf(level, k, np.inf))


def _one_sample(differences: Array, rounding: Array) -> Moments:
    n = differences.shape[-1]
    if n < 2:
        none = np.full(differences.shape[:-1], np.nan)[()]
        return Moments(differences[..., 0] if n else none, none, np.nan)
    sd = differences.std(axis=-1, ddof=1)
    return Moments(differences.mean(axis=-1), np.where(sd > rounding, sd, np.nan)[()] / np.sqrt(n), n - 1)


def _t_test(moments: Moments, level: float) -> Comparison:
    estimate, error, df = moments
    t = estimate / error
    half = special.stdtrit(df, (1 + level) / 2) * error
    return Comparison(estimate, Interval(estimate - half, estimate + half, level), t, df, t_p(moments))
