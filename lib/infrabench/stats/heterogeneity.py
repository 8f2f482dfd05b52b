"""Do several sites say the same? One estimate and its standard error from each: test, between-site variance, share.

`estimate`, `error`, `df`: (..., k), finite, k sites on the last axis: a log ratio, its standard error (positive), and
the degrees of freedom of that, 29 from 30 blocks and 5 from 6 deployments; infinite for an error that is known. The
model is estimate_i ~ N(mean, between + error_i^2), `between` the variance of the true values of sites.

Everything rests on one statistic: Welch's (1951), with `between` added to each site's variance. It is Cochran's Q over
its degrees of freedom but for the correction that estimated errors need: with 5 degrees of freedom Q itself calls
three equal sites different in 11 to 15 of 100 campaigns, Welch's in 5 (`validation.sites`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special
from scipy.optimize import elementwise

from infrabench.stats.arrays import sites
from infrabench.stats.intervals import LEVEL, Array, Interval

NODES = 16  # of the quadrature over the between-site variance; they give four digits of an interval's end
EXACT = {"xrtol": 1e-10, "xatol": 0.0}  # of a between-site variance


class Homogeneity(NamedTuple):
    """A test that the sites' true values are equal: statistic, its degrees of freedom (`df2` None for Q), p."""

    statistic: Any
    df: int
    df2: Any
    p: Any


class Spread(NamedTuple):
    """What the sites say of the between-site variance: values of it, (..., nodes), and their weights, which sum to 1.

    The first value is 0, and its weight what the sites leave to "no variance at all"; the others ascend.
    """

    variance: Array
    weight: Array


class Weighted(NamedTuple):
    """The mean of sites weighted by 1 / (between + error^2): its value, variance, the degrees of freedom of that."""

    mean: Any
    variance: Any
    df: Any


def cochran_q(estimate: ArrayLike, error: ArrayLike) -> Homogeneity:
    """Return Cochran's Q (1954) and its p from chi square with k - 1 degrees of freedom, each (...).

    `estimate`, `error`: (..., k). It takes the errors for known: too small a p where they are estimated. NaN for one
    site.
    """
    y, v, df = _sites(estimate, error, np.inf)
    found = _welch(y, v, df, np.zeros(y.shape[:-1]))
    return Homogeneity(found.statistic * found.df, found.df, None, found.p)


def welch_homogeneity(estimate: ArrayLike, error: ArrayLike, df: ArrayLike, between: ArrayLike = 0.0) -> Homogeneity:
    """Return Welch's test (1951) that sites differ by no more than a between-site variance, each field (...).

    `estimate`, `error`, `df`: (..., k); `between`: one number or (...). Kulinskaya and others 2004 for its use on
    contrasts of several studies. At `between` > 0 a site's variance is between + error^2, with the degrees of freedom
    of Satterthwaite 1946. NaN for one site.
    """
    y, v, free = _sites(estimate, error, df)
    return _welch(y, v, free, np.asarray(between, dtype=float))


def between_variance(estimate: ArrayLike, error: ArrayLike, df: ArrayLike = np.inf) -> Any:
    """Return the between-site variance, (...): where Welch's statistic is 1, and 0 where that is below 1 without it.

    `estimate`, `error`, `df`: (..., k). With errors that are known this is the estimator of Paule and Mandel 1982,
    which assumes no distribution of the sites and which Veroniki and others (2016) recommend beside REML; with
    estimated ones it has the idea of the estimator WT of Bakbergenuly, Hoaglin and Kulinskaya (2019), who solve for the
    moments of Q that Welch's test rests on. NaN for one site.
    """
    y, v, free = _sites(estimate, error, df)
    return _solved(y, v, free, lambda found: np.asarray(found.statistic) - 1)[()]


def between_interval(estimate: ArrayLike, error: ArrayLike, df: ArrayLike = np.inf, level: float = LEVEL) -> Interval:
    """Return the interval of the between-site variance: those at which Welch's test rejects in neither tail, (...).

    `estimate`, `error`, `df`: (..., k). With known errors it is the Q-profile interval of Viechtbauer 2007. Its lower
    end is above 0 exactly when the test of no variance has p below (1 - level) / 2; both ends are 0 where the sites
    are closer together than their errors allow. NaN for one site.
    """
    y, v, free = _sites(estimate, error, df)
    ends = ((1 - level) / 2, (1 + level) / 2)
    low, high = (_solved(y, v, free, lambda found, u=u: u - np.asarray(found.p)) for u in ends)
    return Interval(low[()], high[()], level)


def share_between(between: ArrayLike, error: ArrayLike) -> Any:
    """Return I^2, the share of the between-site variance in that of one site's estimate, (...).

    `between`: (...); `error`: (..., k). Higgins and Thompson 2002; the errors count by their typical variance
    (k - 1) sum w / ((sum w)^2 - sum w^2), w = 1 / error^2. It says how much of what is seen is not noise, and so grows
    with the number of blocks; how far apart sites are says the standard deviation between them. NaN for one site.
    """
    w = 1 / np.asarray(error, dtype=float) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        typical = (w.shape[-1] - 1) * w.sum(axis=-1) / (w.sum(axis=-1) ** 2 - (w**2).sum(axis=-1))
        return (np.asarray(between, dtype=float) / (np.asarray(between, dtype=float) + typical))[()]


