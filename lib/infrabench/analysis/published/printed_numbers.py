"""The papers' own numbers: one row each, with its place in the text; what its digits leave open; sentences of them.

A printed 0.74 stands for anything from 0.735 to 0.745 (`RoundingSpan`). Run-to-run spread, which no paper prints, comes
on top.

In a sentence, ``{A.ram.percent.lxd.000}`` is a printed number and ``{unit.A.ram.percent.lxd.000}`` its printed unit,
``{=lead:.1f}`` a computed number, ``{fact.cpu_threads}`` one that is not the papers'.
"""

from __future__ import annotations

import io
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any, TypeVar

import pandas as pd

from infrabench.core import InfrabenchError, SchemaError

FOLDER = Path(__file__).resolve().parents[4] / "data" / "published"
# source -> study and its letter: 000 and 003 are two papers on one experiment
SOURCES = {
    "000": ("telkom-2018-docker-lxc-lxd", "A"),
    "001": ("ugm-2023-flannel-cilium-multus", "B"),
    "002": ("jtsiskom-2019-ceph-zfs", "C"),
    "003": ("telkom-2020-docker-lxc-lxd", "A"),
    "004": ("ittp-2023-containerd-crio-kata", "D"),
}
RESULTS = (
    *("mean", "mean of scores", "mean over platforms", "table cell", "single", "not stated"),
    *("minimum over levels", "maximum over levels", "minimum over platforms", "maximum over platforms"),
    *("minimum over cells", "maximum over cells", "minimum of runs", "maximum of runs"),
    *("difference", "ratio", "bound", "threshold", "claim"),
)


def published() -> pd.DataFrame:
    """Return the published numbers, one row each.

    ``printed`` is the number as in the paper, with a decimal point; ``value`` (float) is the same, missing for what is
    no number: a version, a hash. ``unit`` is the printed one, ``unit_meant`` another where that is wrong. ``n`` (Int64)
    is the number of runs that the paper states; ``n_text`` what it says instead. ``section`` and ``quote`` say where.
    Raises `InfrabenchError` when the file is absent. (What stands in it is checked by the tests.)
    """
    table = pd.read_csv(io.BytesIO(_read("published.csv")), dtype="str", keep_default_na=False)
    table["value"] = pd.to_numeric(table["value"]).astype("float64")
    table["n"] = pd.to_numeric(table["n"]).astype("Int64")
    return table


def papers() -> pd.DataFrame:
    """Return the five papers, one row each: source, study, letter, year, title, authors, venue, language, experiment.

    A letter is an experiment: the two papers with the letter A report the same one.
    """
    return pd.read_csv(FOLDER / "papers.csv", dtype="str", keep_default_na=False)


@cache
def read_toml(name: str) -> dict[str, Any]:
    """Return what a file beside the numbers holds; `InfrabenchError` when it is absent."""
    return tomllib.loads(_read(name).decode())


def _read(name: str) -> bytes:
    try:
        return (FOLDER / name).read_bytes()
    except FileNotFoundError as error:
        raise InfrabenchError(
            f"{FOLDER / name} is missing: the published numbers are part of the repository"
        ) from error


def join_notes(names: Iterable[str], notes: Mapping[str, str]) -> str:
    """Return notes by their names, as one sentence; `SchemaError` for a name that is none."""
    try:
        return "; ".join(notes[name] for name in names)
    except KeyError as error:
        raise SchemaError(f"there is no note {error}: there are {', '.join(notes)}") from error


