"""Do two systems that share their blocks vary alike: stability as a claim of its own.

Samples are (..., n), paired by block: the last axis holds the trials, leading axes are cells.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from infrabench.stats.intervals import LEVEL, Interval
from infrabench.stats.pairwise import variance


class SpreadRatio(NamedTuple):
    """A ratio of standard deviations with its interval, and the test that it is 1."""

    ratio: Any
    interval: Interval
    statistic: Any  # t
    df: Any
    p: Any


def pitman_morgan(x: ArrayLike, y: ArrayLike, level: float = LEVEL) -> SpreadRatio:
    """Return the ratio of the standard deviations of paired samples, x over y, with interval, t, df and two-sided p.

    `x`, `y`: (..., n), any unit. Equal variances mean that x + y and x - y do not correlate (Pitman 1939; Morgan 1939);
    the interval holds the ratios not rejected. Exact for normal pairs of any correlation; too narrow with heavy tails.
    NaN below three pairs, when a sample has no spread, and when the pairs lie on a line.
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    n = x.shape[-1]
    if n < 3:
        none = np.full(x.shape[:-1], np.nan)[()]
        return SpreadRatio(none, Interval(none, none, level), none, np.nan, none)
    u, v = variance(x), variance(y)
    cross = ((x - x.mean(axis=-1, keepdims=True)) * (y - y.mean(axis=-1, keepdims=True))).sum(axis=-1) / (n - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = 1 - cross**2 / (u * v)  # of the variance of one that the other does not explain
        ratio = np.where(rest > 1e-12, u / v, np.nan)
        t = (ratio - 1) * np.sqrt((n - 2) / (4 * ratio * rest))
        reach = 1 + 2 * special.stdtrit(n - 2, (1 + level) / 2) ** 2 * rest / (n - 2)
        factor = reach + np.sqrt(reach**2 - 1)
        ends = Interval(np.sqrt(ratio / factor)[()], np.sqrt(ratio * factor)[()], level)
    return SpreadRatio(np.sqrt(ratio)[()], ends, t[()], n - 2, (2 * special.stdtr(n - 2, -np.abs(t)))[()])
