"""Resamples shared by all cells: which trials they hold, their means and quantiles, and the ends of an interval."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infrabench.stats.intervals import NAN, Array, Interval, constant, interval, no_interval

RESAMPLES = 9999
SEED = 20200315
CHUNK = 2**18  # resampled statistics held at a time: about what a processor keeps near
ONE_THREAD = 2**18  # multiplications of a matrix product that BLAS does not spread over threads
ROUNDING = 1e-12  # relative difference below which two statistics are tied

Counts = NDArray[np.signedinteger[Any]]
Ends = tuple[Array, Array]


@lru_cache(maxsize=16)
def resample_counts(n: int, resamples: int = RESAMPLES, seed: int = SEED) -> Counts:
    """Return how often each of `n` trials is in each resample, shape (n, resamples), read-only.

    The draws are those of ``default_rng(seed).integers(0, n, (resamples, n))``, as `scipy.stats.bootstrap` makes them.
    """
    drawn = np.random.default_rng(seed).integers(0, n, (resamples, n))
    drawn += n * np.arange(resamples)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=n * resamples).reshape(resamples, n)
    small = np.ascontiguousarray(counts.T, dtype=np.min_scalar_type(-n - 1))
    small.flags.writeable = False
    return small


def resample_shares(n: int, resamples: int = RESAMPLES, seed: int = SEED) -> Array:
    """Return the weight of each of `n` trials in each resample, shape (n, resamples); the weights add up to 1."""
    return resample_counts(n, resamples, seed) / n


def over_cells(
    ends: Callable[..., Ends],
    samples: tuple[Array, ...],
    draws: Callable[[int, int, int], NDArray[Any]],
    level: float,
    resamples: int,
    seed: int,
) -> Interval:
    """Return the `Interval` that `ends` finds for each cell, NaN below two values and for a cell without spread.

    `samples`: arrays of one shape (..., n). `ends` gets what `draws` returns and some cells (cells, n) of each sample
    at a time, so that memory does not grow with their number.
    """
    *shape, n = samples[0].shape
    if n < 2:
        return no_interval(tuple(shape))
    spread = ~np.all([constant(sample) for sample in samples], axis=0)
    cells = [sample.reshape(-1, n)[np.ravel(spread)] for sample in samples]
    drawn = draws(n, resamples, seed)
    found = np.full((2, len(cells[0])), NAN)
    step = max(1, CHUNK // resamples)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for start in range(0, len(cells[0]), step):
            piece = slice(start, start + step)
            found[:, piece] = ends(drawn, *(cell[piece] for cell in cells))
    whole = np.full((2, *shape), NAN)
    whole[:, spread] = found
    return interval(whole[0], whole[1], level, spread)


def means(x: Array, shares: Array) -> Array:
    """Return the mean of every resample, (cells, resamples), of the cells `x` (cells, n).

    `shares`: (n, resamples). The product is made in pieces that stay on one thread: threads bring little at this size,
    and on a machine with other work, where they wait for each other, they make it several times slower.
    """
    made = np.empty((len(x), shares.shape[1]))
    width = max(16, ONE_THREAD // max(x.size, 1))
    for start in range(0, shares.shape[1], width):
        piece = slice(start, start + width)
        np.matmul(x, shares[:, piece], out=made[:, piece])
    return made


def quantiles(x: Array, counts: Counts, share: float) -> Array:
    """Return a quantile (`share` in 0 .. 1, interpolated linearly) of every resample, (cells, resamples).

    `x`: (cells, n), `counts`: (n, resamples). The k-th smallest draw is the first value at which the counts, added up
    in the order of the values, reach k: no resample is made or sorted.
    """
    n = x.shape[-1]
    place = share * (n - 1)
    rank = min(int(place), n - 1)
    ranks = [rank] if place == rank else [rank, rank + 1]
    made = np.empty((len(x), counts.shape[1]))
    for cell, row in zip(x, made, strict=True):
        order = np.argsort(cell, kind="stable")
        so_far = np.zeros(counts.shape[1], dtype=counts.dtype)
        at = [np.zeros_like(so_far) for _ in ranks]
        for trial in order[:-1]:
            so_far += counts[trial]
            for index, k in zip(at, ranks, strict=True):
                index += so_far <= k
        drawn = [cell[order][index] for index in at]
        row[:] = drawn[0] if len(drawn) == 1 else drawn[0] + (place - rank) * (drawn[1] - drawn[0])
    return made


def percentile_ends(made: Array, level: float) -> Ends:
    """Return the central `level` of each row of `made` (cells, resamples), which is sorted in place."""
    found = _interpolated(made, np.broadcast_to([(1 - level) / 2, (1 + level) / 2], (len(made), 2)))
    return found[:, 0], found[:, 1]


def pivot_ends(shift: Array, errors: Array, level: float) -> Ends:
    """Return the central `level` of shift / error over resamples; both (cells, resamples), `shift` is overwritten.

    An error of 0 puts its resample at infinity on the side of its shift, or at 0 when there is no shift.
    """
    shift /= errors
    shift[np.isnan(shift)] = 0.0
    return percentile_ends(shift, level)


def one_sign(resampled: Array, observed: Array) -> NDArray[np.bool_]:
    """Return the cells of which every resampled statistic has the sign of the observed one, and that is not 0.

    `resampled`: (cells, resamples), `observed`: (cells,), as the answer.
    """
    return (observed != 0) & (np.sign(resampled) == np.sign(observed)[:, None]).all(axis=-1)


def _interpolated(made: Array, shares: Array) -> Array:
    """Linearly interpolated quantiles (cells, shares) of each row of `made`, sorted in place; NaN for a NaN share."""
    made.sort(axis=-1)
    place = shares * (made.shape[-1] - 1)
    lower = np.clip(np.nan_to_num(place).astype(int), 0, made.shape[-1] - 2)
    a, b = np.take_along_axis(made, lower, axis=-1), np.take_along_axis(made, lower + 1, axis=-1)
    return np.where(a == b, a, a + (b - a) * (place - lower)) + 0 * shares
