"""The whole way from a tidy table to a verdict on systems that are identical, or of which it is known how they differ.

How often identical systems are called different: on a host that drifts, deployed anew each time, when one loses its
slowest trials (it would always seem the faster one), in either order inside a block; and how often pairs that depend on
one another are flagged. Blocks move both of those systems by three times what a trial adds by itself, so that the
values of a cell say little of what is left in a pair; a host that wanders takes both along, and leaves the pairs as
they were. The order inside a block is that of a real plan (`experiment.design.orders`), with more cases than the one
that is looked at: their trials lie between its systems in random order, and around them in adjacent order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from infrabench.experiment.design import orders
from infrabench.stats.contrasts import DEPENDENT, contrasts
from infrabench.stats.pairwise import paired_fieller
from infrabench.stats.verdicts import DIFFERENT, WITHIN
from infrabench_selfcheck.validation import check
from infrabench_selfcheck.validation import generators as draw
from infrabench_selfcheck.validation.check import Check, Expected, at_least, at_most, case, near
from infrabench_selfcheck.validation.generators import Array, Campaigns, Generate, Rng, generator

SYSTEMS = ("native", "other")
BLOCKS = 30
DEPLOYMENTS, RUNS = 6, 5
DEPLOYMENT_OF = np.repeat(np.arange(DEPLOYMENTS), RUNS)  # of each block
MARGIN = 0.02
CASES, PAIR = 8, 2  # cases of a plan, and systems of a case
SLOTS = CASES * PAIR  # trials of a block
# Blocks that are planned in each order; campaigns take theirs from them at random. Of fewer, the mean place of a system
# is off by so much that the size of a test grows: of 400 to 5.7 %.
POOL = 3_000
KINDS = ("adjacent", "random")


def called_different(values: Array, *, lost: bool = True, **how: Any) -> NDArray[np.bool_]:
    """Return, by campaign, whether the verdict says "different" (also within the margin): the interval excludes 1.

    `lost`: with the trials that did not end; else as if they had never been tried. `how`: see `campaigns_table`.
    """
    table = draw.campaigns_table(values, SYSTEMS, **how)
    if not lost:
        table = table[table["state"] == "ok"]
    found = contrasts(table, SYSTEMS[0], {"": MARGIN}, ((draw.WORKLOAD, draw.METRIC),)).sort_values("scenario")
    return found["verdict"].isin([DIFFERENT, WITHIN]).to_numpy()


@generator
def paired(rng: Rng, replicates: int, own: float, *, noise: float = 0.0, host: float = 0.0) -> Array:
    """Return (replicates, 2, blocks): each system with an AR(1) process of its own, on top of what blocks do to both.

    `own`, `host`: the correlation of one block with the next, of a system and of the host; `noise`: standard deviation
    of independent noise on top of a system's process, whose own is 1 % of the mean.
    """
    systems = np.stack([draw.ar1(own, BLOCKS)(rng, replicates) for _ in SYSTEMS], axis=1)
    shared = 3 * draw.ar1(host, BLOCKS)(rng, replicates)[:, None]
    return 100 * np.exp(0.01 * (shared + systems + noise * rng.normal(size=systems.shape)))


def flagged(values: Array) -> NDArray[np.bool_]:
    """Return, by campaign, whether its contrast carries the flag."""
    found = contrasts(draw.campaigns_table(values, SYSTEMS), SYSTEMS[0], {"": MARGIN}).sort_values("scenario")
    return found["flags"].str.contains(DEPENDENT).to_numpy()


@generator
def slowest_lost(rng: Rng, replicates: int, lost: tuple[int, int], ratio: float = 1.0) -> Array:
    """Return (replicates, 2, blocks): rates of baseline and system, `ratio` times it; NaN for their `lost` slowest."""
    values = 100 * np.exp(0.02 * rng.normal(size=(replicates, 2, BLOCKS))) * np.array([1.0, ratio])[:, None]
    rank = values.argsort(axis=-1).argsort(axis=-1)
    return np.where(rank < np.array(lost)[:, None], np.nan, values)


class Ordered(NamedTuple):
    """One case of two identical systems, measured on the same machine in both orders."""

    adjacent: Campaigns
    random: Campaigns


@generator
def ordered(rng: Rng, replicates: int, speed: Generate[Array], noise: float = 0.01) -> Ordered:
    """Return campaigns of both orders on one course of the machine's `speed`: log, (replicates, BLOCKS * SLOTS)."""
    host, seed = speed(rng, replicates), int(rng.integers(2**31))
    found = []
    for kind in KINDS:
        planned = [orders.order(kind, seed=seed, block=block, systems=PAIR, cases=CASES) for block in range(POOL)]
        # where in its block each system of the first case stands
        pool = np.array([[places.index((system, 0)) for system in range(PAIR)] for places in planned])
        places = pool[rng.integers(POOL, size=(replicates, BLOCKS))]  # (replicates, blocks, systems)
        positions = np.moveaxis(places + SLOTS * np.arange(BLOCKS)[:, None], -1, 1)
        seen = np.take_along_axis(host[:, None], positions, axis=-1)
        found.append(Campaigns(100 * np.exp(seen + noise * rng.normal(size=seen.shape)), positions))
    return Ordered(*found)