def weighted(estimate: ArrayLike, error: ArrayLike, df: ArrayLike, between: ArrayLike) -> Weighted:
    """Return the mean of the sites weighted by 1 / (between + error^2), its variance and degrees of freedom, (...).

    `estimate`, `error`, `df`: (..., k); `between`: (...). The variance is that at this `between`, taken as known; its
    degrees of freedom are Satterthwaite's (1946), infinite where all errors are known.
    """
    y, v, free = _sites(estimate, error, df)
    w = 1 / (v + np.asarray(between, dtype=float)[..., None])
    total = w.sum(axis=-1)
    with np.errstate(divide="ignore"):
        freedom = total**2 / ((w * w * v) ** 2 / free).sum(axis=-1)
    return Weighted((w * y).sum(axis=-1) / total, 1 / total, freedom)


def spread(estimate: ArrayLike, error: ArrayLike, df: ArrayLike = np.inf) -> Spread:
    """Return the confidence distribution of the between-site variance as values and weights, (..., 1 + NODES).

    `estimate`, `error`, `df`: (..., k). Its distribution function at a variance is the p of `welch_homogeneity` there,
    so that its quantiles are the ends of `between_interval` (Viechtbauer 2007; Nagashima and others 2019 for the use of
    such a distribution). What p leaves at 0 is a weight of its own; the rest is Gauss-Legendre quadrature over p, nodes
    dense at both ends, for a mean of few sites has the tails that come from there. NaN for one site.
    """
    y, v, free = _sites(estimate, error, df)
    none = np.clip(np.asarray(_welch(y, v, free, np.zeros(y.shape[:-1])).p), 0.0, 1.0)
    x, w = np.polynomial.legendre.leggauss(NODES)
    x = (x + 1) / 2
    at, weight = x * x * (3 - 2 * x), 3 * x * (1 - x) * w
    u = none[..., None] + (1 - none[..., None]) * at
    many = (np.broadcast_to(each[..., None, :], (*u.shape, y.shape[-1])) for each in (y, v, free))
    variance = _solved(*many, lambda found, u: u - np.asarray(found.p), u)
    zero = np.zeros((*none.shape, 1))
    return Spread(
        np.concatenate([zero, variance], axis=-1),
        np.concatenate([none[..., None], (1 - none[..., None]) * weight], axis=-1),
    )


def _sites(estimate: ArrayLike, error: ArrayLike, df: ArrayLike) -> tuple[Array, Array, Array]:
    """Estimates, variances and degrees of freedom in one shape."""
    y, e, free = sites(estimate, error, df)
    return y, e**2, free


def _welch(y: Array, v: Array, df: Array, between: Array) -> Homogeneity:
    k = y.shape[-1]
    if k < 2:
        return Homogeneity(*(np.full(y.shape[:-1], np.nan)[()] if name != "df" else 0 for name in Homogeneity._fields))
    total = v + between[..., None]
    w = 1 / total
    share = w / w.sum(axis=-1, keepdims=True)
    mean = (share * y).sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        q = (w * (y - mean) ** 2).sum(axis=-1) / (k - 1)
        off = ((1 - share) ** 2 * (v / total) ** 2 / df).sum(axis=-1)
        f, df2 = q / (1 + 2 * (k - 2) / (k * k - 1) * off), (k * k - 1) / (3 * off)
        # beyond a million degrees of freedom F is chi square, also to the last digits that special.fdtrc loses there
        p = np.where(df2 > 1e6, special.chdtrc(k - 1, f * (k - 1)), special.fdtrc(k - 1, np.minimum(df2, 1e6), f))
    return Homogeneity(f[()], k - 1, df2[()], p[()])


def _solved(y: Array, v: Array, df: Array, excess: Any, *given: Array) -> Array:
    """Return the between-site variance at which `excess` of Welch's test is 0, (...); 0 where it is not above 0 there.

    `excess` falls as the variance grows; `given`, (...), are more arguments of it.
    """
    shape, k = y.shape[:-1], y.shape[-1]
    if k < 2:
        return np.full(shape, np.nan)
    y, v, df = (each.reshape(-1, k) for each in (y, v, df))
    more = [np.asarray(each, dtype=float).ravel() for each in given]
    # on the scale of the sites' own scatter, so that one tolerance suits every metric
    scale = np.maximum(y.var(axis=-1, ddof=1), v.min(axis=-1) * 1e-12)

    def over(ratio: Array, cell: Array) -> Array:
        i = cell.astype(np.intp)
        return np.asarray(excess(_welch(y[i], v[i], df[i], ratio * scale[i]), *(each[i] for each in more)))

    out, cells = np.zeros(len(y)), np.arange(len(y))
    cells = cells[over(np.zeros(len(y)), cells) > 0]
    high = np.ones(len(cells))
    for _ in range(60):
        beyond = over(high, cells) > 0
        if not beyond.any():
            break
        high = np.where(beyond, high * 16, high)
    if len(cells):
        found = elementwise.find_root(over, (np.zeros(len(cells)), high), args=(cells.astype(float),), tolerances=EXACT)
        out[cells] = found.x * scale[cells]
    return out.reshape(shape)
