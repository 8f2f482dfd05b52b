"""Load to the knee: the rate of requests that a system sustains before their time leaves its plateau, block by block.

Over offered rates, or requests that are outstanding at once, the time of a request is a plateau and then a cliff (Jain
1991, section 3.3). Where the plateau ends is no point of the curve but a convention; here it is a limit that all
systems share, `TIMES` of what the slowest of them takes at the lowest level, so that each is within it there. So
systems are compared at equal latency: by the rates at which each reaches the limit. In every block that rate lies
between the last level within the limit and the first above it, on a straight line of both logarithms. It is a value
like any other then, with its interval, its ratio to the baseline in pairs, and its verdict.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

TIMES = 2.0
METRIC = "sustained_per_s"
Array = NDArray[np.float64]


def crossing(rates: Array, times: Array, limit: float) -> Array:
    """Return the rate at which times that rise with the load reach a limit, along the last axis; NaN where they do not.

    `rates`: (..., k), positive, in the order of the load; `times`: (..., k), positive, NaN where there is none: those
    are left out. The first time above the limit counts, whatever comes after it. NaN too where already that of the
    lowest load is above. Linear interpolation of both logarithms.

    Examples
    --------
    >>> crossing(np.array([100.0, 1000.0]), np.array([[1.0, 4.0], [1.0, 1.5]]), 2.0).round(1).tolist()
    [316.2, nan]
    """
    found = np.full(times.shape[:-1], np.nan)
    rates = np.broadcast_to(rates, times.shape)
    for index in np.ndindex(found.shape):
        known = np.isfinite(times[index]) & (times[index] > 0)
        x, y = np.log(rates[index][known]), np.log(times[index][known])
        above = np.flatnonzero(y > np.log(limit))
        if above.size and above[0]:
            after, before = above[0], above[0] - 1
            share = (np.log(limit) - y[before]) / (y[after] - y[before])
            found[index] = np.exp(x[before] + share * (x[after] - x[before]))
    return found


def find_limit(table: pd.DataFrame, workload: str, metric: str) -> tuple[float, str]:
    """Return the limit that all systems share, and whose it is: `TIMES` the largest median time at the lowest level.

    `table`: the tidy table, and `metric` a time of a workload that lies on levels of one factor. NaN without any value.
    """
    rows = _rows(table, workload, metric)
    lowest = rows[rows["level"] == rows["level"].min()]
    medians = lowest.groupby("system", observed=True)["value"].median()
    return (float(TIMES * medians.max()), str(medians.idxmax())) if len(medians) else (np.nan, "")


def sustain(
    table: pd.DataFrame, workload: str, metric: str, limit: float, rate: str | None = None
) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return the rates at which each system's times reach a limit, and for each other system its blocks without one.

    `rate`: the metric that says how much is done at a level; None: the level is the rate that was offered.

    The first is a tidy table with one row a system and block: its metric is `METRIC` (1/s), and its trial that of the
    lowest level. A system has rows only where the times of all its blocks reach the limit within the levels, with no
    trial lost up to there. Those that do not are its best ones, or its worst: without them its mean would be another's.
    """
    lacking = dict[str, int]()
    frames = []
    counted = ~table["state"].isin(("discarded", "invalid"))  # an invalid trial is missing by chance
    tried = table[(table["workload"] == workload) & table["level"].notna() & counted]
    for cell, block in tried.groupby(["system", "session", "deployment", "block"], sort=False, observed=True):
        ordered = _rows(block, workload, metric).sort_values("level")
        rates = ordered["level"] if rate is None else ordered["trial"].map(
            _rows(block, workload, rate).set_index("trial")["value"]
        )  # fmt: skip
        (found,) = crossing(rates.to_numpy("float64"), ordered[["value"]].to_numpy("float64").T, limit)
        first_above = ordered.loc[ordered["value"] > limit, "level"].min()
        if any(level <= first_above for level in {*block["level"]} - {*ordered["level"]}):
            found = np.nan  # it may have been above the limit there
        if not np.isfinite(found):
            lacking[str(cell[0])] = lacking.get(str(cell[0]), 0) + 1
        if ordered.empty:
            continue
        frames.append(ordered.iloc[[0]].assign(
            value=found, metric=METRIC, unit="1/s", better="higher", factor=None, level=np.nan,
            scenario=f"{ordered['factor'].iloc[0]} until {metric} is {limit:.3g} s",
        ))  # fmt: skip
    every = pd.concat(frames, ignore_index=True).astype(table.dtypes) if frames else table.iloc[:0]
    return every[~every["system"].isin(list(lacking))].reset_index(drop=True), lacking


def _rows(table: pd.DataFrame, workload: str, metric: str) -> pd.DataFrame:
    rows = table[(table["workload"] == workload) & (table["metric"] == metric) & table["level"].notna()]
    return rows[rows["value"] > 0]
