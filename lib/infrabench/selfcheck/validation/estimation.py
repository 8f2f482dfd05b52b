"""Intervals that must cover the truth as often as they say, and flags that must be raised as often as they say.

Means, medians, ratios, paired effect sizes; serial dependence and two modes, on good data and on bad; and the rule that
ends a session.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from infrabench.selfcheck.validation.check import (
    Allowed,
    Check,
    ExpectedShare,
    Procedure,
    SimulatedCase,
    at_least,
    between,
    near,
)
from infrabench.selfcheck.validation.generators import (
    Array,
    Rng,
    Shape,
    above_at,
    ar1,
    bimodal,
    exponential,
    in_blocks,
    lognormal,
    normal,
    pair,
    sample,
    trend,
    with_outliers,
)
from infrabench.stats import dependence, intervals, pairwise, stopping
from infrabench.stats.diagnostics import bimodal as is_bimodal

RESAMPLES = 1_999
RATIO = 0.95
NOMINAL = near(0.95)
N = 30


def covers(interval: intervals.Interval, truth: float) -> NDArray[np.bool_]:
    """Return whether each interval holds the truth; one that does not exist covers nothing."""
    return (np.asarray(interval.low) <= truth) & (truth <= np.asarray(interval.high))


def _one(
    shape: Shape, n: int, what: str, procedure: Procedure, allowed: Allowed = NOMINAL, **size: int
) -> SimulatedCase:
    return SimulatedCase(f"{shape.name}, n = {n}", sample(shape, n), (ExpectedShare(what, procedure, allowed),), **size)


def _mean(shape: Shape, n: int) -> SimulatedCase:
    return _one(shape, n, "t interval", lambda x: covers(intervals.t_interval(x), shape.mean))


def _median(shape: Shape, n: int) -> SimulatedCase:
    exact = intervals.median_ranks(n)[2]
    return _one(shape, n, "median", lambda x: covers(intervals.median_interval(x), shape.median), near(exact))


def _bootstrap_t(shape: Shape, n: int, allowed: Allowed) -> SimulatedCase:
    def procedure(x: Any) -> NDArray[np.bool_]:
        return covers(intervals.bootstrap_t(x, resamples=RESAMPLES), shape.mean)

    return _one(shape, n, "bootstrap-t", procedure, allowed, full=10_000)


def _ratio(covs: tuple[float, float], n: int, correlation: float = 0.0, *, logs: bool = True) -> SimulatedCase:
    expectations = [
        ExpectedShare("Fieller, paired", lambda d: covers(pairwise.paired_fieller(*d), RATIO), NOMINAL),
    ]
    if logs:  # with 30 % spread a value may be below 0; with unequal spreads the log ratio aims at another target
        expectations.append(
            ExpectedShare(
                "log ratio, paired t", lambda d: covers(pairwise.paired_log_ratio(*d).interval, RATIO), NOMINAL
            )
        )
    blocks = f", block correlation {correlation:g}" if correlation else ""
    data = f"CoV {100 * covs[0]:g} %/{100 * covs[1]:g} %, n = {n}{blocks}"
    return SimulatedCase(data, pair(RATIO, covs, n, correlation), tuple(expectations))


def _effect(d: float, n: int) -> SimulatedCase:
    expectations = (
        ExpectedShare("d of the log ratios", lambda data: covers(pairwise.paired_d(*data).interval, d), NOMINAL),
        # a score interval of so few pairs covers by steps: exactly known, between 91 and 98 % here
        ExpectedShare(
            "share of pairs", lambda data: covers(pairwise.share_above(*data).interval, above_at(d)),
            near(wilson_coverage(above_at(d), n)),
        ),
    )  # fmt: skip
    return SimulatedCase(f"d = {d:g}, n = {n}, blocks ten times as far apart", in_blocks(d, n), expectations)


def wilson_coverage(p: float, n: int) -> float:
    """Return how often Wilson's interval of `n` draws holds the true share `p`: the sum of the binomial chances."""
    counts = np.arange(n + 1)
    return float(stats.binom.pmf(counts, n, p)[covers(intervals.wilson_interval(counts, n), p)].sum())


