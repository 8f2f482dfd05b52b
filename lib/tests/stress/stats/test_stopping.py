""""""

from __future__ import annotations

import numpy as np

from infrabench.stats.stopping import stopping_n
from tests.unit.stats.test_stopping import look_at


def test_simulated_sessions_stop_where_looks_stop() -> None:
    rng = np.random.default_rng(43)
    x = 100 + rng.normal(0, rng.uniform(4, 9, (12, 2, 1)), (12, 2, 100))
    x[:3, 0] += 60 * (rng.random((3, 100)) < 0.2)
    found = stopping_n(x)
    for session in range(12):
        for n in range(30, 101, 5):
            seen = look_at({"a": x[session, 0, :n], "b": x[session, 1, :n]})
            if seen.stop:
                break
        assert found.n[session] == n
    assert len(set(found.n.tolist())) > 2
