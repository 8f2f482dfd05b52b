"""What an analysis is given: arrays of trials, or the tidy table; and the values of that by case, system and block.

A value that is missing is nobody's number: NaN in one trial would make a mean NaN here and drop a value there, and 12
values against 1 would be 12 pairs with the same partner. Neither is guessed at.

What is compared within a block may be compared: whatever the block did to all its trials cancels. A block counts for
a comparison when every system of it has an ok trial there. Where systems were deployed more than once, a deployment
is one observation, however many trials it holds: its mean over complete blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from infrabench import registry
from infrabench.core import STATES, SchemaError, resolve_kind

Array = NDArray[np.float64]

# what an analysis reads; no other column is asked for
ANALYSED = (
    *("session", "trial", "block", "position", "deployment", "attempt", "system", "workload", "scenario"),
    *("factor", "level", "metric", "value", "unit", "better", "state"),
)
TREATMENT = ["session", "block", "workload", "scenario", "system"]  # once in a block, whatever its trials are called
CASE = ["workload", "scenario", "metric"]
CELL = [*CASE, "system"]
FAMILY = ["workload", "metric"]  # of the tests that are adjusted together
ORDER = ["workload", "metric", "level", "scenario", "system"]  # of the rows of a table for a reader
BLOCK = ["session", "deployment", "block"]
SHARED = (*CASE, "factor", "level", "unit", "better")
PER_BLOCK, PER_DEPLOYMENT = "blocks", "deployments"


def columns(text: str) -> dict[str, str]:
    """Return column -> type of a table, from types with a colon, each before the names that have it.

    >>> columns("str: workload metric; int64: n")
    {'workload': 'str', 'metric': 'str', 'n': 'int64'}
    """
    found, kind = {}, ""
    for word in text.replace(";", " ").split():
        if word.endswith(":"):
            kind = word[:-1]
        else:
            found[word] = kind
    return found


def sample(values: ArrayLike, name: str = "the sample") -> Array:
    """Return `values` as an array of floats, shape (..., n), trials on the last axis; lists will do.

    Raises `ValueError` for a single number and, with its place, for a value that is NaN or infinite.
    """
    x = np.asarray(values, dtype=float)
    if x.ndim == 0:
        raise ValueError(f"{name} is the single number {x}: give its trials as a list, or as the last axis of an array")
    if not np.isfinite(x).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(x))[0])
        where = ", ".join(map(str, place))
        raise ValueError(f"{name} has {x[place]} at [{where}]: leave out what has no value, of pairs both")
    return x


def paired(x: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
    """Return two samples of one shape (..., n), in which element i of both is one block.

    Raises `ValueError` as `sample`, and when the shapes differ: nothing is broadcast.
    """
    first, second = sample(x, "x"), sample(y, "y")
    if first.shape != second.shape:
        raise ValueError(f"x has the shape {first.shape} and y {second.shape}: pairs need one partner for every value")
    return first, second


def check_values(table: pd.DataFrame) -> pd.DataFrame:
    """Return `table` unchanged when it has what an analysis needs: the columns `ANALYSED`, whatever their types.

    Every function that makes a table from this one calls it first, for a table need not come from a session folder.
    Raises `SchemaError` naming the row: a metric without a finite value, unit or direction, a value without a metric or
    of a trial that is not ok, a level without end, two units or directions of one metric, and two ok trials of one
    treatment in a block.
    """
    absent = [name for name in ANALYSED if name not in table.columns]
    if absent:
        raise SchemaError(f"tidy table: it lacks {', '.join(absent)}; its columns are {list(table.columns)}")
    measured = table["metric"].notna()
    refuse(table, measured & ~np.isfinite(table["value"]), "a metric without a finite value")
    refuse(table, measured & (table["unit"].isna() | table["better"].isna()), "a metric without unit or direction")
    refuse(table, table["value"].notna() & (~measured | (table["state"] != "ok")), "a value outside an ok measurement")
    refuse(table, np.isinf(table["level"]), "a level without end")
    of_metric = table.groupby(FAMILY, observed=True)
    kinds = of_metric[["unit", "better"]].nunique()
    for name, word in (("unit", "unit"), ("better", "direction")):
        if (kinds[name] > 1).any():
            other = table[name].astype("str") != of_metric[name].transform("first").astype("str")
            refuse(table, measured & other, f"more than one {word} of its metric: not that of the rows before")
    repeated = measured & table.duplicated([*TREATMENT, "metric"])
    refuse(table, repeated, "a metric that its block has of it already: of two ok trials, and a block holds each once")
    return table


def refuse(table: pd.DataFrame, wrong: pd.Series, what: str) -> None:
    """Return nothing where no row is `wrong`; else raise `SchemaError` with the first row and `what` it has."""
    if wrong.any():
        first: Mapping[Any, Any] = table.loc[wrong].iloc[0].to_dict()
        where = f"trial {first['trial']} ({first['workload']}, {first['scenario']}, {first['system']})"
        shown = {name: first[name] for name in ("metric", "value", "unit", "better", "state")}
        raise SchemaError(f"tidy table: {where} has {what}: {shown}; {int(wrong.sum())} such rows")


def by_size(cell: NDArray[np.intp]) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Yield the cells with equally many rows, and their rows (cells, n) in the order that these have.

    `cell`: shape (rows,), the cell of each row, numbered from 0; one without a row is in none; empty without rows.
    """
    order, sizes = np.argsort(cell, kind="stable"), np.bincount(cell)
    starts = np.cumsum(sizes) - sizes
    for n in np.unique(sizes[sizes > 0]):
        cells = np.flatnonzero(sizes == n)
        yield cells, order[starts[cells, None] + np.arange(n)]


