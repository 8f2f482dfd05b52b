"""Tidy table -> one row per cell: signs that its values are not what an interval assumes.

Diagnostics inform and never decide: no value is dropped and no test is chosen by them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from infrabench.stats import bimodality, dependence, normality, resolution
from infrabench.stats.arrays import sample
from infrabench.stats.dip import dip, dip_p
from infrabench.stats.event_means import largest
from infrabench.stats.intervals import NAN, Array, constant
from infrabench.stats.kinds import kinds
from infrabench.stats.table import check_values

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
    row["step"] = resolution.resolution_step(x)
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
        raised["bimodal"] = bimodality.bimodal(x)
        sd = x.std(axis=-1, ddof=1)
        raised["resolution-limited"] = resolution.resolution_limited(row["step"], sd)
        coarse = resolution.undithered(row["step"], sd)
    ends = dependence.effective_interval(x, row["n_eff"])
    ends = resolution.widened(ends, row["step"], coarse)
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
        "shapiro_p": normality.shapiro(inner).p,
        "shapiro_raw_p": normality.shapiro(x).p,
        "skewness": normality.skewness(x),
        "skewness_residual": normality.skewness(inner),
        "split_d": bimodality.split(x).d,
        "split_d_log": bimodality.split_log(x),
        "dip_p": dip_p(dip(x), x.shape[-1]),
    }


def _modes(x: Array, deployment: NDArray[np.int64], flagged: NDArray[np.bool_]) -> tuple[list[str], list[str]]:
    """Where the modes lie, and whether a deployment keeps to one; empty where they are not flagged."""
    modes, constancy = [""] * len(x), [""] * len(x)
    for i in np.flatnonzero(flagged):
        found = bimodality.split(x[i])
        shares = f"{100 * found.share:.0f} %", f"{100 - 100 * found.share:.0f} %"
        modes[i] = f"low: {found.low:.4g}, {shares[0]}; high: {found.high:.4g}, {shares[1]}"
        constancy[i] = bimodality.mode_by_deployment(x[i], deployment[i], found.boundary)
    return modes, constancy


def _flags(n: int, same: NDArray[np.bool_], raised: dict[str, NDArray[np.bool_]]) -> list[str]:
    if n < LEAST:
        return ["deterministic" if each else "few values" for each in same]
    words = ["; ".join(word for word in FLAGS if raised[word][i]) for i in range(len(same))]
    return ["deterministic" if each else text for each, text in zip(same, words, strict=True)]
