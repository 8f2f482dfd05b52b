"""What figures share: panels side by side, an axis of values, an axis of ratios, and rows read like a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from infrabench.analysis.figures import theme
from infrabench.analysis.tables import notation

LOG_FROM = 10.0  # largest over smallest value, from which an axis is logarithmic
LARGEST_MM = 58.0  # a panel that is larger says no more
TICKS_MM = 14.0  # what stands beside a panel
STEPS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
BETWEEN_MM = 1.0  # two numbers at an axis
DIGIT_MM = 1.6  # the width of a digit
WIDE = 30.0  # largest over smallest level of a factor, from which its axis is logarithmic
HEIGHT_MM, STANDING_MM = 1.9, 20.0  # of a number; and of an axis that stands, in the lowest figure
# Factors whose inverses are short numbers too, 1.25 and 0.8; the first set that has few enough
FACTORS = ((1.25, 2, 5, 10, 20, 50, 100), (2, 5, 10, 20, 50, 100, 200, 500), (4, 20, 100, 500), (10, 100, 1000), (100,))
ROW_MM = 4.2


class PlainLog(ticker.LogFormatter):
    """Numbers on a logarithmic axis as 20 and 0.2; between powers of ten only where there are few of those."""

    def set_locs(self, locs: Any = None) -> None:
        """Choose which ticks have a number: over more than two powers of ten 3 and 4 would cover each other."""
        super().set_locs(locs)
        low, high = self.axis.get_view_interval()
        if self._sublabels and 4 in self._sublabels and high > 100 * low > 0:
            self._sublabels = {1, 3}

    def _num_to_string(self, x: float, vmin: float, vmax: float) -> str:
        return f"{x:g}"


def panels(count: int, width_mm: float) -> tuple[Figure, list[Axes]]:
    """Return a figure of `count` square panels and their axes: four to a row on a page, two in a column."""
    columns = min(count, 4 if width_mm > theme.WIDE_MM else 2)
    rows = -(-count // columns)
    each = min(width_mm / max(columns, 2), LARGEST_MM)
    figure, grid = theme.canvas(width_mm, rows * each + 6, nrows=rows, ncols=columns, squeeze=False)
    axes = list(grid.ravel())
    for unused in axes[count:]:
        unused.set_visible(False)
    return figure, axes[:count]


def title_panel(axes: Axes, name: str, number: str) -> None:
    """Write a system's name and a number above its panel, in two lines where one would be wider than the panel."""
    room_mm = axes.figure.get_figwidth() / theme.MM / axes.get_subplotspec().get_gridspec().ncols - TICKS_MM
    axes.set_title(theme.broken(f"{name}, {number}", room_mm))


def value_axis(axes: Axes, values: np.ndarray) -> None:
    """Make the x axis hold `values`: logarithmic where all are positive and span more than a factor of ten."""
    low, high = float(values.min()), float(values.max())
    if low > 0 and high / low > LOG_FROM:
        axes.set_xscale("log")
        room = (high / low) ** 0.03
        axes.set_xlim(low / room, high * room)
        few = high / low < 500
        axes.xaxis.set_major_locator(
            ticker.LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,), numticks=12 if few else 6)
        )
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_formatter(ticker.NullFormatter())
        return
    axes.xaxis.set_major_locator(ticker.MaxNLocator(6, min_n_ticks=2))
    room = 0.03 * (high - low) or 0.05 * abs(high) or 1.0
    axes.set_xlim(low - room, high + room)


def is_wide(levels: np.ndarray) -> bool:
    """Tell whether the sorted levels of a factor span so much that the small ones would lie on each other."""
    return bool(levels.size > 2 and levels[0] > 0 and levels[-1] / levels[0] > WIDE)


def level_axis(axes: Axes, levels: np.ndarray, width_mm: float) -> None:
    """Give the horizontal axis a tick at each of the sorted levels, and a label to as many as `width_mm` have room for.

    The first and the last one have theirs. Wide levels (`is_wide`) are on a logarithmic axis.
    """
    wide = is_wide(levels)
    if wide:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(ticker.NullLocator())
    labels = [f"{level:g}" for level in levels]
    at = np.log(levels) if wide else levels.astype(float)
    at_mm = (at - at[0]) / max(at[-1] - at[0], 1e-9) * width_mm / (1 + 2 * axes.margins()[0])
    shown, last = [0], levels.size - 1  # places of levels

    def touch(one: int, other: int) -> bool:
        needed_mm = DIGIT_MM * (len(labels[one]) + len(labels[other])) / 2 + BETWEEN_MM
        return bool(abs(at_mm[one] - at_mm[other]) < needed_mm)

    for place in range(1, last):
        if not touch(place, shown[-1]) and not touch(place, last):
            shown.append(place)
    axes.set_xticks(levels, [label if place in (*shown, last) else "" for place, label in enumerate(labels)])


