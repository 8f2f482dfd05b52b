"""Data whose truth is known. Each `generator` takes parameters and returns a function: stream, replicates -> arrays.

The last axis holds the trials of one sample, in executed order; the first axis holds the replicates. `campaigns_table`
makes a tidy table of many simulated campaigns, so that they go through the same code as a recorded session.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import optimize, stats

from infrabench.analysis.tidy import COLUMNS, DTYPES, check
from infrabench.stats.dependence import autoregressive

Array = NDArray[np.float64]
Rng = np.random.Generator
One = Callable[[Rng, tuple[int, ...]], Array]
P, T = ParamSpec("P"), TypeVar("T")
Generate = Callable[[Rng, int], T]  # generator, replicates -> data with them on the leading axis
METRIC = "events_per_s"
WORKLOAD = "simulated"


class Shape(NamedTuple):
    """A distribution to draw from, with its true mean and median."""

    name: str
    draw: One
    mean: float
    median: float


def generator(draw: Callable[Concatenate[Rng, int, P], T]) -> Callable[P, Generate[T]]:
    """Return a function of the parameters of `draw` alone: it returns what draws with them."""

    @wraps(draw)
    def of_parameters(*given: P.args, **named: P.kwargs) -> Generate[T]:
        return lambda rng, replicates: draw(rng, replicates, *given, **named)

    return of_parameters


class PairedSamples(NamedTuple):
    """Two samples of equal shape; element i of both is the same block where they are paired."""

    x: Array
    y: Array


def normal(mean: float = 0.0, sd: float = 1.0) -> Shape:
    """Return a normal shape."""
    return Shape("normal", lambda rng, size: rng.normal(mean, sd, size), mean, mean)


def lognormal(sigma: float) -> Shape:
    """Return a lognormal shape with median 1, which is its geometric mean."""
    mean = float(np.exp(sigma**2 / 2))
    return Shape(f"lognormal sigma {sigma:g}", lambda rng, size: np.exp(rng.normal(0, sigma, size)), mean, 1.0)


def exponential() -> Shape:
    """Return a standard exponential shape."""
    return Shape("exponential", lambda rng, size: rng.exponential(size=size), 1.0, float(np.log(2)))


def mixture(share: float, apart: float, name: str, at: float, sd: float) -> Shape:
    """Return a normal at `at` of which a `share` lies `apart` further up, in units of the value, with the same `sd`."""

    def draw(rng: Rng, size: tuple[int, ...]) -> Array:
        return at + rng.normal(0, sd, size) + apart * (rng.random(size) < share)

    def beyond(m: float) -> float:
        return float((1 - share) * stats.norm.cdf((m - at) / sd) + share * stats.norm.cdf((m - at - apart) / sd) - 0.5)

    median = float(optimize.brentq(beyond, at - 10 * sd, at + apart + 10 * sd))
    return Shape(name, draw, at + share * apart, median)


def bimodal(share: float = 0.2, apart: float = 20.0, at: float = 0.0, sd: float = 1.0) -> Shape:
    """Return two modes, the lower at `at`, the upper with a `share`, so many within-mode standard deviations apart."""
    return mixture(share, apart * sd, f"bimodal {100 * (1 - share):g}/{100 * share:g}, {apart:g} sd apart", at, sd)


def with_outliers(share: float = 0.05, apart: float = 10.0) -> Shape:
    """Return a standard normal of which a `share` is so many standard deviations too high."""
    return mixture(share, apart, f"{100 * share:g} % outliers at +{apart:g} sd", 0.0, 1.0)


@generator
def sample(rng: Rng, replicates: int, shape: Shape, n: int) -> Array:
    """Return samples of `n` from a shape: (replicates, n)."""
    return shape.draw(rng, (replicates, n))


@generator
def blocked(rng: Rng, replicates: int, systems: int, blocks: int, block_sd: float) -> Array:
    """Return (replicates, systems, blocks): identical systems, residual sd 1, and what each block did to all."""
    shared = rng.normal(0, block_sd, (replicates, 1, blocks))
    return 100 + shared + rng.normal(0, 1, (replicates, systems, blocks))


@generator
def pair(
    rng: Rng, replicates: int, ratio: float, covs: tuple[float, float], n: int, correlation: float = 0.0
) -> PairedSamples:
    """Return a system and a baseline of mean 100, the system `ratio` times it; `covs`: relative spreads."""
    shared, own, other = rng.normal(size=(3, replicates, n))
    a, b = np.sqrt(correlation), np.sqrt(1 - correlation)
    x, y = a * shared + b * own, a * shared + b * other
    return PairedSamples(100 * ratio * (1 + covs[0] * x), 100 * (1 + covs[1] * y))


@generator
def skewed(rng: Rng, replicates: int, ratio: float, sigma: float, n: int) -> PairedSamples:
    """Return a lognormal system whose mean is `ratio` times that of its baseline, which is normal with a CoV of 2 %."""
    shape = lognormal(sigma)
    x = shape.draw(rng, (replicates, n))
    return PairedSamples(ratio / shape.mean * x, rng.normal(1, 0.02, (replicates, n)))


@generator
def in_blocks(rng: Rng, replicates: int, d: float, n: int) -> PairedSamples:
    """Return paired positive values whose blocks move both alike, and ten times as far as what tells the two apart.

    The log ratios are normal with mean `d` times their SD.
    """
    block, own = rng.normal(size=(2, replicates, n))
    below = np.exp(0.1 * block)
    return PairedSamples(below * np.exp(0.01 * (d + own)), below)


@generator
def ar1(rng: Rng, replicates: int, phi: float, n: int) -> Array:
    """Return stationary first-order autoregressive series of mean 0 and variance 1."""
    return autoregressive(rng.normal(size=(replicates, n)), phi)


@generator
def trend(rng: Rng, replicates: int, total_sd: float, n: int) -> Array:
    """Return normal noise of sd 1 on a straight line that rises by `total_sd` from first to last trial."""
    return rng.normal(size=(replicates, n)) + np.linspace(0, total_sd, n)


class Drifting(NamedTuple):
    """Log ratios of a case in block order, and what the true one was in each block: both (replicates, blocks)."""

    seen: Array
    true: Array


@generator
def drifting(rng: Rng, replicates: int, n: int, *, machine: str = "", ratio: str = "") -> Drifting:
    """Return log ratios of standard deviation 1 of two systems on a machine that drifts, or whose ratio does.

    The machine moves by 10 standard deviations over the `n` blocks, ``line``, or by 1 a block, ``walk``; both trials of
    a pair stand anywhere in their block, as in random order, so that a part of it stays in the ratio. The ratio moves
    by 1 standard deviation in all, ``line``, or by 0.1 a block, ``walk``.
    """

    def path(kind: str, total: float, step: float) -> Array:
        line = np.broadcast_to(np.linspace(0, total, n + 1), (replicates, n + 1))
        return line if kind == "line" else step * rng.normal(size=(replicates, n + 1)).cumsum(axis=1) * (kind == "walk")

    level, true = path(machine, 10.0, 1.0), path(ratio, 1.0, 0.1)[:, :n]
    apart = rng.uniform(size=(replicates, n)) - rng.uniform(size=(replicates, n))  # of a block, either first
    return Drifting(true + apart * np.diff(level, axis=1) + rng.normal(size=(replicates, n)), true)


@generator
def pooled(rng: Rng, replicates: int, runs: int, inside: int, icc: float) -> Array:
    """Return (replicates, runs x inside): samples inside runs, with an intra-run correlation, as one flat sample."""
    run = rng.normal(0, np.sqrt(icc), (replicates, runs, 1))
    return (run + rng.normal(0, np.sqrt(1 - icc), (replicates, runs, inside))).reshape(replicates, -1)


@generator
def deployed(rng: Rng, replicates: int, deployments: int, runs: int, between_sd: float) -> Array:
    """Return (replicates, 2, deployments x runs): identical systems, each deployed anew so often; run sd 1."""
    fresh = rng.normal(0, between_sd, (replicates, 2, deployments, 1))
    return (100 + fresh + rng.normal(0, 1, (replicates, 2, deployments, runs))).reshape(replicates, 2, -1)


# What the host does over the time slots of a campaign, in units of the mean: (replicates, slots).
ENVIRONMENTS: dict[str, Callable[[Rng, int, int], Array]] = {
    "no drift": lambda rng, replicates, slots: np.zeros((replicates, slots)),
    "linear drift of 1 %": lambda rng, replicates, slots: np.tile(np.linspace(0, 0.01, slots), (replicates, 1)),
    "linear drift of 3 %": lambda rng, replicates, slots: np.tile(np.linspace(0, 0.03, slots), (replicates, 1)),
    "one 2 % step at a random time": lambda rng, replicates, slots: (
        0.02 * (np.arange(slots) >= rng.integers(1, slots, (replicates, 1)))
    ),
    "AR(1), phi 0.9, sd 1 %": lambda rng, replicates, slots: 0.01 * ar1(0.9, slots)(rng, replicates),
    "slow sinus, 2 % peak to peak": lambda rng, replicates, slots: (
        0.01 * np.sin(2 * np.pi * (np.arange(slots) / slots + rng.random((replicates, 1))))
    ),
}


class Campaigns(NamedTuple):
    """Values and executed positions of campaigns: (replicates, systems, blocks)."""

    values: Array
    positions: NDArray[np.int64]


@generator
def campaigns(rng: Rng, replicates: int, environment: str, blocks: int, *, sequential: bool = False) -> Campaigns:
    """Return campaigns of two identical systems, run noise CoV 1 %, in a drifting environment.

    Each block holds both systems in random order; `sequential`: all trials of the first, then all of the second.
    """
    slots = 2 * blocks
    if sequential:
        order = np.broadcast_to(np.arange(slots).reshape(2, blocks), (replicates, 2, blocks))
    else:
        first = rng.integers(0, 2, (replicates, 1, blocks))
        order = 2 * np.arange(blocks) + np.concatenate([first, 1 - first], axis=1)
    host = ENVIRONMENTS[environment](rng, replicates, slots)
    seen = np.take_along_axis(host[:, None, :], order, axis=2)
    return Campaigns(100 * (1 + seen + rng.normal(0, 0.01, order.shape)), order)


def campaigns_table(
    values: Array, systems: Sequence[str], *,
    positions: NDArray[np.int64] | None = None, deployment: NDArray[np.int64] | None = None,
) -> pd.DataFrame:  # fmt: skip
    """Return the tidy table of `values` (campaigns, systems, blocks): campaign i is the scenario ``c<i>``.

    NaN is a trial that timed out; `SchemaError` for an infinite value. `positions`: executed order inside each
    campaign, same shape as `values` (default: systems take turns in each block); `deployment`: of each block (default:
    all 0).
    """
    if positions is None:
        turns = np.arange(values.shape[1])[:, None] + values.shape[1] * np.arange(values.shape[2])
        positions = np.broadcast_to(turns, values.shape)
    scenario, system, block = np.indices(values.shape).reshape(3, -1)
    names = np.array([f"c{i:05d}" for i in range(len(values))])
    columns = {
        "trial": np.arange(values.size).astype(str), "block": block, "position": positions.ravel(), "attempt": 0,
        "deployment": np.zeros(values.size, dtype=int) if deployment is None else np.asarray(deployment)[block],
        "system": np.asarray(systems)[system], "scenario": names[scenario], "value": values.ravel(),
        "session": "simulated", "study": "simulated", "site": "none", "workload": WORKLOAD, "factor": None,
        "level": np.nan, "metric": METRIC, "unit": "1/s", "better": "higher", "state": "ok", "reason": "",
        "started_utc": "2020-03-15T00:00:00.000Z", "duration_s": 1.0, "tool_s": 1.0,
    }  # fmt: skip
    frame = pd.DataFrame(columns)
    frame.loc[frame["value"].isna(), ["state", "metric", "unit", "better"]] = ["timeout", None, None, None]
    frame = frame[list(COLUMNS)].astype(DTYPES)
    return check(frame.sort_values(["scenario", "position"], kind="stable", ignore_index=True))


@generator
def swept(rng: Rng, replicates: int, rates: Sequence[float], most: float, n: int) -> PairedSamples:
    """Return mean times of two equal queues M/M/1 over offered rates: (replicates, n, levels) each.

    What they answer a second varies by 5 % from block to block for both, by 2 % for each; a trial's mean by 10 %. 1 s
    where a queue cannot follow.
    """
    levels, machine = np.asarray(rates), rng.normal(0, 0.05, (replicates, n))

    def one() -> Array:
        spare = most * np.exp(machine + rng.normal(0, 0.02, machine.shape))[..., None] - levels
        times = np.where(spare > 1, 1 / np.maximum(spare, 1), 1.0)
        return times * np.exp(rng.normal(0, 0.1, times.shape))

    return PairedSamples(one(), one())
