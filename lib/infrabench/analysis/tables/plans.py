"""What a campaign needs, as text."""

from __future__ import annotations

import pandas as pd

from infrabench.analysis.tables import notation
from infrabench.analysis.tables.rows import NO_UNIT, row_names, without_empty


def planning_table(plan: pd.DataFrame) -> pd.DataFrame:
    """Return how many blocks or deployments each aim needs, and if the spread is as large as the pilot allows."""
    aims = {"mean": "mean within ±{} %", "ratio": "ratio within ±{} %", "verdict": "no inconclusive verdict at {} %"}
    rows = []
    for row in plan.itertuples(index=False):
        sizes = {name: notation.short(getattr(row, name)) for name in ("n", "n_high", "hours", "hours_high")}
        aim = {"aim": aims[row.quantity].format(f"{100 * row.target:g}"), "n of the pilot": str(row.n_pilot)}
        aim |= {"spread %": notation.short(100 * row.spread), "n": sizes["n"], "n at most": sizes["n_high"]}
        aim |= {"unit": row.unit, "hours": sizes["hours"], "hours at most": sizes["hours_high"], "note": row.note}
        rows.append(row_names(row, NO_UNIT) | {"metric": row.metric} | aim)
    return without_empty(pd.DataFrame(rows, dtype="str"), ("note",))


def dimensions_table(plan: pd.DataFrame) -> pd.DataFrame:
    """Return how many deployments, and blocks in each, reach each aim at the least cost."""
    aims = {"mean": "mean within ±{} %", "ratio": "ratio within ±{} %"}
    rows = []
    for row in plan.itertuples(index=False):
        shown = {"metric": row.metric, "aim": aims[row.quantity].format(f"{100 * row.target:g}")}
        shown |= {"SD of blocks %": notation.short(100 * row.sd_within)}
        shown |= {"SD of deployments %": notation.short(100 * row.sd_between)}
        shown |= {"blocks in each": notation.short(row.blocks), "deployments": notation.short(row.deployments)}
        shown |= {"deployments at most": notation.short(row.deployments_high), "hours": notation.short(row.hours)}
        shown |= {"hours at most": notation.short(row.hours_high), "note": row.note}
        rows.append(row_names(row, NO_UNIT) | shown)
    return without_empty(pd.DataFrame(rows, dtype="str"), ("note",))
