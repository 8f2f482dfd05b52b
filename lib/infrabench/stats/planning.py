"""How many trials a claim needs, and what a number of trials can show: plain numbers or arrays in, the same out.

Spreads, differences and margins are of one unit: that of the metric, a share of its mean (then the spread is a
coefficient of variation), or a log ratio. "Paired" speaks of the standard deviation of the differences between two
systems within a block; else it is that of one system's trials, and `n` is the number of trials of each system.
All samples are taken as normal; a pilot's spread is itself uncertain, see `spread_limit`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special, stats

from infrabench.stats.equivalence import NARROW, log_margin
from infrabench.stats.intervals import LEVEL, NAN, Array, Numbers

ALPHA, POWER = 1 - LEVEL, 0.8
MOST = 1_000_000  # beyond, no number of trials is named


def half_width(sd: ArrayLike, n: ArrayLike, level: float = LEVEL) -> Numbers:
    """Return the half-width of Student's interval (1908) of a mean of `n` trials, broadcast shape; NaN below two."""
    n = np.asarray(n, dtype=float)
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


def t_power(
    difference: ArrayLike, sd: ArrayLike, n: ArrayLike, alpha: float = ALPHA, *, paired: bool = True
) -> Numbers:
    """Return the probability that a two-sided t test of level `alpha` finds a true difference (Cohen 1988).

    Broadcast shape of the arguments. Both tails of the noncentral t distribution. For Holm over k contrasts give
    ``alpha / k``, its first step. NaN below two trials or without spread.
    """
    difference, sd, n = _floats(difference, sd, n)
    exists = _known(sd) & (n > 1)
    df, error = _design(np.where(exists, n, 2.0), paired)
    shift = difference / np.where(exists, sd, 1.0) / error
    kept = _probability(0.0, special.stdtrit(df, 1 - alpha / 2), shift, df)
    return np.where(exists, 1 - kept, NAN)[()]


def detectable(
    sd: ArrayLike, n: ArrayLike, power: float = POWER, alpha: float = ALPHA, *, paired: bool = True
) -> Numbers:
    """Return the smallest true difference that a two-sided t test finds with probability `power` (Cohen 1988).

    Unit of `sd`, broadcast shape of `sd` and `n`; of log ratios it is a log ratio. NaN below two trials or where the
    spread is unknown.
    """
    sd, n = _floats(sd, n)
    return (sd * _each(n, lambda size: _detectable(size, power, alpha, paired)))[()]


def n_for_difference(
    sd: ArrayLike, difference: ArrayLike, power: float = POWER, alpha: float = ALPHA, *, paired: bool = True
) -> Numbers:
    """Return the least n (blocks, or trials of each system) that finds a true `difference` with probability `power`.

    Broadcast shape of `sd` and `difference` (Cohen 1988). NaN where the spread is unknown or 0, the difference 0, or a
    million is not enough.
    """
    sd, difference = _floats(sd, difference)
    enough = lambda n: t_power(difference, sd, n, alpha, paired=paired) >= power  # noqa: E731
    return _least(enough, _known(sd) & _known(np.abs(difference)))


def tost_power(
    sd: ArrayLike,
    n: ArrayLike,
    margin: ArrayLike,
    alpha: float = ALPHA,
    *,
    difference: ArrayLike = 0.0,
    paired: bool = True,
) -> Numbers:
    """Return the probability that two one-sided t tests at `margin` both pass, when the truth is `difference`.

    Broadcast shape of the arguments. Exact: the joint probability of both tests, the normal mean integrated over the
    chi distribution of the standard deviation (Owen 1965; Phillips 1990). Log ratios: give margin and difference as
    logarithms. NaN below two trials or without spread.
    """
    sd, n, margin, difference = _floats(sd, n, margin, difference)
    exists = _known(sd) & (n > 1) & np.isfinite(margin)
    df, error = _design(np.where(exists, n, 2.0), paired)
    error = error * np.where(exists, sd, 1.0)
    room = np.where(exists, margin, 0.0) / error
    power = _probability(room, -special.stdtrit(df, 1 - alpha), difference / error, df)
    return np.where(exists, power, NAN)[()]


