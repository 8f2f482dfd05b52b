"""Metrics as the papers define them, where no workload reports them: from what each trial of ours did report.

The average of the four memory kernels is RAMspeed's: the arithmetic mean of their rates. The time per request is
ApacheBench's mean of that name: users over requests per second. As not all users wait all of the time, it is no smaller
than the mean of the requests' own times. What the papers print as the mean over the engines is a system of its own:
its value in a block is the mean of theirs. Nothing is measured anew, so recorded sessions have all of them; and what a
paper promises of a metric (`Bound`) is judged by its interval.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from infrabench.analysis.published.comparison import targets
from infrabench.analysis.published.formulas import filled
from infrabench.analysis.published.printed_numbers import ENGINES, join_notes, numbers, read_toml
from infrabench.core import LOST_STATES
from infrabench.stats import contrasts, estimates

KERNELS = tuple(f"{kernel}_B_per_s" for kernel in ("copy", "scale", "add", "triad"))
AVERAGE, PER_REQUEST = "average_B_per_s", "request_time_s"
LIKE = {AVERAGE: "triad_B_per_s", PER_REQUEST: "requests_per_s"}  # whose equivalence margin it has
KEPT, BROKEN, OPEN = "kept", "not kept", "cannot be told"
MEAN = "mean of docker, lxc and lxd"  # a system of targets.toml
NO_INTERVAL = "no interval: fewer than two values, or all of them alike"
TRIAL = ["session", "trial"]
CASE_OF_BLOCK = ["session", "block", "workload", "scenario"]


@dataclass(frozen=True, slots=True)
class Bound:
    """What a paper says that a value stays below, on every system."""

    key: str
    printed: str  # id of the number
    workload: str
    metrics: tuple[str, ...]  # ours that may be meant
    value: float  # in the unit of our metrics
    where: str
    note: str


@cache
def bounds() -> tuple[Bound, ...]:
    """Return the bounds of ``targets.toml``."""
    data, known, found = read_toml("targets.toml"), numbers(), []
    for each in data["bound"]:
        row, note = known.row(each["printed"]), filled(join_notes(each["note"], data["notes"]), known)
        value, where = known(each["printed"]) * each["factor"], f"{row.section}: '{row.quote}'"
        found.append(Bound(each["key"], each["printed"], each["workload"], tuple(each["metrics"]), value, where, note))
    return tuple(found)


def derive(table: pd.DataFrame) -> pd.DataFrame:
    """Return a tidy table of the derived metrics alone, from that of a session: a row for each trial that has one.

    Trials of those workloads that have no value stay in it, so that they are counted. A trial without all four kernels,
    or without a number of users, has no derived metric.
    """
    plain = table["workload"].str.partition(" (")[0]
    memory = table[(plain == "stream") & table["metric"].isin(KERNELS)]
    every = memory.groupby(TRIAL)["value"].agg(["mean", "count"])
    every = every[every["count"] == len(KERNELS)]["mean"].rename("average")
    average = memory.drop_duplicates(TRIAL).merge(every, left_on=TRIAL, right_index=True)
    average = average.assign(value=average["average"], metric=AVERAGE)
    web = table[(plain == "web") & (table["metric"] == "requests_per_s") & (table["factor"] == "users")]
    web = web[web["value"] > 0]
    per_request = web.assign(metric=PER_REQUEST, value=web["level"] / web["value"], unit="s", better="lower")
    lost = table[plain.isin(["stream", "web"]) & table["metric"].isna()]
    rows = pd.concat([average[table.columns], per_request, lost]).astype(table.dtypes)
    return rows.sort_index().reset_index(drop=True)


def add_derived(table: pd.DataFrame) -> pd.DataFrame:
    """Return a tidy table with the derived metrics of its trials behind those that it has."""
    return pd.concat([table, derive(table).dropna(subset="metric")], ignore_index=True)


def average_engines(table: pd.DataFrame) -> pd.DataFrame:
    """Return rows of the system `MEAN`, of all metrics of those workloads of which a mean over the engines is printed.

    The others say of what kind the printed ones are. A block in which an engine has no value has none of the mean
    either, and counts as lost. Without all three engines there is no row.
    """
    every = add_derived(table)
    workloads = {workload for workload, _ in _printed_means()}
    every = every[every["system"].isin(list(ENGINES)) & every["workload"].isin(workloads)]
    if set(every["system"]) != set(ENGINES):
        return every.iloc[:0]
    of_metric = [*CASE_OF_BLOCK, "metric"]
    measured = every[every["metric"].notna()]
    means = measured.groupby(of_metric, observed=True)["value"].agg(["mean", "count"])
    means = means.loc[means["count"] == len(ENGINES), "mean"].reset_index()
    rows = measured.drop_duplicates(of_metric).merge(means, on=of_metric)
    rows = rows.assign(value=rows["mean"])[table.columns]
    # an engine's lost trial, and not another one's invalid one, which is the machine's doing
    lost = every[every["metric"].isna()].sort_values("state", key=lambda state: state == "invalid", kind="stable")
    lost = lost.drop_duplicates(CASE_OF_BLOCK)
    lost = lost[~pd.MultiIndex.from_frame(lost[CASE_OF_BLOCK]).isin(pd.MultiIndex.from_frame(rows[CASE_OF_BLOCK]))]
    return pd.concat([rows, lost]).assign(system=MEAN).astype(table.dtypes)


def _printed_means() -> set[tuple[str, str]]:
    """Return workload and metric of the means over the engines that are printed."""
    return {(each.workload, each.metric) for of in targets() for name, each in of.items() if name == MEAN}


def extend_margins(margins: Mapping[str, float]) -> dict[str, float]:
    """Return margins with those of the derived metrics, which are those of the metrics beneath."""
    return {**margins, **{metric: margins[name] for metric, name in LIKE.items() if name in margins}}


def contrasts_of(table: pd.DataFrame, baseline: str, margins: Mapping[str, float]) -> pd.DataFrame:
    """Return the contrasts of the derived metrics (`infrabench.stats.contrasts`), with the margins of those beneath.

    Those of `MEAN` are among them, in every metric whose mean is printed.
    """
    own = extend_margins(margins)
    found, means = contrasts(derive(table), baseline, own), average_engines(table)
    if means.empty:
        return found
    alone = add_derived(table)
    alone = alone[(alone["system"] == baseline) & alone["workload"].isin(means["workload"])]
    of_means = contrasts(pd.concat([alone, means], ignore_index=True), baseline, own)
    pairs = pd.MultiIndex.from_frame(of_means[["workload", "metric"]])
    of_means = of_means[pairs.isin(list(_printed_means()))]
    return pd.concat([found, of_means], ignore_index=True)


def judge_bounds(table: pd.DataFrame) -> pd.DataFrame:
    """Return whether each bound of a paper is kept, one row for each cell of a metric that it may mean.

    Columns of `infrabench.stats.estimates`, and ``key``, ``bound`` (in the metric's unit), ``where``, ``note`` and
    ``verdict``: *kept*: the whole 95 % interval of the mean lies below the bound; *not kept*: none of it does; *cannot
    be told*: the bound lies in it, or there is no interval, or trials were lost, which may have been above it. A
    workload that the session did not run has no row.
    """
    names = [metric for bound in bounds() for metric in bound.metrics]
    every, judged = add_derived(table), []
    cells = estimates(every[every["metric"].isna() | every["metric"].isin(names)].reset_index(drop=True))
    for bound in bounds():
        rows = cells[(cells["workload"] == bound.workload) & cells["metric"].isin(bound.metrics)]
        judged.append(rows.assign(
            key=bound.key, bound=bound.value, where=bound.where,
            verdict=[judge_bound(cell, bound.value) for cell in rows.itertuples(index=False)],
            note=[_note(cell, bound.note) for cell in rows.itertuples(index=False)],
        ))  # fmt: skip
    return pd.concat(judged, ignore_index=True)


def judge_bound(cell: Any, bound: float) -> str:
    """Return whether a cell's mean is below a bound, as its 95 % interval says; none with lost trials is."""
    if cell.mean_high < bound:
        return OPEN if _count_lost(cell) else KEPT
    return BROKEN if cell.mean_low >= bound else OPEN


def _count_lost(cell: Any) -> int:
    return sum(int(getattr(cell, state)) for state in LOST_STATES)


def _note(cell: Any, note: str) -> str:
    lost = f"{count} of {cell.planned} trials were lost" if (count := _count_lost(cell)) else ""
    return "; ".join(filter(None, ("" if np.isfinite(cell.mean_low) else NO_INTERVAL, lost, note)))
