"""Cells that may have two modes: every value, the best two groups, and whose deployment each value is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from infrabench.analysis.figures import theme
from infrabench.analysis.figures.cases import row_of, trials_of, unit_of, value_axis
from infrabench.analysis.figures.sentences import counts, metric_in, p_text, span
from infrabench.analysis.tables import notation
from infrabench.stats.diagnostics import critical_split, split

ROW_MM = 11.0
FLAG = "bimodal"


def modes(
    table: pd.DataFrame,
    diagnostics: pd.DataFrame,
    workload: str,
    metric: str,
    scenario: str,
    *,
    systems: Sequence[str] | None = None,
    width_mm: float = theme.PAGE_MM,
) -> Figure:
    """Return the values of each system of a case as a strip, the best split into two groups marked where it is flagged.

    A flagged cell shows the mean and the share of each group and the boundary between them; the others show their
    values alone. With several deployments a value has the colour and the marker of its deployment, so a mode that
    belongs to a deployment is seen. Raises `SchemaError` when the case has no value.
    """
    case = trials_of(table, workload, metric, scenario)
    case = case[case["value"].notna()]
    unit, better = unit_of(case)
    scale = notation.scale(case["value"], unit)
    names = [name for name in theme.systems_of(case, systems, None) if name in set(case["system"])]
    places = list(case.groupby(["session", "deployment"], sort=False).groups)
    marks = theme.assign_styles([f"deployment {number}" for number in range(1, len(places) + 1)])
    own = theme.assign_styles(theme.systems_of(case, systems, None))
    with theme.style():
        figure, axes = theme.canvas(width_mm, 14 + ROW_MM * len(names) + (6 if len(places) > 1 else 0))
        for y, name in enumerate(names):
            mine = case[case["system"] == name]
            # neighbours on the axis are set apart, so that equal values stay visible
            spread = np.argsort(np.argsort(mine["value"], kind="stable")) * 0.618034 % 1 - 0.5
            up = pd.Series(y + 0.55 * spread, index=mine.index)
            for mark, part in _by_place(mine, places, own[name], list(marks.values())):
                style = {"c": mark.colour, "ms": 3, "mew": 0, "alpha": 0.8, "lw": 0}
                axes.plot(part["value"] / scale.factor, up[part.index], mark.marker, **style)
            row = row_of(diagnostics, workload=workload, metric=metric, scenario=scenario, system=name)
            if row is not None and FLAG in row.flags:
                _groups(axes, mine["value"].to_numpy(dtype=float), y, scale.factor)
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.4, -0.75)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(notation.axis_label(metric, scale.unit, better))
        value_axis(axes, case["value"].to_numpy(dtype=float) / scale.factor)
        if len(places) > 1:
            theme.legend(figure, marks, list(marks), line=0)
    return figure


def modes_caption(table: pd.DataFrame, diagnostics: pd.DataFrame, workload: str, metric: str, scenario: str) -> str:
    """Return the caption of `modes`: for each system the distance of the groups on both scales, and the dip's p."""
    case = trials_of(table, workload, metric, scenario)
    unit, better = unit_of(case)
    parts = [
        f"{workload}, {scenario}: {metric_in(case['value'], metric, unit)}; {notation.direction(better)}. ",
        counts(case),
    ]
    cells = diagnostics[(diagnostics["workload"] == workload) & (diagnostics["scenario"] == scenario)]
    cells = cells[(cells["metric"] == metric) & cells["split_d"].notna()]
    told = [
        f"{row.system} {notation.short(row.split_d)}; {notation.short(row.split_d_log)}; p {p_text(row.dip_p)}"
        for row in cells.itertuples(index=False)
    ]
    critical = span([critical_split(int(n)) for n in cells["n"]], ".2f")
    if not told:
        return "".join(parts) + "Too few values to look for two modes."
    parts.append(
        f"Distance of the best two groups in pooled standard deviations (raw; on logarithms; critical 99 % value "
        f"{critical}), and p of Hartigan's dip: {', '.join(told)}. "
    )
    scale = notation.scale(case["value"], unit)
    flagged = cells[cells["flags"].str.contains(FLAG)]
    where = [_located(case, row, scale) for row in flagged.itertuples(index=False)]
    parts.append(f"Flagged bimodal: {'; '.join(where)}; the median is reported there." if where else "None is flagged.")
    return "".join(parts)


def _by_place(
    mine: pd.DataFrame, places: Sequence[tuple[str, int]], own: theme.SystemStyle, marks: Sequence[theme.SystemStyle]
) -> list[tuple[theme.SystemStyle, pd.DataFrame]]:
    """Split a system's values by deployment; with one deployment they keep the look of the system."""
    if len(places) < 2:
        return [(own, mine)]
    at = pd.MultiIndex.from_frame(mine[["session", "deployment"]])
    return [(mark, mine[at == place]) for mark, place in zip(marks, places, strict=True)]


def _groups(axes: Axes, values: np.ndarray, y: int, factor: float) -> None:
    """Mark the boundary between the two groups, and the mean and share of each."""
    found = split(values)
    axes.vlines(found.boundary / factor, y - 0.42, y + 0.42, color=theme.GREY, lw=0.8, ls=(0, (3, 2)))
    for place, share in ((found.low, found.share), (found.high, 1 - found.share)):
        axes.vlines(place / factor, y - 0.42, y + 0.42, color="black", lw=1.3, zorder=4)
        axes.text(place / factor, y - 0.44, f"{100 * share:.0f} %", ha="center", va="bottom", fontsize=theme.SMALL_PT)


def _located(case: pd.DataFrame, row: Any, scale: notation.Scale) -> str:
    found = split(case.loc[case["system"] == row.system, "value"].dropna().to_numpy(dtype=float))
    ends = [notation.number(place / scale.factor) for place in (found.low, found.high)]
    unit = "" if scale.unit == "1" else f" {scale.unit}"
    kept = {"constant": "; each deployment keeps to one mode", "varies": "; modes change inside a deployment"}
    shares = f"{100 * found.share:.0f} % at {ends[0]}{unit}, {100 - 100 * found.share:.0f} % at {ends[1]}{unit}"
    return f"{row.system} ({shares}{kept.get(row.mode_by_deployment, '')})"
