"""Two systems, or all pairs of several, compared by means or mean ranks.

Samples are (..., n): the last axis holds the trials, leading axes are cells. Blocked data of k systems are
(..., k, blocks). Independent groups are a sequence of arrays (..., n_j). All pairs come in the order of
`itertools.combinations` on a last axis of their own, and a difference is the second minus the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from infrabench.stats import studentized
from infrabench.stats.adjust import holm
from infrabench.stats.intervals import LEVEL, NAN, Array, Interval

ROUNDING = 8 * np.finfo(float).eps  # relative; differences closer than this are one value


class Moments(NamedTuple):
    """A difference of means, its standard error (NaN without spread) and its degrees of freedom."""

    estimate: Any
    error: Any
    df: Any


class Comparison(NamedTuple):
    """A difference of means with its interval, and the t test that goes with it."""

    estimate: Any
    interval: Interval
    statistic: Any
    df: Any
    p: Any


class AllPairs(NamedTuple):
    """All pairs (first, second) of several systems; arrays are (..., pairs), NaN where a method has none."""

    pairs: tuple[tuple[int, int], ...]
    difference: Any  # second minus first: of means, or of mean ranks
    interval: Interval  # simultaneous
    statistic: Any
    df: Any
    p: Any  # adjusted for all pairs
    p_alone: Any = NAN  # of each pair by itself, where the method has one


def paired_t(x: ArrayLike, y: ArrayLike, level: float = LEVEL) -> Comparison:
    """Return the paired t test of x against y: mean of x - y, interval, t, df and two-sided p, shape (...).

    `x`, `y`: (..., n), one unit (Student 1908). On log values it compares geometric means. NaN below two pairs and when
    the differences have no spread.
    """
    return _t_test(paired_moments(x, y), level)


def welch_t(x: ArrayLike, y: ArrayLike, level: float = LEVEL) -> Comparison:
    """Return Welch's t test of independent samples: mean x - mean y, interval, t, df and p (Welch 1947), shape (...).

    `x`: (..., m), `y`: (..., n), one unit. Degrees of freedom after Satterthwaite 1946. NaN below two values and when
    neither sample has any spread.
    """
    return _t_test(welch_moments(x, y), level)


def games_howell(groups: Sequence[ArrayLike], level: float = LEVEL) -> AllPairs:
    """Return all pairs of k independent groups of unequal spread and size (Games and Howell 1976).

    `groups`: arrays (..., n_j). ``statistic`` is |t|, ``df`` Welch's, p and interval from the studentised range of k
    means, hence already adjusted for all pairs. NaN where a group has fewer than two values or a pair has no spread.
    """
    k = len(groups)
    pairs = tuple(combinations(range(k), 2))
    # seen from the second of each pair
    moments = [welch_moments(groups[b], groups[a]) for a, b in pairs]
    estimate, error, df = (np.stack(np.broadcast_arrays(*each), axis=-1) for each in zip(*moments, strict=True))
    t = np.abs(estimate) / error
    p = studentized.sf(t * np.sqrt(2), k, df)
    half = studentized.ppf(level, k, df) / np.sqrt(2) * error
    return AllPairs(pairs, estimate, Interval(estimate - half, estimate + half, level), t, df, p)


def nemenyi(x: ArrayLike, level: float = LEVEL) -> AllPairs:
    """Return all pairs of k systems by mean ranks within blocks; `x` is (..., k, blocks) (Nemenyi 1963, Demsar 2006).

    ``statistic`` is q, the distance of mean ranks in units of sqrt(k (k + 1) / (6 N)); the interval is the difference
    of mean ranks +- `critical_distance`. What it says of two systems depends on the others in the pool (Benavoli and
    others 2016), so a paired test decides. NaN without blocks.
    """
    x = np.asarray(x, dtype=float)
    k, n = x.shape[-2:]
    pairs = tuple(combinations(range(k), 2))
    if not n:
        none = np.full((*x.shape[:-2], len(pairs)), np.nan)
        return AllPairs(pairs, none, Interval(none, none, level), none, np.inf, none)
    ranks = stats.rankdata(x, axis=-2).mean(axis=-1)
    difference = np.stack([ranks[..., b] - ranks[..., a] for a, b in pairs], axis=-1)
    q = np.abs(difference) / np.sqrt(k * (k + 1) / (6 * n))
    reach = critical_distance(k, n, level)
    p = studentized.sf(q * np.sqrt(2), k, np.inf)
    return AllPairs(pairs, difference, Interval(difference - reach, difference + reach, level), q, np.inf, p)


def critical_distance(k: int, n: ArrayLike, level: float = LEVEL) -> Any:
    """Return Nemenyi's critical distance of the mean ranks of `k` systems over `n` blocks, shape of `n` (Demsar 2006).

    Infinite without blocks.
    """
    n = np.asarray(n, dtype=float)
    with np.errstate(divide="ignore"):
        return studentized.ppf(level, k, np.inf) / np.sqrt(2) * np.sqrt(k * (k + 1) / (6 * n))


def dunn(groups: Sequence[ArrayLike]) -> AllPairs:
    """Return all pairs of k independent groups by mean ranks, corrected for ties; p by Holm (Dunn 1964).

    `groups`: arrays (n_j,); all results have the shape (pairs,). The p of each pair is computed by scikit_posthocs.
    ``statistic`` is z, ``difference`` that of mean ranks in the pooled sample. It tests stochastic ordering, not
    medians, once spreads differ. Raises `ValueError` when a group is empty.
    """
    import scikit_posthocs  # costs a second, and only this needs it

    samples = [np.asarray(group, dtype=float) for group in groups]
    if min(sample.size for sample in samples) == 0:
        raise ValueError("a group is empty: leave it out")
    pairs = tuple(combinations(range(len(samples)), 2))
    table = scikit_posthocs.posthoc_dunn(samples, p_adjust=None).to_numpy()
    alone = np.array([table[pair] for pair in pairs])
    ranks = np.split(stats.rankdata(np.concatenate(samples)), np.cumsum([sample.size for sample in samples])[:-1])
    difference = np.array([ranks[b].mean() - ranks[a].mean() for a, b in pairs])
    z = np.sign(difference) * stats.norm.isf(alone / 2)
    return AllPairs(pairs, difference, Interval(NAN, NAN, NAN), z, np.inf, holm(alone), alone)


def paired_moments(x: ArrayLike, y: ArrayLike) -> Moments:
    """Return mean, standard error and df of x - y, shape (...), paired on the last axis (Student 1908).

    `x`, `y`: (..., n), one unit. The error is NaN below two pairs and without spread beyond rounding.
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    size = np.maximum(np.abs(x), np.abs(y)).max(axis=-1, initial=0.0)
    return _one_sample(x - y, ROUNDING * size)


