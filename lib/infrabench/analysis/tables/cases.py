"""Cases as text: whether systems differ at all, which can be told apart, what the values of a cell look like."""

from __future__ import annotations

import pandas as pd

from infrabench.analysis.tables import notation
from infrabench.analysis.tables.rows import CELL, NO_UNIT, f_test, row_names, without_empty


def omnibus_table(omnibus: pd.DataFrame) -> pd.DataFrame:
    """Return one row per case: Friedman, Iman-Davenport, critical distance, tiers; interaction of the metric."""
    rows = []
    for row in omnibus.itertuples(index=False):
        case = {"workload": row.workload, "scenario": row.scenario, "metric": row.metric}
        case |= {
            "systems": str(row.k),
            "n": f"{row.n} {row.pair_unit}",
            "Friedman χ²": notation.short(row.friedman_chi2),
        }
        case |= {"p (χ²)": notation.p_value(row.friedman_p)}
        case |= f_test("", row.iman_davenport_f, row.df1, row.df2, row.iman_davenport_p)
        case |= {"p adjusted": notation.p_value(row.p_adjusted), "adjustment": row.adjustment}
        case |= {"critical distance of mean ranks": notation.short(row.nemenyi_cd), "tiers": row.tiers}
        inner = (row.interaction_f, row.interaction_df1, row.interaction_df2, row.interaction_p)
        rows.append(case | f_test(" (system x scenario)", *inner) | {"reason": row.reason})
    return without_empty(pd.DataFrame(rows, dtype="str"), ("reason",))


def interactions_table(interactions: pd.DataFrame) -> pd.DataFrame:
    """Return one row per metric and system: is its ratio to the baseline the same at every scenario, if several?"""
    rows = []
    for row in interactions[interactions["levels"] > 1].itertuples(index=False):
        head = {"workload": row.workload, "metric": row.metric, "system": row.system}
        head |= {"scenarios": str(row.levels), "n": f"{row.n} {row.pair_unit}"}
        told = {"p adjusted": notation.p_value(row.p_adjusted), "adjustment": row.adjustment, "reason": row.reason}
        rows.append(head | f_test(f" (with {row.baseline} x scenario)", row.f, row.df1, row.df2, row.p) | told)
    return without_empty(pd.DataFrame(rows, dtype="str"), ("reason",))


def trends_table(trends: pd.DataFrame) -> pd.DataFrame:
    """Return one row per metric, numeric factor and system: the power of the level that the metric grows with."""
    rows = []
    for row in trends.itertuples(index=False):
        places = notation.decimals(row.power_low, row.power_high, null=0)
        rows.append(
            {
                "workload": row.workload, "metric": row.metric, "factor": row.factor,
                "system": row.system, "levels": str(row.levels), "n": f"{row.n} {row.pair_unit}",
                "power of the level": notation.number(row.power, places),
                "power 95 % CI": notation.interval(row.power_low, row.power_high, null=0),
                "p": notation.p_value(row.p), "p adjusted": notation.p_value(row.p_adjusted),
                "adjustment": row.adjustment, "Page p": notation.p_value(row.page_p), "reason": row.reason,
            }
        )  # fmt: skip
    return without_empty(pd.DataFrame(rows, dtype="str"), ("reason",))


def tiers_table(tiers: pd.DataFrame) -> pd.DataFrame:
    """Return one row per case and one column per system: systems that share a letter cannot be separated."""
    keys = list(dict.fromkeys(zip(tiers["workload"], tiers["scenario"], tiers["metric"], strict=True)))
    letters = dict(zip(tiers[CELL].itertuples(index=False, name=None), tiers["letters"], strict=True))
    rows = []
    for key in keys:
        case = dict(zip(CELL[:3], (*key[:2], key[2]), strict=True))
        rows.append(case | {name: letters.get((*key, name), "") for name in dict.fromkeys(tiers["system"])})
    return pd.DataFrame(rows, dtype="str")


def diagnostics_table(diagnostics: pd.DataFrame) -> pd.DataFrame:
    """Return one row per cell: what the values say about independence, shape, modes and resolution."""
    numbers = {
        "r1": "lag1", "trend τ": "trend_tau", "n_eff": "n_eff", "skewness": "skewness", "D": "split_d",
        "D (logs)": "split_d_log", "step (SI)": "step", "outliers": "outliers",
    }  # fmt: skip
    tests = {"Ljung-Box p": "ljung_box_p", "lags 1-5 p": "ljung_box5_p", "runs p": "runs_p", "trend p": "trend_p"}
    tests |= {"Shapiro p": "shapiro_p", "dip p": "dip_p"}
    order = ("r1", "Ljung-Box p", "lags 1-5 p", "runs p", "trend τ", "trend p", "n_eff", "Shapiro p", "skewness")
    rows = []
    for row in diagnostics.itertuples(index=False):
        shown = {label: notation.short(getattr(row, name)) for label, name in numbers.items()}
        shown |= {label: notation.p_value(getattr(row, name)) for label, name in tests.items()}
        shown |= {"modes (SI)": row.modes, "mode by deployment": row.mode_by_deployment, "flags": row.flags}
        last = ("outliers", "D", "D (logs)", "dip p", "modes (SI)", "mode by deployment", "step (SI)", "flags")
        head = row_names(row, NO_UNIT) | {"metric": row.metric, "n": str(row.n)}
        rows.append(head | {label: shown[label] for label in (*order, *last)})
    return without_empty(pd.DataFrame(rows, dtype="str"), ("modes (SI)", "mode by deployment"))
