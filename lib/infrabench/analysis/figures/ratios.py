"""Ratios to the baseline: the forest against the margin, systems that cannot be told apart, what a design can find."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from infrabench.analysis.figures import sentences, theme
from infrabench.analysis.figures.axes import Line, mark_rows, metric_lines, sheet
from infrabench.analysis.figures.view import Drawn, View, figure
from infrabench.analysis.tables import notation, ruled_out_label
from infrabench.core import SchemaError
from infrabench.stats.losses import LOST
from infrabench.stats.planning import POWER, detectable
from infrabench.stats.verdicts import NOT_COMPARABLE

SENSITIVE = " †"
ENDS = ["ratio_low", "ratio_high"]
TINY = 1e-6  # a ratio whose interval reaches zero
MOST, ROOM, WIDE = 0.9, 1.3, 1.7  # share of interval ends on the axis, air beyond them, times what is too wide
LETTER_MM = 3.2
SIZES = (3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300)
TICKS = (3, 5, 10, 30, 100, 300)
PERCENT = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
MOST_ROWS = 40  # of a session with more, the first are drawn: it is drawn anew again and again
SCREEN_DPI = 110


@figure("forest", rows="contrasts")
def forest(view: View) -> Drawn:
    """Return the ratio of every contrast to its baseline, with interval, equivalence band, n and verdict.

    Beside a ratio stands what its interval rules out: what a system costs and gains, at least or at most. A dagger
    marks a verdict that is another one without the values flagged as outliers, a double dagger one with lost trials;
    notes say which, and how many were lost. The axis holds every ratio and the widest interval, unless that one would
    make all others look alike: then it ends in an arrow. At 85 mm the numbers are left out, and what a system that is
    not decided gains at most.
    """
    contrasts, width = view.contrasts, view.width_mm or theme.PAGE_MM
    if contrasts.empty:
        raise SchemaError("no contrast to draw: was the baseline run, and is there another system?")
    baseline, wide = contrasts["baseline"].iloc[0], width > theme.WIDE_MM
    lost, limit = sentences.lost_notes(contrasts), _limit(contrasts)

    def about(group: pd.DataFrame) -> str:
        n = sentences.pairs(group) if wide else sentences.span(group["n_pairs"])
        return f"{notation.direction(group['better'].iloc[0])}; n = {n}"

    lines = metric_lines(
        contrasts, about, lambda row: _right(row, wide), width,
        lambda group: _by_rank(group, view.systems).sort_values(["level", "scenario"], kind="stable"),
    )  # fmt: skip
    notes = [*theme.not_run_notes(view.not_run), *_sensitive(contrasts), *lost]
    separator = " " if wide else "\n"
    label = f"Ratio to {baseline}, 95 % interval{separator}(band: equivalence margin)"
    drawn, axes = sheet(lines, contrasts, label, width, notes, limit)
    mark_rows(axes, lines, view.marks, lambda row: row.reason if row.verdict == NOT_COMPARABLE and wide else "")
    counts, changed = contrasts["verdict"].value_counts(), int(contrasts["sensitive"].sum())
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    margins = " and ".join(f"{100 * margin:g} %" for margin in sorted(contrasts["margin"].dropna().unique()))
    return Drawn(drawn, (
        f"Ratio of means to {baseline} over {sentences.pairs(contrasts)} with "
        f"{sentences.ratio_interval(contrasts)}; shaded: equivalence margin of {margins}; above 1 the raw value is "
        f"larger, and the heading says whether that is better. Verdicts: {verdicts}. "
        + "Beside each ratio: what its interval rules out. "
        + (f"Without the values flagged as outliers {changed} of them would be another (†)." if changed else
           "None of them hangs on a value flagged as an outlier.")
        + (" ‡: with lost trials, whatever they would have been." if lost else "")
        + (" An arrow ends an interval that goes beyond the axis." if limit else "")
        + (f" {sentences.conduct(view.trials, contrasts, view.order)}".rstrip())
    ))  # fmt: skip


@figure("tiers", rows="tiers")
def tiers(view: View) -> Drawn:
    """Return the ratios of all systems to the baseline, best first, with letters: systems that share one are not apart.

    The letters are those of `view.tiers` (`infrabench.stats.multiplicity.tiers`); the baseline itself stands at 1.
    """
    chosen, rows, width = view.of_metric(view.contrasts), view.of_metric(view.tiers), view.width_mm or theme.PAGE_MM
    if chosen.empty or rows.empty:
        what = f"{view.workload} {view.metric}"
        raise SchemaError(f"no tiers of {what} to draw: two systems with ok trials are needed")
    baseline, wide = str(chosen["baseline"].iloc[0]), width > theme.WIDE_MM
    direction, n = notation.direction(chosen["better"].iloc[0]), sentences.pairs(chosen)

    def texts(row: Any) -> tuple[str, ...]:
        return (notation.ratio(row) if np.isfinite(row.ratio_low) else notation.number(row.ratio),) if wide else ()

    lines = metric_lines(_with_baseline(chosen), lambda _: f"{direction}; n = {n}", texts, width)
    columns = sorted(set("".join(rows["letters"])))
    room = LETTER_MM * len(columns) + 2
    label = f"Ratio to {baseline}, 95 % interval" + (" (band: equivalence margin)" if wide else "")
    notes = [*theme.not_run_notes(view.not_run), *sentences.lost_notes(chosen)]
    drawn, axes = sheet(lines, chosen, label, width, notes, right_mm=room)
    mark_rows(axes, lines, view.marks)
    inside = axes.get_position().width * width
    start = width * (1 - axes.get_position().x0) - room + LETTER_MM / 2
    for column, letter in enumerate(columns):
        having = rows[rows["letters"].str.contains(letter, regex=False)]
        cells = set(zip(having["scenario"], having["system"], strict=True))
        _letters(axes, lines, cells, letter, (start + LETTER_MM * column) / inside)
    shared = [set.intersection(*map(set, letters)) for _, letters in rows.groupby("scenario", sort=False)["letters"]]
    caption = (
        f"{view.workload}, {notation.metric_title(view.metric)}, {direction}: ratio of means to {baseline} with "
        f"{sentences.ratio_interval(chosen)} over {n}, best first. Systems that share a letter cannot be separated: "
        f"paired t tests between all systems of a case, Holm at 5 %. In {sum(map(bool, shared))} of {len(shared)} "
        "cases no system can be separated from any other. " + sentences.conduct(view.trials, chosen, view.order)
    )
    return Drawn(drawn, caption.rstrip())


@figure("power", rows="contrasts", one_case=True)
def power(view: View) -> Drawn:
    """Return the smallest difference to the baseline that 80 % of sessions find, over n, at the spread of each system.

    A marker stands at the n of the session, a dashed line at the equivalence margin. Both axes are logarithmic.
    """
    contrasts, width = view.contrasts, view.width_mm or theme.COLUMN_MM
    chosen = view.of_metric(contrasts)
    rows = list(chosen[(chosen["scenario"] == view.scenario) & (chosen["detectable"] > 0)].itertuples(index=False))
    if not rows:
        what = f"{view.workload}, {view.scenario}, {view.metric}"
        raise SchemaError(f"no contrast of {what} with a spread: there is nothing to plan from")
    baseline, margin = rows[0].baseline, 100 * rows[0].margin
    marks = view.marks
    rows.sort(key=lambda row: view.systems.index(row.system))
    sizes = np.array(sorted({*SIZES, *(int(row.n_pairs) for row in rows)}), dtype=float)
    drawn, axes = theme.canvas(width, 60 + theme.legend_mm(len(rows), width))
    for row in rows:
        # standard deviation of the log ratios that the detectable difference was worked out from
        spread = float(np.log1p(row.detectable) / detectable(1.0, row.n_pairs))
        curve, mark = 100 * np.expm1(spread * detectable(1.0, sizes)), marks[row.system]
        axes.plot(sizes, curve, c=mark.colour, lw=0.9, ls=mark.dash)
        axes.plot(row.n_pairs, 100 * row.detectable, mark.marker, c=mark.colour, ms=4.5, mec="white", mew=0.4)
    axes.axhline(margin, color=theme.GREY, lw=0.8, ls=(0, (4, 2)), zorder=1)
    axes.annotate(
        f"margin of {margin:g} %", (0.01, margin), xycoords=("axes fraction", "data"), xytext=(0, 1.5), ha="left",
        va="bottom", textcoords="offset points", fontsize=theme.SMALL_PT, color=theme.GREY,
    )  # fmt: skip
    axes.set(xscale="log", yscale="log")
    for axis, ticks in ((axes.xaxis, TICKS), (axes.yaxis, PERCENT)):
        axis.set_major_locator(FixedLocator(ticks))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel(f"{rows[0].pair_unit} (marker: this session)")
    axes.set_ylabel("Detectable difference (%)")
    theme.legend(drawn, marks, [row.system for row in rows], line=0.9)
    smallest = ", ".join(f"{row.system} {notation.short(100 * row.detectable)} %" for row in rows)
    alike = ", ".join(f"{row.system} {notation.chance(row.power_equivalence)} %" for row in rows)
    n = f"{sentences.span([row.n_pairs for row in rows])} {rows[0].pair_unit}"
    return Drawn(drawn, (
        f"{view.about}{notation.metric_title(view.metric)}, smallest true difference to {baseline} that "
        f"a paired t test on log ratios at 5 % finds with {100 * POWER:.0f} % power, at the spread of the session. "
        f"With n = {n}: {smallest}. Chance to show equivalence within {margin:g} % (dashed) when the "
        f"systems are equal, of each contrast by itself and not adjusted: {alike}."
    ))  # fmt: skip


@theme.style()
def interim(frame: pd.DataFrame, baseline: str, margins: Mapping[str, float], systems: Sequence[str]) -> Figure | None:
    """Return the ratios so far (`stats.interim`) with margins as bands, nothing that decides; None while there is none.

    `margins`: metric -> equivalence margin, ``""`` is the default. `systems`: in the session's order, which fixes
    colours and markers.
    """
    every, lost = frame[frame["ratio"].notna()], frame[frame["reason"] != ""].head(MOST_ROWS)
    if every.empty:
        return None
    rows = every.head(MOST_ROWS)
    rows = rows.assign(margin=[margins.get(metric, margins.get("", float("nan"))) for metric in rows["metric"]])
    marks = theme.assign_styles(systems)
    place = {name: i for i, name in enumerate(dict.fromkeys(rows["scenario"]))}
    lines = metric_lines(
        rows, lambda group: notation.direction(group["better"].iloc[0]), lambda row: (f"n = {row.n_pairs}",),
        theme.PAGE_MM,
        lambda group: _by_rank(group, systems).sort_values("scenario", key=lambda s: s.map(place), kind="stable"),
    )  # fmt: skip
    more = [f"and {len(every) - len(rows)} more in the table"] if len(every) > len(rows) else []
    more += [f"no ratio of {row.system}, {row.scenario}: {row.reason}" for row in lost.itertuples(index=False)]
    label = f"Ratio to {baseline} so far, 95 % interval (band: equivalence margin)"
    drawn, axes = sheet(lines, rows, label, theme.PAGE_MM, more)
    mark_rows(axes, lines, marks)
    return drawn


@theme.style()
def screen(drawn: Figure, dpi: int = SCREEN_DPI) -> bytes:
    """Return a figure as PNG for a screen; nothing is written to disk."""
    data = io.BytesIO()
    drawn.savefig(data, format="png", dpi=dpi, metadata={"Software": None})
    return data.getvalue()


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


def _by_rank(rows: pd.DataFrame, systems: Sequence[str]) -> pd.DataFrame:
    """Return rows in the order of their systems."""
    rank = {name: i for i, name in enumerate(systems)}
    return rows.sort_values("system", key=lambda names: names.map(rank), kind="stable")


def _right(row: Any, wide: bool) -> tuple[str, ...]:
    """Ratio, interval and what the interval rules out; where the figure is narrow, what the system costs."""
    mark = (SENSITIVE if row.sensitive else "") + (f" {sentences.LOSSES}" if LOST in row.flags else "")
    if not wide:
        return (ruled_out_label(row).partition(",")[0].partition(":")[0] + mark,)
    return notation.ratio(row) if np.isfinite(row.ratio) else "", ruled_out_label(row) + mark


def _sensitive(contrasts: pd.DataFrame) -> list[str]:
    """Say what the marked verdicts would be without the values flagged as outliers."""
    rows = contrasts[contrasts["sensitive"]]
    if len(rows) > sentences.MOST_NOTES:
        return [f"† {len(rows)} verdicts are others without the values flagged as outliers; the table says which"]
    others = [f"{sentences.contrast_name(row)}: {row.verdict_without_flagged}" for row in rows.itertuples(index=False)]
    return [f"† without the values flagged as outliers - {'; '.join(others)}"] if others else []


def _with_baseline(chosen: pd.DataFrame) -> pd.DataFrame:
    """Return the ratios case by case, the best first, the baseline's own among them, which is 1."""
    cases = []
    for _, case in chosen.sort_values("level", kind="stable").groupby("scenario", sort=False):
        one = case.head(1).assign(system=case["baseline"].iloc[0], ratio=1.0, ratio_low=np.nan, ratio_high=np.nan)
        every = pd.concat([one, case], ignore_index=True).dropna(subset="ratio")
        cases.append(every.sort_values("ratio", ascending=case["better"].iloc[0] == "lower", kind="stable"))
    return pd.concat(cases, ignore_index=True)


def _letters(axes: Axes, lines: Sequence[Line], cells: set[tuple[str, str]], letter: str, at: float) -> None:
    """Write a letter in the rows of the cells that have it, joined within a case; `at` in widths of the axes."""
    cases: dict[str, list[int]] = {}
    for y, line in enumerate(lines):
        if line.row is not None and (line.row.scenario, line.row.system) in cells:
            cases.setdefault(line.row.scenario, []).append(y)
    across = axes.get_yaxis_transform()
    how = {"ha": "center", "va": "center_baseline", "fontsize": theme.TEXT_PT - 1}
    how |= {"transform": across, "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 0.1}}
    for rows in cases.values():
        axes.plot([at, at], [rows[0], rows[-1]], c=theme.GREY, lw=0.9, transform=across, clip_on=False)
        for y in rows:
            axes.text(at, y, letter, **how)
