"""Thousands of cells in seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from infrabench.stats import contrasts, diagnostics, estimates
from infrabench_selfcheck.validation.generators import campaigns_table


@pytest.mark.parametrize(
    ("ask", "rows", "seconds"),
    [  # room for a busy machine
        (estimates, 2000, 10),  # 1 to 2 s on two idle cores
        (diagnostics, 2000, 12),  # 2 to 4 s
        (lambda table: contrasts(table, "native", {"": 0.02}), 1500, 15),  # 2.7 s
    ],
    ids=["estimates", "diagnostics", "contrasts"],
)
def test_many_cells_take_seconds(ask: Callable[[pd.DataFrame], Any], rows: int, seconds: float) -> None:
    """Of 500 cases in 50 blocks: systems some per cent apart, and blocks that move all of them."""
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 0.01, (500, 1, 50)) + rng.normal(0, 0.02, (500, 4, 50))
    values = 1_000 * np.array([1.0, 0.97, 0.995, 1.03])[:, None] * np.exp(noise)
    table = campaigns_table(values, ("native", "docker", "lxc", "lxd"))
    begin = time.perf_counter()
    assert len(ask(table)) == rows
    assert time.perf_counter() - begin < seconds