def n_for_equivalence(
    sd: ArrayLike,
    margin: ArrayLike,
    power: float = POWER,
    alpha: float = ALPHA,
    *,
    difference: ArrayLike = 0.0,
    paired: bool = True,
) -> Numbers:
    """Return the least n at which equivalence within `margin` is shown with probability `power` (Phillips 1990).

    Broadcast shape of the arguments. NaN where the spread is unknown or 0, the true difference is not inside the
    margin, or a million is not enough.
    """
    sd, margin, difference = _floats(sd, margin, difference)
    enough = lambda n: tost_power(sd, n, margin, alpha, difference=difference, paired=paired) >= power  # noqa: E731
    return _least(enough, _known(sd) & (np.abs(difference) < margin))


def blocks_to_decide(sd: ArrayLike, margin: ArrayLike) -> Numbers:
    """Return the number of blocks at which no outcome is inconclusive, at this spread `sd` of the log ratios.

    Broadcast shape of `sd` and `margin` (relative, 0.02 = 2 %). An outcome is inconclusive when the 95 % interval holds
    1 while the 90 % interval leaves the margin. That cannot happen once both half-widths together are no longer than
    the margin, whatever the difference turns out to be; the observed one does not enter. NaN where the spread is 0 or
    unknown, and where more than a million blocks would be needed.
    """
    sd, bound = _floats(sd, log_margin(margin))
    widths = lambda n: half_width(sd, n) + half_width(sd, n, NARROW)  # noqa: E731
    return _least(lambda n: widths(n) <= bound, _known(sd) & np.isfinite(bound))


def equivalence_margin(
    sd: ArrayLike, n: ArrayLike, power: float = POWER, alpha: float = ALPHA, *, paired: bool = True
) -> Numbers:
    """Return the smallest margin within which equal systems are shown equivalent with probability `power`.

    Unit of `sd`, broadcast shape of `sd` and `n`; of log ratios it is a log ratio (Phillips 1990). NaN below two trials
    or where the spread is unknown.
    """
    sd, n = _floats(sd, n)
    return (sd * _each(n, lambda size: _margin(size, power, alpha, paired)))[()]


def n_for_percentile(share: float, level: float = LEVEL, *, one_sided: bool = False) -> int:
    """Return the least n with a finite order-statistic interval of a percentile, `share` = 0.99 for the 99th.

    Le Boudec 2010: the largest of n values is above it with probability 1 - share^n. Two-sided 95 %: 36, 72, 368 and
    3688 for p90, p95, p99 and p99.9. `one_sided`: only the bound away from the median.
    """
    tail = 1 - level if one_sided else (1 - level) / 2
    return int(np.ceil(np.log(tail) / np.log(max(share, 1 - share))))


def _floats(*values: ArrayLike) -> list[Array]:
    return list(np.broadcast_arrays(*(np.asarray(value, dtype=float) for value in values)))


def _known(value: Array) -> Array:
    return np.isfinite(value) & (value > 0)


def _design(n: Array, paired: bool) -> tuple[Array, Array]:
    """Degrees of freedom, and the standard error of the difference per unit of spread."""
    return (n - 1, 1 / np.sqrt(n)) if paired else (2 * (n - 1), np.sqrt(2 / n))


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
def _detectable(n: int, power: float, alpha: float, paired: bool) -> float:
    return _root(lambda effect: float(t_power(effect, 1.0, n, alpha, paired=paired)) - power)


@lru_cache(maxsize=1024)
def _margin(n: int, power: float, alpha: float, paired: bool) -> float:
    return _root(lambda margin: float(tost_power(1.0, n, margin, alpha, paired=paired)) - power)


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
