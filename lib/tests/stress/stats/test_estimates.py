""""""

from __future__ import annotations

import time

import numpy as np
import pandas as pd

from infrabench.stats import estimates
from tests.support.analysis_fixtures import table_of


def test_two_thousand_cells_of_fifty_take_seconds() -> None:
    rng = np.random.default_rng(2)
    systems, scenarios, blocks = 4, 500, 50
    one = table_of({f"s{i}": rng.normal(100, 1, blocks) for i in range(systems)})
    table = pd.concat([one] * scenarios, ignore_index=True)
    scenario = np.char.add("level=", np.repeat(np.arange(scenarios), len(one)).astype(str))
    table = table.assign(scenario=scenario, trial=table["trial"] + scenario, value=rng.normal(100, 1, len(table)))
    start = time.perf_counter()
    cells = estimates(table.astype(one.dtypes.to_dict()))
    assert time.perf_counter() - start < 10  # 1 to 2 s on an idle machine
    assert len(cells) == systems * scenarios
    assert (cells["n"] == blocks).all()
    assert np.isfinite(cells["boot_t_low"]).all()
