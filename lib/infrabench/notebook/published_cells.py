"""What papers print beside a session: cells in every reading of their unit, ratios of two, and every published ratio.

Nothing here is a test of the paper: its values carry no spread, and its machines are others. What is compared is where
a number lies, and, where the absolute value cannot be used, a ratio of two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from infrabench.analysis import results
from infrabench.analysis.published import derived_metrics
from infrabench.analysis.published.comparison import (
    NOT_COMPARABLE,
    agreement,
    begins,
    count_published,
    plain,
    prediction,
    unmeasured,
)
from infrabench.analysis.published.printed_numbers import (
    ENGINES,
    EXPERIMENTS,
    join_notes,
    numbers,
    printed_span,
    read_toml,
)
from infrabench.analysis.results import Results, Shown
from infrabench.analysis.tables import columns, notation
from infrabench.stats import contrasts
from infrabench.stats.table import select_metric

LETTERS = {study: letter for letter, (study, _) in EXPERIMENTS.items()}
ONE = "the ratio of two cells"  # stands where scenarios stand
VALUES = (
    *("printed", "read", "theirs", "metric", "system", "scenario", "ours", "95 % CI", "unit", "ours / theirs", "note"),
    "printed in",
)
KEPT = ("better", "n_pairs", "pair_unit", "p_method", "margin", "ratio")  # of the contrast of two cells
COMPARED = (
    *("printed", "ours", "workload", "metric", "system", *KEPT, "ratio_low", "ratio_high"),
    *("published_low", "published_high", "predicted_low", "predicted_high", "agreement", "note", "reason"),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One printed cell, and those of ours that it stands beside (``cells.toml``)."""

    row: Any  # of the published numbers
    workload: str
    metrics: tuple[str, ...]
    systems: tuple[str, ...]
    readings: Mapping[str, float]  # what the printed unit may mean: words, and the factor to the unit of our metrics
    scenario: str | tuple[str, ...]  # begins the name of ours; of a pair: one for each size that we have
    pods: int  # end it (0: not printed)
    note: str

    def is_at(self, scenario: str) -> bool:
        """Tell whether a scenario of ours is the one of this cell."""
        if not self.pods:
            return begins(scenario, self.scenario)
        return scenario == f"{self.scenario} {self.pods} pods".strip()


@dataclass(frozen=True, slots=True)
class PublishedPair:
    """Two printed cells whose ratio can be used where neither value can: what is unknown of both cancels."""

    above: Cell
    below: Cell
    note: str
    comparable: bool = True  # False: stands beside ours all the same, and the note says why no more

    @property
    def printed(self) -> str:
        """Which two cells, in words."""
        return " / ".join(f"{each.row.platform}, {each.row.scenario}" for each in (self.above, self.below))

    def joins(self, above: str, below: str) -> bool:
        """Tell whether two scenarios of ours stand for the two cells: of several sizes, those in one place of both."""
        of_above, of_below = self.above.scenario, self.below.scenario
        if isinstance(of_above, str) or isinstance(of_below, str):
            return True
        return any(begins(above, a) and begins(below, b) for a, b in zip(of_above, of_below, strict=True))


@cache
def read_cells(study: str) -> tuple[tuple[Cell, ...], tuple[PublishedPair, ...]]:
    """Return the printed cells of a study that stand beside ours, and pairs of them, as ``cells.toml`` has them."""
    data, known, cells = read_toml("cells.toml"), numbers(), dict[str, Cell]()
    table = data.get(study, {})
    for system, each in product(table.get("systems", [""]), table.get("cell", ())):
        row = known.row(each["printed"].format(system))
        cells[row.id] = Cell(
            row, each["workload"], tuple(each["metrics"]), tuple(table["ours"][row.platform]),
            data["readings"][each["reading"]], each.get("scenario", ""), each.get("pods", 0),
            join_notes(each["note"], data["notes"]),
        )  # fmt: skip
    return tuple(cells.values()), tuple(_read_pair(each, cells) for each in table.get("pair", ()))


def _read_pair(entry: Mapping[str, Any], cells: Mapping[str, Cell]) -> PublishedPair:
    """Return a pair; where it names `ours`, those scenarios of ours stand for the printed ones: a list for each."""
    above, below = cells[entry["above"]], cells[entry["below"]]
    if ours := entry.get("ours"):
        above, below = (
            replace(cell, scenario=tuple(names)) for cell, names in zip((above, below), ours, strict=True)
        )  # fmt: skip
    return PublishedPair(above, below, entry["note"], entry.get("comparable", True))


def values(found: Results) -> Shown:
    """Return every printed cell, in each reading of its unit, beside the cells of ours that it can stand for."""
    rows = pd.DataFrame(compare_values(found), columns=list(VALUES))
    return results.kept(found, rows, "beside-values", "Printed values beside ours.")


def compare_values(found: Results) -> list[dict[str, str]]:
    """Return every printed cell beside ours: columns `VALUES` as text, and its ``id``; without ``ours``, a reason."""
    return [row for each in read_cells(found.data["study"])[0] for row in _values(found, each)]


