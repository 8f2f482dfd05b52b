"""What the trials so far say, for somebody who watches a session: means and ratios with their intervals.

No test and no verdict: a session that is stopped, or prolonged, for what it says so far is biased by that.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from infrabench.stats.blocks import SHARED, blocked, stacks
from infrabench.stats.event_means import event_means, largest
from infrabench.stats.intervals import LEVEL, NAN, Interval, t_interval
from infrabench.stats.kinds import kinds
from infrabench.stats.losses import explain_unequal
from infrabench.stats.ratios import paired_fieller
from infrabench.stats.table import check_values
from infrabench.stats.work import WORK, rate_interval

NUMBERS = ("n", "mean", "mean_low", "mean_high", "n_pairs", "ratio", "ratio_low", "ratio_high")
COLUMNS = (*SHARED, "system", *NUMBERS, "reason")


def interim(table: pd.DataFrame, baseline: str, primary: Iterable[tuple[str, str]]) -> pd.DataFrame:
    """Return one row per cell of the primary metrics that has a value by now.

    Parameters
    ----------
    table
        The tidy table, of however many trials.
    baseline
        System that the others are divided by.
    primary
        (workload, metric) pairs.

    Returns
    -------
    DataFrame
        Columns `COLUMNS`, units of the table. ``mean_*``: Student's t, of counts and shares as
        `event_means.event_means` says; ``ratio_*``: the paired Fieller interval over
        ``n_pairs`` blocks (deployments, where there are several) in which the system and the baseline are ok; of the
        baseline itself there is none, and none, with the ``reason``, where one of both loses markedly more trials than
        the other (`losses.explain_unequal`). Ends are NaN below two, and without spread. Rates of fixed work by their
        times.

    Raises
    ------
    SchemaError
        The table is not a tidy one (`table.check_values`).
    """
    check_values(table)
    wanted = pd.MultiIndex.from_frame(table[["workload", "metric"]]).isin(list(primary))
    if not wanted.any():
        return pd.DataFrame(columns=list(COLUMNS))
    cube = blocked(table[wanted | table["metric"].isna()])  # lost trials have no metric
    cases, systems = len(cube.cases), len(cube.systems)
    frame = cube.cases.loc[cube.cases.index.repeat(systems)].reset_index(drop=True)
    frame["system"] = np.tile(cube.systems, cases)
    found = {name: np.full(len(frame), NAN) for name in NUMBERS} | {"n": np.zeros(len(frame))}
    found["n_pairs"] = np.zeros(len(frame))
    by_deployment = np.repeat(cube.by_deployment, systems)
    kind = kinds(cube.cases, table)
    work = (kind == WORK) & ~(cube.numbers <= 0).any(axis=(1, 2))
    numbers = np.where(work[:, None, None], 1 / np.where(work[:, None, None], cube.numbers, 1.0), cube.numbers)
    own = numbers.reshape(len(frame), 1, numbers.shape[-1])
    for cells, each in stacks(own, cube.deployment, by_deployment):
        x = each[:, 0]
        if x.size:
            ends = t_interval(x)
            found["n"][cells], found["mean"][cells] = x.shape[-1], x.mean(axis=-1)
            found["mean_low"][cells], found["mean_high"][cells] = ends.low, ends.high
    top = np.repeat(largest(kind, cube.cases["unit"].tolist()), systems)
    values = np.where(np.isnan(top)[:, None], NAN, own[:, 0])
    row, block = np.nonzero(np.isfinite(values))
    if row.size:
        cells, cell = np.unique(row, return_inverse=True)
        unit = np.where(by_deployment[row], cube.deployment[block], block) + row * values.shape[-1]
        means = event_means(values[row, block], cell, unit, top[cells])
        for name, each in zip(("mean", "mean_low", "mean_high"), means, strict=False):
            found[name][cells] = each
    if baseline in cube.systems:
        base = np.repeat(numbers[:, [cube.systems.index(baseline)]], systems, axis=1).reshape(own.shape)
        others = np.flatnonzero(frame["system"] != baseline)
        pairs = np.concatenate([own, base], axis=1)[others]
        for cells, each in stacks(pairs, cube.deployment, by_deployment[others]):
            if each.size:
                x, y, where = each[:, 0], each[:, 1], others[cells]
                ratio = paired_fieller(x, y)
                with np.errstate(divide="ignore", invalid="ignore"):
                    found["ratio"][where] = x.mean(axis=-1) / y.mean(axis=-1)
                found["n_pairs"][where] = x.shape[-1]
                found["ratio_low"][where], found["ratio_high"][where] = ratio.low, ratio.high
    frame["reason"] = ""
    for at, (case, system) in enumerate(np.ndindex(cases, systems)):
        if baseline in cube.systems and cube.systems[system] != baseline and cube.fates[case].any():
            both = [system, cube.systems.index(baseline)]
            names = [cube.systems[each] for each in both]
            if reason := explain_unequal(cube.numbers[case, both], cube.fates[case, both], names):
                frame.loc[at, "reason"] = reason
                for name in ("ratio", "ratio_low", "ratio_high"):
                    found[name][at] = NAN
    for name in ("mean", "ratio"):
        rows = np.repeat(work, systems)
        ends = rate_interval(Interval(found[f"{name}_low"][rows], found[f"{name}_high"][rows], LEVEL))
        found[f"{name}_low"][rows], found[f"{name}_high"][rows] = ends.low, ends.high
        found[name][rows] = 1 / found[name][rows]
    frame = frame.assign(**found).astype({"n": "int64", "n_pairs": "int64"})
    frame = frame[frame["n"] > 0].sort_values(["workload", "metric", "level", "scenario", "system"], kind="stable")
    return frame.reset_index(drop=True)[list(COLUMNS)]
