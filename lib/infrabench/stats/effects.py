"""Effect sizes of a paired design: d of the paired log ratios, and the share of pairs in which a system is above.

Samples are (..., n): the last axis holds the pairs, leading axes are cells. What a block did to both systems cancels in
them, as it does in the ratio and its interval, which always stand first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from infrabench.stats.arrays import paired
from infrabench.stats.intervals import LEVEL, Interval, interval, wilson_interval
from infrabench.stats.pairwise import log_moments


class Effect(NamedTuple):
    """The size of an effect and its interval; NaN where there is none."""

    estimate: Any
    interval: Interval


def paired_d(x: ArrayLike, y: ArrayLike, level: float = LEVEL) -> Effect:
    """Return d of the paired log ratios, mean / SD of log(x / y), with its noncentral-t interval, shape (...).

    `x`, `y`: (..., n), positive, one unit. The interval inverts the noncentral t distribution of the paired t
    statistic, d sqrt(n), with n - 1 degrees of freedom (Cumming and Finch 2001; Goulet-Pelletier and Cousineau 2018
    call it d_z). NaN where a value is not positive, below two pairs, and when all ratios are equal.
    """
    n = np.shape(x)[-1]
    estimate, error, df = log_moments(x, y)
    statistic = np.asarray(estimate / error)
    exists, scale = np.isfinite(statistic), np.sqrt(max(n, 1))
    held = np.where(exists, statistic, 0.0)
    low, high = (special.nctdtrinc(np.maximum(df, 1), p, held) / scale for p in ((1 + level) / 2, (1 - level) / 2))
    return Effect(np.where(exists, statistic / scale, np.nan)[()], interval(low, high, level, exists))


def share_above(x: ArrayLike, y: ArrayLike, level: float = LEVEL) -> Effect:
    """Return the share of pairs in which `x` is above `y`, with Wilson's score interval (1927), shape (...).

    `x`, `y`: (..., n), one unit. A pair of two equal values is not one of them. NaN without a pair.
    """
    x, y = paired(x, y)
    n, above = x.shape[-1], (x > y).sum(axis=-1)
    share = above / n if n else np.full(above.shape, np.nan)[()]
    return Effect(share, wilson_interval(above, n, level))
