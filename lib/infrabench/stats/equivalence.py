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


def _test(moments: Moments, margin: ArrayLike) -> Equivalence:
    estimate, error, df = moments
    with np.errstate(divide="ignore", invalid="ignore"):
        # the worse of both one-sided tests is the one on the side where the estimate lies
        p = special.stdtr(df, (np.abs(estimate) - margin) / error)
        half = special.stdtrit(df, (1 + NARROW) / 2) * error
    return Equivalence(estimate, Interval(estimate - half, estimate + half, NARROW), p)
