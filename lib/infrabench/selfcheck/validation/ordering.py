"""What the order inside a block does on a machine whose speed wanders from trial to trial: the size, and the spread.

The blocks are those of a real plan (`experiment.design.orders`), with more cases than the one that is looked at: their
trials are what lies between its systems in random order, and around them in adjacent order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from infrabench.experiment.design import orders
from infrabench.selfcheck.validation.bands import at_least, near
from infrabench.selfcheck.validation.check import Check, ExpectedShare, SimulatedCase
from infrabench.selfcheck.validation.generators import Array, Campaigns, Rng, ar1
from infrabench.stats.pairwise import paired_fieller

BLOCKS, CASES, SYSTEMS = 30, 8, 2
SLOTS = CASES * SYSTEMS  # trials of a block
# Blocks that are planned in each order; campaigns take theirs from them at random. Of fewer, the mean place of a system
# is off by so much that the size of a test grows: of 400 to 5.7 %.
POOL = 3_000
KINDS = ("adjacent", "random")


class Ordered(NamedTuple):
    """One case of two identical systems, measured on the same machine in both orders."""

    adjacent: Campaigns
    random: Campaigns


def ordered(speed: Callable[[Rng, int], Array], noise: float = 0.01) -> Callable[[Rng, int], Ordered]:
    """Return campaigns of both orders on one course of the machine's `speed`: log, (replicates, BLOCKS * SLOTS)."""

    def generate(rng: Rng, replicates: int) -> Ordered:
        host, seed = speed(rng, replicates), int(rng.integers(2**31))
        found = []
        for kind in KINDS:
            places = _places(kind, seed)[rng.integers(POOL, size=(replicates, BLOCKS))]  # (replicates, blocks, systems)
            positions = np.moveaxis(places + SLOTS * np.arange(BLOCKS)[:, None], -1, 1)
            seen = np.take_along_axis(host[:, None], positions, axis=-1)
            found.append(Campaigns(100 * np.exp(seen + noise * rng.normal(size=seen.shape)), positions))
        return Ordered(*found)

    return generate


def wandering(rng: Rng, replicates: int) -> Array:
    """Return an AR(1) course of 3 %, correlation 0.9 from one trial to the next."""
    return 0.03 * ar1(0.9, BLOCKS * SLOTS)(rng, replicates)


def tiring(rng: Rng, replicates: int) -> Array:
    """Return the same on a machine that loses 10 % in the course of each block."""
    return wandering(rng, replicates) - np.tile(np.linspace(0, 0.1, SLOTS), BLOCKS)


def _places(kind: str, seed: int) -> NDArray[np.int64]:
    """Return where in its block each system of the first case stands: (POOL, systems)."""
    planned = [orders.order(kind, seed=seed, block=block, systems=SYSTEMS, cases=CASES) for block in range(POOL)]
    return np.array([[places.index((system, 0)) for system in range(SYSTEMS)] for places in planned])


def log_ratio_sd(data: Campaigns) -> Array:
    """Return, by campaign, the standard deviation over blocks of the log of one system over the other."""
    return np.log(data.values[:, 1] / data.values[:, 0]).std(axis=-1, ddof=1)


def called_different(data: Campaigns) -> NDArray[np.bool_]:
    """Return, by campaign, whether the interval of the ratio excludes 1, which is what the verdict asks."""
    found = paired_fieller(data.values[:, 1], data.values[:, 0])
    return np.asarray((found.low > 1) | (found.high < 1))


def _narrower(data: Ordered) -> NDArray[np.bool_]:
    return log_ratio_sd(data.adjacent) < log_ratio_sd(data.random)


def _case(data: str, speed: Callable[[Rng, int], Array]) -> SimulatedCase:
    return SimulatedCase(f"{data}, {BLOCKS} blocks", ordered(speed), (
        ExpectedShare("called different in adjacent order", lambda both: called_different(both.adjacent), near(0.05)),
        ExpectedShare("called different in random order", lambda both: called_different(both.random), near(0.05)),
        ExpectedShare("SD of the log ratio is smaller in adjacent order", _narrower, at_least(0.95)),
    ), batch=2_000)  # fmt: skip


CHECKS = (
    Check(
        "V27", "order inside a block: identical systems on a machine whose speed wanders from trial to trial",
        (_case("AR(1) of 0.9", wandering), _case("the same, 10 % slower in each block", tiring)),
    ),
)  # fmt: skip
