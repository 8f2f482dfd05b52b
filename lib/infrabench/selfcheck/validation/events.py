"""Counts and shares: comparisons that are exact near zero, decide with a zero baseline, and see clustered events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infrabench.selfcheck.validation.bands import at_least, at_most
from infrabench.selfcheck.validation.check import Check, ExpectedShare, SimulatedCase
from infrabench.selfcheck.validation.estimation import covers
from infrabench.selfcheck.validation.generators import Array, Rng
from infrabench.stats import events

BLOCKS = 30
MARGIN = 0.02


def counted(mean: float, ratio: float = 1.0, spread: float = 1.0) -> Callable[[Rng, int], Array]:
    """Return (replicates, 2, blocks): events of a system, `ratio` times as many as the baseline's `mean` of a block.

    `spread`: variance over mean, 1 for independent events (Poisson), above for clustered ones (negative binomial).
    """

    def generate(rng: Rng, replicates: int) -> Array:
        means = np.array([ratio * mean, mean])[None, :, None]
        shape = (replicates, 2, BLOCKS)
        if spread == 1:
            return rng.poisson(means, shape).astype(float)
        return rng.negative_binomial(np.broadcast_to(means / (spread - 1), shape), 1 / spread).astype(float)

    return generate


def zero_baseline(mean: float) -> Callable[[Rng, int], Array]:
    """Return (replicates, 2, blocks): independent events of a system, `mean` in a block, and none of the baseline."""
    return lambda rng, replicates: np.stack(
        [rng.poisson(mean, (replicates, BLOCKS)), np.zeros((replicates, BLOCKS))], axis=1
    ).astype(float)


def called_different(data: Array) -> NDArray[np.bool_]:
    """Return, by campaign, whether its verdict is that the rates of events differ."""
    rows = (events.judge_events(events.COUNT, each, None, MARGIN, percent=False) for each in data)
    return np.array([row["inferred"] and row["apart"] for row in rows])


def _ratio_covered(data: Array, ratio: float) -> NDArray[np.bool_]:
    x, y = data.sum(axis=-1).T
    found = events.poisson_ratio(x, y).interval
    # without any event every ratio is left open
    return covers(found, ratio) | (x + y == 0)


def _shares(p: float, q: float) -> Callable[[Rng, int], Any]:
    return lambda rng, replicates: rng.binomial(BLOCKS, (p, q), (replicates, 2))


def _difference_covered(data: Any, truth: float) -> NDArray[np.bool_]:
    x, y = data.T
    return covers(events.newcombe_interval(x, BLOCKS, y, BLOCKS), truth)


def _case(data: str, generate: Callable[[Rng, int], Any], *expectations: ExpectedShare) -> SimulatedCase:
    return SimulatedCase(f"{data}, {BLOCKS} blocks", generate, expectations, fast=400, full=4_000)


def _same(mean: float, spread: float) -> SimulatedCase:
    data = f"{mean:g} events a block, variance {spread:g} times the mean"
    return _case(data, counted(mean, 1.0, spread), ExpectedShare("called different", called_different, at_most(0.05)))


CHECKS = (
    Check(
        "V20", "counts: nothing differs",
        (*(_same(mean, 1.0) for mean in (0.1, 1.0)), *(_same(mean, 3.0) for mean in (0.1, 1.0, 5.0))),
    ),
    Check(
        "V21", "counts and shares: a zero baseline, and intervals",
        (
            _case(
                "5 events a block against none", zero_baseline(5.0),
                ExpectedShare("called different", called_different, at_least(0.99)),
            ),
            *(
                _case(
                    f"{mean:g} events a block, ratio 2", counted(mean, 2.0),
                    ExpectedShare("exact ratio", lambda data: _ratio_covered(data, 2.0), at_least(0.94)),
                )
                for mean in (0.1, 1.0)
            ),
            *(
                _case(
                    f"shares of {p:g} and {q:g}", _shares(p, q),
                    ExpectedShare("Newcombe", lambda data, d=p - q: _difference_covered(data, d), at_least(0.93)),
                )
                for p, q in ((0.5, 0.3), (0.2, 0.02), (0.1, 0.1))
            ),
        ),
    ),
)  # fmt: skip
