"""Ratios over sites: each site's with its interval, their mean, and what a new site would show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Polygon

from infrabench.analysis.figures import theme
from infrabench.analysis.figures.axes import Line, base_row, heading, ratio_mark, sheet, write
from infrabench.analysis.figures.sentences import p_text, pairs, span
from infrabench.analysis.figures.view import Drawn
from infrabench.analysis.tables import notation
from infrabench.core import SchemaError
from infrabench.stats.table import CELL

MEAN, NEW = "mean of sites", "a new site"
SMALLEST, LARGEST = 2.5, 7.0  # of a site's square, pt: its area is its weight
ROOM = 1.15  # air beyond the widest interval of a site


class _Mark(NamedTuple):
    """What is drawn on a line: a site's row, or the row over sites as its mean or as a new site."""

    kind: str  # "site", MEAN or NEW
    row: Any


@theme.style()
def sites(
    rows: pd.DataFrame, over: pd.DataFrame, stamp: str = "", *, systems: Sequence[str] | None = None,
    width_mm: float = theme.PAGE_MM,
) -> Drawn:  # fmt: skip
    """Return the forest over sites: a square for each site, a diamond for their mean, a line for a new site.

    The area of a square is the site's weight in the mean. Beside each case stand the standard deviation between sites,
    its share in what is seen (I²), and p of the test that sites do not differ; at 85 mm the numbers are left out.

    `rows` and `over` are of `stats.sites.per_site` and `over_sites`, of which cases are selected before the call;
    `stamp` is what qualifies the sites, for the caption; `systems` (the session's order, baseline first) fixes colours.
    """
    if rows.empty or not rows["ratio"].notna().any():
        raise SchemaError("no site has a ratio to draw: which sites have blocks with both systems?")
    baseline = rows["baseline"].iloc[0]
    marks = theme.assign_styles(systems if systems is not None else [baseline, *dict.fromkeys(rows["system"])])
    wide = width_mm > theme.WIDE_MM
    lines = _lines(rows, over, width_mm)
    notes = [f"missing: {what}" for what in dict.fromkeys(filter(None, over["missing"]))]
    separator = " " if wide else "\n"
    label = f"Ratio to {baseline}, 95 % interval{separator}(band: equivalence margin)"
    drawn, axes = sheet(lines, rows, label, width_mm, notes, _reach(rows, over))
    for y, line in enumerate(lines):
        if line.row is not None:
            _draw(axes, line.row, y, marks[line.row.row.system], wide)
    return Drawn(drawn, _caption(rows, over, stamp))


def _caption(rows: pd.DataFrame, over: pd.DataFrame, stamp: str) -> str:
    """What squares, diamond and line are, how many sites, and what qualifies them."""
    counts = Counter(map(str, over["across"])).items()
    words = ", ".join(f"{word} {n}" for word, n in sorted(counts, key=lambda each: (-each[1], each[0])))
    named = [f"{row.system} at {row.scenario}: {row.named}" for row in over.itertuples() if row.named]
    some = over["ratio_low"].notna().any()
    return (
        f"Ratio of geometric means to {rows['baseline'].iloc[0]} at {span(over['sites'])} sites, squares, over "
        f"{pairs(rows)} each, with 95 % t intervals"
        + ("; the area of a square is its weight. Diamond: random-effects mean of the sites with its 95 % interval; "
           f"below it the 95 % prediction interval of {NEW}; SD: standard deviation between sites, on the log scale; "
           "p: Welch's test of equal sites. " if some else
           ". Two sites give no mean over sites and say nothing of others. " if (over["sites"] == 2).all() else
           ". Below three sites there is no mean over sites. ")
        + f"Over sites: {words}. "
        + (f"Named, adjusted by Holm over the sites: {'; '.join(named)}. " if named else "")
        + stamp
    ).strip()  # fmt: skip


