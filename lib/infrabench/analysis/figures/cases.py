"""The trials of one case as a figure needs them: in executed order, and small panels side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from infrabench.analysis.figures import theme
from infrabench.core import SchemaError

ORDER = ["session", "position", "attempt", "started_utc"]  # repeats share the last position of their block
LOG_FROM = 10.0  # largest over smallest value, from which an axis is logarithmic
LARGEST_MM = 58.0  # a panel that is larger says no more


def trials_of(table: pd.DataFrame, workload: str, metric: str, scenario: str) -> pd.DataFrame:
    """Return the trials of one case in executed order, those without a value too, as column ``rank`` 1, 2, ...

    Raises `SchemaError` when none of them has a value of this metric.
    """
    case = table[(table["workload"] == workload) & (table["scenario"] == scenario)]
    case = case[(case["metric"] == metric) | case["metric"].isna()].sort_values(ORDER, kind="stable")
    if case["metric"].isna().all():
        raise SchemaError(f"no ok trial of {workload}, {scenario}, {metric}: there is nothing to draw")
    # the order among the trials of this case: gaps for other workloads would only thin the plot out
    return case.assign(rank=np.arange(1, len(case) + 1))


def values_of(table: pd.DataFrame, workload: str, metric: str, scenario: str) -> dict[str, np.ndarray]:
    """Return system -> its values in executed order; raises `SchemaError` when there are none."""
    case = trials_of(table, workload, metric, scenario)
    case = case[case["value"].notna()]
    groups = case.groupby("system", observed=True, sort=False)["value"]
    return {str(name): values.to_numpy(dtype=float) for name, values in groups}


def unit_of(case: pd.DataFrame) -> tuple[str, str]:
    """Return unit and direction of the metric of a case."""
    first = case[case["metric"].notna()].iloc[0]
    return str(first["unit"]), str(first["better"])


def panels(count: int, width_mm: float) -> tuple[Figure, list[Axes]]:
    """Return a figure of `count` square panels and their axes: four to a row on a page, two in a column."""
    columns = min(count, 4 if width_mm > 120 else 2)
    rows = -(-count // columns)
    each = min(width_mm / max(columns, 2), LARGEST_MM)
    figure, grid = theme.canvas(width_mm, rows * each + 6, nrows=rows, ncols=columns, squeeze=False)
    axes = list(grid.ravel())
    for unused in axes[count:]:
        unused.set_visible(False)
    return figure, axes[:count]


def row_of(frame: pd.DataFrame | None, **where: str) -> Any:
    """Return the first row of `frame` (as a named tuple) with these values, or None."""
    if frame is None or frame.empty:
        return None
    chosen = np.logical_and.reduce([(frame[name] == value).to_numpy() for name, value in where.items()])
    return next(frame[chosen].itertuples(index=False), None)


def value_axis(axes: Axes, values: np.ndarray) -> None:
    """Make the x axis hold `values`: logarithmic where all are positive and span more than a factor of ten."""
    low, high = float(values.min()), float(values.max())
    if low > 0 and high / low > LOG_FROM:
        axes.set_xscale("log")
        room = (high / low) ** 0.03
        axes.set_xlim(low / room, high * room)
        few = high / low < 500
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,), numticks=12 if few else 6))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        return
    axes.xaxis.set_major_locator(MaxNLocator(6, min_n_ticks=2))
    room = 0.03 * (high - low) or 0.05 * abs(high) or 1.0
    axes.set_xlim(low - room, high + room)
