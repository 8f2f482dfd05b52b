"""Estimates of one sample, or of a shift between two, with their intervals: arrays in, arrays out.

Arrays have the shape (..., n): the last axis holds the trials, the leading axes are cells and stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from infrabench.stats.arrays import Array, sample

Numbers = Array | float
LEVEL = 0.95
NAN = float("nan")
CHUNK = 2**21  # numbers held at a time by methods that expand a sample


class Interval(NamedTuple):
    """Ends of an interval and its actual level; NaN where no interval exists."""

    low: Numbers
    high: Numbers
    level: Numbers


class Estimate(NamedTuple):
    """An estimate and its interval."""

    value: Numbers
    interval: Interval


def constant(values: Array) -> NDArray[np.bool_]:
    """Return whether two or more values of a cell are all equal, so that there is no spread to infer from.

    `values`: (..., n); the answer has the shape (...). One value, or none, is not constant.
    """
    if values.shape[-1] < 2:
        return np.zeros(values.shape[:-1], dtype=bool)[()]
    return (values == values[..., :1]).all(axis=-1)


def interval(low: Numbers, high: Numbers, level: float, exists: NDArray[np.bool_]) -> Interval:
    """Return an `Interval` whose ends and level are NaN where it does not exist or an end is not finite.

    `low`, `high`, `exists`: (...), cells.
    """
    exists = exists & np.isfinite(low) & np.isfinite(high)
    return Interval(*(np.where(exists, value, NAN)[()] for value in (low, high, level)))


def no_interval(shape: tuple[int, ...]) -> Interval:
    """Return an `Interval` of NaN for every cell of `shape`: there is none."""
    return Interval(*(np.full(shape, NAN)[()] for _ in range(3)))


def t_interval(values: ArrayLike, level: float = LEVEL) -> Interval:
    """Return Student's t interval of the mean (Student 1908), n - 1 degrees of freedom.

    `values`: (..., n), any unit; the ends have the shape (...) and that unit. NaN below two values or without spread.
    """
    values = sample(values)
    n = values.shape[-1]
    if n < 2:
        return no_interval(values.shape[:-1])
    mean = values.mean(axis=-1)
    half = stats.t.ppf((1 + level) / 2, n - 1) * values.std(axis=-1, ddof=1) / np.sqrt(n)
    return interval(mean - half, mean + half, level, ~constant(values))


def log_t_interval(values: ArrayLike, level: float = LEVEL) -> Estimate:
    """Return the geometric mean and its interval: the exponential of the t interval of the logarithms.

    `values`: (..., n), positive; a cell with a value that is not has NaN throughout. It is an interval of the
    geometric mean, which for a skewed cell is not the mean (Hoefler and Belli 2015). NaN ends as in `t_interval`.
    """
    values = sample(values)
    if values.shape[-1] == 0:
        return Estimate(np.full(values.shape[:-1], NAN)[()], no_interval(values.shape[:-1]))
    positive = (values > 0).all(axis=-1)
    logs = np.log(np.where(values > 0, values, 1.0))
    ends = t_interval(logs, level)
    value = np.where(positive, np.exp(logs.mean(axis=-1)), NAN)[()]
    return Estimate(value, interval(np.exp(ends.low), np.exp(ends.high), level, positive & ~constant(values)))


def median_ranks(n: int, level: float = LEVEL) -> tuple[int, int, float]:
    """Return the exact ranks (k, n + 1 - k), counted from 1, and their actual level; k = 0 when none exist.

    k is the `(1 - level) / 2` quantile of Bin(n, 1/2): n = 30 gives (10, 21, 0.957). Le Boudec 2010, with exact ranks
    in place of the normal approximation. n <= 5 has none at 95 %.
    """
    k = int(stats.binom.ppf((1 - level) / 2, n, 0.5)) if n else 0
    if k == 0:
        return 0, 0, NAN
    return k, n + 1 - k, float(1 - 2 * stats.binom.cdf(k - 1, n, 0.5))


def median_interval(values: ArrayLike, level: float = LEVEL) -> Interval:
    """Return the exact order-statistic interval of the median (Le Boudec 2010), with its actual level.

    `values`: (..., n), any unit; the ends are values of the sample. NaN below six values (at 95 %) or without spread.
    """
    values = sample(values)
    low, high, actual = median_ranks(values.shape[-1], level)
    if low == 0:
        return no_interval(values.shape[:-1])
    ordered = np.sort(values, axis=-1)
    return interval(ordered[..., low - 1], ordered[..., high - 1], actual, ~constant(values))


def hodges_lehmann(values: ArrayLike, level: float = LEVEL) -> Estimate:
    """Return the pseudo-median, the median of all pairwise means, and its interval by the exact signed-rank test.

    `values`: (..., n), any unit. Hodges and Lehmann 1963; the interval holds the centres that the exact signed-rank
    test does not reject, for a symmetric distribution. NaN ends below six values (at 95 %) or without spread; ties
    make the level a lower bound.
    """
    values = sample(values)
    n = values.shape[-1]
    if n == 0:
        return Estimate(np.full(values.shape[:-1], NAN)[()], no_interval(values.shape[:-1]))
    i, j = np.triu_indices(n)
    tail, level = tail_rank(signed_rank_cdf(n), level)
    middle, low, high = _middle_and_ends(lambda cells: (cells[:, i] + cells[:, j]) / 2, values, tail=tail)
    return Estimate(middle, interval(low, high, level, ~constant(values) & (tail > 0)))


def wilson_interval(successes: ArrayLike, n: ArrayLike, level: float = LEVEL) -> Interval:
    """Return the score interval of a proportion, `successes` of `n`, their broadcast shape (Wilson 1927).

    Only for independent events inside one run, such as the packets of one stream; over runs the proportion of each is
    the value, and `t_interval` or `median_interval` of those the interval. NaN where n is 0 or a count is NaN, below 0
    or above n.
    """
    successes, n = np.broadcast_arrays(np.asarray(successes, dtype=float), np.asarray(n, dtype=float))
    exists = (n > 0) & (successes >= 0) & (successes <= n)
    tries = np.where(exists, n, 1.0)
    share, square = np.where(exists, successes, 0.0) / tries, stats.norm.ppf((1 + level) / 2) ** 2
    middle = share + square / (2 * tries)
    half = np.sqrt(square * (share * (1 - share) / tries + square / (4 * tries**2)))
    low, high = ((middle + side * half) / (1 + square / tries) for side in (-1, 1))
    # at no success the lower end is 0, and at no failure the upper one 1, but for rounding
    return interval(np.where(successes == 0, 0.0, low), np.where(successes == n, 1.0, high), level, exists)


def _middle_and_ends(expand: Callable[..., Array], *samples: Array, tail: int) -> tuple[Numbers, Numbers, Numbers]:
    """Median and the values of rank `tail` from both ends of what `expand` makes of each cell, in bounded memory."""
    shape = samples[0].shape[:-1]
    cells = [sample.reshape(-1, sample.shape[-1]) for sample in samples]
    size = expand(*(cell[:0] for cell in cells)).shape[1]
    step = max(1, CHUNK // size)
    found = np.empty((3, len(cells[0])))
    for start in range(0, len(cells[0]), step):
        made = np.sort(expand(*(cell[start : start + step] for cell in cells)), axis=-1)
        middle = (made[:, (size - 1) // 2] + made[:, size // 2]) / 2
        found[:, start : start + step] = middle, made[:, max(tail, 1) - 1], made[:, size - max(tail, 1)]
    return tuple(row.reshape(shape)[()] for row in found)  # type: ignore[return-value]


def tail_rank(cdf: Array, level: float) -> tuple[int, float]:
    """Return the largest k with P(T <= k - 1) <= (1 - level) / 2, and the level of ranks k from both ends; 0 if none.

    `cdf`: of `signed_rank_cdf`, shape (sums,) (Wilcoxon 1945). The level is NaN where there is none.
    """
    # an exact 2.5 % must not be lost to rounding
    k = int(np.searchsorted(cdf, (1 - level) / 2 * (1 + 1e-9), side="right"))
    return k, float(1 - 2 * cdf[k - 1]) if k else NAN


@lru_cache(maxsize=256)
def signed_rank_cdf(n: int) -> Array:
    """Return P(T <= t) of the signed-rank sum T of `n` values without ties (Wilcoxon 1945), for t = 0 .. n (n + 1) / 2.

    Read-only, for it is kept.
    """
    mass = np.ones(1)
    for rank in range(1, n + 1):
        grown = np.zeros(mass.size + rank)
        grown[: mass.size] = mass / 2
        grown[rank:] += mass / 2
        mass = grown
    chances = mass.cumsum()
    chances.flags.writeable = False
    return chances
