"""Cells and contrasts as text: estimates, ratios to the baseline, published numbers beside ours, a session so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from infrabench.analysis.tables import notation
from infrabench.analysis.tables.bounds import ruled_out
from infrabench.analysis.tables.columns import CI, both, metric_scales, pair, row_names, without_empty, words, write
from infrabench.core import STATES
from infrabench.stats.estimates import T_OF_TIMES, T
from infrabench.stats.table import CELL

SIGNS = {
    "different": "≠", "different, within the margin": "≈", "equivalent": "=", "inconclusive": "?",
    "not comparable": "–",
}  # fmt: skip
ARROWS = {"higher": "↑", "lower": "↓"}  # the direction that is better
NOT_RUN = "not run"
STUDENT = (T, T_OF_TIMES)  # methods of an interval that need no name on the page


def estimates_table(
    estimates: pd.DataFrame, diagnostics: pd.DataFrame | None = None, *, every: bool = False
) -> pd.DataFrame:
    """Return one row per cell: n, trials without a value, mean and median with 95 % intervals, spread, range.

    Each metric is shown in one unit throughout, so its rows can be compared by eye. With `diagnostics`, cells flagged
    skewed get the bootstrap-t interval, and cells flagged dependent the interval with the effective n, beside
    Student's; the columns are there when some cell needs them, and so is the method of the interval where it is not
    Student's. `every` adds geometric mean and pseudo-median with their intervals, the bootstrap-t interval of every
    cell, and how the trials are spread over deployments: for the file, not for the page.
    """
    scales, rows = metric_scales(estimates, "max"), []
    notes = () if diagnostics is None else diagnostics.itertuples(index=False)
    noted = {tuple(getattr(row, name) for name in CELL): row for row in notes}
    for cell in estimates.itertuples(index=False):
        scale = scales[cell.workload, cell.metric]
        f, note = scale.factor, noted.get(tuple(getattr(cell, name) for name in CELL))
        mean, interval = both(cell, "mean", factor=f)
        median, around = both(cell, "median", factor=f)
        level = "" if np.isnan(cell.median_level) else f" ({100 * cell.median_level:.1f} %)"
        row = row_names(cell, scale) | {"n": str(cell.n), "no value": _no_value(cell)}
        none = cell.deterministic and np.isnan(cell.mean_low)
        row |= {"mean": mean, f"mean {CI}": "deterministic" if none else interval}
        row["method"] = cell.mean_method if every or cell.mean_method not in STUDENT else ""
        flags = note.flags if note is not None else ""
        row[f"bootstrap-t {CI}"] = row[f"mean {CI} (effective n)"] = ""
        if every or "skewed" in flags:
            row[f"bootstrap-t {CI}"] = notation.interval(cell.boot_t_low / f, cell.boot_t_high / f)
        if "dependent" in flags:
            wider = notation.interval(note.mean_low_eff / f, note.mean_high_eff / f)
            row[f"mean {CI} (effective n)"] = f"{wider} ({note.n_eff:.1f})"
        row |= {"median": median, f"median {CI} (level)": around + level, "SD": notation.number(cell.sd / f)}
        row["CoV %"] = "n/a" if np.isnan(cell.cov) else f"{100 * cell.cov:.2f}"
        row |= {"min": notation.number(cell.min / f), "max": notation.number(cell.max / f)}
        if every:
            row |= pair("geometric mean", both(cell, "geometric_mean", "geometric", f))
            row |= pair("pseudo-median", both(cell, "pseudo_median", "pseudo", f))
            row |= {"deployments": str(cell.deployments), "n of the interval": str(cell.unit_n)}
            row["between deployments %"] = notation.number(100 * cell.between_share)
        rows.append(row)
    seldom = ("method", f"bootstrap-t {CI}", f"mean {CI} (effective n)")
    return without_empty(pd.DataFrame(rows, dtype="str"), seldom)


def contrasts_table(contrasts: pd.DataFrame, *, every: bool = False) -> pd.DataFrame:
    """Return one row per contrast in the order of importance: ratio, difference, effect sizes, verdict, p last.

    The 95 % interval shows whether systems differ; the 90 % interval beside the margin and the p of equivalence,
    adjusted by Holm in its family, whether they are the same within it. No end is rounded to another side.
    A column says what the 95 % interval rules out (`ruled_out`); where some verdict is another one without the values
    flagged as outliers, a column says which. `every` adds ratios of geometric means, and the Hodges-Lehmann shift: for
    the file, not for the page.
    """
    scales = metric_scales(contrasts, "baseline_mean")
    rows = []
    for row in contrasts.itertuples(index=False):
        scale = scales[row.workload, row.metric]
        f = scale.factor
        shown = row_names(row, scale) | {"n": f"{row.n_pairs} {row.pair_unit}"}
        shown[f"{row.baseline} mean"] = notation.number(row.baseline_mean / f)
        shown |= pair("ratio", both(row, "ratio", null=1))
        shown |= pair("overhead %", both(row, "overhead_percent", "overhead", null=0), f"overhead {CI}")
        if every:
            shown |= pair("ratio of geometric means", both(row, "log_ratio", "log", null=1))
        shown |= pair("difference", both(row, "difference", factor=f, null=0))
        if every:
            shown |= pair("Hodges-Lehmann shift", both(row, "shift", factor=f, null=0))
        shown |= pair("paired d", both(row, "paired_d", null=0), f"d {CI}")
        shown |= pair("worse in % of pairs", both(row, "worse_share", "worse", 0.01), f"worse {CI}")
        decides = f" (n = {row.n_to_decide:.0f} decides)" if row.n_to_decide > 0 else ""
        shown |= {"verdict": row.verdict + decides, "ruled out": ruled_out(row), "margin %": f"{100 * row.margin:g}"}
        narrow = (row.equivalence_low, row.equivalence_high)
        shown["ratio 90 % CI"] = notation.interval(*narrow, null=(1 - row.margin, 1 + row.margin))
        shown["verdict without flagged"] = row.verdict_without_flagged if row.sensitive else ""
        shown["detectable %"] = notation.short(100 * row.detectable)
        shown["power of equivalence %"] = notation.chance(row.power_equivalence)
        shown |= {"reason": row.reason, "flags": row.flags}
        shown |= {"p": notation.p_value(row.p), "p adjusted": notation.p_value(row.p_adjusted)}
        shown |= {"adjustment": row.adjustment, "p equivalence": notation.p_value(row.p_equivalence)}
        shown["p equivalence adjusted"] = notation.p_value(row.p_equivalence_adjusted)
        shown["p signed-rank"] = notation.p_value(row.p_signed_rank)
        rows.append(shown)
    table = pd.DataFrame(rows, dtype="str")
    return without_empty(table, ("ruled out", "verdict without flagged", "flags"))


def against_table(against: pd.DataFrame) -> pd.DataFrame:
    """Return our ratios beside the published ones, from `published.comparison.against`; a range as ``low to high``."""

    def published(row: Any) -> str:
        # 0.99995 is printed as a decrease of 0.005 %: it must not read as "no change"
        ends = [f"{v:.4f}" if abs(v - 1) >= 5e-5 else f"{v:.6g}" for v in (row.published_low, row.published_high)]
        return " to ".join(dict.fromkeys(ends))

    columns = {
        **words(*CELL), "published ratio": published, "published n": lambda row: str(row.published_n),
        "our ratio": lambda row: both(row, "ratio", null=1)[0],
        "our 95 % CI": lambda row: both(row, "ratio", null=1)[1],
        "95 % prediction": lambda row: notation.interval(row.predicted_low, row.predicted_high),
        **words("agreement", "grade", "note"), "printed in": lambda row: row.where,
    }  # fmt: skip
    return write(against, columns)


def results_table(estimates: pd.DataFrame, contrasts: pd.DataFrame, diagnostics: pd.DataFrame) -> pd.DataFrame:
    """Return the full table of a study: every cell's estimates, beside them its contrast and its flags.

    The baseline's own rows have no ratio.
    """
    cells, pairs = (pd.MultiIndex.from_frame(frame[CELL]) for frame in (estimates, contrasts))
    ratios = contrasts_table(contrasts).reindex(columns=["ratio", "ratio 95 % CI", "paired d", "verdict"])
    beside = [frame.reindex(cells) for frame in (ratios.set_index(pairs), diagnostics.set_index(CELL)[["flags"]])]
    table = pd.concat([estimates_table(estimates).set_index(cells), *beside], axis=1)
    return table.reset_index(drop=True).astype("object").fillna("")


def ratios_table(contrasts: pd.DataFrame, systems: Sequence[str]) -> pd.DataFrame:
    """Return one row per case: workload, metric (an arrow: the better direction), scenario, n, and each system's ratio.

    A ratio stands with its 95 % interval and the sign of its verdict (`SIGNS`). The scenario is left out where no
    workload has several. A system that has no contrast in a case was *not run* there. Rows are those of `contrasts`,
    which are selected before the call; columns the `systems` in the session's order.
    """
    shown = [name for name in systems if name in set(contrasts["system"])]
    rows = []
    for (workload, metric, scenario), case in contrasts.groupby(["workload", "metric", "scenario"], sort=False):
        title = f"{notation.metric_title(metric)} {ARROWS[case['better'].iloc[0]]}"
        cells = {
            row.system: f"{notation.ratio(row)} {SIGNS[row.verdict]}" if np.isfinite(row.ratio) else SIGNS[row.verdict]
            for row in case.itertuples(index=False)
        }
        n = " to ".join(sorted({str(n) for n in case["n_pairs"] if n}, key=int)) or "0"
        row = {"workload": str(workload), "metric": title, "scenario": str(scenario), "n": n}
        rows.append(row | {name: cells.get(name, NOT_RUN) for name in shown})
    table = pd.DataFrame(rows, dtype="str")
    if table.empty or table.drop_duplicates(["workload", "scenario"])["workload"].duplicated().any():
        return table
    return table.drop(columns="scenario")


def describe_signs(contrasts: pd.DataFrame) -> str:
    """Return what the signs that occur in a table of these contrasts mean."""
    found = [verdict for verdict in SIGNS if verdict in set(contrasts["verdict"])]
    return "; ".join(f"{SIGNS[verdict]} {verdict}" for verdict in found)


def interim_table(frame: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Return means, and ratios to the baseline, of the trials so far (`stats.interim`), as text."""
    scales = metric_scales(frame, "mean")
    rows = []
    for row in frame.itertuples(index=False):
        scale = scales[row.workload, row.metric]
        texts = row_names(row, scale) | {"n": str(row.n)} | pair("mean", both(row, "mean", factor=scale.factor), CI)
        ratio = both(row, "ratio", null=1) if np.isfinite(row.ratio) else ("", "")
        rows.append(texts | pair(f"ratio to {baseline}", ratio, f"ratio {CI}") | {"reason": row.reason})
    made = without_empty(pd.DataFrame(rows), ("reason",))
    return made if frame["ratio"].notna().any() else made.drop(columns=[f"ratio to {baseline}", f"ratio {CI}"])


def _no_value(cell: Any) -> str:
    """Trials that ended without a value, by state, and those not yet run."""
    counts = {state: getattr(cell, state) for state in STATES[1:]}
    # repeats are in no plan
    counts["not yet run"] = cell.planned + cell.repeats - sum(getattr(cell, state) for state in STATES)
    return ", ".join(f"{count} {state}" for state, count in counts.items() if count) or "0"
