"""The flag of pairs that depend on one another, all the way from a tidy table: raised on what inference uses.

Blocks move both systems by three times what a trial adds by itself, so that the values of a cell say little of what is
left in a pair; a host that wanders takes both systems along, and leaves the pairs as they were.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from infrabench.selfcheck.validation.bands import Allowed, at_least, at_most
from infrabench.selfcheck.validation.check import Check, ExpectedShare, SimulatedCase
from infrabench.selfcheck.validation.generators import Array, Rng, ar1
from infrabench.selfcheck.validation.tables import campaigns_table
from infrabench.stats.contrasts import DEPENDENT, contrasts

BLOCKS = 30
SYSTEMS = ("native", "other")


def paired(own: float, *, noise: float = 0.0, host: float = 0.0) -> Callable[[Rng, int], Array]:
    """Return (replicates, 2, blocks): each system with an AR(1) process of its own, on top of what blocks do to both.

    `own`, `host`: the correlation of one block with the next, of a system and of the host; `noise`: standard deviation
    of independent noise on top of a system's process, whose own is 1 % of the mean.
    """

    def generate(rng: Rng, replicates: int) -> Array:
        systems = np.stack([ar1(own, BLOCKS)(rng, replicates) for _ in SYSTEMS], axis=1)
        shared = 3 * ar1(host, BLOCKS)(rng, replicates)[:, None]
        return 100 * np.exp(0.01 * (shared + systems + noise * rng.normal(size=systems.shape)))

    return generate


def flagged(values: Array) -> NDArray[np.bool_]:
    """Return, by campaign, whether its contrast carries the flag."""
    found = contrasts(campaigns_table(values, SYSTEMS), SYSTEMS[0], {"": 0.02}).sort_values("scenario")
    return found["flags"].str.contains(DEPENDENT).to_numpy()


def _case(data: str, generate: Callable[[Rng, int], Array], allowed: Allowed) -> SimulatedCase:
    expectation = ExpectedShare("contrast flagged dependent", flagged, allowed)
    return SimulatedCase(f"{data}, n = {BLOCKS}", generate, (expectation,), fast=1_000, full=10_000, batch=500)


CHECKS = (
    Check(
        "V25", "flag of dependent pairs: Ljung-Box, Kendall's trend, or the effective n of the log ratios",
        (
            _case("independent trials", paired(0.0), at_most(0.065)),
            _case("independent trials, host AR(1) of 0.9", paired(0.0, host=0.9), at_most(0.065)),
            _case("systems AR(1) of 0.6", paired(0.6), at_least(0.6)),
            # lag 1 of the pairs is 0.3: a test that knows that finds 45 % at this rate of false alarms
            _case("systems AR(1) of 0.6 under as much noise", paired(0.6, noise=1.0), at_least(0.4)),
        ),
    ),
)  # fmt: skip
