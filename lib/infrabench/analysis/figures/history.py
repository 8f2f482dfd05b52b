"""Series of sessions over time: each session's interval, the level of each segment, and what changed beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from infrabench.analysis.figures import theme
from infrabench.analysis.figures.sentences import p_text, span
from infrabench.analysis.figures.view import Drawn
from infrabench.analysis.history import OWN, Break, History
from infrabench.analysis.tables import notation
from infrabench.core import SchemaError
from infrabench.stats.segmentation import CORRELATION

PANEL_MM, FOOT_MM, LABEL_MM = 27.0, 15.0, 3.2
EDGE_MM = 17.0  # beside the panels: axis label, system, numbers
MOST_ROWS = 5  # of labels above the panels; what finds no place there is in the caption alone
DATE_MM = 20.0


class _Label(NamedTuple):
    """A break's text, its place in mm from the left of the panels, and the row in which it is written."""

    text: str
    at: int
    right: bool
    row: int


@theme.style()
def history(found: History, workload: str, metric: str, scenario: str, *, width_mm: float = theme.PAGE_MM) -> Drawn:
    """Return the series of one case over sessions: a panel for each system.

    A point is a session with its 95 % interval; a horizontal line is the mean of a segment, with its interval as a
    band. Dashed lines are breaks, named above: solid where a system is concerned, faint in other panels. A change has
    its size beside it: in the system's colour where nothing explains it, grey where a break does.
    """
    points = _of_case(found.points, workload, metric, scenario)
    points = points[np.isfinite(points["estimate"])]
    if points.empty:
        raise SchemaError(f"no session has a value of {workload}, {metric}, {scenario}: there is nothing to draw")
    systems = [name for name in found.systems if name in set(points["system"])]
    marks = theme.assign_styles([found.baseline, *(name for name in found.systems if name != found.baseline)])
    own = found.view == OWN
    concerned = {
        name: [b for b in found.breaks if b.explains(workload, {name} if own else {name, found.baseline})]
        for name in systems
    }
    breaks = list(dict.fromkeys(b for each in concerned.values() for b in each))
    labels = _labels(breaks, len(found.sessions), width_mm - EDGE_MM)
    rows = 1 + max((label.row for label in labels), default=-1)
    height = FOOT_MM + PANEL_MM * len(systems) + LABEL_MM * rows
    drawing, grid = theme.canvas(width_mm, height, nrows=len(systems), sharex=True, squeeze=False)
    scale = notation.scale(np.exp(points["high"]), points["unit"].iloc[0] if own else "1")
    changes, segments = (_of_case(frame, workload, metric, scenario) for frame in (found.changes, found.segments))
    for axes, name in zip(grid[:, 0], systems, strict=True):
        _series(axes, points[points["system"] == name], segments[segments["system"] == name], marks[name], scale.factor)
        for each in breaks:
            faint = each not in concerned[name]
            axes.axvline(each.at - 0.5, color=theme.LIGHT if faint else theme.GREY, lw=0.6 if faint else 0.8,
                         ls=(0, (1, 2)) if faint else (0, (4, 2)), zorder=1)  # fmt: skip
        for row in changes[changes["system"] == name].itertuples(index=False):
            _change(axes, row, marks[name].colour, len(found.sessions))
        if not own:
            axes.axhline(1, color=theme.GREY, lw=0.6, zorder=0)
        axes.set_ylabel(name)
    _same_span(grid[:, 0])
    for label in labels:
        grid[0, 0].annotate(
            label.text, (label.at - 0.5, 1), xycoords=("data", "axes fraction"), fontsize=theme.SMALL_PT,
            xytext=(2 if label.right else -2, 2 + label.row * LABEL_MM * 72 / 25.4), textcoords="offset points",
            color=theme.GREY, ha="left" if label.right else "right", annotation_clip=False,
        )  # fmt: skip
    _dates(grid[-1, 0], found.times, width_mm - EDGE_MM)
    better = points["better"].iloc[0]
    title = notation.axis_label(metric, scale, better)
    if not own:
        word = notation.metric_title(metric)
        title = f"{word[0].upper()}{word[1:]}: ratio to {found.baseline}, {notation.direction(better)}"
    drawing.supylabel(theme.broken(title, PANEL_MM * len(systems) - 4), fontsize=theme.TEXT_PT)
    return Drawn(drawing, _caption(found, points, changes, breaks, (workload, metric, scenario)))


def _of_case(frame: pd.DataFrame, workload: str, metric: str, scenario: str) -> pd.DataFrame:
    return frame[(frame["workload"] == workload) & (frame["metric"] == metric) & (frame["scenario"] == scenario)]


