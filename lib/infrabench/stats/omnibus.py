"""Do k systems differ at all: tests of several samples at once.

Independent groups are a sequence of arrays (..., n_j). Blocked data are (..., k, blocks): the last axis holds the
blocks, the one before it the systems; leading axes are cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from infrabench.stats.intervals import Array
from infrabench.stats.pairwise import variance


class Omnibus(NamedTuple):
    """A statistic, its degrees of freedom (df2 infinite for chi squared) and p; NaN where there is none."""

    statistic: Any
    df1: Any
    df2: Any
    p: Any


class Friedman(NamedTuple):
    """Friedman's chi squared with its p, the F of Iman and Davenport with df and p, and the mean ranks (..., k)."""

    statistic: Any
    p: Any
    iman_davenport_f: Any
    df1: Any
    df2: Any
    iman_davenport_p: Any
    mean_ranks: Any


class Interaction(NamedTuple):
    """F of "the systems differ alike at every level", df already multiplied by `epsilon`, and p."""

    statistic: Any
    df1: Any
    df2: Any
    p: Any
    epsilon: Any


def welch_anova(groups: Sequence[ArrayLike]) -> Omnibus:
    """Return Welch's F for equal means of independent groups with unequal spreads (Welch 1951), shape (...).

    NaN where a group has fewer than two values or no spread.
    """
    samples = [np.asarray(group, dtype=float) for group in groups]
    k, sizes = len(samples), np.array([sample.shape[-1] for sample in samples])
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = np.stack([sample.shape[-1] / variance(sample) for sample in samples], axis=-1)
        means = np.stack([sample.sum(axis=-1) / max(sample.shape[-1], 1) for sample in samples], axis=-1)
        total = weights.sum(axis=-1)
        grand = (weights * means).sum(axis=-1) / total
        between = (weights * (means - grand[..., None]) ** 2).sum(axis=-1) / (k - 1)
        lost = ((1 - weights / total[..., None]) ** 2 / (sizes - 1)).sum(axis=-1)
        f = between / (1 + 2 * (k - 2) / (k**2 - 1) * lost)
        df2 = (k**2 - 1) / (3 * lost)
    return Omnibus(f, k - 1, df2, special.fdtrc(k - 1, df2, f))


def brown_forsythe(groups: Sequence[ArrayLike]) -> Omnibus:
    """Return the F for equal spreads of independent groups, by distances from the medians (Brown, Forsythe 1974).

    NaN where a group has fewer than two values or no group has any spread.
    """
    samples = [np.asarray(group, dtype=float) for group in groups]
    k, total = len(samples), sum(sample.shape[-1] for sample in samples)
    if min(sample.shape[-1] for sample in samples) < 2:
        none = np.full(samples[0].shape[:-1], np.nan)[()]
        return Omnibus(none, k - 1, total - k, none)
    distances = [np.abs(sample - np.median(sample, axis=-1, keepdims=True)) for sample in samples]
    means = np.stack([each.mean(axis=-1) for each in distances], axis=-1)
    sizes = np.array([each.shape[-1] for each in distances])
    grand = (sizes * means).sum(axis=-1, keepdims=True) / total
    between = (sizes * (means - grand) ** 2).sum(axis=-1) / (k - 1)
    within = sum((each.shape[-1] - 1) * variance(each) for each in distances) / (total - k)
    with np.errstate(divide="ignore", invalid="ignore"):
        f = np.where(within > 0, between / within, np.nan)[()]
    return Omnibus(f, k - 1, total - k, special.fdtrc(k - 1, total - k, f))


def kruskal(groups: Sequence[ArrayLike]) -> Omnibus:
    """Return Kruskal and Wallis' H of independent groups, corrected for ties, with its chi squared p (1952).

    NaN where all values are equal. Raises `ValueError` when a group is empty.
    """
    samples = [np.asarray(group, dtype=float) for group in groups]
    if min(sample.shape[-1] for sample in samples) == 0:
        raise ValueError("a group is empty: leave it out")
    with np.errstate(divide="ignore", invalid="ignore"):
        found = stats.kruskal(*samples, axis=-1)
    return Omnibus(found.statistic, len(samples) - 1, np.inf, found.pvalue)


