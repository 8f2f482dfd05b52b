"""How many trials a claim needs, and what a number of trials can show: plain numbers or arrays in, the same out.

Spreads, differences and margins are of one unit: that of the metric, a share of its mean (then the spread is a
coefficient of variation), or a log ratio. The spread of a comparison is the standard deviation of the differences
between two systems within a block. All samples are taken as normal; a pilot's spread is itself uncertain, see
`spread_limit`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special, stats

from infrabench.stats.intervals import LEVEL, NAN, Array, Numbers

ALPHA, POWER = 1 - LEVEL, 0.8
MOST = 1_000_000  # beyond, no number of trials is named


def half_width(sd: ArrayLike, n: ArrayLike, level: ArrayLike = LEVEL) -> Numbers:
    """Return the half-width of Student's interval (1908) of a mean of `n` trials, broadcast shape; NaN below two."""
    n, level = np.asarray(n, dtype=float), np.asarray(level, dtype=float)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (special.stdtrit(np.where(n > 1, n - 1, NAN), (1 + level) / 2) * np.asarray(sd) / np.sqrt(n))[()]


def n_for_precision(sd: ArrayLike, target: ArrayLike, level: float = LEVEL) -> Numbers:
    """Return the least n at which the half-width of Student's interval is at most `target` (Hoefler and Belli 2015).

    Broadcast shape of `sd` and `target`. With a CoV and 0.02, the n that pins the mean down to +-2 %. Takes the spread
    as known, so half of all samples of that size will be a little wider. NaN where the spread is unknown or 0, or a
    million is not enough.
    """
    sd, target = _floats(sd, target)
    return _least(lambda n: half_width(sd, n, level) <= target, _known(sd) & (target > 0))


def spread_limit(sd: ArrayLike, n: ArrayLike, level: float = LEVEL) -> Numbers:
    """Return the upper end of the chi-square interval of a standard deviation that `n` values gave.

    Broadcast shape of both. Exact for normal values (Cochran 1934), too short for heavy tails. NaN below two values.
    """
    sd, n = _floats(sd, n)
    df = np.where(n > 1, n - 1, NAN)
    return (sd * np.sqrt(df / stats.chi2.ppf((1 - level) / 2, df)))[()]


def t_power(difference: ArrayLike, sd: ArrayLike, n: ArrayLike, alpha: float = ALPHA) -> Numbers:
    """Return the probability that a two-sided t test of level `alpha` finds a true difference (Cohen 1988).

    Broadcast shape of the arguments. Both tails of the noncentral t distribution. For Holm over k contrasts give
    ``alpha / k``, its first step. NaN below two trials or without spread.
    """
    difference, sd, n = _floats(difference, sd, n)
    exists = _known(sd) & (n > 1)
    df, error = _design(np.where(exists, n, 2.0))
    shift = difference / np.where(exists, sd, 1.0) / error
    kept = _probability(0.0, special.stdtrit(df, 1 - alpha / 2), shift, df)
    return np.where(exists, 1 - kept, NAN)[()]


def detectable(sd: ArrayLike, n: ArrayLike, power: float = POWER, alpha: float = ALPHA) -> Numbers:
    """Return the smallest true difference that a two-sided t test finds with probability `power` (Cohen 1988).

    Unit of `sd`, broadcast shape of `sd` and `n`; of log ratios it is a log ratio. NaN below two trials or where the
    spread is unknown.
    """
    sd, n = _floats(sd, n)
    return (sd * _each(n, lambda size: _detectable(size, power, alpha)))[()]


def tost_power(
    sd: ArrayLike,
    n: ArrayLike,
    margin: ArrayLike,
    alpha: float = ALPHA,
    *,
    difference: ArrayLike = 0.0,
) -> Numbers:
    """Return the probability that two one-sided t tests at `margin` both pass, when the truth is `difference`.

    Broadcast shape of the arguments. Exact: the joint probability of both tests, the normal mean integrated over the
    chi distribution of the standard deviation (Owen 1965; Phillips 1990). Log ratios: give margin and difference as
    logarithms. NaN below two trials or without spread.
    """
    sd, n, margin, difference = _floats(sd, n, margin, difference)
    exists = _known(sd) & (n > 1) & np.isfinite(margin)
    df, error = _design(np.where(exists, n, 2.0))
    error = error * np.where(exists, sd, 1.0)
    room = np.where(exists, margin, 0.0) / error
    power = _probability(room, -special.stdtrit(df, 1 - alpha), difference / error, df)
    return np.where(exists, power, NAN)[()]


