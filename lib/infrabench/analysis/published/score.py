"""The overall-performance score of the container papers, computed again in every version that their numbers allow.

The score is the mean of four ratios to native: IOzone read, IOzone write, RAM speed, CPU. Most rows are printed with
two values, so there is more than one corrected score; each comes with what the printed digits leave open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations, pairwise, product
from typing import NamedTuple

import pandas as pd

from infrabench.analysis.published.printed_numbers import Numbers, RoundingSpan, Value, numbers

ENGINES = {"docker": "Docker", "lxc": "LXC", "lxd": "LXD"}
READ, WRITE, RAM, CPU = "iozone-read", "iozone-write", "ram", "cpu"
Get = Callable[[str], Value]
Rows = Mapping[str, Value]


class Version(NamedTuple):
    """One way to compute the score: the four rows of an engine, and how they become one number."""

    name: str
    label: str
    rows: Callable[[Get, str], Rows]
    combine: Callable[[Rows], Value]


def table_rows(get: Get, engine: str) -> Rows:
    """Return the four rows as the composite tables print them."""
    return {row: get(f"A.overall.{row}.score.{engine}.000") for row in (READ, WRITE, RAM, CPU)}


def cpu_corrected(get: Get, engine: str) -> Rows:
    """Return the table's rows with the CPU row from the text: an increase of 0.27 % is a score of 0.9973, not 0.73."""
    return {**table_rows(get, engine), CPU: 1 - get(f"A.cpu.increase.{engine}.000") / 100}


def text_rows(get: Get, engine: str) -> Rows:
    """Return the rows from the percentages of native in the text, CPU corrected."""
    percent = {READ: "iozone.read", WRITE: "iozone.write", RAM: "ram"}
    rows = {row: get(f"A.{name}.percent.{engine}.000") / 100 for row, name in percent.items()}
    return {**rows, CPU: cpu_corrected(get, engine)[CPU]}


def rate_rows(get: Get, engine: str) -> Rows:
    """Return the text's rows with Docker's read from its printed rate, over the native rate that LXD's row implies."""
    rows = text_rows(get, engine)
    if engine != "docker":
        return rows
    return {**rows, READ: get("A.iozone.read.rate.docker.000") / implied_native(get, "iozone.read", "lxd")}


def implied_native(get: Get, name: str, engine: str) -> Value:
    """Return the native rate (MB/s) that an engine's printed rate and percentage of native imply."""
    return get(f"A.{name}.rate.{engine}.000") / (get(f"A.{name}.percent.{engine}.000") / 100)


def mean(rows: Rows) -> Value:
    """Return the arithmetic mean of the rows, in percent."""
    return sum(rows.values()) * 100 / len(rows)


def geometric_mean(rows: Rows) -> Value:
    """Return the geometric mean of the rows, in percent; for ratios the fairer mean."""
    product = rows[READ] * rows[WRITE] * rows[RAM] * rows[CPU]
    return product ** (1 / len(rows)) * 100


def mean_of_three(rows: Rows) -> Value:
    """Return the mean of disk, memory and CPU in percent, so that the disk counts once."""
    return ((rows[READ] + rows[WRITE]) / 2 + rows[RAM] + rows[CPU]) * 100 / 3


VERSIONS = (
    Version("published", "as published (both tables)", table_rows, mean),
    Version("cpu", "CPU row corrected only", cpu_corrected, mean),
    Version("text", "text percentages, CPU corrected", text_rows, mean),
    Version("rates", "printed rates, CPU corrected", rate_rows, mean),
    Version("geometric-cpu", "geometric mean, CPU corrected", cpu_corrected, geometric_mean),
    Version("geometric-text", "geometric mean, text percentages", text_rows, geometric_mean),
    Version("geometric-rates", "geometric mean, printed rates", rate_rows, geometric_mean),
    Version("three", "disk counted once, CPU corrected", cpu_corrected, mean_of_three),
)


def composite(known: Numbers | None = None) -> pd.DataFrame:
    """Return the score of every version and engine, one row each.

    ``score`` is in percent of native; ``low`` and ``high`` are what the rounding of the printed digits allows. Spread
    between runs, which is not printed, comes on top of that.
    """
    known = numbers() if known is None else known
    rows = []
    for version, engine in product(VERSIONS, ENGINES):
        span = score(version, engine, known.span)
        rows.append((version.name, version.label, engine, score(version, engine, known), span.low, span.high))
    return pd.DataFrame(rows, columns=["version", "label", "engine", "score", "low", "high"])


def orders(known: Numbers | None = None) -> pd.DataFrame:
    """Return the lead of one engine over another in every version, one row per version and pair.

    ``points``: difference of the scores in percentage points; ``low``, ``high``: bounds from the printed digits;
    ``robust``: whether the sign is the same everywhere between them. Bounds are outer bounds.
    """
    known = numbers() if known is None else known
    rows = []
    for version, (behind, ahead) in product(VERSIONS, combinations(ENGINES, 2)):
        span = score(version, ahead, known.span) - score(version, behind, known.span)
        points = score(version, ahead, known) - score(version, behind, known)
        rows.append((version.name, version.label, ahead, behind, points, span.low, span.high, span.sign != 0))
    return pd.DataFrame(rows, columns=["version", "label", "ahead", "behind", "points", "low", "high", "robust"])


def score(version: Version, engine: str, get: Get) -> Value:
    """Return one score in percent; with `Numbers.span` in place of `Numbers` its bounds from the printed digits."""
    return version.combine(version.rows(get, engine))


def order(version: str, known: Numbers | None = None) -> str:
    """Return the engines of a version from best to worst; ``?`` stands between two that rounding alone can swap."""
    known = numbers() if known is None else known
    chosen = next(each for each in VERSIONS if each.name == version)
    ranked = sorted(ENGINES, key=lambda engine: -score(chosen, engine, known))
    text = ENGINES[ranked[0]]
    for better, worse in pairwise(ranked):
        span: RoundingSpan = score(chosen, better, known.span) - score(chosen, worse, known.span)
        text += f" {'>' if span.sign else '?'} {ENGINES[worse]}"
    return text
