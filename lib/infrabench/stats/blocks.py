"""Tidy table -> values by case, system and block, and from them stacks of complete blocks.

What is compared within a block may be compared: whatever the block did to all its trials cancels. A block counts for
a comparison when every system of it has an ok trial there. Where systems were deployed more than once, a deployment
is one observation, however many trials it holds: its mean over complete blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from infrabench.core import SchemaError
from infrabench.stats.intervals import Array

CASE = ["workload", "scenario", "metric"]
BLOCK = ["session", "deployment", "block"]
SHARED = (*CASE, "factor", "level", "unit", "better")
PER_BLOCK, PER_DEPLOYMENT = "blocks", "deployments"


class Blocked(NamedTuple):
    """The ok values of a table, every case with every system and block."""

    cases: pd.DataFrame  # columns SHARED and pair_unit ("blocks" or "deployments"), one row per case
    systems: tuple[str, ...]  # all that were tried, in alphabetical order
    numbers: Array  # (cases, systems, blocks), NaN where there is no ok trial
    deployment: NDArray[np.intp]  # (blocks,): which deployment a block belongs to

    @property
    def by_deployment(self) -> NDArray[np.bool_]:
        """Which cases have deployments as their unit, shape (cases,)."""
        return (self.cases["pair_unit"] == PER_DEPLOYMENT).to_numpy(dtype=bool)


class Stack(NamedTuple):
    """Cells with the same number of complete units: which cells, and their numbers (cells, systems, n)."""

    cells: NDArray[np.intp]
    numbers: Array


def blocked(table: pd.DataFrame, systems: Iterable[str] = ()) -> Blocked:
    """Return the ok values of a tidy table by case, system and block.

    `systems`: those that were tried elsewhere, where the table is only a part of what was measured.

    The unit of a case is the deployment when its trials, of whatever state, come from more than one (session,
    deployment), else the block. Raises `SchemaError` when a block holds two ok trials of the same cell.
    """
    ok = table[table["value"].notna()]
    twice = ok.duplicated([*CASE, "session", "block", "system"])
    if twice.any():
        where = ", ".join(ok.loc[twice, CASE].iloc[0])
        raise SchemaError(f"{where}: two ok trials of one system in one block; a block holds each treatment once")
    cases = ok.drop_duplicates(CASE)[list(SHARED)].sort_values(CASE, ignore_index=True)
    trials = table.drop_duplicates(["workload", "scenario", "session", "deployment"])
    made = trials.groupby(["workload", "scenario"]).size()
    several = made.reindex(pd.MultiIndex.from_frame(cases[["workload", "scenario"]])).to_numpy() > 1
    cases["pair_unit"] = np.where(several, PER_DEPLOYMENT, PER_BLOCK)
    every = tuple(sorted({*table["system"], *systems}))
    case = ok.groupby(CASE).ngroup().to_numpy()
    block = ok.groupby(BLOCK).ngroup().to_numpy()
    where = ok[BLOCK].drop_duplicates().sort_values(BLOCK)
    values = np.full((len(cases), len(every), len(where)), np.nan)
    values[case, np.searchsorted(every, ok["system"]), block] = ok["value"]
    return Blocked(cases, every, values, where.groupby(["session", "deployment"]).ngroup().to_numpy())


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
