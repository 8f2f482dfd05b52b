"""Tidy table -> one row per cell: how many trials, and what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from infrabench.core import STATES
from infrabench.stats.intervals import NAN, Array, constant, median_interval, t_interval

CASE = ["workload", "scenario"]
CELL = ["workload", "scenario", "metric", "system"]
COLUMNS = (
    *("workload", "scenario", "factor", "level", "metric", "unit", "better", "system"),
    *("planned", *STATES, "n"),
    *("mean", "mean_low", "mean_high", "median", "median_low", "median_high", "median_level"),
    *("sd", "cov", "min", "max", "deterministic"),
)
TEXT = ("workload", "scenario", "factor", "metric", "unit", "better", "system")
COUNTS = ("planned", *STATES, "n")


def estimates(table: pd.DataFrame, missing: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return one row per cell with counts by state, mean, median, their 95 % intervals and the spread.

    Parameters
    ----------
    table
        The tidy table.
    missing
        Planned trials without a record (`infrabench.tidy.missing`); they count as planned and as nothing else.

    Returns
    -------
    DataFrame
        Columns `COLUMNS`, units of the table. ``mean_low``, ``mean_high``: Student's t. ``median_low``,
        ``median_high``: exact order statistics at ``median_level``, none below n = 6. ``deterministic``: all values
        are equal, hence no interval. A cell without any value keeps its counts and has n = 0.
    """
    counts = _counts(table, missing)
    values = {
        cell: group.to_numpy(dtype=float)
        for cell, group in table[table["value"].notna()].groupby(CELL, observed=True, sort=False)["value"]
    }
    rows: list[dict[str, Any]] = []
    for case in counts.itertuples(index=False):
        for metric, unit, better in _kinds(table, case.workload, case.scenario):
            found = values.get((case.workload, case.scenario, metric, case.system), np.empty(0))
            rows.append(case._asdict() | {"metric": metric, "unit": unit, "better": better} | describe(found))
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    # the systems of one metric stand together; counts already come in the order of the scenarios
    case_order = frame.groupby(CASE, sort=False).ngroup()
    frame = frame.assign(case=case_order).sort_values(["case", "metric", "system"], kind="stable", ignore_index=True)
    types = dict.fromkeys(TEXT, "str") | dict.fromkeys(COUNTS, "int64") | {"deterministic": "bool"}
    types |= {name: "float64" for name in COLUMNS if name not in types}
    return frame[list(COLUMNS)].astype(types)


def describe(values: Array) -> dict[str, Any]:
    """Return n, mean, median, intervals and spread of the values of one cell; NaN for what they cannot say."""
    n = values.size
    if n == 0:
        empty = COLUMNS[COLUMNS.index("mean") : COLUMNS.index("deterministic")]
        return {"n": 0, "deterministic": False} | dict.fromkeys(empty, NAN)
    mean, median = t_interval(values), median_interval(values)
    sd = float(values.std(ddof=1)) if n > 1 else NAN
    if constant(values):
        sd = 0.0  # not the rounding error of a sum
    centre = float(values.mean())
    return {
        "n": n,
        "mean": centre,
        "mean_low": mean.low,
        "mean_high": mean.high,
        "median": float(np.median(values)),
        "median_low": median.low,
        "median_high": median.high,
        "median_level": median.level,
        "sd": sd,
        "cov": sd / abs(centre) if centre else NAN,
        "min": float(values.min()),
        "max": float(values.max()),
        "deterministic": constant(values),
    }


def _counts(table: pd.DataFrame, missing: pd.DataFrame | None) -> pd.DataFrame:
    """Trials by state for each (workload, scenario, system), scenarios in order of their level."""
    keys = [*CASE, "system", "factor", "level"]
    trials = table.drop_duplicates(["session", "trial"])[[*keys, "state"]]
    if missing is not None and len(missing):
        trials = pd.concat([trials, missing[keys].assign(state="missing")], ignore_index=True)
    if trials.empty:
        return pd.DataFrame(columns=[*keys, "planned", *STATES])
    states = pd.get_dummies(trials["state"], dtype=int).reindex(columns=list(STATES), fill_value=0)
    counts = states.assign(planned=1).groupby([trials[key] for key in keys], dropna=False, observed=True).sum()
    return counts.reset_index().sort_values(["workload", "level", "scenario", "system"], ignore_index=True)


def _kinds(table: pd.DataFrame, workload: str, scenario: str) -> list[tuple[Any, Any, Any]]:
    """Metric, unit and direction seen in a case; a case that never succeeded borrows those of its workload."""
    seen = table[(table["workload"] == workload) & table["metric"].notna()].sort_values("metric", kind="stable")
    here = seen[seen["scenario"] == scenario]
    found = (seen if here.empty else here).drop_duplicates("metric")[["metric", "unit", "better"]]
    return list(found.itertuples(index=False, name=None)) or [(None, None, None)]
