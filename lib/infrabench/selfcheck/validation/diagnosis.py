"""Flags that must be raised as often as they say, on good data and on bad, and the rule that ends a session."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from infrabench.selfcheck.validation.bands import Allowed, at_least, between, near
from infrabench.selfcheck.validation.check import Check, ExpectedShare, SimulatedCase
from infrabench.selfcheck.validation.estimation import covers
from infrabench.selfcheck.validation.generators import (
    Array,
    Rng,
    Shape,
    ar1,
    bimodal,
    exponential,
    normal,
    sample,
    trend,
)
from infrabench.stats import dependence, intervals, stopping
from infrabench.stats.diagnostics import bimodal as is_bimodal

N = 30


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
    return SimulatedCase(data, sample(shape, stopping.MOST), (covered,))


def _normal(cov: float) -> Shape:
    return normal(100, 100 * cov)._replace(name=f"normal CoV {100 * cov:g} %")


CHECKS = (
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
