"""The run sequence of one case: drift, steps and bursts show here before any test finds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from infrabench.analysis.figures import theme
from infrabench.analysis.figures.cases import trials_of, unit_of
from infrabench.analysis.figures.sentences import counts, dependence, metric_in, no_value, order_sentence, repeats
from infrabench.analysis.tables import notation
from infrabench.stats.diagnostics import outlier_mask

LINES_UP_TO = 60  # blocks; more lines than that are a grey wash


def order(
    table: pd.DataFrame,
    workload: str,
    metric: str,
    scenario: str,
    *,
    systems: Sequence[str] | None = None,
    probes: pd.DataFrame | None = None,
    width_mm: float = theme.PAGE_MM,
) -> Figure:
    """Return the run sequence of one case: every value in executed order, what was repeated, flagged or without value.

    Parameters
    ----------
    probes
        Fixed work done before each block (``host``, ``position``, ``value``, ``unit``; one metric): a second panel
        shows it over the same trials, one line for each host. Left out where several sessions are drawn together,
        whose positions are not on one axis.

    Raises
    ------
    SchemaError
        The case has no trial with a value.
    """
    case = trials_of(table, workload, metric, scenario)
    unit, better = unit_of(case)
    scale = notation.scale(case["value"], unit)
    names = theme.systems_of(case, systems, None)
    marks = theme.assign_styles(names)
    drift = _drift(case, probes)
    with theme.style():
        ratios = {"height_ratios": [2.4, 1]} if drift else None
        height = (80 if drift else 55) + theme.legend_mm(len(names) + 2, width_mm)
        figure, grid = theme.canvas(
            width_mm, height, nrows=2 if drift else 1, sharex=True, squeeze=False, gridspec_kw=ratios
        )
        axes = grid[0, 0]
        extra = _values(axes, case, names, marks, scale.factor)
        axes.set_ylabel(theme.broken(notation.axis_label(metric, scale.unit, better), 38 if drift else 36))
        if drift:
            _probes(grid[1, 0], case, probes)
        _edges(grid[:, 0], case)
        axes.set_xlim(0, len(case) + 1)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        which = f" of {workload}, {scenario}," if width_mm > 120 else ""
        grid[-1, 0].set_xlabel(theme.broken(f"trial{which} in executed order{_lines_are(case)}", width_mm - 20, " ("))
        present = [name for name in names if name in set(case["system"])]
        theme.legend(figure, marks, present, extra, line=0)
    return figure


def order_caption(
    table: pd.DataFrame,
    workload: str,
    metric: str,
    scenario: str,
    *,
    diagnostics: pd.DataFrame | None = None,
    probes: pd.DataFrame | None = None,
    order: str = "random",
) -> str:
    """Return the caption of `order`: what was flagged, repeated and left without value, in counts and r1 with p.

    `order`: how the trials of a block were ordered, as in `caption`.
    """
    case = trials_of(table, workload, metric, scenario)
    unit, better = unit_of(case)
    flagged = case[_flagged(case)].groupby("system", observed=True).size()
    told = ", ".join(f"{count} {name}" for name, count in flagged.items())
    parts = [
        f"{workload}, {scenario}: {metric_in(case['value'], metric, unit)} of every trial in executed order; ",
        f"{notation.direction(better)}; the axis does not start at zero. {counts(case)}{order_sentence(case, order)}",
        f"Ringed: modified z above 3.5, kept in every analysis ({told}). " if told else "No value is flagged. ",
        no_value(case),
        repeats(case),
        dependence(diagnostics, workload, metric, scenario),
    ]
    if _drift(case, probes):
        parts.append("Below: fixed work done before each block on each host, never used to correct a value. ")
    return "".join(parts).strip()


def _values(
    axes: Axes, case: pd.DataFrame, names: Sequence[str], marks: Mapping[str, theme.SystemStyle], factor: float
) -> list[Line2D]:
    """Draw the values and return the legend's entries for what is special about some of them."""
    flagged = _flagged(case)
    for name in names:
        mine = case[(case["system"] == name) & case["value"].notna()]
        for again, face in ((mine["attempt"] == 0, marks[name].colour), (mine["attempt"] > 0, "white")):
            at, y = mine.loc[again, "rank"], mine.loc[again, "value"] / factor
            axes.plot(at, y, marks[name].marker, c=marks[name].colour, mfc=face, ms=3, mew=0.7, lw=0, zorder=3)
        for sign, lost in _lost(case[case["system"] == name]).items():
            if len(lost):  # an empty line that is not clipped still takes room
                where = {"transform": axes.get_xaxis_transform(), "clip_on": False}
                axes.plot(lost["rank"], [0.03] * len(lost), sign, c=marks[name].colour, ms=4.5, **where)
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


def _lines_are(case: pd.DataFrame) -> str:
    told = ["thin lines: blocks"] if 1 < case.groupby(["session", "block"]).ngroups <= LINES_UP_TO else []
    told += ["thick: deployments"] if case.groupby(["session", "deployment"]).ngroups > 1 else []
    return f" ({', '.join(told)})" if told else ""


def _drift(case: pd.DataFrame, probes: pd.DataFrame | None) -> bool:
    return probes is not None and len(probes) > 0 and len(set(case["session"])) == 1


def _probes(axes: Axes, case: pd.DataFrame, probes: pd.DataFrame) -> None:
    """Draw the drift series: a probe stands before the first trial that follows it."""
    positions = case["position"].to_numpy()
    unit = str(probes["unit"].iloc[0])
    scale = notation.scale(probes["value"], unit)
    hosts = list(dict.fromkeys(probes["host"]))
    for i, host in enumerate(hosts):
        mine = probes[probes["host"] == host].sort_values("position")
        at = np.searchsorted(positions, mine["position"]) + 0.5
        style, colour = theme.DASHES[i % len(theme.DASHES)], ("#333333", theme.GREY)[i % 2]
        axes.plot(at, mine["value"] / scale.factor, ls=style, c=colour, lw=0.8, marker=".", ms=2.5, label=host)
    axes.set_ylabel("Probe" + ("" if scale.unit == "1" else f" ({scale.unit})"))
    axes.margins(y=0.15)
    if len(hosts) > 1:
        axes.legend(ncols=len(hosts), loc="lower right", bbox_to_anchor=(1, 0.98), borderaxespad=0, handlelength=2.5)
