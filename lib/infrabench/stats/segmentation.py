"""Change points in series of sessions: where the level of a series changed, by how much, and how sure that is.

The unit is the session. Its estimate has a standard error, from the blocks or deployments inside it, and sessions
differ by more than that: both variances are in the weight of a session, and the scale of a test comes from what is
seen between sessions. Blocks are never counted as if they were sessions.

The search is seeded binary segmentation (Kovács, Bühlmann, Li and Munk 2023): at every place of a fixed set of nested
intervals the mean before is compared with the mean after, so that a change that was taken back is seen too. The largest
of these comparisons has the p of its distribution in series without a change, simulated with a mild correlation of
consecutive sessions (`CORRELATION`); a table of several series, and the parts into which a series falls, are one
hierarchy of tests that holds the familywise error (Meinshausen 2008). Like E-divisive means (Matteson and James 2014),
which MongoDB and Apache Otava search the history of benchmarks with (Daly and others 2020), it splits a series in two
as long as there is a significant change; a permutation of ten sessions, however, cannot give a p small enough for a
table, and takes correlated sessions for changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from infrabench.stats.dependence import autoregressive
from infrabench.stats.intervals import ALPHA, LEVEL, NAN, ROUNDING, Array
from infrabench.stats.table import sample

FEWEST = 8  # sessions of a series in which a change is looked for
SHORTEST = 3  # sessions of a segment: two that agree beside one that may be an accident
CORRELATION = 0.3  # of consecutive sessions, up to which the error is held
REPLICATES, SEED = 3999, 20200315
LONGEST = 400_000  # simulated sessions at a time: fewer series where they are long
TAIL = 0.05  # share of the simulated maxima of which the shape of the tail is taken
TRIMMED = 0.1  # share of the differences of consecutive sessions that may hold changes or accidents
PLACES = special.chdtri(1, ALPHA)  # how much worse a place may fit, in variances, and still be a candidate
POWER = special.ndtri(0.8)


class ChangePoint(NamedTuple):
    """A change of a series: between sessions `place` - 1 and `place`, or as well at any of `first` .. `last`.

    `size` is the mean after minus the mean before, with the ends of its 95 % interval; `p` is adjusted for the table.
    """

    place: int
    first: int
    last: int
    size: float
    low: float
    high: float
    p: float


class Segmentation(NamedTuple):
    """The changes of a series in order, and the level of each segment with its 95 % interval.

    `segments`: rows of (begin, end, level, low, high), `end` excluded, the interval NaN for one session; `detectable`:
    size of a lasting change in the middle of the series that would be found with a probability of about 80 %, NaN for
    fewer than `FEWEST` sessions; `lag1`: correlation of consecutive sessions within segments, of which more than
    `CORRELATION` makes changes doubtful.
    """

    changes: tuple[ChangePoint, ...]
    segments: tuple[tuple[int, int, float, float, float], ...]
    detectable: float
    lag1: float


def find_changes(series: Sequence[tuple[ArrayLike, ArrayLike]]) -> list[Segmentation]:
    """Return the changes of each series of one table: a segmentation each, in the order given.

    >>> quiet, slower = find_changes([(log_ratios, errors), (other_ratios, other_errors)])

    `series`: estimate and standard error of each session in the order of time, both of the shape (sessions,), in any
    unit; logarithms for ratios. Raises `ValueError` for a value that is NaN or infinite.

    Without any change in the table the chance that it names one is at most 5 %, also where consecutive sessions are
    correlated by up to `CORRELATION`: `infrabench selfcheck statistics --only V30` simulates that. A part of n of the N
    sessions of the table is split where N / n times its p is below 5 %; its adjusted p is no smaller than that of what
    it is part of. A change that goes away when a single session is left out is none. Places are fitted once more
    between their neighbours (Bai 1997). The interval of a size has the variance that was seen between sessions, widened
    for their correlation, of which no less than `CORRELATION` is assumed; it does not know that the place was chosen.
    """
    data = [(y, _weights(y, error)) for y, error in (map(sample, pair) for pair in series)]
    sizes = np.array([y.size for y, _ in data], dtype=int)
    total = int(sizes[sizes >= FEWEST].sum())
    whole: dict[int, tuple[float, int]] = {}
    for n in np.unique(sizes[sizes >= FEWEST]):  # series of one length at once
        rows = np.flatnonzero(sizes == n)
        maxima, places = _scan(*(np.stack([data[row][which] for row in rows]) for which in (0, 1)))
        whole |= {int(row): (float(m), int(k)) for row, m, k in zip(rows, maxima, places, strict=True)}
    return [_segmentation(*data[i], total, whole.get(i)) for i in range(len(data))]


def _segmentation(y: Array, weight: Array, total: int, whole: tuple[float, int] | None) -> Segmentation:
    """Return the segmentation of one series; `whole`: the scan of all of it, none where it is too short."""
    found = {} if whole is None else dict(_splits(y, weight, total, 0, y.size, 0.0, whole))
    places = _fitted(y, weight, sorted(found))
    p = [found[place] for place in sorted(found)]
    bounds = [0, *places, y.size]
    segments = list(pairwise(bounds)) if y.size else []
    means = [np.average(y[a:b], weights=weight[a:b]) for a, b in segments]
    rest = y - np.repeat(means, np.diff(bounds)) if segments else y
    df = y.size - len(segments)
    variance = float((weight * rest**2).sum()) / df if df > 0 else NAN
    lag1 = _lag1(rest * np.sqrt(weight), len(segments))
    # the variance of a mean of correlated sessions; few of them do not show how correlated they are
    correlation = min(max(lag1, CORRELATION), 0.9)
    wider = variance * (1 + correlation) / (1 - correlation)
    t = special.stdtrit(df, (1 + LEVEL) / 2)
    spread = [wider / weight[a:b].sum() for a, b in segments]
    levels = tuple(
        (a, b, float(mean), float(mean - t * np.sqrt(v)), float(mean + t * np.sqrt(v)))
        for (a, b), mean, v in zip(segments, means, spread, strict=True)
    )
    changes = []
    for i, place in enumerate(places):
        size, half = means[i + 1] - means[i], t * np.sqrt(spread[i] + spread[i + 1])
        first, last = _candidates(y, weight, bounds[i], place, bounds[i + 2], PLACES * wider)
        changes.append(ChangePoint(place, first, last, float(size), float(size - half), float(size + half), p[i]))
    return Segmentation(tuple(changes), levels, _detectable(y, weight, total), lag1)


def _splits(
    y: Array, weight: Array, total: int, begin: int, end: int, above: float, scanned: tuple[float, int] | None = None
) -> Iterator[tuple[int, float]]:
    """Yield the places at which the part from `begin` to `end` is split, with their adjusted p."""
    n = end - begin
    if n < 2 * SHORTEST:
        return
    if scanned is None:
        (statistic,), (inside,) = _scan(y[None, begin:end], weight[None, begin:end])
    else:
        statistic, inside = scanned
    p = max(above, min(1.0, _p_value(float(statistic), n) * total / n))
    if p >= ALPHA:
        return
    place = begin + int(inside)
    yield place, p
    yield from _splits(y, weight, total, begin, place, p)
    yield from _splits(y, weight, total, place, end, p)


# ------------------------------------------------------------------------------------------------- the scan, and its p


def _scan(y: Array, weight: Array) -> tuple[Array, Array]:
    """Return the largest comparison of two neighbouring parts and its place, of series and weights (rows, n): (rows,).

    A comparison is the difference of means in standard errors, without the one session that carries most of it.
    """
    scale = _scale(y, weight)
    best, at = np.zeros(len(y)), np.zeros(len(y), dtype=int)
    for begin, end in _intervals(y.shape[-1]):
        part, w = y[:, begin:end], weight[:, begin:end]
        before = _sides(part, w)
        after = [each[:, ::-1] for each in _sides(part[:, ::-1], w[:, ::-1])]
        inner = slice(SHORTEST - 1, end - begin - SHORTEST)
        mean, total, low, low_w, high, high_w = (each[:, inner] for each in before)
        shifted = slice(SHORTEST, end - begin - SHORTEST + 1)
        mean2, total2, low2, low_w2, high2, high_w2 = (each[:, shifted] for each in after)
        # upward: without the largest after it, or the smallest before it; downward the other way round
        up = np.minimum((high2 - mean) / _error(high_w2, total), (mean2 - low) / _error(total2, low_w))
        down = np.minimum((mean - low2) / _error(total, low_w2), (high - mean2) / _error(high_w, total2))
        compared = np.maximum(up, down)
        k = compared.argmax(axis=-1)
        largest = np.take_along_axis(compared, k[:, None], axis=-1)[:, 0]
        better = largest > best
        best, at = np.where(better, largest, best), np.where(better, begin + SHORTEST + k, at)
    some = best > ROUNDING * np.abs(y).max(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(some, best / scale, 0.0), at


def _error(one: Array, two: Array) -> Array:
    return np.sqrt(1 / one + 1 / two)


def _sides(y: Array, w: Array) -> list[Array]:
    """Of the first 1, 2, ... sessions: mean and weight, both without the smallest, both without the largest."""
    total, products = np.cumsum(w, axis=-1), np.cumsum(w * y, axis=-1)
    index = np.arange(y.shape[-1])
    found = [products / total, total]
    for extreme, is_one in ((np.minimum, np.less_equal), (np.maximum, np.greater_equal)):
        at = np.maximum.accumulate(np.where(is_one(y, extreme.accumulate(y, axis=-1)), index, 0), axis=-1)
        out = np.take_along_axis(w, at, axis=-1)
        left = np.maximum(total - out, 1e-12 * total)  # a single session leaves nothing; it is not asked
        found += [(products - out * np.take_along_axis(y, at, axis=-1)) / left, left]
    return found


@lru_cache(maxsize=512)
def _intervals(n: int) -> tuple[tuple[int, int], ...]:
    """Return the seeded intervals of a series of n: lengths shorter by the root of two each, half overlapping."""
    found, length, layer = [(0, n)], n / np.sqrt(2), 1
    while length >= 2 * SHORTEST:
        count = 2 * int(np.ceil(np.sqrt(2) ** layer)) - 1
        starts = np.linspace(0, n - length, count)
        found += [(int(np.floor(s)), min(n, int(np.ceil(s + length)))) for s in starts]
        length, layer = length / np.sqrt(2), layer + 1
    return tuple(dict.fromkeys(found))


def _differences(y: Array) -> int:
    """How many differences of consecutive sessions are kept."""
    return y.shape[-1] - 1 - int(np.ceil(TRIMMED * (y.shape[-1] - 1)))


def _scale(y: Array, weight: Array) -> Array:
    """Standard deviation of a session of weight 1, from differences of consecutive ones (von Neumann 1941): (...).

    The largest are left out: they may hold a change. What that takes from the scale it takes in the simulated series
    too.
    """
    square = np.diff(y, axis=-1) ** 2 / (1 / weight[..., 1:] + 1 / weight[..., :-1])
    return np.sqrt(np.sort(square, axis=-1)[..., : _differences(y)].mean(axis=-1))


def _weights(y: Array, error: Array) -> Array:
    """Return 1 / (variance between sessions + error^2) of each session, in units of their mean.

    The errors of few blocks are uncertain themselves: each counts half, their mean the other half. Unshrunk ones of six
    blocks made 9 % false alarms where 5 % were meant.
    """
    if y.size < SHORTEST:
        return np.ones(y.size)
    kept = np.argsort(np.diff(y) ** 2, kind="stable")[: _differences(y)]
    own = (error**2 + (error**2).mean()) / 2
    between = ((np.diff(y) ** 2 - own[1:] - own[:-1]) / 2)[kept].mean()
    variance = max(float(between), 0.0) + own
    return np.ones(y.size) if not variance.min() > 0 else (1 / variance) / (1 / variance).mean()


class _Tail(NamedTuple):
    """The simulated maxima in order, the one from which the tail begins, and the tail's index."""

    maxima: Array
    begin: float
    index: float


