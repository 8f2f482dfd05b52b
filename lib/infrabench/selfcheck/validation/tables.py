"""Many simulated campaigns as one tidy table, so that they go through the same code as a recorded session."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from infrabench.analysis.tidy import COLUMNS, DTYPES, check

METRIC = "events_per_s"
WORKLOAD = "simulated"


def campaigns_table(
    values: NDArray[np.float64],
    systems: Sequence[str],
    *,
    positions: NDArray[np.int64] | None = None,
    deployment: NDArray[np.int64] | None = None,
) -> pd.DataFrame:
    """Return the tidy table of `values` (campaigns, systems, blocks): campaign i is the scenario ``c<i>``.

    Parameters
    ----------
    values
        One number for each trial; NaN for one that timed out.
    systems
        Names along the second axis.
    positions
        Executed order inside each campaign, same shape as `values`; by default systems take turns in each block.
    deployment
        Deployment of each block; by default all are 0.

    Raises
    ------
    SchemaError
        A value is infinite.
    """
    many, systems_n, blocks = values.shape
    if positions is None:
        positions = np.broadcast_to(np.arange(systems_n)[:, None] + systems_n * np.arange(blocks), values.shape)
    scenario, system, block = np.indices(values.shape).reshape(3, -1)
    names = np.array([f"c{i:05d}" for i in range(many)])
    columns = {
        "trial": np.arange(values.size).astype(str),
        "block": block,
        "position": positions.ravel(),
        "deployment": np.zeros(values.size, dtype=int) if deployment is None else np.asarray(deployment)[block],
        "attempt": 0,
        "system": np.asarray(systems)[system],
        "scenario": names[scenario],
        "value": values.ravel(),
    }
    fixed = {
        "session": "simulated", "study": "simulated", "site": "none", "workload": WORKLOAD, "factor": None,
        "level": np.nan, "metric": METRIC, "unit": "1/s", "better": "higher", "state": "ok", "reason": "",
        "started_utc": "2020-03-15T00:00:00.000Z", "duration_s": 1.0, "tool_s": 1.0,
    }  # fmt: skip
    frame = pd.DataFrame(columns).assign(**fixed)
    frame.loc[frame["value"].isna(), ["state", "metric", "unit", "better"]] = ["timeout", None, None, None]
    frame = frame[list(COLUMNS)].astype(DTYPES)
    return check(frame.sort_values(["scenario", "position"], kind="stable", ignore_index=True))
