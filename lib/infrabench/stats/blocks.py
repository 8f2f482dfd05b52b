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

from infrabench.core import STATES
from infrabench.stats.intervals import Array
from infrabench.stats.table import check_values

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
    fates: NDArray[np.int8]  # shape of `numbers`: 0 ok or never tried, k lost in state STATES[k], -1 ok as a repeat

    @property
    def by_deployment(self) -> NDArray[np.bool_]:
        """Which cases have deployments as their unit, shape (cases,)."""
        return (self.cases["pair_unit"] == PER_DEPLOYMENT).to_numpy(dtype=bool)


class Stack(NamedTuple):
    """Cells with the same number of complete units: which cells, and their numbers (cells, systems, n)."""

    cells: NDArray[np.intp]
    numbers: Array


def blocked(table: pd.DataFrame, systems: Iterable[str] = ()) -> Blocked:
    """Return the ok values of a tidy table by case, system and block, blocks of a deployment in executed order.

    `systems`: those that were tried elsewhere, where the table is only a part of what was measured.

    The unit of a case is the deployment when its trials, of whatever state, come from more than one (session,
    deployment), else the block. Raises `SchemaError` as `table.check_values`.
    """
    check_values(table)
    tried = table[table["state"] != "discarded"]
    ok = tried[tried["value"].notna()]
    cases = ok.drop_duplicates(CASE)[list(SHARED)].sort_values(CASE, ignore_index=True)
    trials = table.drop_duplicates(["workload", "scenario", "session", "deployment"])
    made = trials.groupby(["workload", "scenario"]).size()
    several = made.reindex(pd.MultiIndex.from_frame(cases[["workload", "scenario"]])).to_numpy() > 1
    cases["pair_unit"] = np.where(several, PER_DEPLOYMENT, PER_BLOCK)
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
