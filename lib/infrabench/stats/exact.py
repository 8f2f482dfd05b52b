"""Exact tests of two samples: no distribution is assumed, none is approximated where the truth can be counted.

Samples are (..., n): the last axis holds the trials, leading axes are cells. All p-values are two-sided.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from infrabench.stats.arrays import paired
from infrabench.stats.intervals import Array, signed_rank_cdf
from infrabench.stats.pairwise import ROUNDING

SEED = 20200315
EXACT_FLIPS = 40  # pairs up to which all sign patterns are counted
RESAMPLES = 99_999  # sign patterns drawn beyond that
CHUNK = 2_000  # sign patterns at a time


class Exact(NamedTuple):
    """A statistic and its two-sided p."""

    statistic: Any
    p: Any


def signed_rank(x: ArrayLike, y: ArrayLike) -> Exact:
    """Return the smaller signed-rank sum of x - y and its exact p, shape (...); x and y are paired (Wilcoxon 1945).

    `x`, `y`: (..., n), one unit. The p-value counts the sign patterns of the ranks at hand, so it is exact with ties
    too: differences that agree up to the rounding of x and y share a midrank. Differences of zero are ranked with the
    others and then carry no rank (Pratt 1959). NaN below two pairs and when all differences are zero.
    """
    x, y = paired(x, y)
    differences, rounding = _differences(x, y)
    n = differences.shape[-1]
    if n < 2:
        none = np.full(differences.shape[:-1], np.nan)[()]
        return Exact(none, none)
    size = np.abs(differences)
    doubled = np.where(size <= rounding, 0, _doubled_midranks(size, rounding))
    total = doubled.sum(axis=-1)
    plus = np.where(differences > 0, doubled, 0).sum(axis=-1)
    least = np.minimum(plus, total - plus)
    plain = (np.sort(doubled, axis=-1) == 2 * np.arange(1, n + 1)).all(axis=-1)
    p = np.full(total.shape, np.nan)
    p[plain] = np.minimum(2 * signed_rank_cdf(n)[least[plain] // 2], 1.0)
    for cell in map(tuple, np.argwhere(~plain & (total > 0))):
        p[cell] = min(2 * _chance_of_at_most(doubled[cell], int(least[cell])), 1.0)
    return Exact(np.where(total > 0, least / 2, np.nan)[()], p[()])


def sign_flip(
    x: ArrayLike, y: ArrayLike, exact_up_to: int = EXACT_FLIPS, resamples: int = RESAMPLES, seed: int = SEED
) -> Exact:
    """Return the mean of x - y and its p when the labels of each pair are exchanged at random, shape (...).

    `x`, `y`: (..., n), one unit. This is the test that randomised blocks of two justify by themselves (Fisher 1935). Up
    to `exact_up_to` pairs (at most 40) every one of the 2^n patterns counts, by meeting in the middle: the sums of both
    halves, sorted, one searched in the other (Pagano and Tritchler 1983 count them otherwise). Beyond, `resamples`
    patterns are drawn, the same for all cells, and p = (1 + as extreme) / (1 + drawn), which is never 0 (Phipson and
    Smyth 2010). Cost at 40 pairs: 0.3 s a cell. NaN below two pairs and when all differences are zero.
    """
    x, y = paired(x, y)
    differences, rounding = _differences(x, y)
    n = differences.shape[-1]
    mean = differences.mean(axis=-1) if n else np.full(differences.shape[:-1], np.nan)
    if n < 2:
        return Exact(mean[()], np.full_like(mean, np.nan)[()])
    flat, slack = differences.reshape(-1, n), n * np.broadcast_to(rounding, (*mean.shape, 1)).reshape(-1)
    if n <= min(exact_up_to, EXACT_FLIPS):
        p = np.array([_counted_flips(row, each) for row, each in zip(flat, slack, strict=True)])
    else:
        p = _drawn_flips(flat, slack, resamples, seed)
    p[(np.abs(flat) <= slack[:, None] / n).all(axis=-1)] = np.nan
    return Exact(mean[()], p.reshape(mean.shape)[()])


def _differences(x: Array, y: Array) -> tuple[Array, Array]:
    """x - y, and below which size a difference is only rounding; decimal readings are not exact in binary."""
    return x - y, ROUNDING * np.maximum(np.abs(x), np.abs(y)).max(axis=-1, keepdims=True, initial=0.0)


def _doubled_midranks(size: Array, rounding: Array) -> NDArray[np.int64]:
    """Twice the midranks along the last axis, hence whole numbers; neighbours closer than rounding are tied."""
    n = size.shape[-1]
    order = np.argsort(size, axis=-1, kind="stable")
    ordered = np.take_along_axis(size, order, -1)
    apart = np.diff(ordered, axis=-1) > rounding
    edge = np.ones((*size.shape[:-1], 1), dtype=bool)
    place = np.arange(n)
    first = np.maximum.accumulate(np.where(np.concatenate([edge, apart], axis=-1), place, 0), axis=-1)
    last = np.where(np.concatenate([apart, edge], axis=-1), place, n - 1)
    last = np.minimum.accumulate(last[..., ::-1], axis=-1)[..., ::-1]
    doubled = np.empty(size.shape, dtype=np.int64)
    np.put_along_axis(doubled, order, first + last + 2, -1)
    return doubled


def _chance_of_at_most(ranks: NDArray[np.int64], most: int) -> float:
    """P(sum <= most) when each rank is taken with probability 1/2: the chance of each sum, rank by rank.

    Halved at every rank: the ways to make a sum of thousands of ranks are more than a number can be.
    """
    chance = np.zeros(most + 1)
    chance[0] = 1.0
    reach = 0
    for rank in np.sort(ranks):
        reach = min(reach + int(rank), most)
        half = chance[: reach + 1] / 2
        chance[: reach + 1] = half
        chance[rank : reach + 1] += half[: max(reach + 1 - rank, 0)]
    return float(chance.sum())


def _counted_flips(differences: Array, slack: float) -> float:
    target = abs(differences.sum()) - slack
    if target <= 0:
        return 1.0
    half = differences.size // 2
    one, other = _signed_sums(differences[:half]), _signed_sums(differences[half:])
    # Each sum is there with both signs: `target + one` are the values of `target - one`, ascending and so found faster.
    reached = one.size * other.size - np.searchsorted(other, target + one, side="left").sum(dtype=float)
    return float(2 * reached / 2.0**differences.size)


def _signed_sums(differences: Array) -> Array:
    """All 2^n sums of +- the differences, ascending."""
    sums = np.zeros(1)
    for each in np.abs(differences):
        sums = np.concatenate([sums - each, sums + each])
        sums.sort(kind="stable")  # merges the two ascending halves
    return sums


def _drawn_flips(differences: Array, slack: Array, resamples: int, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    target = np.abs(differences.sum(axis=-1)) - slack
    reached = np.zeros(differences.shape[0])
    for start in range(0, resamples, CHUNK):
        size = (min(CHUNK, resamples - start), differences.shape[-1])
        signs = 2.0 * rng.integers(0, 2, size) - 1
        reached += (np.abs(signs @ differences.T) >= target).sum(axis=0)
    return (1 + reached) / (1 + resamples)
