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

FAR = 300.0  # a t statistic beyond which SciPy's inversion is off by more than 1e-4, and from 1e7 on may never end


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
    low, high = (noncentrality(held, max(df, 1), p) / scale for p in ((1 + level) / 2, (1 - level) / 2))
    return Effect(np.where(exists, statistic / scale, np.nan)[()], interval(low, high, level, exists))


def noncentrality(t: ArrayLike, df: int, p: float) -> Any:
    """Return the noncentrality at which a noncentral t of `df` degrees of freedom is at most `t` with chance `p`.

    `t`: (...), finite; the answer has its shape and is never NaN. Since T <= t exactly where the noncentrality is at
    most t U - Z (Z standard normal, U^2 chi-square over its df), it is a quantile of that sum: up to `FAR` by SciPy,
    beyond it by the quantile of t U and the first term in the small variance of Z (Cornish and Fisher 1938), to a
    relative error below 1e-6.
    """
    t = np.asarray(t, dtype=float)
    far = np.abs(t) > FAR
    size = np.where(far, np.abs(t), 1.0)
    u = np.sqrt(special.chdtri(df, np.where(t < 0, 1 - p, p)) / df)
    wide = size * u - ((df - 1) / u - df * u) / (2 * size)
    return np.where(far, np.copysign(wide, t), special.nctdtrinc(df, p, np.where(far, 0.0, t)))[()]


def share_above(x: ArrayLike, y: ArrayLike, level: float = LEVEL) -> Effect:
    """Return the share of pairs in which `x` is above `y`, with Wilson's score interval (1927), shape (...).

    `x`, `y`: (..., n), one unit. A pair of two equal values is not one of them. NaN without a pair.
    """
    x, y = paired(x, y)
    n, above = x.shape[-1], (x > y).sum(axis=-1)
    share = above / n if n else np.full(above.shape, np.nan)[()]
    return Effect(share, wilson_interval(above, n, level))
