"""The mean of a count or of a share, with an interval that stays where a count or a share can be.

Student's t of the few events of some trials reaches below 0, and has no width where no event was seen. The intervals
here are exact where events are independent, and where they come in clusters they are those of as many independent
events as say the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from infrabench.stats.counts import clopper_pearson, poisson_interval
from infrabench.stats.events import COUNT, DISPERSED, LEAST_BLOCKS, SHARE
from infrabench.stats.intervals import LEVEL, NAN, Array

GARWOOD, CLOPPER_PEARSON = "Garwood, counts", "Clopper-Pearson, shares"
EFFECTIVE = "{method}, effective number over {unit}"
TRIALS, DEPLOYMENTS = "trials", "deployments"


class Means(NamedTuple):
    """Mean of each cell, ends of its interval (NaN: none), and by what method, shape (cells,)."""

    mean: Array
    low: Array
    high: Array
    method: NDArray[np.object_]


class Parts(NamedTuple):
    """What each cell counted: (cells,) all."""

    n: Array  # trials
    total: Array  # events, or the sum of the shares in 0 .. 1
    units: Array  # trials, or deployments where there are several
    square: Array  # sum over the units of (events - expected)^2
    trial_p: Array  # of trials that vary no more than chance
    unit_p: Array  # of deployments that do; NaN where trials are the units


def largest(kind: NDArray[np.object_], unit: Sequence[str]) -> Array:
    """Return the largest that a metric can be, shape of `kind`: of a share 1 or 100 (`unit` is %), of a count infinite.

    NaN for what is neither.
    """
    shares = np.where(np.asarray(unit, dtype=object) == "%", 100.0, 1.0)
    return np.select([kind == COUNT, kind == SHARE], [np.inf, shares], default=NAN)


def event_means(values: Array, cell: NDArray[np.intp], unit: NDArray[np.intp], top: Array) -> Means:
    """Return the mean a trial of counts, and the mean of shares, with 95 % intervals.

    `values`, `cell`, `unit`: (trials,); cells are numbered from 0 and have a trial each, a unit is of one cell: the
    trial, or its deployment where the cell has several. `top`: (cells,), of `largest`, not NaN.

    Counts of independent events have Garwood's interval (1936), shares of single trials (each 0 or 1) Clopper and
    Pearson's (1934). Where events vary more than chance explains (`counts.dispersion_p` below `events.DISPERSED`,
    between trials or between deployments), where fewer than `events.LEAST_BLOCKS` trials cannot show it, and of shares
    inside trials, the same interval is taken at the number of events, or of tries, that independent ones would need
    for the variance that is seen between units, reduced by (z / t)^2 for its degrees of freedom: Korn and Graubard
    1998 (Survey Methodology 24:193-201), who do it for shares. No event in n trials gives 0 and an upper end alone
    (3.7 / n; of shares, also inside trials, 1 - 0.025^(1/n), for a trial without any event has at most the chance
    1 - share). Simulated with 10 trials, Poisson counts are covered in 95 to 99 % (by Student's t in 39 % where one
    trial of 20 has an event), counts of variance three times the mean in 94 to 95 %; of very rare and large clusters
    ten trials may show none, and then no interval covers. No interval: of one unit, and of shares
    inside trials that are all alike.
    """
    cells, share = len(top), np.isfinite(top)
    top = np.where(share, top, 1.0)
    scaled = values / top[cell]
    of_trials = share & (top == 1) & (np.bincount(cell, (scaled != 0) & (scaled != 1), cells) == 0)
    found = _parts(scaled, cell, unit, of_trials)
    rate = found.total / found.n
    p = np.fmin(np.where(share, NAN, found.trial_p), found.unit_p)
    clustered = (p < DISPERSED) | (found.n < LEAST_BLOCKS) | (share & ~of_trials)
    clustered &= (found.total > 0) & ~(share & (found.total == found.n))  # an edge shows no spread
    weight = _worth(found, rate, share)
    weight = np.where(share & ~of_trials, weight, np.minimum(weight, 1.0))  # NaN stays
    # independent events, or tries, that say as much: no more than there were, where they were counted
    size = np.where(share, found.n, found.total) * np.where(clustered, weight, 1.0)
    low, high = (np.full(cells, NAN) for _ in range(2))
    some = (found.units > 1) & np.isfinite(size)
    for chosen, shares in ((some & ~share, False), (some & share, True)):
        if chosen.any():
            low[chosen], high[chosen] = _ends(size[chosen], rate[chosen], found.n[chosen], shares=shares)
    method = np.where(share, CLOPPER_PEARSON, GARWOOD).astype(object)
    over = np.where(found.units < found.n, DEPLOYMENTS, TRIALS)
    for at in np.flatnonzero(clustered):
        method[at] = EFFECTIVE.format(method=method[at], unit=over[at])
    method[~some] = ""
    return Means(rate * top, low * top, high * top, method)


def _ends(size: Array, rate: Array, n: Array, *, shares: bool) -> tuple[Array, Array]:
    """The ends of the interval of a rate that rests on `size` events (or tries, of shares)."""
    if shares:
        ends = clopper_pearson(size * rate, size)
        return np.asarray(ends.low), np.asarray(ends.high)
    # the exposure that gives the rate; that of all trials where there is no event
    exposure = np.divide(size, rate, out=n.copy(), where=rate > 0)
    found = poisson_interval(size, exposure)
    return np.asarray(found.low), np.asarray(found.high)


def _parts(values: Array, cell: NDArray[np.intp], unit: NDArray[np.intp], of_trials: NDArray[np.bool_]) -> Parts:
    cells = len(of_trials)
    n, total = (np.bincount(cell, weights, cells).astype(float) for weights in (None, values))
    rate = total / n
    _, first, unit = np.unique(unit, return_index=True, return_inverse=True)
    of = cell[first]
    size, sums = (np.bincount(unit, weights).astype(float) for weights in (None, values))
    units = np.bincount(of, minlength=cells).astype(float)
    square = np.bincount(of, (sums - size * rate[of]) ** 2, cells)
    chance = rate * np.where(of_trials, 1 - rate, 1.0)  # variance of one trial
    between = np.bincount(of, (sums - size * rate[of]) ** 2 / size, cells)
    within = np.bincount(cell, (values - rate[cell]) ** 2, cells)
    trial_p = _dispersion(within, chance, n - 1)
    unit_p = np.where(units < n, _dispersion(between, chance, units - 1), NAN)
    return Parts(n, total, units, square, trial_p, unit_p)


def _dispersion(square: Array, variance: Array, df: Array) -> Array:
    """Fisher's index of dispersion (1925) of each cell, as `counts.dispersion_p`; NaN where there is none."""
    there = (variance > 0) & (df > 0)
    ratio = np.divide(square, variance, out=np.zeros(square.shape), where=there)
    return np.where(there, stats.chi2.sf(ratio, np.maximum(df, 1)), NAN)


def _worth(found: Parts, rate: Array, share: NDArray[np.bool_]) -> Array:
    """How many independent events each event is worth (tries, of shares); NaN where units show no spread."""
    df = np.maximum(found.units - 1, 1)
    variance = found.square * found.units / df  # of the sum of all units
    chance = found.n * rate * np.where(share, 1 - rate, 1.0)
    level = (1 + LEVEL) / 2
    weight = np.divide(chance, variance, out=np.full(rate.shape, NAN), where=variance > 0)
    weight *= (special.ndtri(level) / special.stdtrit(df, level)) ** 2
    return weight
