"""Ratios to the baseline on a logarithmic axis symmetric about 1: the axis, its ticks and the marks on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from infrabench.analysis.figures import theme

STEPS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
BETWEEN_MM = 1.0  # two numbers at an axis
HEIGHT_MM, STANDING_MM = 1.9, 20.0  # of a number; and of an axis that stands, in the lowest figure
# Factors whose inverses are short numbers too, 1.25 and 0.8; the first set that has few enough
FACTORS = ((1.25, 2, 5, 10, 20, 50, 100), (2, 5, 10, 20, 50, 100, 200, 500), (4, 20, 100, 500), (10, 100, 1000), (100,))


def ratio_axis(
    axis: Axis,
    contrasts: pd.DataFrame,
    set_limits: Callable[[float, float], Any],
    limit: float | None = None,
    most: int = 7,
    room_mm: float | None = None,
) -> None:
    """Make an axis logarithmic and symmetric about 1, wide enough for every interval and twice the margin.

    `most`: ticks; fewer where their numbers would not fit beside each other in `room_mm`, or above each other.
    """
    stands = axis.axis_name == "y"
    room_mm = STANDING_MM if stands and room_mm is None else room_mm
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    ratios = contrasts[["ratio", "ratio_low", "ratio_high"]].to_numpy(dtype=float).clip(min=1e-6)
    ends = np.abs(np.log(np.where(np.isinf(ratios), np.nan, ratios)))  # of counts an end may be infinite: an arrow
    margin = contrasts["margin"].max()
    reach = max(np.nanmax(ends, initial=0.0) * 1.08, -2 * np.log1p(-margin if np.isfinite(margin) else -0.02))
    reach = np.log(limit) if limit else reach
    set_limits(float(np.exp(-reach)), float(np.exp(reach)))
    axis.set_major_locator(
        FixedLocator(_ticks(reach, most) if room_mm is None else _fitting(reach, most, room_mm, stands))
    )
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: _tick_text(value)))


def ratio_mark(axes: Axes, row: Any, at: float, mark: theme.SystemStyle, *, vertical: bool, size: float = 4) -> None:
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
        axes.plot(*place(row.ratio), mark.marker, c=mark.colour, mfc=face, ms=size, mew=0.7, zorder=4)


def band(axes: Axes, margin: float, y: float) -> None:
    """Shade the equivalence margin at one row: 1 - m to 1 + m."""
    if np.isfinite(margin):
        axes.add_patch(Rectangle((1 - margin, y - 0.5), 2 * margin, 1, color=theme.BAND, lw=0, zorder=0))


def _fitting(reach: float, most: int, room_mm: float, stands: bool = False) -> list[float]:
    """Return as many ticks as their numbers leave room for on an axis of this length."""
    for count in range(most, 2, -1):
        ticks = _ticks(reach, count)
        halves = [(HEIGHT_MM if stands else theme.text_mm(_tick_text(tick), theme.TEXT_PT - 1)) / 2 for tick in ticks]
        places = np.log(ticks) / (2 * reach) * room_mm
        if all(b - a > left + right + BETWEEN_MM for a, b, left, right in
               zip(places, places[1:], halves, halves[1:], strict=False)):  # fmt: skip
            return ticks
    return [1.0]


def _tick_text(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")


def _ticks(reach: float, most: int) -> list[float]:
    """Ratios for the ticks, their inverses kept symmetric where the range is wide."""
    if reach <= np.log(1.5):
        for step in STEPS:
            count = int(np.floor((np.exp(reach) - 1) / step))
            below = int(np.floor((1 - np.exp(-reach)) / step))
            if count + below + 1 <= most:
                return [round(1 + i * step, 6) for i in range(-below, count + 1)]
    for factors in FACTORS:
        inside = [float(f) for f in factors if np.log(f) <= reach]
        if 2 * len(inside) + 1 <= most:
            return sorted([1 / f for f in inside] + [1.0] + inside)
    return [1.0]