def blocks_to_decide(sd: ArrayLike, margin: ArrayLike, tests: ArrayLike = 1, off: ArrayLike = 0.0) -> Numbers:
    """Return the number of blocks at which no outcome is inconclusive, at this relative spread `sd` of the ratio.

    Broadcast shape of the arguments; `sd`: standard deviation of x - r y as a share of the baseline's mean, or of the
    log ratios; `margin`: relative (0.02 = 2 %). `tests`: claims of equivalence in the family, the first of which Holm
    tests at 5 % over their number. `off`: what rounding may have moved the ratio by, on each side. An outcome is
    inconclusive when the 95 % interval holds 1 while the interval of the equivalence test leaves the margin. That
    cannot happen once both half-widths together, each with `off`, are no longer than the margin, whatever the
    difference turns out to be; the observed one does not enter. NaN where the spread is 0 or unknown, where rounding
    leaves no room in the margin, and where more than a million blocks would be needed.
    """
    sd, bound, tests, off = _floats(sd, margin, tests, off)
    bound = bound - 2 * off
    level = 1 - 2 * ALPHA / np.maximum(tests, 1)
    return _least(lambda n: half_width(sd, n) + half_width(sd, n, level) <= bound, _known(sd) & _known(bound))


def equivalence_margin(sd: ArrayLike, n: ArrayLike, power: float = POWER, alpha: float = ALPHA) -> Numbers:
    """Return the smallest margin within which equal systems are shown equivalent with probability `power`.

    Unit of `sd`, broadcast shape of `sd` and `n`; of log ratios it is a log ratio (Phillips 1990). NaN below two trials
    or where the spread is unknown.
    """
    sd, n = _floats(sd, n)
    return (sd * _each(n, lambda size: _margin(size, power, alpha)))[()]


def _floats(*values: ArrayLike) -> list[Array]:
    return list(np.broadcast_arrays(*(np.asarray(value, dtype=float) for value in values)))


def _known(value: Array) -> Array:
    return np.isfinite(value) & (value > 0)


def _design(n: Array) -> tuple[Array, Array]:
    """Degrees of freedom, and the standard error of the mean difference per unit of spread."""
    return n - 1, 1 / np.sqrt(n)


def _least(enough: Callable[[Array], Array], possible: Array) -> Numbers:
    """The least n of 2 .. `MOST` that is enough, by doubling and halving; NaN where it is not possible."""
    low, high = np.ones(possible.shape), np.full(possible.shape, 2.0)
    with np.errstate(invalid="ignore"):
        while (grow := possible & (high <= MOST) & ~enough(np.minimum(high, MOST))).any():
            low, high = np.where(grow, high, low), np.where(grow, 2 * high, high)
        high = np.minimum(high, MOST + 1.0)
        while (high - low > 1).any():
            middle = np.maximum(np.floor((low + high) / 2), 2)
            met = enough(middle)
            low, high = np.where(met, low, middle), np.where(met, middle, high)
    return np.where(possible & (high <= MOST), high, NAN)[()]


def _each(n: Array, solve: Callable[[int], float]) -> Array:
    """`solve` for each n, once for equal ones; they are few beside the cells."""
    sizes, where = np.unique(n, return_inverse=True)
    found = [solve(int(size)) if np.isfinite(size) and size > 1 else NAN for size in sizes]
    return np.array(found, dtype=float)[where].reshape(n.shape)


@lru_cache(maxsize=1024)
def _detectable(n: int, power: float, alpha: float) -> float:
    return _root(lambda effect: float(t_power(effect, 1.0, n, alpha)) - power)


@lru_cache(maxsize=1024)
def _margin(n: int, power: float, alpha: float) -> float:
    return _root(lambda margin: float(tost_power(1.0, n, margin, alpha)) - power)


def _root(rises: Callable[[float], float]) -> float:
    high = 1.0
    while rises(high) < 0:
        high *= 2
    return float(optimize.brentq(rises, 0.0, high, xtol=1e-12, rtol=1e-12))


def _probability(room: ArrayLike, slope: Array, shift: Array, df: Array) -> Array:
    """P(|z + shift| <= room + slope u), z standard normal, u the root of an independent chi-square over its `df`.

    u is the estimated spread over the true one. With room 0 and slope t it is what a two-sided t test keeps; with
    slope -t and the margin as room, in standard errors, what two one-sided tests pass.
    """
    low, high = (np.sqrt(2 * inverse(df / 2, 1e-16) / df) for inverse in (special.gammaincinv, special.gammainccinv))
    room = np.asarray(room)[..., None]
    nodes, weights = _rule()
    with np.errstate(divide="ignore", invalid="ignore"):
        # no estimate beyond -room / slope passes; the rule has to end there because its integrand has a kink
        high = np.where(slope < 0, np.clip(-room[..., 0] / slope, low, high), high)
        u = low[..., None] + (high - low)[..., None] * (nodes + 1) / 2
        half = df[..., None] / 2
        log_density = np.log(2 / u) + half * (np.log(half) + 2 * np.log(u) - u**2) - special.gammaln(half)
    end, shift = room + slope[..., None] * u, shift[..., None]
    inside = special.ndtr(end - shift) - special.ndtr(-end - shift)
    return (high - low) / 2 * (weights * inside * np.exp(log_density)).sum(axis=-1)


@lru_cache(maxsize=1)
def _rule() -> tuple[Array, Array]:
    """Nodes and weights of Gauss and Legendre, 128 of them for an error below 1e-10."""
    return np.polynomial.legendre.leggauss(128)
