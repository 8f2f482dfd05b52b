"""Load to the knee: the rate of requests that a system sustains before their time leaves its plateau, block by block.

Over offered rates the time of a request is a plateau and then a cliff (Jain 1991, section 3.3). Where the plateau ends
is no point of the curve but a convention; here it is a limit that all systems share, `TIMES` of what the baseline takes
at the lowest rate. So two systems are compared at equal latency: by the rates at which each reaches the limit. In every
block that rate lies between the last level within the limit and the first above it, on a straight line of both
logarithms. It is a value like any other then, with its interval, its ratio to the baseline in pairs, and its verdict.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

TIMES = 2.0
METRIC = "sustained_per_s"
Array = NDArray[np.float64]


def crossing(levels: Array, times: Array, limit: float) -> Array:
    """Return where times that rise with the level reach a limit, along the last axis; NaN where they do not.

    `levels`: (k,), rising, positive; `times`: (..., k), positive, NaN where there is none, which is left out. The first
    level above the limit counts, whatever comes after it. NaN too where already the lowest level is above. Linear
    interpolation of both logarithms.

    Examples
    --------
    >>> crossing(np.array([100.0, 1000.0]), np.array([[1.0, 4.0], [1.0, 1.5]]), 2.0).round(1).tolist()
    [316.2, nan]
    """
    found = np.full(times.shape[:-1], np.nan)
    for index in np.ndindex(found.shape):
        known = np.isfinite(times[index]) & (times[index] > 0)
        x, y = np.log(levels[known]), np.log(times[index][known])
        above = np.flatnonzero(y > np.log(limit))
        if above.size and above[0]:
            after, before = above[0], above[0] - 1
            share = (np.log(limit) - y[before]) / (y[after] - y[before])
            found[index] = np.exp(x[before] + share * (x[after] - x[before]))
    return found


def find_limit(table: pd.DataFrame, workload: str, metric: str, baseline: str) -> float:
    """Return the limit that all systems share: `TIMES` the median time of the baseline at its lowest level.

    `table`: the tidy table, and `metric` a time of a workload that lies on levels. NaN without a value of the baseline.
    """
    rows = _rows(table, workload, metric)
    rows = rows[rows["system"] == baseline]
    return float(TIMES * rows.loc[rows["level"] == rows["level"].min(), "value"].median()) if len(rows) else np.nan


def sustain(table: pd.DataFrame, workload: str, metric: str, limit: float) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return the rates at which each system's times reach a limit, and for each other system its blocks without one.

    The first is a tidy table with one row a system and block: its metric is `METRIC`, in the unit of the levels (1/s),
    and its trial that of the lowest level. A system has rows only where the times of all its blocks reach the limit
    within the levels, with no trial lost up to there. Those that do not are its best ones, or its worst: without them
    its mean would be another's.
    """
    lacking = dict[str, int]()
    frames = []
    counted = ~table["state"].isin(("discarded", "invalid"))  # an invalid trial is missing by chance
    tried = table[(table["workload"] == workload) & table["level"].notna() & counted]
    for cell, block in tried.groupby(["system", "session", "deployment", "block"], sort=False, observed=True):
        ordered = _rows(block, workload, metric).sort_values("level")
        (rate,) = crossing(ordered["level"].to_numpy("float64"), ordered[["value"]].to_numpy("float64").T, limit)
        first_above = ordered.loc[ordered["value"] > limit, "level"].min()
        if any(level <= first_above for level in {*block["level"]} - {*ordered["level"]}):
            rate = np.nan  # it may have been above the limit there
        if not np.isfinite(rate):
            lacking[str(cell[0])] = lacking.get(str(cell[0]), 0) + 1
        if ordered.empty:
            continue
        frames.append(ordered.iloc[[0]].assign(
            value=rate, metric=METRIC, unit="1/s", better="higher", factor=None, level=np.nan,
            scenario=f"{metric} up to {limit:.3g} s",
        ))  # fmt: skip
    every = pd.concat(frames, ignore_index=True).astype(table.dtypes) if frames else table.iloc[:0]
    return every[~every["system"].isin(list(lacking))].reset_index(drop=True), lacking


def _rows(table: pd.DataFrame, workload: str, metric: str) -> pd.DataFrame:
    rows = table[(table["workload"] == workload) & (table["metric"] == metric) & table["level"].notna()]
    return rows[rows["value"] > 0]
