"""Ratios to the baseline on a logarithmic axis symmetric about 1: the forest plot, and the marks it is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from infrabench import display
from infrabench.core import SchemaError
from infrabench.figures import look

ROW_MM = 4.2
NOT_COMPARABLE = "not comparable"
NOTE = {"fontsize": look.SMALL_PT, "color": look.GREY, "va": "bottom"}
STEPS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
FACTORS = (1.5, 2, 3, 5, 10, 20, 50, 100, 1000)


def forest(
    contrasts: pd.DataFrame,
    *,
    systems: Sequence[str] | None = None,
    not_run: Mapping[str, str] | None = None,
    limit: float | None = None,
    width_mm: float = look.PAGE_MM,
) -> Figure:
    """Return the ratio of every contrast to its baseline, with interval, equivalence band and verdict.

    Parameters
    ----------
    contrasts
        Rows to draw, grouped by workload and metric; select them before the call.
    systems
        Systems in the session's order, baseline first; it fixes colours and markers.
    not_run
        System -> reason, told under the axis.
    limit
        Largest ratio shown (the smallest is its inverse); an interval beyond it ends in an arrow. The widest
        interval by default.
    width_mm
        At 85 mm the column with the numbers is left out.

    Raises
    ------
    SchemaError
        There is no contrast to draw.
    """
    if contrasts.empty:
        raise SchemaError("no contrast to draw: was the baseline run, and is there another system?")
    baseline = contrasts["baseline"].iloc[0]
    names = look.systems_of(contrasts, systems, None)
    marks = look.looks(names if systems is not None else [baseline, *names])
    lines = _lines(contrasts, names)
    wide = width_mm > 120
    notes = look.wrap_mm([f"{name} not run: {reason}" for name, reason in (not_run or {}).items()], width_mm - 3)
    with look.style():
        columns = _columns(lines, wide)
        figure, axes = _frame(lines, width_mm, columns, (10 if wide else 13) + (2.9 * len(notes) + 1 if notes else 0))
        ratio_axis(axes.xaxis, contrasts, axes.set_xlim, limit, most=9 if wide else 5)
        axes.set_ylim(len(lines) - 0.4, -0.6)
        for y, (label, row) in enumerate(lines):
            if row is None:
                _text(axes, 1.5 * look.MM * figure.dpi - axes.bbox.x0, y, label, look.TEXT_PT - 0.5, fontweight="bold")
                continue
            _text(axes, -2 * look.MM * figure.dpi, y, label, look.TEXT_PT - 1, ha="right")
            axes.vlines(1, y - 0.5, y + 0.5, color=look.GREY, lw=0.7, zorder=1)
            _band(axes, row.margin, y)
            ratio_mark(axes, row, y, marks[row.system], vertical=False)
            start = axes.bbox.width
            if row.verdict == NOT_COMPARABLE and wide:
                _text(axes, 1.5 * look.MM * figure.dpi, y, row.reason, look.SMALL_PT, color=look.GREY, style="italic")
            for column, text in zip(columns, _right(row, wide), strict=True):
                _text(axes, start + 2 * look.MM * figure.dpi, y, text, look.SMALL_PT)
                start += column * look.MM * figure.dpi
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        what = ("Ratio to " + baseline + ", 95 % interval", "band: equivalence margin")
        axes.set_xlabel(f"{what[0]} ({what[1]})" if wide else f"{what[0]}\n({what[1]})")
        figure.text(1 / width_mm, 1.5 / figure.get_figheight() * look.MM, "\n".join(notes), **NOTE)
    return figure


def ratio_axis(
    axis: Axis,
    contrasts: pd.DataFrame,
    set_limits: Callable[[float, float], Any],
    limit: float | None = None,
    most: int = 7,
) -> None:
    """Make an axis logarithmic and symmetric about 1, wide enough for every interval and twice the margin."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    ends = np.abs(np.log(contrasts[["ratio", "ratio_low", "ratio_high"]].to_numpy(dtype=float).clip(min=1e-6)))
    margin = contrasts["margin"].max()
    reach = max(np.nanmax(ends, initial=0.0) * 1.08, -2 * np.log1p(-margin if np.isfinite(margin) else -0.02))
    reach = np.log(limit) if limit else reach
    set_limits(float(np.exp(-reach)), float(np.exp(reach)))
    axis.set_major_locator(FixedLocator(_ticks(reach, most)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3f}".rstrip("0").rstrip(".")))


def ratio_mark(axes: Axes, row: Any, at: float, mark: look.Look, *, vertical: bool) -> None:
    """Draw one ratio with its interval; ends beyond the axis become arrows, a ratio without interval is hollow."""
    if not np.isfinite(row.ratio):
        return
    limits = axes.get_ylim() if vertical else axes.get_xlim()
    low, high = min(limits), max(limits)
    whole = np.isfinite(row.ratio_low)

    def place(value: float) -> tuple[float, float]:
        return (at, value) if vertical else (value, at)

    if whole:
        ends = [place(float(np.clip(v, low, high))) for v in (row.ratio_low, row.ratio_high)]
        axes.plot(*zip(*ends, strict=True), c=mark.colour, lw=1.1, zorder=3, solid_capstyle="butt")
        arrows = ("v", "^") if vertical else ("<", ">")
        for beyond, end, arrow in ((row.ratio_low < low, low, arrows[0]), (row.ratio_high > high, high, arrows[1])):
            if beyond:
                axes.plot(*place(end), arrow, c=mark.colour, ms=4, mew=0, zorder=4, clip_on=False)
    if low <= row.ratio <= high:
        face = mark.colour if whole else "white"
        axes.plot(*place(row.ratio), mark.marker, c=mark.colour, mfc=face, ms=4, mew=0.7, zorder=4)


def _lines(contrasts: pd.DataFrame, names: Sequence[str]) -> list[tuple[str, Any]]:
    """Headings (with None) and rows in the order of drawing."""
    lines: list[tuple[str, Any]] = []
    for (workload, metric), group in contrasts.groupby(["workload", "metric"], sort=False, observed=True):
        better = display.direction(group["better"].iloc[0])
        lines.append((f"{workload}: {display.metric_title(metric)} ({better})", None))
        rank = {name: i for i, name in enumerate(names)}
        group = group.sort_values(["level", "scenario"], kind="stable")
        for _, case in group.groupby("scenario", sort=False, observed=True):
            for i, row in enumerate(case.sort_values("system", key=lambda s: s.map(rank)).itertuples(index=False)):
                where = f"{row.scenario}  " if i == 0 and row.scenario != "default" else ""
                lines.append((f"{where}{row.system}", row))
    return lines


def _frame(
    lines: Sequence[tuple[str, Any]], width_mm: float, columns: Sequence[float], foot: float
) -> tuple[Figure, Axes]:
    """A figure as high as its rows; the columns of text get the width they need and the axes get the rest."""
    height = ROW_MM * len(lines) + foot + 2
    figure, axes = look.canvas(width_mm, height)
    figure.set_layout_engine("none")
    left = max(look.text_mm(label, look.TEXT_PT - 1) for label, row in lines if row is not None) + 4
    right = sum(columns) + 1
    axes.set_position(
        (left / width_mm, foot / height, (width_mm - left - right) / width_mm, (ROW_MM * len(lines)) / height)
    )
    return figure, axes


def _columns(lines: Sequence[tuple[str, Any]], wide: bool) -> list[float]:
    """Printed widths of the columns of text to the right of the axes."""
    texts = [_right(row, wide) for _, row in lines if row is not None]
    return [max(look.text_mm(text, look.SMALL_PT) for text in column) + 3 for column in zip(*texts, strict=True)]


def _right(row: Any, wide: bool) -> list[str]:
    """Ratio, interval and verdict; the verdict alone where the figure is narrow."""
    verdict = row.verdict
    if np.isfinite(row.n_to_decide):
        verdict += f" (n = {row.n_to_decide:.0f} decides)" if wide else f" (n = {row.n_to_decide:.0f})"
    if not wide:
        return [verdict.replace(", within the margin", ", in margin")]
    if not np.isfinite(row.ratio):
        return ["", verdict]
    ends = (row.ratio_low, row.ratio_high)
    ratio = display.number(row.ratio, display.decimals(*ends, null=1))
    return [f"{ratio} {display.interval(*ends, null=1)}", verdict]


def _text(axes: Axes, dots: float, y: float, text: str, points: float, **how: Any) -> None:
    """Write at a row, so many dots right of the left end of the axes."""
    axes.annotate(
        text,
        (0, y),
        xycoords=("axes fraction", "data"),
        xytext=(dots * 72 / axes.figure.dpi, 0),
        textcoords="offset points",
        va="center_baseline",
        fontsize=points,
        annotation_clip=False,
        **how,
    )


def _band(axes: Axes, margin: float, y: float) -> None:
    if np.isfinite(margin):
        low, high = 1 - margin, 1 / (1 - margin)
        axes.add_patch(Rectangle((low, y - 0.5), high - low, 1, color=look.BAND, lw=0, zorder=0))


def _ticks(reach: float, most: int) -> list[float]:
    """Ratios for the ticks, their inverses kept symmetric where the range is wide."""
    if reach <= np.log(1.5):
        for step in STEPS:
            count = int(np.floor((np.exp(reach) - 1) / step))
            below = int(np.floor((1 - np.exp(-reach)) / step))
            if count + below + 1 <= most:
                return [round(1 + i * step, 6) for i in range(-below, count + 1)]
    inside = [f for f in FACTORS if np.log(f) <= reach]
    while 2 * len(inside) + 1 > most:
        inside = inside[1::2]
    return sorted([1 / f for f in inside] + [1.0] + [float(f) for f in inside])
