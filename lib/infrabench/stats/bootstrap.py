"""Bootstrap intervals: arrays in, arrays out, all cells from the same resamples.

A resample is n draws with replacement of the n trials (or blocks) of a cell. Which trials it holds depends on the seed
and on n alone, so one matrix of counts serves all cells, and the means of all resamples are one matrix product. Every
interval here is approximate: its level is met as n grows, and below n = 50 percentile and BCa intervals of a mean cover
less than they say. Trials must be independent: dependence in time is not repaired. Efron and Tibshirani 1993; Davison
and Hinkley 1997. Ends are NaN below two values, for a cell without spread, and where an end is not finite.
"""

from __future__ import annotations

import numpy as np

from infrabench.stats.intervals import LEVEL, NAN, Array, Interval
from infrabench.stats.resampling import (
    RESAMPLES,
    ROUNDING,
    SEED,
    Counts,
    Ends,
    Method,
    means,
    method_ends,
    one_sign,
    over_cells,
    percentile_ends,
    pivot_ends,
    quantiles,
    resample_counts,
    resample_shares,
)


def bootstrap_mean(
    x: Array, method: Method = "percentile", level: float = LEVEL, resamples: int = RESAMPLES, seed: int = SEED
) -> Interval:
    """Return the bootstrap interval of the mean: percentile, basic or BCa (Efron 1987).

    `x`: (..., n), any unit. Quantiles are interpolated linearly. BCa: the acceleration is that of the delete-one
    jackknife, and resamples tied with the mean, up to rounding, count as half below it. NaN below two values and
    without spread.
    """

    def ends(shares: Array, x: Array) -> Ends:
        mean = x.mean(axis=-1, keepdims=True)
        off = x - mean
        tie = ROUNDING * np.abs(off).max(axis=-1)
        low, high = method_ends(means(off, shares), np.zeros(len(x)), tie, off, method, level)
        return low + mean[:, 0], high + mean[:, 0]

    return over_cells(ends, (x,), resample_shares, level, resamples, seed)


def bootstrap_t(x: Array, level: float = LEVEL, resamples: int = RESAMPLES, seed: int = SEED) -> Interval:
    """Return the studentised bootstrap interval of the mean (Davison and Hinkley 1997, section 5.2.1).

    `x`: (..., n), any unit. A resample without spread counts as infinitely far on its side; the ends are NaN where
    such resamples reach the quantile, as with very few values, below two values and without spread.
    """

    def ends(shares: Array, x: Array) -> Ends:
        mean, sd = x.mean(axis=-1, keepdims=True), x.std(axis=-1, keepdims=True)
        off = (x - mean) / sd
        shift, variance = means(off, shares), means(off**2, shares)
        variance -= shift**2
        # what is left of the variance of a resample without spread is rounding of its largest square
        variance[variance <= ROUNDING * (off**2).max(axis=-1, keepdims=True)] = 0.0
        low, high = pivot_ends(shift, np.sqrt(variance, out=variance), level)
        return mean[:, 0] - high * sd[:, 0], mean[:, 0] - low * sd[:, 0]

    return over_cells(ends, (x,), resample_shares, level, resamples, seed)


def bootstrap_spread(
    x: Array, relative: bool = False, level: float = LEVEL, resamples: int = RESAMPLES, seed: int = SEED
) -> Interval:
    """Return the studentised bootstrap interval of the standard deviation, or of the CoV when `relative`.

    `x`: (..., n); the ends have the unit of `x`, or none. The pivot is the logarithm of the SD, or of SD / |mean|, and
    its standard error the nonparametric delta method (Davison and Hinkley 1997, sections 2.7.2 and 5.2.2). NaN, for a
    CoV, where the mean of a resample is 0 or of the other sign.
    """

    def ends(shares: Array, x: Array) -> Ends:
        mean, sd = x.mean(axis=-1, keepdims=True), x.std(axis=-1, ddof=1, keepdims=True)
        off, centre = (x - mean) / sd, mean / sd if relative else None
        value, error = _log_spread(off, np.full((x.shape[-1], 1), 1 / x.shape[-1]), centre)
        values, errors = _log_spread(off, shares, centre)
        values -= value
        logs = np.stack(pivot_ends(values, errors, level)) * error[:, 0]
        logs[~np.isfinite(logs)] = NAN  # else an end at minus infinity would read as a spread of 0
        if centre is not None:
            logs[:, ~one_sign(centre + means(off, shares), centre[:, 0])] = NAN
        low, high = (sd / np.abs(mean) if relative else sd)[:, 0] * np.exp(-logs[::-1])
        return low, high

    return over_cells(ends, (x,), resample_shares, level, resamples, seed)


