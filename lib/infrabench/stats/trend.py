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
from infrabench.stats.arrays import sample
from infrabench.stats.blocks import Blocked, blocked, stacks
from infrabench.stats.dependence import Test
from infrabench.stats.intervals import LEVEL, NAN
from infrabench.stats.losses import explain_unequal
from infrabench.stats.pairwise import Comparison, paired_t
from infrabench.stats.verdicts import NOT_COMPARABLE

TYPES = {
    **dict.fromkeys(("workload", "metric", "factor", "system"), "str"),
    **dict.fromkeys(("levels", "n"), "int64"),
    "pair_unit": "str",
    **dict.fromkeys(("power", "power_low", "power_high", "p", "p_adjusted"), "float64"),
    "adjustment": "str",
    **dict.fromkeys(("page_l", "page_p"), "float64"),
    "reason": "str",
}
COLUMNS = tuple(TYPES)


def page(x: ArrayLike) -> Test:
    """Return Page's L and its p, one-sided, that the values rise with the level (Page 1963), shape (...).

    `x`: (..., levels, blocks). Declare the direction beforehand; for a fall turn the levels around. Ranks are taken
    within blocks, so blocks may differ by any amount. Computed by scipy, cell by cell: the exact distribution for few
    blocks and levels, else the normal one; with ties the p is approximate. NaN below three levels or two blocks, and
    when every block is tied throughout.
    """
    x = sample(x)
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
    where a value is not positive; no interval or test below two blocks and without spread. Raises `ValueError` for
    another number of levels than rows of x.
    """
    x, at = sample(x, "x"), sample(at, "the levels")
    if x.shape[-2:-1] != at.shape:
        raise ValueError(f"x has the shape {x.shape} and the levels {at.shape}: give one level for each row of x")
    off = at - at.mean() if at.size else at
    squares = float(off @ off)
    exists = (x > 0).all(axis=(-2, -1)) & (squares > 0)
    logs = np.where(exists[..., None, None], np.log(np.where(x > 0, x, 1.0)), 0.0)
    # the blocks' slopes are the difference of what rises with the level and what falls with it
    up, down = np.maximum(off, 0), np.maximum(-off, 0)
    rising, falling = (np.einsum("l,...lb->...b", side, logs) / (squares or 1.0) for side in (up, down))
    found = paired_t(rising, falling, level)
    return found._replace(estimate=np.where(exists, found.estimate, NAN)[()])  # the rest has no spread: NaN by itself


def trends(table: pd.DataFrame, primary: Iterable[tuple[str, str]] = (), cube: Blocked | None = None) -> pd.DataFrame:
    """Return one row per (workload, metric, factor, system) with two numeric levels or more: how it follows the level.

    ``power``: of the level that the metric grows with, from `log_slope` over the logarithm of the level (0: the same at
    all levels; 1: in proportion; -1: inversely), with its 95 % interval and p of a power of 0, which is adjusted over
    the systems of a metric: Holm for the (workload, metric) pairs of `primary`, else Benjamini-Hochberg. ``page_l``,
    ``page_p``: `page` in both directions, twice the smaller p. ``levels``, ``n``: how many the system ran, and the
    blocks complete in all of them (deployment means where there are several, by ``pair_unit``). A power is a summary,
    not a law: look at the points. NaN where `log_slope` and `page` have none, for levels that are not positive, and,
    with the ``reason``, where the system loses markedly more trials at one level than at another
    (`losses.explain_unequal`). `cube`: `blocked(table)`. Raises `SchemaError` as `blocks.blocked`.
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
                scenarios = cases["scenario"][ran].tolist()
                unequal = explain_unequal(values[ran], cube.fates[cases.index, number][ran], scenarios)
                of_system["reason"] = f"{NOT_COMPARABLE}: {unequal}" if unequal else ""
                numbers = stack.numbers[0][:, :0] if unequal else stack.numbers[0]
                n = stack.numbers.shape[-1]
                rows.append(of_system | _trend(numbers, cases["level"].to_numpy(dtype=float)[ran]) | {"n": n})
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
