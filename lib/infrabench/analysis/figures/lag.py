"""Each value over the one before it: independent trials make a round cloud."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from infrabench.analysis.figures import theme
from infrabench.analysis.figures.cases import panels, row_of, trials_of, unit_of, values_of
from infrabench.analysis.figures.sentences import counts, dependence
from infrabench.analysis.tables import notation


def lag(
    table: pd.DataFrame,
    diagnostics: pd.DataFrame,
    workload: str,
    metric: str,
    scenario: str,
    *,
    systems: Sequence[str] | None = None,
    width_mm: float = theme.PAGE_MM,
) -> Figure:
    """Return a lag-1 plot for each system of a case: every value over the previous value of the same system.

    One scale for both axes of a panel, a line at equality, r1 from the diagnostics above it. Raises `SchemaError` when
    the case has no value.
    """
    case = trials_of(table, workload, metric, scenario)
    values = values_of(table, workload, metric, scenario)
    names = theme.systems_of(case, systems, None)
    marks = theme.assign_styles(names)
    unit, _ = unit_of(case)
    scale = notation.scale(case["value"], unit)
    drawn = [name for name in names if name in values]
    with theme.style():
        figure, axes = panels(len(drawn), width_mm)
        for panel, name in zip(axes, drawn, strict=True):
            y = values[name] / scale.factor
            low, high = float(y.min()), float(y.max())
            room = 0.08 * (high - low) or 0.05 * abs(high) or 1.0
            ends = (low - room, high + room)
            panel.axline((low, low), slope=1, color=theme.LIGHT, lw=0.6, zorder=0)
            panel.plot(y[:-1], y[1:], marks[name].marker, c=marks[name].colour, ms=3, mew=0, alpha=0.75, lw=0)
            panel.set(xlim=ends, ylim=ends, box_aspect=1)
            for axis in (panel.xaxis, panel.yaxis):
                axis.set_major_locator(MaxNLocator(4, min_n_ticks=2))
            row = row_of(diagnostics, workload=workload, metric=metric, scenario=scenario, system=name)
            r1 = np.nan if row is None else row.lag1
            panel.set_title(f"{name}, r₁ = {r1:.2f}" if np.isfinite(r1) else f"{name}, no r₁")
        title = notation.metric_title(metric) + ("" if scale.unit == "1" else f" ({scale.unit})")
        figure.supxlabel(f"{title} of a trial", fontsize=theme.TEXT_PT)
        figure.supylabel("of the system's next trial", fontsize=theme.TEXT_PT)
    return figure


def lag_caption(table: pd.DataFrame, diagnostics: pd.DataFrame, workload: str, metric: str, scenario: str) -> str:
    """Return the caption of `lag`: n, r1 of each system and what is flagged."""
    case = trials_of(table, workload, metric, scenario)
    return (
        f"{workload}, {scenario}: {notation.metric_title(metric)} of a trial over that of the system's trial before it "
        f"(line: equal), in executed order. {counts(case)}{dependence(diagnostics, workload, metric, scenario)}"
        "A round cloud does not prove independence."
    )