def join_words(*columns: Iterable[Any]) -> list[str]:
    """Return the words of each row of `columns` as one text, joined by "; ", without the empty ones."""
    return ["; ".join(filter(None, row)) for row in zip(*columns, strict=True)]


def kinds(rows: pd.DataFrame, table: pd.DataFrame | None = None) -> NDArray[np.object_]:
    """Return the kind of each row's metric: of a frame with `CASE`.

    `table`: all that was measured, where `rows` lacks metrics of a scenario. ``quantity`` for a metric that its
    workload does not declare, and for a row without one.
    """
    seen = rows[CASE].drop_duplicates()
    measured = seen if table is None else table[CASE].drop_duplicates()
    beside = measured.groupby(["workload", "scenario"])["metric"].agg(frozenset).to_dict()
    declared = {name: registry.metric_kinds(name) for name in seen["workload"].unique()}
    found = {
        (workload, scenario, metric): resolve_kind(
            declared[workload].get(metric, "quantity"), beside[workload, scenario]
        )
        for workload, scenario, metric in seen.itertuples(index=False)
    }
    keys = zip(*(rows[name] for name in CASE), strict=True)
    return np.array([found[key] for key in keys], dtype=object)


def select_metric(table: pd.DataFrame, workload: str, metric: str) -> pd.DataFrame:
    """Return the rows of one metric, with all that contrasts and estimates need to treat it as in the whole table.

    Trials without a value, the metrics that say of what kind this one is, and those of its time and of what failed.
    """
    kind = registry.metric_kinds(workload).get(metric, "quantity")
    wanted = {metric, *(() if isinstance(kind, str) else kind), *registry.less_failed(workload).get(metric, ())}
    rows = table[table["workload"] == workload]
    return rows[rows["metric"].isna() | rows["metric"].isin(wanted)]


class Blocked(NamedTuple):
    """The ok values of a table, every case with every system and block."""

    cases: pd.DataFrame  # columns SHARED and pair_unit ("blocks" or "deployments"), one row per case
    systems: tuple[str, ...]  # all that were tried, in alphabetical order
    numbers: Array  # (cases, systems, blocks), NaN where there is no ok trial
    deployment: NDArray[np.intp]  # (blocks,): which deployment a block belongs to
    fates: NDArray[np.int8]  # shape of `numbers`: 0 ok or never tried, k lost in state STATES[k], -1 ok as a repeat

    @property
    def by_deployment(self) -> NDArray[np.bool_]:
        """Which cases have deployments as their unit, shape (cases,)."""
        return (self.cases["pair_unit"] == PER_DEPLOYMENT).to_numpy(dtype=bool)


class Stack(NamedTuple):
    """Cells with the same number of complete units: which cells, and their numbers (cells, systems, n)."""

    cells: NDArray[np.intp]
    numbers: Array


def span_deployments(table: pd.DataFrame) -> NDArray[np.bool_]:
    """Return for each row of a tidy table whether its case has trials of more than one (session, deployment)."""
    deployment = table.groupby(["session", "deployment"]).ngroup()
    several: pd.Series = deployment.groupby([table["workload"], table["scenario"]]).transform("nunique") > 1
    return several.to_numpy(dtype=bool)


