"""Variance by level of repetition: trials inside deployments inside sessions, and what each level adds.

Level 1 is the lowest (trials); the highest is the one that the result is to hold for, and only its repetitions are
independent. Kalibera and Jones, "Rigorous benchmarking in reasonable time", 2013.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from infrabench.core import DesignError
from infrabench.stats.arrays import sample
from infrabench.stats.intervals import NAN, Numbers


class OneWay(NamedTuple):
    """Variances of trials in deployments; `share` is the part between deployments of the variance of one trial."""

    within: Numbers
    between: Numbers  # may be negative: deployments differ less than their trials would make them
    size: Numbers  # the number of trials a deployment counts as having
    share: Numbers  # `between` at least 0


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


def one_way(values: ArrayLike, group: NDArray[np.int64], cell: NDArray[np.int64] | None = None) -> OneWay:
    """Return the variance within and between groups of unequal sizes, by the method of moments.

    `values`: (n,), any unit; `group`: (n,), labels; `cell`: (n,), 0 and up, then all results are (cells,), else floats.
    Analysis of variance with n0 = (n - sum n_i^2 / n) / (groups - 1) (Searle, Casella and McCulloch 1992, section
    3.6). NaN with one group or without a group of two; the share also where there is no variance.
    """
    values = sample(values)
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
