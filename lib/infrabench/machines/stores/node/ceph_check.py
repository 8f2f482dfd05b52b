"""What a Ceph cluster says of its data: totals, whether it is clean, and scrubs and repairs that were waited for.

And which OSD answers for a placement group: each for half of them. The first copy of a placement group, its primary,
answers all reads and orders all writes. CRUSH draws it by a hash; over the few placement groups of a small cluster the
draw may be lopsided, and it is the same in each new cluster (of our 16, one OSD got 14). That would be a property of
two numbers, not of Ceph, so it is evened out, by the means that Ceph's own balancer uses: explicit mappings
(``pg-upmap``). No data moves.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from . import ceph_options as options
from . import daemons
from .ceph_client import CephConnection, connect
from .config import Config, StoreError

# A placement group with an object of which no copy can be read is not scrubbed any more; it waits for a copy for ever.
UNFOUND = "unfound"
# Placement groups with these words in their state have all their copies.
CLEAN = {"active", "clean", "scrubbing", "deep", "inconsistent", "failed_repair", "repair"}
WAITING = {"wait", "laggy", "stale", "peering"}  # no answer to reads for now
SCRUB_S, POLL_S = 900.0, 0.5
STAMP = {"light": "last_scrub_stamp", "deep": "last_deep_scrub_stamp"}
EVEN_S = 60.0


def is_clean(state: str) -> bool:
    """Tell whether the state of a placement group says that it is active and that every copy is where it should be."""
    words = set(state.split("+"))
    return {"active", "clean"} <= words <= CLEAN


def serves_alone(states: Iterable[str]) -> bool:
    """Tell whether placement groups in these states all know that a copy is gone, and are read and written without."""
    known = [set(state.split("+")) for state in states]
    return bool(known) and all({"active", "undersized"} <= words and not words & WAITING for words in known)


def groups(cluster: CephConnection) -> list[dict[str, Any]]:
    """Return what is known of the placement groups of our pool, in the order of their names."""
    told = cluster.mgr("pg dump", dumpcontents=["pgs"])
    rows = told["pg_stats"] if isinstance(told, dict) else told
    number = _pool(cluster)
    return sorted((row for row in rows if row["pgid"].startswith(f"{number}.")), key=lambda row: str(row["pgid"]))


def totals(cluster: CephConnection) -> dict[str, Any]:
    """Return of our pool: placement groups by state, objects, bytes (of one copy, stored, recovered, left), errors."""
    number = _pool(cluster)
    rows = groups(cluster)
    states: dict[str, int] = {}
    for row in rows:
        states[row["state"]] = states.get(row["state"], 0) + 1
    names = (
        "num_bytes", "num_objects", "num_objects_degraded", "num_bytes_recovered", "num_scrub_errors",
        "num_objects_repaired", "num_objects_unfound",
    )  # fmt: skip
    sums = {name: sum(row["stat_sum"][name] for row in rows) for name in names}
    share = sums["num_objects_degraded"] / sums["num_objects"] if sums["num_objects"] else 0.0
    return {
        "states": states,
        "objects": sums["num_objects"],
        "degraded": sums["num_objects_degraded"],
        "left_B": round(share * sums["num_bytes"]),
        "recovered_B": sums["num_bytes_recovered"],
        "stored_B": _stored_bytes(cluster, number),
        "errors": sums["num_scrub_errors"],
        "repaired": sums["num_objects_repaired"],
        "unfound": sums["num_objects_unfound"],
    }


def scrub(config: Config, kind: str) -> dict[str, Any]:
    """Scrub all placement groups; return what was found by sizes and attributes (``light``), by contents (``deep``)."""
    with connect(config) as cluster:
        _run_pass(cluster, "scrub" if kind == "light" else "deep-scrub", STAMP[kind])
        return _scrub_result(config, cluster, kind, examined=kind == "deep", repaired=0)


def repair(config: Config) -> dict[str, Any]:
    """Repair all placement groups that a scrub called inconsistent, and return what could and could not be."""
    with connect(config) as cluster:
        before = totals(cluster)["repaired"]
        hopeless = _inconsistent(config, cluster)  # nobody lists them again after a repair that failed
        _run_pass(cluster, "repair", STAMP["deep"])
        told = _scrub_result(config, cluster, "repair", examined=True, repaired=totals(cluster)["repaired"] - before)
        left = told["raw"]["inconsistent"]
        told["unrecoverable"] += sum(
            _count_unrecoverable(each) for name, each in hopeless.items() if left.get(name) == []
        )
        # Of a group that has no list any more, the manager may count what is lost later than the repair ends.
        told["unrecoverable"] = max(told["unrecoverable"], sum(map(_count_unrecoverable, hopeless.values())))
        return told


def _run_pass(cluster: CephConnection, verb: str, stamp: str) -> None:
    """Ask for a pass over every placement group (a repair: over inconsistent ones), and return when all had theirs.

    Those with objects that are lost have none.
    """
    wanted = {row["pgid"]: row[stamp] for row in groups(cluster) if verb != "repair" or "inconsistent" in row["state"]}
    for name in wanted:
        cluster.mgr(f"pg {verb}", pgid=name)
    deadline = time.monotonic() + SCRUB_S
    while wanted:
        for row in groups(cluster):
            if has_passed(row, verb, stamp, wanted.get(row["pgid"])) or UNFOUND in row["state"]:
                wanted.pop(row["pgid"], None)
        if wanted and time.monotonic() > deadline:
            raise StoreError(f"{verb} of {', '.join(sorted(wanted)[:4])} did not end within {SCRUB_S:.0f} s")
        time.sleep(POLL_S)


def has_passed(row: Mapping[str, Any], verb: str, stamp: str, before: str | None) -> bool:
    """Tell whether a placement group had its pass: `before` is what its `stamp` said when it was asked for.

    A repair writes its good copies after its scrub has ended, in a recovery of its own; until then the state has the
    word ``repair`` or lacks ``clean``, and nothing is counted as repaired.
    """
    if before is None or row[stamp] == before or "scrubbing" in row["state"]:
        return False
    return verb != "repair" or (is_clean(row["state"]) and "repair" not in row["state"].split("+"))


def _scrub_result(
    config: Config, cluster: CephConnection, kind: str, *, examined: bool, repaired: int
) -> dict[str, Any]:
    found, listed = totals(cluster), _inconsistent(config, cluster)
    return {
        "kind": kind,
        "examined_B": found["stored_B"] if examined else 0,
        "errors": found["errors"] + found["unfound"],
        "repaired": repaired,
        "unrecoverable": found["unfound"] + sum(map(_count_unrecoverable, listed.values())),
        "raw": {"states": found["states"], "unfound": found["unfound"], "inconsistent": listed},
    }


def _inconsistent(config: Config, cluster: CephConnection) -> dict[str, list[dict[str, Any]]]:
    """Return, by placement group, what its last scrub has listed of objects whose copies are not alike."""
    found = {}
    for name in (row["pgid"] for row in groups(cluster) if "inconsistent" in row["state"]):
        argv = ("rados", "-c", config.home / "ceph.conf", "list-inconsistent-obj", name, "--format=json")
        found[name] = [
            {"object": each["object"]["name"], "errors": each["union_shard_errors"],
             "shards": {f"osd.{shard['osd']}": shard["errors"] for shard in each["shards"]}}
            for each in json.loads(daemons.run(argv))["inconsistents"]
        ]  # fmt: skip
    return found


def _count_unrecoverable(listed: list[dict[str, Any]]) -> int:
    """Return of how many objects every copy is bad."""
    return sum(all(each["shards"].values()) for each in listed)


def _pool(cluster: CephConnection) -> int:
    for each in cluster.mon("osd lspools"):
        if each["poolname"] == options.POOL:
            return int(each["poolnum"])
    raise StoreError(f"there is no pool {options.POOL}")


def _stored_bytes(cluster: CephConnection, number: int) -> int:
    """Return the bytes of data that the OSDs have stored for a pool, all copies."""
    told = cluster.mgr("pg dump", dumpcontents=["pools"])
    rows = told["pool_stats"] if isinstance(told, dict) else told
    for row in rows:
        if row["poolid"] == number:
            return int(row["store_stats"]["data_stored"])
    raise StoreError(f"the manager knows nothing of pool {number} yet")


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
