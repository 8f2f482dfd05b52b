"""Cases as text: what differs or cannot be told apart, what cells look like, how large a session must be, sites."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from infrabench.analysis.tables import notation
from infrabench.analysis.tables.bounds import ruled_out
from infrabench.analysis.tables.cells import ARROWS, SIGNS
from infrabench.analysis.tables.columns import (
    CI,
    REPLICATES,
    Columns,
    both,
    f_test,
    metric_scales,
    numbers,
    p_values,
    pair,
    without_empty,
    words,
    write,
)
from infrabench.stats.table import CELL

MEAN = ("mean of sites", "mean of sites 95 % CI", "Hartung-Knapp 95 % CI", "a new site")
NOTHING = "none"  # no ratio at this site: the table of sites that are missing says why
HAS_NONE = "has none"  # another system answers here
NO_TRIAL = "no valid trial"
SITE_CASE: Columns = {
    **words("workload", "scenario"),
    "metric": lambda row: f"{notation.metric_title(row.metric)} {ARROWS[row.better]}",
    **words("system"),
}
AIMS = {"mean": "mean within ±{} %", "ratio": "ratio within ±{} %", "verdict": "no inconclusive verdict at {} %"}


def omnibus_table(omnibus: pd.DataFrame) -> pd.DataFrame:
    """Return one row per case: Friedman, Iman-Davenport, tiers; interaction of the metric."""
    columns = {
        **words("workload", "scenario", "metric"), "systems": lambda row: str(row.k), **REPLICATES,
        **numbers({"Friedman χ²": "friedman_chi2"}), **p_values({"p (χ²)": "friedman_p"}),
        **f_test("", "", "iman_davenport_f", "iman_davenport_p"), **p_values({"p adjusted": "p_adjusted"}),
        **words("adjustment", "tiers"),
        **f_test(" (system x scenario)", "interaction_", "interaction_f", "interaction_p"), **words("reason"),
    }  # fmt: skip
    return write(omnibus, columns, ("reason",))


def interactions_table(interactions: pd.DataFrame) -> pd.DataFrame:
    """Return one row per metric and system: is its ratio to the baseline the same at every scenario, if several?"""
    rows = interactions[interactions["levels"] > 1]
    baselines = list(dict.fromkeys(rows["baseline"]))
    columns = {
        **words("workload", "metric", "system"), "scenarios": lambda row: str(row.levels), **REPLICATES,
        **f_test(f" (with {', '.join(baselines)} x scenario)", "", "f", "p"), **p_values({"p adjusted": "p_adjusted"}),
        **words("adjustment", "reason"),
    }  # fmt: skip
    return write(rows, columns, ("reason",))


def trends_table(trends: pd.DataFrame) -> pd.DataFrame:
    """Return one row per metric, numeric factor and system: the power of the level that the metric grows with."""
    columns = {
        **words("workload", "metric", "factor", "system"), "levels": lambda row: str(row.levels), **REPLICATES,
        "power of the level": lambda row: both(row, "power", null=0)[0],
        "power 95 % CI": lambda row: both(row, "power", null=0)[1],
        **p_values({"p": "p", "p adjusted": "p_adjusted"}), **words("adjustment", "reason"),
    }  # fmt: skip
    return write(trends, columns, ("reason",))


def tiers_table(tiers: pd.DataFrame) -> pd.DataFrame:
    """Return one row per case and one column per system: systems that share a letter cannot be separated."""
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for row in tiers.itertuples(index=False):
        case = (row.workload, row.scenario, row.metric)
        none = dict.fromkeys(tiers["system"], "")
        rows.setdefault(case, dict(zip(CELL, case, strict=False)) | none)[row.system] = row.letters
    return pd.DataFrame(list(rows.values()), dtype="str")


def diagnostics_table(diagnostics: pd.DataFrame) -> pd.DataFrame:
    """Return one row per cell: what the values say about independence, shape, modes and resolution."""
    columns = {
        **words(*CELL), "n": lambda row: str(row.n), **numbers({"r1": "lag1"}),
        **p_values({"Ljung-Box p": "ljung_box_p"}), **numbers({"trend τ": "trend_tau"}),
        **p_values({"trend p": "trend_p"}), **numbers({"n_eff": "n_eff"}), **p_values({"Shapiro p": "shapiro_p"}),
        **numbers({"skewness": "skewness", "outliers": "outliers", "D": "split_d", "D (logs)": "split_d_log"}),
        "modes (SI)": lambda row: row.modes,
        "mode by deployment": lambda row: row.mode_by_deployment, **numbers({"step (SI)": "step"}), **words("flags"),
    }  # fmt: skip
    return write(diagnostics, columns, ("modes (SI)", "mode by deployment"))


def planning_table(plan: pd.DataFrame) -> pd.DataFrame:
    """Return how many blocks or deployments each aim needs, and if the spread is as large as the pilot allows."""
    columns = {
        **words(*CELL), "aim": _aim, "n of the pilot": lambda row: str(row.n_pilot),
        **numbers({"spread %": "spread"}, times=100), **numbers({"n": "n", "n at most": "n_high"}), **words("unit"),
        **numbers({"hours": "hours", "hours at most": "hours_high"}), **words("note"),
    }  # fmt: skip
    return write(plan, columns, ("note",))


def dimensions_table(plan: pd.DataFrame) -> pd.DataFrame:
    """Return how many deployments, and blocks in each, reach each aim at the least cost."""
    columns = {
        **words(*CELL), "aim": _aim,
        **numbers({"SD of blocks %": "sd_within", "SD of deployments %": "sd_between"}, times=100),
        **numbers({"blocks in each": "blocks", "deployments": "deployments", "deployments at most": "deployments_high",
                   "hours": "hours", "hours at most": "hours_high"}), **words("note"),
    }  # fmt: skip
    return write(plan, columns, ("note",))


def _aim(row: Any) -> str:
    return AIMS[row.quantity].format(f"{100 * row.target:g}")


def sites_table(rows: pd.DataFrame, over: pd.DataFrame, sites: Sequence[str]) -> pd.DataFrame:
    """Return one row per case and system: each site's ratio with its interval, the mean over sites, and a new site's.

    `rows` and `over` are of `stats.sites.per_site` and `over_sites`; `sites` every planned site, in the order of the
    columns. A ratio stands with its 95 % interval and the sign of the site's own verdict (`SIGNS`); a star marks a site
    that is named apart from the others. What the mean's interval rules out stands beside its verdict. The interval of
    the mean is this project's own composition (`stats.summary`), Hartung and Knapp's beside it the customary one; that
    of a new site is the 95 % prediction interval.
    """
    cells = {(*(getattr(row, key) for key in CELL), row.site): _site(row) for row in rows.itertuples(index=False)}
    table = []
    for row in over.itertuples(index=False):
        case = tuple(getattr(row, key) for key in CELL)
        texts = {name: text(row) for name, text in SITE_CASE.items()} | {
            site: cells.get((*case, site), NOTHING) for site in sites
        }
        if np.isfinite(row.ratio):
            texts |= pair("mean of sites", both(row, "ratio", null=1))
            texts["Hartung-Knapp 95 % CI"] = notation.interval(row.hartung_knapp_low, row.hartung_knapp_high, null=1)
            texts["a new site"] = notation.interval(row.predicted_low, row.predicted_high, null=1)
        else:
            texts |= dict.fromkeys(MEAN, "")
        table.append(texts | {"verdict": row.verdict, "ruled out": ruled_out(row), "over sites": row.across})
    frame = pd.DataFrame(table, dtype="str")
    return without_empty(frame, (*MEAN, "ruled out"))


def heterogeneity_table(over: pd.DataFrame) -> pd.DataFrame:
    """Return one row per case and system: how many sites, how far apart, the tests, who is named, who is missing.

    ``SD between sites %``: of log ratios, in percent; ``I² %``: its share in what is seen. Both with 95 % intervals.
    ``p``: Welch's test that all sites have one ratio, and adjusted within its family; ``p of Q``: as if the sites'
    errors were known.
    """
    spread = {**_percent("SD between sites %", "tau"), **_percent("I² %", "i_squared")}
    columns = {
        **SITE_CASE, "sites": lambda row: f"{row.sites} of {row.planned}", **spread,
        **p_values({"p": "p_sites", "p adjusted": "p_sites_adjusted"}), **numbers({"Q": "q"}),
        **p_values({"p of Q": "p_q"}), "over sites": lambda row: row.across, **words("named", "missing", "reason"),
    }  # fmt: skip
    return write(over, columns, (*spread, "named", "missing", "reason"))


def history_table(series: pd.DataFrame, changes: pd.DataFrame) -> pd.DataFrame:
    """Return one row per change of a series over sessions, and one per series without any.

    `series` and `changes` are of `analysis.history`. ``finds %``: a lasting change of this size in the middle of the
    series would have been found in four of five cases; n/a where the sessions are too few.
    """
    rows = series.merge(changes.drop(columns=["unit", "better"]), on=CELL, how="left")
    scales = metric_scales(rows, "before")

    def level(name: str) -> Callable[[Any], str]:
        return lambda row: notation.number(getattr(row, name) / scales[row.workload, row.metric].factor)

    of_change = {
        "changed at": lambda row: row.session, "before": level("before"), "after": level("after"),
        "ratio": notation.ratio, **p_values({"p adjusted": "p_adjusted"}), "got": lambda row: row.direction,
        "explained by": lambda row: row.explained or "unexplained",
    }  # fmt: skip
    columns = {
        **words("workload", "scenario"),
        "metric": lambda row: SITE_CASE["metric"](row) + scales[row.workload, row.metric].label, **words("system"),
        **numbers({"sessions": "n"}), **of_change, **numbers({"finds %": "finds"}, times=100),
    }  # fmt: skip
    table, unchanged = write(rows, columns), rows["session"].isna()
    table.loc[unchanged, list(of_change)] = ""
    no_change = np.where(np.isfinite(rows["finds"]), "none", "too few sessions")
    table.loc[unchanged, "changed at"] = no_change[unchanged]
    return table


def _site(row: Any) -> str:
    if not np.isfinite(row.ratio_low):
        return NOTHING
    return f"{notation.ratio(row)} {SIGNS[row.verdict]}{' *' if row.named else ''}"


def _percent(heading: str, name: str) -> Columns:
    """A share in percent and its interval: both to two digits, as its ends may be orders of magnitude apart."""

    def text(row: Any, form: str) -> str:
        value, low, high = (100 * getattr(row, each) for each in (name, f"{name}_low", f"{name}_high"))
        return form.format(*map(notation.short, (value, low, high))) if np.isfinite(value) else ""

    return {heading: lambda row: text(row, "{0}"), f"{heading} {CI}": lambda row: text(row, "[{1}, {2}]")}


@dataclass(frozen=True, slots=True)
class Question:
    """A metric as a question. `kind`: ``flag`` is 0 or 1, ``share`` from 0 to 1, ``count`` a whole number."""

    metric: str
    words: str
    kind: Literal["flag", "share", "count"]


def matrix_table(
    table: pd.DataFrame, workload: str, questions: Sequence[Question], *, scenarios: Sequence[str],
    systems: Sequence[str],
) -> pd.DataFrame:  # fmt: skip
    """Return one row for each scenario and question that some trial of it answers; one column for each system.

    `table` is the tidy table. Only valid trials have answers; the row *valid trials* counts them. `scenarios` and
    `systems` stand in this order; scenarios without a trial are left out. A flag reads ``3 of 3``; a share and a count
    are one number, or their smallest and largest. A system that has no such answer, as it has no such scrub, *has
    none*.
    """
    measured = table[table["workload"] == workload]
    rows = []
    for scenario in [name for name in scenarios if name in set(measured["scenario"])]:
        cases = measured[measured["scenario"] == scenario]
        trials = cases.drop_duplicates(["session", "trial"])
        of = {name: trials[trials["system"] == name] for name in systems}
        valid = {name: f"{(each['state'] == 'ok').sum()} of {len(each)}" for name, each in of.items()}
        rows.append({"scenario": scenario, "question": "valid trials", **valid})
        for question in questions:
            answers = cases[(cases["metric"] == question.metric) & cases["value"].notna()]
            if not answers.empty:
                cells = {
                    name: _answer(answers.loc[answers["system"] == name, "value"], question.kind)
                    if (of[name]["state"] == "ok").any()
                    else NO_TRIAL
                    for name in systems
                }
                rows.append({"scenario": scenario, "question": question.words, **cells})
    return pd.DataFrame(rows, columns=["scenario", "question", *systems], dtype="str")


def _answer(values: pd.Series, kind: str) -> str:
    if values.empty:
        return HAS_NONE
    if kind == "flag":
        return f"{int((values == 1).sum())} of {len(values)}"
    scale, unit = (100, " %") if kind == "share" else (1, "")
    ends = dict.fromkeys(notation.number(scale * value) for value in (values.min(), values.max()))
    return " to ".join(ends) + unit