@dataclass(frozen=True, slots=True)
class RoundingSpan:
    """All values between `low` and `high`. Sums, differences, products, quotients and powers are outer bounds.

    They are exact where every number enters once; products, quotients and powers are for positive spans.
    """

    low: float
    high: float

    def __add__(self, other: RoundingSpan | float) -> RoundingSpan:
        other = _span(other)
        return RoundingSpan(self.low + other.low, self.high + other.high)

    def __sub__(self, other: RoundingSpan | float) -> RoundingSpan:
        other = _span(other)
        return RoundingSpan(self.low - other.high, self.high - other.low)

    def __mul__(self, other: RoundingSpan | float) -> RoundingSpan:
        other = _span(other)
        return RoundingSpan(self.low * other.low, self.high * other.high)

    def __truediv__(self, other: RoundingSpan | float) -> RoundingSpan:
        other = _span(other)
        return RoundingSpan(self.low / other.high, self.high / other.low)

    def __pow__(self, exponent: float) -> RoundingSpan:
        return RoundingSpan(self.low**exponent, self.high**exponent)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: float) -> RoundingSpan:
        return _span(other) - self

    def __rtruediv__(self, other: float) -> RoundingSpan:
        return _span(other) / self

    @property
    def sign(self) -> int:
        """1 or -1 where every value has that sign, else 0."""
        return int(self.low > 0) - int(self.high < 0)


Value = TypeVar("Value", float, RoundingSpan)


def printed_span(printed: str) -> RoundingSpan:
    """Return the values that round to a printed decimal, half a unit of its last digit to each side.

    Examples
    --------
    >>> printed_span("77")
    RoundingSpan(low=76.5, high=77.5)
    """
    value = float(printed)
    half = 0.5 * 10.0 ** -len(printed.partition(".")[2])
    return RoundingSpan(value - half, value + half)


def _span(value: RoundingSpan | float) -> RoundingSpan:
    return value if isinstance(value, RoundingSpan) else RoundingSpan(value, value)


@dataclass(frozen=True)
class Numbers:
    """The published numbers by id. `used` collects what was asked for, so that a result can name its inputs."""

    rows: Mapping[str, Any]
    facts: Mapping[str, float] = field(default_factory=dict)
    used: dict[str, None] = field(default_factory=dict)  # a dict keeps the order

    def row(self, name: str) -> Any:
        """Return the row of an id; `SchemaError` if there is none."""
        if name not in self.rows:
            raise SchemaError(f"no published number has the id {name!r}")
        self.used[name] = None
        return self.rows[name]

    def __call__(self, name: str) -> float:
        """Return the value; `SchemaError` for what is no number."""
        value = float(self.row(name).value)
        if math.isnan(value):
            raise SchemaError(f"{name} is no number: {self.rows[name].printed!r}")
        return value

    def printed(self, name: str) -> str:
        """Return the number as printed."""
        return str(self.row(name).printed)

    def span(self, name: str) -> RoundingSpan:
        """Return the values that round to the printed number."""
        return printed_span(self.printed(name))

    def fresh(self) -> Numbers:
        """Return the same numbers with nothing asked for yet."""
        return Numbers(self.rows, self.facts)


def numbers(table: pd.DataFrame | None = None, facts: Mapping[str, float] | None = None) -> Numbers:
    """Return the published numbers by id; `facts` are numbers that are not the papers', by name."""
    table = published() if table is None else table
    return Numbers({row.id: row for row in table.itertuples(index=False)}, facts or {})


class _Fields(Formatter):
    def __init__(self, known: Numbers, computed: Mapping[str, Any]) -> None:
        self.known, self.computed = known, computed

    def get_field(self, field_name: str, _args: Any, _kwargs: Any) -> tuple[Any, str]:
        if field_name.startswith("unit."):
            return self.known.row(field_name[5:]).unit, field_name
        if field_name.startswith("="):
            values, name = self.computed, field_name[1:]
        elif field_name.startswith("fact."):
            values, name = self.known.facts, field_name[5:]
        else:
            return self.known.printed(field_name), field_name
        if name not in values:
            raise SchemaError(f"{{{field_name}}}: there is {', '.join(values) or 'nothing'}")
        return values[name], field_name


def filled(template: str, known: Numbers, computed: Mapping[str, Any] | None = None) -> str:
    """Return a template with its numbers filled in; `SchemaError` for a name that nothing has."""
    return _Fields(known, computed or {}).format(template)
