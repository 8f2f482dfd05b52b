"""The classes of TIPHON as one paper prints them (its tables 1 and 2), applied to its own values and to a session's.

They were made for telephony over packet networks, in kbit/s and ms. Throughput between two pods of one node is four to
five orders above the top of that scale and a round trip far below its first bound, so every value falls in the same
place: a grade that everything gets says nothing. All bounds come from the published rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
SI: Mapping[str, tuple[float, str]] = {"kbps": (1e3, "bit/s"), "ms": (1e-3, "s")}
THRESHOLD = "D.netperf.threshold.004"
# MBps as it stands, and as Mbit/s, which it may mean
READINGS: Mapping[str, float] = {"as MB/s": 8e6, "as Mbit/s": 1e6}
KINDS: dict[str, Kind] = {
    "throughput_bit_per_s": "throughput", "pair_throughput_bit_per_s": "throughput", "latency_mean_s": "latency",
}  # fmt: skip
UNITS: dict[Kind, str] = {"throughput": "bit/s", "latency": "s"}


@dataclass(frozen=True, slots=True)
class Class:
    """One class: its bounds in bit/s or s as printed; None where the table has none."""

    name: str
    low: float | None
    high: float | None


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
    rows = [
        *(_row(told, [value], kind, known) for told, value, kind in _printed(known)),
        *_threshold(known),
        *_rows_of_session(found, known),
    ]
    return kept(found, pd.DataFrame(rows), "beside-grades", "TIPHON's classes as the paper prints them.")


def worth(found: Results) -> Shown:
    """Return what the grades are worth, in sentences made from them."""
    known = numbers()
    lines = []
    printed = [grade(value, "throughput", known) for _, value, kind in _printed(known) if kind == "throughput"]
    lines.append(
        f"The printed throughputs are {_ends([each.orders for each in printed], 1)} orders of magnitude above the top "
        "of the table that grades them, in one reading of their unit or the other."
    )
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
    lines.append(
        f"The text's own threshold of 'very good', {row.printed} {row.unit}, stands in no table: it is "
        f"{_ends(list(threshold(known)['times']))} times the top of the paper's own scale."
    )
    return listed(lines)


def classes(kind: Kind, known: Numbers | None = None) -> tuple[Class, ...]:
    """Return the classes of throughput (bit/s) or latency (s), best first; `SchemaError` where the rows lack one."""
    known = numbers() if known is None else known
    found = tuple(
        Class(word, *(_bound(key, kind, end, known) for end in ("low", "high"))) for key, word in WORDS.items()
    )
    if any(each.high is None for each in found):
        raise SchemaError(f"a class of {kind} has no upper bound in the published rows")
    return found


def grade(value: float, kind: Kind, known: Numbers | None = None) -> Graded:
    """Return the class of a value (bit/s or s).

    A throughput above the top of the scale has no class of the table: the paper calls it very good. Between two
    classes, which the tables leave open by a unit of the last digit, and beyond the last one there is none either.
    """
    known = numbers() if known is None else known
    every = classes(kind, known)
    if not np.isfinite(value) or value <= 0:
        raise SchemaError(f"a {kind} of {value} has no class")
    end = every[0].high
    assert end is not None
    named = "top of the scale" if kind == "throughput" else "first bound"
    times = value / end
    return Graded(_class(value, kind, every), named, times, float(np.log10(times)))


def threshold(known: Numbers | None = None) -> pd.DataFrame:
    """Return the paper's own threshold for *very good* in both readings of its unit: it stands in no table.

    Columns ``reading``, ``value`` (bit/s), ``class``, ``times`` (over the top of the scale).
    """
    known = numbers() if known is None else known
    values = {reading: known(THRESHOLD) * factor for reading, factor in READINGS.items()}
    graded = {reading: grade(value, "throughput", known) for reading, value in values.items()}
    rows = [(reading, values[reading], each.name, each.times) for reading, each in graded.items()]
    return pd.DataFrame(rows, columns=["reading", "value", "class", "times"])


def _printed(known: Numbers) -> Iterator[tuple[str, float, Kind]]:
    """Yield what is printed, in each reading: words, value in SI units, kind."""
    for each in read_cells().cells["runtimes"]:
        if kind := KINDS.get(each.metrics[0]):
            row = known.row(each.printed)
            for reading, factor in each.readings.items():
                told = f"the paper: {row.platform}, {row.scenario}: {row.printed} {row.unit}, read {reading}"
                yield told, known(each.printed) * factor, kind


def _threshold(known: Numbers) -> Iterator[dict[str, str]]:
    row = known.row(THRESHOLD)
    for each in threshold(known).itertuples(index=False):
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


def _row(told: str, values: list[float], kind: Kind, known: Numbers) -> dict[str, Any]:
    graded = [grade(value, kind, known) for value in values]
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


def _class(value: float, kind: Kind, every: tuple[Class, ...]) -> str:
    top, last = every[0], every[-1]
    if kind == "throughput" and value > _number(top.high):
        return "above the scale"
    for each in every:
        if _number(each.low, 0.0) <= value <= _number(each.high):
            return each.name
    inside = (last.low or 0.0) <= value if kind == "throughput" else value <= _number(last.high)
    return "between two classes" if inside else "beyond the last class"


def _bound(key: str, kind: Kind, end: str, known: Numbers) -> float | None:
    name = f"D.tiphon.{key}.{kind}-category-{end}.cited.004"
    if name not in known.rows:
        return None
    factor, _ = SI[known.row(name).unit]
    return known(name) * factor


def _number(value: float | None, otherwise: float = np.inf) -> float:
    return otherwise if value is None else value
