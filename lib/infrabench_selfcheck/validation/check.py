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

from infrabench_selfcheck.validation.generators import Generate

SEED = 20200315
TAIL = 0.0005  # on each side of the 99.9 % band
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


def no_less(p: float) -> Allowed:
    """Return everything from the lower end of the band of `p` up: a coverage that may be larger."""
    return lambda replicates: Band(binomial_band(p, replicates).low, 1.0)


def between(low: float, high: float) -> Allowed:
    """Return these two limits, whatever the number of replicates."""
    return lambda replicates: Band(low, high)


Expected = tuple[str, Procedure, Allowed]  # what is done to the data of a case, and how often it may


@dataclass(frozen=True)
class SimulatedCase:
    """One kind of data, what is done to it, and how many replicates the fast and the full form have."""

    data: str
    generate: Generate[Any]
    expectations: tuple[Expected, ...]
    fast: int = 2_000
    full: int = 20_000
    batch: int = 1_000


def case(data: str, generate: Generate[Any], *expected: Expected, **sizes: int) -> SimulatedCase:
    """Return the case of some data and what is expected of it; `sizes`: replicates and batch."""
    return SimulatedCase(data, generate, expected, **sizes)


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
        replicates = case.full if full else case.fast
        sums, seconds = np.zeros((2, len(case.expectations)))
        key = zlib.crc32(f"{check.id}, {case.data}".encode())
        for number, begun in enumerate(range(0, replicates, case.batch)):
            size = min(case.batch, replicates - begun)
            begin = time.perf_counter()
            data = case.generate(np.random.default_rng([seed, key, number]), size)
            seconds += (time.perf_counter() - begin) / len(case.expectations)
            for index, (what, procedure, _) in enumerate(case.expectations):
                begin = time.perf_counter()
                said = np.asarray(procedure(data), dtype=float)
                if said.shape != (size,) or not np.isfinite(said).all():  # one that says nothing of some is broken
                    raise ValueError(f"{what}: expected one answer for each of {size} replicates, got {said.shape}")
                sums[index] += said.sum()
                seconds[index] += time.perf_counter() - begin
        for (what, _, allowed), total, took in zip(case.expectations, sums, seconds, strict=True):
            estimate, band = float(total / replicates), allowed(replicates)
            passed = band.low <= estimate <= band.high
            yield Outcome(check.id, f"{what}: {case.data}", estimate, *band, replicates, passed, float(took))
