"""Variance by level of repetition: trials inside deployments inside sessions, and what each level adds.

Level 1 is the lowest (trials); the highest is the one that the result is to hold for, and only its repetitions are
independent. Kalibera and Jones, "Rigorous benchmarking in reasonable time", 2013.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from infrabench.core import DesignError
from infrabench.stats.intervals import LEVEL, NAN, Array, Estimate, Interval, Numbers, interval

CELL = ["workload", "scenario", "metric", "system"]
WHERE = ["session", "deployment"]
RESAMPLES = 9_999
SEED = 2013


class Levels(NamedTuple):
    """Of a balanced experiment: its mean with the interval of the highest level, and variances, lowest level first."""

    mean: float
    interval: Interval
    s2: tuple[float, ...]  # variance of the means of one level inside the next, averaged: biased by the levels below
    t2: tuple[float, ...]  # what the level itself adds, without bias; negative: no variance at that level


class OneWay(NamedTuple):
    """Variances of trials in deployments; `share` is the part between deployments of the variance of one trial."""

    within: Numbers
    between: Numbers  # may be negative: deployments differ less than their trials would make them
    size: Numbers  # the number of trials a deployment counts as having
    share: Numbers  # `between` at least 0


def levels(x: Array, level: float = LEVEL) -> Levels:
    """Return mean, interval and variance components of a balanced experiment (Kalibera and Jones 2013).

    `x`: (r_n, ..., r_1), the repetitions of the highest level first. S_i^2 is the variance of the means at level i;
    T_1^2 = S_1^2 and T_i^2 = S_i^2 - S_(i-1)^2 / r_(i-1); the interval is t(r_n - 1) sqrt(S_n^2 / r_n). NaN for a level
    with one repetition, and for the interval without spread at the highest level.
    """
    s2, means = [], x.astype(float)
    for _ in range(x.ndim):
        with np.errstate(invalid="ignore", divide="ignore"):
            enough = means.shape[-1] > 1
            s2.append(float(means.var(axis=-1, ddof=1).mean()) if enough else NAN)
        means = means.mean(axis=-1)
    below = [0.0, *(s / r for s, r in zip(s2, x.shape[::-1], strict=True))]
    top = x.shape[0]
    half = special.stdtrit(max(top - 1, 1), (1 + level) / 2) * np.sqrt(s2[-1] / top)
    mean = float(means)
    ends = interval(mean - half, mean + half, level, np.asarray(s2[-1] > 0))
    return Levels(mean, ends, tuple(s2), tuple(s - b for s, b in zip(s2, below[:-1], strict=True)))


def repetitions(t2: Sequence[float], costs: Sequence[float]) -> tuple[float, ...]:
    """Return the most economical numbers of repetitions r_1 .. r_(n-1) of all levels but the highest.

    `t2`: T_i^2 and `costs`: of one repetition, both lowest level first. r_i = sqrt(c_(i+1) / c_i T_i^2 / T_(i+1)^2)
    (Kalibera and Jones 2013, as corrected by its authors), not rounded: take the ceiling. 1 where level i has no
    variance; infinite where only the level above has none: repeat there as often as fits. Raises `DesignError` when
    the two differ in length or a cost is not positive.
    """
    if len(t2) != len(costs) or min(costs, default=0) <= 0:
        raise DesignError(f"{len(t2)} variances and costs {list(costs)}: give one positive cost to each level")
    pairs = zip(t2, t2[1:], costs, costs[1:], strict=False)
    return tuple(
        1.0 if here <= 0 else float("inf") if above <= 0 else float(np.sqrt(dear / cheap * here / above))
        for here, above, cheap, dear in pairs
    )


def one_way(values: Array, group: NDArray[np.int64], cell: NDArray[np.int64] | None = None) -> OneWay:
    """Return the variance within and between groups of unequal sizes, by the method of moments.

    `values`: (n,), any unit; `group`: (n,), labels; `cell`: (n,), 0 and up, then all results are (cells,), else floats.
    Analysis of variance with n0 = (n - sum n_i^2 / n) / (groups - 1) (Searle, Casella and McCulloch 1992, section
    3.6). NaN with one group or without a group of two; the share also where there is no variance.
    """
    if cell is None and not values.size:
        return OneWay(NAN, NAN, NAN, NAN)
    cells = np.zeros(values.size, dtype=np.int64) if cell is None else cell
    _, label = np.unique(group, return_inverse=True)
    own = cells * (label.max(initial=0) + 1) + label  # a group is one of its cell alone
    _, first, unit = np.unique(own, return_index=True, return_inverse=True)
    of_unit, size = cells[first], np.bincount(unit)
    trials, units = np.bincount(cells), np.bincount(of_unit)
    with np.errstate(divide="ignore", invalid="ignore"):
        # distances from a value of the cell: no square is much larger than the spread, and equal values are exactly 0
        off = values - values[np.unique(cells, return_index=True)[1]][cells]
        means, centre = np.bincount(unit, off) / size, (np.bincount(cells, off) / trials)[of_unit]
        within = np.bincount(cells, (off - means[unit]) ** 2) / (trials - units)
        n0 = (trials - np.bincount(of_unit, size**2) / trials) / (units - 1)
        between = (np.bincount(of_unit, size * (means - centre) ** 2) / (units - 1) - within) / n0
        share = np.maximum(between, 0.0) / (within + np.maximum(between, 0.0))
    exists = (units > 1) & (trials > units)
    found = (np.where(exists, each, NAN) for each in (within, between, n0, share))
    return OneWay(*found) if cell is not None else OneWay(*(float(each[0]) for each in found))


def by_deployment(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per cell, session and deployment: the number of its values and their mean, the datum of one."""
    ok = table[table["value"].notna()]
    grouped = ok.groupby([*CELL, *WHERE], observed=True)["value"].agg(["size", "mean"]).reset_index()
    return grouped.rename(columns={"size": "n"}).astype({"n": "int64", "mean": "float64"})