def ratios(found: Results) -> Shown:
    """Return ratios of two printed cells beside the same of ours, with Fieller's interval and a prediction interval.

    Paired by block, or by deployment where there are several, as every ratio of a session.
    """

    def of_ours(text: Callable[[Any], str]) -> Callable[[Any], str]:
        return lambda row: text(row) if row.ours else ""

    rows = columns.write(compare_ratios(found), {
        **columns.words("printed"), "theirs": lambda row: f"{row.published_low:.4f}",
        "metric": lambda row: notation.metric_title(row.metric), **columns.words("ours"),
        "our ratio": of_ours(lambda row: columns.both(row, "ratio", null=1)[0]),
        columns.CI: of_ours(lambda row: columns.both(row, "ratio", null=1)[1]),
        "95 % prediction": of_ours(lambda row: notation.interval(row.predicted_low, row.predicted_high)),
        **columns.words("agreement", "note"),
    })  # fmt: skip
    return results.kept(found, rows, "beside-ratios", "Printed ratios beside ours.")


@lru_cache(maxsize=1)
def compare_ratios(found: Results) -> pd.DataFrame:
    """Return ratios of two printed cells of the session's study beside the same of ours, one row each.

    Columns as of `comparison.against`, without those of a target; ``printed`` and ``ours``: which two cells, in words,
    ``ours`` empty where one of them was not measured. Then ``reason`` says why.
    """
    rows = [row for pair in read_cells(found.data["study"])[1] for row in _ratios(found, pair)]
    return pd.DataFrame(rows, columns=list(COMPARED))


@lru_cache(maxsize=1)
def compare_published(found: Results) -> pd.DataFrame:
    """Return every published ratio of the session's study beside ours, one row each; those without one of ours too.

    Columns as of `comparison.against`, with those of the contrast that a figure needs, and as of `compare_ratios`. What
    was not measured is not comparable, with ``n_pairs`` 0 and its ``reason``.
    """
    measured = results.against_published(found)
    systems = [*found.systems, *found.data["not_run"], derived_metrics.MEAN]
    absent = unmeasured(measured, LETTERS.get(str(found.data["study"]), "none"), dict.fromkeys(systems))
    absent["reason"] = [f"not measured: {_absence(found, row)}" for row in absent.itertuples(index=False)]
    return pd.concat([measured, absent, compare_ratios(found)], ignore_index=True).astype({"n_pairs": "int64"})


def _absence(found: Results, row: Any) -> str:
    """Say why there is no value of ours beside a published ratio."""
    not_run, is_mean, reasons = found.data["not_run"], row.system == derived_metrics.MEAN, list[str]()
    cells = [each for each in found.data.get("not_applicable", []) if begins(each["scenario"], row.scenarios)]
    for name in ENGINES if is_mean else (row.system,):
        why = [each["reason"] for each in cells if (each["system"], each["workload"]) == (name, row.workload)]
        if name in not_run:
            why = [not_run[name]]
        elif is_mean and name not in found.systems:
            why = ["not asked for"]
        reasons += [f"{name}: {each}" if is_mean else each for each in why]
    valid = found.table.loc[found.table["state"] == "ok", "workload"]
    if not reasons and not (valid == row.workload).any():
        reasons = [results.absence(found, row.workload)]
    return "; ".join(dict.fromkeys(reasons)) or results.explain_scope(found.data)


def _values(found: Results, each: Cell) -> Iterator[dict[str, str]]:
    row = each.row
    printed = f"{row.platform}, {row.scenario}: {row.printed} {row.unit}"
    head = {"id": row.id, "printed": printed, "printed in": row.section}
    ours_of = {metric: _cells(found, each, metric) for metric in each.metrics}
    if all(mine.empty for mine in ours_of.values()):
        yield head | {"note": f"{_lacking(found, [each])}; {each.note}"}
        return
    for reading, factor in each.readings.items():
        printed_value = row.value * factor
        for metric, ours in ours_of.items():
            for mine in ours.itertuples(index=False):
                scale = notation.scale([printed_value, mine.mean], mine.unit)
                number, interval = columns.both(mine, "mean", factor=scale.factor)
                yield head | {
                    "read": reading, "theirs": notation.number(printed_value / scale.factor), "unit": scale.unit,
                    "metric": notation.metric_title(metric), "system": mine.system, "scenario": mine.scenario,
                    "ours": number, "95 % CI": interval, "ours / theirs": notation.short(mine.mean / printed_value),
                    "note": each.note,
                }  # fmt: skip


def _cells(found: Results, each: Cell, metric: str) -> pd.DataFrame:
    """Return the estimates of ours that a printed cell stands beside, by number of pods."""
    every = results.derived_estimates(found) if metric in derived_metrics.LIKE else found.estimates
    rows = every[(every["workload"] == each.workload) & (every["metric"] == metric)]
    rows = rows[rows["scenario"].map(each.is_at).astype("bool") & rows["mean"].notna()]
    named = rows["system"].map(plain).isin(each.systems)
    return rows[named].sort_values(["level", "scenario", "system"], kind="stable")


