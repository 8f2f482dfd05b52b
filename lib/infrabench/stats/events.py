"""What a contrast of counts or shares says: exact where the events are independent, over units where they are not.

Counts of blocks that vary more than chance explains are clustered: then a block, and not an event, is what was
repeated, and the comparison is over units (blocks, or deployments where there are several). The bar for that is low,
for missing a cluster makes false verdicts and seeing one that is not there costs a little power.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from infrabench.stats import counts
from infrabench.stats.blocks import PER_BLOCK, PER_DEPLOYMENT
from infrabench.stats.intervals import NAN, Array, Interval

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
BY_DIFFERENCE = "a share: judged by the difference, within +- the margin"


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

    Counts of independent events: exact conditional binomial test and interval of their ratio, with the number of trials
    as exposure. Shares of 0 and 1: Newcombe's interval of their difference, the margin in the same unit. Else ratios
    over random subsets of the units (`counts.typical_values`). Sources are named there.
    """
    unit = PER_BLOCK if deployment is None else PER_DEPLOYMENT
    events = _sums(values, deployment, unit)
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
        word = NOTHING.format(most=counts.poisson_interval(0.0, n).high)
        row |= _columns(None, NAN, none(), counts.poisson_difference(x, y, n, n))
        return row | {"inferred": False, "apart": False, "reason": word}
    if clustered:
        return row | _by_units(events, margin, why)
    return row | (_by_shares(x, y, n, margin) if trials else _by_counts(x, y, n, margin))


def none() -> Interval:
    """Return no interval: NaN ends."""
    return Interval(NAN, NAN, NAN)


def _sums(values: Array, deployment: NDArray[np.intp] | None, unit: str) -> Events:
    there = np.isfinite(values).all(axis=0)
    blocks = values[:, there]
    if deployment is None:
        return Events(*blocks, np.ones(blocks.shape[-1]), blocks, unit)
    _, label = np.unique(deployment[there], return_inverse=True)
    x, y, n = (np.bincount(label, weights) for weights in (*blocks, np.ones(label.size)))
    return Events(x, y, n, blocks, unit)


def _clustered(events: Events, *, of_trials: bool) -> bool:
    """Whether events vary more than chance explains: between blocks, or between deployments.

    Of shares of single trials only deployments can tell: a block has one trial.
    """
    found = []
    if not of_trials:
        found.append(counts.dispersion_p(events.by_block, 1.0))
    if events.blocks.size < events.by_block.shape[-1]:
        found.append(counts.dispersion_p(np.stack([events.x, events.y]), events.blocks, of_trials=of_trials))
    return bool(np.nanmin([1.0, *found]) < DISPERSED)


def _by_counts(x: float, y: float, n: float, margin: float) -> dict[str, Any]:
    ratio, difference = counts.poisson_ratio(x, y, n, n).interval, counts.poisson_difference(x, y, n, n)
    p = counts.poisson_equivalence(x, y, n, n, 1 - margin, 1 + margin)
    row = _columns(BY_COUNTS, float(counts.poisson_p(x, y, n, n)), ratio, difference)
    row |= _narrow(counts.poisson_ratio(x, y, n, n, NARROW).interval)
    return row | {"p_equivalence": float(p), "apart": not ratio.low <= 1 <= ratio.high, "reason": ""}


def _by_shares(x: float, y: float, n: float, margin: float) -> dict[str, Any]:
    difference = counts.newcombe_interval(x, n, y, n)
    p = _worse_side(
        (counts.newcombe_p(x, n, y, n, -margin), x - y > -margin * n),
        (counts.newcombe_p(x, n, y, n, margin), x - y < margin * n),
    )
    row = _columns(BY_SHARES, counts.newcombe_p(x, n, y, n), none(), difference)
    apart = not difference.low <= 0 <= difference.high
    return row | {"p_equivalence": p, "apart": apart, "reason": BY_DIFFERENCE}


def _by_units(events: Events, margin: float, why: str) -> dict[str, Any]:
    sums = counts.subset_sums(events.x, events.y, events.blocks)
    found, p = counts.typical_values(sums), counts.typical_p(sums)
    method = BY_UNITS.format(unit=events.unit)
    row = _columns(method, p, found.ratio, found.difference)
    if np.isnan(found.difference.low):
        why = f"{why}; {FEW_UNITS.format(unit=events.unit)}"
        return row | {"apart": False, "reason": why}
    x, y = events.x.sum(), events.y.sum()
    if not x or not y:  # all subsets have one ratio, 0 or infinite: that is not known so well
        row |= _columns(method, p, none(), found.difference)
        apart = not found.difference.low <= 0 <= found.difference.high
        return row | {"apart": apart, "reason": f"{why}: the difference, compared over {events.unit}"}
    edges = (1 - margin, 1 + margin)
    low, high = (counts.typical_p(sums, edge) for edge in edges)
    p = _worse_side((low, x > y * edges[0]), (high, x < y * edges[1]))
    row |= _narrow(counts.typical_values(sums, NARROW).ratio)
    apart = not found.ratio.low <= 1 <= found.ratio.high
    return row | {"p_equivalence": p, "apart": apart, "reason": f"{why}: compared over {events.unit}"}


def _worse_side(*sides: tuple[float, bool]) -> float:
    """The p of two one-sided tests: of each edge of a margin the two-sided p, and whether the estimate is inside."""
    return max(p / 2 if inside else 1 - p / 2 for p, inside in sides)


def _columns(method: str | None, p: float, ratio: Interval, difference: Interval) -> dict[str, Any]:
    row: dict[str, Any] = {"inferred": True, "p": p, "p_method": method, "p_equivalence": NAN} | _narrow(none())
    row |= {"ratio_low": float(ratio.low), "ratio_high": float(ratio.high)}
    return row | {"difference_low": float(difference.low), "difference_high": float(difference.high)}


def _narrow(ratio: Interval) -> dict[str, float]:
    """The 90 % interval of the ratio, which is within the margin exactly when p_equivalence is below 5 %."""
    return {"equivalence_low": float(ratio.low), "equivalence_high": float(ratio.high)}
