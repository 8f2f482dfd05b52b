"""Two modes in the values of a cell: how far apart the best two groups are, and where they lie.

Arrays have the shape (..., n): the last axis holds the values, the leading axes are cells.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from infrabench.stats.arrays import sample
from infrabench.stats.intervals import NAN, Array, Numbers, constant

SMALLEST = 3  # values in a group: two far values are outliers, not a mode
# n -> the d that 1 % of normal samples exceed, of 400 000 simulated samples each (lib/tests/unit/stats/null_tables.py)
CRITICAL = {
    6: 7.009, 7: 6.906, 8: 6.451, 9: 6.064, 10: 5.789, 11: 5.510, 12: 5.320, 13: 5.155, 14: 5.010,
    15: 4.876, 17: 4.669, 20: 4.440, 25: 4.157, 30: 3.964, 40: 3.714, 50: 3.555, 70: 3.365, 100: 3.220,
    200: 3.026, 500: 2.871, 1000: 2.802,
}  # fmt: skip
# d of an endless normal sample cut at its mean: halves 2 sqrt(2 / pi) apart, each of variance 1 - 2 / pi
ENDLESS = 2 * float(np.sqrt(2 / np.pi / (1 - 2 / np.pi)))


class Split(NamedTuple):
    """The best two groups of a cell; `d` is how many pooled standard deviations their means are apart."""

    d: Numbers
    low: Numbers
    high: Numbers
    share: Numbers  # of the values that are in the lower group
    boundary: Numbers  # halfway between the groups


def split(x: ArrayLike) -> Split:
    """Return the split into two groups of at least three values with the least sum of squares within them.

    `x`: (..., n), any unit; `low`, `high` and `boundary` have that unit. One-dimensional 2-means, found exactly
    (Fisher 1958): d = (mean of the upper group - mean of the lower) / pooled standard deviation with n - 2 degrees of
    freedom. d is infinite when each group repeats one value. NaN below six values or without spread.
    """
    x = sample(x)
    n = x.shape[-1]
    if n < 2 * SMALLEST:
        none = np.full(x.shape[:-1], NAN)[()]
        return Split(none, none, none, none, none)
    ordered = np.sort(x, axis=-1)
    sums = np.cumsum(ordered - ordered.mean(axis=-1, keepdims=True), axis=-1)[..., SMALLEST - 1 : n - SMALLEST]
    sizes = np.arange(SMALLEST, n - SMALLEST + 1)
    # the centred sums of both groups are opposite, so the squares between them are s^2 (1/k + 1/(n - k))
    size = sizes[np.argmax(sums**2 / (sizes * (n - sizes)), axis=-1)]
    lower = np.arange(n) < size[..., None]
    low, low_squares = _group(ordered, lower)
    high, high_squares = _group(ordered, ~lower)
    with np.errstate(divide="ignore", invalid="ignore"):
        d = (high - low) / np.sqrt((low_squares + high_squares) / (n - 2))
    last = np.take_along_axis(ordered, size[..., None] - 1, axis=-1)[..., 0]
    first = np.take_along_axis(ordered, size[..., None], axis=-1)[..., 0]
    parts = (d, low, high, size / n, (last + first) / 2)
    return Split(*(np.where(constant(x), NAN, part)[()] for part in parts))


def split_log(x: ArrayLike) -> Numbers:
    """Return d of `split` for the logarithms, shape (...); lognormal values are one group on that scale.

    `x`: (..., n), any unit. Two-means as in `split` (Fisher 1958). NaN where `split` has none and for a cell with a
    value that is not positive.
    """
    x = sample(x)
    positive = (x > 0).all(axis=-1)
    return np.where(positive, split(np.log(np.where(x > 0, x, 1.0))).d, NAN)[()]


def critical_split(n: int) -> float:
    """Return the d that 1 % of normal samples of `n` exceed: simulated, linear in 1 / sqrt(n) between `CRITICAL`.

    Beyond the largest size it goes to `ENDLESS`. NaN below six.
    """
    if n < min(CRITICAL):
        return NAN
    sizes = np.array(list(CRITICAL), dtype=float)
    return float(np.interp(-1 / np.sqrt(n), [*(-1 / np.sqrt(sizes)), 0.0], [*CRITICAL.values(), ENDLESS]))


def bimodal(x: ArrayLike) -> NDArray[np.bool_]:
    """Return whether a cell is flagged bimodal: the split exceeds its critical value raw and on logarithms.

    `x`: (..., n). Strong skew alone makes one of the two scales fire. At n = 30, 0.9 % of normal and 2.5 % of
    exponential cells are flagged, and 88 % of those with one value in five 5 standard deviations away. False below six
    values, without spread, or where a value is not positive.
    """
    x = sample(x)
    critical = critical_split(x.shape[-1])
    with np.errstate(invalid="ignore"):
        return (split(x).d > critical) & (split_log(x) > critical)


def mode_by_deployment(values: ArrayLike, deployment: NDArray[np.int64], boundary: float) -> str:
    """Return "constant" when every deployment keeps to one side of `boundary`, else "varies"; "" with one deployment.

    `values`, `deployment`: (n,), the value and the label of its deployment. A constant mode says that the deployment is
    the cause; a varying one that something changes while it runs.
    """
    values = sample(values)
    labels = np.unique(deployment)
    if labels.size < 2:
        return ""
    upper = values > boundary
    mixed = any(np.unique(upper[deployment == label]).size > 1 for label in labels)
    return "varies" if mixed else "constant"


def _group(ordered: Array, member: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Mean and sum of squares of the members, exactly 0 for a group that repeats one value."""
    count = member.sum(axis=-1)
    mean = np.where(member, ordered, 0.0).sum(axis=-1) / count
    squares = (np.where(member, ordered - mean[..., None], 0.0) ** 2).sum(axis=-1)
    smallest = np.where(member, ordered, np.inf).min(axis=-1)
    same = smallest == np.where(member, ordered, -np.inf).max(axis=-1)
    return np.where(same, smallest, mean), np.where(same, 0.0, squares)
