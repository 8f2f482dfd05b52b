"""What a check is, and how one is carried out: data from a seed, a procedure of `infrabench.stats`, a band.

A replicate is one simulated campaign. A procedure sees many at once, on the leading axis, and says of each whether
it covered, rejected, or declared; the share of those that did is the estimate. Replicates come in batches with seeds
of their own, so more replicates extend the same stream and a batch never needs much memory.

A proportion p over R replicates is expected inside the central 99.9 % of Bin(R, p) / R, ends from the exact
quantiles; a correct procedure leaves that band once in a thousand seeds. Limits that are claims rather than
probabilities (at least 0.94, at most 0.035) are taken as they stand.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

SEED = 20200315
TAIL = 0.0005  # on each side of the 99.9 % band
Generate = Callable[[np.random.Generator, int], Any]  # generator, replicates -> data with them on the leading axis
Procedure = Callable[[Any], NDArray[Any]]  # data -> one bool (or share) for each replicate


class Band(NamedTuple):
    """Ends between which an estimate passes, both included."""

    low: float
    high: float


Allowed = Callable[[int], Band]  # replicates -> where the estimate has to lie


def binomial_band(p: float, replicates: int) -> Band:
    """Return the central 99.9 % band of a proportion `p` over so many `replicates`, from exact binomial quantiles.

    `ValueError` when `p` is no probability or there is no replicate.
    """
    if not 0 <= p <= 1 or replicates < 1:
        raise ValueError(f"p = {p}, replicates = {replicates}: p is between 0 and 1, replicates are at least 1")
    low, high = stats.binom.ppf([TAIL, 1 - TAIL], replicates, p) / replicates
    return Band(float(low), float(high))


def near(p: float, rounded: float = 0.0) -> Allowed:
    """Return the band of `p`; a reference value printed with few digits is only known to +- `rounded`."""
    return lambda replicates: Band(
        binomial_band(max(p - rounded, 0.0), replicates).low, binomial_band(min(p + rounded, 1.0), replicates).high
    )


def at_most(p: float) -> Allowed:
    """Return everything up to the upper end of the band of `p`: a size or error rate that may be smaller."""
    return lambda replicates: Band(0.0, binomial_band(p, replicates).high)


def at_least(p: float) -> Allowed:
    """Return everything from `p` up: an interval that may cover more often than it says."""
    return between(p, 1.0)


def between(low: float, high: float) -> Allowed:
    """Return these two limits, whatever the number of replicates."""
    return lambda replicates: Band(low, high)


@dataclass(frozen=True)
class ExpectedShare:
    """What a procedure does to the data of a case, and how often it may."""

    what: str
    procedure: Procedure
    allowed: Allowed


@dataclass(frozen=True)
class SimulatedCase:
    """One kind of data, what is done to it, and how many replicates the fast and the full form have."""

    data: str
    generate: Generate
    expectations: tuple[ExpectedShare, ...]
    fast: int = 2_000
    full: int = 20_000
    batch: int = 1_000


@dataclass(frozen=True)
class Check:
    """A check of the validation: V for what must hold, N for a negative control, which must be seen to go wrong."""

    id: str
    what: str
    cases: tuple[SimulatedCase, ...]


class Outcome(NamedTuple):
    """One row of the report: the estimate lies in `low` .. `high`, or the check has failed."""

    id: str
    what: str
    estimate: float
    low: float
    high: float
    replicates: int
    passed: bool
    seconds: float


def carry_out(check: Check, *, full: bool = False, seed: int = SEED) -> Iterator[Outcome]:
    """Yield one outcome for every expectation of every case; the same seed gives the same outcomes."""
    for case in check.cases:
        yield from _case(check, case, case.full if full else case.fast, seed)


def _case(check: Check, case: SimulatedCase, replicates: int, seed: int) -> Iterator[Outcome]:
    sums, seconds = np.zeros(len(case.expectations)), np.zeros(len(case.expectations))
    for number, size in enumerate(_batches(replicates, case.batch)):
        begin = time.perf_counter()
        key = zlib.crc32(f"{check.id}, {case.data}".encode())
        data = case.generate(np.random.default_rng([seed, key, number]), size)
        made = (time.perf_counter() - begin) / len(case.expectations)
        for index, expectation in enumerate(case.expectations):
            begin = time.perf_counter()
            sums[index] += _sum_answers(expectation, data, size)
            seconds[index] += time.perf_counter() - begin + made
    for index, expectation in enumerate(case.expectations):
        estimate, band = float(sums[index] / replicates), expectation.allowed(replicates)
        passed = band.low <= estimate <= band.high
        what = f"{expectation.what}: {case.data}"
        yield Outcome(check.id, what, estimate, *band, replicates, passed, float(seconds[index]))


def _batches(replicates: int, batch: int) -> list[int]:
    full, rest = divmod(replicates, batch)
    return [batch] * full + ([rest] if rest else [])


def _sum_answers(expectation: ExpectedShare, data: Any, size: int) -> float:
    """Sum of what the procedure said of each replicate; one that says nothing of some of them is broken."""
    said = np.asarray(expectation.procedure(data), dtype=float)
    if said.shape != (size,) or not np.isfinite(said).all():
        raise ValueError(f"{expectation.what}: expected one answer for each of {size} replicates, got {said.shape}")
    return float(said.sum())
