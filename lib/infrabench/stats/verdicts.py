"""What a comparison of two systems says: ratio, equivalence at a margin, verdict. Stacks in, columns out.

Everything is of the ratio of means and of the statistic of its paired Fieller interval: the 95 % interval, the p of the
difference, the 90 % interval and the p of equivalence at a margin that was fixed before the first trial. `judge` says
this of each contrast by itself; `decide` gives the verdict, for which the p of equivalence has to be adjusted in its
family. How finely a metric was printed may limit both. What stands beside a verdict (`measure_effects`: other ratios,
companion tests, effect sizes, power) informs and decides nothing.

Rates of fixed work are averaged as work over mean time, and compared by their times. Every trial does the same work, so
its rate is that work over its time. The mean of such rates weighs a fast trial more than a slow one; work over mean
time, which is the harmonic mean of the rates, does not (Hoefler and Belli 2015, rule 3). Here a time is 1 / rate: the
work, which is the same everywhere, cancels. Where some of it failed it is not the same: a trial still weighs as much as
any other, and `work_over_time` says what that makes out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from infrabench.stats import intervals, pairwise
from infrabench.stats.intervals import ALPHA, NAN, Array, Estimate, Interval, Numbers
from infrabench.stats.pairwise import ROUNDING
from infrabench.stats.planning import blocks_to_decide, detectable, spread_limit, tost_power
from infrabench.stats.table import PER_BLOCK, PER_DEPLOYMENT, join_words

DIGITS = 12  # significant digits; a value that needs more was not printed but computed
QUARTER = 0.25

DIFFERENT = "different"
WITHIN = "different, within the margin"
EQUIVALENT = "equivalent"
INCONCLUSIVE = "inconclusive"
NOT_COMPARABLE = "not comparable"
VERDICTS = (DIFFERENT, WITHIN, EQUIVALENT, INCONCLUSIVE, NOT_COMPARABLE)
TOO_NOISY = "baseline too noisy"
UPPER = 0.6  # level of the two-sided interval of a spread whose upper end one spread in five exceeds
PAIRED_T = "paired t, Fieller's statistic at 1"
NO_PAIR = "no block has an ok trial of both"
SINGLE = {PER_BLOCK: "a single complete block", PER_DEPLOYMENT: "a single deployment with complete blocks"}
CONSTANT = "deterministic: both systems repeat one value, no spread to infer from"
ONE_RATIO = "deterministic: every block has the same ratio, no spread to infer from"
UNLIKE = 0.01  # of a mean or ratio: by what it is another when all work over all time is taken, and worth telling
LIMITED = "resolution-limited"

WORK = "fixed-work rate"


def resolution_step(x: Array) -> Numbers:
    """Return the printing step: the largest number of which all values of a cell are whole multiples.

    `x`: (..., n); the step has the unit of `x`. Values are taken as decimals of twelve significant digits (of the
    largest), so 941.37 Mbit/s in bit/s has a step of 10 000, and 3 KiB, 5 KiB in bytes one of 1024. NaN when a value is
    not such a decimal (it was computed, not printed), when all are 0 and when there are none.
    """
    if x.shape[-1] == 0:
        return np.full(x.shape[:-1], NAN)[()]
    largest = np.abs(x).max(axis=-1, keepdims=True)
    exists = (largest > 0) & np.isfinite(largest)
    decimals = DIGITS - 1 - np.floor(np.log10(np.where(exists, largest, 1.0)))
    # powers of ten are exact up to 10^22, so scale by whichever of the two powers is a whole number
    up, down = 10.0 ** np.maximum(decimals, 0), 10.0 ** np.maximum(-decimals, 0)
    scaled = np.where(exists, x, 0.0) * up / down
    whole = np.rint(scaled)
    printed = (np.abs(scaled - whole) <= ROUNDING * np.abs(scaled)).all(axis=-1)
    divisor = np.gcd.reduce(whole.astype(np.int64), axis=-1)
    step = divisor * down[..., 0] / up[..., 0]
    return np.where(printed & exists[..., 0], step, NAN)[()]


def resolution_limited(step: Numbers, sd: Numbers, difference: Numbers = NAN) -> NDArray[np.bool_]:
    """Return whether the printing step exceeds a quarter of the standard deviation or of the difference.

    All of one unit; their broadcast shape. What is NaN is not compared, so an unknown step limits nothing.
    """
    return (step > QUARTER * np.asarray(sd)) | (step > QUARTER * np.abs(difference))


def undithered(step: Numbers, sd: Numbers) -> NDArray[np.bool_]:
    """Return whether the standard deviation is below half a printing step, so that means keep what rounding did.

    One unit; their broadcast shape. From there on rounding acts as dither: at half a step its largest bias of a mean is
    0.0023 of a step. What is NaN is not compared.
    """
    return np.asarray(sd) < np.asarray(step) / 2


def widened(ends: Interval, step: Numbers, where: NDArray[np.bool_]) -> Interval:
    """Return the interval with half a printing step added on each side `where` it is undithered; NaN stays NaN.

    `step`, `where`: (...), the shape of the ends, and `step` in their unit. Each printed value may be off by half a
    step, all of them to the same side, hence so may their mean.
    """
    half = np.where(where, np.asarray(step) / 2, 0.0)
    return Interval((ends.low - half)[()], (ends.high + half)[()], ends.level)


class Pairs(NamedTuple):
    """Stacks of contrasts with equally many pairs: x and y (cells, n), the rest one value per cell."""

    x: Array  # system
    y: Array  # baseline
    margin: Array  # relative
    step: Array  # printing step of the metric, NaN when it has none
    sd: Array  # smaller spread of both systems' trials
    baseline: str
    unit: str  # blocks or deployments


def judge(pairs: Pairs) -> dict[str, Any]:
    """Return the columns of the ratio, the difference and their tests, each (cells,); `decide` needs them all.

    ``inferred``: whether there is anything to infer from: not where the baseline's mean is 0, from one pair, and where
    there is no spread. ``apart``: whether the 95 % interval of the ratio excludes 1. ``reason``: why nothing is
    inferred, or what qualifies what is said. ``off``: what rounding may have moved the ratio by; where a printing step
    is so large that rounding does not average out, it widens the intervals on each side, narrows the margin, and enters
    both p. ``spread``: of the ratio, over one pair.
    """
    x, y, unit = pairs.x, pairs.y, pairs.unit
    n = x.shape[-1]
    numbers = ("mean", "baseline_mean", "ratio", "ratio_low", "ratio_high", "equivalence_low", "equivalence_high")
    numbers += ("difference", "difference_low", "difference_high", "p", "p_equivalence", "spread")
    row: dict[str, Any] = {name: np.full(len(x), NAN) for name in numbers}
    row |= {name: np.zeros(len(x), dtype=bool) for name in ("limited", "inferred", "apart")}
    row |= {"off": np.zeros(len(x)), "p_method": np.full(len(x), None, dtype=object), "n_pairs": np.full(len(x), n)}
    if n == 0:
        return row | {"reason": np.full(len(x), NO_PAIR, dtype=object)}
    difference = pairwise.paired_t(x, y)
    row |= {"mean": x.mean(axis=-1), "baseline_mean": y.mean(axis=-1), "difference": difference.estimate}
    limited = resolution_limited(pairs.step, pairs.sd, difference.estimate) & (n > 1)
    coarse = undithered(pairs.step, pairs.sd) & (n > 1)
    ends = widened(difference.interval, pairs.step, coarse)
    row |= ends.columns("difference") | {"limited": limited, "p": difference.p}
    exists = row["baseline_mean"] != 0
    row["ratio"] = np.divide(row["mean"], row["baseline_mean"], out=np.full(len(x), NAN), where=exists)
    around = pairwise.paired_moments(x, np.where(exists, row["ratio"], 0.0)[:, None] * y).error  # asked of ratios alone
    reasons = [
        (~exists & ~x.any(axis=-1), "both means are 0: no ratio"),
        (~exists, f"the mean of {pairs.baseline} is 0: no ratio"),
        (np.full(len(x), n < 2), f"{SINGLE[unit]}: no interval"),
        (same(x) & same(y), CONSTANT),
        (np.isnan(around), ONE_RATIO),
    ]
    conditions, words = map(list, zip(*reasons, strict=True))
    reason = np.select(conditions, words, default="").astype(object)
    infer = reason == ""
    row |= {"reason": reason, "inferred": infer, "p": np.where(exists & ~infer, NAN, row["p"])}
    if infer.any():
        below = np.abs(row["baseline_mean"][infer])
        off = np.where(coarse[infer], pairs.step[infer] / 2 / below, 0.0)
        row["spread"][infer] = around[infer] * np.sqrt(n) / below
        found = _infer(Pairs(*(each[infer] for each in pairs[:5]), *pairs[5:]), off, limited[infer])
        for name, values in found.items():
            row[name][infer] = values
        row["spread"][np.isnan(row["ratio_low"])] = NAN  # a share of a mean that may be 0 names no number of blocks
    row["p_method"] = np.where(np.isnan(row["p"]), None, PAIRED_T)
    return row


def decide(row: Mapping[str, Any], p_equivalence: ArrayLike) -> NDArray[np.object_]:
    """Return the verdict of each contrast that was judged, shape (cells,).

    `row`: the columns of `judge`, of which ``inferred`` and ``apart`` are read; `p_equivalence`: (cells,), adjusted by
    Holm in its family, or as it stands where a contrast is the whole of its family. *not comparable* where nothing was
    inferred.
    """
    inferred, apart = (np.asarray(row[name], dtype=bool) for name in ("inferred", "apart"))
    alike = np.asarray(p_equivalence) < ALPHA
    words = [NOT_COMPARABLE, WITHIN, DIFFERENT, EQUIVALENT]
    return np.select([~inferred, apart & alike, apart, alike], words, default=INCONCLUSIVE).astype(object)


def n_to_decide(row: Mapping[str, Any], margin: ArrayLike, tests: ArrayLike) -> Array:
    """Return how many pairs would decide each contrast that was judged, shape (cells,); only for inconclusive ones.

    `row`: the columns of `judge`; `margin`, `tests` (claims of equivalence in the family): (cells,). From the upper
    80 % limit of the spread (chi-square, Cochran 1934), so that of all campaigns of that n at least 80 % decide
    (`planning.blocks_to_decide`). NaN where rounding leaves no room in the margin, without spread, and where it would
    be a number that was reached.
    """
    spread = spread_limit(row["spread"], row["n_pairs"], UPPER)
    blocks = np.asarray(blocks_to_decide(spread, margin, tests, row["off"]))
    return np.where(blocks > np.asarray(row["n_pairs"]), blocks, NAN)


def _infer(pairs: Pairs, off: Array, limited: NDArray[np.bool_]) -> dict[str, Any]:
    """Intervals of the ratio and both p of pairs that have a ratio and some spread."""
    x, y = pairs.x, pairs.y
    fieller, alike = pairwise.paired_fieller(x, y), pairwise.ratio_equivalence(x, y, pairs.margin, off)
    unbounded = np.isnan(fieller.low)  # then nothing is said of the ratio, at 90 % neither, and no p contradicts that
    low, high = fieller.low - off, fieller.high + off
    words = ((TOO_NOISY, unbounded), (LIMITED, limited))
    tested = alike.interval.columns("equivalence")
    tested |= {"p": pairwise.difference_p(x, y, off), "p_equivalence": alike.p}
    return {name: np.where(unbounded, NAN, column) for name, column in tested.items()} | {
        "ratio_low": low, "ratio_high": high, "apart": (low > 1) | (high < 1), "off": off,
        "reason": join_words(*(np.where(raised, word, "") for word, raised in words)),
    }  # fmt: skip


def same(values: Array) -> NDArray[np.bool_]:
    """Return whether all values of a cell are equal up to rounding.

    `values`: (..., n); the answer has the shape (...).
    """
    largest = np.abs(values).max(axis=-1, initial=0.0)
    return np.ptp(values, axis=-1) <= ROUNDING * largest if values.shape[-1] else largest == 0


def swapped_times(values: Array) -> Array:
    """Return the times of rates (..., 2, blocks), system and baseline exchanged: their ratio is that of the rates.

    Rates are positive; NaN stays NaN.
    """
    times: Array = 1 / values[..., ::-1, :]
    return times


def judge_work(pairs: Pairs) -> dict[str, Any]:
    """Return the columns of `judge` for rates of fixed work, each (cells,); NaN as there.

    `pairs` holds times, by `swapped_times`: `x` of the baseline, `y` of the system, `step` and `sd` in their unit. The
    ratio of the harmonic means, its interval and its tests are those of the times. The difference of the harmonic means
    has the t interval of its linear part in the times (delta method, Oehlert 1992).
    """
    row = judge(pairs)
    if pairs.x.shape[-1] == 0:
        return row
    base, system = 1 / pairs.x.mean(axis=-1), 1 / pairs.y.mean(axis=-1)
    linear = (base**2)[:, None] * pairs.x - (system**2)[:, None] * pairs.y
    spread = intervals.t_interval(linear - linear.mean(axis=-1, keepdims=True))
    difference = system - base
    off = row["off"] * base
    ends = Interval(difference + spread.low - off, difference + spread.high + off, spread.level)
    return row | {"mean": system, "baseline_mean": base} | Estimate(difference, ends).columns("difference")


def work_over_time(rates: Array, times_s: Array, failed: Array) -> Array:
    """Return all work over all time, as a multiple of the mean of rates of fixed work, shape (...); 1 without failures.

    `rates` of the work that did not fail, the time of each trial, and how much of it failed: (..., n), positive rates
    and times.
    """
    alike, together = 1 / (1 / rates).mean(axis=-1), (rates * times_s).sum(axis=-1) / times_s.sum(axis=-1)
    return np.where((failed > 0).any(axis=-1), together / alike, 1.0)


def rate_interval(times: Interval) -> Interval:
    """Return the interval of a rate from that of its time, any shape; NaN where there is none or it reaches 0."""
    low, high = (np.asarray(end, dtype=float) for end in times[:2])
    exists = low > 0
    low, high = (np.where(exists, end, 1.0) for end in (low, high))
    return intervals.interval(1 / high, 1 / low, float(np.max(times.level, initial=0.0)), exists)


def measure_effects(pairs: Pairs) -> dict[str, Any]:
    """Return the informing columns of a stack of contrasts, each (cells,); NaN where there is none.

    Nothing is tested where both systems repeat one value.
    """
    # sorted, the pairs say the same to the last digit however the blocks are numbered
    order = np.lexsort((pairs.y, pairs.x), axis=-1)
    x, y = (np.take_along_axis(each, order, axis=-1) for each in (pairs.x, pairs.y))
    n = x.shape[-1]
    row = pairwise.paired_log_ratio(x, y).columns("log_ratio", "log") | intervals.hodges_lehmann(x - y).columns("shift")
    row |= {"p_signed_rank": np.where(same(x) & same(y), NAN, pairwise.signed_rank(x, y).p)}
    # above: pairs in which the system has the higher value; below: those in which it has the lower one
    row |= pairwise.paired_d(x, y).columns("paired_d")
    row |= pairwise.share_above(x, y).columns("above") | pairwise.share_above(y, x).columns("below")
    sd = pairwise.log_moments(x, y).error * np.sqrt(n)
    row |= {"detectable": np.expm1(detectable(sd, n)), "power_equivalence": tost_power(sd, n, pairs.margin)}
    return row