def components(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per cell: trials, deployments and the variances within and between them (`one_way`).

    ``sd_within`` and ``sd_between`` in the metric's unit; ``between_share``: of the variance of one trial. NaN for a
    cell of one deployment.
    """
    ok = table[table["value"].notna()]
    cells = ok.groupby(CELL, observed=True)
    frame = cells.size().rename("n").reset_index()
    where = ok.groupby(WHERE).ngroup()
    cell = cells.ngroup()
    frame["deployments"] = where.groupby(cell).nunique()
    found = one_way(ok["value"].to_numpy(dtype=float), where.to_numpy(), cell.to_numpy())
    frame["sd_within"], frame["sd_between"] = np.sqrt(found.within), np.sqrt(np.maximum(found.between, 0.0))
    frame["between_share"] = found.share
    types = dict.fromkeys(CELL, "str") | dict.fromkeys(("n", "deployments"), "int64")
    return frame.astype(types | dict.fromkeys(("sd_within", "sd_between", "between_share"), "float64"))


def hierarchical_ratio(
    x: Array,
    y: Array,
    group: NDArray[np.int64],
    level: float = LEVEL,
    *,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Estimate:
    """Return the ratio of the means of deployment means, x over y, with a percentile interval over both levels.

    `x`, `y`: (n,), paired by block, one unit; `group`: (n,), the deployment of each block. Deployments are drawn with
    replacement, then blocks inside each (Davison and Hinkley 1997, section 3.8; Kalibera and Jones 2013). Approximate:
    with few deployments it is too short. NaN ends with fewer than two deployments, without spread, and where a
    resampled baseline may have the mean 0.
    """
    labels = np.unique(group)
    inside = [np.flatnonzero(group == label) for label in labels]
    means = np.array([[x[rows].mean(), y[rows].mean()] for rows in inside]).reshape(-1, 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(np.divide(*means.mean(axis=0))) if labels.size else NAN
    if labels.size < 2:
        return Estimate(value, Interval(NAN, NAN, NAN))
    rng = np.random.default_rng(seed)
    drawn = rng.integers(labels.size, size=(resamples, labels.size))
    sums = np.zeros((resamples, 2))
    for label, rows in enumerate(inside):
        session, _ = np.nonzero(drawn == label)
        chosen = rows[rng.integers(rows.size, size=(session.size, rows.size))]
        for side, values in enumerate((x, y)):
            sums[:, side] += np.bincount(session, values[chosen].mean(axis=1), minlength=resamples)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = sums[:, 0] / sums[:, 1]
    low, high = np.quantile(ratios, [(1 - level) / 2, (1 + level) / 2])
    bounded = bool((sums[:, 1] > 0).all() or (sums[:, 1] < 0).all())
    return Estimate(value, interval(low, high, level, np.asarray(bounded and low < high)))
