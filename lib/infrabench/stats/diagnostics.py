"""Tidy table -> one row per cell: signs that its values are not what an interval assumes.

Diagnostics inform and never decide: no value is dropped and no test is chosen by them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from infrabench.stats.intervals import NAN, Array, constant

CELL = ["workload", "scenario", "metric", "system"]
COLUMNS = (*CELL, "n", "lag1", "ljung_box_p", "trend_tau", "trend_p", "n_eff", "outliers", "skewness", "flags")
SMALL_P = 0.01  # of Ljung-Box at lag 1 and of Kendall's trend: together 1.9 % false alarms
MODIFIED_Z = 3.5
LEAST = 5  # below this, neither a correlation nor a trend says anything


def diagnostics(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per cell, from its values in executed order.

    Returns
    -------
    DataFrame
        ``lag1``: autocorrelation at lag 1, with the p-value of Ljung-Box at that lag; ``trend_tau``, ``trend_p``:
        Kendall's correlation with the order; ``n_eff``: n (1 - r1) / (1 + r1) where the cell is flagged dependent,
        else n; ``outliers``: values with a modified z above 3.5, kept; ``flags``: words joined by "; ".
    """
    rows: list[dict[str, Any]] = []
    ok = table[table["value"].notna()].sort_values(["session", "position"], kind="stable")
    for cell, values in ok.groupby(CELL, observed=True)["value"]:
        rows.append(dict(zip(CELL, cell, strict=True)) | diagnose(values.to_numpy(dtype=float)))
    types = dict.fromkeys((*CELL, "flags"), "str") | dict.fromkeys(("n", "outliers"), "int64")
    types |= {name: "float64" for name in COLUMNS if name not in types}
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(types)


def diagnose(values: Array) -> dict[str, Any]:
    """Return the diagnostics of one cell's values in executed order."""
    n = values.size
    row: dict[str, Any] = {"n": n, "outliers": outliers(values), "n_eff": float(n), "flags": ""}
    if n < LEAST or constant(values):
        row["flags"] = "deterministic" if constant(values) else "few values"
        return row | dict.fromkeys(("lag1", "ljung_box_p", "trend_tau", "trend_p", "skewness"), NAN)
    r1 = lag1(values)
    tau, trend_p = stats.kendalltau(np.arange(n), values)
    ljung_box_p = float(stats.chi2.sf(n * (n + 2) * r1**2 / (n - 1), 1))
    skewness = float(stats.skew(values, bias=False))
    flags = []
    if min(ljung_box_p, trend_p) < SMALL_P:
        flags.append("dependent")
        row["n_eff"] = n * (1 - r1) / (1 + r1)
    if row["outliers"]:
        flags.append("outliers")
    if skewness > 1:
        flags.append("skewed")
    row |= {"lag1": r1, "ljung_box_p": ljung_box_p, "trend_tau": float(tau), "trend_p": float(trend_p)}
    return row | {"skewness": skewness, "flags": "; ".join(flags)}


def lag1(values: Array) -> float:
    """Return the sample autocorrelation at lag 1."""
    centred = values - values.mean()
    return float((centred[1:] * centred[:-1]).sum() / (centred**2).sum())


def outliers(values: Array) -> int:
    """Return how many values have a modified z, 0.6745 (x - median) / MAD, above 3.5; 0 when the MAD is 0."""
    spread = np.abs(values - np.median(values)) if values.size else values
    mad = float(np.median(spread)) if values.size else 0.0
    return int((0.6745 * spread > MODIFIED_Z * mad).sum()) if mad else 0
