"""What each metric is by its workload's declaration: a time, a rate of fixed work, a count, ... (`core.Kind`).

A record does not hold it, so that sessions of any age are read by what the workload says today.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from infrabench import registry
from infrabench.core import Kind, MetricKind

METRIC = ["workload", "scenario", "metric"]


def kinds(rows: pd.DataFrame, table: pd.DataFrame | None = None) -> NDArray[np.object_]:
    """Return the kind of each row's metric: of a frame with `METRIC`.

    `table`: all that was measured, where `rows` lacks metrics of a scenario. ``quantity`` for a metric that its
    workload does not declare, and for a row without one.
    """
    seen = rows[METRIC].drop_duplicates()
    measured = seen if table is None else table[METRIC].drop_duplicates()
    beside = measured.groupby(["workload", "scenario"])["metric"].agg(frozenset).to_dict()
    declared = {name: registry.metric_kinds(name) for name in seen["workload"].unique()}
    found = {
        (workload, scenario, metric): _one(declared[workload].get(metric, "quantity"), beside[workload, scenario])
        for workload, scenario, metric in seen.itertuples(index=False)
    }
    keys = zip(*(rows[name] for name in METRIC), strict=True)
    return np.array([found[key] for key in keys], dtype=object)


def _one(kind: MetricKind, beside: Collection[str]) -> Kind:
    """The kind of a metric whose trials report the metrics `published_cells`."""
    if isinstance(kind, str):
        return kind
    return next((each for metric, each in kind.items() if metric in beside), "quantity")
