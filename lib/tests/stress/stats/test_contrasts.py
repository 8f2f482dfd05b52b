from __future__ import annotations

import time

import numpy as np

from infrabench.selfcheck.validation.generators import campaigns_table
from infrabench.stats import contrasts


def test_many_contrasts_are_fast() -> None:
    """Of 500 cases in 50 blocks: systems some per cent apart, and blocks that move all of them."""
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 0.01, (500, 1, 50)) + rng.normal(0, 0.02, (500, 4, 50))
    values = 1_000 * np.array([1.0, 0.97, 0.995, 1.03])[:, None] * np.exp(noise)
    table = campaigns_table(values, ("native", "docker", "lxc", "lxd"))
    begin = time.perf_counter()
    assert len(contrasts(table, "native", {"": 0.02})) == 1500
    assert time.perf_counter() - begin < 15  # 2.7 s on two idle cores; room for a busy machine
