"""The cells of a metric: every trial as a point beside its mean, or means over a numeric factor; below them ratios."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator
from scipy import stats

from infrabench.analysis.figures import sentences, theme
from infrabench.analysis.figures.axes import TICKS_MM, PlainLog, is_wide, level_axis, ratio_axis, ratio_mark
from infrabench.analysis.figures.sentences import span
from infrabench.analysis.figures.view import Drawn, View, figure
from infrabench.analysis.tables import notation
from infrabench.core import STATES, SchemaError
from infrabench.stats.estimates import T

FAR = 8.0  # times, between the means of scenarios: beyond that the axis is logarithmic
FAR_CURVES = 30.0  # the same of curves, which join what is far apart
POINTS_LABEL_MM = {1: 46.0, 2: 36.0}  # room for the label of the upper axis, by the number of axes
CURVES_LABEL_MM = 36.0  # room for the label of the upper axis of two
UPRIGHT_MM = 14.0  # more height, for labels that stand
RATIO_MM = 30.0  # room for the label of the lower axis
LABELLED = 2  # powers of ten: where more are seen only they have a number
SPREAD = 0.13  # half-width of the jitter, in slots
CLOUD_N, CLOUD_MM = 30, 6.0  # trials of a cell, and width of its slot, from which an outline says more than its points
SHAPES_P = 0.05  # of two shapes, below which both are outlined; it chooses a drawing and nothing else
CLOSE = 4  # systems whose ratios can be told apart in a column
ALONE = 0.3  # of the axis on either side of a level that has no other
GAP = 0.09  # between two systems at one level, in steps of the closest levels
Places = Mapping[tuple[str, str], tuple[float, float]]  # (scenario, system) -> centre and width of its slot


@figure("points")
def points(view: View) -> Drawn:
    """Return raw points, and beside them the mean with its 95 % interval and a tick at the median.

    With contrasts, a second panel shows each system's ratio to the baseline, its interval and the margin. By default 85
    mm wide with one or two scenarios. A view with a scenario shows that one alone. Where a scenario's cells have 30
    trials and unlike shapes, and there is room, the density of each is outlined behind its mean.
    """
    cells = view.of_metric(view.estimates)
    cells = cells[cells["scenario"] == view.scenario] if view.scenario else cells
    if cells.empty:
        known = zip(view.estimates["workload"], view.estimates["metric"].fillna("no metric"), strict=True)
        there = ", ".join(" ".join(each) for each in sorted(set(known)))
        raise SchemaError(f"no cell of {view.workload} {view.metric} to draw; there are {there}")
    shown = list(dict.fromkeys(cells["scenario"]))
    marks, scale = view.marks, notation.scale(cells["max"], cells["unit"].iloc[0])
    single, rows = len(shown) == 1, 1 if view.contrasts is None else 2
    width = view.width_mm or (theme.COLUMN_MM if len(shown) <= 2 else theme.PAGE_MM)
    systems = [name for name in view.systems if single or name not in view.not_run]
    longest_mm = max(theme.text_mm(name, theme.TEXT_PT) for name in systems)
    upright_mm = max(UPRIGHT_MM, longest_mm) if single else UPRIGHT_MM
    is_crowded = _crowded(systems if single else _common(shown)[1], width)
    drawn, axes = _canvas(width, upright_mm if is_crowded else 0, rows, sharex=True)
    main = axes[0, 0]
    places, raw = _slots(shown, systems), view.of_metric(view.table)
    for cell in cells.itertuples(index=False):
        if (cell.scenario, cell.system) not in places:
            continue
        values = raw[(raw["scenario"] == cell.scenario) & (raw["system"] == cell.system)]["value"]
        x, slot = places[cell.scenario, cell.system]
        size = float(np.clip(0.85 * slot * width / (len(shown) + 0.6), 1.6, 3.6))
        _cell(main, x, slot, values.to_numpy() / scale.factor, cell, scale.factor, marks[cell.system], size)
    label = notation.axis_label(view.metric, scale, cells["better"].iloc[0])
    # Scenarios that lie so far apart that on a linear axis most of them would be a line at zero
    least = cells.groupby("scenario")["mean"].min()
    if (least > 0).all() and cells["min"].min() > 0 and least.max() > FAR * least.min():
        _set_log(main)
        label += "; log scale"
    else:
        theme.from_zero(main, cells, scale.factor)
    main.set_ylabel(theme.broken(label, POINTS_LABEL_MM[rows]))
    slot_mm = width / (len(shown) * (len(systems) if single else 1) + 1) * next(iter(places.values()))[1]
    outlined = _unlike_shapes(view, cells) if slot_mm >= CLOUD_MM else {}
    for (scenario, system), values in outlined.items():
        _cloud(main, *places[scenario, system], values / scale.factor, marks[system].colour)
    _empty_slots(main, cells, places, view, single)
    if view.contrasts is not None:
        chosen = view.of_metric(view.contrasts)
        at = {place: x for place, (x, _) in places.items()}
        _ratios(axes[1, 0], chosen[chosen["scenario"].isin(shown)], at, marks, most=7)
    _x_axis(axes[-1, 0], shown, systems, places)
    if not single:
        theme.legend(drawn, marks, systems, line=0)
        theme.footnote(drawn, theme.not_run_notes(view.not_run, view.systems))
    text = caption(replace(view, estimates=cells))
    which = ", ".join(dict.fromkeys(scenario for scenario, _ in outlined))
    return Drawn(drawn, text + (
        f" Outlined behind the means: density of the values (Gaussian kernel, Scott's width), where the shapes of "
        f"{CLOUD_N} and more trials differ ({which}): two modes, or values over their medians unlike the first "
        f"system's (Kolmogorov-Smirnov, p < {SHAPES_P:g})." if outlined else ""
    ))  # fmt: skip


@figure("curves")
def scaling(view: View) -> Drawn:
    """Return means with 95 % intervals over the levels of the factor, joined because the axis is continuous.

    Systems are set a little apart at each level so that no interval hides another. A level without a value is a gap
    in the line and a cross at the foot of the axis. Levels, or means, that lie far apart are on a logarithmic axis. A
    metric that lies on several factors has a panel for each. With contrasts, a second row shows each system's ratio to
    the baseline with its interval and the margin. By default 85 mm wide with one panel, 174 with more, or where so many
    systems' ratios would cover each other.
    """
    cells = view.of_metric(view.estimates)
    cells = cells[cells["level"].notna()]
    if cells.empty:
        raise SchemaError(f"{view.workload} {view.metric} has no cell on a numeric factor: use points() instead")
    marks, systems = view.marks, [name for name in view.systems if name in set(cells["system"])]
    factors, rows = list(dict.fromkeys(cells["factor"])), 1 if view.contrasts is None else 2
    narrow = len(factors) == 1 and (rows == 1 or len(systems) <= CLOSE)
    width = view.width_mm or (theme.COLUMN_MM if narrow else theme.PAGE_MM)
    scale = notation.scale([*cells["mean_high"], *cells["mean"]], cells["unit"].iloc[0])
    more_mm = theme.legend_mm(systems, width)
    drawn, grid = _canvas(width, more_mm, rows, ncols=len(factors), sharex="col", sharey="row")
    empty = False
    for column, factor in enumerate(factors):
        of_factor, panels = cells[cells["factor"] == factor], grid[:, column]
        places = _places(of_factor, systems)
        empty = _means(panels[0], of_factor, places, marks, scale.factor) or empty
        if view.contrasts is not None:
            _ratios(panels[1], view.of_metric(view.contrasts), places, marks, most=5)
        levels = np.sort(of_factor["level"].unique())
        level_axis(panels[-1], levels, width / len(factors) - TICKS_MM)
        if levels.size == 1:
            panels[-1].set_xlim(levels[0] - ALONE, levels[0] + ALONE)
        panels[-1].set_xlabel(theme.broken(str(factor), width / len(factors) - TICKS_MM, " ("))
    label, least = notation.axis_label(view.metric, scale, cells["better"].iloc[0]), cells["mean"].min()
    if least > 0 and cells["mean"].max() > FAR_CURVES * least:
        _set_log(grid[0, 0])
        lows = cells.loc[cells["mean_low"] > 0, "mean_low"]  # an interval that reaches 0 goes to the foot of the axis
        grid[0, 0].set_ylim(bottom=min([least, *lows]) / scale.factor / 1.3)
        label = theme.broken(f"{label}; log scale", POINTS_LABEL_MM[rows])
    else:
        theme.from_zero(grid[0, 0], cells, scale.factor)
    grid[0, 0].set_ylabel(label if rows == 1 else theme.broken(label, CURVES_LABEL_MM), wrap=True)
    cross = Line2D([], [], color=theme.GREY, marker="x", lw=0, ms=4, label="no ok trial")
    theme.legend(drawn, marks, systems, [cross] if empty else [])
    theme.footnote(drawn, theme.not_run_notes(view.not_run, view.systems))
    return Drawn(drawn, caption(view, means_alone=True))


@figure("scaling")
def scaling_alone(view: View) -> Drawn:
    """Return means with 95 % intervals over the levels of the factor, without the ratios of ``curves``."""
    return scaling(replace(view, contrasts=None))


def caption(view: View, *, means_alone: bool = False) -> str:
    """Return the caption of the estimates of one metric: n, intervals, unit, direction, order, and what is missing.

    With contrasts it also explains the ratios and the margin; with the table it counts repeated trials, discarded
    blocks and deployments. `means_alone`: no points and medians are drawn.
    """
    cells = view.of_metric(view.estimates)
    if cells.empty:
        return f"{view.workload}: no trial of {view.metric}."
    trials = view.trials
    trials = trials[(trials["workload"] == view.workload) & trials["scenario"].isin(set(cells["scenario"]))]
    rows = None if view.contrasts is None else view.of_metric(view.contrasts)
    # repeats are in no plan
    pending = int((cells["planned"] + cells["repeats"] - cells[list(STATES)].sum(axis=1)).sum())
    parts = [
        f"{view.workload}, {sentences.metric_in(cells['max'], view.metric, cells['unit'].iloc[0])}; ",
        f"{notation.direction(cells['better'].iloc[0])}. n = {span(cells['n'])} trials in each of {len(cells)} cells. ",
        _describe_marks(cells, means_alone),
        "" if rows is None or rows.empty else
        f"Ratio of means to {rows['baseline'].iloc[0]} over {sentences.pairs(rows)} with "
        f"{sentences.ratio_interval(rows)}; band: equivalence margin of {100 * rows['margin'].iloc[0]:g} %. ",
        sentences.order_sentence(trials, view.order), sentences.no_value(trials, pending), sentences.repeats(trials),
        *(f"Not run: {name} ({reason}). " for name, reason in view.not_run.items()),
    ]  # fmt: skip
    return "".join(parts).strip()


def _canvas(width_mm: float, more_mm: float, rows: int, **grid: Any) -> tuple[Figure, Any]:
    """Return a figure of values, and where there are two rows of ratios below them, which need less height."""
    ratios = {"height_ratios": [1.5, 1]} if rows == 2 else None
    return theme.canvas(width_mm, 62 + 36 * (rows - 1) + more_mm, nrows=rows, squeeze=False, gridspec_kw=ratios, **grid)


def _describe_marks(cells: pd.DataFrame, means_alone: bool) -> str:
    """What the marks are; over several deployments Student's interval is that of their means, and no exact one is."""
    several, level = cells[cells["deployments"] > 1], span(100 * cells["median_level"], ".1f")
    of = f" of the means of {span(several['deployments'])} deployments" if len(several) else ""
    methods = [each for each in dict.fromkeys(cells["mean_method"]) if each]
    name = "Student t interval"
    if any(not each.startswith(T) for each in methods):
        name, of = "interval", f" ({'; '.join(methods)})"
    if means_alone:
        return f"Means with 95 % {name}s{of}, set a little apart at each level. "
    text = f"Points: one trial each; beside them mean with 95 % {name}{of}, and a tick at the median. "
    exact = f"The tables give the median's exact order-statistic interval (level {level} %). "
    return text if level == "n/a" else text + exact


