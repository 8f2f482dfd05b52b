"""The papers' own numbers: one row each, with its place in the text; what its digits leave open; sentences of them.

A printed 0.74 stands for anything from 0.735 to 0.745 (`RoundingSpan`). Run-to-run spread, which no paper prints, comes
on top.
"""

from __future__ import annotations

import io
import math
import operator
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from infrabench.core import InfrabenchError, SchemaError

FOLDER = Path(__file__).resolve().parents[4] / "data" / "published"
ENGINES = {"docker": "Docker", "lxc": "LXC", "lxd": "LXD"}
EXPERIMENTS: Mapping[str, tuple[str, Mapping[str, str]]] = {  # letter -> our study, and the systems by their names
    "A": ("containers", ENGINES),
    "B": ("cnis", {"flannel": "Flannel", "cilium": "Cilium"}),
    "C": ("storage", {"ceph": "Ceph", "zfs": "ZFS"}),
    "D": ("runtimes", {"containerd": "containerd", "cri-o": "CRI-O", "kata": "Kata"}),
}
NO_RESULTS = ("parameter", "cited", "background")  # values of ``statistic``; all others are results


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


def _of_ends(operation: Callable[[float, float], float]) -> Callable[..., RoundingSpan]:
    """Return an operation on spans: between the least and the greatest of what it makes of their ends."""

    def apply(one: RoundingSpan, other: RoundingSpan | float) -> RoundingSpan:
        others = (other.low, other.high) if isinstance(other, RoundingSpan) else (other,)
        found = [operation(a, b) for a in (one.low, one.high) for b in others]
        return RoundingSpan(min(found), max(found))

    return apply


@dataclass(frozen=True, slots=True)
class RoundingSpan:
    """All values between `low` and `high`. Sums, differences, products, quotients and powers are outer bounds.

    They are exact where every number enters once; a span that is divided by, or raised to a power, is positive.
    """

    low: float
    high: float

    __add__ = __radd__ = _of_ends(operator.add)
    __sub__, __rsub__ = _of_ends(operator.sub), _of_ends(lambda one, other: other - one)
    __mul__ = __rmul__ = _of_ends(operator.mul)
    __truediv__, __rtruediv__ = _of_ends(operator.truediv), _of_ends(lambda one, other: other / one)
    __pow__ = _of_ends(operator.pow)

    @property
    def sign(self) -> int:
        """1 or -1 where every value has that sign, else 0."""
        return int(self.low > 0) - int(self.high < 0)


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


@dataclass(frozen=True)
class Numbers:
    """The published numbers by id. `used` collects what was asked for, so that a result can name its inputs."""

    rows: Mapping[str, Any]
    facts: Mapping[str, float]  # numbers that are not the papers', by name; their sources stand in ``audit.toml``
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


def numbers() -> Numbers:
    """Return the published numbers by id, with the facts of the audit."""
    return _read_numbers().fresh()


@cache
def _read_numbers() -> Numbers:
    facts = {name: each["value"] for name, each in read_toml("audit.toml")["facts"].items()}
    return Numbers({row.id: row for row in published().itertuples(index=False)}, facts)
