"""What several sites say together: do they differ, their mean, what a new site would show, which one stands out.

`estimate`, `error`, `df`: (..., k), finite, k sites on the last axis: a log ratio (0 is no effect), its standard error
(positive), and the degrees of freedom of that, 29 from 30 blocks and 5 from 6 deployments; infinite for an error that
is known. The model is estimate_i ~ N(mean, between + error_i^2), `between` the variance of the true values of sites.

Everything rests on one statistic: Welch's (1951), with `between` added to each site's variance. It is Cochran's Q over
its degrees of freedom but for the correction that estimated errors need: with 5 degrees of freedom Q itself calls
three equal sites different in 11 to 15 of 100 campaigns, Welch's in 5 (`validation.sites`).

The composition of `summary` is this project's own: its parts are published, as said at each, the whole is not, so the
customary interval of the mean (`hartung_knapp`) stands beside it wherever it is shown. It was checked by simulation for
3 to 10 sites; with 20 sites of 6 deployments the interval of the mean covers 92.0 %, and `sites` says so there.

The intervals are quantiles of a mixture: the mean at one between-site variance, over the confidence distribution of
that variance (`spread`). What is customary takes the variance as if its estimate were the truth, and from 3 to 10 sites
that shows: in simulations (`validation.sites`) prediction intervals with Student's t of k - 1 or k - 2 degrees of
freedom (Higgins and others 2009; IntHout and others 2016) cover 85 to 92 % instead of 95 of new sites, after 5 and 10
that differ by about the error of one; Hartung and Knapp's interval of the mean covers 89 % where errors are unequal,
and with the modification 92 to 93 % there, and 100 % of equal sites. The mixture covers 93.5 % or more throughout, and
95 % where sites differ widely.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special
from scipy.optimize import elementwise

from infrabench.stats.intervals import LEVEL, Array, Interval
from infrabench.stats.pairwise import NARROW
from infrabench.stats.table import sample

NODES = 16  # of the quadrature over the between-site variance; they give four digits of an interval's end
EXACT = {"xrtol": 1e-10, "xatol": 0.0}  # of a between-site variance

FEWEST = 3  # sites; from two, the variance between them is anybody's guess


class Homogeneity(NamedTuple):
    """A test that the sites' true values are equal: statistic, its degrees of freedom, p."""

    statistic: Any
    df: int
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
    y, e, df = sites(estimate, error, np.inf)
    found = _welch(y, e**2, df, np.zeros(y.shape[:-1]))
    return Homogeneity(found.statistic * found.df, found.df, found.p)


def welch_homogeneity(estimate: ArrayLike, error: ArrayLike, df: ArrayLike, between: ArrayLike = 0.0) -> Homogeneity:
    """Return Welch's test (1951) that sites differ by no more than a between-site variance, each field (...).

    `estimate`, `error`, `df`: (..., k); `between`: one number or (...). Kulinskaya and others 2004 for its use on
    contrasts of several studies. At `between` > 0 a site's variance is between + error^2, with the degrees of freedom
    of Satterthwaite 1946. NaN for one site.
    """
    y, e, free = sites(estimate, error, df)
    return _welch(y, e**2, free, np.asarray(between, dtype=float))


def between_variance(estimate: ArrayLike, error: ArrayLike, df: ArrayLike = np.inf) -> Any:
    """Return the between-site variance, (...): where Welch's statistic is 1, and 0 where that is below 1 without it.

    `estimate`, `error`, `df`: (..., k). With errors that are known this is the estimator of Paule and Mandel 1982,
    which assumes no distribution of the sites and which Veroniki and others (2016) recommend beside REML; with
    estimated ones it has the idea of the estimator WT of Bakbergenuly, Hoaglin and Kulinskaya (2019), who solve for the
    moments of Q that Welch's test rests on. NaN for one site.
    """
    y, e, free = sites(estimate, error, df)
    return _solved(y, e**2, free, lambda found: np.asarray(found.statistic) - 1)[()]


def between_interval(estimate: ArrayLike, error: ArrayLike, df: ArrayLike = np.inf) -> Interval:
    """Return the 95 % interval of the between-site variance: where Welch's test rejects in neither tail, (...).

    `estimate`, `error`, `df`: (..., k). With known errors it is the Q-profile interval of Viechtbauer 2007. Its lower
    end is above 0 exactly when the test of no variance has p below 2.5 %; both ends are 0 where the sites are closer
    together than their errors allow. NaN for one site.
    """
    y, e, free = sites(estimate, error, df)
    ends = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
    low, high = (_solved(y, e**2, free, lambda found, u=u: u - np.asarray(found.p)) for u in ends)
    return Interval(low[()], high[()], LEVEL)


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
    y, e, free = sites(estimate, error, df)
    v = e**2
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
    y, e, free = sites(estimate, error, df)
    none = np.clip(np.asarray(_welch(y, e**2, free, np.zeros(y.shape[:-1])).p), 0.0, 1.0)
    x, w = np.polynomial.legendre.leggauss(NODES)
    x = (x + 1) / 2
    at, weight = x * x * (3 - 2 * x), 3 * x * (1 - x) * w
    u = none[..., None] + (1 - none[..., None]) * at
    many = (np.broadcast_to(each[..., None, :], (*u.shape, y.shape[-1])) for each in (y, e**2, free))
    variance = _solved(*many, lambda found, u: u - np.asarray(found.p), u)
    zero = np.zeros((*none.shape, 1))
    return Spread(
        np.concatenate([zero, variance], axis=-1),
        np.concatenate([none[..., None], (1 - none[..., None]) * weight], axis=-1),
    )


