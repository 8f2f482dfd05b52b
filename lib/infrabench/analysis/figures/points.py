"""Every trial as a point, and beside the points what the cell says: mean, interval, median."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter, LogLocator

from infrabench.analysis.figures import theme
from infrabench.analysis.figures.ratios import ratio_axis, ratio_mark
from infrabench.analysis.tables import notation
from infrabench.core import STATES, SchemaError

FAR = 8.0  # times, between the means of scenarios: beyond that the axis is logarithmic
LABEL_MM = {1: 46.0, 2: 36.0}  # room for the label of the upper axis, by the number of axes
UPRIGHT_MM = 14.0  # more height, for labels that stand
RATIO_MM = 30.0  # room for the label of the lower axis
LABELLED = 2  # powers of ten: where more are seen only they have a number
SPREAD = 0.13  # half-width of the jitter, in slots


class PlainLog(LogFormatter):
    """Numbers on a logarithmic axis as 20 and 0.2; between powers of ten only where there are few of those."""

    def _num_to_string(self, x: float, vmin: float, vmax: float) -> str:
        return f"{x:g}"


def points(
    table: pd.DataFrame,
    estimates: pd.DataFrame,
    workload: str,
    metric: str,
    *,
    scenarios: Sequence[str] | None = None,
    systems: Sequence[str] | None = None,
    not_run: Mapping[str, str] | None = None,
    absent: Mapping[tuple[str, str], str] | None = None,
    contrasts: pd.DataFrame | None = None,
    bound: tuple[float, str] | None = None,
    width_mm: float | None = None,
) -> Figure:
    """Return raw points, and beside them the mean with its 95 % interval and a tick at the median.

    Parameters
    ----------
    table, estimates
        The tidy table and the estimates made from it.
    scenarios
        Which scenarios, in this order; all of them by default.
    systems
        Systems in the session's order, baseline first; it fixes colours and markers.
    not_run
        System -> reason, for systems that could not be run here.
    absent
        (scenario, system) -> reason, for cells that a system has no place for; the caption has the reasons too.
    contrasts
        With contrasts, a second panel shows each system's ratio to the baseline, its interval and the margin.
    bound
        A physical limit and its name, drawn as a line.
    width_mm
        85 or 174 mm; the narrow one by default where a single scenario is shown.

    Raises
    ------
    SchemaError
        No trial of this workload and metric was planned.
    """
    cells = _cells(estimates, workload, metric, scenarios)
    shown = list(dict.fromkeys(cells["scenario"]))
    names = theme.systems_of(cells, systems, not_run)
    scale = notation.scale([*cells["max"], *([bound[0]] if bound else [])], cells["unit"].iloc[0])
    single = len(shown) == 1
    width = width_mm or (theme.COLUMN_MM if len(shown) <= 2 else theme.PAGE_MM)
    with theme.style():
        rows = 2 if contrasts is not None else 1
        ratios = {"height_ratios": [1.5, 1]} if rows == 2 else None
        size = (width, 62 + 36 * (rows - 1) + (UPRIGHT_MM if _crowded(_common(shown)[1], width) else 0))
        figure, axes = theme.canvas(*size, nrows=rows, sharex=True, squeeze=False, gridspec_kw=ratios)
        main = axes[0, 0]
        drawn = [name for name in names if single or name not in (not_run or {})]
        places = _places(shown, drawn)
        raw = table[(table["workload"] == workload) & (table["metric"] == metric)]
        for cell in cells.itertuples(index=False):
            if (cell.scenario, cell.system) not in places:
                continue
            values = raw[(raw["scenario"] == cell.scenario) & (raw["system"] == cell.system)]["value"]
            x, slot = places[cell.scenario, cell.system]
            size = float(np.clip(0.85 * slot * width / (len(shown) + 0.6), 1.6, 3.6))
            mark = theme.assign_styles(names)[cell.system]
            _cell(main, x, slot, values.to_numpy() / scale.factor, cell, scale.factor, mark, size)
        theme.upper_bound(main, bound, scale.factor)
        label = notation.axis_label(metric, scale.unit, cells["better"].iloc[0])
        if _far_apart(cells):
            main.set_yscale("log")
            main.yaxis.set_major_locator(LogLocator(numticks=12))
            main.yaxis.set_major_formatter(PlainLog())
            main.yaxis.set_minor_formatter(PlainLog(minor_thresholds=(LABELLED, 0.4)))
            label += "; log scale"
        else:
            theme.from_zero(main, cells, scale.factor, bound)
        main.set_ylabel(theme.broken(label, LABEL_MM[rows]))
        _empty_slots(main, cells, places, not_run or {}, absent or {}, single)
        if contrasts is not None:
            chosen = contrasts[(contrasts["workload"] == workload) & (contrasts["metric"] == metric)]
            _ratios(axes[1, 0], chosen[chosen["scenario"].isin(shown)], places, theme.assign_styles(names))
        _x_axis(axes[-1, 0], shown, drawn, places)
        if not single:
            theme.legend(figure, theme.assign_styles(names), drawn, line=0)
            theme.footnote(figure, theme.not_run_notes(not_run, names))
    return figure


def _far_apart(cells: pd.DataFrame) -> bool:
    """Tell whether scenarios lie so far apart that on a linear axis most of them would be a line at zero."""
    least = cells.groupby("scenario")["mean"].min()
    return bool((least > 0).all() and cells["min"].min() > 0 and least.max() > FAR * least.min())


def _cells(estimates: pd.DataFrame, workload: str, metric: str, scenarios: Sequence[str] | None) -> pd.DataFrame:
    cells = estimates[(estimates["workload"] == workload) & (estimates["metric"] == metric)]
    if scenarios is not None:
        cells = cells[cells["scenario"].isin(list(scenarios))]
        cells = cells.sort_values("scenario", key=lambda s: s.map(list(scenarios).index), kind="stable")
    if cells.empty:
        known = sorted(set(zip(estimates["workload"], estimates["metric"].fillna("no metric"), strict=True)))
        raise SchemaError(f"no cell of {workload} {metric} to draw; there are {', '.join(' '.join(k) for k in known)}")
    return cells


def _places(scenarios: Sequence[str], systems: Sequence[str]) -> dict[tuple[str, str], tuple[float, float]]:
    """(scenario, system) -> centre and width of its slot; scenarios stand one apart, systems side by side."""
    slot = 1.0 if len(scenarios) == 1 else 0.86 / len(systems)
    offset = (np.arange(len(systems)) - (len(systems) - 1) / 2) * slot
    return {(c, s): (i + offset[j], slot) for i, c in enumerate(scenarios) for j, s in enumerate(systems)}


def _cell(
    axes: Axes,
    x: float,
    slot: float,
    values: np.ndarray,
    cell: Any,
    factor: float,
    mark: theme.SystemStyle,
    size: float,
) -> None:
    """Jittered points left of the centre, mean with interval and median tick right of it."""
    # the golden ratio spreads successive points evenly, without randomness
    jitter = (np.arange(values.size) * 0.618034 % 1 - 0.5) * 2 * SPREAD
    area = (0.62 * size) ** 2
    at = x + (jitter - 0.2) * slot
    axes.scatter(at, values, s=area, c=mark.colour, marker=mark.marker, alpha=0.45, lw=0, zorder=2)
    if not values.size:
        return
    right = x + 0.17 * slot
    mean, low, high = (getattr(cell, name) / factor for name in ("mean", "mean_low", "mean_high"))
    if np.isfinite(low):
        axes.vlines(right, low, high, color=mark.colour, lw=1.1, zorder=3)
    axes.plot(right, mean, mark.marker, c=mark.colour, ms=size, mec="white", mew=0.1 * size, zorder=4)
    tick = (x + 0.27 * slot, x + 0.43 * slot)
    axes.hlines(cell.median / factor, *tick, color=mark.colour, lw=1.3, zorder=3)


def _empty_slots(
    axes: Axes,
    cells: pd.DataFrame,
    places: Mapping[tuple[str, str], tuple[float, float]],
    not_run: Mapping[str, str],
    absent: Mapping[tuple[str, str], str],
    single: bool,
) -> None:
    """Say in the slot itself why it is empty; nothing is left out silently."""
    counted = cells.set_index(["scenario", "system"])
    for (scenario, system), (x, _) in places.items():
        text = ""
        if (scenario, system) in counted.index:
            row = counted.loc[(scenario, system)]
            states = ", ".join(f"{row[state]} {state}" for state in STATES[1:] if row[state])
            text = "" if row["n"] else (states or "no trial yet")
        elif system in not_run:
            text = f"not run: {not_run[system]}"
        elif (scenario, system) in absent:
            text = f"not run: {absent[scenario, system]}" if single else "not run"
        if not text:
            continue
        wrapped = "\n".join(theme.textwrap.wrap(text, 30)) if single else text
        axes.text(
            *(x, 0.04, wrapped),
            transform=axes.get_xaxis_transform(),
            rotation=90,
            ha="center",
            va="bottom",
            fontsize=theme.SMALL_PT,
            color=theme.GREY,
        )


def _ratios(
    axes: Axes,
    contrasts: pd.DataFrame,
    places: Mapping[tuple[str, str], tuple[float, float]],
    marks: Mapping[str, theme.SystemStyle],
) -> None:
    ratio_axis(axes.yaxis, contrasts, axes.set_ylim)
    axes.axhline(1, color=theme.GREY, lw=0.7, zorder=1)
    margins = contrasts["margin"].dropna().unique()
    for margin in margins:
        axes.axhspan(1 - margin, 1 + margin, color=theme.BAND, lw=0, zorder=0)
    for row in contrasts.itertuples(index=False):
        if (row.scenario, row.system) in places:
            ratio_mark(axes, row, places[row.scenario, row.system][0], marks[row.system], vertical=True)
    baseline = contrasts["baseline"].iloc[0] if len(contrasts) else "baseline"
    axes.set_ylabel(theme.broken(f"Ratio to {baseline}", RATIO_MM, " to "))


def _x_axis(
    axes: Axes,
    scenarios: Sequence[str],
    systems: Sequence[str],
    places: Mapping[tuple[str, str], tuple[float, float]],
) -> None:
    if len(scenarios) == 1:
        axes.set_xticks([places[scenarios[0], s][0] for s in systems], list(systems))
        axes.set_xlabel(scenarios[0] if scenarios[0] != "default" else "")
        ends = [places[scenarios[0], s][0] for s in (systems[0], systems[-1])]
        axes.set_xlim(ends[0] - 0.6, ends[1] + 0.6)
        return
    axis, labels = _common(scenarios)
    width = axes.figure.get_figwidth() / theme.MM
    wide = any(theme.text_mm(label, theme.TEXT_PT) > _room(labels, width) for label in labels)
    if _crowded(labels, width):
        axes.set_xticks(range(len(scenarios)), [_folded(label) for label in labels], rotation=90)
    else:
        axes.set_xticks(range(len(scenarios)), [label.replace(" ", "\n") if wide else label for label in labels])
    axes.set_xlabel(axis)
    axes.set_xlim(-0.55, len(scenarios) - 0.45)
    for edge in range(1, len(scenarios)):
        for panel in axes.figure.axes:
            panel.axvline(edge - 0.5, color=theme.LIGHT, lw=0.4, zorder=0)


def _room(labels: Sequence[str], width_mm: float) -> float:
    """Return the width that one label has."""
    return 0.9 * width_mm / len(labels)


def _crowded(labels: Sequence[str], width_mm: float) -> bool:
    """Tell whether not even single words of the labels have room side by side."""
    if len(labels) == 1:
        return False
    return any(
        theme.text_mm(word, theme.TEXT_PT) > _room(labels, width_mm) for label in labels for word in label.split()
    )


def _folded(label: str) -> str:
    """Return a label in two lines."""
    words = label.split()
    half = (len(words) + 1) // 2
    return "\n".join(filter(None, (" ".join(words[:half]), " ".join(words[half:]))))


def _common(scenarios: Sequence[str]) -> tuple[str, list[str]]:
    """Split ``threads=1``, ``threads=2`` into the axis name and bare levels; labels that differ stay whole."""
    parts = [s.partition("=") for s in scenarios]
    if len({p[0] for p in parts}) == 1 and all(p[1] for p in parts):
        return parts[0][0], [p[2] for p in parts]
    return "", list(scenarios)
