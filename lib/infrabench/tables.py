"""Tables to read: rounded, in shown units, as Markdown, CSV and LaTeX.

Numbers are text here, rounded by one rule (`infrabench.display`); the unrounded values stay in the frames that these
tables are made from.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from infrabench import display
from infrabench.core import STATES
from infrabench.display import latex as latex
from infrabench.display import markdown as markdown
from infrabench.display import save as save

CELL = ["workload", "scenario", "metric", "system"]
NO_UNIT = display.Scale(1.0, "", "")  # of a case that never succeeded, so that no metric is known
CI = "95 % CI"


def estimates_table(
    estimates: pd.DataFrame, diagnostics: pd.DataFrame | None = None, *, every: bool = False
) -> pd.DataFrame:
    """Return one row per cell: n, trials without a value, mean and median with 95 % intervals, spread, range.

    Parameters
    ----------
    estimates
        Each metric is shown in one unit throughout, so its rows can be compared by eye.
    diagnostics
        Given, cells flagged skewed get the bootstrap-t interval, and cells flagged dependent the interval with the
        effective n, beside Student's; the columns are there when some cell needs them.
    every
        Also geometric mean and pseudo-median with their intervals, the bootstrap-t interval of every cell, and how the
        trials are spread over deployments: for the file, not for the page.
    """
    scales, noted = _scales(estimates, "max"), _noted(diagnostics)
    rows = []
    for cell in estimates.itertuples(index=False):
        scale = scales.get((cell.workload, cell.metric), NO_UNIT)
        f, note = scale.factor, noted.get(tuple(getattr(cell, name) for name in CELL))
        mean, interval = _both(cell, "mean", factor=f)
        median, around = _both(cell, "median", factor=f)
        level = "" if np.isnan(cell.median_level) else f" ({100 * cell.median_level:.1f} %)"
        row = _names(cell, scale) | {"n": str(cell.n), "no value": _no_value(cell)}
        row |= {"mean": mean, f"mean {CI}": "deterministic" if cell.deterministic else interval}
        flags = note.flags if note is not None else ""
        row[f"bootstrap-t {CI}"] = row[f"mean {CI} (effective n)"] = ""
        if every or "skewed" in flags:
            row[f"bootstrap-t {CI}"] = display.interval(cell.boot_t_low / f, cell.boot_t_high / f)
        if "dependent" in flags:
            wider = display.interval(note.mean_low_eff / f, note.mean_high_eff / f)
            row[f"mean {CI} (effective n)"] = f"{wider} ({note.n_eff:.1f})"
        row |= {"median": median, f"median {CI} (level)": around + level, "SD": display.number(cell.sd / f)}
        row["CoV %"] = "n/a" if np.isnan(cell.cov) else f"{100 * cell.cov:.2f}"
        row |= {"min": display.number(cell.min / f), "max": display.number(cell.max / f)}
        if every:
            row |= _pair("geometric mean", _both(cell, "geometric_mean", "geometric", f))
            row |= _pair("pseudo-median", _both(cell, "pseudo_median", "pseudo", f))
            row |= {"deployments": str(cell.deployments), "n of the interval": str(cell.unit_n)}
            row["between deployments %"] = display.number(100 * cell.between_share)
        rows.append(row)
    return _without_empty(pd.DataFrame(rows, dtype="str"), (f"bootstrap-t {CI}", f"mean {CI} (effective n)"))


def contrasts_table(contrasts: pd.DataFrame, *, every: bool = False) -> pd.DataFrame:
    """Return one row per contrast in the order of importance: ratio, difference, effect sizes, verdict, p last.

    Where some verdict is another one without the values flagged as outliers, a column says which. `every` adds ratios
    of geometric means and of medians, and the Hodges-Lehmann shift: for the file, not for the page.
    """
    scales = _scales(contrasts, "baseline_mean")
    rows = []
    for row in contrasts.itertuples(index=False):
        scale = scales.get((row.workload, row.metric), NO_UNIT)
        f = scale.factor
        shown = _names(row, scale) | {"n": f"{row.n_pairs} {row.pair_unit}"}
        shown[f"{row.baseline} mean"] = display.number(row.baseline_mean / f)
        shown |= _pair("ratio", _both(row, "ratio", null=1))
        shown |= _pair("overhead %", _both(row, "overhead_percent", "overhead", null=0), f"overhead {CI}")
        if every:
            shown |= _pair("ratio of geometric means", _both(row, "log_ratio", "log", null=1))
            shown |= _pair("ratio of medians (approximate)", _both(row, "median_ratio", "median", null=1))
        shown |= _pair("difference", _both(row, "difference", factor=f, null=0))
        if every:
            shown |= _pair("Hodges-Lehmann shift", _both(row, "shift", factor=f, null=0))
        shown |= _pair("Cliff's delta", _both(row, "cliffs_delta", null=0), f"delta {CI}")
        shown |= _pair("Hedges' g", _both(row, "hedges_g", "hedges", null=0), f"g {CI}")
        decides = f" (n = {row.n_to_decide:.0f} decides)" if row.n_to_decide > 0 else ""
        shown |= {"verdict": row.verdict + decides, "margin %": f"{100 * row.margin:g}"}
        shown["verdict without flagged"] = row.verdict_without_flagged if row.sensitive else ""
        shown["detectable %"] = display.short(100 * row.detectable)
        shown["power of equivalence %"] = display.chance(row.power_equivalence)
        shown |= {"reason": row.reason, "flags": row.flags}
        shown |= {"p": display.p_value(row.p), "p adjusted": display.p_value(row.p_adjusted)}
        shown |= {"adjustment": row.adjustment, "p signed-rank": display.p_value(row.p_signed_rank)}
        shown["p sign-flip"] = display.p_value(row.p_sign_flip) if np.isfinite(row.p_sign_flip) else ""
        rows.append(shown)
    table = pd.DataFrame(rows, dtype="str")
    return _without_empty(table, ("verdict without flagged", "flags", "p sign-flip"))


def against_table(against: pd.DataFrame) -> pd.DataFrame:
    """Return our ratios beside the published ones, from `infrabench.published.against`; a range as ``low to high``."""
    rows = []
    for row in against.itertuples(index=False):
        ends = (row.ratio_low, row.ratio_high)
        # 0.99995 is printed as a decrease of 0.005 %: it must not read as "no change"
        theirs = [f"{v:.4f}" if abs(v - 1) >= 5e-5 else f"{v:.6g}" for v in (row.published_low, row.published_high)]
        rows.append(
            {
                **{name: getattr(row, name) for name in ("workload", "scenario")},
                "metric": display.metric_title(row.metric),
                "system": row.system,
                "published ratio": " to ".join(dict.fromkeys(theirs)),
                "published n": str(row.published_n),
                "our ratio": display.number(row.ratio, display.decimals(*ends, null=1)),
                "our 95 % CI": display.interval(*ends, null=1),
                "95 % prediction": display.interval(row.predicted_low, row.predicted_high),
                "agreement": row.agreement,
                "grade": row.grade,
                "note": row.note,
                "printed in": row.where,
            }
        )
    return pd.DataFrame(rows, dtype="str")


def results_table(
    estimates: pd.DataFrame, contrasts: pd.DataFrame, diagnostics: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Return the full table of a study: every cell's estimates, beside them its contrast and its flags.

    The baseline's own rows have no ratio.
    """
    key = ["workload", "scenario", "metric", "system"]
    left = pd.concat([estimates[key].add_prefix("key "), estimates_table(estimates)], axis=1)
    chosen = contrasts_table(contrasts).reindex(columns=["ratio", "ratio 95 % CI", "Cliff's delta", "verdict"])
    right = pd.concat([contrasts[key].add_prefix("key ").reset_index(drop=True), chosen], axis=1)
    keys = [f"key {name}" for name in key]
    table = left.merge(right, on=keys, how="left", validate="one_to_one")
    if diagnostics is not None:
        flags = diagnostics[[*key, "flags"]].rename(columns=dict(zip(key, keys, strict=True)))
        table = table.merge(flags, on=keys, how="left", validate="one_to_one")
    return table.drop(columns=keys).astype("object").fillna("")


