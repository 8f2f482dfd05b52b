"""Tidy table -> one row per system and baseline: ratio, interval, tests, equivalence, effect sizes, verdict.

Only complete blocks enter: a block counts for a contrast when the system and the baseline both have an ok trial in
it, so whatever the block did to both cancels. Where systems were deployed more than once, the means of each
deployment are the pairs, for its trials are not independent. A treatment that nobody tried has no contrast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from infrabench.core import DesignError
from infrabench.stats import adjust
from infrabench.stats.blocks import PER_DEPLOYMENT, Blocked, blocked, stacks
from infrabench.stats.diagnostics import outlier_mask
from infrabench.stats.intervals import NAN, Array
from infrabench.stats.measures import measure_effects
from infrabench.stats.resolution import resolution_step
from infrabench.stats.verdicts import ALPHA, DIFFERENT, LIMITED, WITHIN, Pairs, judge

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
    "pair_unit": "str",
    **dict.fromkeys(("log_ratio", "log_low", "log_high", "median_ratio", "median_low", "median_high"), "float64"),
    **dict.fromkeys(("p_signed_rank", "p_sign_flip", "shift", "shift_low", "shift_high"), "float64"),
    **dict.fromkeys(("hedges_g", "hedges_low", "hedges_high", "detectable", "power_equivalence"), "float64"),
    "verdict_without_flagged": "str",
    "sensitive": "bool",
    "flags": "str",
}
COLUMNS = tuple(TYPES)


def contrasts(
    table: pd.DataFrame,
    baseline: str,
    margins: Mapping[str, float],
    primary: Iterable[tuple[str, str]] = (),
    cube: Blocked | None = None,
) -> pd.DataFrame:
    """Return one row per (workload, scenario, metric, system other than the baseline).

    There is none for a case that the system, or a baseline with trials elsewhere, never tried: it does not apply there.

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
    cube
        `blocked(table)` where it is there already, also of systems that were tried in other workloads.

    Returns
    -------
    DataFrame
        Columns `COLUMNS`. ``n_pairs`` pairs of ``pair_unit`` (blocks, or deployments where there are several).
        ``ratio``: of means, with the paired Fieller interval; ``overhead_percent``: signed, positive is worse whatever
        the direction of the metric; ``difference``: in the metric's unit, paired t; ``p``: paired t on log ratios;
        ``log_ratio``: of geometric means; ``median_ratio``: with a paired bootstrap interval, approximate;
        ``p_signed_rank``, ``p_sign_flip`` (primary metrics; drawn, not counted, above 30 pairs) and ``shift``
        (Hodges-Lehmann): of the differences; ``detectable``: the relative difference that so many pairs of this spread
        find with 80 % power; ``power_equivalence``: the chance that the equivalence test passes at a true ratio of 1;
        ``verdict_without_flagged``: when the pairs with a value of modified z above 3.5 in its cell are left out, and
        ``sensitive`` when that changes it; ``flags``: words joined by "; "; ``reason``: why a verdict is not
        available, or what qualifies it.

    Raises
    ------
    DesignError
        A metric has no margin and there is no default, or a margin is not between 0 and 1.
    SchemaError
        A block holds two ok trials of the same cell.
    """
    cube, primary = blocked(table) if cube is None else cube, set(primary)
    others = [system for system in cube.systems if system != baseline]
    frame = cube.cases.loc[cube.cases.index.repeat(len(others))].reset_index(drop=True)
    if frame.empty:
        return frame.reindex(columns=list(COLUMNS)).astype(TYPES)
    frame = frame.assign(system=np.tile(others, len(cube.cases)), baseline=baseline)
    frame["margin"] = [_margin(margins, metric) for metric in frame["metric"]]
    frame["primary"] = [key in primary for key in zip(frame["workload"], frame["metric"], strict=True)]
    values = _pairs_of(cube.numbers, cube.systems, baseline)
    flagged = _pairs_of(_flagged(cube.numbers), cube.systems, baseline) & np.isfinite(values).all(axis=1, keepdims=True)
    frame["step"], frame["sd"] = _printing(values)
    frame = frame.join(_by_stack(frame, values, cube.deployment, _both))
    frame = _without_flagged(frame, values, flagged.any(axis=1), cube.deployment)
    frame["reason"] = _absent(frame, values)
    frame["overhead_percent"], frame["overhead_low"], frame["overhead_high"] = _overhead(frame)
    frame["p_adjusted"], frame["adjustment"] = adjust.by_metric(frame, frame["p"], primary)
    # the verdict rests on the interval of one contrast; say so where the whole family would not support it
    alone = frame["verdict"].isin([DIFFERENT, WITHIN]) & (frame["p_adjusted"] >= ALPHA) & (frame["reason"] == "")
    frame.loc[alone, "reason"] = "not significant within its family"
    frame = frame[_tried(frame, table, baseline in cube.systems)].reindex(columns=list(COLUMNS)).astype(TYPES)
    return frame.sort_values(["workload", "metric", "level", "scenario", "system"], ignore_index=True)


def _tried(frame: pd.DataFrame, table: pd.DataFrame, compared: bool) -> NDArray[np.bool_]:
    """Which contrasts are of a case in which the system has a trial of any state, and so has the baseline.

    Of the baseline none is asked where it was tried nowhere (not `compared`).
    """
    cells = pd.MultiIndex.from_frame(table[["workload", "scenario", "system"]].drop_duplicates())
    here, base = (
        pd.MultiIndex.from_frame(frame[["workload", "scenario", who]]).isin(cells) for who in ("system", "baseline")
    )
    return here & (base | (not compared))


def _margin(margins: Mapping[str, float], metric: str) -> float:
    margin = margins.get(metric, margins.get(""))
    if margin is None:
        raise DesignError(f"no equivalence margin for {metric!r} and no default: add one, or a default under ''")
    if not 0 < margin < 1:
        raise DesignError(f"equivalence margin of {metric!r} is {margin}: give a share between 0 and 1")
    return float(margin)


def _pairs_of(values: Array, systems: tuple[str, ...], baseline: str) -> Array:
    """(cases, systems, blocks) -> (contrasts, 2, blocks): each system, and the baseline beside it."""
    others = [i for i, system in enumerate(systems) if system != baseline]
    absent = np.full_like(values[:, :1], False if values.dtype == bool else NAN)
    base = values[:, [systems.index(baseline)]] if baseline in systems else absent
    paired = np.stack([values[:, others], np.broadcast_to(base, values[:, others].shape)], axis=2)
    return paired.reshape(len(values) * len(others), 2, values.shape[-1])


def _flagged(values: Array) -> NDArray[np.bool_]:
    """Which values are far from the others of their cell: a modified z above 3.5. Shape of `values`."""
    rows = values.reshape(values.shape[0] * values.shape[1], values.shape[-1])
    there, flagged = np.isfinite(rows), np.zeros(rows.shape, dtype=bool)
    for n in np.unique(there.sum(axis=-1)):
        cells = there.sum(axis=-1) == n
        flagged[there & cells[:, None]] = outlier_mask(rows[cells][there[cells]].reshape(cells.sum(), n)).ravel()
    return flagged.reshape(values.shape)


def _printing(values: Array) -> tuple[Array, Array]:
    """The printing step of both systems' trials together, and the smaller of their spreads, by contrast."""
    step, sd = np.full((2, len(values)), NAN)
    blocks = np.zeros(values.shape[-1], dtype=int)
    for cells, found in stacks(values, blocks, np.zeros(len(values), dtype=bool)):
        if found.shape[-1] > 1:
            step[cells] = resolution_step(found.reshape(len(found), -1))
            sd[cells] = found.std(axis=-1, ddof=1).min(axis=-1)
    return step, sd


