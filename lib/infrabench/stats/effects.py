"""Effect sizes, equivalence, adjusted p-values and the number of blocks that would decide."""

from __future__ import annotations

import numpy as np
from scipy import optimize, stats

from infrabench.stats.intervals import LEVEL, NAN, NO_INTERVAL, Array, Interval, constant

DELTA_LABELS = ((0.147, "negligible"), (0.33, "small"), (0.474, "medium"))
MOST_BLOCKS = 1_000_000


def cliffs_delta(x: Array, y: Array) -> float:
    """Return Cliff's delta, P(x > y) - P(x < y); +1 when every x is above every y."""
    return float(np.sign(x[:, None] - y[None, :]).mean()) if x.size and y.size else NAN


def cliffs_delta_interval(delta: float, m: int, n: int, level: float = LEVEL) -> Interval:
    """Return Newcombe's method-5 interval of Cliff's delta for samples of `m` and `n` (Newcombe 2006)."""
    if not np.isfinite(delta) or min(m, n) < 2:
        return NO_INTERVAL
    z = stats.norm.ppf((1 + level) / 2)
    area = (delta + 1) / 2
    star = (m + n) / 2 - 1

    def gap(th: float) -> float:
        variance = th * (1 - th) * (1 + star * ((1 - th) / (2 - th) + th / (1 + th))) / (m * n)
        return (area - th) ** 2 - z**2 * variance

    # At area 0 or 1 the equation also has the trivial root there, hence the step inside the unit interval.
    inside = 1e-12
    low = 0.0 if area <= 0 else optimize.brentq(gap, 0, min(area, 1 - inside * 10), xtol=inside)
    high = 1.0 if area >= 1 else optimize.brentq(gap, max(area, inside * 10), 1, xtol=inside)
    return Interval(2 * low - 1, 2 * high - 1, level)


def delta_label(delta: float) -> str:
    """Return Romano's word for the size of a Cliff's delta; empty when there is none."""
    if not np.isfinite(delta):
        return ""
    return next((word for limit, word in DELTA_LABELS if abs(delta) < limit), "large")


def log_margin(margin: float) -> float:
    """Return the margin on the log-ratio scale: 0.02 means ratios of 0.98 .. 1 / 0.98."""
    return float(-np.log1p(-margin))


def equivalence_p(log_ratios: Array, margin: float) -> float:
    """Return the p-value of two one-sided paired t tests (Schuirmann 1987) at a relative margin."""
    if log_ratios.size < 2 or constant(log_ratios):
        return NAN
    bound = log_margin(margin)
    above = stats.ttest_1samp(log_ratios, -bound, alternative="greater").pvalue
    below = stats.ttest_1samp(log_ratios, bound, alternative="less").pvalue
    return float(max(above, below))


def holm(p: Array) -> Array:
    """Return Holm's adjusted p-values; NaN stays NaN and does not count as a test."""
    adjusted = np.full(p.size, NAN)
    order = np.flatnonzero(np.isfinite(p))
    order = order[np.argsort(p[order], kind="stable")]
    steps = p[order] * np.arange(order.size, 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1) if order.size else steps
    return adjusted


def benjamini_hochberg(p: Array) -> Array:
    """Return Benjamini-Hochberg adjusted p-values; NaN stays NaN and does not count as a test."""
    adjusted = np.full(p.size, NAN)
    known = np.flatnonzero(np.isfinite(p))
    if known.size:
        adjusted[known] = stats.false_discovery_control(p[known], method="bh")
    return adjusted


def blocks_to_decide(log_ratios: Array, margin: float) -> float:
    """Return the number of blocks at which no outcome is inconclusive, given the spread of these log ratios.

    An outcome is inconclusive when the 95 % interval holds 1 while the 90 % interval leaves the margin. That cannot
    happen once the two half-widths together are no longer than the margin, whatever the difference turns out to be:
    the smallest such n is returned. It does not lean on the observed difference. NaN when the spread is unknown or
    more than a million blocks would be needed.
    """
    if log_ratios.size < 2 or constant(log_ratios):
        return NAN
    room = log_margin(margin) / log_ratios.std(ddof=1)

    def decided(n: int) -> bool:
        quantiles = stats.t.ppf([(1 + LEVEL) / 2, LEVEL], n - 1)
        return bool(quantiles.sum() / np.sqrt(n) <= room)

    low, high = 1, 2
    while not decided(high):
        low, high = high, high * 2
        if high > MOST_BLOCKS:
            return NAN
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if decided(middle) else (middle, high)
    return float(high)
