"""Signs that values are not what an interval assumes: arrays by cell, and tidy table -> one row per cell.

Diagnostics inform and never decide: no value is dropped and no test is chosen by them, for a choice after a look
distorts the level of what follows. Arrays have the shape (..., n): the last axis holds the values, leading axes are
cells.

Two signs of several modes: how far apart the best two groups are (`split`), and Hartigan's dip, the smallest largest
distance between the empirical distribution and a unimodal one, which is convex before its mode and concave after it
(Hartigan and Hartigan 1985).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from infrabench.stats import dependence, verdicts
from infrabench.stats.dependence import Test
from infrabench.stats.estimates import largest
from infrabench.stats.intervals import NAN, Array, Numbers, constant
from infrabench.stats.table import check_values, kinds, sample

ROYSTON = 5000  # largest n for which the approximation of Shapiro and Wilk's p was made

SMALLEST = 3  # values in a group: two far values are outliers, not a mode
# n -> the d that 1 % of normal samples exceed, of 400 000 simulated samples each (lib/tests/unit/stats/null_tables.py)
CRITICAL = {
    6: 7.009, 7: 6.906, 8: 6.451, 9: 6.064, 10: 5.789, 11: 5.510, 12: 5.320, 13: 5.155, 14: 5.010,
    15: 4.876, 17: 4.669, 20: 4.440, 25: 4.157, 30: 3.964, 40: 3.714, 50: 3.555, 70: 3.365, 100: 3.220,
    200: 3.026, 500: 2.871, 1000: 2.802,
}  # fmt: skip
# d of an endless normal sample cut at its mean: halves 2 sqrt(2 / pi) apart, each of variance 1 - 2 / pi
ENDLESS = 2 * float(np.sqrt(2 / np.pi / (1 - 2 / np.pi)))

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
LEAST_DIP = 4  # values; with fewer every sample is as unimodal as can be

CASE = ["workload", "scenario", "metric"]
CELL = [*CASE, "system"]
TEXT = (*CELL, "modes", "mode_by_deployment", "flags")
COLUMNS = (
    *(*CELL, "n", "lag1", "ljung_box_p", "ljung_box5_p", "runs_p", "trend_tau", "trend_p"),
    *("n_eff", "mean_low_eff", "mean_high_eff", "shapiro_p", "skewness", "outliers"),
    *("split_d", "split_d_log", "dip_p", "modes", "mode_by_deployment", "step", "flags"),
    *("shapiro_raw_p", "skewness_residual"),
)
LEAST = dependence.LEAST
MODIFIED_Z = 3.5
SKEWED = 1.0
NOT_NORMAL = 0.001  # p of Shapiro and Wilk
FLAGS = ("dependent", "outliers", "skewed", "bimodal", "resolution-limited")


def skewness(x: ArrayLike) -> Numbers:
    """Return the sample skewness G1, corrected for the size (Joanes and Gill 1998).

    `x`: (..., n); no unit. NaN below three values or without spread.
    """
    x = sample(x)
    n = x.shape[-1]
    if n < 3:
        return np.full(x.shape[:-1], NAN)[()]
    centred = x - x.mean(axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        g1 = (centred**3).mean(axis=-1) / (centred**2).mean(axis=-1) ** 1.5
    return np.where(constant(x), NAN, np.sqrt(n * (n - 1)) / (n - 2) * g1)[()]


def shapiro(x: ArrayLike) -> Test:
    """Return W and p of Shapiro and Wilk's test of normality (Shapiro and Wilk 1965, Royston 1995), cell by cell.

    `x`: (..., n), any unit. NaN below three or above 5000 values, or without spread.
    """
    x = sample(x)
    found = np.full((2, *x.shape[:-1]), NAN)
    if 3 <= x.shape[-1] <= ROYSTON:
        for cell in map(tuple, np.argwhere(_spread(x))):
            found[:, *cell] = stats.shapiro(x[cell])
    return Test(*(each[()] for each in found))


def _spread(x: Array) -> Array:
    """Which cells vary by more than rounding."""
    return np.ptp(x, axis=-1) > 1e-12 * np.abs(x).max(axis=-1)


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


def dip(x: ArrayLike) -> Numbers:
    """Return Hartigan's dip of each cell, between 1 / (2 n) and 1/4.

    `x`: (..., n); no unit, and no change when `x` is shifted or scaled. Hartigan and Hartigan 1985, section 5: the
    modal interval shrinks until the convex minorant before it and the concave majorant after it are as far from the
    empirical distribution as they are from each other. NaN below four values or without spread.
    """
    x = sample(x)
    if x.shape[-1] < LEAST_DIP:
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
    ends = [np.interp(-1 / np.sqrt(max(n, LEAST_DIP)), -1 / np.sqrt(sizes), column) for column in table.T]
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


def diagnostics(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per cell, from its values in executed order (session, then position).

    Returns
    -------
    DataFrame
        Columns `COLUMNS`. ``lag1``, ``ljung_box_p``, ``ljung_box5_p`` (lags 1 to 5), ``runs_p``, ``trend_tau``,
        ``trend_p``: dependence; ``n_eff``: as of `dependence.effective_n` where the cell is flagged dependent, else n;
        ``mean_low_eff``, ``mean_high_eff``: t interval of the mean with ``n_eff``, half a printing step wider on each
        side where that limits, cut where a count or a share cannot be, none over several deployments, whose means are
        the data; ``shapiro_p``: of residuals
        within blocks (`residuals`), with ``skewness_residual``; ``shapiro_raw_p``, ``skewness``: of the values;
        ``outliers``: values with a modified z above 3.5, NaN where the MAD is 0; ``split_d``, ``split_d_log``,
        ``dip_p``: bimodality; ``modes``, ``mode_by_deployment`` ("constant" or "varies"): where it is flagged;
        ``step``: the printing step; ``flags``: words joined by "; ". Units are the metric's. What a cell cannot say is
        NaN: all of it when its values are equal ("deterministic"), most of it below five values ("few values").

    Raises
    ------
    SchemaError
        The table is not a tidy one (`table.check_values`).
    """
    check_values(table)
    ok = table[table["value"].notna()].sort_values(["session", "position"], kind="stable", ignore_index=True)
    groups = ok.groupby(CELL, observed=True)
    code = groups.ngroup().to_numpy()
    values, inner = ok["value"].to_numpy(dtype=float), residuals(ok)
    deployment = ok.groupby(["session", "deployment"]).ngroup().to_numpy()
    order = np.argsort(code, kind="stable")
    counts = np.bincount(code)
    starts = np.cumsum(counts) - counts
    frames = []
    for n in np.unique(counts):
        cells = np.flatnonzero(counts == n)
        rows = order[starts[cells][:, None] + np.arange(n)]
        frames.append(pd.DataFrame(_diagnose(values[rows], inner[rows], deployment[rows]), index=cells))
    frame = pd.concat(frames).sort_index() if frames else pd.DataFrame()
    keys, units = groups.size().reset_index()[CELL], groups["unit"].first().tolist()
    top = largest(kinds(keys), units)
    events = ~np.isnan(top)
    if events.any():  # neither is below 0, and a share is not above 1
        for name in ("mean_low_eff", "mean_high_eff"):
            frame.loc[events, name] = np.clip(frame.loc[events, name].to_numpy(dtype=float), 0.0, top[events])
    types = dict.fromkeys(TEXT, "str") | {"n": "int64"}
    types |= {name: "float64" for name in COLUMNS if name not in types}
    return pd.concat([keys, frame], axis=1).reindex(columns=list(COLUMNS)).astype(types)


