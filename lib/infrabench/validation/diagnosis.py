"""Flags that must be raised as often as they say, on good data and on bad, and the rule that ends a session."""

from __future__ import annotations

from collections.abc import Callable

from infrabench.stats import bimodality, dependence
from infrabench.validation.bands import Allowed, between, near
from infrabench.validation.check import Case, Check, Expectation
from infrabench.validation.generators import Array, Rng, Shape, ar1, bimodal, exponential, normal, sample, trend

N = 30


def _dependent(data: str, generate: Callable[[Rng, int], Array], allowed: Allowed) -> Case:
    return Case(f"{data}, n = {N}", generate, (Expectation("flagged dependent", dependence.dependent, allowed),))


def _bimodal(shape: Shape, allowed: Allowed) -> Case:
    procedure = Expectation("flagged bimodal", bimodality.bimodal, allowed)
    return Case(f"{shape.name}, n = {N}", sample(shape, N), (procedure,))


CHECKS = (
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