def ratio_axis(
    axis: Axis, contrasts: pd.DataFrame, most: int, room_mm: float = STANDING_MM, limit: float | None = None
) -> None:
    """Make an axis logarithmic and symmetric about 1, wide enough for every interval and twice the margin.

    `most`: ticks; fewer where their numbers would not fit beside each other in `room_mm`, or above each other.
    """
    ratios = contrasts[["ratio", "ratio_low", "ratio_high"]].to_numpy(dtype=float).clip(min=1e-6)
    ends = np.abs(np.log(np.where(np.isinf(ratios), np.nan, ratios)))  # of counts an end may be infinite: an arrow
    margin = contrasts["margin"].max()
    reach = max(np.nanmax(ends, initial=0.0) * 1.08, -2 * np.log1p(-margin if np.isfinite(margin) else -0.02))
    reach = np.log(limit) if limit else reach
    limits = (float(np.exp(-reach)), float(np.exp(reach)))
    axis.axes.set(**{f"{axis.axis_name}scale": "log", f"{axis.axis_name}lim": limits})
    axis.set_major_locator(ticker.FixedLocator(_fitting(reach, most, room_mm, stands=axis.axis_name == "y")))
    axis.set_minor_locator(ticker.NullLocator())
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: _tick_text(value)))


def ratio_mark(axes: Axes, row: Any, at: float, mark: theme.SystemStyle, *, vertical: bool, size: float = 4) -> None:
    """Draw one ratio with its interval; ends beyond the axis become arrows, a ratio without interval is hollow."""
    if not np.isfinite(row.ratio):
        return
    low, high = sorted(axes.get_ylim() if vertical else axes.get_xlim())
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


def base_row(axes: Axes, margin: float, y: float) -> None:
    """Draw equality at one row, and shade its equivalence margin: 1 - m to 1 + m."""
    axes.vlines(1, y - 0.5, y + 0.5, color=theme.GREY, lw=0.7, zorder=1)
    if np.isfinite(margin):
        axes.add_patch(Rectangle((1 - margin, y - 0.5), 2 * margin, 1, color=theme.BAND, lw=0, zorder=0))


def mark_rows(
    axes: Axes, lines: Sequence[Line], marks: Mapping[str, theme.SystemStyle],
    remark: Callable[[Any], str] = lambda row: "",
) -> None:  # fmt: skip
    """Draw the ratio of every row, against equality and its margin; `remark` of a row is written where it would be."""
    for y, line in enumerate(lines):
        if line.row is None:
            continue
        base_row(axes, line.row.margin, y)
        ratio_mark(axes, line.row, y, marks[line.row.system], vertical=False)
        if text := remark(line.row):
            write(axes, 1.5, y, text, theme.SMALL_PT, color=theme.GREY, style="italic")


def _fitting(reach: float, most: int, room_mm: float, *, stands: bool) -> list[float]:
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


class Line(NamedTuple):
    """One line: a heading where `row` is None (`minor`: of a scenario), else what is drawn and written there."""

    label: str
    row: Any = None
    texts: tuple[str, ...] = ()
    minor: bool = False


