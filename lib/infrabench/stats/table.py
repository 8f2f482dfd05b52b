"""The columns of a tidy table that an analysis reads, and what they must hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from infrabench.core import SchemaError

# what an analysis reads; no other column is asked for
ANALYSED = (
    *("session", "trial", "block", "position", "deployment", "attempt", "system", "workload", "scenario"),
    *("factor", "level", "metric", "value", "unit", "better", "state"),
)
TREATMENT = ["session", "block", "workload", "scenario", "system"]  # once in a block, whatever its trials are called


def check_values(table: pd.DataFrame) -> pd.DataFrame:
    """Return `table` unchanged when it has what an analysis needs: the columns `ANALYSED`, whatever their types.

    Every function that makes a table from this one calls it first, for a table need not come from a session folder.
    Raises `SchemaError` naming the row: a metric without a finite value, unit or direction, a value without a metric or
    of a trial that is not ok, a level without end, two units or directions of one metric, and two ok trials of one
    treatment in a block.
    """
    absent = [name for name in ANALYSED if name not in table.columns]
    if absent:
        raise SchemaError(f"tidy table: it lacks {', '.join(absent)}; its columns are {list(table.columns)}")
    measured = table["metric"].notna()
    refuse(table, measured & ~np.isfinite(table["value"]), "a metric without a finite value")
    refuse(table, measured & (table["unit"].isna() | table["better"].isna()), "a metric without unit or direction")
    refuse(table, table["value"].notna() & (~measured | (table["state"] != "ok")), "a value outside an ok measurement")
    refuse(table, np.isinf(table["level"]), "a level without end")
    of_metric = table.groupby(["workload", "metric"], observed=True)
    kinds = of_metric[["unit", "better"]].nunique()
    for name, word in (("unit", "unit"), ("better", "direction")):
        if (kinds[name] > 1).any():
            other = table[name].astype("str") != of_metric[name].transform("first").astype("str")
            refuse(table, measured & other, f"more than one {word} of its metric: not that of the rows before")
    again = measured & table.duplicated([*TREATMENT, "metric"])
    refuse(table, again, "a metric that its block has of it already: of two ok trials, and a block holds each once")
    return table


def refuse(table: pd.DataFrame, wrong: pd.Series, what: str) -> None:
    """Return nothing where no row is `wrong`; else raise `SchemaError` with the first row and `what` it has."""
    if wrong.any():
        first: Mapping[Any, Any] = table.loc[wrong].iloc[0].to_dict()
        where = f"trial {first['trial']} ({first['workload']}, {first['scenario']}, {first['system']})"
        shown = {name: first[name] for name in ("metric", "value", "unit", "better", "state")}
        raise SchemaError(f"tidy table: {where} has {what}: {shown}; {int(wrong.sum())} such rows")
