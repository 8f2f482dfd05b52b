"""A figure that is read like a table: a label, marks on one axis, and columns of text, row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from infrabench.analysis.figures import theme
from infrabench.analysis.tables import notation

ROW_MM = 4.2
WIDE_MM = 120.0  # a wider figure has room for numbers
NOTE = {"fontsize": theme.SMALL_PT, "color": theme.GREY, "va": "bottom"}


class Line(NamedTuple):
    """One line: a heading where `row` is None (`minor`: of a scenario), else what is drawn and written there."""

    label: str
    row: Any = None
    texts: tuple[str, ...] = ()
    minor: bool = False


def sheet(
    lines: Sequence[Line], width_mm: float, foot_mm: float, notes: Sequence[str] = (), right_mm: float = 0.0
) -> tuple[Figure, Axes]:
    """Return a figure as high as its lines, all text written; the axes get the width that the text leaves.

    `foot_mm` is for the axis and its label, `right_mm` stays free at the right edge.
    """
    broken = theme.wrap_mm(notes, width_mm - 3)
    foot = foot_mm + (2.9 * len(broken) + 1 if broken else 0)
    height = ROW_MM * len(lines) + foot + 2
    figure, axes = theme.canvas(width_mm, height)
    figure.set_layout_engine("none")
    body = [line for line in lines if line.row is not None]
    left = max(theme.text_mm(line.label, theme.TEXT_PT - 1) for line in body) + 4
    columns = [max(theme.text_mm(text, theme.SMALL_PT) for text in column) + 3
               for column in zip(*(line.texts for line in body), strict=True)]  # fmt: skip
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
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    figure.text(1 / width_mm, 1.5 / height, "\n".join(broken), **NOTE)
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


def heading(workload: str, metric: str, better: str, more: str, width_mm: float) -> list[Line]:
    """Return the heading of one metric's rows, in two lines where the figure is too narrow for one."""
    name, about = f"{workload}: {notation.metric_title(metric)}", f"({notation.direction(better)}{more})"
    # bold is a tenth wider than what is measured
    if 1.12 * theme.text_mm(f"{name} {about}", theme.TEXT_PT - 0.5) < width_mm - 2:
        return [Line(f"{name} {about}")]
    return [Line(name), Line(about, minor=True)]
