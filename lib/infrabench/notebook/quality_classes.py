"""The classes of TIPHON as one paper prints them (its tables 1 and 2), applied to its own values and to a session's.

They were made for telephony over packet networks, in kbit/s and ms. Throughput between two pods of one node is four to
five orders above the top of that scale and a round trip far below its first bound, so every value falls in the same
place: a grade that everything gets says nothing. All bounds come from the published rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from infrabench.analysis.published.printed_numbers import Numbers, numbers
from infrabench.analysis.results import Results, Shown, kept, listed
from infrabench.analysis.tables import notation
from infrabench.core import SchemaError
from infrabench.notebook.published_cells import read_cells

Kind = Literal["throughput", "latency"]
WORDS = {"very-good": "very good", "good": "good", "poor": "poor"}  # ids and words, best first
SI = {"kbps": 1e3, "ms": 1e-3}
THRESHOLD = "D.netperf.threshold.004"
# the threshold's MBps as it stands, and as Mbit/s, which it may mean
READINGS = {"as MB/s": 8e6, "as Mbit/s": 1e6}
KINDS: dict[str, Kind] = {
    "throughput_bit_per_s": "throughput", "pair_throughput_bit_per_s": "throughput", "latency_mean_s": "latency",
}  # fmt: skip
UNITS: dict[Kind, str] = {"throughput": "bit/s", "latency": "s"}


@dataclass(frozen=True, slots=True)
class Class:
    """One class: its bounds in bit/s or s as printed; `low` is None where the table has none."""

    name: str
    low: float | None
    high: float


@dataclass(frozen=True, slots=True)
class Graded:
    """The class of a value, and the value over the named end of the scale; `orders`: the decimal logarithm of that."""

    name: str
    end: str  # "top of the scale", "first bound"
    times: float
    orders: float


def table(found: Results) -> Shown:
    """Return the class of every printed throughput and latency, of the paper's own threshold, and of ours.

    Ours are one row for each system and metric, from the lowest of its means over all scenarios to the highest.
    """
    known = numbers()
    row, measured = known.row(THRESHOLD), found.estimates.dropna(subset="mean")
    rows = [_row(told, [value], kind, known) for told, value, kind in _printed(known)]
    for reading, factor in READINGS.items():
        told = f"the paper: its own threshold of 'very good': {row.printed} {row.unit}, read {reading}"
        rows.append(_row(told, [known(THRESHOLD) * factor], "throughput", known))
    for metric, kind in KINDS.items():
        for system in found.systems:
            mine = measured[(measured["metric"] == metric) & (measured["system"] == system)]["mean"]
            if len(mine):
                told = f"ours: {system}, {notation.metric_title(metric)}, {len(mine)} scenarios"
                rows.append(_row(told, [mine.min(), mine.max()], kind, known))
    return kept(found, pd.DataFrame(rows), "beside-grades", "TIPHON's classes as the paper prints them.")


def worth(found: Results) -> Shown:
    """Return what the grades are worth, in sentences made from them."""
    known = numbers()
    printed = [grade(value, "throughput", known) for _, value, kind in _printed(known) if kind == "throughput"]
    lines = [
        f"The printed throughputs are {_ends([each.orders for each in printed], 1)} orders of magnitude above the top "
        "of the table that grades them, in one reading of their unit or the other."
    ]
    for kind in UNITS:
        rows = found.estimates[found.estimates["metric"].map(KINDS.get) == kind].dropna(subset="mean")
        graded = [grade(value, kind, known) for value in rows["mean"]]
        if graded:
            named = " or ".join(f"'{name}'" for name in dict.fromkeys(each.name for each in graded))
            lines.append(
                f"Ours: {len(graded)} cells of {kind}, {_ends([each.times for each in graded])} times the "
                f"{graded[0].end}; each of them is {named}."
            )
    row = known.row(THRESHOLD)
    times = [grade(known(THRESHOLD) * factor, "throughput", known).times for factor in READINGS.values()]
    lines.append(
        f"The text's own threshold of 'very good', {row.printed} {row.unit}, stands in no table: it is {_ends(times)} "
        "times the top of the paper's own scale."
    )
    return listed(lines)


def classes(kind: Kind, known: Numbers | None = None) -> tuple[Class, ...]:
    """Return the classes of throughput (bit/s) or latency (s), best first; `SchemaError` where the rows lack one."""
    known = known or numbers()
    found = []
    for key, word in WORDS.items():
        bounds: dict[str, float] = {}
        for end in ("low", "high"):
            name = f"D.tiphon.{key}.{kind}-category-{end}.cited.004"
            if name in known.rows:
                bounds[end] = known(name) * SI[known.row(name).unit]
        if "high" not in bounds:
            raise SchemaError(f"a class of {kind} has no upper bound in the published rows")
        found.append(Class(word, bounds.get("low"), bounds["high"]))
    return tuple(found)


def grade(value: float, kind: Kind, known: Numbers | None = None) -> Graded:
    """Return the class of a value (bit/s or s).

    A throughput above the top of the scale has no class of the table: the paper calls it very good. Between two
    classes, which the tables leave open by a unit of the last digit, and beyond the last one there is none either.
    """
    if not np.isfinite(value) or value <= 0:
        raise SchemaError(f"a {kind} of {value} has no class")
    every = classes(kind, known)
    first, last = every[0], every[-1]
    if kind == "throughput":
        end, above, beyond = "top of the scale", value > first.high, value < (last.low or 0.0)
    else:
        end, above, beyond = "first bound", False, value > last.high
    name = "above the scale" if above else "beyond the last class" if beyond else "between two classes"
    name = next((each.name for each in every if (each.low or 0.0) <= value <= each.high), name)
    times = value / first.high
    return Graded(name, end, times, float(np.log10(times)))


def _printed(known: Numbers) -> Iterator[tuple[str, float, Kind]]:
    """Yield what is printed, in each reading: words, value in SI units, kind."""
    for each in read_cells().cells["runtimes"]:
        if kind := KINDS.get(each.metrics[0]):
            row = known.row(each.printed)
            for reading, factor in each.readings.items():
                told = f"the paper: {row.platform}, {row.scenario}: {row.printed} {row.unit}, read {reading}"
                yield told, known(each.printed) * factor, kind


def _row(told: str, values: Sequence[float], kind: Kind, known: Numbers) -> dict[str, Any]:
    graded = [grade(value, kind, known) for value in values]
    scale = notation.scale(values, UNITS[kind])
    return {
        "what": told, "value": _join(notation.number(value / scale.factor) for value in values), "unit": scale.unit,
        "class": _join(each.name for each in graded), "times": _ends([each.times for each in graded]),
        "of the": graded[0].end, "orders of magnitude": _join(f"{each.orders:+.1f}" for each in graded),
    }  # fmt: skip


def _ends(values: Sequence[float], places: int | None = None) -> str:
    """Return ``2`` or ``2 to 7``: the smallest and the largest, rounded for reading."""
    ends = min(values), max(values)
    if places is not None:
        return _join(f"{value:.{places}f}" for value in ends)
    return _join(f"{value:,.0f}" if value >= 10 else notation.short(value) for value in ends)


def _join(ends: Iterable[str]) -> str:
    return " to ".join(dict.fromkeys(ends))
