"""How finely a metric was printed, and whether that limits what can be said: arrays in, arrays out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from infrabench.stats.intervals import NAN, Array, Interval, Numbers

DIGITS = 12  # significant digits; a value that needs more was not printed but computed
ROUNDING = 8 * np.finfo(float).eps  # relative error that reading, scaling and subtracting may leave in a printed value
QUARTER = 0.25


def resolution_step(x: Array) -> Numbers:
    """Return the printing step: the largest number of which all values of a cell are whole multiples.

    `x`: (..., n); the step has the unit of `x`. Values are taken as decimals of twelve significant digits (of the
    largest), so 941.37 Mbit/s in bit/s has a step of 10 000, and 3 KiB, 5 KiB in bytes one of 1024. NaN when a value is
    not such a decimal (it was computed, not printed), when all are 0 and when there are none.
    """
    if x.shape[-1] == 0:
        return np.full(x.shape[:-1], NAN)[()]
    largest = np.abs(x).max(axis=-1, keepdims=True)
    exists = (largest > 0) & np.isfinite(largest)
    decimals = DIGITS - 1 - np.floor(np.log10(np.where(exists, largest, 1.0)))
    # powers of ten are exact up to 10^22, so scale by whichever of the two powers is a whole number
    up, down = 10.0 ** np.maximum(decimals, 0), 10.0 ** np.maximum(-decimals, 0)
    scaled = np.where(exists, x, 0.0) * up / down
    whole = np.rint(scaled)
    printed = (np.abs(scaled - whole) <= ROUNDING * np.abs(scaled)).all(axis=-1)
    divisor = np.gcd.reduce(whole.astype(np.int64), axis=-1)
    step = divisor * down[..., 0] / up[..., 0]
    return np.where(printed & exists[..., 0], step, NAN)[()]


def resolution_limited(step: Numbers, sd: Numbers, difference: Numbers = NAN) -> NDArray[np.bool_]:
    """Return whether the printing step exceeds a quarter of the standard deviation or of the difference.

    All of one unit; their broadcast shape. What is NaN is not compared, so an unknown step limits nothing.
    """
    with np.errstate(invalid="ignore"):
        return (step > QUARTER * np.asarray(sd)) | (step > QUARTER * np.abs(difference))


def undithered(step: Numbers, sd: Numbers) -> NDArray[np.bool_]:
    """Return whether the standard deviation is below half a printing step, so that means keep what rounding did.

    One unit; their broadcast shape. From there on rounding acts as dither: at half a step its largest bias of a mean is
    0.0023 of a step. What is NaN is not compared.
    """
    with np.errstate(invalid="ignore"):
        return np.asarray(sd) < np.asarray(step) / 2


def widened(interval: Interval, step: Numbers, where: NDArray[np.bool_]) -> Interval:
    """Return the interval with half a printing step added on each side `where` it is undithered; NaN stays NaN.

    `step`, `where`: (...), the shape of the ends, and `step` in their unit. Each printed value may be off by half a
    step, all of them to the same side, hence so may their mean.
    """
    half = np.where(where, np.asarray(step) / 2, 0.0)
    return Interval((interval.low - half)[()], (interval.high + half)[()], interval.level)