def log_moments(x: ArrayLike, y: ArrayLike) -> Moments:
    """Return mean, standard error and df of log(x / y), shape (...), paired on the last axis (Student 1908).

    `x`, `y`: (..., n), one unit. All NaN where a value is not positive; the error also below two pairs and without
    spread beyond rounding.
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    positive = (x > 0) & (y > 0)
    logs = np.log(np.divide(x, y, out=np.full(positive.shape, np.nan), where=positive))
    return _one_sample(logs, ROUNDING * (1 + np.abs(logs).max(axis=-1, initial=0.0)))


def welch_moments(x: ArrayLike, y: ArrayLike) -> Moments:
    """Return mean x - mean y of independent samples, its standard error and df (Satterthwaite 1946), shape (...).

    `x`: (..., m), `y`: (..., n), one unit. NaN below two values; the error also when neither sample has any spread.
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    m, n = x.shape[-1], y.shape[-1]
    if min(m, n) < 2:
        none = np.full(np.broadcast_shapes(x.shape[:-1], y.shape[:-1]), np.nan)[()]
        return Moments(none, none, none)
    u, v = variance(x) / m, variance(y) / n
    with np.errstate(divide="ignore", invalid="ignore"):
        df = (u + v) ** 2 / (u**2 / (m - 1) + v**2 / (n - 1))
    estimate = x.mean(axis=-1) - y.mean(axis=-1)
    return Moments(estimate[()], np.where(u + v > 0, np.sqrt(u + v), np.nan)[()], df[()])


def t_p(moments: Moments) -> Any:
    """Return the two-sided p of the t test that an estimate is 0 (Student 1908), shape (...); NaN without an error."""
    return 2 * special.stdtr(moments.df, -np.abs(moments.estimate / moments.error))


def variance(values: Array) -> Array:
    """Return the sample variance over the last axis, shape (...); exactly 0 for equal values, NaN below two."""
    n = values.shape[-1]
    if n < 2:
        return np.full(values.shape[:-1], np.nan)
    return np.where((values == values[..., :1]).all(axis=-1), 0.0, values.var(axis=-1, ddof=1))


def _one_sample(differences: Array, rounding: Array) -> Moments:
    n = differences.shape[-1]
    if n < 2:
        none = np.full(differences.shape[:-1], np.nan)[()]
        return Moments(differences[..., 0] if n else none, none, np.nan)
    sd = differences.std(axis=-1, ddof=1)
    return Moments(differences.mean(axis=-1), np.where(sd > rounding, sd, np.nan)[()] / np.sqrt(n), n - 1)


def _t_test(moments: Moments, level: float) -> Comparison:
    estimate, error, df = moments
    t = estimate / error
    half = special.stdtrit(df, (1 + level) / 2) * error
    return Comparison(estimate, Interval(estimate - half, estimate + half, level), t, df, t_p(moments))