def _slots(scenarios: Sequence[str], systems: Sequence[str]) -> Places:
    """(scenario, system) -> centre and width of its slot; scenarios stand one apart, systems side by side."""
    slot = 1.0 if len(scenarios) == 1 else 0.86 / len(systems)
    offset = (np.arange(len(systems)) - (len(systems) - 1) / 2) * slot
    return {(c, s): (i + offset[j], slot) for i, c in enumerate(scenarios) for j, s in enumerate(systems)}


def _cell(
    axes: Axes, x: float, slot: float, values: np.ndarray, cell: Any, factor: float, mark: theme.SystemStyle,
    size: float,
) -> None:  # fmt: skip
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


def _unlike_shapes(view: View, cells: pd.DataFrame) -> dict[tuple[str, str], np.ndarray]:
    """(scenario, system) -> values, of each cell of `CLOUD_N` trials in the scenarios where their shapes differ.

    They do where one is flagged bimodal, and where values over their medians are not alike.
    """
    rows = view.of_metric(view.diagnostics)
    flagged = set(rows.loc[rows["flags"].str.contains(sentences.BIMODAL, regex=False), "scenario"])
    found: dict[tuple[str, str], np.ndarray] = {}
    trials = view.of_metric(view.trials).dropna(subset="value")
    for scenario, rows in trials[trials["scenario"].isin(set(cells["scenario"]))].groupby("scenario", sort=False):
        groups = {str(name): values.to_numpy(dtype=float) for name, values in rows.groupby("system")["value"]}
        names = [name for name in view.systems if len(groups.get(name, ())) >= CLOUD_N]
        some = {name: groups[name] for name in names if np.ptp(groups[name]) > 0 and np.median(groups[name])}
        first, *others = [values / np.median(values) for values in some.values()] or [np.empty(0)]
        unlike = any(stats.ks_2samp(first, other).pvalue < SHAPES_P for other in others)
        if unlike or (scenario in flagged and some):
            found |= {(str(scenario), name): values for name, values in some.items()}
    return found


