"""The one style of every figure: journal widths, fonts, colours and markers, and the frame a figure is drawn in."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, NamedTuple

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.textpath import TextPath

MM = 1 / 25.4
COLUMN_MM, PAGE_MM = 85.0, 174.0  # one and two columns of a journal
WIDE_MM = 120.0  # a wider figure has room for numbers
TEXT_PT, SMALL_PT = 8.0, 6.5
# Chosen so that any two are apart with every colour vision, and in grey print by their lightness; a test measures it
COLOURS = ("#1C1C1C", "#193ED9", "#C85D09", "#14BDBB", "#2898F9", "#A74164", "#4F3906", "#FDAF6B")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")
Dash = str | tuple[int, tuple[float, ...]]
DASHES: tuple[Dash, ...] = (
    "-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (9, 2)), (0, (2.5, 2.5)),
    (0, (7, 1, 3, 1)),
)  # fmt: skip
KEY_MM = 9.5  # the sign of a legend's entry, and the space around it
GREY, LIGHT, BAND = "#6B6B6B", "#C8C8C8", "#E6E6E6"


class SystemStyle(NamedTuple):
    """Colour, marker and line of a system, the same in every figure of a study."""

    colour: str
    marker: str
    dash: Dash


def assign_styles(systems: Sequence[str]) -> dict[str, SystemStyle]:
    """Return the look of each system by its place in `systems`, the session's list, baseline first."""
    signs = list(zip(COLOURS, MARKERS, DASHES, strict=True))
    return {name: SystemStyle(*signs[i % len(signs)]) for i, name in enumerate(systems)}


@contextmanager
def style() -> Iterator[None]:
    """Use the house style for what is drawn inside; nothing outside changes."""
    settings: dict[str, Any] = {
        "font.family": "DejaVu Sans",  # comes with matplotlib, so a figure is the same on every machine
        "font.size": TEXT_PT,
        "axes.titlesize": TEXT_PT,
        "axes.labelsize": TEXT_PT,
        "xtick.labelsize": TEXT_PT - 1,
        "ytick.labelsize": TEXT_PT - 1,
        "legend.fontsize": TEXT_PT - 1,
        "legend.frameon": False,
        "axes.linewidth": 0.6,
        "xtick.major.width": 0.6,
        "ytick.major.width": 0.6,
        "xtick.major.size": 2.5,
        "ytick.major.size": 2.5,
        "axes.formatter.useoffset": False,
        "text.parse_math": False,  # names and reasons come from outside: two dollars in one are no formula
        "axes.grid": False,
        "lines.linewidth": 1.0,
        "figure.dpi": 150,
        "figure.constrained_layout.use": True,
        "pdf.fonttype": 42,
        "svg.fonttype": "path",
        "svg.hashsalt": "infrabench",
    }
    with sns.axes_style("ticks"), mpl.rc_context(settings):
        yield


WORDS: ContextVar[Mapping[str, str]] = ContextVar("WORDS", default=MappingProxyType({}))


@contextmanager
def wording(words: Mapping[str, str]) -> Iterator[None]:
    """Measure texts as if each piece of `words` were the other that it leads to; `reword` puts that in its place."""
    token = WORDS.set(words)
    try:
        yield
    finally:
        WORDS.reset(token)


def reword(text: str) -> str:
    """Return a text with every piece replaced that the `wording` has."""
    for piece, other in WORDS.get().items():
        text = text.replace(piece, other)
    return text


def canvas(width_mm: float, height_mm: float, **grid: Any) -> tuple[Figure, Any]:
    """Return a figure of this printed size and its axes (arguments of `subplots`).

    It is closed for pyplot, so a notebook shows it once, as the value of its cell, and nothing piles up.
    """
    figure, axes = plt.subplots(figsize=(width_mm * MM, height_mm * MM), **grid)
    plt.close(figure)
    sns.despine(figure)
    return figure, axes


def other_width(figure: Figure) -> float:
    """Return the other of a journal's two widths, in mm."""
    return COLUMN_MM if figure.get_figwidth() / MM > (COLUMN_MM + PAGE_MM) / 2 else PAGE_MM


