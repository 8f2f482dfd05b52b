"""How a table is written down: a list of columns, each a heading and a function of a row; and what many have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any

import numpy as np
import pandas as pd

from infrabench.analysis.tables import notation

NO_UNIT = notation.Scale(1.0, "", "")  # of a case that never succeeded, so that no metric is known
CI = "95 % CI"
Columns = Mapping[str, Callable[[Any], str]]  # heading -> text of a row


def write(frame: pd.DataFrame, columns: Columns, seldom: Iterable[str] = ()) -> pd.DataFrame:
    """Return one row of text for each row of `frame`, without those `seldom` columns that say nothing in any row.

    >>> write(frame, words("workload", "system") | p_values({"p": "friedman_p"}))
    """
    rows = [{name: text(row) for name, text in columns.items()} for row in frame.itertuples(index=False)]
    return without_empty(pd.DataFrame(rows, dtype="str"), seldom)


def words(*names: str) -> Columns:
    """Return columns of words, each headed as it is called."""
    return {name: attrgetter(name) for name in names}


def numbers(names: Mapping[str, str], text: Callable[[Any], str] = notation.short, times: float = 1) -> Columns:
    """Return columns of numbers, heading -> name, each written by `text`."""
    return {heading: lambda row, name=name: text(times * getattr(row, name)) for heading, name in names.items()}


def p_values(names: Mapping[str, str]) -> Columns:
    """Return columns of p-values, heading -> name."""
    return numbers(names, notation.p_value)


REPLICATES: Columns = {"n": lambda row: f"{row.n} {row.pair_unit}"}  # how many of what


def f_test(what: str, prefix: str, f: str, p: str) -> Columns:
    """Return F, its degrees of freedom and p as three columns, `what` behind their names."""

    def degrees(row: Any) -> str:
        df1, df2 = getattr(row, f"{prefix}df1"), getattr(row, f"{prefix}df2")
        return "n/a" if np.isnan(df2) else f"{df1:.4g}, {df2:.4g}"

    return {**numbers({f"F{what}": f}), f"df{what}": degrees, **p_values({f"p{what}": p})}


def metric_scales(frame: pd.DataFrame, column: str) -> dict[tuple[Any, Any], notation.Scale]:
    """Return one scale for each metric of a workload, so that its rows can be compared by eye; `NO_UNIT` for others."""
    groups = frame.groupby(["workload", "metric"], observed=True)
    scales = {key: notation.scale(group[column], group["unit"].iloc[0]) for key, group in groups}
    return defaultdict(lambda: NO_UNIT, scales)


def row_names(row: Any, scale: notation.Scale) -> dict[str, str]:
    """Return the columns that say which cell a row is, the metric with its shown unit."""
    metric = "no metric" if pd.isna(row.metric) else notation.metric_title(row.metric)
    return {"workload": row.workload, "scenario": row.scenario, "metric": metric + scale.label, "system": row.system}


def both(row: Any, name: str, stem: str = "", factor: float = 1.0, null: float | None = None) -> tuple[str, str]:
    """Return a number and its interval as text: both to the place that the half-width gives."""
    low, high = (getattr(row, f"{stem or name}_{end}") / factor for end in ("low", "high"))
    return notation.estimate(getattr(row, name) / factor, low, high, null)


def pair(label: str, texts: tuple[str, str], interval: str | None = None) -> dict[str, str]:
    """Return a number and its interval, as of `both`, as two columns."""
    return {label: texts[0], interval or f"{label} {CI}": texts[1]}


def without_empty(table: pd.DataFrame, columns: Iterable[str]) -> pd.DataFrame:
    """Return the table without those of `columns` that say nothing in any row."""
    empty = [name for name in columns if name in table and (table[name] == "").all()]
    return table.drop(columns=empty)
