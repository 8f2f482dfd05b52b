"""What stands beside the verdict of a comparison: other ratios, companion tests, effect sizes, power.

Stacks in, columns out; `infrabench.stats.verdicts` decides, these inform.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from infrabench.stats import effects, planning
from infrabench.stats.bootstrap import bootstrap_quantile_ratio
from infrabench.stats.exact import sign_flip, signed_rank
from infrabench.stats.intervals import NAN, Array, hodges_lehmann
from infrabench.stats.pairwise import log_moments
from infrabench.stats.ratios import paired_log_ratio
from infrabench.stats.verdicts import Pairs, same

EXACT_FLIPS = 30  # pairs; beyond, counting every sign pattern of every contrast takes too long
DRAWN_FLIPS = 19_999  # sign patterns then: a p of 0.05 is known to +- 0.003


def measure_effects(pairs: Pairs, primary: NDArray[np.bool_]) -> dict[str, Any]:
    """Return the informing columns of a stack of contrasts, each (cells,); NaN where there is none.

    `primary` (cells,): which of them get the sign-flip test, by far the dearest. Nothing is tested where both systems
    repeat one value.
    """
    # resamples and drawn signs go by place: sorted, the pairs say the same however the blocks are numbered
    order = np.lexsort((pairs.y, pairs.x), axis=-1)
    x, y = (np.take_along_axis(each, order, axis=-1) for each in (pairs.x, pairs.y))
    spread = ~(same(x) & same(y))
    return _ratios(x, y) | _tests(x, y, primary & spread, spread) | _sizes(x, y) | _power(x, y, pairs.margin)


def _ratios(x: Array, y: Array) -> dict[str, Any]:
    geometric = paired_log_ratio(x, y)
    row: dict[str, Any] = {"log_ratio": geometric.ratio}
    row |= {"log_low": geometric.interval.low, "log_high": geometric.interval.high}
    if x.shape[-1] == 0:
        return row | dict.fromkeys(("median_ratio", "median_low", "median_high"), np.full(len(x), NAN))
    below = np.median(y, axis=-1)
    ratio = np.divide(np.median(x, axis=-1), below, out=np.full(len(x), NAN), where=below != 0)
    ends = bootstrap_quantile_ratio(x, y)
    return row | {"median_ratio": ratio, "median_low": ends.low, "median_high": ends.high}


def _tests(x: Array, y: Array, flip: NDArray[np.bool_], spread: NDArray[np.bool_]) -> dict[str, Any]:
    """On the differences, as is the shift that stands beside them."""
    flips = np.full(len(x), NAN)
    if flip.any():
        flips[flip] = sign_flip(x[flip], y[flip], exact_up_to=EXACT_FLIPS, resamples=DRAWN_FLIPS).p
    shift = hodges_lehmann(x - y)
    row = {"p_signed_rank": np.where(spread, signed_rank(x, y).p, NAN), "p_sign_flip": flips}
    return row | {"shift": shift.value, "shift_low": shift.interval.low, "shift_high": shift.interval.high}


def _sizes(x: Array, y: Array) -> dict[str, Any]:
    """``above``: pairs in which the system has the higher value; ``below``: those in which it has the lower one."""
    d = effects.paired_d(x, y)
    row = {"paired_d": d.estimate, "paired_d_low": d.interval.low, "paired_d_high": d.interval.high}
    for name, share in (("above", effects.share_above(x, y)), ("below", effects.share_above(y, x))):
        row |= {name: share.estimate, f"{name}_low": share.interval.low, f"{name}_high": share.interval.high}
    return row


def _power(x: Array, y: Array, margin: Array) -> dict[str, Any]:
    """What so many pairs of this spread of log ratios can find, and how likely they show equivalence."""
    n = x.shape[-1]
    sd = log_moments(x, y).error * np.sqrt(n)
    found = np.expm1(planning.detectable(sd, n))
    return {"detectable": found, "power_equivalence": planning.tost_power(sd, n, margin)}
