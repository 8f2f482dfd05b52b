"""Ratios of means to a baseline with their intervals: arrays in, arrays out.

Paired samples have one shape (..., n), and element i of both comes from the same block. Independent samples may differ
in the last axis. A ratio is system / baseline; it has no unit.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from infrabench.stats.intervals import LEVEL, NAN, Array, Interval, Numbers, constant, interval, no_interval


class FiellerInterval(NamedTuple):
    """Ends, level and degrees of freedom of Fieller's interval; NaN ends where there is none.

    `unbounded`: there is none because the baseline is too noisy to divide by (its mean cannot be told from 0).
    """

    low: Numbers
    high: Numbers
    level: Numbers
    df: Numbers
    unbounded: NDArray[np.bool_] | bool


class LogRatio(NamedTuple):
    """A ratio of geometric means, its interval, and p of the t test that it is 1."""

    ratio: Numbers
    interval: Interval
    p: Numbers


def paired_fieller(x: Array, y: Array, level: float = LEVEL) -> FiellerInterval:
    """Return Fieller's interval of mean(x) / mean(y) for paired values, their covariance kept.

    `x`, `y`: (..., n), one unit; n - 1 degrees of freedom. Fieller 1954; Kalibera and Jones 2013 for its use. NaN when
    the set is unbounded, below two pairs, or when neither sample has any spread.
    """
    n = x.shape[-1]
    if n < 2:
        return FiellerInterval(*no_interval(x.shape[:-1]), *_no_df(x))
    with np.errstate(divide="ignore", invalid="ignore"):
        mean_y = y.mean(axis=-1)
        ratio = x.mean(axis=-1) / mean_y
        off = x - np.asarray(ratio)[..., None] * y
        off = off - off.mean(axis=-1, keepdims=True)
        dev_y = y - np.asarray(mean_y)[..., None]
        scale = n * (n - 1)
        v_off, v_y = (off**2).sum(axis=-1) / scale, (dev_y**2).sum(axis=-1) / scale
        covariance = (off * dev_y).sum(axis=-1) / scale
    df = np.full(x.shape[:-1], n - 1.0)[()]
    return _fieller(ratio, mean_y, v_off, covariance, v_y, df, ~(constant(x) & constant(y)), level)


def fieller(
    x: Array, y: Array, level: float = LEVEL, df: Literal["satterthwaite", "kalibera-jones"] = "satterthwaite"
) -> FiellerInterval:
    """Return Fieller's interval of mean(x) / mean(y) for independent samples of unequal variance.

    `x`: (..., n), `y`: (..., m), one unit. `df`: "satterthwaite", the degrees of freedom of mean(x) - r mean(y) at the
    estimated ratio r (Satterthwaite 1946), or "kalibera-jones", n - 1 for both means, which needs equal sizes
    (Kalibera and Jones 2013). NaN as in `paired_fieller`. Raises `ValueError` for another `df`, or for unequal sizes
    with "kalibera-jones".
    """
    n, m = x.shape[-1], y.shape[-1]
    if df not in ("satterthwaite", "kalibera-jones") or (df == "kalibera-jones" and n != m):
        raise ValueError(f"df={df!r}, sizes {n} and {m}: use 'satterthwaite', or 'kalibera-jones' with equal sizes")
    if min(n, m) < 2:
        return FiellerInterval(*no_interval(x.shape[:-1]), *_no_df(x))
    v_x, v_y = x.var(axis=-1, ddof=1) / n, y.var(axis=-1, ddof=1) / m
    with np.errstate(divide="ignore", invalid="ignore"):
        mean_y = y.mean(axis=-1)
        ratio = x.mean(axis=-1) / mean_y
        equal = np.full(x.shape[:-1], n - 1.0)[()]
        freedom = equal if df == "kalibera-jones" else _satterthwaite(ratio, v_x, v_y, n, m)
        spread = ~(constant(x) & constant(y))
        return _fieller(ratio, mean_y, v_x + ratio**2 * v_y, -ratio * v_y, v_y, freedom, spread, level)


def paired_log_ratio(x: Array, y: Array, level: float = LEVEL) -> LogRatio:
    """Return the ratio of geometric means of paired samples, from Student's t on log(x / y), and p of a ratio of 1.

    `x`, `y`: (..., n), one unit, positive (Student 1908; Kalibera and Jones 2013 for its use); NaN throughout where a
    value is not, NaN interval and p below two pairs or when neither sample has any spread. A system in fixed proportion
    to its baseline has an interval of no width and p NaN.
    """
    n = x.shape[-1]
    if n == 0:
        return LogRatio(np.full(x.shape[:-1], NAN)[()], no_interval(x.shape[:-1]), np.full(x.shape[:-1], NAN)[()])
    positive = ((x > 0) & (y > 0)).all(axis=-1)
    logs = np.log(np.where(x > 0, x, 1.0) / np.where(y > 0, y, 1.0))
    mean = logs.mean(axis=-1)
    ratio = np.where(positive, np.exp(mean), NAN)[()]
    if n < 2:
        return LogRatio(ratio, no_interval(x.shape[:-1]), np.full(x.shape[:-1], NAN)[()])
    error = logs.std(axis=-1, ddof=1) / np.sqrt(n)
    exists = positive & ~(constant(x) & constant(y))
    half = stats.t.ppf((1 + level) / 2, n - 1) * error
    # spread of the size of rounding is no spread to test against
    tested = exists & (error > 1e-14 * np.maximum(np.abs(mean), 1.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.where(tested, 2 * stats.t.sf(np.abs(mean) / error, n - 1), NAN)[()]
    return LogRatio(ratio, interval(np.exp(mean - half), np.exp(mean + half), level, exists), p)


def delta_log_ratio(x: Array, y: Array, level: float = LEVEL) -> Interval:
    """Return the delta-method interval of mean(x) / mean(y) on the log scale, for independent samples.

    `x`: (..., n), `y`: (..., m), one unit, positive means. The variance of the log ratio is taken as
    v_x / mean(x)^2 + v_y / mean(y)^2 (delta method: Casella and Berger 2002, section 5.5.4), with the degrees of
    freedom of Satterthwaite 1946. Approximate: it needs small coefficients of variation. NaN where a mean is not
    positive, below two values, or without spread.
    """
    n, m = x.shape[-1], y.shape[-1]
    if min(n, m) < 2:
        return no_interval(x.shape[:-1])
    mean_x, mean_y = x.mean(axis=-1), y.mean(axis=-1)
    v_x, v_y = x.var(axis=-1, ddof=1) / n, y.var(axis=-1, ddof=1) / m
    exists = (mean_x > 0) & (mean_y > 0) & ~(constant(x) & constant(y))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = mean_x / mean_y
        t = stats.t.ppf((1 + level) / 2, _satterthwaite(ratio, v_x, v_y, n, m))
        factor = np.exp(t * np.sqrt(v_x / mean_x**2 + v_y / mean_y**2))
        return interval(ratio / factor, ratio * factor, level, exists)


def _fieller(
    ratio: Numbers,
    mean_y: Numbers,
    v_off: Numbers,
    covariance: Numbers,
    v_y: Numbers,
    df: Numbers,
    spread: NDArray[np.bool_],
    level: float,
) -> FiellerInterval:
    """Solve Fieller's equation for the distance from the estimated ratio r, given means' (co)variances.

    With e = x - r y, whose mean is 0, the set is (mean_y^2 - t^2 v_y) d^2 + 2 t^2 cov(e, y) d - t^2 v_e <= 0. Written
    so, no two large terms are subtracted, and an x in proportion to y gives a width of 0.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        t = stats.t.ppf((1 + level) / 2, df)
        a = mean_y**2 - t**2 * v_y
        middle = -(t**2) * covariance
        root = t * np.sqrt(np.maximum(t**2 * covariance**2 + a * v_off, 0.0))
        bounded = a > 0
        found = interval(ratio + (middle - root) / a, ratio + (middle + root) / a, level, spread & bounded)
    return FiellerInterval(*found, df, spread & ~bounded)


def _satterthwaite(ratio: Numbers, v_x: Numbers, v_y: Numbers, n: int, m: int) -> Numbers:
    scaled = ratio**2 * v_y
    return (v_x + scaled) ** 2 / (v_x**2 / (n - 1) + scaled**2 / (m - 1))


def _no_df(x: Array) -> tuple[Numbers, NDArray[np.bool_]]:
    return np.full(x.shape[:-1], NAN)[()], np.zeros(x.shape[:-1], dtype=bool)[()]
