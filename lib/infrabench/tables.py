"""Tables to read: rounded, in shown units, as Markdown, CSV and LaTeX.

Numbers are text here, rounded by one rule (`infrabench.display`); the unrounded values stay in the frames that these
tables are made from.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from infrabench import display
from infrabench.core import STATES

LEFT = frozenset(("workload", "scenario", "metric", "system", "verdict", "reason", "flags", "adjustment"))
LEFT |= {"agreement", "printed in", "note"}
NO_UNIT = display.Scale(1.0, "", "")  # of a case that never succeeded, so that no metric is known
LATEX = {sign: f"\\{sign}" for sign in "&%$#_{}"}
LATEX |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
LATEX |= {"<": "$<$", ">": "$>$", "µ": r"\textmu{}"}
LATEX |= {sign: f"$^{{{digit}}}$" for sign, digit in zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-", strict=True)}


def estimates_table(estimates: pd.DataFrame) -> pd.DataFrame:
    """Return one row per cell: n, trials without a value, mean and median with 95 % intervals, spread, range.

    Each metric is shown in one unit throughout, so its rows can be compared by eye.
    """
    scales = _scales(estimates, "max")
    rows = []
    for cell in estimates.itertuples(index=False):
        scale = scales.get((cell.workload, cell.metric), NO_UNIT)

        def shown(name: str, places: int | None = None, cell: Any = cell, scale: display.Scale = scale) -> str:
            return display.number(getattr(cell, name) / scale.factor, places)

        ends, mid = _ends(cell, scale, "mean"), _ends(cell, scale, "median")
        level = "" if np.isnan(cell.median_level) else f" ({100 * cell.median_level:.1f} %)"
        rows.append(
            {
                **_names(cell, scale),
                "n": str(cell.n),
                "no value": _no_value(cell),
                "mean": shown("mean", display.decimals(*ends)),
                "mean 95 % CI": "deterministic" if cell.deterministic else display.interval(*ends),
                "median": shown("median", display.decimals(*mid)),
                "median 95 % CI (level)": display.interval(*mid) + level,
                "SD": display.number(cell.sd / scale.factor),
                "CoV %": "n/a" if np.isnan(cell.cov) else f"{100 * cell.cov:.2f}",
                "min": shown("min"),
                "max": shown("max"),
            }
        )
    return pd.DataFrame(rows, dtype="str")


def contrasts_table(contrasts: pd.DataFrame) -> pd.DataFrame:
    """Return one row per contrast in the order of importance: ratio, difference, Cliff's delta, verdict, p."""
    scales = _scales(contrasts, "baseline_mean")
    rows = []
    for row in contrasts.itertuples(index=False):
        scale = scales.get((row.workload, row.metric), NO_UNIT)
        ends = (row.ratio_low, row.ratio_high)
        difference = _ends(row, scale, "difference")
        percent = (row.overhead_low, row.overhead_high)
        delta = (row.cliffs_delta_low, row.cliffs_delta_high)
        rows.append(
            {
                **_names(row, scale),
                "blocks": str(row.n_pairs),
                f"{row.baseline} mean": display.number(row.baseline_mean / scale.factor),
                "ratio": display.number(row.ratio, display.decimals(*ends, null=1)),
                "ratio 95 % CI": display.interval(*ends, null=1),
                "overhead %": display.number(row.overhead_percent, display.decimals(*percent, null=0)),
                "overhead 95 % CI": display.interval(*percent, null=0),
                "difference": display.number(row.difference / scale.factor, display.decimals(*difference, null=0)),
                "difference 95 % CI": display.interval(*difference, null=0),
                "Cliff's delta": display.number(row.cliffs_delta, display.decimals(*delta, null=0)),
                "delta 95 % CI": display.interval(*delta, null=0),
                "verdict": row.verdict + (f" (n = {row.n_to_decide:.0f} decides)" if row.n_to_decide > 0 else ""),
                "margin %": f"{100 * row.margin:g}",
                "p": display.p_value(row.p),
                "p adjusted": display.p_value(row.p_adjusted),
                "adjustment": row.adjustment,
                "reason": row.reason,
            }
        )
    return pd.DataFrame(rows, dtype="str")


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


def save(table: pd.DataFrame, folder: Path, name: str, caption: str = "") -> list[Path]:
    """Write ``name.md``, ``name.csv`` and ``name.tex`` (booktabs) into `folder` and return the three paths."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    writers: dict[str, Callable[[pd.DataFrame, str], str]] = {"md": markdown, "csv": _csv, "tex": latex}
    paths = []
    for suffix, write in writers.items():
        path = folder / f"{name}.{suffix}"
        path.write_text(write(table, caption), encoding="utf-8")
        paths.append(path)
    return paths


def markdown(table: pd.DataFrame, caption: str = "") -> str:
    """Return the table in Markdown, numbers to the right."""
    rule = ["---" if _left(name) else "---:" for name in table.columns]
    lines = [list(table.columns), rule, *table.astype("str").to_numpy().tolist()]
    text = "\n".join("| " + " | ".join(_plain(cell) for cell in line) + " |" for line in lines)
    return (f"{caption}\n\n" if caption else "") + text + "\n"


def latex(table: pd.DataFrame, caption: str = "") -> str:
    """Return a LaTeX tabular for the package booktabs, every special character escaped."""
    columns = "".join("l" if _left(name) else "r" for name in table.columns)
    rows = [" & ".join(_escaped(cell) for cell in row) + r" \\" for row in table.astype("str").to_numpy().tolist()]
    head = " & ".join(_escaped(name) for name in table.columns) + r" \\"
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *rows, r"\bottomrule"]
    lines.append(r"\end{tabular}")
    return (f"% {_plain(caption)}\n" if caption else "") + "\n".join(lines) + "\n"


def _csv(table: pd.DataFrame, _caption: str) -> str:
    return table.to_csv(index=False, lineterminator="\n")


def _scales(frame: pd.DataFrame, column: str) -> dict[tuple[Any, Any], display.Scale]:
    """One scale for each metric of a workload, so that its rows can be compared by eye."""
    groups = frame.groupby(["workload", "metric"], observed=True)
    return {key: display.scale(group[column], group["unit"].iloc[0]) for key, group in groups}


def _names(row: Any, scale: display.Scale) -> dict[str, str]:
    metric = "no metric" if pd.isna(row.metric) else display.metric_title(row.metric)
    unit = f" ({scale.unit})" if scale.unit not in ("", "1") else ""
    return {"workload": row.workload, "scenario": row.scenario, "metric": metric + unit, "system": row.system}


def _ends(row: Any, scale: display.Scale, name: str) -> tuple[float, float]:
    return getattr(row, f"{name}_low") / scale.factor, getattr(row, f"{name}_high") / scale.factor


def _no_value(cell: Any) -> str:
    """Trials that ended without a value, by state, and those not yet run."""
    counts = {state: getattr(cell, state) for state in STATES[1:]}
    counts["not yet run"] = cell.planned - sum(getattr(cell, state) for state in STATES)
    return ", ".join(f"{count} {state}" for state, count in counts.items() if count) or "0"


def _left(name: str) -> bool:
    return name in LEFT


def _plain(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")


def _escaped(cell: str) -> str:
    return "".join(LATEX.get(sign, sign) for sign in cell.replace("\n", " "))
