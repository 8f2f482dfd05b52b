"""Which systems of a case the trials can tell apart, and which not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from infrabench.analysis.figures import theme
from infrabench.analysis.figures.cases import row_of
from infrabench.analysis.figures.ratios import band, ratio_axis, ratio_mark
from infrabench.analysis.figures.row_plot import WIDE_MM, Line, heading, labelled, long, sheet
from infrabench.analysis.figures.sentences import conduct, lost_notes, pairs
from infrabench.analysis.tables import notation
from infrabench.core import SchemaError

LETTER_MM = 3.2


def tiers(
    groups: pd.DataFrame,
    contrasts: pd.DataFrame,
    workload: str,
    metric: str,
    *,
    systems: Sequence[str] | None = None,
    not_run: Mapping[str, str] | None = None,
    width_mm: float = theme.PAGE_MM,
) -> Figure:
    """Return the ratios of all systems to the baseline, best first, with letters: systems that share one are not apart.

    Parameters
    ----------
    groups
        The letters of every system in every case (`infrabench.stats.multiplicity.tiers`).
    contrasts
        The ratios and intervals to draw; the baseline itself stands at 1.

    Raises
    ------
    SchemaError
        There is no letter for this workload and metric, or no contrast.
    """
    chosen = contrasts[(contrasts["workload"] == workload) & (contrasts["metric"] == metric)]
    mine = groups[(groups["workload"] == workload) & (groups["metric"] == metric)]
    if chosen.empty or mine.empty:
        raise SchemaError(f"no tiers of {workload} {metric} to draw: two systems with ok trials are needed")
    baseline = str(chosen["baseline"].iloc[0])
    names = list(systems) if systems is not None else [baseline, *theme.systems_of(chosen, None, None)]
    wide = width_mm > WIDE_MM
    lettered = _lines(mine, chosen, width_mm)
    lines = [line for line, _ in lettered]
    columns = sorted(set("".join(mine["letters"])))
    room = LETTER_MM * len(columns) + 2
    notes = [f"{name} not run: {reason}" for name, reason in (not_run or {}).items()]
    with theme.style():
        figure, axes = sheet(lines, width_mm, 10, [*notes, *lost_notes(chosen)], room)
        inside = axes.get_position().width * width_mm
        ratio_axis(axes.xaxis, chosen, axes.set_xlim, most=9 if wide else 5, room_mm=inside)
        for y, line in enumerate(lines):
            if line.row is None:
                continue
            axes.vlines(1, y - 0.5, y + 0.5, color=theme.GREY, lw=0.7, zorder=1)
            band(axes, line.row.margin, y)
            ratio_mark(axes, line.row, y, theme.assign_styles(names)[line.row.system], vertical=False)
        start = width_mm * (1 - axes.get_position().x0) - room + LETTER_MM / 2
        for column, letter in enumerate(columns):
            _letters(axes, lettered, letter, (start + LETTER_MM * column) / inside)
        axes.set_xlabel(f"Ratio to {baseline}, 95 % interval" + (" (band: equivalence margin)" if wide else ""))
    return figure


def tiers_caption(
    groups: pd.DataFrame, contrasts: pd.DataFrame, workload: str, metric: str, *, table: pd.DataFrame | None = None,
    order: str = "random",
) -> str:  # fmt: skip
    """Return the caption of `tiers`: what the letters mean, over how many pairs, how many cases share one letter.

    `table`, `order`: as in `forest_caption`.
    """
    chosen = contrasts[(contrasts["workload"] == workload) & (contrasts["metric"] == metric)]
    mine = groups[(groups["workload"] == workload) & (groups["metric"] == metric)]
    shared = [set.intersection(*map(set, letters)) for _, letters in mine.groupby("scenario", sort=False)["letters"]]
    alike = sum(bool(each) for each in shared)
    return (
        f"{workload}, {notation.metric_title(metric)}, {notation.direction(chosen['better'].iloc[0])}: "
        f"ratio of means to {chosen['baseline'].iloc[0]} with its "
        f"paired 95 % Fieller interval over {pairs(chosen)}, best first. Systems "
        "that share a letter cannot be separated: paired t tests on logarithms between all systems of a case, Holm at "
        f"5 %. In {alike} of {len(shared)} cases no system can be separated from any other. "
        + conduct(table, chosen, order)
    ).rstrip()


def _lines(mine: pd.DataFrame, chosen: pd.DataFrame, width_mm: float) -> list[tuple[Line, str]]:
    """Lines with their letters: in each case the best system first; the baseline is its own ratio, 1."""
    first = chosen.iloc[0]
    named_above = long(chosen["scenario"], width_mm)
    heads = heading(first["workload"], first["metric"], first["better"], f"; n = {pairs(chosen)}", width_mm)
    found = [(line, "") for line in heads]
    for scenario, case in chosen.sort_values("level", kind="stable").groupby("scenario", sort=False):
        one = case.head(1).assign(system=first["baseline"], ratio=1.0, ratio_low=np.nan, ratio_high=np.nan)
        rows = pd.concat([one, case], ignore_index=True)
        rows = rows[rows["ratio"].notna()].sort_values("ratio", ascending=first["better"] == "lower", kind="stable")
        texts = (lambda row: (_numbers(row),)) if width_mm > WIDE_MM else (lambda row: ())
        for line in labelled(str(scenario), list(rows.itertuples(index=False)), texts, above=named_above):
            group = None if line.row is None else row_of(mine, scenario=str(scenario), system=line.row.system)
            found.append((line, "" if group is None else group.letters))
    return found


def _numbers(row: Any) -> str:
    ends = (row.ratio_low, row.ratio_high)
    if not np.isfinite(row.ratio_low):
        return notation.number(row.ratio)
    return f"{notation.number(row.ratio, notation.decimals(*ends, null=1))} {notation.interval(*ends, null=1)}"


def _letters(axes: Axes, lettered: Sequence[tuple[Line, str]], letter: str, at: float) -> None:
    """Write a letter in every row that has it, joined by a line within a case; `at` in widths of the axes."""
    cases: dict[str, list[int]] = {}
    for y, (line, letters) in enumerate(lettered):
        if letter in letters:
            cases.setdefault(line.row.scenario, []).append(y)
    across = axes.get_yaxis_transform()
    how = {"ha": "center", "va": "center_baseline", "fontsize": theme.TEXT_PT - 1}
    how |= {"transform": across, "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 0.1}}
    for rows in cases.values():
        axes.plot([at, at], [rows[0], rows[-1]], c=theme.GREY, lw=0.9, transform=across, clip_on=False)
        for y in rows:
            axes.text(at, y, letter, **how)
