"""How many deployments, and how many blocks in each: from what both cost, and what each adds to the variance.

The optimum of Kalibera and Jones, "Rigorous benchmarking in reasonable time", 2013, for two levels: blocks inside
deployments. Only for planning: it adds nothing to a result.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from infrabench.stats.components import one_way, repetitions
from infrabench.stats.intervals import NAN, Array
from infrabench.stats.pilot import MEAN, RATIO, blocks_of
from infrabench.stats.planning import n_for_precision, spread_limit
from infrabench.stats.table import check_values

CASE = ["workload", "scenario", "metric"]
WHERE = ["session", "deployment"]
TYPES = {
    **dict.fromkeys(("workload", "scenario", "metric", "system", "baseline", "quantity"), "str"),
    **dict.fromkeys(("target", "sd_within", "sd_between", "blocks", "deployments", "deployments_high"), "float64"),
    **dict.fromkeys(("hours", "hours_high"), "float64"),
    "note": "str",
}
COLUMNS = tuple(TYPES)
ONE_LEVEL = "fewer than two deployments, or one block in each"
NOT_POSITIVE = "values not all positive, or a mean of 0"
NO_COSTS = "what a deployment or a block costs is not known"
NONE_BETWEEN = "deployments do not differ: more blocks in one do as well"


def dimensions(
    table: pd.DataFrame, baseline: str, targets: Iterable[float], block_s: float, deployment_s: float
) -> pd.DataFrame:
    """Return the most economical campaign for each cell or contrast and target.

    Parameters
    ----------
    table
        The tidy table of a pilot with several deployments.
    baseline
        System that the others are divided by.
    targets
        Relative half-widths of the 95 % intervals wished for.
    block_s, deployment_s
        Wall time of one block, and of making all systems ready anew, without blocks.

    Returns
    -------
    DataFrame
        Columns `COLUMNS`. ``quantity``: "mean" or "ratio", as in `pilot.plan_from_pilot`; ``sd_within``,
        ``sd_between``: what blocks in a deployment and deployments add, relative to the mean, or of the paired log
        ratios (`components.one_way`); ``blocks``: in each deployment, from the costs and these (`repetitions`);
        ``deployments``: with so many blocks, to have the interval within +- ``target``; ``deployments_high``: if the
        spread of deployment means is as large as so small a pilot allows; ``hours``; ``note``: why there are none.

    Raises
    ------
    SchemaError
        The table is not a tidy one (`table.check_values`).
    """
    check_values(table)
    rows: list[dict[str, Any]] = []
    targets = list(targets)
    for case, cell in table[table["value"].notna()].groupby(CASE, observed=True):
        blocks = blocks_of(cell)
        for system in blocks:
            known = dict(zip(CASE, case, strict=True)) | {"system": system}
            values = blocks[system].dropna()
            mean = abs(float(values.mean()))
            of = known | {"baseline": "", "quantity": MEAN}
            rows += _rows(of, values / mean if mean else values * NAN, targets, block_s, deployment_s)
            if system != baseline and baseline in blocks:
                pairs = blocks[[system, baseline]].dropna()
                positive = bool((pairs > 0).all(axis=None))
                ratio = np.log(pairs[system] / pairs[baseline]) if positive else pairs[system] * NAN
                of = known | {"baseline": baseline, "quantity": RATIO}
                rows += _rows(of, ratio, targets, block_s, deployment_s)
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(TYPES)


def _rows(
    known: dict[str, Any], values: pd.Series, targets: list[float], block_s: float, deployment_s: float
) -> list[dict[str, Any]]:
    if values.isna().any():
        return [known | {"target": target, "note": NOT_POSITIVE} for target in targets]
    group = values.groupby(WHERE).ngroup().to_numpy()
    found = one_way(values.to_numpy(dtype=float), group)
    within, between = float(found.within), float(found.between)
    if not np.isfinite(within):
        return [known | {"target": target, "note": ONE_LEVEL} for target in targets]
    row = known | {"sd_within": np.sqrt(within), "sd_between": np.sqrt(max(between, 0.0)), "note": ""}
    if not (block_s > 0 and deployment_s > 0):
        return [row | {"target": target, "note": NO_COSTS} for target in targets]
    (blocks,) = repetitions((within, between), (block_s, deployment_s))
    if not np.isfinite(blocks):
        return [row | {"target": target, "note": NONE_BETWEEN} for target in targets]
    blocks = np.ceil(blocks)
    spread, cost_s = float(np.sqrt(between + within / blocks)), deployment_s + blocks * block_s
    return [
        row | {"target": target, "blocks": blocks} | _sizes(spread, _width(known, target), len(set(group)), cost_s)
        for target in targets
    ]


def _width(known: dict[str, Any], target: float) -> float:
    # a ratio within +- target has its logarithm within log(1 + target), the nearer of both ends
    return float(np.log1p(target)) if known["quantity"] == RATIO else target


def _sizes(spread: float, width: float, pilot: int, cost_s: float) -> dict[str, Any]:
    """Deployments that reach a half-width, and the hours they take, with this spread and with its upper limit."""
    sizes: Array = np.asarray(n_for_precision(np.array([spread, spread_limit(spread, pilot)]), width))
    hours = sizes * cost_s / 3600
    return {"deployments": sizes[0], "deployments_high": sizes[1], "hours": hours[0], "hours_high": hours[1]}