def _by_stack(
    frame: pd.DataFrame, values: Array, deployment: NDArray[np.intp], measure: Callable[[Pairs, Array], dict[str, Any]]
) -> pd.DataFrame:
    """The columns that `measure` finds, contrasts with equally many pairs at a time, index of `frame`."""
    parts = []
    for cells, found in stacks(values, deployment, (frame["pair_unit"] == PER_DEPLOYMENT).to_numpy(dtype=bool)):
        if len(cells):
            some = frame.iloc[cells]
            given = (some[name].to_numpy(dtype=float) for name in ("margin", "step", "sd"))
            pairs = Pairs(found[:, 0], found[:, 1], *given, some["baseline"].iloc[0], some["pair_unit"].iloc[0])
            parts.append(pd.DataFrame(measure(pairs, some["primary"].to_numpy(dtype=bool)), index=some.index))
    return pd.concat(parts).loc[frame.index] if parts else pd.DataFrame(index=frame.index)


def _both(pairs: Pairs, primary: NDArray[np.bool_]) -> dict[str, Any]:
    return judge(pairs) | measure_effects(pairs, primary)


def _without_flagged(
    frame: pd.DataFrame, values: Array, flagged: NDArray[np.bool_], deployment: NDArray[np.intp]
) -> pd.DataFrame:
    """Add the verdicts without the pairs that hold a flagged value, and the flags of each contrast."""
    some = flagged.any(axis=-1)
    frame["verdict_without_flagged"] = frame["verdict"]
    if some.any():
        left = np.where(flagged[some, None], NAN, values[some])
        again = _by_stack(frame[some], left, deployment, lambda pairs, _: judge(pairs))
        frame.loc[some, "verdict_without_flagged"] = again["verdict"]
    frame["sensitive"] = frame["verdict_without_flagged"] != frame["verdict"]
    words = ((LIMITED, frame["limited"]), ("outliers", some))
    marks = zip(*(np.where(raised, word, "") for word, raised in words), strict=True)
    frame["flags"] = ["; ".join(filter(None, each)) for each in marks]
    return frame


def _absent(frame: pd.DataFrame, values: Array) -> list[str]:
    """The reason of each contrast; that a system has no ok trial at all goes before what follows from it."""
    ran = np.isfinite(values).any(axis=-1)
    names = zip(frame["system"], frame["baseline"], strict=True)
    gone = [
        " and ".join(n for n, there in zip(both, each, strict=True) if not there)
        for both, each in zip(names, ran, strict=True)
    ]
    return [f"no ok trial of {who}" if who else reason for who, reason in zip(gone, frame["reason"], strict=True)]


def _overhead(frame: pd.DataFrame) -> tuple[pd.Series, pd.Series, pd.Series]:
    """100 (r - 1) for costs, 100 (1 - r) for rates, with its ends in ascending order."""
    sign = frame["better"].map({"lower": 1.0, "higher": -1.0}).astype(float)
    middle, a, b = (100 * sign * (frame[name] - 1) for name in ("ratio", "ratio_low", "ratio_high"))
    return middle, np.minimum(a, b), np.maximum(a, b)
