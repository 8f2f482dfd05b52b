"""What papers print: their ratios on our forest, each with the word of its comparison, and their score in versions."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_lowercase
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from infrabench.analysis.figures import sentences, theme
from infrabench.analysis.figures.axes import ROW_MM, Line, heading, labelled, long, mark_rows, sheet
from infrabench.analysis.figures.view import Drawn, View, figure
from infrabench.analysis.published import score
from infrabench.analysis.published.comparison import AGREES_DIRECTION, AGREES_SIZE, DISAGREES, NOT_COMPARABLE
from infrabench.analysis.published.printed_numbers import ENGINES
from infrabench.analysis.tables import notation
from infrabench.core import SchemaError
from infrabench.stats.table import PER_DEPLOYMENT

INK = theme.COLOURS[0]
SHORT = {AGREES_SIZE: "size", AGREES_DIRECTION: "direction", DISAGREES: "disagrees", NOT_COMPARABLE: "n.c."}
# in rows: half-heights of the mark of a printed number and of the box of a range, and how high an arrow stands
TALL, RANGE, BESIDE = 0.36, 0.26, 0.26
ROOM = 1.12  # of the axis, beyond what must be on it
SCORE_MM = 6.5  # a version of the score
ENDS = ["ratio_low", "ratio_high", "published_low", "published_high"]
RUNS = "the papers' number of runs"
NEUTRAL = theme.SystemStyle(theme.COLOURS[1], "o", "-")  # of a ratio of two cells of ours


@figure("published", rows="published")
def published(view: View) -> Drawn:
    """Return every ratio that the papers of the study print, as an upright bar, on the forest of ours.

    `view.published` has a row for each, with the word of its comparison (`notebook.published_cells.compare_published`).
    What is not comparable is grey and has a letter, whose reason stands below. The axis holds what can be compared; a
    printed number beyond it is an arrow. At 85 mm words are short, and numbers stand only where they are beyond it.
    """
    rows, width = view.published, view.width_mm or theme.PAGE_MM
    if rows is None or rows.empty:
        raise SchemaError("no published ratio to draw: the papers print none of this study")
    wide, baseline = width > theme.WIDE_MM, rows["baseline"].dropna()
    letters: dict[str, str] = {}  # reason -> letter, as they come
    limit, key = _limit(rows), _key(rows)
    in_line = 3 if wide and len(key) < 4 else 2  # keys, which stand left of the heads
    free = -(-len(key) // in_line)
    lines = [Line("")] * free + _lines(rows, view.systems, letters, width, limit)
    between = " " if wide else "\n"
    label = f"Ratio to {baseline.iloc[0]}" if len(baseline) else "Ratio of two cells"
    label = f"Ratio of {rows['system'].iloc[0]} to {baseline.iloc[0]}" if _is_of_one_system(rows) else label
    label += f"{between}(band: equivalence margin)" if rows["margin"].notna().any() else ""
    notes = [f"{letter}  {reason}" for reason, letter in letters.items()]
    heads = ("ours", "published", "comparison") if wide else ()
    drawn, axes = sheet(lines, rows.astype({"margin": float}), label, width, notes, limit, heads=heads)
    styles = view.marks if len(baseline) else {}
    marks = {name: styles.get(name, NEUTRAL) for name in rows["system"]}
    mark_rows(axes, lines, marks)
    for y, line in enumerate(lines):
        if line.row is not None:
            _prediction(axes, line.row, y, marks[line.row.system].colour)
            _printed(axes, line.row, y)
    top = axes.get_position().y1 - ROW_MM * free / 2 / (drawn.get_figheight() / theme.MM)
    drawn.legend(
        handles=key, loc="center left", bbox_to_anchor=(0.0, top), ncols=in_line, handlelength=1.8,
        columnspacing=1.2, handletextpad=0.5, borderaxespad=0.2, labelspacing=0.4,
    )  # fmt: skip
    return Drawn(drawn, _caption(view, limit))


@theme.style()
def composite(*, width_mm: float = theme.PAGE_MM) -> Drawn:
    """Return a dot plot of the container papers' score by version, with the order of the engines written at the right.

    Bars are what the rounding of the printed digits allows. At 85 mm the orders are left out.
    """
    scores, wide = score.composite(), width_mm > theme.WIDE_MM
    marks = theme.assign_styles(["native", *ENGINES])  # as in the study of containers, so that colours are the same
    labels = {str(each["label"]): score.order(name) for name, each in score.versions().items()}
    drawn, axes = theme.canvas(width_mm, SCORE_MM * len(labels) + 20)
    for y, (label, order) in enumerate(labels.items()):
        axes.axhline(y, color=theme.BAND, lw=0.6, zorder=0)
        rows = scores[scores["label"] == label]
        for place, row in enumerate(rows.itertuples(index=False)):
            shift = 0.2 * (place - (len(rows) - 1) / 2)  # bars of neighbours that overlap stay apart
            colour, marker, _ = marks[row.engine]
            axes.plot([row.low, row.high], [y + shift] * 2, color=colour, lw=1.4, alpha=0.55, zorder=2)
            axes.plot(row.score, y + shift, marker=marker, color=colour, ms=4, mew=0, zorder=3)
        axes.annotate(
            order if wide else "", (1.01, y), xycoords=("axes fraction", "data"), va="center",
            fontsize=theme.SMALL_PT, color=theme.GREY,
        )  # fmt: skip
    axes.set_yticks(range(len(labels)), labels)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    what = ("Score, % of native (higher is better)", "bars: what the rounding of the printed digits allows")
    axes.set_xlabel("; ".join(what) if wide else "\n".join(["Score, % of native", "(bars: rounding)"]))
    drawn.get_layout_engine().set(w_pad=1.5 * theme.MM)
    theme.legend(drawn, {name: marks[engine] for engine, name in ENGINES.items()}, list(ENGINES.values()), line=0.0)
    return Drawn(drawn, (
        f"Overall performance of the container papers in {len(labels)} versions, % of native: as published, and "
        "computed again from the numbers that the same papers print. A question mark between two engines: the "
        "rounding of the printed digits alone can turn their order. Spread between runs, which is not printed, comes "
        "on top."
    ))  # fmt: skip


def _caption(view: View, limit: float) -> str:
    """Return what the marks are, how often each word was given, and what was not measured or lies beyond the axis."""
    rows = view.published
    ours, counts = rows[rows["n_pairs"] > 0], rows["agreement"].value_counts()
    said = ", ".join(f"{word} {counts[word]}" for word in SHORT if word in counts)
    boxes = "; boxes: ranges over load levels" if (rows["published_low"] < rows["published_high"]).any() else ""
    beyond = (rows["published_high"] < 1 / limit) | (rows["published_low"] > limit)
    # as `comparison.count_published` has it
    size = dict.fromkeys("one deployment" if unit == PER_DEPLOYMENT else RUNS for unit in ours["pair_unit"])
    parts = [
        f"Published ratios (upright bars{boxes}), which carry no interval, beside ours",
        f", each over {sentences.pairs(ours)} with {sentences.ratio_interval(ours)}; thin: where a second campaign of "
        f"{' or '.join(size)} would put its ratio with 95 % probability on this site" if len(ours) else "",
        f". {len(rows)} comparisons: {said}. ",
        f"Not measured in this session: {len(rows) - len(ours)}. " if len(rows) > len(ours) else "",
        "Agrees in size: the published ratio, or part of its range, lies in the prediction interval; agrees in ",
        "direction: our interval excludes 1, on the published side; disagrees: neither. Grey, with a letter: not ",
        "comparable, for the reason below. One column wide, the words are size, direction, disagrees and n.c. ",
        f"Beyond the axis (arrows): {beyond.sum()}. " if beyond.any() else "",
        sentences.conduct(view.table, ours, view.order) if len(ours) and ours["scenario"].notna().all() else "",
    ]  # fmt: skip
    return "".join(parts).rstrip()


def _is_of_one_system(rows: pd.DataFrame) -> bool:
    """Tell whether one system is compared with the baseline, and no other."""
    return bool(rows["baseline"].notna().any() and len(set(rows["system"])) == 1)


def _limit(rows: pd.DataFrame) -> float:
    """Return the largest ratio to show: of what can be compared, or of all where nothing can; every ratio of ours."""
    some = rows[rows["agreement"] != NOT_COMPARABLE]
    ends = [(rows if some.empty else some)[ENDS], rows[["ratio"]]]
    sizes = [np.abs(np.log(values[values > 0])) for values in (each.to_numpy(dtype=float) for each in ends)]
    return float(np.exp(ROOM * max(np.nanmax(each[np.isfinite(each)], initial=0.02) for each in sizes)))


def _lines(
    rows: pd.DataFrame, systems: Sequence[str], letters: dict[str, str], width_mm: float, limit: float
) -> list[Line]:
    """Headings and rows: metrics in the papers' order, scenarios by level, systems in the session's order."""
    wide, lines = width_mm > theme.WIDE_MM, list[Line]()
    rank = {name: i for i, name in enumerate(systems)}

    def texts(row: Any) -> tuple[str, ...]:
        """Our ratio, the printed one and the word; where it is narrow, the word and what is beyond the axis."""
        letter = ""
        if row.reason:
            place = len(letters)  # a, b, ..., z, aa, bb, ...
            letter = f" {letters.setdefault(row.reason, ascii_lowercase[place % 26] * (1 + place // 26))}"
        if not wide:
            beyond = f" ({printed_ratio(row)})" if row.published_high < 1 / limit or row.published_low > limit else ""
            return (SHORT[row.agreement] + letter + beyond,)
        ours = notation.ratio(row) if np.isfinite(row.ratio) else "no ratio" if row.n_pairs else "not measured"
        return ours, printed_ratio(row), row.agreement + letter

    for (workload, metric), group in rows.groupby(["workload", "metric"], sort=False):
        there = group[group["n_pairs"] > 0]
        if there.empty:
            lines += heading(workload, metric, "not measured", width_mm)
        else:
            n = f"; n = {sentences.pairs(there) if wide else sentences.span(there['n_pairs'])}"
            lines += heading(workload, metric, notation.direction(there["better"].iloc[0]) + n, width_mm)
        for row in group[group["printed"].notna()].itertuples(index=False):  # of two cells
            lines += [Line(row.printed, minor=True), Line(row.ours, row, texts(row))]
        others = group[group["printed"].isna()]
        others = others.assign(rank=others["system"].map(rank), absent=others["n_pairs"] == 0)
        others = others.sort_values(["absent", "level", "scenario", "rank"], kind="stable")
        if _is_of_one_system(rows):  # the axis names it
            lines += [Line(row.scenario, row, texts(row)) for row in others.itertuples(index=False)]
            continue
        above = long(others["scenario"], width_mm)
        for scenario, case in others.groupby("scenario", sort=False):
            lines += labelled(str(scenario), list(case.itertuples(index=False)), texts, above=above)
    return lines


def printed_ratio(row: Any) -> str:
    """Return the published ratio, or its range, with as many places as tell it from 1."""
    ends = (row.published_low, row.published_high)
    texts = (f"{end:.5g}" if abs(end - 1) < 0.0015 else f"{end:.3f}" if end < 10 else f"{end:.4g}" for end in ends)
    return " to ".join(dict.fromkeys(texts))


def _prediction(axes: Axes, row: Any, y: float, colour: str) -> None:
    """Draw where a second campaign would put its ratio, as a thin line with ends."""
    if not np.isfinite(row.predicted_low):
        return
    low, high = axes.get_xlim()
    whole = [row.predicted_low, row.predicted_high]
    axes.plot(np.clip(whole, low, high), [y, y], c=colour, lw=0.6, zorder=2.5)
    inside = [end for end in whole if low <= end <= high]
    axes.plot(inside, [y] * len(inside), "|", c=colour, ms=3, mew=0.6, zorder=2.5)


def _printed(axes: Axes, row: Any, y: float) -> None:
    """Draw the printed ratio behind ours, as a bar that is taller, a range as a box; beyond the axis as an arrow."""
    low, high = axes.get_xlim()
    colour = theme.GREY if row.agreement == NOT_COMPARABLE else INK
    first, last = row.published_low, row.published_high
    if last < low or first > high:  # above the line, where an arrow of ours may be
        at, sign = (low, "<") if last < low else (high, ">")
        axes.plot(at, y - BESIDE, sign, c=colour, ms=4, mew=0, zorder=6, clip_on=False)
    elif first < last:
        first, last = np.clip([first, last], low, high)
        axes.add_patch(Rectangle((first, y - RANGE), last - first, 2 * RANGE, fill=False, ec=colour, lw=0.9, zorder=2))
    else:
        axes.vlines(first, y - TALL, y + TALL, color=colour, lw=1.5, zorder=2)


def _key(rows: pd.DataFrame) -> list[Line2D]:
    """The key of what the figure has."""
    several = (rows["published_low"] < rows["published_high"]).any()
    range_of = Line2D([], [], color=INK, marker="s", mfc="none", ms=5, mew=0.9, lw=0, label="published range")
    point = {"color": theme.GREY, "marker": "o", "ms": 4, "mew": 0, "lw": 1.1}
    predicted = Line2D([], [], color=theme.GREY, marker="|", ms=3, mew=0.6, lw=0.6, label="prediction interval")
    return [
        Line2D([], [], color=INK, marker="|", ms=7, mew=1.5, lw=0, label="published"),
        *([range_of] if several else []),
        *([Line2D([], [], label="ours, 95 % interval", **point)] if rows["ratio"].notna().any() else []),
        *([predicted] if rows["predicted_low"].notna().any() else []),
    ]
