"""Intervals that must cover the truth as often as they say: means, medians, ratios, Cliff's delta."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from infrabench.stats import bootstrap, effects, intervals, ratios
from infrabench.validation.bands import Allowed, at_least, between, near
from infrabench.validation.check import Case, Check, Expectation, Procedure
from infrabench.validation.generators import (
    Shape,
    bimodal,
    delta_of,
    lognormal,
    normal,
    pair,
    sample,
    shifted,
    with_outliers,
)

RESAMPLES = 1_999
RATIO = 0.95
NOMINAL = near(0.95)


def covers(interval: intervals.Interval, truth: float) -> NDArray[np.bool_]:
    """Return whether each interval holds the truth; one that does not exist covers nothing."""
    return (np.asarray(interval.low) <= truth) & (truth <= np.asarray(interval.high))


def _one(shape: Shape, n: int, what: str, procedure: Procedure, allowed: Allowed = NOMINAL, **size: int) -> Case:
    return Case(f"{shape.name}, n = {n}", sample(shape, n), (Expectation(what, procedure, allowed),), **size)


def _mean(shape: Shape, n: int) -> Case:
    return _one(shape, n, "t interval", lambda x: covers(intervals.t_interval(x), shape.mean))


def _median(shape: Shape, n: int) -> Case:
    exact = intervals.median_ranks(n)[2]
    return _one(shape, n, "median", lambda x: covers(intervals.median_interval(x), shape.median), near(exact))


def _bootstrap_t(shape: Shape, n: int, allowed: Allowed) -> Case:
    def procedure(x: Any) -> NDArray[np.bool_]:
        return covers(bootstrap.bootstrap_t(x, resamples=RESAMPLES), shape.mean)

    return _one(shape, n, "bootstrap-t", procedure, allowed, full=10_000)


def _ratio(covs: tuple[float, float], n: int, correlation: float = 0.0, *, logs: bool = True) -> Case:
    # Satterthwaite's degrees of freedom are an approximation, and cautious with five values: 95.6 % are covered. Blocks
    # that move both systems make an interval for independent samples far too wide: seen, not hidden.
    independent = at_least(0.99) if correlation else near(0.956, rounded=0.0005) if n == 5 else NOMINAL
    expectations = [
        Expectation("Fieller, paired", lambda d: covers(ratios.paired_fieller(*d), RATIO), NOMINAL),
        Expectation("Fieller, Satterthwaite", lambda d: covers(ratios.fieller(*d), RATIO), independent),
    ]
    if logs:  # with 30 % spread a value may be below 0; with unequal spreads the log ratio aims at another target
        expectations.append(
            Expectation("log ratio, paired t", lambda d: covers(ratios.paired_log_ratio(*d).interval, RATIO), NOMINAL)
        )
    blocks = f", block correlation {correlation:g}" if correlation else ""
    data = f"CoV {100 * covs[0]:g} %/{100 * covs[1]:g} %, n = {n}{blocks}"
    return Case(data, pair(RATIO, covs, n, correlation), tuple(expectations))


def _delta(shift: float, n: int) -> Case:
    truth = delta_of(shift)

    def procedure(data: Any) -> NDArray[np.bool_]:
        return covers(effects.cliffs_delta_interval(effects.cliffs_delta(*data), n, n), truth)

    data = f"shift {shift:g} sd, n = {n}"
    return Case(data, shifted(shift, n), (Expectation("Newcombe", procedure, at_least(0.94)),), fast=4_000)


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
        "V10", "interval of Cliff's delta",
        tuple(_delta(shift, n) for shift in (0.0, 0.5, 1.0, 2.0, 3.0) for n in (10, 30)),
    ),
)  # fmt: skip