def _welch(y: Array, v: Array, df: Array, between: Array) -> Homogeneity:
    k = y.shape[-1]
    if k < 2:
        none = np.full(y.shape[:-1], np.nan)[()]
        return Homogeneity(none, 0, none)
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
    return Homogeneity(f[()], k - 1, p[()])


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


class Summary(NamedTuple):
    """The mean over sites with its intervals (95 %, and 90 % for equivalence), a new site's interval, and both p."""

    mean: Any
    interval: Interval
    narrow: Interval
    predicted: Interval
    p: Any  # of 0
    p_outside: Any  # of a mean outside the margin; NaN without one


class Deleted(NamedTuple):
    """Of each site, (..., k): what the others say of it. p are two-sided and not adjusted."""

    apart: Any  # its estimate minus the mean of the others
    p_apart: Any  # that its true value is the mean of the others' true values, whatever these are
    p_others: Any  # that the others have one true value
    p_predicted: Any  # that it comes from where the others come from


class Mixture(NamedTuple):
    """Student's t of several locations, scales and degrees of freedom, each with its weight; (..., nodes)."""

    centre: Array
    scale: Array
    df: Array
    weight: Array


def summary(
    estimate: ArrayLike, error: ArrayLike, df: ArrayLike, within: tuple[ArrayLike, ArrayLike] = (np.nan, np.nan)
) -> Summary:
    """Return the random-effects mean over sites with its interval, the prediction interval, and p of no effect, (...).

    `estimate`, `error`, `df`: (..., k); `within`: the ends of a margin around 0, one number or (...), for the p of two
    one-sided tests (Schuirmann 1987), which is below 5 % exactly when the narrow interval lies inside. The mean has the
    weights 1 / (between + error^2) at the estimated variance (Paule and Mandel 1982). Its interval and that of a new
    site's true value integrate over the confidence distribution of the variance (Nagashima and others 2019; for the
    mean, in the form of Iyer, Wang and Mathew 2004). p below 0.0001 is known to a tenth. NaN below three sites.
    """
    y, e, free = sites(estimate, error, df)
    none = np.full(y.shape[:-1], np.nan)[()]
    if y.shape[-1] < FEWEST:
        return Summary(none, *(Interval(none, none, each) for each in (LEVEL, NARROW, LEVEL)), none, none)
    centre = weighted(y, e, free, between_variance(y, e, free)).mean
    mean, new = _mixtures(y, e, free)
    below = _below(mean, np.zeros(y.shape[:-1]))
    least, most = (_below(mean, np.broadcast_to(np.asarray(end, dtype=float), y.shape[:-1])) for end in within)
    return Summary(
        centre, _interval(mean, LEVEL), _interval(mean, NARROW), _interval(new, LEVEL),
        2 * np.minimum(below, 1 - below), np.maximum(least, 1 - most),
    )  # fmt: skip


def hartung_knapp(estimate: ArrayLike, error: ArrayLike, between: ArrayLike) -> Interval:
    """Return the 95 % interval of the mean over sites of Hartung and Knapp 2001 (Sidik and Jonkman 2002), (...).

    `estimate`, `error`: (..., k); `between`: (...), the variance to weight with. Never narrower than Student's t with
    the variance of known errors (Rover, Knapp and Friede 2015). Shown beside `summary`, on which verdicts rest. NaN
    for one site.
    """
    y, e, _ = sites(estimate, error, np.inf)
    found = weighted(y, e, np.inf, between)
    k = y.shape[-1]
    w = 1 / (e**2 + np.asarray(between, dtype=float)[..., None])
    with np.errstate(divide="ignore", invalid="ignore"):
        q = (w * (y - np.asarray(found.mean)[..., None]) ** 2).sum(axis=-1) / np.float64(k - 1)
        half = special.stdtrit(k - 1, (1 + LEVEL) / 2) * np.sqrt(np.maximum(q, 1.0) * found.variance)
    return Interval(found.mean - half, found.mean + half, LEVEL)


