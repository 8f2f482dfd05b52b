"""What a campaign needs, and what differs between two sessions, as text."""

from __future__ import annotations

import pandas as pd

from infrabench import display
from infrabench.tables.rows import NO_UNIT, row_names, without_empty


def planning_table(plan: pd.DataFrame) -> pd.DataFrame:
    """Return how many blocks or deployments each aim needs, and if the spread is as large as the pilot allows."""
    aims = {"mean": "mean within ±{} %", "ratio": "ratio within ±{} %", "verdict": "no inconclusive verdict at {} %"}
    rows = []
    for row in plan.itertuples(index=False):
        sizes = {name: display.short(getattr(row, name)) for name in ("n", "n_high", "hours", "hours_high")}
        aim = {"aim": aims[row.quantity].format(f"{100 * row.target:g}"), "n of the pilot": str(row.n_pilot)}
        aim |= {"spread %": display.short(100 * row.spread), "n": sizes["n"], "n at most": sizes["n_high"]}
        aim |= {"unit": row.unit, "hours": sizes["hours"], "hours at most": sizes["hours_high"], "note": row.note}
        rows.append(row_names(row, NO_UNIT) | {"metric": row.metric} | aim)
    return without_empty(pd.DataFrame(rows, dtype="str"), ("note",))


def differences_table(difference: pd.DataFrame, first: str = "A", second: str = "B") -> pd.DataFrame:
    """Return what differs between two sessions, `first` and `second` by name; "absent" where one says nothing.

    `difference`: columns ``where``, ``key``, ``first``, ``second``, ``checked``.
    """
    shown = difference.astype("object").where(difference.notna(), "absent")
    shown["checked"] = shown["checked"].map({True: "yes", False: "no"})
    names = {"key": "field", "first": first, "second": second, "checked": "has to agree"}
    return shown.astype("str").rename(columns=names).reset_index(drop=True)
