"""Signs that values are not what an interval assumes: arrays by cell, and tidy table -> one row per cell.

Diagnostics inform and never decide: no value is dropped and no test is chosen by them, for a choice after a look
distorts the level of what follows. Arrays have the shape (..., n): the last axis holds the values, leading axes are
cells.

The sign of several modes is how far apart the best two groups are (`split`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from infrabench.stats import dependence, verdicts
from infrabench.stats.dependence import MIN_VALUES, Test
from infrabench.stats.estimates import largest
from infrabench.stats.intervals import NAN, Array, Numbers, constant
from infrabench.stats.table import CASE, CELL, by_size, check_values, columns, kinds, sample

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

TYPES = columns("""
    str: workload scenario metric system; int64: n
    float64: lag1 ljung_box_p trend_tau trend_p n_eff mean_low_eff mean_high_eff shapiro_p
    float64: skewness outliers split_d split_d_log; str: modes mode_by_deployment; float64: step; str: flags
    float64: skewness_residual
""")
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
        spread = np.ptp(x, axis=-1) > 1e-12 * np.abs(x).max(axis=-1)  # more than rounding
        for cell in map(tuple, np.argwhere(spread)):
            found[:, *cell] = stats.shapiro(x[cell])
    return Test(*(each[()] for each in found))


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
    return (split(x).d > critical) & (split_log(x) > critical)


def _group(ordered: Array, member: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Mean and sum of squares of the members, exactly 0 for a group that repeats one value."""
    count = member.sum(axis=-1)
    mean = np.where(member, ordered, 0.0).sum(axis=-1) / count
    squares = (np.where(member, ordered - mean[..., None], 0.0) ** 2).sum(axis=-1)
    smallest = np.where(member, ordered, np.inf).min(axis=-1)
    same = smallest == np.where(member, ordered, -np.inf).max(axis=-1)
    return np.where(same, smallest, mean), np.where(same, 0.0, squares)


def diagnostics(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per cell, from its values in executed order (session, then position).

    Columns `TYPES`. ``lag1``, ``ljung_box_p``, ``trend_tau``, ``trend_p``: dependence; ``n_eff``: as of
    `dependence.effective_n` where the cell is flagged dependent, else n; ``mean_low_eff``, ``mean_high_eff``: t
    interval of the mean with ``n_eff``, half a printing step wider on each side where that limits, cut where a count or
    a share cannot be, none over several deployments, whose means are the data; ``shapiro_p``, ``skewness_residual``: of
    residuals within blocks (`residuals`); ``skewness``: of the values; ``outliers``: values with a modified z above
    3.5, NaN where the MAD is 0; ``split_d``, ``split_d_log``: bimodality; ``modes``, ``mode_by_deployment``
    ("constant" or "varies"): where it is flagged; ``step``: the printing step; ``flags``: words joined by "; ". What a
    cell cannot say is NaN: all of it when its values are equal ("deterministic"), most of it below five values ("few
    values").
    """
    check_values(table)
    ok = table[table["value"].notna()].sort_values(["session", "position"], kind="stable", ignore_index=True)
    groups = ok.groupby(CELL, observed=True)
    code = groups.ngroup().to_numpy()
    values, inner = ok["value"].to_numpy(dtype=float), residuals(ok)
    deployment = ok.groupby(["session", "deployment"]).ngroup().to_numpy()
    frames = [
        pd.DataFrame(_diagnose(values[rows], inner[rows], deployment[rows]), index=cells)
        for cells, rows in by_size(code)
    ]
    frame = pd.concat(frames).sort_index() if frames else pd.DataFrame()
    keys, units = groups.size().reset_index()[CELL], groups["unit"].first().tolist()
    top = largest(kinds(keys), units)
    events = ~np.isnan(top)
    if events.any():  # neither is below 0, and a share is not above 1
        for name in ("mean_low_eff", "mean_high_eff"):
            frame.loc[events, name] = np.clip(frame.loc[events, name].to_numpy(dtype=float), 0.0, top[events])
    return pd.concat([keys, frame], axis=1).reindex(columns=list(TYPES)).astype(TYPES)


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
    return np.abs(modified_z(x)) > MODIFIED_Z


def _diagnose(x: Array, inner: Array, deployment: NDArray[np.int64]) -> dict[str, Any]:
    """The columns of cells of one size: `x`, `inner` (residuals) and `deployment` are (cells, n)."""
    n = x.shape[-1]
    row: dict[str, Any] = dict.fromkeys(list(TYPES)[len(CELL) :], NAN) | {"n": np.full(len(x), n)}
    same, one = constant(x), (deployment == deployment[:, :1]).all(axis=-1)
    marks = np.abs(modified_z(x))
    row["outliers"] = np.where(np.isnan(marks).any(axis=-1), NAN, (marks > MODIFIED_Z).sum(axis=-1))
    row["step"] = verdicts.resolution_step(x)
    coarse = np.zeros(len(x), dtype=bool)
    raised = dict.fromkeys(FLAGS, coarse)
    row["n_eff"] = np.full(len(x), float(n))
    if n >= MIN_VALUES:
        trend = dependence.kendall_trend(x)
        tests: dict[str, Any] = {
            "lag1": dependence.autocorrelation(x),
            "ljung_box_p": dependence.ljung_box(x).p,
            "trend_tau": trend.statistic,
            "trend_p": trend.p,
            "shapiro_p": shapiro(inner).p,
            "skewness": skewness(x),
            "skewness_residual": skewness(inner),
            "split_d": split(x).d,
            "split_d_log": split_log(x),
        }
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
    few = "few values" if n < MIN_VALUES else ""
    words = [few or "; ".join(word for word in FLAGS if raised[word][i]) for i in range(len(x))]
    row["flags"] = np.where(same, "deterministic", words)
    return row


def _modes(x: Array, deployment: NDArray[np.int64], flagged: NDArray[np.bool_]) -> tuple[list[str], list[str]]:
    """Where the modes lie, and whether a deployment keeps to one; empty where they are not flagged."""
    modes, constancy = [""] * len(x), [""] * len(x)
    for i in np.flatnonzero(flagged):
        found = split(x[i])
        shares = f"{100 * found.share:.0f} %", f"{100 - 100 * found.share:.0f} %"
        modes[i] = f"low: {found.low:.4g}, {shares[0]}; high: {found.high:.4g}, {shares[1]}"
        labels, upper = np.unique(deployment[i]), x[i] > found.boundary
        # a constant mode says that the deployment is the cause, a varying one that something changes while it runs
        if labels.size > 1:
            mixed = any(np.unique(upper[deployment[i] == label]).size > 1 for label in labels)
            constancy[i] = "varies" if mixed else "constant"
    return modes, constancy