def bootstrap_ratio(
    x: Array,
    y: Array,
    method: Method = "percentile",
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Interval:
    """Return the paired bootstrap interval of mean(x) / mean(y): whole blocks are drawn.

    `x`, `y`: (..., n), one unit; element i of both is one block. Methods as in `bootstrap_mean`; the acceleration is
    that of the delete-one-block jackknife (Efron and Tibshirani 1993, chapters 13 and 14). NaN where a resampled
    mean of `y` is 0 or of the other sign (too noisy to divide by), or when neither sample has spread.
    """

    def ends(shares: Array, x: Array, y: Array) -> Ends:
        sum_x, sum_y = x.sum(axis=-1, keepdims=True), y.sum(axis=-1, keepdims=True)
        ratio, without = (sum_x / sum_y)[:, 0], (sum_x - x) / (sum_y - y)
        pull = without.mean(axis=-1, keepdims=True) - without
        made, below = means(x, shares), means(y, shares)
        usable = one_sign(below, sum_y[:, 0])
        made /= below
        low, high = method_ends(made, ratio, ROUNDING * np.abs(ratio), pull, method, level)
        return np.where(usable, low, NAN), np.where(usable, high, NAN)

    return over_cells(ends, (x, y), resample_shares, level, resamples, seed)


def bootstrap_quantile(
    x: Array, share: float = 0.5, level: float = LEVEL, resamples: int = RESAMPLES, seed: int = SEED
) -> Interval:
    """Return the percentile bootstrap interval of a quantile over trials; the median by default.

    `x`: (..., n), any unit; `share` in 0 .. 1, interpolated linearly as `numpy.quantile` does (Efron and
    Tibshirani 1993, chapter 13). For a median prefer `median_interval`, which is exact. NaN below two values and
    without spread.
    """

    def ends(counts: Counts, x: Array) -> Ends:
        return percentile_ends(quantiles(x, counts, share), level)

    return over_cells(ends, (x,), resample_counts, level, resamples, seed)


def bootstrap_quantile_ratio(
    x: Array, y: Array, share: float = 0.5, level: float = LEVEL, resamples: int = RESAMPLES, seed: int = SEED
) -> Interval:
    """Return the paired percentile bootstrap interval of a ratio of quantiles; of medians by default.

    `x`, `y`: (..., n), one unit; element i of both is one block, and whole blocks are drawn (Kalibera and Jones 2013).
    NaN where a resampled quantile of `y` is 0 or of the other sign, or when neither sample has spread.
    """

    def ends(counts: Counts, x: Array, y: Array) -> Ends:
        made, below = quantiles(x, counts, share), quantiles(y, counts, share)
        usable = one_sign(below, np.quantile(y, share, axis=-1))
        made /= below
        low, high = percentile_ends(made, level)
        return np.where(usable, low, NAN), np.where(usable, high, NAN)

    return over_cells(ends, (x, y), resample_counts, level, resamples, seed)


def _log_spread(off: Array, shares: Array, centre: Array | None) -> Ends:
    """Log of the (population) SD, over |mean| when `centre` is the mean; and its delta-method error, by resample."""
    square = off * off
    m1, m2, m3, m4 = (means(power, shares) for power in (off, square, square * off, square * square))
    m1_squared = m1 * m1
    m4 += m1 * (6 * m1 * m2 - 4 * m3) - 3 * m1_squared * m1_squared
    m3 -= m1 * (3 * m2 - 2 * m1_squared)
    m2 -= m1_squared
    flat = m2 <= ROUNDING * square.max(axis=-1, keepdims=True)
    m2[flat] = 0.0
    value, variance = np.log(m2) / 2, (m4 / (m2 * m2) - 1) / 4
    if centre is not None:
        mean = centre + m1
        value -= np.log(np.abs(mean))
        variance += m2 / (mean * mean) - m3 / (m2 * mean)
    variance[flat] = 0.0
    return value, np.sqrt(np.maximum(variance, 0.0) / len(shares))
