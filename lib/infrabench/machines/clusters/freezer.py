"""A frozen cluster, thawed: it is measured when its nodes are Ready again and its timers have caught up."""

from __future__ import annotations

import time
from collections.abc import Callable

from infrabench.machines.clusters.cluster import Cluster, is_ready, until

THAW_S = 30.0
SETTLE_S = 0.4  # a thawed cluster catches up on its timers: two processors for 0.1 to 0.2 s, as measured


def thawing(cluster: Cluster, resume: Callable[[], None] | None) -> Callable[[], None] | None:
    """Return what thaws the machines of `cluster` and waits until they can be measured; None where nothing freezes."""
    return None if resume is None else lambda: _thaw(cluster, resume)


def _thaw(cluster: Cluster, resume: Callable[[], None]) -> None:
    begin = time.monotonic()
    resume()
    until("the thawed cluster's nodes to be Ready", lambda: is_ready(cluster), THAW_S)
    time.sleep(max(0.0, begin + SETTLE_S - time.monotonic()))
