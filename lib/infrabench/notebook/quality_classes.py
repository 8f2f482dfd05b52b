"""The classes by which a paper grades its values, applied to its own values and to those of a session.

They show what such a grade is worth: see `infrabench.analysis.published.tiphon`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from infrabench.analysis.published import numbers, tiphon
from infrabench.analysis.published.cells import CELLS
from infrabench.analysis.published.data import Numbers
from infrabench.analysis.results import Results, Shown, kept, listed
from infrabench.analysis.tables import notation

KINDS: dict[str, tiphon.Kind] = {
    "throughput_bit_per_s": "throughput", "pair_throughput_bit_per_s": "throughput", "latency_mean_s": "latency",
}  # fmt: skip
UNITS: dict[tiphon.Kind, str] = {"throughput": "bit/s", "latency": "s"}


def table(found: Results) -> Shown:
    """Return the class of every printed throughput and latency, of the paper's own threshold, and of ours.

    Ours are one row for each system and metric, from the lowest of its means over all scenarios to the highest.
    """
    known = numbers()
    rows = [*_rows_of_paper(known), *_threshold(known), *_rows_of_session(found, known)]
    return kept(found, pd.DataFrame(rows), "beside-grades", "TIPHON's classes as the paper prints them.")


def worth(found: Results) -> Shown:
    """Return what the grades are worth, in sentences made from them."""
    known = numbers()
    lines = []
    printed = [tiphon.grade(value, "throughput", known) for _, value, kind in _printed(known) if kind == "throughput"]
    lines.append(
        f"The printed throughputs are {_ends([each.orders for each in printed], 1)} orders of magnitude above the top "
        "of the table that grades them, in one reading of their unit or the other."
    )
    for kind in UNITS:
        rows = found.estimates[found.estimates["metric"].map(KINDS.get) == kind].dropna(subset="mean")
        graded = [tiphon.grade(value, kind, known) for value in rows["mean"]]
        if graded:
            named = " or ".join(f"'{name}'" for name in dict.fromkeys(each.name for each in graded))
            lines.append(
                f"Ours: {len(graded)} cells of {kind}, {_ends([each.times for each in graded])} times the "
                f"{graded[0].end}; each of them is {named}."
            )
    row = known.row(tiphon.THRESHOLD)
    lines.append(
        f"The text's own threshold of 'very good', {row.printed} {row.unit}, stands in no table: it is "
        f"{_ends(list(tiphon.threshold(known)['times']))} times the top of the paper's own scale."
    )
    return listed(lines)


def _printed(known: Numbers) -> Iterator[tuple[str, float, tiphon.Kind]]:
    """Yield what is printed, in each reading: words, value in SI units, kind."""
    for each in CELLS:
        if kind := KINDS.get(each.metrics[0]):
            row = known.row(each.printed)
            for reading, factor in each.readings.items():
                told = f"the paper: {row.platform}, {row.scenario}: {row.printed} {row.unit}, read {reading}"
                yield told, known(each.printed) * factor, kind


def _rows_of_paper(known: Numbers) -> Iterator[dict[str, str]]:
    for told, value, kind in _printed(known):
        yield _row(told, [value], kind, known)


def _threshold(known: Numbers) -> Iterator[dict[str, str]]:
    row = known.row(tiphon.THRESHOLD)
    for each in tiphon.threshold(known).itertuples(index=False):
        told = f"the paper: its own threshold of 'very good': {row.printed} {row.unit}, read {each.reading}"
        yield _row(told, [each.value], "throughput", known)


def _rows_of_session(found: Results, known: Numbers) -> Iterator[dict[str, str]]:
    rows = found.estimates.dropna(subset="mean")
    for metric, kind in KINDS.items():
        for system in found.systems:
            mine = rows[(rows["metric"] == metric) & (rows["system"] == system)]["mean"]
            if len(mine):
                told = f"ours: {system}, {notation.metric_title(metric)}, {len(mine)} scenarios"
                yield _row(told, [mine.min(), mine.max()], kind, known)


def _row(told: str, values: list[float], kind: tiphon.Kind, known: Numbers) -> dict[str, Any]:
    graded = [tiphon.grade(value, kind, known) for value in values]
    scale = notation.scale(values, UNITS[kind])
    return {
        "what": told, "value": " to ".join(dict.fromkeys(notation.number(value / scale.factor) for value in values)),
        "unit": scale.unit, "class": " to ".join(dict.fromkeys(each.name for each in graded)),
        "times": _ends([each.times for each in graded]), "of the": graded[0].end,
        "orders of magnitude": " to ".join(dict.fromkeys(f"{each.orders:+.1f}" for each in graded)),
    }  # fmt: skip


def _ends(values: list[float], places: int | None = None) -> str:
    """Return ``2`` or ``2 to 7``: the smallest and the largest, rounded for reading."""
    return " to ".join(dict.fromkeys(_short(each, places) for each in (min(values), max(values))))


def _short(value: float, places: int | None) -> str:
    if places is not None:
        return f"{value:.{places}f}"
    return f"{value:,.0f}" if value >= 10 else notation.short(value)
