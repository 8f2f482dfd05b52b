"""Equivalence by two one-sided t tests: "no difference that matters" as a claim with an error rate.

Samples are (..., n): the last axis holds the trials, leading axes are cells; a margin is one number or one per cell.
Each test passes at 5 % exactly when its 90 % interval lies inside the margin (Schuirmann 1987).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from infrabench.stats.intervals import LEVEL, Interval
from infrabench.stats.pairwise import Moments, log_moments, paired_moments, welch_moments

NARROW = 2 * LEVEL - 1  # the 90 % interval that goes with two one-sided tests at 5 %
MOST_BLOCKS = 1_000_000


class Equivalence(NamedTuple):
    """An estimate, its 90 % interval and the p of "at least a margin away from no difference"."""

    estimate: Any
    interval: Interval
    p: Any


def tost_paired(x: ArrayLike, y: ArrayLike, margin: ArrayLike) -> Equivalence:
    """Return the test that the mean of x - y lies within +-`margin`, shape (...); x and y are paired by block.

    `x`, `y`: (..., n), `margin`: one number or (...), all of one unit. Schuirmann 1987, on the paired t. NaN below two
    pairs and when the differences have no spread.
    """
    return _test(paired_moments(x, y), margin)


def tost_welch(x: ArrayLike, y: ArrayLike, margin: ArrayLike) -> Equivalence:
    """Return the test that the difference of two independent means lies within +-`margin`, shape (...).

    `x`: (..., m), `y`: (..., n), `margin`: one number or (...), all of one unit. Schuirmann 1987, with Welch's standard
    error and degrees of freedom (1947). NaN below two values and when neither sample has any spread.
    """
    return _test(welch_moments(x, y), margin)


def tost_log_ratio(x: ArrayLike, y: ArrayLike, margin: ArrayLike) -> Equivalence:
    """Return the test that the ratio x / y lies within a relative `margin`, shape (...); estimate and ends are ratios.

    `x`, `y`: (..., n), one unit, paired; `margin`: one number or (...). Schuirmann 1987, on logs; the margin 0.02
    stands for 0.98 .. 1 / 0.98, which is symmetric in exchanging x and y. The ratio is that of the geometric means. NaN
    where a value is not positive, below two pairs, and without spread.
    """
    found = _test(log_moments(x, y), log_margin(margin))
    low, high, level = found.interval
    return Equivalence(np.exp(found.estimate), Interval(np.exp(low), np.exp(high), level), found.p)


def log_margin(margin: ArrayLike) -> Any:
    """Return a relative margin on the scale of log ratios, shape of `margin`: 0.02 means ratios of 0.98 .. 1 / 0.98.

    Infinite at 1, NaN above.
    """
    return -np.log1p(-np.asarray(margin, dtype=float))


def blocks_to_decide(sd: ArrayLike, margin: ArrayLike) -> Any:
    """Return the number of blocks at which no outcome is inconclusive, at this spread `sd` of the log ratios.

    An outcome is inconclusive when the 95 % interval holds 1 while the 90 % interval leaves the margin. That cannot
    happen once both half-widths together are no longer than the margin, whatever the difference turns out to be: the
    smallest such n, found by halving, shape of `sd` and `margin`. It does not lean on the observed difference. NaN
    where the spread is 0 or unknown, and where more than a million blocks would be needed.
    """
    sd, bound = np.broadcast_arrays(np.asarray(sd, dtype=float), log_margin(margin))
    known = np.isfinite(sd) & (sd > 0) & np.isfinite(bound)
    room = np.divide(bound, sd, out=np.zeros(sd.shape), where=known)
    low, high = np.ones(sd.shape), np.full(sd.shape, float(MOST_BLOCKS))
    while (high - low > 1).any():
        middle = np.maximum(np.floor((low + high) / 2), 2)
        widths = (special.stdtrit(middle - 1, (1 + LEVEL) / 2) + special.stdtrit(middle - 1, LEVEL)) / np.sqrt(middle)
        low, high = np.where(widths <= room, low, middle), np.where(widths <= room, middle, high)
    return np.where(known & (high < MOST_BLOCKS), high, np.nan)[()]


def _test(moments: Moments, margin: ArrayLike) -> Equivalence:
    estimate, error, df = moments
    with np.errstate(divide="ignore", invalid="ignore"):
        # the worse of both one-sided tests is the one on the side where the estimate lies
        p = special.stdtr(df, (np.abs(estimate) - margin) / error)
        half = special.stdtrit(df, (1 + NARROW) / 2) * error
    return Equivalence(estimate, Interval(estimate - half, estimate + half, NARROW), p)
