"""The forest plot: every ratio to the baseline with its interval, against the margin that was fixed beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from infrabench.analysis.figures import theme
from infrabench.analysis.figures.ratios import band, ratio_axis, ratio_mark
from infrabench.analysis.figures.row_plot import WIDE_MM, Line, heading, labelled, long, sheet, write
from infrabench.analysis.figures.sentences import LOSSES, MOST_NOTES, conduct, contrast_name, lost_notes, pairs, span
from infrabench.analysis.tables import notation, ruled_out_label
from infrabench.analysis.tables.ruled_out import UNDECIDED
from infrabench.core import SchemaError
from infrabench.stats.losses import LOST

NOT_COMPARABLE = "not comparable"
SENSITIVE = " †"
ENDS = ["ratio_low", "ratio_high"]
TINY = 1e-6  # a ratio whose interval reaches zero
MOST, ROOM, WIDE = 0.9, 1.3, 1.7  # share of interval ends on the axis, air beyond them, times what is too wide


def forest(
    contrasts: pd.DataFrame,
    *,
    systems: Sequence[str] | None = None,
    not_run: Mapping[str, str] | None = None,
    limit: float | None = None,
    width_mm: float = theme.PAGE_MM,
) -> Figure:
    """Return the ratio of every contrast to its baseline, with interval, equivalence band, n and verdict.

    Where there is no verdict, what the interval rules out stands in its place: what a system costs and gains at most.
    A dagger marks a verdict that is another one without the values flagged as outliers, a double dagger one with lost
    trials; notes say which, and how many were lost.

    Parameters
    ----------
    contrasts
        Rows to draw, grouped by workload and metric; select them before the call.
    systems
        Systems in the session's order, baseline first; it fixes colours and markers.
    not_run
        System -> reason, told under the axis.
    limit
        Largest ratio shown (the smallest is its inverse); an interval beyond it ends in an arrow. By default every
        ratio and the widest interval, unless that one would make all others look alike.
    width_mm
        At 85 mm the numbers are left out, and what a system gains at most.

    Raises
    ------
    SchemaError
        There is no contrast to draw.
    """
    if contrasts.empty:
        raise SchemaError("no contrast to draw: was the baseline run, and is there another system?")
    baseline = contrasts["baseline"].iloc[0]
    names = theme.systems_of(contrasts, systems, None)
    marks = theme.assign_styles(names if systems is not None else [baseline, *names])
    wide = width_mm > WIDE_MM
    lines = _lines(contrasts, names, width_mm)
    notes = [f"{name} not run: {reason}" for name, reason in (not_run or {}).items()]
    with theme.style():
        figure, axes = sheet(
            lines, width_mm, 10 if wide else 14.5, [*notes, *_sensitive(contrasts), *lost_notes(contrasts)]
        )
        room = axes.get_position().width * width_mm
        shown = limit or _limit(contrasts)
        ratio_axis(axes.xaxis, contrasts, axes.set_xlim, shown, most=9 if wide else 5, room_mm=room)
        for y, line in enumerate(lines):
            if line.row is None:
                continue
            axes.vlines(1, y - 0.5, y + 0.5, color=theme.GREY, lw=0.7, zorder=1)
            band(axes, line.row.margin, y)
            ratio_mark(axes, line.row, y, marks[line.row.system], vertical=False)
            if line.row.verdict == NOT_COMPARABLE and wide:
                write(axes, 1.5, y, line.row.reason, theme.SMALL_PT, color=theme.GREY, style="italic")
        what = ("Ratio to " + baseline + ", 95 % interval", "band: equivalence margin")
        axes.set_xlabel(f"{what[0]} ({what[1]})" if wide else f"{what[0]}\n({what[1]})")
    return figure


def forest_caption(contrasts: pd.DataFrame, *, table: pd.DataFrame | None = None, order: str = "random") -> str:
    """Return the caption of `forest`: the interval and its unit of replication, margins, and how many verdicts of each.

    `contrasts`: the rows that are drawn. With the tidy `table` it also says how the trials were ordered (`order` as in
    `caption`), and counts those that are lost or repeated.
    """
    counts = contrasts["verdict"].value_counts()
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    changed = int(contrasts["sensitive"].sum())
    margins = " and ".join(f"{100 * margin:g} %" for margin in sorted(contrasts["margin"].dropna().unique()))
    return (
        f"Ratio of means to {contrasts['baseline'].iloc[0]} over {pairs(contrasts)} with its paired 95 % Fieller "
        f"interval; shaded: equivalence margin of {margins}; above 1 the raw value is larger, and the heading says "
        f"whether that is better. Verdicts: {told}. "
        + ("Where one is inconclusive, what its interval rules out stands instead. " if UNDECIDED in counts else "")
        + (f"Without the values flagged as outliers {changed} of them would be another (†)." if changed else
           "None of them hangs on a value flagged as an outlier.")
        + (" ‡: with lost trials, whatever they would have been." if lost_notes(contrasts) else "")
        + (" An arrow ends an interval that goes beyond the axis." if _limit(contrasts) else "")
        + (f" {conduct(table, contrasts, order)}".rstrip())
    )  # fmt: skip


def _limit(contrasts: pd.DataFrame) -> float | None:
    """Return the largest ratio to show where a few wide intervals would leave no room for all others; else None."""
    ratios, ends = (
        np.abs(np.log(contrasts[names].replace(np.inf, np.nan).to_numpy(dtype=float).clip(min=TINY)))
        for names in (["ratio"], ENDS)
    )
    if not np.isfinite(ends).any():
        return None
    reach = ROOM * max(np.nanmax(ratios), np.nanquantile(ends, MOST))
    return float(np.exp(reach)) if np.nanmax(ends) > WIDE * reach else None


def _lines(contrasts: pd.DataFrame, names: Sequence[str], width_mm: float) -> list[Line]:
    """Headings and rows in the order of drawing: scenarios by level, systems in the session's order."""
    wide = width_mm > WIDE_MM
    rank = {name: i for i, name in enumerate(names)}
    above = long(contrasts["scenario"], width_mm)
    lines: list[Line] = []
    for (workload, metric), group in contrasts.groupby(["workload", "metric"], sort=False, observed=True):
        n = f"; n = {pairs(group) if wide else span(group['n_pairs'])}"
        lines += heading(workload, metric, group["better"].iloc[0], n, width_mm)
        ordered = group.sort_values("system", key=lambda s: s.map(rank)).sort_values(
            ["level", "scenario"], kind="stable"
        )
        for scenario, case in ordered.groupby("scenario", sort=False):
            rows = list(case.itertuples(index=False))
            lines += labelled(str(scenario), rows, lambda row: _right(row, wide), above=above)
    return lines


