"""The trials of one case, value by value: run sequence, distribution, modes, dependence, and shape of the residuals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from scipy import stats

from infrabench.analysis.figures import sentences, theme
from infrabench.analysis.figures.axes import panels, title_panel, value_axis
from infrabench.analysis.figures.sentences import BIMODAL, counts, no_value, order_sentence, p_text, repeats, span
from infrabench.analysis.figures.view import Drawn, View, figure
from infrabench.analysis.tables import notation
from infrabench.stats.diagnostics import critical_split, outlier_mask, residuals, split

LINES_UP_TO = 60  # blocks; more lines than that are a grey wash
ROW_MM = 11.0  # a system of `modes`
BY_DEPLOYMENT = {"constant": "; each deployment keeps to one mode", "varies": "; modes change inside a deployment"}
LEVEL = 0.95  # of the band of `qq`


@figure("order", one_case=True)
def order(view: View) -> Drawn:
    """Return the run sequence of a case: every value in executed order, what was repeated, flagged or without value.

    Drift, steps and bursts show here before any test finds them. A second panel shows the drift probes over the same
    trials, one line for each host; it is left out where several sessions are drawn together, whose positions are not on
    one axis.
    """
    case, width = view.case, view.width_mm or theme.PAGE_MM
    near = _find_probes(case, view.probes)
    drift = near is not None
    flagged = _flagged(case)
    drawn, grid = theme.canvas(
        width, (80 if drift else 55) + theme.legend_mm(len(view.systems) + 2, width),
        nrows=2 if drift else 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": [2.4, 1]} if drift else None,
    )  # fmt: skip
    extra = _values(grid[0, 0], view, case, flagged)
    grid[0, 0].set_ylabel(theme.broken(view.axis_label(), 38 if drift else 36))
    if near is not None:
        _probes(grid[1, 0], case, near)
    _edges(grid[:, 0], case)
    grid[0, 0].set_xlim(0, len(case) + 1)
    grid[0, 0].xaxis.set_major_locator(MaxNLocator(integer=True))
    of = f" of {view.workload}, {view.scenario}," if width > theme.WIDE_MM else ""
    lines = ["thin lines: blocks"] if 1 < case.groupby(["session", "block"]).ngroups <= LINES_UP_TO else []
    lines += ["thick: deployments"] if case.groupby(["session", "deployment"]).ngroups > 1 else []
    label = f"trial{of} in executed order" + (f" ({', '.join(lines)})" if lines else "")
    grid[-1, 0].set_xlabel(theme.broken(label, width - 20, " ("))
    theme.legend(drawn, view.marks, [name for name in view.systems if name in set(case["system"])], extra, line=0)
    parts = [
        f"{view.about}{view.metric_in} of every trial in executed order; {notation.direction(view.better)}; the axis "
        f"does not start at zero. {counts(case)}{order_sentence(case, view.order)}",
        _flag_sentence(case, flagged), no_value(case), repeats(case), view.dependence,
        "Below: fixed work done before each block on each host, never used to correct a value. " if drift else "",
    ]  # fmt: skip
    return Drawn(drawn, "".join(parts).strip())


@figure("blocks", one_case=True)
def blocks(view: View) -> Drawn:
    """Return every value of a case over its block, the systems of a block side by side: what the paired statistics see.

    What one block did to all systems alike shows as a column that lies higher or lower; a system that differs lies on
    the same side of the baseline in most columns. Flags, repeats and losses are drawn as in `order`.
    """
    case, width = view.case, view.width_mm or theme.PAGE_MM
    present = [name for name in view.systems if name in set(case["system"])]
    columns = case.groupby(["session", "block"], sort=False).ngroup() + 1
    # set apart within a column, so that no system hides another; three quarters of it, so that columns stay apart
    place = {name: 0.75 * ((i + 0.5) / len(present) - 0.5) for i, name in enumerate(present)}
    flagged = _flagged(case)
    drawn, axes = theme.canvas(width, 65 + theme.legend_mm(len(view.systems) + 2, width))
    extra = _values(axes, view, case.assign(rank=columns + case["system"].map(place)), flagged)
    axes.set_ylabel(theme.broken(view.axis_label(), 46))
    _edges(np.array([axes]), case.assign(rank=columns))
    axes.set_xlim(0.4, columns.max() + 0.6)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    several = case.groupby(["session", "deployment"]).ngroups > 1
    axes.set_xlabel("block, in executed order" + (" (thick lines: deployments)" if several else ""))
    theme.legend(drawn, view.marks, present, extra, line=0)
    parts = [
        f"{view.about}{view.metric_in} of every trial, by block; {notation.direction(view.better)}; the axis does not "
        f"start at zero. {counts(case)}Systems stand side by side in a block, whatever their order in it was. ",
        order_sentence(case, view.order), _flag_sentence(case, flagged), no_value(case), repeats(case),
    ]  # fmt: skip
    return Drawn(drawn, "".join(parts).strip())


@figure("ecdf", one_case=True)
def ecdf(view: View) -> Drawn:
    """Return the share of trials at or below each value, all systems on one axis; below it medians with intervals.

    What a latency does beyond its mean. The axis is logarithmic where the largest value is more than ten times the
    smallest and all are positive.
    """
    case, names, marks, factor = view.case, view.drawn, view.marks, view.scale.factor
    width, strip = view.width_mm or theme.COLUMN_MM, 4 + 2.6 * len(view.drawn)
    drawn, (axes, medians) = theme.canvas(
        width, 56 + strip + theme.legend_mm(len(names), width), nrows=2, sharex=True,
        gridspec_kw={"height_ratios": [52, strip]},
    )  # fmt: skip
    for name in names:
        ordered = np.sort(view.by_system[name]) / factor
        share = np.arange(1, ordered.size + 1) / ordered.size
        axes.step(ordered, share, where="post", c=marks[name].colour, lw=0.8, ls=marks[name].dash)
        axes.plot(ordered, share, marks[name].marker, c=marks[name].colour, ms=2.2, mew=0, lw=0)
    axes.axhline(0.5, color=theme.LIGHT, lw=0.5, zorder=0)
    axes.set_ylim(0, 1.02)
    axes.set_ylabel("Share of trials")
    for y, name in enumerate(names):  # its median, and the exact interval where one exists
        cell, colour = view.row(view.estimates, name), marks[name].colour
        low, high = getattr(cell, "median_low", np.nan), getattr(cell, "median_high", np.nan)
        if np.isfinite(low):
            medians.hlines(y, low / factor, high / factor, color=colour, lw=1.2)
        middle, face = float(np.median(view.by_system[name])) / factor, colour if np.isfinite(low) else "white"
        medians.plot(middle, y, marks[name].marker, c=colour, mfc=face, ms=3.6, mew=0.7)
    medians.set_ylim(len(names) - 0.4, -0.6)
    medians.set_yticks([])
    medians.set_ylabel("Median", rotation=0, ha="right", va="center")
    value_axis(medians, case["value"].dropna().to_numpy() / factor)
    medians.set_xlabel(theme.broken(view.axis_label(), width - 14))
    theme.legend(drawn, marks, names, line=0.9)
    cells = view.of_metric(view.estimates)
    cells = cells[(cells["scenario"] == view.scenario) & (cells["n"] > 0)]
    levels = span(100 * cells["median_level"], ".1f")
    exact = f"with exact order-statistic intervals (level {levels} %)"
    interval = exact if levels != "n/a" else "without an interval (n is too small)"
    caption = (
        f"{view.about}{view.metric_in}; {notation.direction(view.better)}. Share of trials at or below each value; a "
        f"trial gives one value, n = {span(cells['n'])} trials of each system. Below: medians {interval}. "
        f"{order_sentence(case, view.order)}{no_value(case)}{repeats(case)}"
    )
    return Drawn(drawn, caption.strip())


@figure("modes", one_case=True)
def modes(view: View) -> Drawn:
    """Return the values of each system of a case as a strip, the best split into two groups marked where it is flagged.

    A flagged cell shows the mean and the share of each group and the boundary between them; the others show their
    values alone. With several deployments a value has the colour and the marker of its deployment, so a mode that
    belongs to a deployment is seen.
    """
    case = view.case[view.case["value"].notna()]
    scale, names = view.scale, view.drawn
    places = list(case.groupby(["session", "deployment"], sort=False).groups)
    marks = theme.assign_styles([f"deployment {number}" for number in range(1, len(places) + 1)])
    width = view.width_mm or theme.PAGE_MM
    drawn, axes = theme.canvas(width, 14 + ROW_MM * len(names) + (6 if len(places) > 1 else 0))
    for y, name in enumerate(names):
        of_system = case[case["system"] == name]
        # neighbours on the axis are set apart, so that equal values stay visible
        spread = np.argsort(np.argsort(of_system["value"], kind="stable")) * 0.618034 % 1 - 0.5
        up = pd.Series(y + 0.55 * spread, index=of_system.index)
        parts = [(view.marks[name], of_system)]
        if len(places) > 1:
            at = pd.MultiIndex.from_frame(of_system[["session", "deployment"]])
            parts = [(mark, of_system[at == place]) for mark, place in zip(marks.values(), places, strict=True)]
        for mark, part in parts:
            style = {"c": mark.colour, "ms": 3, "mew": 0, "alpha": 0.8, "lw": 0}
            axes.plot(part["value"] / scale.factor, up[part.index], mark.marker, **style)
        row = view.row(view.diagnostics, name)
        if row is not None and BIMODAL in row.flags:
            _groups(axes, of_system["value"].to_numpy(dtype=float), y, scale.factor)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.75)
    axes.tick_params(axis="y", length=0)
    longest = max(theme.text_mm(name, theme.TEXT_PT - 1) for name in names)
    axes.set_xlabel(theme.broken(view.axis_label(), width - longest - 6))
    value_axis(axes, case["value"].to_numpy(dtype=float) / scale.factor)
    if len(places) > 1:
        theme.legend(drawn, marks, list(marks), line=0)
    head = f"{view.about}{view.metric_in}; {notation.direction(view.better)}. {counts(case)}"
    return Drawn(drawn, head + _describe_modes(view))


@figure("lag", one_case=True)
def lag(view: View) -> Drawn:
    """Return a lag-1 plot for each system of a case: every value over the previous value of the same system.

    Independent trials make a round cloud. One scale for both axes of a panel, a line at equality, r1 from the
    diagnostics above it.
    """
    drawn, axes = panels(len(view.drawn), view.width_mm or theme.PAGE_MM)
    for panel, name in zip(axes, view.drawn, strict=True):
        y, mark = view.by_system[name] / view.scale.factor, view.marks[name]
        low, high = float(y.min()), float(y.max())
        room = 0.08 * (high - low) or 0.05 * abs(high) or 1.0
        ends = (low - room, high + room)
        panel.axline((low, low), slope=1, color=theme.LIGHT, lw=0.6, zorder=0)
        panel.plot(y[:-1], y[1:], mark.marker, c=mark.colour, ms=3, mew=0, alpha=0.75, lw=0)
        panel.set(xlim=ends, ylim=ends, box_aspect=1)
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_major_locator(MaxNLocator(4, min_n_ticks=2))
        row = view.row(view.diagnostics, name)
        r1 = np.nan if row is None else row.lag1
        title_panel(panel, name, f"r₁ = {r1:.2f}" if np.isfinite(r1) else "no r₁")
    title = notation.metric_title(view.metric)
    theme.label_panels(drawn, f"{title}{view.scale.label} of a trial", "of the system's next trial")
    return Drawn(drawn, (
        f"{view.about}{title} of a trial over that of the system's trial before it (line: equal), in executed order. "
        f"{counts(view.case)}{view.dependence}A round cloud does not prove independence."
    ))  # fmt: skip


@figure("qq", one_case=True)
def qq(view: View) -> Drawn:
    """Return a normal Q-Q plot of each system's residuals within blocks, in units of their standard deviation.

    Shaded: where 95 % of the values of that rank lie when the residuals are normal, rank by rank. Shown, never used to
    choose a test.
    """
    # What is left of a value is left within a block of all systems, drawn or not
    every = _standardise(replace(view, systems=list(view.table["system"].unique())).case)
    standardised = {name: values for name, values in every.items() if name in view.drawn}
    names = [name for name in view.systems if name in standardised]
    drawn, axes = panels(len(names), view.width_mm or theme.PAGE_MM)
    for panel, name in zip(axes, names, strict=True):
        ordered = standardised[name]
        title_panel(panel, name, f"n = {ordered.size}")
        panel.set_box_aspect(1)
        if ordered.size < 2 or not np.isfinite(ordered).all():
            panel.set(xticks=[], yticks=[])
            panel.text(0.5, 0.5, "no spread", ha="center", transform=panel.transAxes, color=theme.GREY)
            continue
        rank, tail = np.arange(1, ordered.size + 1), (1 - LEVEL) / 2
        # the i-th of n uniform values is Beta(i, n + 1 - i); its median is the plotting position
        places = stats.norm.ppf(stats.beta.ppf([[0.5], [tail], [(1 + LEVEL) / 2]], rank, ordered.size + 1 - rank))
        panel.fill_between(places[0], places[1], places[2], color=theme.BAND, lw=0, zorder=0)
        panel.plot(places[0], places[0], c=theme.GREY, lw=0.7, zorder=1)
        mark = view.marks[name]
        panel.plot(places[0], ordered, mark.marker, c=mark.colour, ms=2.8, mew=0, lw=0, zorder=2)
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=2))
    theme.label_panels(drawn, "quantile of the normal distribution", "residual / SD")
    rows = [(name, view.row(view.diagnostics, name)) for name in standardised]
    tests = [
        f"{name} p {p_text(row.shapiro_p)}, skewness {row.skewness_residual:.2f}"
        for name, row in rows if row is not None and np.isfinite(row.shapiro_p)
    ]  # fmt: skip
    return Drawn(drawn, (
        f"{view.about}{notation.metric_title(view.metric)}, what is left of each value (of its logarithm where all "
        "values are positive) without the mean of its system in the deployment and the mean of its block, over the "
        f"standard deviation; n = {span([values.size for values in standardised.values()])} for each system. Shaded: "
        "95 % range of each rank for normal residuals. "
        + (f"Shapiro-Wilk: {'; '.join(tests)}. " if tests else "") + "Shown for information; no test is chosen by it."
    ))  # fmt: skip


def _values(axes: Axes, view: View, case: pd.DataFrame, flagged: pd.Series) -> list[Line2D]:
    """Draw the values over ``rank`` and return the legend's entries for what is special about some of them."""
    factor = view.scale.factor
    for name, mark in view.marks.items():
        every = case[case["system"] == name]
        values = every[every["value"].notna()]
        for chosen, face in ((values["attempt"] == 0, mark.colour), (values["attempt"] > 0, "white")):
            at, y = values.loc[chosen, "rank"], values.loc[chosen, "value"] / factor
            axes.plot(at, y, mark.marker, c=mark.colour, mfc=face, ms=3, mew=0.7, lw=0, zorder=3)
        for sign, lost in _lost(every).items():
            if len(lost):  # an empty line that is not clipped still takes room
                where = {"transform": axes.get_xaxis_transform(), "clip_on": False}
                axes.plot(lost["rank"], [0.03] * len(lost), sign, c=mark.colour, ms=4.5, **where)
    ring = case[flagged]
    axes.plot(ring["rank"], ring["value"] / factor, "o", c=theme.GREY, mfc="none", ms=6.5, mew=0.7, lw=0, zorder=4)
    low, high = float(case["value"].min()) / factor, float(case["value"].max()) / factor
    room = 0.12 * (high - low) or 0.05 * abs(high) or 1.0
    axes.set_ylim(low - 1.5 * room, high + room)
    lost = _lost(case)
    special = (
        (len(lost["x"]) > 0, {"marker": "x", "ms": 4, "label": "failed"}),
        (len(lost["+"]) > 0, {"marker": "+", "ms": 4.5, "label": "invalid"}),
        (flagged.any(), {"marker": "o", "mfc": "none", "ms": 6, "mew": 0.7, "label": "outlier flag"}),
        ((case["attempt"] > 0).any(), {"marker": "s", "mfc": "white", "ms": 3.5, "mew": 0.7, "label": "repeat"}),
    )
    return [Line2D([], [], color=theme.GREY, lw=0, **how) for there, how in special if there]


