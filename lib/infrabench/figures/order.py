"""The run sequence of one case: drift, steps and bursts show here before any test finds them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from infrabench import display
from infrabench.core import SchemaError
from infrabench.figures import style as look


def order(
    table: pd.DataFrame,
    workload: str,
    metric: str,
    scenario: str,
    *,
    systems: Sequence[str] | None = None,
    width_mm: float = look.PAGE_MM,
) -> Figure:
    """Return the run sequence of one case: every value in executed order, blocks marked, missing values as crosses.

    Raises `SchemaError` when the case has no trial.
    """
    case = table[(table["workload"] == workload) & (table["scenario"] == scenario)]
    case = case[(case["metric"] == metric) | case["metric"].isna()].sort_values("position")
    if case["metric"].isna().all():
        raise SchemaError(f"no ok trial of {workload}, {scenario}, {metric}: there is nothing to draw in order")
    first = case[case["metric"].notna()].iloc[0]
    names = look.systems_of(case, systems, None)
    scale = display.scale(case["value"], first["unit"])
    with look.style():
        figure, axes = look.canvas(width_mm, 55)
        # the order among the trials of this case: gaps for other workloads would only thin the plot out
        rank = pd.Series(np.arange(1, len(case) + 1), index=case.index)
        for name in names:
            mine = case[case["system"] == name]
            mark = look.looks(names)[name]
            axes.plot(rank[mine.index], mine["value"] / scale.factor, mark.marker, c=mark.colour, ms=3, mew=0, lw=0)
        bad = case[case["state"] != "ok"]
        for name in bad["system"].unique():
            at = rank[bad.index[bad["system"] == name]]
            colour = look.looks(names)[name].colour
            axes.plot(at, [0.02] * len(at), "x", c=colour, ms=4, transform=axes.get_xaxis_transform(), clip_on=False)
        starts = rank[case["block"].diff().fillna(0) != 0]
        for start in starts:
            axes.axvline(start - 0.5, color=look.LIGHT, lw=0.4, zorder=0)
        low, high = np.nanmin(case["value"]) / scale.factor, np.nanmax(case["value"]) / scale.factor
        room = 0.12 * (high - low) or 0.05 * abs(high) or 1.0
        axes.set_ylim(low - 1.5 * room, high + room)
        axes.set_xlim(0, len(case) + 1)
        axes.set_xlabel(f"trial of {workload}, {scenario}, in executed order (lines: blocks)")
        axes.set_ylabel(display.axis_label(metric, scale.unit, first["better"]), wrap=True)
        cross = Line2D([], [], color=look.GREY, marker="x", lw=0, ms=4, label="no value")
        present = [name for name in names if name in set(case["system"])]
        look.legend(figure, look.looks(names), present, [cross] if len(bad) else [], line=0)
    return figure
