"""What the rows of all tables share: names, units of a metric, a number beside its interval."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from infrabench.analysis.tables import notation

CELL = ["workload", "scenario", "metric", "system"]
NO_UNIT = notation.Scale(1.0, "", "")  # of a case that never succeeded, so that no metric is known
CI = "95 % CI"


def metric_scales(frame: pd.DataFrame, column: str) -> dict[tuple[Any, Any], notation.Scale]:
    """Return one scale for each metric of a workload, so that its rows can be compared by eye."""
    groups = frame.groupby(["workload", "metric"], observed=True)
    return {key: notation.scale(group[column], group["unit"].iloc[0]) for key, group in groups}


def row_names(row: Any, scale: notation.Scale) -> dict[str, str]:
    """Return the columns that say which cell a row is, the metric with its shown unit."""
    metric = "no metric" if pd.isna(row.metric) else notation.metric_title(row.metric)
    unit = f" ({scale.unit})" if scale.unit not in ("", "1") else ""
    return {"workload": row.workload, "scenario": row.scenario, "metric": metric + unit, "system": row.system}


def both(row: Any, name: str, stem: str = "", factor: float = 1.0, null: float | None = None) -> tuple[str, str]:
    """Return a number and its interval as text: both to the place that the half-width gives."""
    low, high = (getattr(row, f"{stem or name}_{end}") / factor for end in ("low", "high"))
    return notation.estimate(getattr(row, name) / factor, low, high, null)


def f_test(what: str, f: float, df1: float, df2: float, p: float) -> dict[str, str]:
    """Return F, its degrees of freedom and p as three columns, `what` behind their names."""
    df = "n/a" if np.isnan(df2) else f"{df1:.4g}, {df2:.4g}"
    return {f"F{what}": notation.short(f), f"df{what}": df, f"p{what}": notation.p_value(p)}


def pair(label: str, texts: tuple[str, str], interval: str | None = None) -> dict[str, str]:
    """Return a number and its interval, as of `both`, as two columns."""
    return {label: texts[0], interval or f"{label} {CI}": texts[1]}


def without_empty(table: pd.DataFrame, columns: tuple[str, ...]) -> pd.DataFrame:
    """Return the table without those of `columns` that say nothing in any row."""
    empty = [name for name in columns if name in table and (table[name] == "").all()]
    return table.drop(columns=empty)
