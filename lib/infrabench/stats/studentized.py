"""The distribution of the studentised range for whole arrays: tail probability and quantile.

scipy integrates each value adaptively, which takes milliseconds a value. Here the range of k normals is tabulated once
for each k, and the integral over the spread is a trapezoid sum in its logarithm, where it converges exponentially.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import interpolate, special
from scipy.optimize import elementwise

WIDEST = 16.0  # no range of fewer than 1 000 standard normals is wider, to 1e-16
STEP = 0.01
NODES = 160
CHUNK = 2**13  # values at a time
SMALLEST = 1e-11


def sf(q: ArrayLike, k: int, df: ArrayLike = np.inf) -> Any:
    """Return P(Q > q) for the studentised range Q of `k` means with `df` degrees of freedom, broadcast shape.

    Absolute error below 1e-9 for df >= 1, against adaptive integration; `df` may be infinite. NaN where `q` or `df`
    is. The double integral is that of Copenhaver and Holland 1988.
    """
    q, df = np.broadcast_arrays(np.asarray(q, dtype=float), np.asarray(df, dtype=float))
    found = np.full(q.shape, np.nan)
    usable = ~(np.isnan(q) | np.isnan(df))
    endless = usable & np.isinf(df)
    found[endless] = 1 - _range_cdf(k)(np.clip(q[endless], 0, WIDEST))
    rest = np.flatnonzero((usable & ~endless).ravel())
    for start in range(0, rest.size, CHUNK):
        some = rest[start : start + CHUNK]
        found.ravel()[some] = _tail(q.ravel()[some], k, df.ravel()[some])
    return found[()]


def ppf(level: float, k: int, df: ArrayLike = np.inf) -> Any:
    """Return the quantile q with P(Q <= q) = `level`, shape of `df`, by root finding on `sf`; NaN where `df` is.

    `level` is inside (0, 1).
    """
    df = np.asarray(df, dtype=float)
    values, where = np.unique(df, return_inverse=True)
    top = np.full(values.shape, 8.0)
    while (low := sf(top, k, values) > 1 - level).any():
        top = np.where(low, 2 * top, top)
    found = elementwise.find_root(lambda q, v: sf(q, k, v) - (1 - level), (np.zeros_like(top), top), args=(values,))
    return np.where(np.isnan(df), np.nan, found.x[where].reshape(df.shape))[()]


def _tail(q: Any, k: int, df: Any) -> Any:
    """Mean of P(R > q s) over the spread s = sqrt(chi2 / df): a sum over log s between its extreme quantiles."""
    low = np.log(2 * special.gammaincinv(df / 2, SMALLEST) / df) / 2
    high = np.log(2 * special.gammainccinv(df / 2, SMALLEST) / df) / 2
    u = low + (high - low) * np.linspace(0, 1, NODES)[:, None]
    density = np.exp(df * (u - np.exp(2 * u) / 2 + 0.5))  # up to a factor, which the division takes out
    weight = density / density.sum(axis=0)
    return (weight * (1 - _range_cdf(k)(np.clip(q * np.exp(u), 0, WIDEST)))).sum(axis=0)


@lru_cache(maxsize=64)
def _range_cdf(k: int) -> interpolate.CubicSpline:
    """P(range of `k` standard normals <= w) = k times the integral of phi(z) (Phi(z + w) - Phi(z))^(k - 1)."""
    w = np.arange(0, WIDEST + STEP, STEP)
    z = np.arange(-9, 9, 0.1)[:, None]
    inside = special.ndtr(z + w) - special.ndtr(z)
    return interpolate.CubicSpline(
        w, 0.1 * k * (np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) * inside ** (k - 1)).sum(axis=0)
    )