def omnibus_table(omnibus: pd.DataFrame) -> pd.DataFrame:
    """Return one row per case: Friedman, Iman-Davenport, critical distance, tiers; interaction of the metric."""
    rows = []
    for row in omnibus.itertuples(index=False):
        case = {"workload": row.workload, "scenario": row.scenario, "metric": display.metric_title(row.metric)}
        case |= {
            "systems": str(row.k),
            "n": f"{row.n} {row.pair_unit}",
            "Friedman χ²": display.short(row.friedman_chi2),
        }
        case |= {"p (χ²)": display.p_value(row.friedman_p)}
        case |= _f_test("", row.iman_davenport_f, row.df1, row.df2, row.iman_davenport_p)
        case |= {"p adjusted": display.p_value(row.p_adjusted), "adjustment": row.adjustment}
        case |= {"critical distance of mean ranks": display.short(row.nemenyi_cd), "tiers": row.tiers}
        inner = (row.interaction_f, row.interaction_df1, row.interaction_df2, row.interaction_p)
        rows.append(case | _f_test(" (system x scenario)", *inner))
    return pd.DataFrame(rows, dtype="str")


def interactions_table(interactions: pd.DataFrame) -> pd.DataFrame:
    """Return one row per metric and system: is its ratio to the baseline the same at every scenario, if several?"""
    rows = []
    for row in interactions[interactions["levels"] > 1].itertuples(index=False):
        head = {"workload": row.workload, "metric": display.metric_title(row.metric), "system": row.system}
        head |= {"scenarios": str(row.levels), "n": f"{row.n} {row.pair_unit}"}
        told = {"p adjusted": display.p_value(row.p_adjusted), "adjustment": row.adjustment}
        rows.append(head | _f_test(f" (with {row.baseline} x scenario)", row.f, row.df1, row.df2, row.p) | told)
    return pd.DataFrame(rows, dtype="str")


