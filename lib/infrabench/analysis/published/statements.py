"""What the papers say of several engines or loads at once, judged by the intervals of our ratios.

"Below 2 % for all containers", "LXD is the best up to 2000 users", "saturated from 6 threads": each names ratios of two
cells, and two ends between which all of them have to lie (``targets.toml``). No number is compared with a printed one,
so a statement is kept or not kept at this site, whatever the size of an effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from infrabench.analysis.published.comparison import CHANGES
from infrabench.analysis.published.derived_metrics import BROKEN, KEPT, OPEN, add_derived, extend_margins
from infrabench.analysis.published.formulas import filled
from infrabench.analysis.published.printed_numbers import ENGINES, Numbers, join_notes, numbers, read_toml
from infrabench.stats import contrasts
from infrabench.stats.table import select_metric

LOADS = {"web": "users", "sysbench-cpu": "threads"}  # what a paper's loads are levels of
RATIO = ("ratio", "ratio_low", "ratio_high", "n_pairs", "pair_unit", "better", "reason")  # columns of a contrast
JUDGED = ("key", "workload", "metric", "ratio_of", *RATIO, "verdict")


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of a paper that holds where each of several ratios of ours lies between `least` and `most`."""

    key: str
    printed: tuple[str, ...]  # ids of the numbers in it, and in its repetitions
    workload: str
    metric: str
    systems: tuple[str, ...]
    over: tuple[str, ...]  # systems that each of them is divided by; none: each level is by the one before it
    least: float
    most: float
    levels: tuple[float, float]  # the loads that it is said of
    quote: str  # as printed, and where
    note: str


@cache
def statements() -> tuple[Statement, ...]:
    """Return the statements of ``targets.toml``, in its order."""
    data, known = read_toml("targets.toml"), numbers()
    return tuple(_read(each, data["notes"], known) for each in data["statement"])


def _read(entry: Mapping[str, Any], notes: Mapping[str, str], known: Numbers) -> Statement:
    first = known.row(entry["printed"][0])

    def end(name: str, none: float) -> float:
        given = entry.get(name, none)
        return float(CHANGES[given](first.value)) if isinstance(given, str) else float(given)

    return Statement(
        entry["key"], tuple(entry["printed"]), entry["workload"], entry["metric"],
        tuple(entry.get("systems", ENGINES)), tuple(entry.get("over", ())), end("least", 0.0), end("most", np.inf),
        tuple(entry.get("levels", (-np.inf, np.inf))), f"{first.section}: '{first.quote}'",
        filled(join_notes(entry["note"], notes), known),
    )  # fmt: skip


def judge_statements(table: pd.DataFrame, margins: Mapping[str, float]) -> pd.DataFrame:
    """Return one row for each ratio of each statement that a session has: columns `JUDGED`.

    ``ratio_of`` says which two cells in words; ``verdict``: *kept*: the whole 95 % interval lies between the ends of
    the statement; *not kept*: it lies beyond one of them; *cannot be told*: an end lies in it, or there is no interval.
    """
    own = extend_margins(margins)
    every = add_derived(table)
    rows = [
        {"key": each.key, "workload": each.workload, "metric": each.metric, "ratio_of": words}
        | {name: getattr(row, name) for name in RATIO}
        | {"verdict": judge_ratio(row, each)}
        for each in statements()
        for words, row in _ratios(_said_of(every, each), each, own)
    ]
    return pd.DataFrame(rows, columns=list(JUDGED))


def judge_ratio(row: Any, each: Statement) -> str:
    """Return whether a ratio lies between the ends of a statement, as its 95 % interval says."""
    if row.ratio_low >= each.least and row.ratio_high <= each.most:
        return KEPT
    return BROKEN if row.ratio_high < each.least or row.ratio_low > each.most else OPEN


def _said_of(table: pd.DataFrame, each: Statement) -> pd.DataFrame:
    """Return the trials that a statement is about; those that were lost too, as every contrast counts them."""
    rows = select_metric(table, each.workload, each.metric)
    if each.over and not np.isfinite(each.levels).any():
        return rows
    return rows[(rows["factor"] == LOADS[each.workload]) & rows["level"].between(*each.levels)]


def _ratios(rows: pd.DataFrame, each: Statement, margins: Mapping[str, float]) -> Iterator[tuple[str, Any]]:
    """Yield the ratios of a statement, each with the words for its two cells."""
    for other in each.over:
        if other in set(rows["system"]):
            some = rows[rows["system"].isin([*each.systems, other])]
            every = contrasts(some, other, margins)
            for row in every[every["metric"] == each.metric].itertuples(index=False):
                yield f"{row.system} / {other}, {row.scenario}", row
    if not each.over:  # scenarios stand in for systems
        some = rows[rows["system"].isin(each.systems)]
        steps = some[["level", "scenario"]].drop_duplicates().sort_values("level")["scenario"]
        turned = some.assign(system=some["scenario"], scenario=some["system"], factor=None, level=np.nan)
        for before, after in pairwise(steps):
            two = turned[turned["system"].isin([before, after])].astype(rows.dtypes)
            every = contrasts(two, before, margins)
            for row in every[every["metric"] == each.metric].itertuples(index=False):
                yield f"{row.scenario}, {after} / {before}", row
