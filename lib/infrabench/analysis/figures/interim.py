"""The figure of a session that still runs: ratios to the baseline with their intervals, and nothing that decides."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure

from infrabench.analysis.figures import theme
from infrabench.analysis.figures.ratios import band, ratio_axis, ratio_mark
from infrabench.analysis.figures.row_plot import Line, heading, labelled, long, sheet

MOST_ROWS = 40  # of a session with more, the first are drawn: it is drawn anew again and again
SCREEN_DPI = 110


def interim(
    frame: pd.DataFrame, baseline: str, margins: Mapping[str, float], systems: Sequence[str],
    width_mm: float = theme.PAGE_MM,
) -> Figure | None:  # fmt: skip
    """Return the ratios so far (`stats.interim`) with margins as bands; None while there is none.

    `margins`: metric -> equivalence margin, ``""`` is the default. `systems`: in the session's order, which fixes
    colours and markers.
    """
    every, lost = frame[frame["ratio"].notna()], frame[frame["reason"] != ""].head(MOST_ROWS)
    if every.empty:
        return None
    rows = every.head(MOST_ROWS)
    rows = rows.assign(margin=[margins.get(metric, margins.get("", float("nan"))) for metric in rows["metric"]])
    marks, rank = theme.assign_styles(systems), {name: i for i, name in enumerate(systems)}
    above = long(rows["scenario"], width_mm)
    lines: list[Line] = []
    for (workload, metric), group in rows.groupby(["workload", "metric"], sort=False):
        lines += heading(workload, metric, group["better"].iloc[0], "", width_mm)
        for scenario, case in group.groupby("scenario", sort=False):
            ordered = case.sort_values("system", key=lambda each: each.map(rank)).itertuples(index=False)
            lines += labelled(str(scenario), list(ordered), lambda row: (f"n = {row.n_pairs}",), above=above)
    more = [f"and {len(every) - len(rows)} more in the table"] if len(every) > len(rows) else []
    more += [f"no ratio of {row.system}, {row.scenario}: {row.reason}" for row in lost.itertuples(index=False)]
    with theme.style():
        figure, axes = sheet(lines, width_mm, 10, more)
        ratio_axis(axes.xaxis, rows, axes.set_xlim, most=9, room_mm=axes.get_position().width * width_mm)
        for y, line in enumerate(lines):
            if line.row is not None:
                axes.vlines(1, y - 0.5, y + 0.5, color=theme.GREY, lw=0.7, zorder=1)
                band(axes, line.row.margin, y)
                ratio_mark(axes, line.row, y, marks[line.row.system], vertical=False)
        axes.set_xlabel(f"Ratio to {baseline} so far, 95 % interval (band: equivalence margin)")
    return figure


def screen(figure: Figure) -> bytes:
    """Return a figure as PNG for a screen; nothing is written to disk."""
    data = io.BytesIO()
    with theme.style():
        figure.savefig(data, format="png", dpi=SCREEN_DPI, metadata={"Software": None})
    return data.getvalue()