def sheet(
    lines: Sequence[Line], ratios: pd.DataFrame, label: str, width_mm: float, notes: Sequence[str] = (),
    limit: float | None = None, right_mm: float = 0.0, heads: Sequence[str] = (),
) -> tuple[Figure, Axes]:  # fmt: skip
    """Return a figure as high as its lines, all text written; the axis of `ratios` gets the width that the text leaves.

    `label` is that of the axis, `limit` its largest ratio; `right_mm` stays free at the right edge. `heads` of the
    columns of text stand above the first line that says something: there is one that does not.
    """
    broken = theme.wrap_mm(notes, width_mm - 3)
    foot = (14.5 if "\n" in label else 10) + (2.9 * len(broken) + 1 if broken else 0)
    height = ROW_MM * len(lines) + foot + 2
    figure, axes = theme.canvas(width_mm, height)
    figure.set_layout_engine("none")
    body = [line for line in lines if line.row is not None]
    left = max(theme.text_mm(line.label, theme.TEXT_PT - 1) for line in body) + 4
    texts = zip(*([tuple(heads)] if heads else []), *(line.texts for line in body), strict=True)
    columns = [max(theme.text_mm(text, theme.SMALL_PT) for text in column) + 3 for column in texts]
    inside = width_mm - left - sum(columns) - 1 - right_mm
    axes.set_position((left / width_mm, foot / height, inside / width_mm, ROW_MM * len(lines) / height))
    for y, line in enumerate(lines):
        if line.row is None:
            weight = "normal" if line.minor else "bold"
            write(axes, 1.5 - left, y, line.label, theme.TEXT_PT - (1 if line.minor else 0.5), fontweight=weight)
            continue
        write(axes, -2, y, line.label, theme.TEXT_PT - 1, ha="right")
        start = inside + 2
        for column, text in zip(columns, line.texts, strict=True):
            write(axes, start, y, text, theme.SMALL_PT)
            start += column
    first = next(y for y, line in enumerate(lines) if line.label)
    for place, head in enumerate(heads):
        write(axes, inside + 2 + sum(columns[:place]), first - 1, head, theme.SMALL_PT, fontweight="bold")
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    figure.text(1 / width_mm, 1.5 / height, "\n".join(broken), fontsize=theme.SMALL_PT, color=theme.GREY, va="bottom")
    ratio_axis(axes.xaxis, ratios, 9 if width_mm > theme.WIDE_MM else 5, inside, limit)
    axes.set_xlabel(label)
    half = max(theme.text_mm(line, theme.TEXT_PT) for line in label.splitlines()) / 2
    if left + inside / 2 + half > width_mm - 1:  # below a short axis it ends where the paper does
        axes.xaxis.label.set(x=(width_mm - 1 - left) / inside, ha="right", multialignment="center")
    return figure, axes


def write(axes: Axes, at_mm: float, y: float, text: str, points: float, **how: Any) -> None:
    """Write at a row, so many millimetres right of the left end of the axes."""
    axes.annotate(
        text, (0, y), xycoords=("axes fraction", "data"), xytext=(at_mm * 72 * theme.MM, 0), textcoords="offset points",
        va="center_baseline", fontsize=points, annotation_clip=False, **how,
    )  # fmt: skip


def long(scenarios: Iterable[str], width_mm: float) -> bool:
    """Tell whether some scenario's name is too long to stand before a system's."""
    return any(theme.text_mm(name, theme.TEXT_PT - 1) > 0.22 * width_mm for name in scenarios)


def labelled(scenario: str, rows: Sequence[Any], texts: Callable[[Any], tuple[str, ...]], *, above: bool) -> list[Line]:
    """Return the lines of one scenario: its name before the first system, or above it."""
    name = "" if scenario == "default" else scenario
    lines = [Line(name, minor=True)] if above and name else []
    for i, row in enumerate(rows):
        label = f"{name}  {row.system}" if name and not above and i == 0 else row.system
        lines.append(Line(label, row, texts(row)))
    return lines


def metric_lines(
    rows: pd.DataFrame, about: Callable[[pd.DataFrame], str], texts: Callable[[Any], tuple[str, ...]], width_mm: float,
    ordered: Callable[[pd.DataFrame], pd.DataFrame] = lambda group: group,
) -> list[Line]:  # fmt: skip
    """Return the lines of a sheet: a heading for each metric (`about` its rows), below it its rows as `ordered`."""
    above, lines = long(rows["scenario"], width_mm), list[Line]()
    for (workload, metric), group in rows.groupby(["workload", "metric"], sort=False, observed=True):
        lines += heading(workload, metric, about(group), width_mm)
        for scenario, case in ordered(group).groupby("scenario", sort=False):
            lines += labelled(str(scenario), list(case.itertuples(index=False)), texts, above=above)
    return lines


def heading(workload: str, metric: str, about: str, width_mm: float) -> list[Line]:
    """Return the heading of one metric's rows, in two lines where the figure is too narrow for one."""
    name, about = f"{workload}: {notation.metric_title(metric)}", f"({about})"
    # bold is a tenth wider than what is measured
    if 1.12 * theme.text_mm(f"{name} {about}", theme.TEXT_PT - 0.5) < width_mm - 2:
        return [Line(f"{name} {about}")]
    return [Line(name), Line(about, minor=True)]