def _cloud(axes: Axes, x: float, slot: float, values: np.ndarray, colour: str) -> None:
    """Outline the density of values right of the centre of a slot, on the scale of the axis, within what was seen."""
    shown = np.log(values) if axes.get_yscale() == "log" else values
    at = np.linspace(shown.min(), shown.max(), 128)
    density = stats.gaussian_kde(shown)(at)
    y = np.exp(at) if axes.get_yscale() == "log" else at
    axes.fill_betweenx(y, x, x + 0.44 * slot * density / density.max(), color=colour, alpha=0.18, lw=0, zorder=1)


def _empty_slots(axes: Axes, cells: pd.DataFrame, places: Places, view: View, single: bool) -> None:
    """Say in the slot itself why it is empty; nothing is left out silently."""
    counted = cells.set_index(["scenario", "system"])
    for (scenario, system), (x, _) in places.items():
        text = ""
        if (scenario, system) in counted.index:
            row = counted.loc[(scenario, system)]
            states = ", ".join(f"{row[state]} {state}" for state in STATES[1:] if row[state])
            text = "" if row["n"] else (states or "no trial yet")
        elif system in view.not_run:
            text = f"not run: {view.not_run[system]}"
        elif (scenario, system) in view.absent:
            text = f"not run: {view.absent[scenario, system]}" if single else "not run"
        if not text:
            continue
        wrapped = "\n".join(textwrap.wrap(text, 30)) if single else text
        axes.text(
            x, 0.04, wrapped, transform=axes.get_xaxis_transform(), rotation=90, ha="center", va="bottom",
            fontsize=theme.SMALL_PT, color=theme.GREY,
        )  # fmt: skip


