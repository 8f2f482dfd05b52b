"""The ratios of a study as a paper prints them: a row for each case, a column for each system, signs for verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from infrabench.analysis.tables import notation

SIGNS = {
    "different": "≠", "different, within the margin": "≈", "equivalent": "=", "inconclusive": "?",
    "not comparable": "–",
}  # fmt: skip
ARROWS = {"higher": "↑", "lower": "↓"}  # the direction that is better
NOT_RUN = "not run"


def ratios_table(contrasts: pd.DataFrame, systems: Sequence[str]) -> pd.DataFrame:
    """Return one row per case: workload, metric (an arrow: the better direction), scenario, n, and each system's ratio.

    A ratio stands with its 95 % interval and the sign of its verdict (`SIGNS`). The scenario is left out where no
    workload has several. A system that has no contrast in a case was *not run* there.

    Parameters
    ----------
    contrasts
        Rows to show, in their order; select them before the call.
    systems
        Systems in the session's order, which is that of the columns.
    """
    shown = [name for name in systems if name in set(contrasts["system"])]
    rows = []
    for (workload, metric, scenario), case in contrasts.groupby(["workload", "metric", "scenario"], sort=False):
        head = {
            "workload": str(workload),
            "metric": f"{notation.metric_title(metric)} {ARROWS[case['better'].iloc[0]]}",
        }
        cells = {row.system: _format_ratio(row) for row in case.itertuples(index=False)}
        counts = dict.fromkeys(str(n) for n in case["n_pairs"] if n)
        rows.append(
            head | {"scenario": str(scenario), "n": " to ".join(sorted(counts, key=int)) or "0"}
            | {name: cells.get(name, NOT_RUN) for name in shown}
        )  # fmt: skip
    table = pd.DataFrame(rows, dtype="str")
    if table.empty or table.drop_duplicates(["workload", "scenario"])["workload"].duplicated().any():
        return table
    return table.drop(columns="scenario")


def describe_signs(contrasts: pd.DataFrame) -> str:
    """Return what the signs that occur in a table of these contrasts mean."""
    found = [verdict for verdict in SIGNS if verdict in set(contrasts["verdict"])]
    return "; ".join(f"{SIGNS[verdict]} {verdict}" for verdict in found)


def _format_ratio(row: Any) -> str:
    sign = SIGNS[row.verdict]
    if not np.isfinite(row.ratio):
        return sign
    number, interval = notation.estimate(row.ratio, row.ratio_low, row.ratio_high, null=1)
    return f"{number} {interval} {sign}"
