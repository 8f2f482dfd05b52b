"""The sentences that captions share; every number in them is computed from the frames of the analysis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from infrabench.analysis.tables import notation
from infrabench.core import STATES
from infrabench.stats import losses
from infrabench.stats.events import BY_SHARES
from infrabench.stats.verdicts import PAIRED_T

LOST = STATES[1:]  # the states of a trial that has no value
BIMODAL = "bimodal"  # the flag of two modes
LOSSES = "‡"  # marks a contrast with lost trials
MOST_NOTES = 4  # of one kind below a figure
# of a ratio: p_method -> what its interval is by; of a share the difference has one
INTERVALS = {PAIRED_T: "paired Fieller", BY_SHARES: "none of a share, which is compared by the difference"}
ORDERS = {
    "random": "Systems were measured in randomised complete blocks",
    "adjacent": "Systems were measured in randomised complete blocks, one directly after the other in each case",
    "williams": "Systems were measured in complete blocks ordered by Williams squares",
}


def order_sentence(table: pd.DataFrame, order: str) -> str:
    """Return how the trials were ordered, and over how many deployments; one more than one is a split-plot design.

    `order`: a key of `ORDERS`, or a sentence of its own.
    """
    text = ORDERS.get(order, order.rstrip(". "))
    deployments = table[table["state"] != "discarded"].groupby(["session", "deployment"]).ngroups
    if deployments > 1:
        text += f" within {deployments} deployments of every system (split-plot; the deployment is the unit)"
    return f"{text}. "


def grouped(groups: Sequence[str], order: str = "random") -> str:
    """Return, for `order_sentence`, that the cases of each group stand together, and in which order of the systems."""
    text = f"{ORDERS['random']}, in which each system does the cases of one group ({', '.join(groups)}) together"
    return f"{text}, one system directly after the other" if order == "adjacent" else text


def metric_in(values: Any, metric: str, unit: str) -> str:
    """Return ``read in MB/s (1 MB/s = 10⁶ B/s)``: the metric in words, in the unit in which `values` are shown."""
    scale = notation.scale(values, unit)
    shown = "counts" if scale.unit == "1" else scale.unit
    return f"{notation.metric_title(metric)} in {shown}" + (f" ({scale.note})" if scale.note else "")


def span(values: Any, digits: str = "g") -> str:
    """Return ``7`` or ``7 to 8``: the range of finite values; ``n/a`` without one."""
    finite = np.asarray(values, dtype=float)
    finite = finite[np.isfinite(finite)]
    if not finite.size:
        return "n/a"
    ends = dict.fromkeys(f"{v:{digits}}" for v in (finite.min(), finite.max()))
    return " to ".join(ends)


def pairs(contrasts: pd.DataFrame) -> str:
    """Return ``30 blocks`` or ``5 to 6 deployments``: over how many pairs of which unit the contrasts were made."""
    some = contrasts[contrasts["n_pairs"] > 0]
    rows = contrasts if some.empty else some
    return f"{span(rows['n_pairs'])} {' or '.join(dict.fromkeys(rows['pair_unit']))}"


def ratio_interval(contrasts: pd.DataFrame) -> str:
    """Return ``its paired 95 % Fieller interval``, or by what methods the intervals are where not all are by that."""
    after = losses.METHOD.format(method="")
    methods = dict.fromkeys(method.removesuffix(after) for method in contrasts["p_method"].dropna())
    if {*methods} <= {PAIRED_T}:
        return "its paired 95 % Fieller interval"
    return f"its 95 % interval ({'; '.join(INTERVALS.get(method, method) for method in methods)})"


def by_system(trials: pd.DataFrame) -> str:
    """Return how many trials each system has: ``29 docker, 30 native``."""
    sizes = trials.groupby("system", observed=True).size()
    return ", ".join(f"{count} {name}" for name, count in sizes.items())


def counts(case: pd.DataFrame) -> str:
    """Return ``n = 29 docker, 30 native. ``: how many trials of each system have a value."""
    return f"n = {by_system(case[case['value'].notna()])}. "


def no_value(trials: pd.DataFrame, pending: int = 0) -> str:
    """Return how many trials carry no value, by state and system, and how many are not yet run.

    `trials` has one row per trial and metric.
    """
    once = trials.drop_duplicates(["session", "trial"])
    words = [f"{state}: {lost}" for state in LOST if (lost := by_system(once[once["state"] == state]))]
    words += [f"not yet run: {pending}"] if pending else []
    if not words:
        return "No trial failed or was invalid. "
    return f"Trials without a value, counted and never averaged - {'; '.join(words)}. "


def repeats(trials: pd.DataFrame) -> str:
    """Return how many trials repeat an invalid one, by system, and how many blocks were discarded whole."""
    once = trials.drop_duplicates(["session", "trial"])
    repeated = by_system(once[once["attempt"] > 0])
    text = f"Repeated at the end of the same block: {repeated}. " if repeated else ""
    blocks = once[once["state"] == "discarded"].groupby(["session", "block"]).ngroups
    return text + (f"Discarded whole and not used: {blocks} block{'s' * (blocks > 1)}. " if blocks else "")


def contrast_name(row: Any) -> str:
    """Return which contrast a row is of: ``web Requests per second 1000 users docker``."""
    return f"{row.workload} {notation.metric_title(row.metric)} {row.scenario} {row.system}"


def lost_notes(contrasts: pd.DataFrame) -> list[str]:
    """Return the notes below a figure that say of its contrasts with lost trials which were lost."""
    rows = list(contrasts[contrasts["flags"].str.contains(losses.LOST, regex=False)].itertuples(index=False))
    if len(rows) > MOST_NOTES:
        return [f"{LOSSES} {len(rows)} contrasts have lost trials; the table says which"]
    return [f"{LOSSES} {contrast_name(row)}: {row.reason}" for row in rows]


def conduct(table: pd.DataFrame, rows: pd.DataFrame, order: str) -> str:
    """Return how the trials behind some rows were ordered, and which are lost, repeated or discarded.

    `rows`: columns ``workload`` and ``scenario``.
    """
    cases = pd.MultiIndex.from_frame(rows[["workload", "scenario"]])
    trials = table[pd.MultiIndex.from_frame(table[["workload", "scenario"]]).isin(cases)]
    return order_sentence(trials, order) + no_value(trials) + repeats(trials)


def dependence(rows: Sequence[Any]) -> str:
    """Return r1 of every system of a case, and which are flagged dependent, from their rows of the diagnostics."""
    rows = [row for row in rows if np.isfinite(row.lag1)]
    if not rows:
        return ""
    text = f"Autocorrelation at lag 1: {', '.join(f'{row.system} {row.lag1:.2f}' for row in rows)}. "
    dependent = "; ".join(
        f"{row.system} (Ljung-Box p {p_text(row.ljung_box_p)}, trend p {p_text(row.trend_p)})"
        for row in rows
        if "dependent" in row.flags
    )
    if not dependent:
        return text + "None is flagged dependent (Ljung-Box at lag 1 or Kendall's trend, p < 0.01). "
    return text + f"Flagged dependent: {dependent}: rely on the paired comparison there. "


def p_text(p: float) -> str:
    text = notation.p_value(p)
    return text if text[0] in "<n" else f"= {text}"
