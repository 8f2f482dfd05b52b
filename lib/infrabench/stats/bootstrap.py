"""Bootstrap intervals: arrays in, arrays out, all cells from the same resamples.

A resample is n draws with replacement of the n trials (or blocks) of a cell. Which trials it holds depends on the seed
and on n alone, so one matrix of counts serves all cells, and the means of all resamples are one matrix product. Every
interval here is approximate: its level is met as n grows, and below n = 50 percentile and BCa intervals of a mean cover
less than they say. Trials must be independent: dependence in time is not repaired. Efron and Tibshirani 1993; Davison
and Hinkley 1997. Ends are NaN below two values, for a cell without spread, and where an end is not finite.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from infrabench.stats.arrays import paired, sample
from infrabench.stats.intervals import LEVEL, NAN, Array, Interval, no_interval
from infrabench.stats.resampling import (
    RESAMPLES,
    ROUNDING,
    SEED,
    Counts,
    Ends,
    means,
    one_sign,
    over_cells,
    percentile_ends,
    pivot_ends,
    quantiles,
    resample_counts,
    resample_shares,
)


def bootstrap_t(x: ArrayLike, level: float = LEVEL, resamples: int = RESAMPLES, seed: int = SEED) -> Interval:
    """Return the studentised bootstrap interval of the mean (Davison and Hinkley 1997, section 5.2.1).

    `x`: (..., n), any unit. A resample without spread counts as infinitely far on its side; the ends are NaN where
    such resamples reach the quantile, as with very few values, below two values and without spread.
    """
    x = sample(x)

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


def bootstrap_quantile_ratio(
    x: ArrayLike, y: ArrayLike, share: float = 0.5, level: float = LEVEL, resamples: int = RESAMPLES, seed: int = SEED
) -> Interval:
    """Return the paired percentile bootstrap interval of a ratio of quantiles; of medians by default.

    `x`, `y`: (..., n), one unit; element i of both is one block, and whole blocks are drawn (Davison and Hinkley 1997,
    section 2.3, for pairs). NaN where the sample cannot hold the quantile with that level whatever is drawn, for a
    median at 95 % below six blocks as in `median_interval`; where a resampled quantile of `y` is 0 or of the other
    sign; and when neither sample has spread.
    """
    x, y = paired(x, y)
    n = x.shape[-1]
    if max(share, 1 - share) ** n > (1 - level) / 2:  # the extremes themselves hold it less often
        return no_interval(x.shape[:-1])

    def ends(counts: Counts, x: Array, y: Array) -> Ends:
        made, below = quantiles(x, counts, share), quantiles(y, counts, share)
        usable = one_sign(below, np.quantile(y, share, axis=-1))
        made /= below
        low, high = percentile_ends(made, level)
        return np.where(usable, low, NAN), np.where(usable, high, NAN)

    return over_cells(ends, (x, y), resample_counts, level, resamples, seed)
