"""What happened in the course of single trials: series over time, one line a trial, and when what happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

from infrabench.analysis.figures import theme
from infrabench.analysis.figures.axes import PlainLog
from infrabench.analysis.figures.sentences import span
from infrabench.analysis.figures.view import Drawn
from infrabench.analysis.tables import notation
from infrabench.core import SchemaError

ROW_MM, HEAD_MM = 30.0, 16.0
ROOM = 1.25  # of an axis, above the largest value
FAR = 20.0  # times, between the smallest and the largest value: beyond that the axis is logarithmic
LOG_UNITS = ("s",)  # times of requests stretch over decades; rates and bytes are seen against zero
SIGNS = ("|", "x", "+", "1")  # events along the foot of the first row, in the order in which they are given


@theme.style()
def timeline(
    samples: pd.DataFrame, events: pd.DataFrame, *, workload: str, zero: str, origin: str,
    shown: Sequence[str] = (), systems: Sequence[str], width_mm: float = theme.PAGE_MM,
) -> Drawn:  # fmt: skip
    """Return one column for each scenario, one row for each series, and in it one line for each trial.

    `samples`: ``session``, ``trial``, ``system``, ``scenario``, ``series``, ``at_s``, ``value``, ``unit``, each series
    in one unit; a line is broken where a value is missing. `events`: the first four of these, ``event``, ``at_s``.
    `zero` is the event that all times count from, a line through all rows, and `origin` the same as a sentence; `shown`
    are further events to mark, one sign for each trial at the foot of the first row. `systems` (the session's order,
    baseline first) fixes colours and markers. The caption begins with `workload`.
    """
    if samples.empty:
        raise SchemaError("no trial of this session has a course to draw")
    marks = theme.assign_styles(systems)
    columns, rows = (list(dict.fromkeys(samples[name])) for name in ("scenario", "series"))
    drawn = [name for name in systems if name in set(samples["system"])]
    height = HEAD_MM + ROW_MM * len(rows) + theme.legend_mm([*drawn, *shown], width_mm)
    drawing, grid = theme.canvas(
        width_mm, height, nrows=len(rows), ncols=len(columns), sharex="col", sharey="row", squeeze=False
    )
    for at, series in enumerate(rows):
        of_series = samples[samples["series"] == series]
        scale = notation.scale(of_series["value"], of_series["unit"].iloc[0])
        for axes, scenario in zip(grid[at], columns, strict=True):
            _lines(axes, of_series[of_series["scenario"] == scenario], drawn, marks, scale.factor)
        _axis(grid[at, 0], series, scale, of_series)
    for column, scenario in enumerate(columns):
        _events(grid[:, column], events[events["scenario"] == scenario], zero, shown, marks)
        grid[0, column].set_title(scenario, loc="left")
    drawing.supxlabel(f"seconds after {origin}", fontsize=theme.TEXT_PT)
    keys = [Line2D([], [], color=theme.GREY, marker=sign, lw=0, ms=4.5, label=event) for sign, event in
            zip(SIGNS, shown, strict=False)]  # fmt: skip
    theme.legend(drawing, marks, drawn, keys)
    for key in drawing.legends[0].get_lines()[: len(drawn)]:
        key.set_marker("")  # lines here have none
    return Drawn(drawing, f"{workload}. {_caption(samples, events, origin, shown)}")


def _caption(samples: pd.DataFrame, events: pd.DataFrame, origin: str, shown: Sequence[str]) -> str:
    """What a line is, how many there are, and when each event was, by system."""
    trials = samples.drop_duplicates(["session", "trial"])  # sessions of one seed name theirs alike
    counts = trials.groupby(["scenario", "system"], observed=True).size()
    sentences = []
    for scenario in dict.fromkeys(events["scenario"]):
        for system in dict.fromkeys(events["system"]):
            at_s = events[(events["scenario"] == scenario) & (events["system"] == system)].groupby("event")["at_s"]
            times = [f"{event} at {span(at_s.get_group(event).round(1))} s" for event in shown if event in at_s.groups]
            if times:
                sentences.append(f"{scenario}, {system}: {', '.join(times)}. ")
    return (
        f"One line for each trial and none for their mean, {span(counts)} for each system and scenario; seconds "
        f"after {origin}. {''.join(sentences)}"
    ).strip()


def _lines(
    axes: Axes, rows: pd.DataFrame, drawn: Sequence[str], marks: Mapping[str, theme.SystemStyle], factor: float
) -> None:
    for system in drawn:
        trials = rows[rows["system"] == system].groupby(["session", "trial"], sort=False)
        alpha = float(np.clip(2.2 / max(trials.ngroups, 1), 0.08, 0.9))
        for _, points in trials:
            points = points.sort_values("at_s")
            colour, _, dash = marks[system]
            axes.plot(points["at_s"], points["value"] / factor, c=colour, ls=dash, lw=0.8, alpha=alpha)


def _axis(axes: Axes, series: str, scale: notation.Scale, rows: pd.DataFrame) -> None:
    title, log = notation.metric_title(series), ""
    values = rows["value"][rows["value"] > 0]
    if rows["unit"].iloc[0] in LOG_UNITS and len(values) and values.max() > FAR * values.min():
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(PlainLog())
        axes.yaxis.set_minor_formatter(NullFormatter())
        log = "; log scale"
    else:
        axes.set_ylim(0, ROOM * float(rows["value"].max()) / scale.factor or 1.0)
    axes.set_ylabel(theme.broken(f"{title[0].upper()}{title[1:]}{scale.label}{log}", ROW_MM - 6, " ("))


def _events(
    panels: Any, events: pd.DataFrame, zero: str, shown: Sequence[str], marks: Mapping[str, theme.SystemStyle]
) -> None:
    for axes in panels:
        axes.axvline(0, color=theme.GREY, lw=0.7, ls=(0, (4, 2)), zorder=1)
    panels[0].annotate(
        zero, (0, 1), xycoords=("data", "axes fraction"), xytext=(2, -1), textcoords="offset points",
        fontsize=theme.SMALL_PT, color=theme.GREY, va="top",
    )  # fmt: skip
    for sign, event in zip(SIGNS, shown, strict=False):
        for system, rows in events[events["event"] == event].groupby("system", observed=True):
            where = {"transform": panels[0].get_xaxis_transform(), "clip_on": False}
            panels[0].plot(rows["at_s"], [0.04] * len(rows), sign, c=marks[system].colour, ms=4.5, **where)