def _lost(case: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return marker -> trials without a value: the tool or its output at fault, or the conditions it ran under."""
    conditions = case["state"].isin(["invalid", "discarded"])
    return {"x": case[case["value"].isna() & ~conditions], "+": case[case["value"].isna() & conditions]}


def _flagged(case: pd.DataFrame) -> pd.Series:
    """Return which trials carry an outlier flag within their system."""
    flags = pd.Series(False, index=case.index)
    for _, values in case[case["value"].notna()].groupby("system", observed=True)["value"]:
        flags[values.index] = outlier_mask(values.to_numpy(dtype=float))
    return flags


def _flag_sentence(case: pd.DataFrame, flagged: pd.Series) -> str:
    """Return how many values carry an outlier flag, by system."""
    which = sentences.by_system(case[flagged])
    return f"Ringed: modified z above 3.5, kept in every analysis ({which}). " if which else "No value is flagged. "


def _edges(panels: np.ndarray, case: pd.DataFrame) -> None:
    """Mark where a block and, stronger and numbered, where a deployment begins."""
    place = case[["session", "deployment"]].apply(tuple, axis=1)
    blocks = case["rank"][(case["block"] != case["block"].shift()) | (case["session"] != case["session"].shift())]
    edges = case["rank"][place != place.shift()]
    for axes in panels:
        if len(blocks) <= LINES_UP_TO:
            for start in blocks[1:]:
                axes.axvline(start - 0.5, color=theme.LIGHT, lw=0.4, zorder=0)
        for start in edges[1:]:
            axes.axvline(start - 0.5, color=theme.GREY, lw=0.9, zorder=1)
    if len(edges) > 1:
        for number, start in enumerate(edges, start=1):
            panels[0].annotate(
                f"D{number}", (start - 0.5, 1), xycoords=("data", "axes fraction"), xytext=(1.5, 0),
                textcoords="offset points", fontsize=theme.SMALL_PT, color=theme.GREY, va="top",
            )  # fmt: skip


def _find_probes(case: pd.DataFrame, probes: pd.DataFrame | None) -> pd.DataFrame | None:
    """Return the drift probes of the one session that a case is of; None where it is of several, or has none."""
    sessions = set(case["session"])
    if probes is None or len(sessions) != 1:
        return None
    near = probes[probes["session"].isin(sessions)]
    return near if len(near) else None


def _probes(axes: Axes, case: pd.DataFrame, probes: pd.DataFrame) -> None:
    """Draw the drift series: a probe stands before the first trial that follows it."""
    positions = case["position"].to_numpy()
    unit = str(probes["unit"].iloc[0])
    scale = notation.scale(probes["value"], unit)
    hosts = list(dict.fromkeys(probes["host"]))
    for i, host in enumerate(hosts):
        of_host = probes[probes["host"] == host].sort_values("position")
        at = np.searchsorted(positions, of_host["position"]) + 0.5
        style, colour = theme.DASHES[i % len(theme.DASHES)], ("#333333", theme.GREY)[i % 2]
        axes.plot(at, of_host["value"] / scale.factor, ls=style, c=colour, lw=0.8, marker=".", ms=2.5, label=host)
    axes.set_ylabel(f"Probe{scale.label}")
    axes.margins(y=0.15)
    if len(hosts) > 1:
        axes.legend(ncols=len(hosts), loc="lower right", bbox_to_anchor=(1, 0.98), borderaxespad=0, handlelength=2.5)


def _groups(axes: Axes, values: np.ndarray, y: int, factor: float) -> None:
    """Mark the boundary between the two groups, and the mean and share of each."""
    found = split(values)
    axes.vlines(found.boundary / factor, y - 0.42, y + 0.42, color=theme.GREY, lw=0.8, ls=(0, (3, 2)))
    for place in (found.low, found.high):
        axes.vlines(place / factor, y - 0.42, y + 0.42, color="black", lw=1.3, zorder=4)
    # One text at the boundary: two would cover each other where the groups are close.
    shares = f"{100 * found.share:.0f} % | {100 - 100 * found.share:.0f} %"
    axes.text(found.boundary / factor, y - 0.44, shares, ha="center", va="bottom", fontsize=theme.SMALL_PT)


def _describe_modes(view: View) -> str:
    """Return how far apart the best two groups of each system are, and where the flagged ones lie."""
    cells = view.of_metric(view.diagnostics)
    cells = cells[(cells["scenario"] == view.scenario) & cells["split_d"].notna()]
    if cells.empty:
        return "Too few values to look for two modes."
    distances, flagged, scale = [], [], view.scale
    unit = "" if scale.unit == "1" else f" {scale.unit}"
    for row in cells.itertuples(index=False):
        raw, logs = notation.short(row.split_d), notation.short(row.split_d_log)
        distances.append(f"{row.system} {raw}; {logs}")
        if BIMODAL in row.flags:
            two = split(view.by_system[row.system])
            low, high = (f"{notation.number(place / scale.factor)}{unit}" for place in (two.low, two.high))
            shares = f"{100 * two.share:.0f} % at {low}, {100 - 100 * two.share:.0f} % at {high}"
            flagged.append(f"{row.system} ({shares}{BY_DEPLOYMENT.get(row.mode_by_deployment, '')})")
    critical = span([critical_split(int(n)) for n in cells["n"]], ".2f")
    return (
        f"Distance of the best two groups in pooled standard deviations (raw; on logarithms; critical 99 % value "
        f"{critical}): {', '.join(distances)}. "
        + (f"Flagged bimodal: {'; '.join(flagged)}; the median is reported there." if flagged else "None is flagged.")
    )


def _standardise(case: pd.DataFrame) -> dict[str, np.ndarray]:
    """System -> its residuals in ascending order, in standard deviations; not finite without spread."""
    ok = case[case["value"].notna()].reset_index(drop=True)
    left = pd.Series(residuals(ok), index=ok.index)
    found = {}
    for name, values in left.groupby(ok["system"], sort=False):
        ordered = np.sort(values.to_numpy(dtype=float))
        spread = float(ordered.std(ddof=1)) if ordered.size > 1 else 0.0
        found[str(name)] = (ordered - ordered.mean()) / spread if spread > 1e-12 else np.full(ordered.size, np.nan)
    return found
