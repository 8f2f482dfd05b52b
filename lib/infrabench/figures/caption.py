"""The caption of a figure, from computed values only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import pandas as pd

from infrabench import display
from infrabench.core import STATES

BLOCKED = "Systems were measured in randomised complete blocks."


def caption(
    estimates: pd.DataFrame,
    workload: str,
    metric: str,
    *,
    kind: Literal["points", "scaling"] = "points",
    contrasts: pd.DataFrame | None = None,
    not_run: Mapping[str, str] | None = None,
    order: str = BLOCKED,
) -> str:
    """Return the caption of a figure of one metric: n, intervals, unit, direction, order, and what is missing.

    Parameters
    ----------
    estimates
        The estimates that the figure shows; select scenarios before the call.
    kind
        Which figure it is for.
    contrasts
        Given, the caption also explains the ratios and the equivalence margin.
    not_run
        System -> reason.
    order
        One sentence on the order of the trials.
    """
    cells = estimates[(estimates["workload"] == workload) & (estimates["metric"] == metric)]
    if cells.empty:
        return f"{workload}: no trial of {metric}."
    first = cells.iloc[0]
    scale = display.scale(cells["max"], first["unit"])
    unit = "counts" if scale.unit == "1" else scale.unit
    parts = [
        f"{workload}, {display.metric_title(metric)} in {unit}" + (f" ({scale.note})" if scale.note else ""),
        f"; {display.direction(first['better'])}. ",
        _counts(cells),
        _marks(cells, kind),
        _ratios(contrasts, workload, metric),
        f"{order} ",
        _left_out(cells),
    ]
    parts += [f"Not run: {name} ({reason}). " for name, reason in (not_run or {}).items()]
    return "".join(parts).strip()


def _counts(cells: pd.DataFrame) -> str:
    low, high = cells["n"].min(), cells["n"].max()
    each = f"n = {high}" if low == high else f"n = {low} to {high}"
    return f"{each} trials in each of {len(cells)} cells. "


def _marks(cells: pd.DataFrame, kind: str) -> str:
    if kind == "scaling":
        return "Means with 95 % Student t intervals, set a little apart at each level. "
    text = "Points: one trial each; beside them the mean with its 95 % Student t interval and a tick at the median. "
    levels = cells["median_level"].dropna()
    if levels.empty:
        return text
    ends = sorted({f"{100 * level:.1f}" for level in (levels.min(), levels.max())})
    return f"{text}The tables give the median's exact order-statistic interval (level {' to '.join(ends)} %). "


def _ratios(contrasts: pd.DataFrame | None, workload: str, metric: str) -> str:
    if contrasts is None:
        return ""
    rows = contrasts[(contrasts["workload"] == workload) & (contrasts["metric"] == metric)]
    if rows.empty:
        return ""
    margin, baseline = 100 * rows["margin"].iloc[0], rows["baseline"].iloc[0]
    low, high = rows["n_pairs"].min(), rows["n_pairs"].max()
    pairs = f"{high}" if low == high else f"{low} to {high}"
    return (
        f"Ratio of means to {baseline} over {pairs} complete blocks with its paired 95 % Fieller interval; "
        f"band: equivalence margin of {margin:g} %. "
    )


def _left_out(cells: pd.DataFrame) -> str:
    """Trials that carry no value, by state and system, and planned trials that have not run."""
    words = []
    for state in STATES[1:]:
        counts = cells.groupby("system", observed=True)[state].sum()
        found = ", ".join(f"{count} {system}" for system, count in counts.items() if count)
        words.append(f"{state}: {found}" if found else "")
    pending = int((cells["planned"] - cells[list(STATES)].sum(axis=1)).sum())
    words.append(f"not yet run: {pending}" if pending else "")
    told = "; ".join(word for word in words if word)
    return f"Trials without a value, not replaced - {told}. " if told else "No trial failed or was invalid. "
