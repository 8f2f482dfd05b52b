"""Rates of fixed work: averaged as work over mean time, compared by their times.

Every trial does the same work, so its rate is that work over its time. The mean of such rates weighs a fast trial more
than a slow one; work over mean time, which is the harmonic mean of the rates, does not (Hoefler and Belli 2015, rule
3). Here a time is 1 / rate: the work, which is the same everywhere, cancels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from infrabench.stats.intervals import Array, Interval, interval, t_interval
from infrabench.stats.verdicts import Pairs, judge

WORK = "fixed-work rate"


def swapped_times(values: Array) -> Array:
    """Return the times of rates (..., 2, blocks), system and baseline exchanged: their ratio is that of the rates.

    Rates are positive; NaN stays NaN.
    """
    times: Array = 1 / values[..., ::-1, :]
    return times


def time_per_rate(times: Array) -> Array:
    """Return the factor from a difference of two rates to that of their times: the product of both mean times.

    `times`: (..., 2, blocks), NaN where there is none; the answer has the shape (...), 0 where one has none.
    """
    numbers = np.maximum(np.isfinite(times).sum(axis=-1), 1)
    factor: Array = (np.nansum(times, axis=-1) / numbers).prod(axis=-1)
    return factor


def judge_work(pairs: Pairs) -> dict[str, Any]:
    """Return the columns of `verdicts.judge` for rates of fixed work, each (cells,); NaN as there.

    `pairs` holds times, by `swapped_times`: `x` of the baseline, `y` of the system, `step` and `sd` in their unit. The
    ratio of the harmonic means, its interval and its tests are those of the times. The difference of the harmonic means
    has the t interval of its linear part in the times (delta method, Oehlert 1992).
    """
    row = judge(pairs)
    if pairs.x.shape[-1] == 0:
        return row
    base, system = 1 / pairs.x.mean(axis=-1), 1 / pairs.y.mean(axis=-1)
    linear = (base**2)[:, None] * pairs.x - (system**2)[:, None] * pairs.y
    spread = t_interval(linear - linear.mean(axis=-1, keepdims=True))
    difference = system - base
    off = row["off"] * base
    ends = Interval(difference + spread.low - off, difference + spread.high + off, spread.level)
    row |= {"mean": system, "baseline_mean": base, "difference": difference}
    return row | {"difference_low": ends.low, "difference_high": ends.high}


def rate_interval(times: Interval) -> Interval:
    """Return the interval of a rate from that of its time, any shape; NaN where there is none or it reaches 0."""
    low, high = (np.asarray(end, dtype=float) for end in times[:2])
    exists = low > 0
    low, high = (np.where(exists, end, 1.0) for end in (low, high))
    return interval(1 / high, 1 / low, float(np.max(times.level, initial=0.0)), exists)