def blocked(table: pd.DataFrame, systems: Iterable[str] = (), several: Iterable[bool] | None = None) -> Blocked:
    """Return the ok values of a tidy table by case, system and block, blocks of a deployment in executed order.

    `systems`: those that were tried elsewhere, where the table is only a part of what was measured; `several`: what
    `span_deployments` says of its rows there.

    The unit of a case is the deployment when its trials, of whatever state, come from more than one (session,
    deployment), else the block. Raises `SchemaError` as `check_values`.
    """
    check_values(table)
    tried = table[table["state"] != "discarded"]
    ok = tried[tried["value"].notna()]
    cases = ok.drop_duplicates(CASE)[list(SHARED)].sort_values(CASE, ignore_index=True)
    spans = table.assign(several=span_deployments(table) if several is None else several)
    spans = spans.groupby(["workload", "scenario"])["several"].any()
    per_deployment = spans.reindex(pd.MultiIndex.from_frame(cases[["workload", "scenario"]])).to_numpy(dtype=bool)
    cases["pair_unit"] = np.where(per_deployment, PER_DEPLOYMENT, PER_BLOCK)
    every = tuple(sorted({*table["system"], *systems}))
    case = ok.groupby(CASE).ngroup().to_numpy()
    blocks = tried.groupby(BLOCK)
    begun = blocks["position"].min().reset_index()
    order = begun.sort_values(["session", "deployment", "position"]).index.to_numpy()
    block, where = np.argsort(order)[blocks.ngroup().to_numpy()], begun.loc[order, BLOCK]
    values = np.full((len(cases), len(every), len(where)), np.nan)
    values[case, np.searchsorted(every, ok["system"]), block[tried["value"].notna()]] = ok["value"]
    deployment = where.groupby(["session", "deployment"]).ngroup().to_numpy()
    return Blocked(cases, every, values, deployment, _fates(tried, block, cases, every, len(where)))


def _fates(
    tried: pd.DataFrame, block: NDArray[np.intp], cases: pd.DataFrame, systems: tuple[str, ...], blocks: int
) -> NDArray[np.int8]:
    """What became of each treatment in each block, the same for all its metrics: `Blocked.fates`."""
    of = pd.MultiIndex.from_frame(cases[CASE[:2]])
    known = of.unique()
    case = known.get_indexer(pd.MultiIndex.from_frame(tried[CASE[:2]]))
    place = np.stack([case, np.searchsorted(systems, tried["system"]), block])
    state = tried["state"].map(STATES.index).to_numpy(dtype=np.int8)
    bad = np.flatnonzero((state > 0) & (case >= 0))
    bad = bad[np.argsort(tried["attempt"].to_numpy()[bad], kind="stable")]  # of several attempts the last one stays
    found = np.zeros((len(known), len(systems), blocks), dtype=np.int8)
    found[tuple(place[:, bad])] = state[bad]
    good = tuple(place[:, (state == 0) & (case >= 0)])
    found[good] = np.where(found[good] != 0, -1, 0)
    return found[known.get_indexer(of)]


def stacks(values: Array, deployment: ArrayLike, by_deployment: NDArray[np.bool_]) -> Iterator[Stack]:
    """Yield the complete units of `values` (cells, systems, blocks), cells of equal number together.

    A block is complete when no system lacks a value in it. `deployment` (blocks,): labels from 0, ascending, as
    `blocked` gives them. `by_deployment` (cells,): for these cells the units are the means of the complete blocks of
    each deployment.
    """
    complete = np.isfinite(values).all(axis=-2)
    # a deployment's blocks lie side by side: sums over them take no table of deployments by blocks
    starts = np.flatnonzero(np.diff(np.asarray(deployment), prepend=-1))
    for wanted, mean in ((~by_deployment, False), (by_deployment, True)):
        cells = np.flatnonzero(wanted)
        data, there = values[cells], complete[cells]
        if mean and data.size:
            counts = np.add.reduceat(there, starts, axis=-1, dtype=np.intp)
            # as distances from the first value, so that the means of equal values are equal to the last digit
            first = np.take_along_axis(data, there.argmax(axis=-1)[:, None, None], axis=-1)
            off = np.add.reduceat(np.where(there[:, None], data - first, 0.0), starts, axis=-1)
            data = first + off / np.maximum(counts, 1)[:, None]
            there = counts > 0
        numbers = there.sum(axis=-1)
        order = np.argsort(~there, axis=-1, kind="stable")
        for n in np.unique(numbers):
            some = np.flatnonzero(numbers == n)
            yield Stack(cells[some], np.take_along_axis(data[some], order[some, None, :n], axis=-1))