def _series(axes: Axes, points: pd.DataFrame, segments: pd.DataFrame, mark: theme.SystemStyle, factor: float) -> None:
    middle, low, high = (np.exp(points[name].to_numpy(dtype=float)) / factor for name in ("estimate", "low", "high"))
    size = float(np.clip(90 / len(points), 1.6, 3.5))
    axes.set_ylim(low.min() / 1.005, high.max() * 1.005)
    axes.vlines(points["at"], low, high, color=mark.colour, lw=0.6, alpha=0.45)
    axes.plot(points["at"], middle, mark.marker, color=mark.colour, ms=size, mew=0)
    for row in segments.itertuples(index=False):
        ends = (row.begin - 0.5, row.end + 0.5)
        axes.fill_between(ends, row.level_low / factor, row.level_high / factor, color=mark.colour, alpha=0.15, lw=0)
        axes.plot(ends, [row.level / factor] * 2, color=mark.colour, lw=1.1)


def _same_span(panels: Sequence[Axes]) -> None:
    """Let every panel span as much in relative terms, so that a change of 5 % is as high in each."""
    ends = [np.log(axes.get_ylim()) for axes in panels]
    span_log = max(high - low for low, high in ends)
    for axes, (low, high) in zip(panels, ends, strict=True):
        begin = (low + high - span_log) / 2
        axes.set_ylim(np.exp(begin), np.exp(begin + 1.25 * span_log))  # room above for the sizes of changes


def _change(axes: Axes, row: Any, colour: str, sessions: int) -> None:
    """The size of a change beside its place, on the side that has more room."""
    colour = theme.GREY if row.explained else colour
    axes.axvline(row.at - 0.5, color=colour, lw=1.0, zorder=1)
    right = row.at < 0.55 * sessions
    axes.annotate(
        _size(row), (row.at - 0.5, 1), xycoords=("data", "axes fraction"), xytext=(3 if right else -3, -2),
        textcoords="offset points", ha="left" if right else "right", va="top", fontsize=theme.SMALL_PT, color=colour,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
    )  # fmt: skip


def _size(row: Any) -> str:
    ends = (100 * (value - 1) for value in (row.ratio, row.ratio_low, row.ratio_high))
    number, interval = notation.estimate(*ends, null=0)
    return f"{'' if number.startswith('-') else '+'}{number} % {interval}".replace("-", "−")


def _labels(breaks: Sequence[Break], sessions: int, room_mm: float) -> list[_Label]:
    """Return the breaks' labels in rows in which none touches another; what finds no place has none."""
    taken: list[list[tuple[float, float]]] = [[] for _ in range(MOST_ROWS)]
    labels = []
    for each in breaks:
        wide, at = theme.text_mm(each.text, theme.SMALL_PT) + 2, room_mm * each.at / max(sessions, 1)
        right = at + wide < room_mm
        begin, end = (at, at + wide) if right else (at - wide, at)
        free = (i for i, row in enumerate(taken) if begin >= 0 and all(end < a or begin > b for a, b in row))
        if (row := next(free, None)) is not None:
            taken[row].append((begin, end))
            labels.append(_Label(each.text, each.at, right, row))
    return labels


def _dates(axes: Axes, times: Sequence[str], room_mm: float) -> None:
    last = len(times) - 1
    ticks = np.unique(np.linspace(0, last, max(2, min(len(times), int(room_mm / DATE_MM)))).round().astype(int))
    axes.set_xticks(ticks, [times[i][:10] for i in ticks])
    axes.set_xlim(-0.8, last + 0.8)
    axes.set_xlabel("Session")


def _caption(
    found: History, points: pd.DataFrame, changes: pd.DataFrame, breaks: Sequence[Break], case: tuple[str, str, str]
) -> str:
    what = "each system's own level" if found.view == OWN else f"ratio to {found.baseline}"
    counts = points.groupby("system")["at"].nunique()
    changed = [
        f"{row.system} {_size(row)} at {row.session} (p {p_text(row.p_adjusted)}), {row.direction}, "
        f"{f'with {row.explained}' if row.explained else 'unexplained'}"
        for row in changes.itertuples(index=False)
    ]
    finds = _of_case(found.series, *case)["finds"].dropna()
    return (
        f"{case[0]}, {case[2]}: {what} in {span(counts)} sessions, geometric means with 95 % intervals; lines and "
        "bands: mean of a segment with its 95 % interval from the spread between sessions. "
        f"Changes: {'; '.join(changed) or 'none'}. "
        f"p adjusted over all {len(found.series)} series, for sessions correlated by up to {CORRELATION:g}. "
        + (f"A lasting change of {span((100 * finds).round(1))} % in the middle would be found in four of five cases. "
           if len(finds) else "The sessions are too few to find a change. ")
        + (f"Breaks: {'; '.join(f'{b.text} at {found.sessions[b.at]}' for b in breaks)}." if breaks else "")
    ).strip()  # fmt: skip
