"""Empirical distribution functions of one case: what a latency does beyond its mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from infrabench.analysis.figures import theme
from infrabench.analysis.figures.cases import row_of, trials_of, unit_of, value_axis, values_of
from infrabench.analysis.figures.sentences import metric_in, no_value, order_sentence, repeats, span
from infrabench.analysis.tables import notation


def ecdf(
    table: pd.DataFrame,
    estimates: pd.DataFrame,
    workload: str,
    metric: str,
    scenario: str,
    *,
    systems: Sequence[str] | None = None,
    width_mm: float = theme.COLUMN_MM,
) -> Figure:
    """Return the share of trials at or below each value, all systems on one axis; below it medians with intervals.

    The axis is logarithmic where the largest value is more than ten times the smallest and all are positive. Raises
    `SchemaError` when the case has no value.
    """
    case = trials_of(table, workload, metric, scenario)
    values = values_of(table, workload, metric, scenario)
    unit, better = unit_of(case)
    scale = notation.scale(case["value"], unit)
    names = theme.systems_of(case, systems, None)
    marks = theme.assign_styles(names)
    drawn = [name for name in names if name in values]
    with theme.style():
        strip = 4 + 2.6 * len(drawn)
        height = 56 + strip + theme.legend_mm(len(drawn), width_mm)
        ratios = {"height_ratios": [52, strip]}
        figure, (axes, medians) = theme.canvas(width_mm, height, nrows=2, sharex=True, gridspec_kw=ratios)
        for name in drawn:
            ordered = np.sort(values[name]) / scale.factor
            share = np.arange(1, ordered.size + 1) / ordered.size
            axes.step(ordered, share, where="post", c=marks[name].colour, lw=0.8, ls=marks[name].dash)
            axes.plot(ordered, share, marks[name].marker, c=marks[name].colour, ms=2.2, mew=0, lw=0)
        axes.axhline(0.5, color=theme.LIGHT, lw=0.5, zorder=0)
        axes.set_ylim(0, 1.02)
        axes.set_ylabel("Share of trials")
        cells = {name: row_of(estimates, workload=workload, metric=metric, scenario=scenario, system=name)
                 for name in drawn}  # fmt: skip
        _medians(medians, drawn, cells, values, marks, scale.factor)
        value_axis(medians, case["value"].dropna().to_numpy() / scale.factor)
        medians.set_xlabel(notation.axis_label(metric, scale.unit, better))
        theme.legend(figure, marks, drawn, line=0.9)
    return figure


def ecdf_caption(
    table: pd.DataFrame, estimates: pd.DataFrame, workload: str, metric: str, scenario: str, order: str = "random"
) -> str:
    """Return the caption of `ecdf`: n, unit, direction, the level of the medians' intervals, what has no value."""
    case = trials_of(table, workload, metric, scenario)
    unit, better = unit_of(case)
    cells = estimates[(estimates["workload"] == workload) & (estimates["scenario"] == scenario)]
    cells = cells[(cells["metric"] == metric) & (cells["n"] > 0)]
    levels = span(100 * cells["median_level"], ".1f")
    interval = "without an interval (n is too small)"
    if levels != "n/a":
        interval = f"with exact order-statistic intervals (level {levels} %)"
    return (
        f"{workload}, {scenario}: {metric_in(case['value'], metric, unit)}; {notation.direction(better)}. Share of "
        f"trials at or below each value; a trial gives one value, n = {span(cells['n'])} trials of each system. "
        f"Below: medians {interval}. "
        f"{order_sentence(case, order)}{no_value(case)}{repeats(case)}"
    ).strip()


def _medians(
    axes: Axes, names: Sequence[str], cells: Mapping[str, object], values: Mapping[str, np.ndarray],
    marks: Mapping[str, theme.SystemStyle], factor: float,
) -> None:  # fmt: skip
    """One row for each system: its median, and the exact interval where one exists."""
    for y, name in enumerate(names):
        cell = cells[name]
        middle = float(np.median(values[name])) / factor
        low, high = getattr(cell, "median_low", np.nan), getattr(cell, "median_high", np.nan)
        if np.isfinite(low):
            axes.hlines(y, low / factor, high / factor, color=marks[name].colour, lw=1.2)
        face = marks[name].colour if np.isfinite(low) else "white"
        axes.plot(middle, y, marks[name].marker, c=marks[name].colour, mfc=face, ms=3.6, mew=0.7)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_yticks([])
    axes.set_ylabel("Median", rotation=0, ha="right", va="center")