def _dependent(data: str, generate: Callable[[Rng, int], Array], allowed: Allowed) -> SimulatedCase:
    return SimulatedCase(
        f"{data}, n = {N}", generate, (ExpectedShare("flagged dependent", dependence.dependent, allowed),)
    )


def _bimodal(shape: Shape, allowed: Allowed) -> SimulatedCase:
    procedure = ExpectedShare("flagged bimodal", is_bimodal, allowed)
    return SimulatedCase(f"{shape.name}, n = {N}", sample(shape, N), (procedure,))


def _stopped(shape: Shape, target: float) -> SimulatedCase:
    """Sessions of one primary cell that end by the rule: does the interval that ended them hold the truth?"""

    def procedure(x: Array) -> NDArray[np.bool_]:
        stops = stopping.stopping_n(x[:, None, :], target)
        covered = np.zeros(len(x), dtype=bool)
        for n in np.unique(stops.n):
            some = stops.n == n
            mean = covers(intervals.t_interval(x[some, :n]), shape.mean)
            median = covers(intervals.median_interval(x[some, :n]), shape.median)
            covered[some] = np.where(stops.median[some, 0], median, mean)
        return covered

    data = f"{shape.name}, target {100 * target:g} %"
    covered = ExpectedShare("last interval covers", procedure, at_least(0.925))
    return SimulatedCase(data, sample(shape, stopping.MAX_BLOCKS), (covered,))


def _normal(cov: float) -> Shape:
    return normal(100, 100 * cov)._replace(name=f"normal CoV {100 * cov:g} %")


CHECKS = (
    Check("V1", "t interval of a mean", tuple(_mean(normal(), n) for n in (5, 10, 30))),
    Check(
        "V2", "exact interval of a median",
        tuple(_median(shape, n) for shape in (normal(), lognormal(1), bimodal(), with_outliers()) for n in (10, 30)),
    ),
    Check(
        "V3", "t interval of the logs, for a geometric mean",
        (_one(lognormal(1), 30, "log-t", lambda x: covers(intervals.log_t_interval(x).interval, lognormal(1).median)),),
    ),
    Check(
        "V4", "bootstrap-t of a mean",
        (_bootstrap_t(normal(), 10, NOMINAL), _bootstrap_t(lognormal(1), 30, between(0.91, 0.945))),
    ),
    Check(
        "V5", "intervals of a ratio of means",
        (
            _ratio((0.02, 0.02), 5), _ratio((0.02, 0.02), 10), _ratio((0.02, 0.02), 30),
            _ratio((0.02, 0.10), 30, logs=False),
            _ratio((0.30, 0.30), 30, logs=False), _ratio((0.03, 0.03), 30, 0.8),
        ),
    ),
    Check(
        "V10", "intervals of paired effect sizes",
        tuple(_effect(d, n) for d in (0.0, 0.5, 1.0, 2.0) for n in (10, 30)),
    ),
    Check(
        "V11", "rule that ends a session: 30 blocks, 5 more, 100 at most",
        tuple(
            _stopped(shape, target)
            for shape in (_normal(0.03), _normal(0.05), bimodal(0.2, 15.0, at=100, sd=1))
            for target in (0.01, 0.02)
        ),
    ),
    Check(
        "V14", "flag of serial dependence: Ljung-Box at lag 1 or Kendall's trend, p < 0.01",
        (
            _dependent("independent", ar1(0.0, N), near(0.019, rounded=0.0005)),
            _dependent("AR(1), phi 0.7", ar1(0.7, N), near(0.81, rounded=0.005)),
            _dependent("linear trend of 3 sd", trend(3.0, N), near(0.97, rounded=0.005)),
        ),
    ),
    Check(
        "V15", "flag of two modes, on the values and on their logs",
        (
            _bimodal(normal(100, 1), near(0.009, rounded=0.0005)),
            _bimodal(exponential(), between(0.0, 0.035)),
            _bimodal(bimodal(0.2, 10.0, at=100, sd=1), near(0.99, rounded=0.005)),
            _bimodal(bimodal(0.2, 5.0, at=100, sd=1), near(0.885, rounded=0.005)),
        ),
    ),
)  # fmt: skip
