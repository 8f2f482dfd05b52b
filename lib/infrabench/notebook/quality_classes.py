"""The classes of TIPHON as one paper prints them (its tables 1 and 2), applied to its own values and to a session's.

They were made for telephony over packet networks, in kbit/s and ms. Throughput between two pods of one node is four to
five orders above the top of that scale and a round trip far below its first bound, so every value falls in the same
place: a grade that everything gets says nothing. All bounds come from the published rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from infrabench.analysis.published.printed_numbers import numbers, read_toml
from infrabench.analysis.results import Results, Shown, kept, listed
from infrabench.analysis.tables import notation
from infrabench.core import SchemaError
from infrabench.notebook.published_cells import read_cells

Kind = Literal["throughput", "latency"]
SI = {"kbps": 1e3, "ms": 1e-3}
THRESHOLD = "D.netperf.threshold.004"
KINDS: dict[str, Kind] = {
    "throughput_bit_per_s": "throughput", "pair_throughput_bit_per_s": "throughput", "latency_mean_s": "latency",
}  # fmt: skip
UNITS: dict[Kind, str] = {"throughput": "bit/s", "latency": "s"}


class Class(NamedTuple):
    """One class: its bounds in bit/s or s as printed; `low` is 0 where the table has none."""

    name: str
    low: float
    high: float


class Graded(NamedTuple):
    """The class of a value, and the value over the named end of the scale: "top of the scale" or "first bound"."""

    name: str
    end: str
    times: float


def table(found: Results) -> Shown:
    """Return the class of every printed throughput and latency, of the paper's own threshold, and of ours.

    Ours are one row for each system and metric, from the lowest of its means over all scenarios to the highest.
    """
    rows = [_row(label, [value], kind) for label, value, kind in _printed()]
    measured = found.estimates.dropna(subset="mean")
    for metric, kind in KINDS.items():
        for system in found.systems:
            means = measured[(measured["metric"] == metric) & (measured["system"] == system)]["mean"]
            if len(means):
                label = f"ours: {system}, {notation.metric_title(metric)}, {len(means)} scenarios"
                rows.append(_row(label, [means.min(), means.max()], kind))
    return kept(found, pd.DataFrame(rows), "beside-grades", "TIPHON's classes as the paper prints them.")


def worth(found: Results) -> Shown:
    """Return what the grades are worth, in sentences made from them."""
    *printed, low, high = [grade(value, kind) for _, value, kind in _printed() if kind == "throughput"]
    lines = [
        f"The printed throughputs are {_ends([_orders(each) for each in printed], 1)} orders of magnitude above the "
        "top of the table that grades them, in one reading of their unit or the other."
    ]
    for kind in UNITS:
        rows = found.estimates[found.estimates["metric"].map(KINDS.get) == kind].dropna(subset="mean")
        graded = [grade(value, kind) for value in rows["mean"]]
        if graded:
            named = " or ".join(f"'{name}'" for name in dict.fromkeys(each.name for each in graded))
            lines.append(
                f"Ours: {len(graded)} cells of {kind}, {_ends([each.times for each in graded])} times the "
                f"{graded[0].end}; each of them is {named}."
            )
    row = numbers().row(THRESHOLD)
    lines.append(
        f"The text's own threshold of 'very good', {row.printed} {row.unit}, stands in no table: it is "
        f"{_ends([low.times, high.times])} times the top of the paper's own scale."
    )
    return listed(lines)


def classes(kind: Kind) -> tuple[Class, ...]:
    """Return the classes of throughput (bit/s) or latency (s), best first."""
    known, found = numbers(), []
    for word in ("very-good", "good", "poor"):
        ids = (f"D.tiphon.{word}.{kind}-category-{end}.cited.004" for end in ("low", "high"))
        low, high = (known(each) * SI[known.row(each).unit] if each in known.rows else 0.0 for each in ids)
        found.append(Class(word.replace("-", " "), low, high))
    return tuple(found)


def grade(value: float, kind: Kind) -> Graded:
    """Return the class of a value (bit/s or s).

    A throughput above the top of the scale has no class of the table: the paper calls it very good. Between two
    classes, which the tables leave open by a unit of the last digit, and beyond the last one there is none either.
    """
    if not np.isfinite(value) or value <= 0:
        raise SchemaError(f"a {kind} of {value} has no class")
    rate, (first, *_, last) = kind == "throughput", classes(kind)
    name = "above the scale" if rate and value > first.high else "between two classes"
    name = "beyond the last class" if (value < last.low if rate else value > last.high) else name
    name = next((each.name for each in classes(kind) if each.low <= value <= each.high), name)
    return Graded(name, "top of the scale" if rate else "first bound", value / first.high)


def _printed() -> Iterator[tuple[str, float, Kind]]:
    """Yield what is printed, in each reading, the threshold last: words, value in SI units, kind."""
    for each in read_cells("runtimes")[0]:
        if kind := KINDS.get(each.metrics[0]):
            row = each.row
            for reading, factor in each.readings.items():
                label = f"the paper: {row.platform}, {row.scenario}: {row.printed} {row.unit}, read {reading}"
                yield label, row.value * factor, kind
    row = numbers().row(THRESHOLD)
    for reading, factor in read_toml("cells.toml")["readings"]["threshold"].items():
        label = f"the paper: its own threshold of 'very good': {row.printed} {row.unit}, read {reading}"
        yield label, row.value * factor, "throughput"


def _row(told: str, values: Sequence[float], kind: Kind) -> dict[str, Any]:
    graded = [grade(value, kind) for value in values]
    scale = notation.scale(values, UNITS[kind])
    return {
        "what": told, "value": _join(notation.number(value / scale.factor) for value in values), "unit": scale.unit,
        "class": _join(each.name for each in graded), "times": _ends([each.times for each in graded]),
        "of the": graded[0].end, "orders of magnitude": _join(f"{_orders(each):+.1f}" for each in graded),
    }  # fmt: skip


def _orders(graded: Graded) -> float:
    return float(np.log10(graded.times))


def _ends(values: Sequence[float], places: int | None = None) -> str:
    """Return ``2`` or ``2 to 7``: the smallest and the largest, rounded for reading."""
    ends = min(values), max(values)
    if places is not None:
        return _join(f"{value:.{places}f}" for value in ends)
    return _join(f"{value:,.0f}" if value >= 10 else notation.short(value) for value in ends)


def _join(ends: Iterable[str]) -> str:
    return " to ".join(dict.fromkeys(ends))
