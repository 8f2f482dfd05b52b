"""Recorded sessions whose answer is known: an effect that was injected must be found, and have the right size."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from infrabench.core import SchemaError

COLUMNS = (
    *("system", "workload", "scenario", "metric", "n_pairs", "true_ratio", "ratio", "ratio_low", "ratio_high"),
    *("covers", "excludes_1", "verdict"),
)


def known_effects(contrasts: pd.DataFrame, known: Iterable[tuple[str, str, str, float]]) -> pd.DataFrame:
    """Return one row per injected effect and scenario: the true ratio, ours, and whether the interval says both things.

    Parameters
    ----------
    contrasts
        What `stats.contrasts` returns for the session.
    known
        (system, workload, metric, true ratio to the baseline).

    Returns
    -------
    DataFrame
        Columns `COLUMNS`; ``covers``: the interval contains the true ratio; ``excludes_1``: it does not contain 1.
        Without an interval both are false.

    Raises
    ------
    SchemaError
        An effect was injected and nothing was measured of it.
    """
    rows = []
    for system, workload, metric, true in known:
        keys = {"system": system, "workload": workload, "metric": metric}
        found = contrasts[(contrasts[list(keys)] == pd.Series(keys)).all(axis=1)]
        if found.empty:
            raise SchemaError(f"no contrast of {system} in {workload} {metric}: the effect was not measured")
        for row in found.itertuples(index=False):
            low, high = row.ratio_low, row.ratio_high
            cell = (system, workload, row.scenario, metric, row.n_pairs)
            rows.append((*cell, true, row.ratio, low, high, low <= true <= high, low > 1 or high < 1, row.verdict))
    return pd.DataFrame(rows, columns=list(COLUMNS))
