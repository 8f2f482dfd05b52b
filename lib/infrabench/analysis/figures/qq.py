"""Residuals within blocks against the normal distribution: shown, never used to choose a test."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy import stats

from infrabench.analysis.figures import theme
from infrabench.analysis.figures.cases import panels, row_of, trials_of
from infrabench.analysis.figures.sentences import p_text, span
from infrabench.analysis.tables import notation
from infrabench.stats.diagnostics import residuals

LEVEL = 0.95


def qq(
    table: pd.DataFrame,
    workload: str,
    metric: str,
    scenario: str,
    *,
    systems: Sequence[str] | None = None,
    width_mm: float = theme.PAGE_MM,
) -> Figure:
    """Return a normal Q-Q plot of each system's residuals within blocks, in units of their standard deviation.

    Shaded: where 95 % of the values of that rank lie when the residuals are normal, rank by rank. Raises `SchemaError`
    when the case has no value.
    """
    found = _standardised(table, workload, metric, scenario)
    names = theme.systems_of(trials_of(table, workload, metric, scenario), systems, None)
    marks = theme.assign_styles(names)
    drawn = [name for name in names if name in found]
    with theme.style():
        figure, axes = panels(len(drawn), width_mm)
        for panel, name in zip(axes, drawn, strict=True):
            panel.set_title(f"{name}, n = {found[name].size}")
            panel.set_box_aspect(1)
            if found[name].size < 2 or not np.isfinite(found[name]).all():
                panel.set(xticks=[], yticks=[])
                panel.text(0.5, 0.5, "no spread", ha="center", transform=panel.transAxes, color=theme.GREY)
                continue
            _panel(panel, found[name], marks[name])
        figure.supxlabel("quantile of the normal distribution", fontsize=theme.TEXT_PT)
        figure.supylabel("residual / SD", fontsize=theme.TEXT_PT)
    return figure


def qq_caption(table: pd.DataFrame, diagnostics: pd.DataFrame, workload: str, metric: str, scenario: str) -> str:
    """Return the caption of `qq`: n, and Shapiro's p and the skewness of the residuals of each system."""
    found = _standardised(table, workload, metric, scenario)
    told = []
    for name in found:
        row = row_of(diagnostics, workload=workload, metric=metric, scenario=scenario, system=name)
        if row is not None and np.isfinite(row.shapiro_p):
            told.append(f"{name} p {p_text(row.shapiro_p)}, skewness {row.skewness_residual:.2f}")
    return (
        f"{workload}, {scenario}: {notation.metric_title(metric)}, what is left of each value (of its logarithm where "
        "all values are positive) without the mean of its system in the deployment and the mean of its block, over "
        f"the standard deviation; n = {span([values.size for values in found.values()])} for each system. Shaded: 95 % "
        "range of each rank for normal residuals. "
        + (f"Shapiro-Wilk: {'; '.join(told)}. " if told else "")
        + "Shown for information; no test is chosen by it."
    )


def _standardised(table: pd.DataFrame, workload: str, metric: str, scenario: str) -> dict[str, np.ndarray]:
    """System -> its residuals in ascending order, in standard deviations; not finite without spread."""
    case = trials_of(table, workload, metric, scenario)
    ok = case[case["value"].notna()].reset_index(drop=True)
    left = pd.Series(residuals(ok), index=ok.index)
    found = {}
    for name, values in left.groupby(ok["system"], sort=False):
        ordered = np.sort(values.to_numpy(dtype=float))
        spread = float(ordered.std(ddof=1)) if ordered.size > 1 else 0.0
        found[str(name)] = (ordered - ordered.mean()) / spread if spread > 1e-12 else np.full(ordered.size, np.nan)
    return found


def _panel(axes: Axes, ordered: np.ndarray, mark: theme.SystemStyle) -> None:
    """One system: the line of equality, the band of each rank and the points."""
    rank = np.arange(1, ordered.size + 1)
    # the i-th of n uniform values is Beta(i, n + 1 - i); its median is the plotting position
    places = stats.norm.ppf(
        stats.beta.ppf([[0.5], [(1 - LEVEL) / 2], [(1 + LEVEL) / 2]], rank, ordered.size + 1 - rank)
    )
    axes.fill_between(places[0], places[1], places[2], color=theme.BAND, lw=0, zorder=0)
    axes.plot(places[0], places[0], c=theme.GREY, lw=0.7, zorder=1)
    axes.plot(places[0], ordered, mark.marker, c=mark.colour, ms=2.8, mew=0, lw=0, zorder=2)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=2))
