"""What sites say side by side, and how far apart they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from infrabench import display
from infrabench.tables.ratios import ARROWS, SIGNS
from infrabench.tables.rows import CELL, pair, without_empty

NOTHING = "none"  # no ratio at this site: the table of sites that are missing says why


def sites_table(rows: pd.DataFrame, over: pd.DataFrame, sites: Sequence[str]) -> pd.DataFrame:
    """Return one row per case and system: each site's ratio with its interval, the mean over sites, and a new site's.

    Parameters
    ----------
    rows, over
        `stats.sites.per_site` and `over_sites`.
    sites
        Every planned site, in the order of the columns.

    Returns
    -------
    DataFrame
        Text. A ratio stands with its 95 % interval and the sign of the site's own verdict (`SIGNS`); a star marks a
        site that is named apart from the others. The interval of a new site is the 95 % prediction interval.
    """
    cells = {(*(getattr(row, key) for key in CELL), row.site): _site(row) for row in rows.itertuples(index=False)}
    table = []
    for row in over.itertuples(index=False):
        case = tuple(getattr(row, key) for key in CELL)
        told = _names(row) | {site: cells.get((*case, site), NOTHING) for site in sites}
        if np.isfinite(row.ratio):
            told |= pair("mean of sites", display.estimate(row.ratio, row.ratio_low, row.ratio_high, null=1))
            told["a new site"] = display.interval(row.predicted_low, row.predicted_high, null=1)
        else:
            told |= {"mean of sites": "", "mean of sites 95 % CI": "", "a new site": ""}
        table.append(told | {"verdict": row.verdict, "over sites": row.across})
    made = pd.DataFrame(table, dtype="str")
    return without_empty(made, ("mean of sites", "mean of sites 95 % CI", "a new site"))


def heterogeneity_table(over: pd.DataFrame) -> pd.DataFrame:
    """Return one row per case and system: how many sites, how far apart, the tests, who is named, who is missing.

    ``SD between sites %``: of log ratios, in percent; ``I² %``: its share in what is seen. Both with 95 % intervals.
    ``p``: Welch's test that all sites have one ratio, and adjusted within its family; ``p of Q``: as if the sites'
    errors were known.
    """
    table = []
    for row in over.itertuples(index=False):
        told = _names(row) | {"sites": f"{row.sites} of {row.planned}"}
        told |= pair("SD between sites %", _percent(row, "tau")) | pair("I² %", _percent(row, "i_squared"))
        told |= {"p": display.p_value(row.p_sites), "p adjusted": display.p_value(row.p_sites_adjusted)}
        told |= {"Q": display.short(row.q), "p of Q": display.p_value(row.p_q)}
        told |= {"over sites": row.across, "named": row.named, "missing": row.missing, "reason": row.reason}
        table.append(told)
    made = pd.DataFrame(table, dtype="str")
    spread = [f"{name}{end}" for name in ("SD between sites %", "I² %") for end in ("", " 95 % CI")]
    return without_empty(made, (*spread, "named", "missing", "reason"))


def _names(row: Any) -> dict[str, str]:
    metric = f"{display.metric_title(row.metric)} {ARROWS[row.better]}"
    return {"workload": row.workload, "scenario": row.scenario, "metric": metric, "system": row.system}


def _site(row: Any) -> str:
    if not np.isfinite(row.ratio_low):
        return NOTHING
    number, interval = display.estimate(row.ratio, row.ratio_low, row.ratio_high, null=1)
    return f"{number} {interval} {SIGNS[row.verdict]}{' *' if row.named else ''}"


def _percent(row: Any, name: str) -> tuple[str, str]:
    """A share in percent with its interval: both to two digits, as its ends may be orders of magnitude apart."""
    value, low, high = (100 * getattr(row, each) for each in (name, f"{name}_low", f"{name}_high"))
    if not np.isfinite(value):
        return "", ""
    return display.short(value), f"[{display.short(low)}, {display.short(high)}]"
