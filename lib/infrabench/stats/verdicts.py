"""What a comparison of two systems says: ratio, equivalence at a margin, verdict. Stacks in, columns out.

Everything is of the ratio of means and of the statistic of its paired Fieller interval: the 95 % interval, the p of the
difference, the 90 % interval and the p of equivalence at a margin that was fixed before the first trial. `judge` says
this of each contrast by itself; `decide` gives the verdict, for which the p of equivalence has to be adjusted in its
family.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from infrabench.stats.blocks import PER_BLOCK, PER_DEPLOYMENT
from infrabench.stats.equivalence import difference_p, ratio_equivalence
from infrabench.stats.intervals import LEVEL, NAN, Array
from infrabench.stats.pairwise import ROUNDING, paired_moments, paired_t
from infrabench.stats.planning import blocks_to_decide, spread_limit
from infrabench.stats.ratios import paired_fieller
from infrabench.stats.resolution import resolution_limited, undithered, widened

DIFFERENT = "different"
WITHIN = "different, within the margin"
EQUIVALENT = "equivalent"
INCONCLUSIVE = "inconclusive"
NOT_COMPARABLE = "not comparable"
VERDICTS = (DIFFERENT, WITHIN, EQUIVALENT, INCONCLUSIVE, NOT_COMPARABLE)
TOO_NOISY = "baseline too noisy"
ALPHA = 1 - LEVEL
UPPER = 0.6  # level of the two-sided interval of a spread whose upper end one spread in five exceeds
PAIRED_T = "paired t, Fieller's statistic at 1"
NO_PAIR = "no block has an ok trial of both"
SINGLE = {
    PER_BLOCK: "a single complete block: no interval",
    PER_DEPLOYMENT: "a single deployment with complete blocks: no interval",
}
CONSTANT = "deterministic: both systems repeat one value, no spread to infer from"
ONE_RATIO = "deterministic: every block has the same ratio, no spread to infer from"
LIMITED = "resolution-limited"


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
    row = _empty(len(x)) | {"n_pairs": np.full(len(x), n)}
    if n == 0:
        return row | {"reason": np.full(len(x), NO_PAIR, dtype=object)}
    difference = paired_t(x, y)
    row |= {"mean": x.mean(axis=-1), "baseline_mean": y.mean(axis=-1), "difference": difference.estimate}
    limited = resolution_limited(pairs.step, pairs.sd, difference.estimate) & (n > 1)
    coarse = undithered(pairs.step, pairs.sd) & (n > 1)
    ends = widened(difference.interval, pairs.step, coarse)
    row |= {"difference_low": ends.low, "difference_high": ends.high, "limited": limited, "p": difference.p}
    exists = row["baseline_mean"] != 0
    row["ratio"] = np.divide(row["mean"], row["baseline_mean"], out=np.full(len(x), NAN), where=exists)
    around = paired_moments(x, np.where(exists, row["ratio"], 0.0)[:, None] * y).error  # asked of ratios alone
    reason = np.select(
        [
            ~exists & ~x.any(axis=-1),
            ~exists,
            np.full(len(x), n < 2),
            same(x) & same(y),
            np.isnan(around),
        ],
        [
            "both means are 0: no ratio",
            f"the mean of {pairs.baseline} is 0: no ratio",
            SINGLE[unit],
            CONSTANT,
            ONE_RATIO,
        ],
        default="",
    ).astype(object)
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
    return np.select(
        [~inferred, apart & alike, apart, alike],
        [NOT_COMPARABLE, WITHIN, DIFFERENT, EQUIVALENT],
        default=INCONCLUSIVE,
    ).astype(object)


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
    fieller, alike = paired_fieller(x, y), ratio_equivalence(x, y, pairs.margin, off)
    unbounded = np.isnan(fieller.low)  # then nothing is said of the ratio, at 90 % neither, and no p contradicts that
    low, high = fieller.low - off, fieller.high + off
    words = ((TOO_NOISY, unbounded), (LIMITED, limited))
    marks = zip(*(np.where(raised, word, "") for word, raised in words), strict=True)
    return {
        "ratio_low": low,
        "ratio_high": high,
        "apart": (low > 1) | (high < 1),
        "equivalence_low": np.where(unbounded, NAN, alike.interval.low),
        "equivalence_high": np.where(unbounded, NAN, alike.interval.high),
        "p": np.where(unbounded, NAN, difference_p(x, y, off)),
        "p_equivalence": np.where(unbounded, NAN, alike.p),
        "off": off,
        "reason": ["; ".join(filter(None, each)) for each in marks],
    }


def same(values: Array) -> NDArray[np.bool_]:
    """Return whether all values of a cell are equal up to rounding.

    `values`: (..., n); the answer has the shape (...).
    """
    largest = np.abs(values).max(axis=-1, initial=0.0)
    return np.ptp(values, axis=-1) <= ROUNDING * largest if values.shape[-1] else largest == 0


def _empty(cells: int) -> dict[str, Any]:
    names = ("mean", "baseline_mean", "ratio", "ratio_low", "ratio_high", "equivalence_low", "equivalence_high")
    names += ("difference", "difference_low", "difference_high", "p", "p_equivalence", "spread")
    row: dict[str, Any] = {name: np.full(cells, NAN) for name in names} | {"off": np.zeros(cells)}
    row |= {"p_method": np.full(cells, None, dtype=object)}
    return row | {name: np.zeros(cells, dtype=bool) for name in ("limited", "inferred", "apart")}
