"""What a pilot says about the size of the campaign that follows it. Only for planning: it adds nothing to a result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from infrabench.stats.intervals import NAN, Array
from infrabench.stats.planning import blocks_to_decide, n_for_precision, spread_limit
from infrabench.stats.table import check_values

TARGETS = (0.01, 0.02, 0.05)
MEAN, RATIO, VERDICT = "mean", "ratio", "verdict"
TYPES = {
    **dict.fromkeys(("workload", "scenario", "metric", "system", "baseline", "quantity"), "str"),
    "target": "float64",
    "unit": "str",
    "n_pilot": "int64",
    **dict.fromkeys(("spread", "spread_high", "n", "n_high", "hours", "hours_high"), "float64"),
    "note": "str",
}
COLUMNS = tuple(TYPES)
CASE = ["workload", "scenario", "metric"]


def plan_from_pilot(
    table: pd.DataFrame,
    baseline: str,
    margins: Mapping[str, float],
    targets: Iterable[float] = TARGETS,
    seconds: float = NAN,
) -> pd.DataFrame:
    """Return how many blocks the campaign needs, one row per cell or contrast, quantity and target.

    Parameters
    ----------
    table
        The tidy table of a pilot, two blocks or more.
    baseline
        System that the others are divided by.
    margins
        Metric -> relative equivalence margin (0.02 = 2 %); ``""`` is the default, and without one there is no verdict.
    targets
        Relative half-widths of the 95 % intervals wished for.
    seconds
        Wall time of one block of all systems and cases; of one deployment with its blocks when the pilot has several.

    Returns
    -------
    DataFrame
        Columns `COLUMNS`. ``quantity``: "mean" (interval of a system's mean within +- ``target``), "ratio" (interval of
        its ratio to the baseline within +- ``target``), "verdict" (no outcome is inconclusive at the margin
        ``target``); ``spread``: CoV, or standard deviation of the paired log ratios; ``n``: in ``unit``s, "blocks", or
        "deployments" when the pilot has several, whose means are the data then; ``n_high``: the same at
        ``spread_high``, the upper end of the 95 % chi-square interval of the spread, because that of a small pilot is
        uncertain; ``hours``: of ``n`` and ``n_high``; ``note``: why there is no n.

    Raises
    ------
    SchemaError
        The table is not a tidy one (`table.check_values`).
    """
    check_values(table)
    ok = table[table["value"].notna()]
    several = ok[["session", "deployment"]].drop_duplicates().shape[0] > 1
    unit = ["session", "deployment"] if several else ["session", "deployment", "block"]
    rows: list[dict[str, Any]] = []
    for case, cell in ok.groupby(CASE, observed=True):
        # a pair needs both systems in one block; only then are the blocks of a deployment averaged
        blocks = blocks_of(cell)
        shared = dict(zip(CASE, case, strict=True)) | {"unit": "deployments" if several else "blocks"}
        margin = margins.get(case[2], margins.get("", NAN))
        for system in blocks:
            known = shared | {"system": system, "baseline": ""}
            rows += _means(known, blocks[[system]].dropna().groupby(unit).mean().to_numpy().ravel(), targets)
            if system != baseline and baseline in blocks:
                pairs = blocks[[system, baseline]].dropna().groupby(unit).mean().to_numpy()
                rows += _ratios(known | {"baseline": baseline}, pairs, targets, margin)
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    return _sized(frame.astype({name: kind for name, kind in TYPES.items() if name in frame}), seconds).astype(TYPES)


def blocks_of(cell: pd.DataFrame) -> pd.DataFrame:
    """Return the values of one case, blocks x systems; the index names session, deployment and block."""
    keys = ["session", "deployment", "block"]
    # pivot, because pivot_table would average what it should refuse
    return cell.pivot(index=keys, columns="system", values="value")  # noqa: PD010


def _means(known: dict[str, Any], x: Array, targets: Iterable[float]) -> list[dict[str, Any]]:
    spread, note = NAN, _lacking(x.size)
    if not note:
        mean = abs(x.mean())
        spread, note = (float(x.std(ddof=1) / mean), "") if mean else (NAN, "the mean is 0")
    row = known | {"quantity": MEAN, "n_pilot": x.size, "spread": spread, "note": note}
    return [row | {"target": target} for target in targets]


def _ratios(known: dict[str, Any], pairs: Array, targets: Iterable[float], margin: float) -> list[dict[str, Any]]:
    spread, note = NAN, _lacking(len(pairs))
    if not note:
        positive = bool((pairs > 0).all())
        spread, note = (_log_spread(pairs), "") if positive else (NAN, "values not all positive")
    row = known | {"n_pilot": len(pairs), "spread": spread, "note": note}
    rows = [row | {"quantity": RATIO, "target": target} for target in targets]
    return [*rows, row | {"quantity": VERDICT, "target": margin}] if np.isfinite(margin) else rows


def _log_spread(pairs: Array) -> float:
    return float(np.log(pairs[:, 0] / pairs[:, 1]).std(ddof=1))


def _lacking(n: int) -> str:
    return "" if n > 1 else "fewer than two blocks"


def _sized(frame: pd.DataFrame, seconds: float) -> pd.DataFrame:
    """Turn spreads into numbers of blocks and hours."""
    frame = frame.assign(spread_high=spread_limit(frame["spread"], frame["n_pilot"]))
    still = frame["spread"] < 1e-12  # what rounding leaves of equal values
    frame.loc[still & (frame["note"] == ""), "note"] = "no spread"
    verdict = (frame["quantity"] == VERDICT).to_numpy()
    target = frame["target"].to_numpy(dtype=float)
    # a ratio within +- target has its logarithm within log(1 + target), the nearer of both ends
    width = np.where(frame["quantity"] == RATIO, np.log1p(target), target)
    for name, spread in (("n", "spread"), ("n_high", "spread_high")):
        sd = frame[spread].mask(still).to_numpy(dtype=float)
        deciding = blocks_to_decide(sd, np.where(verdict, target, 0.5))
        frame[name] = np.where(verdict, deciding, n_for_precision(sd, width))
    reached = frame["n_high"].notna() | (frame["note"] != "")
    frame.loc[~reached, "note"] = "more than a million"
    return frame.assign(hours=frame["n"] * seconds / 3600, hours_high=frame["n_high"] * seconds / 3600)