def wandering(rng: Rng, replicates: int) -> Array:
    """Return an AR(1) course of 3 %, correlation 0.9 from one trial to the next."""
    return 0.03 * draw.ar1(0.9, BLOCKS * SLOTS)(rng, replicates)


def tiring(rng: Rng, replicates: int) -> Array:
    """Return the same on a machine that loses 10 % in the course of each block."""
    return wandering(rng, replicates) - np.tile(np.linspace(0, 0.1, SLOTS), BLOCKS)


def log_ratio_sd(data: Campaigns) -> Array:
    """Return, by campaign, the standard deviation over blocks of the log of one system over the other."""
    return np.log(data.values[:, 1] / data.values[:, 0]).std(axis=-1, ddof=1)


def excludes_1(data: Campaigns) -> NDArray[np.bool_]:
    """Return, by campaign, whether the interval of the ratio excludes 1, which is what the verdict asks."""
    found = paired_fieller(data.values[:, 1], data.values[:, 0])
    return np.asarray((found.low > 1) | (found.high < 1))


def _losses(data: str, generate: Generate[Array], allowed: check.Allowed, *more: Expected) -> check.SimulatedCase:
    expected = ("called different", called_different, allowed)
    return case(f"{data}, {BLOCKS} blocks", generate, expected, *more, fast=100, full=4_000, batch=500)


CHECKS = (
    Check("V12", "full pipeline: identical systems in blocks, on a host that drifts", tuple(
        case(name, draw.campaigns(name, BLOCKS),
             ("called different", lambda d: called_different(d.values, positions=d.positions), near(0.05)),
             fast=1_000, full=10_000, batch=500)
        for name in draw.ENVIRONMENTS
    )),
    Check("V13", "full pipeline: identical systems, deployed anew each time", (
        case(f"{DEPLOYMENTS} deployments of {RUNS} runs, deployment sd = run sd", draw.deployed(DEPLOYMENTS, RUNS, 1.0),
             ("called different", lambda values: called_different(values, deployment=DEPLOYMENT_OF),
              near(0.05, rounded=0.005))),
    )),
    Check("V25", "flag of dependent pairs: Ljung-Box, Kendall's trend, or the effective n of the log ratios", tuple(
        case(f"{data}, n = {BLOCKS}", generate, ("contrast flagged dependent", flagged, allowed),
             fast=1_000, full=10_000, batch=500)
        for data, generate, allowed in (
            ("independent trials", paired(0.0), at_most(0.065)),
            ("independent trials, host AR(1) of 0.9", paired(0.0, host=0.9), at_most(0.065)),
            ("systems AR(1) of 0.6", paired(0.6), at_least(0.6)),
            # lag 1 of the pairs is 0.3: a test that knows that finds 45 % at this rate of false alarms
            ("systems AR(1) of 0.6 under as much noise", paired(0.6, noise=1.0), at_least(0.4)),
        )
    )),
    Check("V26", "trials that time out: systems alike but for their losses", (
        _losses("the slowest 3 of one and 0 of the other lost", slowest_lost((0, 3)), at_most(0.05)),
        _losses("the slowest 3 of one and 3 of the other lost", slowest_lost((3, 3)), at_most(0.05)),
        _losses("the slowest 10 of one lost", slowest_lost((0, 10)), at_most(0.05),
                ("the rest alone, which has to fail here", lambda d: called_different(d, lost=False), at_least(0.3))),
        _losses("5 % faster, the slowest 2 lost", slowest_lost((0, 2), 1.05), at_least(0.9)),
    )),
    Check("V27", "order inside a block: identical systems on a machine whose speed wanders from trial to trial", tuple(
        case(f"{data}, {BLOCKS} blocks", ordered(speed),
             ("called different in adjacent order", lambda both: excludes_1(both.adjacent), near(0.05)),
             ("called different in random order", lambda both: excludes_1(both.random), near(0.05)),
             ("SD of the log ratio is smaller in adjacent order",
              lambda both: log_ratio_sd(both.adjacent) < log_ratio_sd(both.random), at_least(0.95)),
             batch=2_000)
        for data, speed in (("AR(1) of 0.9", wandering), ("the same, 10 % slower in each block", tiring))
    )),
)  # fmt: skip