def friedman(x: ArrayLike) -> Friedman:
    """Return Friedman's test of k systems in n blocks, `x` being (..., k, blocks), with ties at midranks.

    The F of Iman and Davenport (1980) has k - 1 and (k - 1)(n - 1) degrees of freedom and is the better of both; chi
    squared is corrected for ties (Conover 1999). When all blocks rank the systems alike F is infinite; no p-value
    is reported below (1 / k!)^(n - 1), the least that n blocks can give. NaN below two systems or two blocks, and
    when every block is tied throughout.
    """
    ranks, k, n = _ranks(x)
    mean_ranks = ranks.mean(axis=-1) if n else np.full(ranks.shape[:-1], np.nan)
    centre = n * k * (k + 1) ** 2 / 4
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = (ranks**2).sum(axis=(-2, -1)) - centre
        chi2 = (k - 1) * (n * (mean_ranks**2).sum(axis=-1) * n - n * centre) / spread
        chi2 = np.where((spread > 1e-9) & (min(k, n) > 1), chi2, np.nan)[()]
        room = n * (k - 1) - chi2
        f = np.where(room > 1e-9 * n * k, (n - 1) * chi2 / room, np.where(np.isnan(chi2), np.nan, np.inf))[()]
    df1, df2 = k - 1, (k - 1) * (n - 1)
    least = np.exp(-special.gammaln(k + 1) * (n - 1))
    p = np.maximum(special.chdtrc(df1, chi2), least) if df1 else chi2
    p_f = np.maximum(special.fdtrc(df1, df2, f), least) if df2 > 0 else chi2
    return Friedman(chi2, p, f, df1, df2, p_f, mean_ranks)


def quade(x: ArrayLike) -> Omnibus:
    """Return Quade's F of k systems in n blocks, `x` being (..., k, blocks): blocks weighed by their range (1979).

    NaN below two systems or two blocks, and when the blocks agree throughout or are all tied.
    """
    ranks, k, n = _ranks(x)
    if min(k, n) < 2:
        none = np.full(ranks.shape[:-2], np.nan)[()]
        return Omnibus(none, k - 1, (k - 1) * (n - 1), none)
    weights = stats.rankdata(np.ptp(np.asarray(x, dtype=float), axis=-2), axis=-1)
    scores = weights[..., None, :] * (ranks - (k + 1) / 2)
    total, between = (scores**2).sum(axis=(-2, -1)), (scores.sum(axis=-1) ** 2).sum(axis=-1) / n
    with np.errstate(divide="ignore", invalid="ignore"):
        f = np.where(total - between > 1e-9 * total, (n - 1) * between / (total - between), np.nan)[()]
    return Omnibus(f, k - 1, (k - 1) * (n - 1), special.fdtrc(k - 1, (k - 1) * (n - 1), f))


def interaction(x: ArrayLike) -> Interaction:
    """Return the test that the differences between k systems are the same at all L levels; `x` is (..., k, L, blocks).

    Repeated measures with the block as the unit: whatever a block did to all its trials cancels in the (k - 1)(L - 1)
    orthonormal interaction contrasts of each block. F = n |mean|^2 / trace(S) with S their covariance, its degrees of
    freedom q and q (n - 1) multiplied by epsilon = trace(S)^2 / (q trace(S^2)), which allows for unequal variances and
    correlations (Box 1954; Greenhouse and Geisser 1959). On log values: are the ratios the same at all levels.
    NaN below two systems, levels or blocks, and without spread.
    """
    x = np.asarray(x, dtype=float)
    k, levels, n = x.shape[-3:]
    q = (k - 1) * (levels - 1)
    if min(k, levels, n) < 2:
        none = np.full(x.shape[:-3], np.nan)[()]
        return Interaction(none, none, none, none, none)
    contrasts = np.kron(_contrasts(k), _contrasts(levels)) @ x.reshape(*x.shape[:-3], k * levels, n)
    mean = contrasts.mean(axis=-1)
    centred = contrasts - mean[..., None]
    covariance = centred @ np.swapaxes(centred, -1, -2) / (n - 1)
    trace = np.trace(covariance, axis1=-2, axis2=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        usable = trace > 1e-26 * (x**2).max(axis=(-3, -2, -1))
        f = np.where(usable, n * (mean**2).sum(axis=-1) / trace, np.nan)[()]
        epsilon = np.where(usable, trace**2 / (q * (covariance**2).sum(axis=(-2, -1))), np.nan)[()]
    df1, df2 = q * epsilon, q * epsilon * (n - 1)
    return Interaction(f, df1, df2, special.fdtrc(df1, df2, f), epsilon)


def _ranks(x: ArrayLike) -> tuple[Array, int, int]:
    """Ranks within each block, number of systems, number of blocks."""
    x = np.asarray(x, dtype=float)
    return stats.rankdata(x, axis=-2) if x.size else x, *x.shape[-2:]


def _contrasts(k: int) -> Array:
    """k - 1 orthonormal rows, each summing to 0 (Helmert)."""
    rows = np.tril(np.ones((k - 1, k)))
    rows[np.arange(k - 1), np.arange(1, k)] = -np.arange(1, k)
    return rows / np.sqrt((rows**2).sum(axis=1, keepdims=True))