def _x_axis(axes: Axes, scenarios: Sequence[str], systems: Sequence[str], places: Places) -> None:
    width = axes.figure.get_figwidth() / theme.MM
    if len(scenarios) == 1:
        turned = 90 if _crowded(systems, width) else 0
        axes.set_xticks([places[scenarios[0], s][0] for s in systems], list(systems), rotation=turned)
        axes.set_xlabel(scenarios[0] if scenarios[0] != "default" else "")
        ends = [places[scenarios[0], s][0] for s in (systems[0], systems[-1])]
        axes.set_xlim(ends[0] - 0.6, ends[1] + 0.6)
        return
    axis, labels = _common(scenarios)
    wide = any(theme.text_mm(label, theme.TEXT_PT) > 0.9 * width / len(labels) for label in labels)
    if _crowded(labels, width):
        axes.set_xticks(range(len(scenarios)), [_folded(label) for label in labels], rotation=90)
    else:
        axes.set_xticks(range(len(scenarios)), [label.replace(" ", "\n") if wide else label for label in labels])
    axes.set_xlabel(axis)
    axes.set_xlim(-0.55, len(scenarios) - 0.45)
    for edge in range(1, len(scenarios)):
        for panel in axes.figure.axes:
            panel.axvline(edge - 0.5, color=theme.LIGHT, lw=0.4, zorder=0)