def deleted(
    estimate: ArrayLike, error: ArrayLike, df: ArrayLike, own: tuple[ArrayLike, ArrayLike] | None = None
) -> Deleted:
    """Return how far each site is from the others, and whether they predict it, (..., k).

    `estimate`, `error`, `df`: (..., k); `own`: two ends, each (..., k), between which a site may lie when the others
    have their estimates; p are the largest between them (default: `estimate`). Deleted residuals (Viechtbauer and
    Cheung 2010), studentised in two ways. ``p_apart``: Welch's t (1947) of the site against the weighted mean of the
    others; it says something of these sites only. ``p_predicted``: the site's place in what the others predict for a
    new one, their spread and its uncertainty included. NaN where fewer than two others are left.
    """
    y, e, free = sites(estimate, error, df)
    k = y.shape[-1]
    if k < FEWEST:
        return Deleted(*(np.full(y.shape, np.nan) for _ in range(4)))
    low, high = (y, y) if own is None else (sample(end, "an end of the sites' own") for end in own)
    found = [_without(y, e, free, (low, high), site, [i for i in range(k) if i != site]) for site in range(k)]
    return Deleted(*(np.stack(each, axis=-1) for each in zip(*found, strict=True)))


def _without(y: Array, e: Array, df: Array, own: tuple[Array, Array], site: int, others: list[int]) -> tuple[Any, ...]:
    rest = y[..., others], e[..., others], df[..., others]
    fixed = weighted(*rest, np.zeros(y.shape[:-1]))
    (low, high), v = (end[..., site] for end in own), e[..., site] ** 2
    freedom = (v + fixed.variance) ** 2 / (v**2 / df[..., site] + fixed.variance**2 / fixed.df)
    gap = np.maximum(np.maximum(low - fixed.mean, fixed.mean - high), 0.0)
    apart = 2 * _student(freedom, -gap / np.sqrt(v + fixed.variance))
    new = _mixtures(*rest)[1]
    known = new.scale**2
    total = known + v[..., None]
    scatter = Mixture(
        new.centre, np.sqrt(total), total**2 / (known**2 / new.df + (v**2 / df[..., site])[..., None]), new.weight
    )
    predicted = np.minimum(2 * np.minimum(_below(scatter, high), 1 - _below(scatter, low)), 1.0)
    return y[..., site] - fixed.mean, apart, welch_homogeneity(*rest).p, predicted


def _mixtures(y: Array, e: Array, df: Array) -> tuple[Mixture, Mixture]:
    """What the sites say of their mean, and of a new site's true value."""
    over = spread(y, e, df)
    found = weighted(*(each[..., None, :] for each in (y, e, df)), over.variance)
    scale = np.sqrt(found.variance), np.sqrt(found.variance + over.variance)
    return Mixture(found.mean, scale[0], found.df, over.weight), Mixture(found.mean, scale[1], found.df, over.weight)


def _student(df: Any, t: Any) -> Array:
    """The distribution function of t; with so many degrees of freedom that nothing tells it from the normal, that."""
    known = np.asarray(df) > 1e9
    if known.all():
        return np.asarray(special.ndtr(t))
    found = np.asarray(special.stdtr(np.minimum(df, 1e9), t))
    return np.where(known, special.ndtr(t), found) if known.any() else found


def _below(mixture: Mixture, at: Array) -> Array:
    return (mixture.weight * _student(mixture.df, (at[..., None] - mixture.centre) / mixture.scale)).sum(axis=-1)


def _interval(mixture: Mixture, level: float) -> Interval:
    return Interval(*(_quantile(mixture, u)[()] for u in ((1 - level) / 2, (1 + level) / 2)), level)


def _quantile(mixture: Mixture, u: float) -> Array:
    shape, nodes = mixture.centre.shape[:-1], mixture.centre.shape[-1]
    flat = Mixture(*(each.reshape(-1, nodes) for each in mixture))
    start, unit = flat.centre[:, 0], flat.scale[:, 0]

    def over(at: Array, cell: Array) -> Array:
        i = cell.astype(np.intp)
        return _below(Mixture(*(each[i] for each in flat)), start[i] + at * unit[i]) - u

    cells = np.arange(len(start), dtype=float)
    ends = elementwise.bracket_root(over, np.full(len(start), -3.0), np.full(len(start), 3.0), args=(cells,))
    found = elementwise.find_root(over, ends.bracket, args=(cells,), tolerances={"xrtol": 1e-8, "xatol": 1e-8})
    return (start + found.x * unit).reshape(shape)


def sites(estimate: ArrayLike, error: ArrayLike, df: ArrayLike) -> tuple[Array, Array, Array]:
    """Return what k sites say, each (..., k): estimates, standard errors, and the degrees of freedom of these.

    `error`: also (k,), where sites have the same in all cells; `df`: also that, or one number. Raises `ValueError` as
    `sample`, for an error or degrees of freedom that are not positive, and for those of other sites.
    """
    y, e, free = sample(estimate, "the estimates"), sample(error, "the errors"), np.asarray(df, dtype=float)
    if e.shape not in (y.shape, y.shape[-1:]) or free.shape not in (y.shape, y.shape[-1:], ()):
        raise ValueError(f"{y.shape} estimates have {e.shape} errors with {free.shape} df: give one to each site")
    if not (e > 0).all() or not (free > 0).all():
        raise ValueError("a standard error or its degrees of freedom is not above 0: leave out a site without spread")
    return y, np.broadcast_to(e, y.shape), np.broadcast_to(free, y.shape)
