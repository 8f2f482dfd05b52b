"""The table of a session that still runs."""

from __future__ import annotations

import numpy as np
import pandas as pd

from infrabench.analysis.tables.rows import CI, both, metric_scales, pair, row_names, without_empty


def interim_table(frame: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Return means, and ratios to the baseline, of the trials so far (`stats.interim`), as text."""
    scales = metric_scales(frame, "mean")
    rows = []
    for row in frame.itertuples(index=False):
        scale = scales[row.workload, row.metric]
        told = row_names(row, scale) | {"n": str(row.n)} | pair("mean", both(row, "mean", factor=scale.factor), CI)
        ratio = both(row, "ratio", null=1) if np.isfinite(row.ratio) else ("", "")
        rows.append(told | pair(f"ratio to {baseline}", ratio, f"ratio {CI}") | {"reason": row.reason})
    made = without_empty(pd.DataFrame(rows), ("reason",))
    return made if frame["ratio"].notna().any() else made.drop(columns=[f"ratio to {baseline}", f"ratio {CI}"])
