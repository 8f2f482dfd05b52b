"""Data whose truth is known. Each function returns a generator: random stream, replicates -> arrays.

The last axis holds the trials of one sample, in executed order; the first axis holds the replicates. `campaigns_table`
makes a tidy table of many simulated campaigns, so that they go through the same code as a recorded session.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import optimize, stats

from infrabench.analysis.tidy import COLUMNS, DTYPES, check

Array = NDArray[np.float64]
Rng = np.random.Generator
One = Callable[[Rng, tuple[int, ...]], Array]
METRIC = "events_per_s"
WORKLOAD = "simulated"


class Shape(NamedTuple):
    """A distribution to draw from, with its true mean and median."""

    name: str
    draw: One
    mean: float
    median: float


class PairedSamples(NamedTuple):
    """Two samples of equal shape; element i of both is the same block where they are paired."""

    x: Array
    y: Array


def normal(mean: float = 0.0, sd: float = 1.0) -> Shape:
    """Return a normal shape."""
    return Shape("normal", lambda rng, size: rng.normal(mean, sd, size), mean, mean)


def lognormal(sigma: float, median: float = 1.0) -> Shape:
    """Return a lognormal shape; its geometric mean is its median."""
    mean = median * float(np.exp(sigma**2 / 2))
    return Shape(
        f"lognormal sigma {sigma:g}", lambda rng, size: median * np.exp(rng.normal(0, sigma, size)), mean, median
    )


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


def sample(shape: Shape, n: int) -> Callable[[Rng, int], Array]:
    """Return samples of `n` from a shape: (replicates, n)."""
    return lambda rng, replicates: shape.draw(rng, (replicates, n))


def blocked(systems: int, blocks: int, block_sd: float) -> Callable[[Rng, int], Array]:
    """Return (replicates, systems, blocks): identical systems, residual sd 1, and what each block did to all."""
    return lambda rng, replicates: (
        100 + rng.normal(0, block_sd, (replicates, 1, blocks)) + rng.normal(0, 1, (replicates, systems, blocks))
    )


def pair(
    ratio: float, covs: tuple[float, float], n: int, correlation: float = 0.0
) -> Callable[[Rng, int], PairedSamples]:
    """Return a system and a baseline of mean 100, the system `ratio` times it; `covs`: relative spreads."""

    def generate(rng: Rng, replicates: int) -> PairedSamples:
        shared, own, other = rng.normal(size=(3, replicates, n))
        a, b = np.sqrt(correlation), np.sqrt(1 - correlation)
        x, y = a * shared + b * own, a * shared + b * other
        return PairedSamples(100 * ratio * (1 + covs[0] * x), 100 * (1 + covs[1] * y))

    return generate


def skewed(ratio: float, sigma: float, n: int) -> Callable[[Rng, int], PairedSamples]:
    """Return a lognormal system whose mean is `ratio` times that of its baseline, which is normal with a CoV of 2 %."""
    shape = lognormal(sigma)

    def generate(rng: Rng, replicates: int) -> PairedSamples:
        x = shape.draw(rng, (replicates, n))
        return PairedSamples(ratio / shape.mean * x, rng.normal(1, 0.02, (replicates, n)))

    return generate


def in_blocks(d: float, n: int) -> Callable[[Rng, int], PairedSamples]:
    """Return paired positive values whose blocks move both alike, and ten times as far as what tells the two apart.

    The log ratios are normal with mean `d` times their SD; the first is above in `above_at(d)` of the pairs.
    """

    def generate(rng: Rng, replicates: int) -> PairedSamples:
        block, own = rng.normal(size=(2, replicates, n))
        below = np.exp(0.1 * block)
        return PairedSamples(below * np.exp(0.01 * (d + own)), below)

    return generate


def above_at(d: float) -> float:
    """Return the share of pairs in which the first is above, at a paired effect `d` of normal log ratios."""
    return float(stats.norm.cdf(d))


def ar1(phi: float, n: int) -> Callable[[Rng, int], Array]:
    """Return stationary first-order autoregressive series of mean 0 and variance 1."""
    return lambda rng, replicates: _ar1(rng, (replicates, n), phi)


def trend(total_sd: float, n: int) -> Callable[[Rng, int], Array]:
    """Return normal noise of sd 1 on a straight line that rises by `total_sd` from first to last trial."""
    return lambda rng, replicates: rng.normal(size=(replicates, n)) + np.linspace(0, total_sd, n)


def pooled(runs: int, inside: int, icc: float) -> Callable[[Rng, int], Array]:
    """Return (replicates, runs x inside): samples inside runs, with an intra-run correlation, as one flat sample."""

    def generate(rng: Rng, replicates: int) -> Array:
        run = rng.normal(0, np.sqrt(icc), (replicates, runs, 1))
        return (run + rng.normal(0, np.sqrt(1 - icc), (replicates, runs, inside))).reshape(replicates, runs * inside)

    return generate


def deployed(deployments: int, runs: int, between_sd: float) -> Callable[[Rng, int], Array]:
    """Return (replicates, 2, deployments x runs): identical systems, each deployed anew so often; run sd 1."""

    def generate(rng: Rng, replicates: int) -> Array:
        fresh = rng.normal(0, between_sd, (replicates, 2, deployments, 1))
        values = 100 + fresh + rng.normal(0, 1, (replicates, 2, deployments, runs))
        return values.reshape(replicates, 2, deployments * runs)

    return generate


# What the host does over the time slots of a campaign, in units of the mean: (replicates, slots).
ENVIRONMENTS: dict[str, Callable[[Rng, int, int], Array]] = {
    "no drift": lambda rng, replicates, slots: np.zeros((replicates, slots)),
    "linear drift of 1 %": lambda rng, replicates, slots: _line(0.01, replicates, slots),
    "linear drift of 3 %": lambda rng, replicates, slots: _line(0.03, replicates, slots),
    "one 2 % step at a random time": lambda rng, replicates, slots: (
        0.02 * (np.arange(slots) >= rng.integers(1, slots, (replicates, 1)))
    ),
    "AR(1), phi 0.9, sd 1 %": lambda rng, replicates, slots: 0.01 * _ar1(rng, (replicates, slots), 0.9),
    "slow sinus, 2 % peak to peak": lambda rng, replicates, slots: (
        0.01 * np.sin(2 * np.pi * (np.arange(slots) / slots + rng.random((replicates, 1))))
    ),
}


def campaigns(environment: str, blocks: int, *, sequential: bool = False) -> Callable[[Rng, int], Campaigns]:
    """Return campaigns of two identical systems, run noise CoV 1 %, in a drifting environment.

    Each block holds both systems in random order; `sequential`: all trials of the first, then all of the second.
    """

    def generate(rng: Rng, replicates: int) -> Campaigns:
        slots = 2 * blocks
        if sequential:
            order = np.broadcast_to(np.arange(slots).reshape(2, blocks), (replicates, 2, blocks))
        else:
            first = rng.integers(0, 2, (replicates, 1, blocks))
            order = 2 * np.arange(blocks) + np.concatenate([first, 1 - first], axis=1)
        host = ENVIRONMENTS[environment](rng, replicates, slots)
        seen = np.take_along_axis(host[:, None, :], order, axis=2)
        return Campaigns(100 * (1 + seen + rng.normal(0, 0.01, order.shape)), order)

    return generate


class Campaigns(NamedTuple):
    """Values and executed positions of campaigns: (replicates, systems, blocks)."""

    values: Array
    positions: NDArray[np.int64]


def campaigns_table(
    values: NDArray[np.float64],
    systems: Sequence[str],
    *,
    positions: NDArray[np.int64] | None = None,
    deployment: NDArray[np.int64] | None = None,
) -> pd.DataFrame:
    """Return the tidy table of `values` (campaigns, systems, blocks): campaign i is the scenario ``c<i>``.

    Parameters
    ----------
    values
        One number for each trial; NaN for one that timed out.
    systems
        Names along the second axis.
    positions
        Executed order inside each campaign, same shape as `values`; by default systems take turns in each block.
    deployment
        Deployment of each block; by default all are 0.

    Raises
    ------
    SchemaError
        A value is infinite.
    """
    many, systems_n, blocks = values.shape
    if positions is None:
        positions = np.broadcast_to(np.arange(systems_n)[:, None] + systems_n * np.arange(blocks), values.shape)
    scenario, system, block = np.indices(values.shape).reshape(3, -1)
    names = np.array([f"c{i:05d}" for i in range(many)])
    columns = {
        "trial": np.arange(values.size).astype(str),
        "block": block,
        "position": positions.ravel(),
        "deployment": np.zeros(values.size, dtype=int) if deployment is None else np.asarray(deployment)[block],
        "attempt": 0,
        "system": np.asarray(systems)[system],
        "scenario": names[scenario],
        "value": values.ravel(),
    }
    fixed = {
        "session": "simulated", "study": "simulated", "site": "none", "workload": WORKLOAD, "factor": None,
        "level": np.nan, "metric": METRIC, "unit": "1/s", "better": "higher", "state": "ok", "reason": "",
        "started_utc": "2020-03-15T00:00:00.000Z", "duration_s": 1.0, "tool_s": 1.0,
    }  # fmt: skip
    frame = pd.DataFrame(columns).assign(**fixed)
    frame.loc[frame["value"].isna(), ["state", "metric", "unit", "better"]] = ["timeout", None, None, None]
    frame = frame[list(COLUMNS)].astype(DTYPES)
    return check(frame.sort_values(["scenario", "position"], kind="stable", ignore_index=True))


def _line(total: float, replicates: int, slots: int) -> Array:
    return np.broadcast_to(np.linspace(0, total, slots), (replicates, slots))


def _ar1(rng: Rng, size: tuple[int, ...], phi: float) -> Array:
    noise = rng.normal(size=size)
    series = np.empty(size)
    series[..., 0] = noise[..., 0]
    for i in range(1, size[-1]):
        series[..., i] = phi * series[..., i - 1] + np.sqrt(1 - phi**2) * noise[..., i]
    return series
