"""The caption of a figure of estimates, from computed values only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import pandas as pd

from infrabench.analysis.figures.sentences import LOST, metric_in, order_sentence, pairs, repeats, span, without_value
from infrabench.analysis.tables import notation
from infrabench.core import STATES


def caption(
    estimates: pd.DataFrame,
    workload: str,
    metric: str,
    *,
    kind: Literal["points", "scaling"] = "points",
    contrasts: pd.DataFrame | None = None,
    not_run: Mapping[str, str] | None = None,
    table: pd.DataFrame | None = None,
    order: str = "random",
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
    table
        The tidy table: repeated trials, discarded blocks and deployments are counted in it.
    order
        How the trials of a block were ordered: ``adjacent``, ``random``, ``williams``, or a sentence.
    """
    cells = estimates[(estimates["workload"] == workload) & (estimates["metric"] == metric)]
    if cells.empty:
        return f"{workload}: no trial of {metric}."
    trials = None
    if table is not None:
        trials = table[(table["workload"] == workload) & table["scenario"].isin(set(cells["scenario"]))]
    parts = [
        f"{workload}, {metric_in(cells['max'], metric, cells['unit'].iloc[0])}; ",
        f"{notation.direction(cells['better'].iloc[0])}. ",
        f"n = {span(cells['n'])} trials in each of {len(cells)} cells. ",
        _marks(cells, kind),
        _ratios(contrasts, workload, metric),
        order_sentence(trials, order),
        _left_out(cells),
        repeats(trials),
    ]
    parts += [f"Not run: {name} ({reason}). " for name, reason in (not_run or {}).items()]
    return "".join(parts).strip()


def _marks(cells: pd.DataFrame, kind: str) -> str:
    """What the marks are; over several deployments the interval is that of their means."""
    several = cells[cells["deployments"] > 1]
    of = f" of the means of {span(several['deployments'])} deployments" if len(several) else ""
    if kind == "scaling":
        return f"Means with 95 % Student t intervals{of}, set a little apart at each level. "
    text = f"Points: one trial each; beside them mean with 95 % Student t interval{of}, and a tick at the median. "
    level = span(100 * cells["median_level"], ".1f")
    if level == "n/a":
        return text
    return f"{text}The tables give the median's exact order-statistic interval (level {level} %). "


def _ratios(contrasts: pd.DataFrame | None, workload: str, metric: str) -> str:
    if contrasts is None:
        return ""
    rows = contrasts[(contrasts["workload"] == workload) & (contrasts["metric"] == metric)]
    if rows.empty:
        return ""
    return (
        f"Ratio of means to {rows['baseline'].iloc[0]} over {pairs(rows)} with its paired 95 % Fieller interval; "
        f"band: equivalence margin of {100 * rows['margin'].iloc[0]:g} %. "
    )


def _left_out(cells: pd.DataFrame) -> str:
    """Trials that carry no value, by state and system, and planned trials that have not run."""
    sums = cells.groupby("system", observed=True)[list(LOST)].sum()
    counts = {(state, str(name)): int(sums.loc[name, state]) for state in LOST for name in sums.index}
    # repeats are in no plan
    pending = (cells["planned"] + cells["repeats"] - cells[list(STATES)].sum(axis=1)).sum()
    return without_value(counts, int(pending))
