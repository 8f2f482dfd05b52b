"""A metric over a numeric factor: threads, concurrent users, pods; and its ratio to the baseline over the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from infrabench.analysis.figures import theme
from infrabench.analysis.figures.ratios import ratio_axis, ratio_mark
from infrabench.analysis.tables import notation
from infrabench.core import SchemaError

LABEL_MM = 36.0  # room for the label of the upper axis of two
CLOSE = 4  # systems whose ratios can be told apart in a column
ALONE = 0.3  # of the axis on either side of a level that has no other
GAP = 0.09  # between two systems at one level, in steps of the closest levels


def scaling(
    estimates: pd.DataFrame,
    workload: str,
    metric: str,
    *,
    systems: Sequence[str] | None = None,
    not_run: Mapping[str, str] | None = None,
    bound: tuple[float, str] | None = None,
    contrasts: pd.DataFrame | None = None,
    width_mm: float | None = None,
) -> Figure:
    """Return means with 95 % intervals over the levels of the factor, joined because the axis is continuous.

    Systems are set a little apart at each level so that no interval hides another. A level without a value is a gap
    in the line and a cross at the foot of the axis. A metric that lies on several factors has a panel for each. With
    `contrasts`, a second row shows each system's ratio to the baseline with its interval and the margin. By default
    85 mm wide with one panel, 174 with more, or where so many systems' ratios would cover each other.

    Raises
    ------
    SchemaError
        The workload has no numeric factor, or the metric was not planned.
    """
    cells = estimates[(estimates["workload"] == workload) & (estimates["metric"] == metric)]
    cells = cells[cells["level"].notna()]
    if cells.empty:
        raise SchemaError(f"{workload} {metric} has no cell on a numeric factor: use points() instead")
    names = theme.systems_of(cells, systems, not_run)
    marks = theme.assign_styles(names)
    drawn = [name for name in names if name in set(cells["system"])]
    factors = list(dict.fromkeys(cells["factor"]))
    rows = 1 if contrasts is None else 2
    narrow = len(factors) == 1 and (rows == 1 or len(drawn) <= CLOSE)
    width = width_mm or (theme.COLUMN_MM if narrow else theme.PAGE_MM)
    scale = notation.scale([*cells["mean_high"], *cells["mean"], *([bound[0]] if bound else [])], cells["unit"].iloc[0])
    with theme.style():
        height = 62 + 36 * (rows - 1) + theme.legend_mm(drawn, width)
        ratios = {"height_ratios": [1.5, 1]} if rows == 2 else None
        figure, grid = theme.canvas(
            width, height, nrows=rows, ncols=len(factors), sharex="col", sharey="row", squeeze=False, gridspec_kw=ratios
        )
        empty = False
        for column, factor in enumerate(factors):
            mine, panels = cells[cells["factor"] == factor], grid[:, column]
            places = _places(mine, drawn)
            empty = _means(panels[0], mine, places, marks, scale.factor) or empty
            theme.upper_bound(panels[0], bound, scale.factor)
            if contrasts is not None:
                rows_of = contrasts[(contrasts["workload"] == workload) & (contrasts["metric"] == metric)]
                _ratios(panels[1], rows_of, factor, places, marks)
            levels = np.sort(mine["level"].unique())
            panels[-1].set_xticks(levels, [f"{level:g}" for level in levels])
            if levels.size == 1:
                panels[-1].set_xlim(levels[0] - ALONE, levels[0] + ALONE)
            panels[-1].set_xlabel(str(factor))
        theme.from_zero(grid[0, 0], cells, scale.factor, bound)
        label = notation.axis_label(metric, scale.unit, cells["better"].iloc[0])
        grid[0, 0].set_ylabel(label if rows == 1 else theme.broken(label, LABEL_MM), wrap=True)
        cross = Line2D([], [], color=theme.GREY, marker="x", lw=0, ms=4, label="no ok trial")
        theme.legend(figure, marks, drawn, [cross] if empty else [])
        theme.footnote(figure, theme.not_run_notes(not_run, names))
    return figure


def _places(cells: pd.DataFrame, drawn: Sequence[str]) -> dict[tuple[str, str], float]:
    """(scenario, system) -> place on the axis: its level, the systems a little apart."""
    levels = np.sort(cells["level"].unique())
    gap = GAP * np.diff(levels).min() if levels.size > 1 else 0.05
    level = dict(zip(cells["scenario"], cells["level"], strict=True))
    shift = {name: (i - (len(drawn) - 1) / 2) * gap for i, name in enumerate(drawn)}
    return {(scenario, name): at + shift[name] for scenario, at in level.items() for name in drawn}


def _means(
    axes: Axes,
    cells: pd.DataFrame,
    places: Mapping[tuple[str, str], float],
    marks: Mapping[str, theme.SystemStyle],
    factor: float,
) -> bool:
    """Draw means and intervals; tell whether a level that was planned has no value."""
    every = cells[["scenario", "level"]].drop_duplicates().sort_values("level")
    empty = False
    for name in dict.fromkeys(system for _, system in places):
        mine = cells[cells["system"] == name].set_index("scenario").reindex(every["scenario"])
        x = np.array([places[scenario, name] for scenario in every["scenario"]])
        mark = marks[name]
        axes.plot(x, mine["mean"] / factor, c=mark.colour, marker=mark.marker, ms=3.4, mec="white", mew=0.3, lw=0.8,
                  ls=mark.dash, zorder=3)  # fmt: skip
        axes.vlines(x, mine["mean_low"] / factor, mine["mean_high"] / factor, color=mark.colour, lw=1.0)
        gone = x[(mine["planned"].notna() & (mine["n"] == 0)).to_numpy()]
        axes.plot(gone, [0.025] * gone.size, "x", c=mark.colour, ms=4, transform=axes.get_xaxis_transform())
        empty = empty or gone.size > 0
    return empty


def _ratios(
    axes: Axes,
    contrasts: pd.DataFrame,
    factor: str,
    places: Mapping[tuple[str, str], float],
    marks: Mapping[str, theme.SystemStyle],
) -> None:
    """Draw the ratios of one factor; the axis is wide enough for those of all, which share it."""
    if contrasts.empty:
        return
    ratio_axis(axes.yaxis, contrasts, axes.set_ylim, most=5)
    axes.axhline(1, color=theme.GREY, lw=0.7, zorder=1)
    for margin in contrasts["margin"].dropna().unique():
        axes.axhspan(1 - margin, 1 + margin, color=theme.BAND, lw=0, zorder=0)
    for row in contrasts[contrasts["factor"] == factor].itertuples(index=False):
        ratio_mark(axes, row, places[row.scenario, row.system], marks[row.system], vertical=True)
    if axes.get_subplotspec().is_first_col():
        axes.set_ylabel(theme.broken(f"Ratio to {contrasts['baseline'].iloc[0]}", 30, " to "))