def _lines(rows: pd.DataFrame, over: pd.DataFrame, width_mm: float) -> list[Line]:
    wide = width_mm > theme.WIDE_MM
    lines: list[Line] = []
    for (workload, metric), group in over.groupby(["workload", "metric"], sort=False):
        lines += heading(workload, metric, notation.direction(group["better"].iloc[0]), width_mm)
        for case in group.itertuples(index=False):
            of_case = rows[(rows[CELL] == [getattr(case, key) for key in CELL]).all(axis=1)]
            lines += [Line(text, minor=True) for text in _about(case, width_mm)]
            for row in of_case.itertuples(index=False):
                word = row.named or row.verdict if np.isfinite(row.error) else row.reason
                lines.append(Line(row.site, _Mark("site", row), _texts(row, "ratio", word, wide)))
            if np.isfinite(case.ratio):
                lines.append(Line(MEAN, _Mark(MEAN, case), _texts(case, "ratio", case.verdict, wide)))
                lines.append(Line(NEW, _Mark(NEW, case), _texts(case, "predicted", case.across, wide)))
    return lines


def _about(case: Any, width_mm: float) -> list[str]:
    """Which case it is, and how far its sites are apart, on as few lines as hold it."""
    name = case.system if case.scenario == "default" else f"{case.scenario}  {case.system}"
    facts = []
    if np.isfinite(case.tau):
        facts.append(f"SD between sites {notation.short(100 * case.tau)} %, I² {100 * case.i_squared:.0f} %")
    if np.isfinite(case.p_sites):
        facts.append(f"equal sites: p {p_text(case.p_sites)}")
    together = f"({'; '.join(facts)})"
    for lines in ([f"{name} {together}" if facts else name], [name, together]):
        # letters on paper are set up to a twentieth wider than what is measured
        if all(1.08 * theme.text_mm(line, theme.TEXT_PT - 1) < width_mm - 3 for line in lines):
            return lines
    return [name, *facts]


def _texts(row: Any, stem: str, word: str, wide: bool) -> tuple[str, ...]:
    word = word.replace(", within the margin", ", in margin")
    if not wide:
        return (word,)
    low, high = (getattr(row, f"{stem}_{end}") for end in ("low", "high"))
    if not np.isfinite(low):
        return "", word
    return notation.ratio(row) if stem == "ratio" else notation.interval(low, high, null=1), word


def _reach(rows: pd.DataFrame, over: pd.DataFrame) -> float:
    """The largest ratio shown: every site's interval; a new site's may end in arrows."""
    ends = np.abs(np.log(rows[["ratio_low", "ratio_high"]].to_numpy(dtype=float)))
    means = np.abs(np.log(over[["ratio_low", "ratio_high"]].to_numpy(dtype=float)))
    widest = np.nanmax(ends, initial=0.0)
    margin = -2 * np.log1p(-np.nanmax(rows["margin"].to_numpy(dtype=float), initial=0.02))
    return float(np.exp(ROOM * max(widest, margin, min(np.nanmax(means, initial=0.0), 2 * widest))))


def _draw(axes: Axes, mark: _Mark, y: float, own: theme.SystemStyle, wide: bool) -> None:
    kind, row = mark
    base_row(axes, row.margin, y)
    if kind == "site":
        share = row.weight if np.isfinite(row.weight) else 0.3
        size = float(np.clip(LARGEST * np.sqrt(share), SMALLEST, LARGEST))
        ratio_mark(axes, row, y, own._replace(marker="s"), vertical=False, size=size)
    elif kind == MEAN:
        low, high = np.clip([row.ratio_low, row.ratio_high], *axes.get_xlim())
        corners = [(low, y), (row.ratio, y - 0.32), (high, y), (row.ratio, y + 0.32)]
        axes.add_patch(Polygon(corners, color=own.colour, lw=0, zorder=4))
    else:
        ends = pd.Series({"ratio": row.ratio, "ratio_low": row.predicted_low, "ratio_high": row.predicted_high})
        ratio_mark(axes, ends, y, own._replace(marker="|"), vertical=False, size=5)
    if kind == "site" and not np.isfinite(row.ratio) and wide:
        write(axes, 1.5, y, row.reason, theme.SMALL_PT, color=theme.GREY, style="italic")
