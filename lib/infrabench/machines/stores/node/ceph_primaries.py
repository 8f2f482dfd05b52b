"""Which OSD answers for a placement group: each for half of them.

The first copy of a placement group, its primary, answers all reads and orders all writes. CRUSH draws it by a hash;
over the few placement groups of a small cluster the draw may be lopsided, and it is the same in each new cluster (of
our 16, one OSD got 14). That would be a property of two numbers, not of Ceph, so it is evened out, by the means that
Ceph's own balancer uses: explicit mappings (``pg-upmap``). No data moves.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from . import ceph_options as options
from . import daemons
from .ceph_check import groups, is_clean
from .ceph_client import CephConnection

EVEN_S = 60.0


def spread_primaries(cluster: CephConnection) -> None:
    """Return with every OSD the primary of as many placement groups of a clean pool as the others (one apart)."""
    rows = groups(cluster)
    if not all(is_clean(row["state"]) for row in rows) or is_even(rows):
        return
    osds = sorted(rows[0]["acting"])
    wanted = {row["pgid"]: osds[turn % len(osds) :] + osds[: turn % len(osds)] for turn, row in enumerate(rows)}
    with ThreadPoolExecutor(options.PLACEMENT_GROUPS) as pool:  # at once: the monitor puts them into one new map
        list(pool.map(lambda name: cluster.mon("osd pg-upmap", pgid=name, id=wanted[name]), wanted))
    daemons.until(lambda: _is_done(cluster), EVEN_S, "primaries on all OSDs alike")


def is_even(rows: list[dict[str, object]]) -> bool:
    """Tell whether no OSD is the primary of more placement groups than another, but for one."""
    counts = Counter({osd: 0 for row in rows for osd in row["acting"]})
    counts.update(row["acting_primary"] for row in rows)
    return max(counts.values()) - min(counts.values()) <= 1


def _is_done(cluster: CephConnection) -> bool:
    rows = groups(cluster)
    return is_even(rows) and all(is_clean(row["state"]) for row in rows)
