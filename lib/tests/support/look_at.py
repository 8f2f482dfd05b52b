"""What tests ask of a drawn figure."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from infrabench.analysis.figures import COLUMN_MM, PAGE_MM, View, overhang_mm
from infrabench.analysis.figures.theme import MM
from infrabench.stats import diagnostics
from tests.support.analysis_fixtures import table_of

__all__ = ["check_paper", "make_view", "marked", "overhang_mm", "smallest_axes_mm", "texts"]


def texts(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in figure.findobj(plt.Text))


def check_paper(figure: Figure, width_mm: float | None = None, axes_mm: float = 4) -> Figure:
    """Return a figure that is as wide as a journal has it, of which nothing is cut off and no axes have collapsed."""
    assert overhang_mm(figure) < 0.1
    assert smallest_axes_mm(figure) > axes_mm
    widths = (COLUMN_MM, PAGE_MM) if width_mm is None else (width_mm,)
    assert any(abs(figure.get_figwidth() / MM - width) < 1e-6 for width in widths)
    assert not plt.get_fignums()
    return figure


def smallest_axes_mm(figure: Figure) -> float:
    """Return the smaller side of the smallest axes: a layout that has collapsed is a few hundredths."""
    sizes = [(axes.get_position(), figure.get_size_inches()) for axes in figure.axes if axes.get_visible()]
    return min(min(box.width * inches[0], box.height * inches[1]) for box, inches in sizes) / MM


def marked(axes: Axes, *markers: str) -> np.ndarray:
    """Return the points, (n, 2), of all lines that are drawn with one of these markers."""
    lines = [line for line in axes.lines if line.get_marker() in markers]
    points = [np.column_stack([np.atleast_1d(d).astype(float) for d in line.get_data()]) for line in lines]
    return np.concatenate([p for p in points if len(p)]) if points else np.empty((0, 2))


def make_view(workload: str = "", metric: str = "", scenario: str = "", **given: Any) -> View:
    """Return a view of these frames, of a session of all systems in them: the baseline first, the others by name."""
    frames = [frame for frame in given.values() if isinstance(frame, pd.DataFrame)]
    first = [name for frame in frames if "baseline" in frame for name in frame["baseline"].dropna()]
    others = sorted({name for frame in frames if "system" in frame for name in frame["system"]})
    systems = given.pop("systems", list(dict.fromkeys([*first, *others])))
    table = table_of({})
    empty = {"table": table, "diagnostics": diagnostics(table)}
    return View(workload, metric, scenario, **empty | {"systems": systems, "every_system": systems} | given)
