"""Does a metric rise with the load or the count: systems under ordered levels, all of them in every block.

Blocked data are (..., levels, blocks): the last axis holds the blocks, the one before it the levels in ascending
order; leading axes are cells.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from infrabench.stats import adjust
from infrabench.stats.blocks import Blocked, blocked, stacks
from infrabench.stats.dependence import Test
from infrabench.stats.intervals import LEVEL, NAN
from infrabench.stats.pairwise import Comparison, paired_t

TYPES = {
    **dict.fromkeys(("workload", "metric", "factor", "system"), "str"),
    **dict.fromkeys(("levels", "n"), "int64"),
    "pair_unit": "str",
    **dict.fromkeys(("power", "power_low", "power_high", "p", "p_adjusted"), "float64"),
    "adjustment": "str",
    **dict.fromkeys(("page_l", "page_p"), "float64"),
}
COLUMNS = tuple(TYPES)


def page(x: ArrayLike) -> Test:
    """Return Page's L and its p, one-sided, that the values rise with the level (Page 1963), shape (...).

    `x`: (..., levels, blocks). Declare the direction beforehand; for a fall turn the levels around. Ranks are taken
    within blocks, so blocks may differ by any amount. Computed by scipy, cell by cell: the exact distribution for few
    blocks and levels, else the normal one; with ties the p is approximate. NaN below three levels or two blocks, and
    when every block is tied throughout.
    """
    x = np.asarray(x, dtype=float)
    found = np.full((2, *x.shape[:-2]), NAN)
    if x.shape[-2] >= 3 and x.shape[-1] >= 2:
        untied = (x != x[..., :1, :]).any(axis=(-2, -1))
        for cell in map(tuple, np.argwhere(untied)):
            test = stats.page_trend_test(x[cell].T)
            found[:, *cell] = test.statistic, test.pvalue
    return Test(*(each[()] for each in found))


def log_slope(x: ArrayLike, at: ArrayLike, level: float = LEVEL) -> Comparison:
    """Return the slope of log x over the level with its interval, t, df and two-sided p, shape (...).

    `x`: (..., levels, blocks), positive; `at`: (levels,), any unit; the slope is per unit of `at`, and with the
    logarithm of the level it is the power of the level that x grows with. Least squares within each block, then
    Student's t over the slopes of the blocks (two-stage analysis of repeated measures, Matthews and others 1990): what
    a block does to all its trials cancels, and no level needs the spread of another. NaN below two different levels and
    where a value is not positive; no interval or test below two blocks and without spread.
    """
    x, at = np.asarray(x, dtype=float), np.asarray(at, dtype=float)
    off = at - at.mean() if at.size else at
    squares = float(off @ off) or NAN
    positive = (x > 0).all(axis=(-2, -1), keepdims=True)
    logs = np.where(positive, np.log(np.where(x > 0, x, 1.0)), NAN)
    # the blocks' slopes are the difference of what rises with the level and what falls with it
    up, down = np.maximum(off, 0), np.maximum(-off, 0)
    rising, falling = (np.einsum("l,...lb->...b", side, logs) / squares for side in (up, down))
    return paired_t(rising, falling, level)


def trends(
    table: pd.DataFrame, primary: Iterable[tuple[str, str]] = (), cube: Blocked | None = None
) -> pd.DataFrame:
    """Return one row per (workload, metric, factor, system) with two numeric levels or more: how it follows the level.

    ``power``: of the level that the metric grows with, from `log_slope` over the logarithm of the level (0: the same at
    all levels; 1: in proportion; -1: inversely), with its 95 % interval and p of a power of 0, which is adjusted over
    the systems of a metric: Holm for the (workload, metric) pairs of `primary`, else Benjamini-Hochberg. ``page_l``,
    ``page_p``: `page` in both directions, twice the smaller p. ``levels``, ``n``: how many the system ran, and the
    blocks complete in all of them (deployment means where there are several, by ``pair_unit``). A power is a summary,
    not a law: look at the points. NaN where `log_slope` and `page` have none, and for levels that are not positive.
    `cube`: `blocked(table)`. Raises `SchemaError` as `blocks.blocked`.
    """
    cube = blocked(table) if cube is None else cube
    rows: list[dict[str, Any]] = []
    for key, index in cube.cases[cube.cases["level"].notna()].groupby(["workload", "metric", "factor"]).groups.items():
        cases = cube.cases.loc[index].sort_values("level")
        for number, system in enumerate(cube.systems):
            values = cube.numbers[cases.index, number]
            ran = np.isfinite(values).any(axis=-1)
            if ran.sum() > 1:
                of_system = dict(zip(("workload", "metric", "factor", "system"), (*key, system), strict=True))
                deployed = cube.by_deployment[cases.index][ran].any(keepdims=True)
                (stack,) = stacks(values[None, ran], cube.deployment, deployed)
                of_system["pair_unit"] = cases["pair_unit"][ran].iloc[0]
                rows.append(of_system | _trend(stack.numbers[0], cases["level"].to_numpy(dtype=float)[ran]))
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    frame["p_adjusted"], frame["adjustment"] = adjust.by_metric(frame, frame["p"], primary)
    return frame.astype(TYPES)


def _trend(x: Any, level: Any) -> dict[str, Any]:
    """The columns of one system, `x` being (levels, units)."""
    positive = (level > 0).all()
    found = log_slope(x if positive else x[:, :0], np.log(level) if positive else level)
    rise, fall = page(x), page(x[::-1])
    row = {"levels": len(level), "n": x.shape[-1], "power": found.estimate, "p": found.p}
    row |= {"power_low": found.interval.low, "power_high": found.interval.high}
    return row | {"page_l": rise.statistic, "page_p": min(2 * min(rise.p, fall.p), 1.0)}