def _crowded(labels: Sequence[str], width_mm: float) -> bool:
    """Tell whether not even single words of the labels have room side by side."""
    words = [word for label in labels for word in label.split()]
    return len(labels) > 1 and any(theme.text_mm(word, theme.TEXT_PT) > 0.9 * width_mm / len(labels) for word in words)


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


def _places(cells: pd.DataFrame, drawn: Sequence[str]) -> dict[tuple[str, str], float]:
    """(scenario, system) -> place on the axis: its level, the systems a little apart."""
    levels = np.sort(cells["level"].unique())
    there, back = (np.log, np.exp) if is_wide(levels) else (np.asarray, np.asarray)
    gap = GAP * np.diff(there(levels)).min() if levels.size > 1 else 0.05
    level = dict(zip(cells["scenario"], cells["level"], strict=True))
    shift = {name: (i - (len(drawn) - 1) / 2) * gap for i, name in enumerate(drawn)}
    return {(scenario, name): float(back(there(at) + shift[name])) for scenario, at in level.items() for name in drawn}


def _set_log(axes: Axes) -> None:
    """Make the vertical axis logarithmic, with numbers in plain notation."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(numticks=12))
    axes.yaxis.set_major_formatter(PlainLog())
    axes.yaxis.set_minor_formatter(PlainLog(minor_thresholds=(LABELLED, 0.4)))


def _means(
    axes: Axes, cells: pd.DataFrame, places: Mapping[tuple[str, str], float], marks: Mapping[str, theme.SystemStyle],
    factor: float,
) -> bool:  # fmt: skip
    """Draw means and intervals; tell whether a level that was planned has no value."""
    every = cells[["scenario", "level"]].drop_duplicates().sort_values("level")
    empty = False
    for name in dict.fromkeys(system for _, system in places):
        own = cells[cells["system"] == name].set_index("scenario").reindex(every["scenario"])
        x = np.array([places[scenario, name] for scenario in every["scenario"]])
        mark = marks[name]
        axes.plot(x, own["mean"] / factor, c=mark.colour, marker=mark.marker, ms=3.4, mec="white", mew=0.3, lw=0.8,
                  ls=mark.dash, zorder=3)  # fmt: skip
        axes.vlines(x, own["mean_low"] / factor, own["mean_high"] / factor, color=mark.colour, lw=1.0)
        empty_at = x[(own["planned"].notna() & (own["n"] == 0)).to_numpy()]
        axes.plot(empty_at, [0.025] * empty_at.size, "x", c=mark.colour, ms=4, transform=axes.get_xaxis_transform())
        empty = empty or empty_at.size > 0
    return empty


def _ratios(
    axes: Axes, contrasts: pd.DataFrame, places: Mapping[tuple[str, str], float],
    marks: Mapping[str, theme.SystemStyle], most: int,
) -> None:  # fmt: skip
    """Draw the ratios of some cells, and every margin, on an axis of at most so many ticks that holds those of all."""
    ratio_axis(axes.yaxis, contrasts, most)
    axes.axhline(1, color=theme.GREY, lw=0.7, zorder=1)
    for margin in contrasts["margin"].dropna().unique():
        axes.axhspan(1 - margin, 1 + margin, color=theme.BAND, lw=0, zorder=0)
    for row in contrasts.itertuples(index=False):
        if (row.scenario, row.system) in places:
            ratio_mark(axes, row, places[row.scenario, row.system], marks[row.system], vertical=True)
    if axes.get_subplotspec().is_first_col():
        baseline = "baseline" if contrasts.empty else contrasts["baseline"].iloc[0]
        axes.set_ylabel(theme.broken(f"Ratio to {baseline}", RATIO_MM, " to "))
