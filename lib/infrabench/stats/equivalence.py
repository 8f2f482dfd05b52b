"""Is the ratio of means within a margin, and is it 1: tests on the statistic of the paired Fieller interval.

Paired samples are (..., n): element i of both comes from the same block, leading axes are cells. Interval, p of the
difference and p of equivalence are of one estimand, mean(x) / mean(y), and of one statistic, the t of x - r y at a
ratio r (Fieller 1954), so they cannot contradict each other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from infrabench.stats.intervals import LEVEL, NAN, Array, Interval
from infrabench.stats.pairwise import ROUNDING, paired_moments
from infrabench.stats.ratios import paired_fieller

NARROW = 2 * LEVEL - 1  # the 90 % interval that goes with two one-sided tests at 5 %


class Equivalence(NamedTuple):
    """A ratio of means, its 90 % interval and the p of "at least a margin away from 1"."""

    ratio: Any
    interval: Interval
    p: Any


def fieller_t(x: ArrayLike, y: ArrayLike, ratio: ArrayLike) -> tuple[Any, int]:
    """Return Fieller's statistic of the hypothesis that mean(x) / mean(y) is `ratio`, shape (...), and its df.

    `x`, `y`: (..., n), one unit, paired; `ratio`: one number or (...). It is Student's t of x - ratio y (Fieller 1954),
    positive where the ratio is larger, whatever the sign of the baseline's mean; a ratio lies in the interval of
    `paired_fieller` where it is within the quantile. Infinite where x - ratio y is constant and not 0; NaN where it is
    0 throughout, below two pairs, and when the mean of `y` is 0.
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    n = x.shape[-1]
    if n < 2:
        return np.full(x.shape[:-1], NAN)[()], 0
    scaled = np.asarray(ratio, dtype=float)[..., None] * y
    estimate, error, df = paired_moments(x, scaled)
    size = np.maximum(np.abs(x), np.abs(scaled)).max(axis=-1)
    still = np.where(np.abs(estimate) > ROUNDING * size, np.copysign(np.inf, estimate), NAN)
    t = np.where(np.isnan(error), still, estimate / np.where(np.isnan(error), 1.0, error))
    side = np.sign(y.mean(axis=-1))
    return np.where(side == 0, NAN, side * t)[()], df


def difference_p(x: ArrayLike, y: ArrayLike, off: ArrayLike = 0.0) -> Any:
    """Return the two-sided p of "mean(x) / mean(y) is 1", shape (...): that of the paired t of x - y (Student 1908).

    `x`, `y`: (..., n), one unit, paired. `off`: how far from 1 the ratio may be by rounding alone, one number or (...);
    then of "within 1 -+ off", at the nearest of them. Below 5 % exactly when the 95 % interval of `paired_fieller`,
    moved out by `off` on each side, excludes 1. NaN as `fieller_t`.
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    ratio = _ratio(x, y)
    t, df = fieller_t(x, y, np.clip(ratio, 1 - np.asarray(off), 1 + np.asarray(off)))
    return 2 * special.stdtr(df, -np.abs(t)) if df else t


def ratio_equivalence(x: ArrayLike, y: ArrayLike, margin: ArrayLike, off: ArrayLike = 0.0) -> Equivalence:
    """Return the test that mean(x) / mean(y) lies within 1 -+ `margin`, shape (...), with its 90 % interval.

    `x`, `y`: (..., n), one unit, paired; `margin`: relative, one number or (...). Two one-sided tests (Schuirmann 1987)
    of Fieller's statistic (1954). `off`: what rounding alone may have moved the ratio by, which widens the interval on
    each side and narrows the margin. p is below 5 % exactly when the interval lies within the margin. NaN as
    `fieller_t` and `paired_fieller`.
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    low, high = margin_ends(np.asarray(margin, dtype=float) - off)
    (above, df), (below, _) = fieller_t(x, y, low), fieller_t(x, y, high)
    p = np.maximum(special.stdtr(df, -above), special.stdtr(df, below)) if df else above
    ends = paired_fieller(x, y, NARROW)
    return Equivalence(_ratio(x, y), Interval(ends.low - off, ends.high + off, NARROW), p)


def margin_ends(margin: ArrayLike) -> tuple[Any, Any]:
    """Return the least and the largest ratio within a relative margin, each of its shape: 0.02 is 0.98 .. 1.02.

    NaN where the margin is.
    """
    margin = np.asarray(margin, dtype=float)
    return (1 - margin)[()], (1 + margin)[()]


def _ratio(x: Array, y: Array) -> Any:
    if not x.shape[-1]:
        return np.full(x.shape[:-1], NAN)[()]
    with np.errstate(divide="ignore", invalid="ignore"):
        return x.mean(axis=-1) / y.mean(axis=-1)
