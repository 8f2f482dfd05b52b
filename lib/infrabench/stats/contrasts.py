"""Tidy table -> one row per system and baseline: ratio, interval, test, equivalence, verdict.

Only complete blocks enter: a block counts for a contrast when the system and the baseline both have an ok trial in
it, so whatever the block did to both cancels. The verdict follows from the paired 95 % interval of the ratio and
from the equivalence test at a margin that was fixed before the first trial; p-values never decide alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from infrabench.core import DesignError, SchemaError
from infrabench.stats import adjust, effects, equivalence
from infrabench.stats.intervals import LEVEL, NAN, Array, constant, t_interval
from infrabench.stats.ratios import paired_fieller

DIFFERENT = "different"
WITHIN = "different, within the margin"
EQUIVALENT = "equivalent"
INCONCLUSIVE = "inconclusive"
NOT_COMPARABLE = "not comparable"
VERDICTS = (DIFFERENT, WITHIN, EQUIVALENT, INCONCLUSIVE, NOT_COMPARABLE)
TOO_NOISY = "baseline too noisy"
ALPHA = 1 - LEVEL
HOLM, EXPLORATORY = "Holm", "Benjamini-Hochberg, exploratory"

CASE = ["workload", "scenario", "metric"]
TYPES = {
    **dict.fromkeys(("workload", "scenario", "factor"), "str"),
    "level": "float64",
    **dict.fromkeys(("metric", "unit", "better", "system", "baseline"), "str"),
    "n_pairs": "int64",
    **dict.fromkeys(("mean", "baseline_mean", "ratio", "ratio_low", "ratio_high"), "float64"),
    **dict.fromkeys(("overhead_percent", "overhead_low", "overhead_high"), "float64"),
    **dict.fromkeys(("difference", "difference_low", "difference_high", "p"), "float64"),
    "p_method": "str",
    "p_adjusted": "float64",
    "adjustment": "str",
    **dict.fromkeys(("cliffs_delta", "cliffs_delta_low", "cliffs_delta_high"), "float64"),
    "delta_label": "str",
    **dict.fromkeys(("margin", "p_equivalence"), "float64"),
    "verdict": "str",
    "n_to_decide": "float64",
    "reason": "str",
}
COLUMNS = tuple(TYPES)


def contrasts(
    table: pd.DataFrame,
    baseline: str,
    margins: Mapping[str, float],
    primary: Iterable[tuple[str, str]] = (),
) -> pd.DataFrame:
    """Return one row per (workload, scenario, metric, system other than the baseline).

    Parameters
    ----------
    table
        The tidy table.
    baseline
        System that the others are divided by.
    margins
        Metric -> relative equivalence margin (0.02 = 2 %); ``""`` is the default.
    primary
        (workload, metric) pairs whose p-values are adjusted by Holm; all others by Benjamini-Hochberg and labelled
        exploratory. The family is the contrasts of one metric of one workload.

    Returns
    -------
    DataFrame
        Columns `COLUMNS`. ``ratio``: of means over complete blocks, with the paired Fieller interval;
        ``overhead_percent``: signed, positive is worse whatever the direction of the metric; ``difference``: in the
        metric's unit, paired t; ``reason``: why a verdict is not available, or what qualifies it.

    Raises
    ------
    DesignError
        A metric has no margin and there is no default, or a margin is not between 0 and 1.
    SchemaError
        A block holds two ok trials of the same cell.
    """
    systems = sorted(set(table["system"]) - {baseline})
    rows: list[dict[str, Any]] = []
    ok = table[table["value"].notna()]
    for (workload, scenario, metric), cell in ok.groupby(CASE, observed=True, sort=False):
        first = cell.iloc[0]
        shared = {name: first[name] for name in (*CASE, "factor", "level", "unit", "better")}
        blocks = _blocks(cell, f"{workload}, {scenario}, {metric}")
        margin = _margin(margins, metric)
        for system in systems:
            rows.append(shared | {"system": system, "baseline": baseline} | _contrast(blocks, system, baseline, margin))
    frame = pd.DataFrame(rows, columns=list(COLUMNS)).astype(TYPES)
    frame["overhead_percent"], frame["overhead_low"], frame["overhead_high"] = _overhead(frame)
    frame = _adjusted(frame, set(primary))
    return frame.sort_values(["workload", "metric", "level", "scenario", "system"], ignore_index=True)


def _blocks(cell: pd.DataFrame, where: str) -> pd.DataFrame:
    """Blocks x systems; a block is identified by its session too, so tables may be joined."""
    if cell.duplicated(["session", "block", "system"]).any():
        raise SchemaError(f"{where}: two ok trials of one system in one block; a block holds each treatment once")
    # pivot, because pivot_table would average what it should refuse
    return cell.pivot(index=["session", "block"], columns="system", values="value")  # noqa: PD010


def _margin(margins: Mapping[str, float], metric: str) -> float:
    margin = margins.get(metric, margins.get(""))
    if margin is None:
        raise DesignError(f"no equivalence margin for {metric!r} and no default: add one, or a default under ''")
    if not 0 < margin < 1:
        raise DesignError(f"equivalence margin of {metric!r} is {margin}: give a share between 0 and 1")
    return float(margin)


def _contrast(blocks: pd.DataFrame, system: str, baseline: str, margin: float) -> dict[str, Any]:
    absent = [name for name in (system, baseline) if name not in blocks]
    if absent:
        return {"n_pairs": 0, "margin": margin} | _verdict(f"no ok trial of {' and '.join(absent)}")
    pairs = blocks[[system, baseline]].dropna()
    x, y = pairs[system].to_numpy(dtype=float), pairs[baseline].to_numpy(dtype=float)
    row: dict[str, Any] = {"n_pairs": x.size, "margin": margin}
    if x.size == 0:
        return row | _verdict("no block has an ok trial of both")
    row |= {"mean": x.mean(), "baseline_mean": y.mean(), "difference": (x - y).mean()}
    delta = effects.cliffs_delta(x, y)
    ends = effects.cliffs_delta_interval(delta, x.size, y.size)
    row |= {"cliffs_delta": delta, "cliffs_delta_low": ends.low, "cliffs_delta_high": ends.high}
    row["delta_label"] = effects.delta_label(delta)
    if not y.mean():
        both = "both means are 0" if not x.any() else f"the mean of {baseline} is 0"
        difference = t_interval(x - y)
        row |= {"difference_low": difference.low, "difference_high": difference.high}
        return row | _test(x, y) | _verdict(f"{both}: no ratio")
    row["ratio"] = x.mean() / y.mean()
    if x.size < 2:
        return row | _verdict("a single complete block: no interval")
    if constant(x) and constant(y):
        return row | _verdict("deterministic: both systems repeat one value, no spread to infer from")
    return row | _inference(x, y, margin)


def _inference(x: Array, y: Array, margin: float) -> dict[str, Any]:
    """Intervals, tests and verdict of two paired samples that have a ratio and some spread."""
    ratio, difference = paired_fieller(x, y), t_interval(x - y)
    row: dict[str, Any] = {"ratio_low": ratio.low, "ratio_high": ratio.high}
    row |= {"difference_low": difference.low, "difference_high": difference.high} | _test(x, y)
    logs = np.log(x / y) if _positive(x, y) else np.empty(0)
    p_equivalence = equivalence.tost_log_ratio(x, y, margin).p
    row["p_equivalence"] = p_equivalence
    reason = "" if logs.size else "values not all positive: no equivalence test"
    if np.isnan(ratio.low):
        verdict, reason = INCONCLUSIVE, TOO_NOISY
    elif not ratio.low <= 1 <= ratio.high:
        verdict = WITHIN if p_equivalence < ALPHA else DIFFERENT
    else:
        verdict = EQUIVALENT if p_equivalence < ALPHA else INCONCLUSIVE
    blocks = equivalence.blocks_to_decide(_spread(logs), margin) if verdict == INCONCLUSIVE else NAN
    return row | {"verdict": verdict, "n_to_decide": blocks, "reason": reason}


def _verdict(reason: str) -> dict[str, Any]:
    return {"verdict": NOT_COMPARABLE, "reason": reason}


def _spread(logs: Array) -> float:
    return float(logs.std(ddof=1)) if logs.size > 1 else NAN


def _positive(x: Array, y: Array) -> bool:
    return bool((x > 0).all() and (y > 0).all())


def _test(x: Array, y: Array) -> dict[str, Any]:
    """p of the paired t test: on log ratios where all values are positive, else on differences."""
    logs = _positive(x, y)
    change = np.log(x / y) if logs else x - y
    if change.size < 2 or constant(change):
        return {"p": NAN, "p_method": None}
    p = float(stats.ttest_1samp(change, 0.0).pvalue)
    return {"p": p, "p_method": "paired t, log ratios" if logs else "paired t, differences"}


def _overhead(frame: pd.DataFrame) -> tuple[pd.Series, pd.Series, pd.Series]:
    """100 (r - 1) for costs, 100 (1 - r) for rates, with its ends in ascending order."""
    sign = frame["better"].map({"lower": 1.0, "higher": -1.0}).astype(float)
    middle, a, b = (100 * sign * (frame[name] - 1) for name in ("ratio", "ratio_low", "ratio_high"))
    return middle, np.minimum(a, b), np.maximum(a, b)


def _adjusted(frame: pd.DataFrame, primary: set[tuple[str, str]]) -> pd.DataFrame:
    frame = frame.copy()
    for key, index in frame.groupby(["workload", "metric"], observed=True).groups.items():
        p = frame.loc[index, "p"].to_numpy(dtype=float)
        frame.loc[index, "p_adjusted"] = adjust.holm(p) if key in primary else adjust.benjamini_hochberg(p)
        frame.loc[index, "adjustment"] = HOLM if key in primary else EXPLORATORY
    # the verdict rests on the interval of one contrast; say so where the whole family would not support it
    alone = frame["verdict"].isin([DIFFERENT, WITHIN]) & (frame["p_adjusted"] >= ALPHA) & (frame["reason"] == "")
    frame.loc[alone, "reason"] = "not significant within its family"
    return frame
