"""The frame of diagnostics: schema, order, residuals, flags; kernels that have no module of their own."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd

from infrabench.stats import diagnostics
from tests.support.analysis_fixtures import table_of
from tests.unit.stats.test_diagnostics import RNG


def test_a_large_table_takes_seconds() -> None:
    values = {f"s{i}": np.exp(RNG.normal(0, 0.02, 50)) for i in range(4)}
    one = table_of(values)
    table = pd.concat([one.assign(scenario=f"k={i}") for i in range(500)], ignore_index=True)
    started = time.perf_counter()
    assert len(diagnostics(table)) == 2000
    assert time.perf_counter() - started < 12  # 2 to 4 s on a quiet machine
