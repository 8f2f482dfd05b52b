"""Negative controls: habits that are known to be wrong, and must be seen to be wrong by as much as is known.

They exist here alone and are offered to nobody. A control that looks nominal means that the simulation is broken.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from infrabench.selfcheck.validation.check import SEED, Allowed, Check, ExpectedShare, SimulatedCase, between
from infrabench.selfcheck.validation.comparisons import any_rejected, rejects
from infrabench.selfcheck.validation.estimation import RATIO, RESAMPLES, covers
from infrabench.selfcheck.validation.generators import (
    Array,
    Campaigns,
    PairedSamples,
    ar1,
    blocked,
    campaigns,
    deployed,
    normal,
    pair,
    pooled,
    sample,
)
from infrabench.stats import intervals

REPLICATES = 10_000
Answers = NDArray[np.bool_]


def percentile_interval(x: Array, resamples: int = RESAMPLES) -> intervals.Interval:
    """Return the percentile bootstrap interval of the mean of each cell of `x` (cells, n)."""

    def ends(shares: Array, x: Array) -> intervals.Ends:
        mean = x.mean(axis=-1, keepdims=True)
        low, high = intervals.percentile_ends(intervals.means(x - mean, shares), intervals.LEVEL)
        return low + mean[:, 0], high + mean[:, 0]

    return intervals.over_cells(ends, (x,), intervals.resample_shares, intervals.LEVEL, resamples, SEED)


def _percentile(x: Array) -> Answers:
    """The percentile bootstrap of a mean, however few values there are."""
    return covers(percentile_interval(x), 0.0)


def _welch_p(x: Array, a: int, b: int) -> Array:
    """p of Welch's t test (1947) of two systems, as if their trials shared no block."""
    return np.asarray(stats.ttest_ind(x[:, a], x[:, b], axis=-1, equal_var=False).pvalue)


def _as_if_independent(x: Array) -> Answers:
    """Student's t on whatever numbers there are, as if each were a trial of its own."""
    return covers(intervals.t_interval(x), 0.0)


def _one_then_the_other(data: Campaigns) -> Answers:
    """All trials of one system, then all of the other, and Welch's t."""
    return rejects(_welch_p(data.values, 0, 1))


def _run_level(x: Array) -> Answers:
    """One deployment of each system, its runs taken as the trials."""
    return rejects(_welch_p(x, 0, 1))


def _uncorrected(x: Array) -> Answers:
    """Six comparisons of four systems, each at 5 %."""
    return any_rejected(np.stack([_welch_p(x, a, b) for a, b in combinations(range(4), 2)], axis=-1))


def _exact_baseline(data: PairedSamples) -> Answers:
    """The interval of the system's mean divided by the baseline's mean, as if that were a known constant."""
    return covers(intervals.t_interval(data.x / data.y.mean(axis=-1, keepdims=True)), RATIO)


def _control(
    id_: str, what: str, data: str, generate: Callable[..., Any], procedure: Callable[[Any], Answers], allowed: Allowed
) -> Check:
    return Check(id_, f"control: {what}", (
        SimulatedCase(data, generate, (ExpectedShare(what, procedure, allowed),), fast=REPLICATES, full=REPLICATES),
    ))  # fmt: skip


CHECKS = (
    _control("N1", "percentile bootstrap of 5 values", "normal", sample(normal(), 5), _percentile, between(0.82, 0.86)),
    _control("N2", "t interval of a dependent series", "AR(1), phi 0.6, n = 30", ar1(0.6, 30), _as_if_independent,
             between(0.66, 0.69)),
    _control("N3", "one system after the other", "linear drift of 3 %, n = 30",
             campaigns("linear drift of 3 %", 30, sequential=True), _one_then_the_other, between(0.99, 1.0)),
    _control("N4", "six t tests without correction", "four identical systems, n = 30", blocked(4, 30, 0.0),
             _uncorrected, between(0.18, 0.22)),
    _control("N5", "1 deployment of 30 runs, by runs", "deployment sd = run sd", deployed(1, 30, 1.0), _run_level,
             between(0.70, 0.74)),
    _control("N6", "samples inside runs, pooled", "5 runs of 60 samples, intra-run correlation 0.2",
             pooled(5, 60, 0.2), _as_if_independent, between(0.39, 0.43)),
    _control("N7", "baseline taken as a constant", "CoV 2 %/2 %, n = 30", pair(RATIO, (0.02, 0.02), 30),
             _exact_baseline, between(0.83, 0.855)),
)  # fmt: skip
