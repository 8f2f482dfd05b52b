"""What the trials so far say, for somebody who watches a session: means and ratios with their intervals.

No test and no verdict: a session that is stopped, or prolonged, for what it says so far is biased by that.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from infrabench.stats.blocks import SHARED, blocked, stacks
from infrabench.stats.intervals import NAN, t_interval
from infrabench.stats.ratios import paired_fieller

NUMBERS = ("n", "mean", "mean_low", "mean_high", "n_pairs", "ratio", "ratio_low", "ratio_high")
COLUMNS = (*SHARED, "system", *NUMBERS)


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
        Columns `COLUMNS`, units of the table. ``mean_*``: Student's t; ``ratio_*``: the paired Fieller interval over
        ``n_pairs`` blocks (deployments, where there are several) in which the system and the baseline are ok; of the
        baseline itself there is none. Ends are NaN below two, and without spread.
    """
    wanted = pd.MultiIndex.from_frame(table[["workload", "metric"]]).isin(list(primary))
    if not wanted.any():
        return pd.DataFrame(columns=list(COLUMNS))
    cube = blocked(table[wanted])
    cases, systems = len(cube.cases), len(cube.systems)
    frame = cube.cases.loc[cube.cases.index.repeat(systems)].reset_index(drop=True)
    frame["system"] = np.tile(cube.systems, cases)
    found = {name: np.full(len(frame), NAN) for name in NUMBERS} | {"n": np.zeros(len(frame))}
    found["n_pairs"] = np.zeros(len(frame))
    by_deployment = np.repeat(cube.by_deployment, systems)
    own = cube.numbers.reshape(len(frame), 1, cube.numbers.shape[-1])
    for cells, each in stacks(own, cube.deployment, by_deployment):
        x = each[:, 0]
        if x.size:
            ends = t_interval(x)
            found["n"][cells], found["mean"][cells] = x.shape[-1], x.mean(axis=-1)
            found["mean_low"][cells], found["mean_high"][cells] = ends.low, ends.high
    if baseline in cube.systems:
        base = np.repeat(cube.numbers[:, [cube.systems.index(baseline)]], systems, axis=1).reshape(own.shape)
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
    frame = frame.assign(**found).astype({"n": "int64", "n_pairs": "int64"})
    frame = frame[frame["n"] > 0].sort_values(["workload", "metric", "level", "scenario", "system"], kind="stable")
    return frame.reset_index(drop=True)[list(COLUMNS)]
