"""A metric over a numeric factor: threads, concurrent users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from infrabench import display
from infrabench.core import SchemaError
from infrabench.figures import look


def scaling(
    estimates: pd.DataFrame,
    workload: str,
    metric: str,
    *,
    systems: Sequence[str] | None = None,
    not_run: Mapping[str, str] | None = None,
    bound: tuple[float, str] | None = None,
    width_mm: float = look.COLUMN_MM,
) -> Figure:
    """Return means with 95 % intervals over the levels of the factor, joined because the axis is continuous.

    Systems are set a little apart at each level so that no interval hides another. A level without a value is a gap
    in the line and a cross at the foot of the axis.

    Raises
    ------
    SchemaError
        The workload has no numeric factor, or the metric was not planned.
    """
    cells = estimates[(estimates["workload"] == workload) & (estimates["metric"] == metric)]
    cells = cells[cells["level"].notna()]
    if cells.empty:
        raise SchemaError(f"{workload} {metric} has no cell on a numeric factor: use points() instead")
    names = look.systems_of(cells, systems, not_run)
    drawn = [name for name in names if name in set(cells["system"])]
    levels = np.sort(cells["level"].unique())
    gap = 0.09 * np.diff(levels).min() if levels.size > 1 else 0.05
    scale = display.scale([*cells["mean_high"], *cells["mean"], *([bound[0]] if bound else [])], cells["unit"].iloc[0])
    with look.style():
        figure, axes = look.canvas(width_mm, 62)
        empty = False
        for i, name in enumerate(drawn):
            mine = cells[cells["system"] == name].set_index("level").reindex(levels)
            x = levels + (i - (len(drawn) - 1) / 2) * gap
            mark = look.looks(names)[name]
            mean = mine["mean"] / scale.factor
            axes.plot(x, mean, c=mark.colour, marker=mark.marker, ms=3.4, mec="white", mew=0.3, lw=0.8, zorder=3)
            axes.vlines(x, mine["mean_low"] / scale.factor, mine["mean_high"] / scale.factor, color=mark.colour, lw=1.0)
            gone = x[(mine["planned"].notna() & (mine["n"] == 0)).to_numpy()]
            axes.plot(gone, [0.025] * gone.size, "x", c=mark.colour, ms=4, transform=axes.get_xaxis_transform())
            empty = empty or gone.size > 0
        look.upper_bound(axes, bound, scale.factor)
        look.from_zero(axes, cells, scale.factor, bound)
        axes.set_xticks(levels, [f"{level:g}" for level in levels])
        axes.set_xlabel(str(cells["factor"].iloc[0]))
        axes.set_ylabel(display.axis_label(metric, scale.unit, cells["better"].iloc[0]), wrap=True)
        cross = Line2D([], [], color=look.GREY, marker="x", lw=0, ms=4, label="no ok trial")
        look.legend(figure, look.looks(names), drawn, [cross] if empty else [])
        look.footnote(figure, look.not_run_notes(not_run, names))
    return figure
