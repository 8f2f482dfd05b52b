"""Estimates of one sample, or of a shift between two, with their intervals: arrays in, arrays out.

Arrays have the shape (..., n): the last axis holds the trials, the leading axes are cells and stay as they are.

Bootstrap intervals are approximate: their level is met as n grows, and below n = 50 a percentile interval of a mean
covers less than it says. A resample is n draws with replacement of the n trials (or blocks) of a cell. Which trials it
holds depends on the seed and on n alone, so one matrix of counts serves all cells, and the sums of all resamples are
one matrix product. Trials must be independent: dependence in time is not repaired. Efron and Tibshirani 1993; Davison
and Hinkley 1997. Ends are NaN below two values, for a cell without spread, and where an end is not finite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from infrabench.stats.table import Array, sample

Numbers = Array | float
LEVEL = 0.95
ALPHA = 1 - LEVEL
NAN = float("nan")
EXPANDED = 2**21  # numbers held at a time by methods that expand a sample

RESAMPLES = 9999
SEED = 20200315
CHUNK = 2**18  # resampled statistics held at a time: about what a processor keeps near
ONE_THREAD = 2**18  # multiplications of a matrix product that BLAS does not spread over threads
EXACT_BITS = 53  # of a whole number that is exact as a float
ROUNDING = 1e-12  # relative difference below which two statistics are tied

Counts = NDArray[np.signedinteger[Any]]
Ends = tuple[Array, Array]


class Interval(NamedTuple):
    """Ends of an interval and its actual level; NaN where no interval exists."""

    low: Numbers
    high: Numbers
    level: Numbers

    def columns(self, name: str) -> dict[str, Any]:
        """Return the ends as columns of a table, ``NAME_low`` and ``NAME_high``."""
        return {f"{name}_low": self.low, f"{name}_high": self.high}


class Estimate(NamedTuple):
    """An estimate and its interval."""

    value: Numbers
    interval: Interval

    def columns(self, name: str, ends: str = "") -> dict[str, Any]:
        """Return the estimate as column `name` of a table, and the ends of its interval, which may be named else."""
        return {name: self.value} | self.interval.columns(ends or name)


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


def no_interval(shape: Sequence[int]) -> Interval:
    """Return an `Interval` of NaN for every cell of `shape`: there is none."""
    return Interval(*(np.full(shape, NAN)[()] for _ in range(3)))


def t_interval(values: ArrayLike) -> Interval:
    """Return Student's t interval of the mean (Student 1908), n - 1 degrees of freedom.

    `values`: (..., n), any unit; the ends have the shape (...) and that unit. NaN below two values or without spread.
    """
    values = sample(values)
    n = values.shape[-1]
    if n < 2:
        return no_interval(values.shape[:-1])
    mean = values.mean(axis=-1)
    half = stats.t.ppf((1 + LEVEL) / 2, n - 1) * values.std(axis=-1, ddof=1) / np.sqrt(n)
    return interval(mean - half, mean + half, LEVEL, ~constant(values))


def log_t_interval(values: ArrayLike) -> Estimate:
    """Return the geometric mean and its interval: the exponential of the t interval of the logarithms.

    `values`: (..., n), positive; a cell with a value that is not has NaN throughout. It is an interval of the
    geometric mean, which for a skewed cell is not the mean (Hoefler and Belli 2015). NaN ends as in `t_interval`.
    """
    values = sample(values)
    if values.shape[-1] == 0:
        return Estimate(np.full(values.shape[:-1], NAN)[()], no_interval(values.shape[:-1]))
    positive = (values > 0).all(axis=-1)
    logs = np.log(np.where(values > 0, values, 1.0))
    ends = t_interval(logs)
    value = np.where(positive, np.exp(logs.mean(axis=-1)), NAN)[()]
    return Estimate(value, interval(np.exp(ends.low), np.exp(ends.high), LEVEL, positive & ~constant(values)))


def median_ranks(n: int) -> tuple[int, int, float]:
    """Return the exact ranks (k, n + 1 - k), counted from 1, and their actual level; k = 0 when none exist.

    k is the 2.5 % quantile of Bin(n, 1/2): n = 30 gives (10, 21, 0.957). Le Boudec 2010, with exact ranks
    in place of the normal approximation. n <= 5 has none.
    """
    k = int(stats.binom.ppf((1 - LEVEL) / 2, n, 0.5)) if n else 0
    if k == 0:
        return 0, 0, NAN
    return k, n + 1 - k, float(1 - 2 * stats.binom.cdf(k - 1, n, 0.5))


def median_interval(values: ArrayLike) -> Interval:
    """Return the exact order-statistic interval of the median (Le Boudec 2010), with its actual level.

    `values`: (..., n), any unit; the ends are values of the sample. NaN below six values or without spread.
    """
    values = sample(values)
    low, high, actual = median_ranks(values.shape[-1])
    if low == 0:
        return no_interval(values.shape[:-1])
    ordered = np.sort(values, axis=-1)
    return interval(ordered[..., low - 1], ordered[..., high - 1], actual, ~constant(values))


def hodges_lehmann(values: ArrayLike) -> Estimate:
    """Return the pseudo-median, the median of all pairwise means, and its interval by the exact signed-rank test.

    `values`: (..., n), any unit. Hodges and Lehmann 1963; the interval holds the centres that the exact signed-rank
    test does not reject, for a symmetric distribution. NaN ends below six values or without spread; ties
    make the level a lower bound.
    """
    values = sample(values)
    *shape, n = values.shape
    if n == 0:
        return Estimate(np.full(shape, NAN)[()], no_interval(shape))
    i, j = np.triu_indices(n)
    tail, level = tail_rank(signed_rank_cdf(n), LEVEL)
    cells, step, end = values.reshape(-1, n), max(1, EXPANDED // i.size), max(tail, 1)
    found = np.empty((3, len(cells)))
    for start in range(0, len(cells), step):  # in bounded memory
        piece = cells[start : start + step]
        means = np.sort((piece[:, i] + piece[:, j]) / 2, axis=-1)
        middle = (means[:, (i.size - 1) // 2] + means[:, i.size // 2]) / 2
        found[:, start : start + step] = middle, means[:, end - 1], means[:, -end]
    middle, low, high = (row.reshape(shape)[()] for row in found)
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
    chances = rank_sum_chances(range(1, n + 1), n * (n + 1) // 2).cumsum()
    chances.flags.writeable = False
    return chances


def rank_sum_chances(ranks: Iterable[int], most: int) -> Array:
    """Return the chance of each sum of `ranks`, 0 .. `most`, when each is in it with probability 1/2 (Wilcoxon 1945).

    Halved at every rank: the ways to make a sum of thousands of ranks are more than a number can be.
    """
    chance = np.zeros(most + 1)
    chance[0] = 1.0
    reach = 0
    for rank in ranks:
        reach = min(reach + rank, most)
        half = chance[: reach + 1] / 2
        chance[: reach + 1] = half
        chance[rank : reach + 1] += half[: max(reach + 1 - rank, 0)]
    return chance


@lru_cache(maxsize=16)
def resample_counts(n: int, resamples: int = RESAMPLES) -> Counts:
    """Return how often each of `n` trials is in each resample, shape (n, resamples), read-only.

    The draws are those of ``default_rng(SEED).integers(0, n, (resamples, n))``, as `scipy.stats.bootstrap` makes them.
    """
    drawn = np.random.default_rng(SEED).integers(0, n, (resamples, n))
    drawn += n * np.arange(resamples)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=n * resamples).reshape(resamples, n)
    small = np.ascontiguousarray(counts.T, dtype=np.min_scalar_type(-n - 1))
    small.flags.writeable = False
    return small


def over_cells(ends: Callable[[Counts, Array], Ends], x: Array, resamples: int = RESAMPLES) -> Interval:
    """Return the 95 % `Interval` that `ends` finds for each cell, NaN below two values and for a cell without spread.

    `x`: (..., n). `ends` gets the counts of `resample_counts` and some cells (cells, n) at a time, so that memory does
    not grow with their number.
    """
    *shape, n = x.shape
    if n < 2:
        return no_interval(shape)
    spread = ~constant(x)
    cells = x.reshape(-1, n)[np.ravel(spread)]
    counts, step = resample_counts(n, resamples), max(1, CHUNK // resamples)
    whole, found = np.full((2, *shape), NAN), np.full((2, len(cells)), NAN)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for start in range(0, len(cells), step):
            piece = slice(start, start + step)
            found[:, piece] = ends(counts, cells[piece])
    whole[:, spread] = found
    return interval(whole[0], whole[1], LEVEL, spread)


def sums(x: Array, counts: NDArray[Any]) -> Array:
    """Return the sum of each row of `x` (cells, n) over each resample, shape (cells, resamples).

    `counts`: (n, resamples), whole numbers: how often each value is in a resample. The values of a row are first
    rounded to whole multiples of a step, the smallest with which every sum of them is exact: of thirty, 7e-15 of the
    largest. So a sum is the same in whatever order it is added up, which processors' libraries choose by their own
    kind and by how many cells there are.

    The product is made in pieces that stay on one thread: threads bring little at this size, and on a machine with
    other work, where they wait for each other, they make it several times slower.
    """
    most = np.abs(x).max(axis=-1, keepdims=True, initial=0.0) * counts.sum(axis=0).max(initial=0)
    step = np.ldexp(1.0, np.frexp(most)[1] - EXACT_BITS)
    steps, weights = np.rint(x / step), counts.astype("float64")
    result = np.empty((len(x), counts.shape[1]))
    width = max(16, ONE_THREAD // max(x.size, 1))
    for start in range(0, counts.shape[1], width):
        piece = slice(start, start + width)
        np.matmul(steps, weights[:, piece], out=result[:, piece])
    result *= step
    return result


def percentile_ends(made: Array) -> Ends:
    """Return the central 95 % of each row of `made` (cells, resamples), which is sorted in place.

    The quantiles are interpolated linearly.
    """
    made.sort(axis=-1)
    place = np.array([(1 - LEVEL) / 2, (1 + LEVEL) / 2]) * (made.shape[-1] - 1)
    lower = np.clip(place.astype(int), 0, made.shape[-1] - 2)
    a, b = made[:, lower], made[:, lower + 1]
    ends = np.where(a == b, a, a + (b - a) * (place - lower)) + 0.0  # no negative zero
    return ends[:, 0], ends[:, 1]


def bootstrap_t(x: ArrayLike, resamples: int = RESAMPLES) -> Interval:
    """Return the studentised 95 % bootstrap interval of the mean (Davison and Hinkley 1997, section 5.2.1).

    `x`: (..., n), any unit. A resample without spread counts as infinitely far on its side; the ends are NaN where
    such resamples reach the quantile, as with very few values, below two values and without spread.
    """

    def ends(counts: Counts, x: Array) -> Ends:
        n = x.shape[-1]
        mean, sd = x.mean(axis=-1, keepdims=True), x.std(axis=-1, keepdims=True)
        off = (x - mean) / sd
        shift, variance = sums(off, counts) / n, sums(off**2, counts) / n
        variance -= shift**2
        # what is left of the variance of a resample without spread is rounding of its largest square
        variance[variance <= ROUNDING * (off**2).max(axis=-1, keepdims=True)] = 0.0
        shift /= np.sqrt(variance, out=variance)  # without spread at infinity, on its own side
        shift[np.isnan(shift)] = 0.0
        low, high = percentile_ends(shift)
        return mean[:, 0] - high * sd[:, 0], mean[:, 0] - low * sd[:, 0]

    # resamples go by place: sorted, the values say the same in whatever order they came
    return over_cells(ends, np.sort(sample(x), axis=-1), resamples=resamples)
