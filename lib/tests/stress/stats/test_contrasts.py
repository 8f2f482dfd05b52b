""""""

from __future__ import annotations

import time

from infrabench.selfcheck.validation.generators import campaigns_table
from infrabench.selfcheck.validation.speed import simulated
from infrabench.stats import contrasts


def test_many_contrasts_are_fast() -> None:
    table = campaigns_table(simulated(500, 50), ("native", "docker", "lxc", "lxd"))
    begin = time.perf_counter()
    assert len(contrasts(table, "native", {"": 0.02})) == 1500
    assert time.perf_counter() - begin < 15  # 2.7 s on two idle cores; room for a busy machine
