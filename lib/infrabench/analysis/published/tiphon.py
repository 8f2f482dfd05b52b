"""The classes of TIPHON as one paper prints them (its tables 1 and 2), applied to any value, and how far that carries.

They were made for telephony over packet networks, in kbit/s and ms. Throughput between two pods of one node is four to
five orders above the top of that scale and a round trip far below its first bound, so every value falls in the same
place: a grade that everything gets says nothing. All bounds come from the published rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from infrabench.analysis.published.data import Numbers, numbers
from infrabench.core import SchemaError

Kind = Literal["throughput", "latency"]
WORDS = {"very-good": "very good", "good": "good", "poor": "poor"}  # ids and words, best first
SI: Mapping[str, tuple[float, str]] = {"kbps": (1e3, "bit/s"), "ms": (1e-3, "s")}
THRESHOLD = "D.netperf.threshold.004"
# MBps as it stands, and as Mbit/s, which it may mean
READINGS: Mapping[str, float] = {"as MB/s": 8e6, "as Mbit/s": 1e6}


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