@lru_cache(maxsize=512)
def _tail(n: int) -> _Tail:
    """Return the distribution of `_scan` in series of n sessions without a change, correlated by `CORRELATION`."""
    rng = np.random.default_rng([SEED, n])
    y = autoregressive(rng.normal(size=(min(REPLICATES, LONGEST // n), n)), CORRELATION)
    maxima = np.sort(_scan(y, np.ones(y.shape))[0])
    begin = float(np.quantile(maxima, 1 - TAIL))
    return _Tail(maxima, begin, float(1 / np.log(maxima[maxima > begin] / begin).mean()))


def _p_value(statistic: float, n: int) -> float:
    """Return the chance of a maximum as large: counted, and beyond the tail's begin by a power law (Hill 1975)."""
    tail = _tail(n)
    if statistic > tail.begin:
        return float(TAIL * (tail.begin / statistic) ** tail.index)
    return float((1 + np.sum(tail.maxima >= statistic)) / (1 + tail.maxima.size))


def _detectable(y: Array, weight: Array, total: int) -> float:
    n = y.size
    if n < FEWEST:
        return NAN
    tail = _tail(n)
    critical = tail.begin * (TAIL * total / (n * ALPHA)) ** (1 / tail.index)
    wider = np.sqrt((1 + CORRELATION) / (1 - CORRELATION))
    return float((critical + POWER * wider) * _scale(y, weight) * np.sqrt(1 / (n / 2) + 1 / (n / 2 - 1)))


# --------------------------------------------------------------------------------------------------- places and sizes


def _costs(y: Array, weight: Array, begin: int, end: int) -> tuple[Array, Array]:
    """Return the places between two bounds that leave segments long enough, and the squares left by a split there."""
    places = np.arange(begin + SHORTEST, end - SHORTEST + 1)
    w, s, q = (np.concatenate([[0.0], np.cumsum(weight[begin:end] * y[begin:end] ** power)]) for power in (0, 1, 2))
    k = places - begin
    left = q[k] - s[k] ** 2 / w[k]
    return places, left + (q[-1] - q[k]) - (s[-1] - s[k]) ** 2 / (w[-1] - w[k])


def _fitted(y: Array, weight: Array, places: Sequence[int]) -> list[int]:
    """Return the places, each where it fits best between its neighbours."""
    fitted = list(places)
    for _ in range(2):
        for i in range(len(fitted)):
            bounds = [0, *fitted, y.size]
            at, costs = _costs(y, weight, bounds[i], bounds[i + 2])
            fitted[i] = int(at[costs.argmin()])
    return fitted


def _candidates(y: Array, weight: Array, begin: int, place: int, end: int, room: float) -> tuple[int, int]:
    """Return the first and last place around `place` that fit hardly worse: by less than `room`."""
    at, costs = _costs(y, weight, begin, end)
    fits = at[costs <= costs[at == place] + room]
    return int(fits[0]), int(fits[-1])


def _lag1(rest: Array, segments: int) -> float:
    """Return the correlation of consecutive residuals, without the bias that means leave in it (Kendall 1954)."""
    square = float((rest**2).sum())
    if rest.size < FEWEST or square <= 0:
        return 0.0
    seen = float((rest[1:] * rest[:-1]).sum()) / square
    return seen + segments * (1 + 3 * max(seen, 0.0)) / rest.size
