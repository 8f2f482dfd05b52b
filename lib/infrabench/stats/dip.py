"""Hartigan's dip: how far the values of a cell are from any distribution with one mode, and its p-value.

The dip is the smallest largest distance between the empirical distribution and a unimodal one, which is convex before
its mode and concave after it (Hartigan and Hartigan 1985).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from infrabench.stats.arrays import sample
from infrabench.stats.intervals import NAN, Array, Numbers, constant

# n -> quantiles of sqrt(n) dip at these levels, of 200 000 uniform samples each (lib/tests/unit/stats/null_tables.py)
LEVELS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999)
QUANTILES = {
    4: (
        0.2500, 0.2500, 0.2500, 0.2500, 0.2500, 0.2500, 0.2500, 0.2649,
        0.3144, 0.3746, 0.4144, 0.4478, 0.4634, 0.4742, 0.4838, 0.4886,
    ),
    5: (
        0.2236, 0.2236, 0.2236, 0.2236, 0.2439, 0.2726, 0.3011, 0.3301,
        0.3608, 0.3957, 0.4173, 0.4329, 0.4396, 0.4432, 0.4456, 0.4464,
    ),
    6: (
        0.2041, 0.2041, 0.2259, 0.2542, 0.2788, 0.3015, 0.3229, 0.3440,
        0.3657, 0.3897, 0.4037, 0.4394, 0.4698, 0.4944, 0.5215, 0.5368,
    ),
    7: (
        0.1921, 0.2164, 0.2491, 0.2735, 0.2937, 0.3118, 0.3286, 0.3449,
        0.3614, 0.3811, 0.4226, 0.4635, 0.4868, 0.5041, 0.5220, 0.5342,
    ),
    8: (
        0.2092, 0.2318, 0.2607, 0.2818, 0.2989, 0.3139, 0.3278, 0.3409,
        0.3547, 0.4011, 0.4355, 0.4690, 0.4885, 0.5054, 0.5273, 0.5513,
    ),
    9: (
        0.2198, 0.2412, 0.2674, 0.2855, 0.3000, 0.3125, 0.3241, 0.3377,
        0.3688, 0.4092, 0.4395, 0.4710, 0.4925, 0.5180, 0.5475, 0.5647,
    ),
    10: (
        0.2269, 0.2466, 0.2698, 0.2857, 0.2982, 0.3091, 0.3231, 0.3476,
        0.3759, 0.4127, 0.4415, 0.4765, 0.5044, 0.5274, 0.5537, 0.5705,
    ),
    12: (
        0.2347, 0.2506, 0.2694, 0.2818, 0.2954, 0.3155, 0.3353, 0.3566,
        0.3811, 0.4160, 0.4506, 0.4902, 0.5152, 0.5380, 0.5668, 0.5868,
    ),
    15: (
        0.2362, 0.2490, 0.2682, 0.2888, 0.3066, 0.3235, 0.3409, 0.3603,
        0.3857, 0.4260, 0.4598, 0.4994, 0.5273, 0.5530, 0.5816, 0.6010,
    ),
    20: (
        0.2359, 0.2538, 0.2774, 0.2953, 0.3115, 0.3280, 0.3472, 0.3688,
        0.3951, 0.4349, 0.4703, 0.5113, 0.5403, 0.5667, 0.5990, 0.6198,
    ),
    30: (
        0.2438, 0.2599, 0.2834, 0.3022, 0.3196, 0.3370, 0.3561, 0.3781,
        0.4053, 0.4464, 0.4826, 0.5271, 0.5568, 0.5863, 0.6190, 0.6436,
    ),
    50: (
        0.2495, 0.2665, 0.2902, 0.3094, 0.3272, 0.3453, 0.3647, 0.3872,
        0.4157, 0.4584, 0.4969, 0.5415, 0.5739, 0.6026, 0.6386, 0.6682,
    ),
    100: (
        0.2569, 0.2743, 0.2985, 0.3179, 0.3360, 0.3546, 0.3744, 0.3974,
        0.4266, 0.4704, 0.5099, 0.5558, 0.5888, 0.6190, 0.6560, 0.6812,
    ),
    200: (
        0.2619, 0.2796, 0.3043, 0.3244, 0.3432, 0.3619, 0.3823, 0.4057,
        0.4354, 0.4806, 0.5203, 0.5685, 0.6010, 0.6319, 0.6705, 0.6978,
    ),
    500: (
        0.2671, 0.2849, 0.3097, 0.3301, 0.3487, 0.3678, 0.3885, 0.4126,
        0.4426, 0.4886, 0.5295, 0.5788, 0.6134, 0.6456, 0.6846, 0.7120,
    ),
    1000: (
        0.2696, 0.2876, 0.3127, 0.3328, 0.3516, 0.3710, 0.3920, 0.4162,
        0.4471, 0.4937, 0.5348, 0.5852, 0.6206, 0.6531, 0.6895, 0.7192,
    ),
}  # fmt: skip
LEAST = 4  # values; with fewer every sample is as unimodal as can be


def dip(x: ArrayLike) -> Numbers:
    """Return Hartigan's dip of each cell, between 1 / (2 n) and 1/4.

    `x`: (..., n); no unit, and no change when `x` is shifted or scaled. Hartigan and Hartigan 1985, section 5: the
    modal interval shrinks until the convex minorant before it and the concave majorant after it are as far from the
    empirical distribution as they are from each other. NaN below four values or without spread.
    """
    x = sample(x)
    if x.shape[-1] < LEAST:
        return np.full(x.shape[:-1], NAN)[()]
    flat = np.sort(x, axis=-1).reshape(-1, x.shape[-1])
    found = np.fromiter((_dip(row) for row in flat), float, len(flat)).reshape(x.shape[:-1])
    return np.where(constant(x), NAN, found)[()]


def dip_p(value: Numbers, n: int) -> Numbers:
    """Return the share of uniform samples of `n` whose dip is at least `value`: the p-value of one mode.

    The p has the shape of `value`. The uniform is the unimodal distribution that dips most (Hartigan and Hartigan
    1985), so p is conservative for the others. Interpolated in the simulated `QUANTILES`; 0.001 stands for 0.001 or
    less. NaN for a dip that is NaN.
    """
    scaled = np.sqrt(n) * np.asarray(value, dtype=float)
    sizes = np.array(list(QUANTILES), dtype=float)
    table = np.array(list(QUANTILES.values()))
    smallest = 1 / (2 * np.sqrt(n))
    ends = [np.interp(-1 / np.sqrt(max(n, LEAST)), -1 / np.sqrt(sizes), column) for column in table.T]
    p = 1 - np.interp(scaled, [smallest, *np.maximum(ends, smallest)], [0.0, *LEVELS])
    # a share of small samples has the smallest dip there is: all are at least that
    return np.where(scaled <= smallest * (1 + 1e-9), 1.0, p)[()]


def _dip(at: Array) -> float:
    """The dip of one ascending sample. Heights are counts: the step at value j rises from j to j + 1.

    Equal values stay separate steps, so that a modal interval may begin or end among them: an atom at the mode is
    unimodal and costs nothing.
    """
    n = at.size
    ranks = np.arange(n, dtype=float)
    low, high, found = 0, n - 1, 1.0
    while True:
        part = at[low : high + 1]
        minorant = low + _hull(part, ranks[low : high + 1])
        majorant = low + _hull(part, -ranks[low : high + 1])
        lower = np.interp(part, at[minorant], ranks[minorant])
        upper = np.interp(part, at[majorant], ranks[majorant] + 1)
        inner, outer = minorant[1:-1], majorant[1:-1]  # where the two are compared; at the ends they are one step apart
        gaps = np.concatenate((upper[inner - low] - ranks[inner], ranks[outer] + 1 - lower[outer - low]))
        if not gaps.size or gaps.max() <= found:
            break
        widest = int(gaps.argmax())
        if widest < inner.size:
            left = int(inner[widest])
            right = int(majorant[np.searchsorted(majorant, left)])
        else:
            right = int(outer[widest - inner.size])
            left = int(minorant[np.searchsorted(minorant, right) - 1])
        convex = (ranks[low : left + 1] + 1 - lower[: left - low + 1]).max()
        concave = (upper[right - low :] - ranks[right : high + 1]).max()
        found = max(found, float(convex), float(concave))
        low, high = left, right
    return found / (2 * n)


def _hull(at: Array, height: Array) -> np.ndarray:
    """Places where the greatest convex minorant of the points touches them, the two ends included."""
    xs, ys = at.tolist(), height.tolist()
    kept: list[int] = []
    for i in range(len(xs)):
        while len(kept) > 1:
            a, b = kept[-2], kept[-1]
            if (ys[b] - ys[a]) * (xs[i] - xs[b]) < (ys[i] - ys[b]) * (xs[b] - xs[a]):
                break
            kept.pop()
        kept.append(i)
    return np.asarray(kept)