def _lacking(found: Results, printed: Sequence[Cell]) -> str:
    """Say why this session has no value beside printed cells."""
    data, told, of_systems = found.data, list[str](), dict[str, list[str]]()
    for each in printed:
        reasons = {plain(name): f"not run: {why}" for name, why in data["not_run"].items()}
        reasons |= {
            plain(other["system"]): f"not run: {other['reason']}"
            for other in data.get("not_applicable", [])
            if other["workload"] == each.workload and each.is_at(other["scenario"])
        }
        rows = found.table[found.table["workload"] == each.workload]
        there = rows["scenario"].map(each.is_at).astype("bool").any()
        for system in each.systems:
            if system not in reasons and system in map(plain, found.systems) and not there:
                told.append(results.explain_scope(data))
            else:
                other = "no ok trial" if system in map(plain, found.systems) else "not asked for"
                of_systems.setdefault(reasons.get(system, other), []).append(system)
    told += [f"{' and '.join(dict.fromkeys(names))}: {reason}" for reason, names in of_systems.items()]
    return "; ".join(dict.fromkeys(told))


def _ratios(found: Results, pair: PublishedPair) -> Iterator[dict[str, Any]]:
    both = pair.above, pair.below
    rows = [each.row for each in both]
    theirs, value = printed_span(rows[0].printed) / printed_span(rows[1].printed), rows[0].value / rows[1].value
    head = {
        "printed": pair.printed, "ours": "", "system": "",
        "published_low": value, "published_high": value, "workload": both[0].workload,
    }  # fmt: skip
    runs = 1 if pd.isna(rows[0].n) else int(rows[0].n)  # not stated: the widest interval
    cells_of = {metric: [_cells(found, each, metric) for each in both] for metric in both[0].metrics}
    ours_of = {
        metric: [each for each in product(*(cells.itertuples(index=False) for cells in of))
                 if pair.joins(*(one.scenario for one in each))]
        for metric, of in cells_of.items()
    }  # fmt: skip
    if not any(ours_of.values()):
        if any(not (above.empty or below.empty) for above, below in cells_of.values()):
            why = "no two of the measured sizes are those of this pair"
        else:
            lacking = [each for i, each in enumerate(both) if all(of[i].empty for of in cells_of.values())]
            why = _lacking(found, lacking or both)
        reason = f"{why}; {pair.note}"
        yield head | {
            "metric": both[0].metrics[0], "n_pairs": 0, "agreement": NOT_COMPARABLE, "note": reason, "reason": reason,
        }  # fmt: skip
        return
    for metric, every in ours_of.items():
        for ours in every:
            yield head | {"metric": metric} | _compared(found, pair, metric, ours, (theirs.low, theirs.high), runs)


def _compared(
    found: Results, pair: PublishedPair, metric: str, ours: tuple[Any, Any], theirs: tuple[float, float], n: int
) -> dict[str, Any]:
    """The ratio of two cells of ours, of whatever systems and scenarios, beside the printed one of `n` runs."""
    rows = select_metric(found.table, ours[0].workload, metric)
    parts = [  # they stand in for two systems
        rows[(rows["system"] == each.system) & (rows["scenario"] == each.scenario)].assign(
            system=name, scenario=ONE, factor=None, level=float("nan")
        )
        for name, each in zip(("above", "below"), ours, strict=True)
    ]
    both = pd.concat(parts, ignore_index=True).astype(found.table.dtypes)
    every = contrasts(both, "below", found.data["margins"])
    ratio: Any = next(every[every["metric"] == metric].itertuples(index=False))
    ends = (ratio.ratio_low, ratio.ratio_high)
    usable = bool(np.isfinite(ends).all()) and ratio.ratio_low > 0
    n = count_published(ratio.pair_unit, n)
    predicted = prediction(ratio.ratio, *ends, ratio.n_pairs, n) if usable else (np.nan, np.nan)
    more = list(dict.fromkeys(each.system for each in ours if plain(each.system) != each.system))
    word, why = NOT_COMPARABLE, "" if usable else ratio.reason or "no interval of ours"
    if usable and pair.comparable and not more:
        word, why = agreement(ratio, theirs, predicted, "size", n)
    notes = [f"ours is {' and '.join(more)}" if more else "", why]
    note = "; ".join(filter(None, [*notes, pair.note]))
    return {name: getattr(ratio, name) for name in KEPT} | {
        "ours": " / ".join(f"{each.system}, {each.scenario}" for each in ours), "system": ours[0].system,
        "ratio_low": ends[0], "ratio_high": ends[1], "predicted_low": predicted[0], "predicted_high": predicted[1],
        "agreement": word, "note": note, "reason": note if word == NOT_COMPARABLE else "",
    }  # fmt: skip