def residuals(ok: pd.DataFrame) -> Array:
    """Return what is left of each value without its system's mean in its deployment and without its block.

    `ok`: rows of the tidy table with a value. On logarithms where all values of a case are positive, else as they are,
    because blocks act on most metrics as factors. First the mean of the cell in its deployment is taken away, then the
    mean over the systems of the block: the residuals of a two-way layout (Cochran and Cox 1957) where blocks are
    complete. A block with one system says nothing about itself and leaves the centred value.
    """
    value = ok["value"]
    positive = value.groupby([ok[name] for name in CASE], observed=True).transform("min") > 0
    scaled = pd.Series(np.where(positive, np.log(value.where(positive, 1.0)), value), index=ok.index)
    where = [ok["session"], ok["deployment"]]
    centred = scaled - scaled.groupby([*(ok[name] for name in CELL), *where], observed=True).transform("mean")
    block = centred.groupby([*(ok[name] for name in CASE), *where, ok["block"]], observed=True)
    shared = block.transform("size") > 1
    return (centred - block.transform("mean").where(shared, 0.0)).to_numpy(dtype=float)


def modified_z(x: ArrayLike) -> Array:
    """Return 0.6745 (x - median) / MAD of each value (Iglewicz and Hoaglin 1993).

    `x`: (..., n), any unit; same shape, no unit. NaN where the MAD is 0: the rule has no scale then.
    """
    x = sample(x)
    if x.shape[-1] == 0:
        return np.empty(x.shape)
    centred = x - np.median(x, axis=-1, keepdims=True)
    mad = np.median(np.abs(centred), axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(mad > 0, 0.6745 * centred / mad, NAN)


def outlier_mask(x: ArrayLike) -> NDArray[np.bool_]:
    """Return which values carry the outlier flag, a modified z beyond 3.5; none where the MAD is 0.

    `x`: (..., n); same shape. Iglewicz and Hoaglin 1993. 8.4 % of clean normal samples of 30 hold such a value, so the
    flag is no reason to drop it.
    """
    x = sample(x)
    with np.errstate(invalid="ignore"):
        return np.abs(modified_z(x)) > MODIFIED_Z


def _diagnose(x: Array, inner: Array, deployment: NDArray[np.int64]) -> dict[str, Any]:
    """The columns of cells of one size: `x`, `inner` (residuals) and `deployment` are (cells, n)."""
    n = x.shape[-1]
    row: dict[str, Any] = dict.fromkeys(COLUMNS[len(CELL) :], NAN) | {"n": np.full(len(x), n)}
    same, one = constant(x), (deployment == deployment[:, :1]).all(axis=-1)
    marks = np.abs(modified_z(x))
    row["outliers"] = np.where(np.isnan(marks).any(axis=-1), NAN, (marks > MODIFIED_Z).sum(axis=-1))
    row["step"] = verdicts.resolution_step(x)
    none = coarse = np.zeros(len(x), dtype=bool)
    raised = dict.fromkeys(FLAGS, none)
    row["n_eff"] = np.full(len(x), float(n))
    if n >= LEAST:
        tests = _dependence(x) | _shape(x, inner)
        row |= {name: np.where(same, NAN, values) for name, values in tests.items()}
        raised["outliers"] = row["outliers"] > 0
        raised["dependent"] = dependence.dependent(x)
        row["n_eff"] = np.where(raised["dependent"], dependence.effective_n(x), n)
        raised["skewed"] = (row["skewness"] > SKEWED) | (row["shapiro_p"] < NOT_NORMAL)
        raised["bimodal"] = bimodal(x)
        sd = x.std(axis=-1, ddof=1)
        raised["resolution-limited"] = verdicts.resolution_limited(row["step"], sd)
        coarse = verdicts.undithered(row["step"], sd)
    ends = dependence.effective_interval(x, row["n_eff"])
    ends = verdicts.widened(ends, row["step"], coarse)
    row["mean_low_eff"], row["mean_high_eff"] = (np.where(one, end, NAN) for end in ends[:2])
    row["modes"], row["mode_by_deployment"] = _modes(x, deployment, raised["bimodal"])
    row["flags"] = _flags(n, same, raised)
    return row


def _dependence(x: Array) -> dict[str, Any]:
    trend = dependence.kendall_trend(x)
    return {
        "lag1": dependence.autocorrelation(x),
        "ljung_box_p": dependence.ljung_box(x).p,
        "ljung_box5_p": dependence.ljung_box(x, 5).p,
        "runs_p": dependence.runs_test(x).p,
        "trend_tau": trend.statistic,
        "trend_p": trend.p,
    }


def _shape(x: Array, inner: Array) -> dict[str, Any]:
    return {
        "shapiro_p": shapiro(inner).p,
        "shapiro_raw_p": shapiro(x).p,
        "skewness": skewness(x),
        "skewness_residual": skewness(inner),
        "split_d": split(x).d,
        "split_d_log": split_log(x),
        "dip_p": dip_p(dip(x), x.shape[-1]),
    }


def _modes(x: Array, deployment: NDArray[np.int64], flagged: NDArray[np.bool_]) -> tuple[list[str], list[str]]:
    """Where the modes lie, and whether a deployment keeps to one; empty where they are not flagged."""
    modes, constancy = [""] * len(x), [""] * len(x)
    for i in np.flatnonzero(flagged):
        found = split(x[i])
        shares = f"{100 * found.share:.0f} %", f"{100 - 100 * found.share:.0f} %"
        modes[i] = f"low: {found.low:.4g}, {shares[0]}; high: {found.high:.4g}, {shares[1]}"
        constancy[i] = mode_by_deployment(x[i], deployment[i], found.boundary)
    return modes, constancy


def _flags(n: int, same: NDArray[np.bool_], raised: dict[str, NDArray[np.bool_]]) -> list[str]:
    if n < LEAST:
        return ["deterministic" if each else "few values" for each in same]
    words = ["; ".join(word for word in FLAGS if raised[word][i]) for i in range(len(same))]
    return ["deterministic" if each else text for each, text in zip(same, words, strict=True)]