def _right(row: Any, wide: bool) -> tuple[str, ...]:
    """Ratio, interval and verdict, or what is ruled out without one.

    Where the figure is narrow, the verdict or the most that the system costs.
    """
    mark = (SENSITIVE if row.sensitive else "") + (f" {LOSSES}" if LOST in row.flags else "")
    if not wide:
        short = ruled_out_label(row).partition(", gains")[0]
        return (short.replace(", within the margin", ", in margin") + mark,)
    verdict = ruled_out_label(row) + mark
    if not np.isfinite(row.ratio):
        return "", verdict
    ends = (row.ratio_low, row.ratio_high)
    ratio = notation.number(row.ratio, notation.decimals(*ends, null=1))
    return f"{ratio} {notation.interval(*ends, null=1)}", verdict


def _sensitive(contrasts: pd.DataFrame) -> list[str]:
    """Say what the marked verdicts would be without the values flagged as outliers."""
    rows = list(contrasts[contrasts["sensitive"]].itertuples(index=False))
    if len(rows) > MOST_NOTES:
        return [f"† {len(rows)} verdicts are others without the values flagged as outliers; the table says which"]
    told = [f"{contrast_name(row)}: {row.verdict_without_flagged}" for row in rows]
    return [f"† without the values flagged as outliers - {'; '.join(told)}"] if told else []
