"""Where a simulated proportion has to lie: a function of the number of replicates.

A proportion p over R replicates is expected inside the central 99.9 % of Bin(R, p) / R, ends from the exact
quantiles; a correct procedure leaves that band once in a thousand seeds. Limits that are claims rather than
probabilities (at least 0.94, at most 0.035) are taken as they stand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from scipy import stats

TAIL = 0.0005  # on each side of the 99.9 % band


class Band(NamedTuple):
    """Ends between which an estimate passes, both included."""

    low: float
    high: float


Allowed = Callable[[int], Band]


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