def text_mm(text: str, points: float) -> float:
    """Return the printed width of a line of text."""
    if not text.strip():
        return 0.0
    return float(np.ptp(TextPath((0, 0), reword(text), size=points).vertices[:, 0])) / 72 / MM


def broken(label: str, room_mm: float, at: str = ", ") -> str:
    """Return the label of an axis, broken once at `at` where it is longer than the axis."""
    if text_mm(label, TEXT_PT) <= room_mm:
        return label
    head, sign, tail = label.partition(at)
    return f"{head}{sign.rstrip()}\n{tail}" if sign.strip() == "," else f"{head}\n{sign.lstrip()}{tail}"


def legend(
    figure: Figure, marks: Mapping[str, SystemStyle], systems: Sequence[str], extra: Sequence[Line2D] = (),
    line: float = 1.0,
) -> None:  # fmt: skip
    """Put the legend of the systems above the axes, in as many columns as the width holds."""
    keys = [
        Line2D([], [], color=marks[s].colour, marker=marks[s].marker, ms=4, mew=0, lw=line, ls=marks[s].dash, label=s)
        for s in systems
    ]
    figure.legend(
        handles=[*keys, *extra],
        loc="outside upper center",
        ncols=_legend_columns([str(key.get_label()) for key in (*keys, *extra)], figure.get_figwidth() / MM),
        handlelength=2.4 if line else 1.0,
        columnspacing=1.2,
        handletextpad=0.5,
        borderaxespad=0.2,
    )


def legend_mm(entries: int | Sequence[str], width_mm: float) -> float:
    """Return the height that a legend takes beyond its first line; `entries`: its words, or how many short ones."""
    words = [""] * entries if isinstance(entries, int) else list(entries)
    return 4.0 * (-(-max(len(words), 1) // _legend_columns(words, width_mm)) - 1)


def _legend_columns(words: Sequence[str], width_mm: float) -> int:
    """Return how many columns the width holds; each is as wide as its longest entry."""
    most = 3 if width_mm < WIDE_MM and len(words) > 4 else min(max(len(words), 1), 9)
    widths = [text_mm(word, TEXT_PT - 1) + KEY_MM for word in words]
    fits = (n for n in range(most, 1, -1) if sum(max(part) for part in np.array_split(widths, n)) <= width_mm)
    return next(fits, 1)


def footnote(figure: Figure, lines: Sequence[str]) -> None:
    """Write notes under the axes, wrapped to the figure's width."""
    if not lines:
        return
    text = "\n".join(wrap_mm(lines, figure.get_figwidth() / MM - 3))
    figure.supxlabel(text, fontsize=SMALL_PT, color=GREY, ha="left", x=0.01)


def wrap_mm(lines: Sequence[str], width_mm: float) -> list[str]:
    """Return lines in small print, broken so that each fits a printed width."""
    return [part for line in lines for part in textwrap.wrap(line, int(width_mm / 1.25))]


def not_run_notes(not_run: Mapping[str, str], systems: Sequence[str] | None = None) -> list[str]:
    """Return one line for each system (of `systems`, where they are given) that was not run, with its reason."""
    return [f"{name} not run: {reason}" for name, reason in not_run.items() if systems is None or name in systems]


def from_zero(axes: Axes, cells: pd.DataFrame, factor: float) -> None:
    """Start an absolute axis at zero, so that lengths can be compared; lower only where an interval reaches lower."""
    ends = cells[["min", "max", "mean_low", "mean_high"]].to_numpy(dtype=float).ravel() / factor
    ends = [0.0, *ends[np.isfinite(ends)]]
    axes.set_ylim(1.06 * min(ends), 1.06 * max(ends) or 1.0)


def label_panels(figure: Figure, x: str, y: str) -> None:
    """Label both axes of a figure of many panels once."""
    figure.supxlabel(x, fontsize=TEXT_PT)
    figure.supylabel(y, fontsize=TEXT_PT)
