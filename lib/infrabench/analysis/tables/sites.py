"""What sites say side by side, and how far apart they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from infrabench.analysis.tables import notation
from infrabench.analysis.tables.ratios import ARROWS, SIGNS
from infrabench.analysis.tables.rows import CELL, pair, without_empty
from infrabench.analysis.tables.ruled_out import ruled_out

MEAN = ("mean of sites", "mean of sites 95 % CI", "Hartung-Knapp 95 % CI", "a new site")
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
        Text. What the mean's interval rules out stands beside a verdict that decides nothing. A ratio stands with its
        95 % interval and the sign of the site's own verdict (`SIGNS`); a star marks a site that is named apart from the
        others. The interval of the mean is this project's own composition (`meta_analysis.summary`), Hartung and
        Knapp's beside it the customary one; that of a new site is the 95 % prediction interval.
    """
    cells = {(*(getattr(row, key) for key in CELL), row.site): _site(row) for row in rows.itertuples(index=False)}
    table = []
    for row in over.itertuples(index=False):
        case = tuple(getattr(row, key) for key in CELL)
        told = _names(row) | {site: cells.get((*case, site), NOTHING) for site in sites}
        if np.isfinite(row.ratio):
            told |= pair("mean of sites", notation.estimate(row.ratio, row.ratio_low, row.ratio_high, null=1))
            told["Hartung-Knapp 95 % CI"] = notation.interval(row.hartung_knapp_low, row.hartung_knapp_high, null=1)
            told["a new site"] = notation.interval(row.predicted_low, row.predicted_high, null=1)
        else:
            told |= dict.fromkeys(MEAN, "")
        table.append(told | {"verdict": row.verdict, "ruled out": ruled_out(row), "over sites": row.across})
    made = pd.DataFrame(table, dtype="str")
    return without_empty(made, (*MEAN, "ruled out"))


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
        told |= {"p": notation.p_value(row.p_sites), "p adjusted": notation.p_value(row.p_sites_adjusted)}
        told |= {"Q": notation.short(row.q), "p of Q": notation.p_value(row.p_q)}
        told |= {"over sites": row.across, "named": row.named, "missing": row.missing, "reason": row.reason}
        table.append(told)
    made = pd.DataFrame(table, dtype="str")
    spread = [f"{name}{end}" for name in ("SD between sites %", "I² %") for end in ("", " 95 % CI")]
    return without_empty(made, (*spread, "named", "missing", "reason"))


def _names(row: Any) -> dict[str, str]:
    metric = f"{notation.metric_title(row.metric)} {ARROWS[row.better]}"
    return {"workload": row.workload, "scenario": row.scenario, "metric": metric, "system": row.system}


def _site(row: Any) -> str:
    if not np.isfinite(row.ratio_low):
        return NOTHING
    number, interval = notation.estimate(row.ratio, row.ratio_low, row.ratio_high, null=1)
    return f"{number} {interval} {SIGNS[row.verdict]}{' *' if row.named else ''}"


def _percent(row: Any, name: str) -> tuple[str, str]:
    """A share in percent with its interval: both to two digits, as its ends may be orders of magnitude apart."""
    value, low, high = (100 * getattr(row, each) for each in (name, f"{name}_low", f"{name}_high"))
    if not np.isfinite(value):
        return "", ""
    return notation.short(value), f"[{notation.short(low)}, {notation.short(high)}]"
