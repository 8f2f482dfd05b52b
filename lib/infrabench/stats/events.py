"""Counts of events and shares, and what a contrast of them says.

Counts and exposures are of any broadcast shape; the last axis holds units (blocks or deployments) where it is named
(..., n). An exposure is how much chance there was of an event: trials, requests, seconds.

A contrast is exact where the events are independent, and over units where they are not. Counts of blocks that vary more
than chance explains are clustered: then a block, and not an event, is what was repeated, and the comparison is over
units (blocks, or deployments where there are several). The bar for that is low, for missing a cluster makes false
verdicts and seeing one that is not there costs a little power.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from infrabench.stats import intervals
from infrabench.stats.intervals import LEVEL, NAN, Array, Estimate, Interval
from infrabench.stats.table import PER_BLOCK, PER_DEPLOYMENT

SEED = 1969
EXACT_UNITS = 14  # up to so many units every subset of them is taken, beyond that DRAWN are drawn
DRAWN = 19_999
HALVINGS = 45  # of the confidence level at which an interval reaches no difference: a p is known to 3e-14

NARROW = 0.9  # level of the interval that goes with two one-sided tests at 5 %
COUNT, SHARE = "count", "share"
BY_COUNTS, BY_SHARES, BY_UNITS = "conditional binomial, counts", "Newcombe, shares", "sign flips over {unit}"
DISPERSED = 0.2  # p of the dispersion test below which events are taken as clustered
LEAST_BLOCKS = 3  # fewer do not show whether events are clustered
FAR_FROM_0 = 10  # events in every block and system: the interval of any other metric is as good
CLUSTERED = "events are clustered, more than chance explains"
FRACTIONS = "shares inside trials: how many chances each had is not recorded"
FEW_BLOCKS = f"fewer than {LEAST_BLOCKS} blocks do not show whether events are clustered"
FEW_UNITS = "fewer than 6 {unit}: no interval"
NOTHING = "no event in either: at most {most:.2g} a trial (95 %)"
ELSEWHERE = "no event in the {n:g} complete blocks, but {count:g} in those that lack one of the two: nothing is bounded"
BY_DIFFERENCE = "a share: judged by the difference, within +- the margin"


class Sums(NamedTuple):
    """What each subset of units holds: events of both, and exposure."""

    x: Array
    y: Array
    exposure: Array


class Typical(NamedTuple):
    """Intervals of ratio and difference of the rates over units, which agree with each other."""

    ratio: Interval
    difference: Interval


def poisson_ratio(x: ArrayLike, y: ArrayLike, level: float = LEVEL) -> Estimate:
    """Return the ratio of two Poisson rates of one exposure, and its exact interval, broadcast shape.

    `x`, `y`: counts. Given x + y, x is binomial with the share r / (r + 1): the interval of that share is Clopper and
    Pearson's (1934), and the ratio's follows from it (Przyborowski and Wilenski 1940). With `y` = 0 the ratio and its
    upper end are infinite and the lower end is not; NaN where both counts are 0.
    """
    x, y = np.broadcast_arrays(*(np.asarray(each, dtype=float) for each in (x, y)))
    total = x + y
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(x > 0, stats.beta.ppf((1 - level) / 2, x, y + 1), 0.0)
        high = np.where(y > 0, stats.beta.ppf((1 + level) / 2, x + 1, y), 1.0)
        value, low, high = (share / (1 - share) for share in (x / total, low, high))
    value, low, high, level = (np.where(total > 0, each, NAN)[()] for each in (value, low, high, level))
    return Estimate(value, Interval(low, high, level))


def poisson_p(x: ArrayLike, y: ArrayLike) -> Any:
    """Return the two-sided p of equal Poisson rates, given x + y, broadcast shape (Przyborowski and Wilenski 1940).

    Twice the smaller binomial tail, so it is at most 1 - level exactly when the interval of `poisson_ratio` excludes 1.
    NaN where both counts are 0.
    """
    return np.minimum(2 * np.minimum(*_tails(x, y, 1.0)), 1.0)[()]


def poisson_equivalence(x: ArrayLike, y: ArrayLike, low: float, high: float) -> Any:
    """Return the p of "the ratio of the Poisson rates lies outside `low` .. `high`", broadcast shape of the counts.

    Two one-sided exact tests (Schuirmann 1987): below 5 % exactly when the 90 % interval of `poisson_ratio` lies
    inside. NaN where both counts are 0.
    """
    return np.maximum(_tails(x, y, low)[1], _tails(x, y, high)[0])[()]


def poisson_interval(x: ArrayLike, m: ArrayLike) -> Interval:
    """Return the exact interval of a Poisson rate x / m, broadcast shape (Garwood 1936); NaN for a NaN count.

    `x` need not be whole: events in clusters may say as much as a part of one (`event_means`).
    """
    x, m = np.broadcast_arrays(np.asarray(x, dtype=float), np.asarray(m, dtype=float))
    low = np.where(x > 0, stats.gamma.ppf((1 - LEVEL) / 2, np.where(x > 0, x, 1.0)), 0.0) / m
    return intervals.interval(low, stats.gamma.ppf((1 + LEVEL) / 2, x + 1) / m, LEVEL, np.isfinite(x))


def clopper_pearson(x: ArrayLike, n: ArrayLike) -> Interval:
    """Return the exact interval of a share, `x` of `n`, broadcast shape (Clopper and Pearson 1934).

    Neither need be whole (`event_means`). 0 of n have the lower end 0, n of n the upper end 1. NaN where `n` is 0, or
    `x` is not among them.
    """
    x, n = np.broadcast_arrays(np.asarray(x, dtype=float), np.asarray(n, dtype=float))
    exists = (n > 0) & (x >= 0) & (x <= n)
    inside, tries = np.where(exists, x, 0.0), np.where(exists, n, 1.0)
    some, all_but = np.where(inside > 0, inside, 1.0), np.where(inside < tries, tries - inside, 1.0)
    low = np.where(inside > 0, stats.beta.ppf((1 - LEVEL) / 2, some, tries - inside + 1), 0.0)
    high = np.where(inside < tries, stats.beta.ppf((1 + LEVEL) / 2, inside + 1, all_but), 1.0)
    return intervals.interval(low, high, LEVEL, exists)


def poisson_difference(x: ArrayLike, y: ArrayLike, n: ArrayLike) -> Interval:
    """Return the 95 % interval of (x - y) / n for two Poisson counts of one exposure `n`, broadcast shape.

    Squares of the distances to the exact ends of each rate are added (Zou and Donner 2008), as Newcombe does for
    shares. NaN for a NaN count.
    """
    rates = (np.asarray(each, dtype=float) / n for each in (x, y))
    return _squares_added(*rates, poisson_interval(x, n), poisson_interval(y, n), LEVEL)


def newcombe_interval(x: ArrayLike, m: ArrayLike, y: ArrayLike, n: ArrayLike, level: float = LEVEL) -> Interval:
    """Return the interval of the difference of two shares, x of m less y of n, broadcast shape.

    Newcombe 1998 (Statistics in Medicine 17:873-890), method 10: from Wilson's score intervals of both. NaN where `m`
    or `n` is 0, or a count is not among them.
    """
    a, b = intervals.wilson_interval(x, m, level), intervals.wilson_interval(y, n, level)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = (np.asarray(each, dtype=float) / of for each, of in ((x, m), (y, n)))
        return _squares_added(*shares, a, b, level)


def newcombe_p(x: float, m: float, y: float, n: float, margin: float = 0.0) -> float:
    """Return the p that goes with `newcombe_interval`: 1 - level of the one that just reaches `margin`.

    Two-sided, shape of one number; below 1 - level exactly when the interval of that level excludes `margin` (a
    difference of shares). 1 where the difference is the margin itself. Source as there: Newcombe 1998. NaN without
    trials.
    """
    if not m or not n:
        return NAN
    difference = x / m - y / n
    if difference == margin:
        return 1.0
    inside, outside = 0.0, 1.0  # levels
    for _ in range(HALVINGS):
        level = (inside + outside) / 2
        low, high = newcombe_interval(x, m, y, n, level)[:2]
        inside, outside = (level, outside) if not low <= margin <= high else (inside, level)
    return 1 - inside


def dispersion_p(counts: ArrayLike, exposure: ArrayLike, *, of_trials: bool = False) -> Any:
    """Return the p of counts (..., n) that vary no more than chance: Poisson's, or binomial with `of_trials`.

    `exposure`: (..., n), of the same unit throughout; with `of_trials` it is the number of trials. Fisher's index of
    dispersion (1925): the sum of (count - expected)^2 / variance is chi-squared with n - 1 degrees of freedom, and
    large where counts are clustered. Leading axes of the last but one axis are summed: systems are tested together. NaN
    below two units, and where no count differs from what all have.
    """
    counts, exposure = np.broadcast_arrays(np.asarray(counts, dtype=float), np.asarray(exposure, dtype=float))
    n = counts.shape[-1]
    rate = counts.sum(axis=-1, keepdims=True) / exposure.sum(axis=-1, keepdims=True)
    variance = exposure * rate * (1 - rate if of_trials else 1.0)
    some = variance[..., 0] > 0
    square = np.divide((counts - exposure * rate) ** 2, variance, out=np.zeros(counts.shape), where=variance > 0)
    df = np.where(some, n - 1, 0).sum(axis=-1)
    p = stats.chi2.sf(square.sum(axis=(-1, -2)), np.maximum(df, 1))
    return np.where(df > 0, p, NAN)[()]


def subset_sums(x: Array, y: Array, exposure: Array) -> Sums:
    """Return the sums of `x`, `y` and `exposure`, (n,) each, over random subsets of the units, shape (subsets,) each.

    `x`, `y`: what was counted in each unit, paired; `exposure`: the same for both. Hartigan 1969. No unit: empty.
    """
    # subsets go by place: sorted, the units say the same however they are numbered
    order = np.lexsort((exposure, y, x))
    return Sums(*intervals.sums(np.stack([x, y, exposure])[:, order], subsets(x.size).T))


def typical_p(sums: Sums, ratio: float = 1.0) -> float:
    """Return the two-sided p of a `ratio` of the rates, when the labels of each unit are exchanged at random.

    `sums`: of `subset_sums`, (subsets,). The sign-flip test (Fisher 1935): exchanging the labels of a subset turns the
    sign of its part of the sum of x - ratio y. Nothing is assumed of how counts vary. NaN without a unit.
    """
    sign = _signs(sums, ratio)
    tail = min((sign <= 0).sum(), (sign >= 0).sum()) + 1
    return min(2 * float(tail) / (sign.size + 1), 1.0) if sign.size else NAN


def typical_values(sums: Sums, level: float = LEVEL) -> Typical:
    """Return intervals of ratio and difference of the rates, from `sums` of `subset_sums`, (subsets,).

    Hartigan 1969: where the labels of each unit could as well be exchanged, the values of random subsets divide the
    line into equally likely parts, so their quantiles are an interval. The ratio excludes 1 exactly when the difference
    excludes 0, and when `typical_p` is at most 1 - level. With fewer than 6 units there is no 95 % interval (NaN); an
    end of the ratio is infinite where too many subsets hold no event of y.
    """
    k = int((sums.x.size + 1) * (1 - level) / 2 * (1 + 1e-9))
    if k == 0:
        none = Interval(NAN, NAN, level)
        return Typical(none, none)
    sign, exists = _signs(sums), (sums.x > 0) | (sums.y > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(sign == 0, 1.0, sums.x / sums.y)
    difference = np.where(sign == 0, 0.0, sums.x - sums.y) / sums.exposure
    # a subset without events says nothing: it stands at whatever end is asked for
    low, high = np.where(exists, ratio, 0.0), np.where(exists, ratio, np.inf)
    lows = (np.partition(each, k - 1)[k - 1] for each in (low, difference))
    highs = (np.partition(each, -k)[-k] for each in (high, difference))
    return Typical(*(Interval(a, b, level) for a, b in zip(lows, highs, strict=True)))


@lru_cache(maxsize=64)
def subsets(n: int) -> NDArray[np.float64]:
    """Return subsets of `n` units that are not empty, as rows of 0 and 1, shape (subsets, n): all, or `DRAWN` of them.

    Hartigan 1969. Read-only, for it is kept; empty for n = 0.
    """
    if n <= EXACT_UNITS:
        rows = (np.arange(1, 2**n)[:, None] >> np.arange(n)) & 1
    else:
        rows = np.random.default_rng([SEED, n]).integers(0, 2, size=(DRAWN, n))
        rows[~rows.any(axis=1), 0] = 1
    chosen: NDArray[np.float64] = rows.astype(float)
    chosen.flags.writeable = False
    return chosen


def _signs(sums: Sums, ratio: float = 1.0) -> Array:
    """The sign of x - ratio y of each subset, 0 where they are equal up to rounding."""
    other = ratio * sums.y
    rounding = 8 * np.finfo(float).eps * (np.abs(sums.x) + np.abs(other))
    signs: Array = np.where(np.abs(sums.x - other) <= rounding, 0.0, np.sign(sums.x - other))
    return signs


def _tails(x: ArrayLike, y: ArrayLike, ratio: float) -> tuple[Array, Array]:
    """P(X <= x) and P(X >= x), given x + y, where the ratio of the rates is `ratio`; NaN where there is no event."""
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    share, total = ratio / (ratio + 1), x + y
    below, above = stats.binom.cdf(x, total, share), stats.binom.sf(x - 1, total, share)
    return np.where(total > 0, below, NAN), np.where(total > 0, above, NAN)


def _squares_added(a: Array, b: Array, of_a: Interval, of_b: Interval, level: float) -> Interval:
    """The interval of a - b from those of a and b."""
    low = a - b - np.sqrt((a - of_a.low) ** 2 + (of_b.high - b) ** 2)
    high = a - b + np.sqrt((of_a.high - a) ** 2 + (b - of_b.low) ** 2)
    return intervals.interval(low, high, level, np.isfinite(low) & np.isfinite(high))


class Events(NamedTuple):
    """What one contrast counted: sums of both systems over units, and the blocks in each; of blocks alone as well."""

    x: Array  # (units,) system
    y: Array  # (units,) baseline
    blocks: Array  # (units,) complete blocks: the exposure of both
    by_block: Array  # (2, blocks) system and baseline
    unit: str  # blocks or deployments


def judge_events(
    kind: str, values: Array, deployment: NDArray[np.intp] | None, margin: float, *, percent: bool
) -> dict[str, Any]:
    """Return the columns of a contrast of counts or shares, in place of those of `verdicts.judge`, as scalars by name.

    ``apart``: whether a ratio of 1, or a difference of 0, is excluded; ``inferred``: whether there was anything to
    infer from; ``equivalence_low``, ``equivalence_high``: the 90 % interval of the ratio.

    `kind`: ``count`` or ``share`` (in 0 .. 1, or in `percent`). `values`: (2, blocks), system and baseline, NaN where a
    block lacks one; `deployment`: (blocks,), which deployment each is of, or None where blocks are the units. Empty
    where the ordinary comparison holds: below two units, and where shares are the same in every block. Of clustered
    counts far from 0, for which it holds too, a ``reason`` alone.

    Counts of independent events: exact conditional binomial test and interval of their ratio; both have as many trials.
    Shares of 0 and 1: Newcombe's interval of their difference, the margin in the same unit. Else ratios over random
    subsets of the units (`typical_values`). Sources are named there.
    """
    unit = PER_BLOCK if deployment is None else PER_DEPLOYMENT
    blocks = values[:, np.isfinite(values).all(axis=0)]
    events = Events(*blocks, np.ones(blocks.shape[-1]), blocks, unit)
    if deployment is not None:
        _, label = np.unique(deployment[np.isfinite(values).all(axis=0)], return_inverse=True)
        sums = (np.bincount(label, weights) for weights in (*blocks, np.ones(label.size)))
        events = Events(*sums, blocks, unit)
    if events.blocks.size < 2:
        return {}
    trials = kind == SHARE and not percent and bool(np.isin(events.by_block, (0.0, 1.0)).all())
    clustered = _clustered(events, of_trials=trials)
    why = CLUSTERED
    if kind == SHARE and not trials:
        clustered, why = True, FRACTIONS
    elif events.by_block.shape[-1] < LEAST_BLOCKS:
        clustered, why = True, FEW_BLOCKS
    if kind == COUNT and (events.by_block >= FAR_FROM_0).all() and clustered:
        return {"reason": f"{why}: compared over {unit}"}
    if why == FRACTIONS and (events.by_block[0] == events.by_block[1]).all():
        return {}
    x, y, n = (float(each.sum()) for each in (events.x, events.y, events.blocks))
    row = {"mean": x / n, "baseline_mean": y / n, "difference": x / n - y / n}
    row |= {"spread": NAN, "off": 0.0, "limited": False}  # what only `judge` has
    row["ratio"] = x / y if y else np.inf if x else NAN
    if not x and not y and not trials:
        count = float(np.nansum(values))
        word = ELSEWHERE.format(n=blocks.shape[-1], count=count) if count else ""
        word = word or NOTHING.format(most=_round_up(float(poisson_interval(0.0, n).high)))
        row |= _columns(None, NAN, intervals.no_interval(()), poisson_difference(x, y, n))
        return row | {"inferred": False, "apart": False, "reason": word}
    if clustered:
        return row | _by_units(events, margin, why)
    return row | (_by_shares(x, y, n, margin) if trials else _by_counts(x, y, n, margin))


def _round_up(value: float) -> float:
    """Return a positive value with two significant digits, no smaller: what bounds it has to hold as it is printed."""
    places = 1 - math.floor(math.log10(value))
    return math.ceil(value * 10.0**places) / 10.0**places


def _clustered(events: Events, *, of_trials: bool) -> bool:
    """Whether events vary more than chance explains: between blocks, or between deployments.

    Of shares of single trials only deployments can tell: a block has one trial.
    """
    found = []
    if not of_trials:
        found.append(dispersion_p(events.by_block, 1.0))
    if events.blocks.size < events.by_block.shape[-1]:
        found.append(dispersion_p(np.stack([events.x, events.y]), events.blocks, of_trials=of_trials))
    return bool(np.nanmin([1.0, *found]) < DISPERSED)


def _by_counts(x: float, y: float, n: float, margin: float) -> dict[str, Any]:
    ratio, difference = poisson_ratio(x, y).interval, poisson_difference(x, y, n)
    p = poisson_equivalence(x, y, 1 - margin, 1 + margin)
    row = _columns(BY_COUNTS, float(poisson_p(x, y)), ratio, difference)
    row |= poisson_ratio(x, y, NARROW).interval.columns("equivalence")
    return row | {"p_equivalence": float(p), "apart": not ratio.low <= 1 <= ratio.high, "reason": ""}


def _by_shares(x: float, y: float, n: float, margin: float) -> dict[str, Any]:
    difference = newcombe_interval(x, n, y, n)
    p = _worse_side(
        (newcombe_p(x, n, y, n, -margin), x - y > -margin * n),
        (newcombe_p(x, n, y, n, margin), x - y < margin * n),
    )
    row = _columns(BY_SHARES, newcombe_p(x, n, y, n), intervals.no_interval(()), difference)
    apart = not difference.low <= 0 <= difference.high
    return row | {"p_equivalence": p, "apart": apart, "reason": BY_DIFFERENCE}


def _by_units(events: Events, margin: float, why: str) -> dict[str, Any]:
    sums = subset_sums(events.x, events.y, events.blocks)
    found, p = typical_values(sums), typical_p(sums)
    method = BY_UNITS.format(unit=events.unit)
    row = _columns(method, p, found.ratio, found.difference)
    if np.isnan(found.difference.low):
        why = f"{why}; {FEW_UNITS.format(unit=events.unit)}"
        return row | {"apart": False, "reason": why}
    x, y = events.x.sum(), events.y.sum()
    if not x or not y:  # all subsets have one ratio, 0 or infinite: that is not known so well
        row |= _columns(method, p, intervals.no_interval(()), found.difference)
        apart = not found.difference.low <= 0 <= found.difference.high
        return row | {"apart": apart, "reason": f"{why}: the difference, compared over {events.unit}"}
    edges = (1 - margin, 1 + margin)
    low, high = (typical_p(sums, edge) for edge in edges)
    p = _worse_side((low, x > y * edges[0]), (high, x < y * edges[1]))
    row |= typical_values(sums, NARROW).ratio.columns("equivalence")
    apart = not found.ratio.low <= 1 <= found.ratio.high
    return row | {"p_equivalence": p, "apart": apart, "reason": f"{why}: compared over {events.unit}"}


def _worse_side(*sides: tuple[float, bool]) -> float:
    """The p of two one-sided tests: of each edge of a margin the two-sided p, and whether the estimate is inside."""
    return max(p / 2 if inside else 1 - p / 2 for p, inside in sides)


def _columns(method: str | None, p: float, ratio: Interval, difference: Interval) -> dict[str, Any]:
    row = {"inferred": True, "p": p, "p_method": method, "p_equivalence": NAN}
    return (
        row
        | intervals.no_interval(()).columns("equivalence")
        | ratio.columns("ratio")
        | difference.columns("difference")
    )
