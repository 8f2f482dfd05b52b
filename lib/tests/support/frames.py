"""Frames with chosen numbers, in the columns that the statistics return: what a figure or a table must show."""

from __future__ import annotations

from typing import Any

import pandas as pd

NAN = float("nan")
CASE = {"workload": "web", "scenario": "users=1000", "metric": "requests_per_s"}

CONTRAST: dict[str, Any] = CASE | {
    "factor": "users", "level": 1000.0, "unit": "1/s", "better": "higher", "system": "docker", "baseline": "native",
    "n_pairs": 30, "mean": 7800.0, "baseline_mean": 8000.0, "ratio": 0.975, "ratio_low": 0.961, "ratio_high": 0.989,
    "overhead_percent": 2.5, "overhead_low": 1.1, "overhead_high": 3.9, "difference": -200.0,
    "difference_low": -310.0, "difference_high": -90.0, "p": 0.0012, "p_method": "paired t, Fieller's statistic at 1",
    "p_adjusted": 0.0036, "adjustment": "Holm", "paired_d": -0.7, "paired_d_low": -1.1,
    "paired_d_high": -0.3, "worse_share": 0.8, "worse_low": 0.63, "worse_high": 0.9,
    "margin": 0.02, "equivalence_low": 0.9632, "equivalence_high": 0.9868, "p_equivalence": 0.7,
    "p_equivalence_adjusted": 0.9, "verdict": "different",
    "n_to_decide": NAN, "reason": "", "pair_unit": "blocks", "log_ratio": 0.9748, "log_low": 0.9608,
    "log_high": 0.9889, "p_signed_rank": 0.0021, "shift": -190.0, "shift_low": -300.0, "shift_high": -85.0,
    "detectable": 0.019, "power_equivalence": 0.62, "lag1": 0.1, "n_eff": 30.0, "bound_low": NAN, "bound_high": NAN,
    "verdict_without_flagged": "different", "sensitive": False, "flags": "",
}  # fmt: skip


def contrasts_frame(*rows: dict[str, Any]) -> pd.DataFrame:
    """Return contrasts, each a change of `CONTRAST`."""
    frame = pd.DataFrame([CONTRAST | row for row in rows], columns=list(CONTRAST))
    text = ("workload", "scenario", "metric", "factor", "unit", "better", "system", "baseline", "verdict")
    return frame.astype(dict.fromkeys(text, "str"))


def verdicts() -> pd.DataFrame:
    """Return contrasts with every verdict: three systems, two scenarios, one of them hanging on flagged values."""
    rows: list[dict[str, Any]] = []
    for level in (1000.0, 2000.0):
        case = {"scenario": f"users={level:.0f}", "level": level}
        rows += [
            case | {"verdict_without_flagged": "inconclusive", "sensitive": level == 2000},
            case | {"system": "lxc", "ratio": 0.998, "ratio_low": 0.99, "ratio_high": 1.006, "verdict": "equivalent",
                    "verdict_without_flagged": "equivalent"},
            case | {"system": "lxd", "ratio": 1.013, "ratio_low": 0.985, "ratio_high": 1.043,
                    "verdict": "inconclusive", "verdict_without_flagged": "inconclusive", "n_to_decide": 84.0},
        ]  # fmt: skip
    gone = {"mean": NAN, "ratio": NAN, "ratio_low": NAN, "ratio_high": NAN, "verdict": "not comparable", "n_pairs": 0}
    other = {"workload": "stream", "metric": "copy_B_per_s", "unit": "B/s", "scenario": "default", "margin": 0.01}
    rows.append(other | gone | {"factor": None, "level": NAN, "reason": "no ok trial of docker"})
    return contrasts_frame(*rows)
