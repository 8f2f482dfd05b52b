"""What a comparison of two systems says: ratio, equivalence at a margin, verdict. Stacks in, columns out.

The verdict follows from the paired 95 % interval of the ratio and from the equivalence test at a margin that was fixed
before the first trial; p-values never decide alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from infrabench.stats import equivalence
from infrabench.stats.blocks import PER_BLOCK, PER_DEPLOYMENT
from infrabench.stats.intervals import LEVEL, NAN, Array, Interval
from infrabench.stats.pairwise import ROUNDING, log_moments, paired_t, t_p
from infrabench.stats.planning import blocks_to_decide
from infrabench.stats.ratios import paired_fieller
from infrabench.stats.resolution import resolution_limited, widened

DIFFERENT = "different"
WITHIN = "different, within the margin"
EQUIVALENT = "equivalent"
INCONCLUSIVE = "inconclusive"
NOT_COMPARABLE = "not comparable"
VERDICTS = (DIFFERENT, WITHIN, EQUIVALENT, INCONCLUSIVE, NOT_COMPARABLE)
TOO_NOISY = "baseline too noisy"
ALPHA = 1 - LEVEL
ON_LOGS, ON_DIFFERENCES = "paired t, log ratios", "paired t, differences"
NOT_POSITIVE = "values not all positive: no equivalence test"
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
    """Return the columns of the ratio, the difference, their tests and the verdict, each (cells,).

    ``reason``: why there is no verdict, or what qualifies it. A printing step that is large against the spread or the
    difference widens both intervals by half a step on each side and narrows the margin of the equivalence test by as
    much. Nothing is inferred where the baseline's mean is 0, from one pair, and where there is no spread.
    """
    x, y, unit = pairs.x, pairs.y, pairs.unit
    n = x.shape[-1]
    row = _empty(len(x)) | {"n_pairs": np.full(len(x), n)}
    if n == 0:
        return row | {"reason": np.full(len(x), NO_PAIR, dtype=object)}
    difference, logs = paired_t(x, y), log_moments(x, y)
    row |= {"mean": x.mean(axis=-1), "baseline_mean": y.mean(axis=-1), "difference": difference.estimate}
    limited = resolution_limited(pairs.step, pairs.sd, difference.estimate) & (n > 1)
    ends = widened(difference.interval, pairs.step, limited)
    row |= {"difference_low": ends.low, "difference_high": ends.high, "limited": limited}
    positive = ((x > 0) & (y > 0)).all(axis=-1)
    row["p"] = np.where(positive, t_p(logs), difference.p)
    row["p_method"] = np.where(np.isnan(row["p"]), None, np.where(positive, ON_LOGS, ON_DIFFERENCES))
    exists = row["baseline_mean"] != 0
    row["ratio"] = np.divide(row["mean"], row["baseline_mean"], out=np.full(len(x), NAN), where=exists)
    reason = np.select(
        [
            ~exists & ~x.any(axis=-1),
            ~exists,
            np.full(len(x), n < 2),
            same(x) & same(y),
            positive & np.isnan(logs.error),
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
    row["reason"] = reason
    if infer.any():
        found = _infer(Pairs(*(each[infer] for each in pairs[:5]), *pairs[5:]), limited[infer])
        for name, values in found.items():
            row[name][infer] = values
    return row


def _infer(pairs: Pairs, limited: NDArray[np.bool_]) -> dict[str, Any]:
    """Interval of the ratio, equivalence and verdict of pairs that have a ratio and some spread."""
    x, y, margin = pairs.x, pairs.y, pairs.margin
    fieller = paired_fieller(x, y)
    relative = pairs.step / np.abs(y.mean(axis=-1))
    ratio = widened(Interval(*fieller[:3]), relative, limited)
    half = np.where(limited, np.log1p(relative / 2), 0.0)
    margin_left = -np.expm1(-np.maximum(equivalence.log_margin(margin) - half, 0.0))
    p = equivalence.tost_log_ratio(x, y, margin_left).p
    unbounded = np.isnan(ratio.low)
    apart, alike = (ratio.low > 1) | (ratio.high < 1), p < ALPHA
    verdict = np.select(
        [unbounded, apart & alike, apart, alike], [INCONCLUSIVE, WITHIN, DIFFERENT, EQUIVALENT], default=INCONCLUSIVE
    ).astype(object)
    logs = log_moments(x, y)
    blocks = blocks_to_decide(logs.error * np.sqrt(x.shape[-1]), margin)
    reason = np.select([unbounded, np.isnan(logs.estimate), limited], [TOO_NOISY, NOT_POSITIVE, LIMITED], default="")
    return {
        "ratio_low": ratio.low,
        "ratio_high": ratio.high,
        "p_equivalence": p,
        "verdict": verdict,
        "n_to_decide": np.where(verdict == INCONCLUSIVE, blocks, NAN),
        "reason": reason,
    }


def same(values: Array) -> NDArray[np.bool_]:
    """Return whether all values of a cell are equal up to rounding.

    `values`: (..., n); the answer has the shape (...).
    """
    largest = np.abs(values).max(axis=-1, initial=0.0)
    return np.ptp(values, axis=-1) <= ROUNDING * largest if values.shape[-1] else largest == 0


def _empty(cells: int) -> dict[str, Any]:
    names = ("mean", "baseline_mean", "ratio", "ratio_low", "ratio_high", "difference", "difference_low")
    names += ("difference_high", "p", "p_equivalence", "n_to_decide")
    row: dict[str, Any] = {name: np.full(cells, NAN) for name in names}
    row |= {"verdict": np.full(cells, NOT_COMPARABLE, dtype=object), "p_method": np.full(cells, None, dtype=object)}
    return row | {"limited": np.zeros(cells, dtype=bool)}
