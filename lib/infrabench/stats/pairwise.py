"""Two systems compared by their pairs: difference and ratio of means, equivalence, exact tests, effect sizes.

Samples are (..., n): the last axis holds the pairs, leading axes are cells; element i of both is one block. A ratio is
system / baseline and has no unit; all p-values are two-sided.

Interval, p of the difference and p of equivalence are of one estimand, mean(x) / mean(y), and of one statistic, the t
of x - r y at a ratio r (Fieller 1954), so they cannot contradict each other. The exact test assumes no distribution and
approximates none. Effect sizes are of the pairs, in which what a block did to both
systems cancels as it does in the ratio and its interval, which always stand first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

from infrabench.stats import intervals
from infrabench.stats.dependence import Test
from infrabench.stats.intervals import LEVEL, NAN, Array, Estimate, Interval
from infrabench.stats.table import paired

ROUNDING = 8 * np.finfo(float).eps  # relative; differences closer than this are one value

NARROW = 2 * LEVEL - 1  # the 90 % interval that goes with two one-sided tests at 5 %

FAR = 300.0  # a t statistic beyond which SciPy's inversion is off by more than 1e-4, and from 1e7 on may never end


class Moments(NamedTuple):
    """A difference of means, its standard error (NaN without spread) and its degrees of freedom."""

    estimate: Any
    error: Any
    df: Any


class Comparison(NamedTuple):
    """A difference of means with its interval, and the p of the t test that goes with it."""

    estimate: Any
    interval: Interval
    p: Any


def paired_t(x: ArrayLike, y: ArrayLike) -> Comparison:
    """Return the paired t test of x against y: mean of x - y, interval and two-sided p, shape (...).

    `x`, `y`: (..., n), one unit (Student 1908). On log values it compares geometric means. NaN below two pairs and when
    the differences have no spread.
    """
    moments = paired_moments(x, y)
    estimate, error, df = moments
    half = special.stdtrit(df, (1 + LEVEL) / 2) * error
    return Comparison(estimate, Interval(estimate - half, estimate + half, LEVEL), t_p(moments))


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


def _one_sample(differences: Array, rounding: Array) -> Moments:
    n = differences.shape[-1]
    if n < 2:
        none = np.full(differences.shape[:-1], np.nan)[()]
        return Moments(differences[..., 0] if n else none, none, np.nan)
    sd = differences.std(axis=-1, ddof=1)
    return Moments(differences.mean(axis=-1), np.where(sd > rounding, sd, np.nan)[()] / np.sqrt(n), n - 1)


def paired_fieller(x: ArrayLike, y: ArrayLike, level: float = LEVEL) -> Interval:
    """Return Fieller's interval of mean(x) / mean(y) for paired values, their covariance kept.

    `x`, `y`: (..., n), one unit; n - 1 degrees of freedom. Fieller 1954; Kalibera and Jones (2013) give his form for
    independent means, without the covariance. NaN when the set is unbounded, because the mean of `y` cannot be told
    from 0, below two pairs, or when neither sample has any spread.
    """
    x, y = paired(x, y)
    n = x.shape[-1]
    if n < 2:
        return intervals.no_interval(x.shape[:-1])
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
        exists = ~(intervals.constant(x) & intervals.constant(y)) & (a > 0)
        return intervals.interval(ratio + (middle - root) / a, ratio + (middle + root) / a, level, exists)


def paired_log_ratio(x: ArrayLike, y: ArrayLike) -> Estimate:
    """Return the ratio of geometric means of paired samples with its interval, from Student's t on log(x / y).

    `x`, `y`: (..., n), one unit, positive (Student 1908, on the logarithms of the pairs); NaN throughout where a value
    is not, NaN interval below two pairs or when neither sample has any spread. A system in fixed proportion to its
    baseline has an interval of no width.
    """
    x, y = paired(x, y)
    n = x.shape[-1]
    if n == 0:
        return Estimate(np.full(x.shape[:-1], NAN)[()], intervals.no_interval(x.shape[:-1]))
    positive = ((x > 0) & (y > 0)).all(axis=-1)
    logs = np.log(np.where(x > 0, x, 1.0) / np.where(y > 0, y, 1.0))
    mean = logs.mean(axis=-1)
    ratio = np.where(positive, np.exp(mean), NAN)[()]
    if n < 2:
        return Estimate(ratio, intervals.no_interval(x.shape[:-1]))
    error = logs.std(axis=-1, ddof=1) / np.sqrt(n)
    exists = positive & ~(intervals.constant(x) & intervals.constant(y))
    half = stats.t.ppf((1 + LEVEL) / 2, n - 1) * error
    return Estimate(ratio, intervals.interval(np.exp(mean - half), np.exp(mean + half), LEVEL, exists))


class Equivalence(NamedTuple):
    """The 90 % interval of a ratio of means and the p of "at least a margin away from 1"."""

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
    if not x.shape[-1]:
        return np.full(x.shape[:-1], NAN)[()]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = x.mean(axis=-1) / y.mean(axis=-1)
    t, df = fieller_t(x, y, np.clip(ratio, 1 - np.asarray(off), 1 + np.asarray(off)))
    return 2 * special.stdtr(df, -np.abs(t)) if df else t


def ratio_equivalence(x: ArrayLike, y: ArrayLike, margin: ArrayLike, off: ArrayLike = 0.0) -> Equivalence:
    """Return the test that mean(x) / mean(y) lies within 1 -+ `margin`, shape (...), with its 90 % interval.

    `x`, `y`: (..., n), one unit, paired; `margin`: relative, one number or (...). Two one-sided tests (Schuirmann 1987)
    of Fieller's statistic (1954). `off`: what rounding alone may have moved the ratio by, which widens the interval on
    each side and narrows the margin. p is below 5 % exactly when the interval lies within the margin. NaN as
    `fieller_t` and `paired_fieller`.
    """
    room = np.asarray(margin, dtype=float) - off
    (above, df), (below, _) = fieller_t(x, y, 1 - room), fieller_t(x, y, 1 + room)
    p = np.maximum(special.stdtr(df, -above), special.stdtr(df, below)) if df else above
    ends = paired_fieller(x, y, NARROW)
    return Equivalence(Interval(ends.low - off, ends.high + off, NARROW), p)


def signed_rank(x: ArrayLike, y: ArrayLike) -> Test:
    """Return the smaller signed-rank sum of x - y and its exact p, shape (...); x and y are paired (Wilcoxon 1945).

    `x`, `y`: (..., n), one unit. The p-value counts the sign patterns of the ranks at hand, so it is exact with ties
    too: differences that agree up to the rounding of x and y share a midrank. Differences of zero are ranked with the
    others and then carry no rank (Pratt 1959). NaN below two pairs and when all differences are zero.
    """
    x, y = paired(x, y)
    n = x.shape[-1]
    if n < 2:
        none = np.full(x.shape[:-1], np.nan)[()]
        return Test(none, none)
    differences = x - y
    size = np.abs(differences)
    # decimal readings are not exact in binary: a smaller difference is only rounding
    rounding = ROUNDING * np.maximum(np.abs(x), np.abs(y)).max(axis=-1, keepdims=True)
    doubled = np.where(size <= rounding, 0, _doubled_midranks(size, rounding))
    total = doubled.sum(axis=-1)
    plus = np.where(differences > 0, doubled, 0).sum(axis=-1)
    least = np.minimum(plus, total - plus)
    plain = (np.sort(doubled, axis=-1) == 2 * np.arange(1, n + 1)).all(axis=-1)
    p = np.full(total.shape, np.nan)
    p[plain] = np.minimum(2 * intervals.signed_rank_cdf(n)[least[plain] // 2], 1.0)
    for cell in map(tuple, np.argwhere(~plain & (total > 0))):
        p[cell] = min(2 * intervals.rank_sum_chances(np.sort(doubled[cell]), int(least[cell])).sum(), 1.0)
    return Test(np.where(total > 0, least / 2, np.nan)[()], p[()])


def _doubled_midranks(size: Array, rounding: Array) -> NDArray[np.int64]:
    """Twice the midranks along the last axis, hence whole numbers; neighbours closer than rounding are tied."""
    n = size.shape[-1]
    order = np.argsort(size, axis=-1, kind="stable")
    ordered = np.take_along_axis(size, order, -1)
    apart = np.diff(ordered, axis=-1) > rounding
    edge = np.ones((*size.shape[:-1], 1), dtype=bool)
    place = np.arange(n)
    first = np.maximum.accumulate(np.where(np.concatenate([edge, apart], axis=-1), place, 0), axis=-1)
    last = np.where(np.concatenate([apart, edge], axis=-1), place, n - 1)
    last = np.minimum.accumulate(last[..., ::-1], axis=-1)[..., ::-1]
    doubled = np.empty(size.shape, dtype=np.int64)
    np.put_along_axis(doubled, order, first + last + 2, -1)
    return doubled


def paired_d(x: ArrayLike, y: ArrayLike) -> Estimate:
    """Return d of the paired log ratios, mean / SD of log(x / y), with its noncentral-t interval, shape (...).

    `x`, `y`: (..., n), positive, one unit. The interval inverts the noncentral t distribution of the paired t
    statistic, d sqrt(n), with n - 1 degrees of freedom (Cumming and Finch 2001; Goulet-Pelletier and Cousineau 2018
    call it d_z). NaN where a value is not positive, below two pairs, and when all ratios are equal.
    """
    n = np.shape(x)[-1]
    estimate, error, df = log_moments(x, y)
    statistic = np.asarray(estimate / error)
    exists, scale = np.isfinite(statistic), np.sqrt(max(n, 1))
    defined = np.where(exists, statistic, 0.0)
    low, high = (noncentrality(defined, max(df, 1), p) / scale for p in ((1 + LEVEL) / 2, (1 - LEVEL) / 2))
    return Estimate(np.where(exists, statistic / scale, np.nan)[()], intervals.interval(low, high, LEVEL, exists))


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


def share_above(x: ArrayLike, y: ArrayLike) -> Estimate:
    """Return the share of pairs in which `x` is above `y`, with Wilson's score interval (1927), shape (...).

    `x`, `y`: (..., n), one unit. A pair of two equal values is not one of them. NaN without a pair.
    """
    x, y = paired(x, y)
    n, above = x.shape[-1], (x > y).sum(axis=-1)
    share = above / n if n else np.full(above.shape, np.nan)[()]
    return Estimate(share, intervals.wilson_interval(above, n))