def tiers_table(tiers: pd.DataFrame) -> pd.DataFrame:
    """Return one row per case and one column per system: systems that share a letter cannot be separated."""
    keys = list(dict.fromkeys(zip(tiers["workload"], tiers["scenario"], tiers["metric"], strict=True)))
    letters = dict(zip(tiers[CELL].itertuples(index=False, name=None), tiers["letters"], strict=True))
    rows = []
    for key in keys:
        case = dict(zip(CELL[:3], (*key[:2], display.metric_title(key[2])), strict=True))
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
        shown = {label: display.short(getattr(row, name)) for label, name in numbers.items()}
        shown |= {label: display.p_value(getattr(row, name)) for label, name in tests.items()}
        shown |= {"modes (SI)": row.modes, "mode by deployment": row.mode_by_deployment, "flags": row.flags}
        last = ("outliers", "D", "D (logs)", "dip p", "modes (SI)", "mode by deployment", "step (SI)", "flags")
        head = _names(row, NO_UNIT) | {"n": str(row.n)}
        rows.append(head | {label: shown[label] for label in (*order, *last)})
    return _without_empty(pd.DataFrame(rows, dtype="str"), ("modes (SI)", "mode by deployment"))


def planning_table(plan: pd.DataFrame) -> pd.DataFrame:
    """Return how many blocks or deployments each aim needs, and if the spread is as large as the pilot allows."""
    aims = {"mean": "mean within ±{} %", "ratio": "ratio within ±{} %", "verdict": "no inconclusive verdict at {} %"}
    rows = []
    for row in plan.itertuples(index=False):
        sizes = {name: display.short(getattr(row, name)) for name in ("n", "n_high", "hours", "hours_high")}
        aim = {"aim": aims[row.quantity].format(f"{100 * row.target:g}"), "n of the pilot": str(row.n_pilot)}
        aim |= {"spread %": display.short(100 * row.spread), "n": sizes["n"], "n at most": sizes["n_high"]}
        aim |= {"unit": row.unit, "hours": sizes["hours"], "hours at most": sizes["hours_high"], "note": row.note}
        rows.append(_names(row, NO_UNIT) | aim)
    return _without_empty(pd.DataFrame(rows, dtype="str"), ("note",))


def differences_table(difference: pd.DataFrame, first: str = "A", second: str = "B") -> pd.DataFrame:
    """Return what differs between two sessions, `first` and `second` by name; "absent" where one says nothing.

    `difference`: columns ``where``, ``key``, ``first``, ``second``, ``checked``.
    """
    shown = difference.astype("object").where(difference.notna(), "absent")
    shown["checked"] = shown["checked"].map({True: "yes", False: "no"})
    names = {"key": "field", "first": first, "second": second, "checked": "has to agree"}
    return shown.astype("str").rename(columns=names).reset_index(drop=True)


def _scales(frame: pd.DataFrame, column: str) -> dict[tuple[Any, Any], display.Scale]:
    """One scale for each metric of a workload, so that its rows can be compared by eye."""
    groups = frame.groupby(["workload", "metric"], observed=True)
    return {key: display.scale(group[column], group["unit"].iloc[0]) for key, group in groups}


def _noted(diagnostics: pd.DataFrame | None) -> dict[tuple[Any, ...], Any]:
    rows = () if diagnostics is None else diagnostics.itertuples(index=False)
    return {tuple(getattr(row, name) for name in CELL): row for row in rows}


def _names(row: Any, scale: display.Scale) -> dict[str, str]:
    metric = "no metric" if pd.isna(row.metric) else display.metric_title(row.metric)
    unit = f" ({scale.unit})" if scale.unit not in ("", "1") else ""
    return {"workload": row.workload, "scenario": row.scenario, "metric": metric + unit, "system": row.system}


def _both(row: Any, name: str, stem: str = "", factor: float = 1.0, null: float | None = None) -> tuple[str, str]:
    """Return a number and its interval as text: both to the place that the half-width gives."""
    low, high = (getattr(row, f"{stem or name}_{end}") / factor for end in ("low", "high"))
    return display.estimate(getattr(row, name) / factor, low, high, null)


def _f_test(what: str, f: float, df1: float, df2: float, p: float) -> dict[str, str]:
    df = "n/a" if np.isnan(df2) else f"{df1:.4g}, {df2:.4g}"
    return {f"F{what}": display.short(f), f"df{what}": df, f"p{what}": display.p_value(p)}


def _pair(label: str, texts: tuple[str, str], interval: str | None = None) -> dict[str, str]:
    return {label: texts[0], interval or f"{label} {CI}": texts[1]}


def _no_value(cell: Any) -> str:
    """Trials that ended without a value, by state, and those not yet run."""
    counts = {state: getattr(cell, state) for state in STATES[1:]}
    # repeats are in no plan
    counts["not yet run"] = cell.planned + cell.repeats - sum(getattr(cell, state) for state in STATES)
    return ", ".join(f"{count} {state}" for state, count in counts.items() if count) or "0"


def _without_empty(table: pd.DataFrame, columns: tuple[str, ...]) -> pd.DataFrame:
    """Drop those of `columns` that say nothing in any row."""
    empty = [name for name in columns if name in table and (table[name] == "").all()]
    return table.drop(columns=empty)
