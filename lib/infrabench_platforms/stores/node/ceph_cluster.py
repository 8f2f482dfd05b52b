"""A Ceph cluster: what it is told, how it is asked, and what it says of its data and of scrubs that were waited for.

Of options only what is changed is here, and why: everything else is Ceph's own default. Monitor and manager are asked
through librados, a daemon through its admin socket.

Each OSD answers for half of the placement groups. The first copy of a placement group, its primary, answers all reads
and orders all writes. CRUSH draws it by a hash; over the few placement groups of a small cluster the draw may be
lopsided, and it is the same in each new cluster (of our 16, one OSD got 14). That would be a property of two numbers,
not of Ceph, so it is evened out, by the means that Ceph's own balancer uses: explicit mappings (``pg-upmap``). No data
moves.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from . import daemons
from .config import Config, StoreError

LOOPBACK = "127.0.0.1"
PORT = 13300  # of the monitor; the next one is for the old protocol
POOL, IMAGE = "rbd", "volume"
PLACEMENT_GROUPS = 16  # eight an OSD: a scrub begins one a second and primary
DAY_S = 86400
NEVER_S = 10 * 365 * DAY_S
# A node that is frozen for minutes or hours, and then goes on, looks dead to clocks that went on: nobody else would act
# on that, so nobody does. (Failures are told by connections that are refused, at once.)
FREEZE = {
    # The monitor counts back from its monotonic clock: a grace longer than that has run would be in its future.
    "mon": {"mon_mgr_beacon_grace": max(30, min(DAY_S, int(time.monotonic()) - 60)), "mon_osd_report_timeout": DAY_S},
    # Also how long a replica lets its primary answer reads without asking again: else that is to be renewed first.
    "global": {"osd_heartbeat_grace": DAY_S, "auth_service_ticket_ttl": 7 * DAY_S, "auth_mon_ticket_ttl": 7 * DAY_S},
    "osd": {"osd_op_thread_timeout": DAY_S, "osd_op_thread_suicide_timeout": DAY_S},
}  # fmt: skip
# Nothing scrubs by itself in the middle of a measurement; scrubs that are asked for begin at once.
SCRUBS = {
    "osd_scrub_min_interval": NEVER_S, "osd_scrub_max_interval": NEVER_S, "osd_deep_scrub_interval": NEVER_S,
    "osd_scrub_backoff_ratio": 0, "osd_max_scrubs": 4,
}  # fmt: skip
# Rebuilds with as few brakes as the OSD's scheduler (mClock) can have: its profile for them, and several placement
# groups and objects at once, which it takes only when it was told so first. (It rests between no objects by itself.)
OPEN = {
    "osd_mclock_override_recovery_settings": "true", "osd_mclock_profile": "high_recovery_ops",
    "osd_max_backfills": "8", "osd_recovery_max_active": "8",
}  # fmt: skip
ANSWER_S = 90  # a monitor commits to its disk first, and other work may have much to write there
# A placement group with an object of which no copy can be read is not scrubbed any more; it waits for a copy for ever.
UNFOUND = "unfound"
# Placement groups with these words in their state have all their copies.
CLEAN = {"active", "clean", "scrubbing", "deep", "inconsistent", "failed_repair", "repair"}
WAITING = {"wait", "laggy", "stale", "peering"}  # no answer to reads for now
# What a placement group counts, each with ``num_`` before its name.
SUMS = (
    "bytes", "objects", "objects_degraded", "bytes_recovered", "scrub_errors", "objects_repaired", "objects_unfound",
)  # fmt: skip
SCRUB_S, POLL_S = 900.0, 0.5
STAMP = {"light": "last_scrub_stamp", "deep": "last_deep_scrub_stamp"}
EVEN_S = 60.0
REFUSED = "ERROR: "  # begins what a daemon answers on its admin socket to a command that failed
CHANGED = "%Y-%m-%dT%H:%M:%S.%f%z"  # when the state of a placement group last changed, by its OSD's clock


def cluster(config: Config, fsid: str) -> str:
    """Return ceph.conf of the daemons. Caches have a fixed size: together what the store may cache."""
    home = config.home
    return _text({
        "global": {
            "fsid": fsid, "mon_initial_members": "a", "mon_host": address(config),
            "public_network": f"{config.address}/32" if config.address else "127.0.0.0/8",
            "cluster_network": "127.0.0.0/8", "ms_bind_ipv6": "false",
            "auth_cluster_required": "cephx", "auth_service_required": "cephx", "auth_client_required": "cephx",
            "auth_allow_insecure_global_id_reclaim": "false",
            "keyring": home / "keyring", "log_file": home / "log/$name.ceph.log", "run_dir": config.run,
            "pid_file": "", "crash_dir": home / "crash",
            "osd_pool_default_size": config.copies, "osd_pool_default_min_size": 1,
            "osd_pool_default_pg_num": PLACEMENT_GROUPS, "osd_pool_default_pg_autoscale_mode": "off",
            "osd_crush_chooseleaf_type": 0, "mon_warn_on_pool_no_redundancy": "false", **FREEZE["global"],
        },
        "mon": {
            "mon_data": home / "mon", "admin_socket": config.run / "$name.asok",
            "mon_data_avail_warn": 2, "mon_data_avail_crit": 1, **FREEZE["mon"],
        },
        "mgr": {
            "mgr_data": home / "mgr", "admin_socket": config.run / "$name.asok", "mgr_initial_modules": "",
            "mgr_stats_period": 1, "mgr_tick_period": 1,
        },
        "osd": {
            "osd_data": home / "osd.$id", "admin_socket": config.run / "$name.asok", "osd_objectstore": "bluestore",
            "bluestore_cache_autotune": "false", "bluestore_cache_size": config.cache_bytes // config.copies,
            "bdev_enable_discard": "true", "bdev_async_discard_threads": 1, **SCRUBS, **FREEZE["osd"],
        },
    })  # fmt: skip


def client(config: Config, fsid: str, mode: str) -> str:
    """Return ceph.conf of clients: in ``strict`` mode librbd caches nothing.

    Of itself librbd writes through until its client's first flush. A file system flushes as it is mounted; a tool that
    writes to the volume does at its end, so that its first trial would be of another cache than those after it.
    """
    cached = {"rbd_cache": "true" if mode == "default" else "false", "rbd_cache_writethrough_until_flush": "false"}
    top = {"fsid": fsid, "mon_host": address(config), "keyring": config.home / "keyring", "ms_bind_ipv6": "false"}
    return _text({"global": top, "client": cached})


def address(config: Config) -> str:
    """Return where the monitor answers: on loopback alone, unless a client is on another node."""
    where = config.address or LOOPBACK
    return f"[v2:{where}:{PORT},v1:{where}:{PORT + 1}]"


def _text(sections: dict[str, dict[str, object]]) -> str:
    return "".join(
        f"[{section}]\n" + "".join(f"{name} = {value}\n" for name, value in options.items())
        for section, options in sections.items()
    )


@dataclass(frozen=True)
class CephConnection:
    """A connection to the cluster as its administrator."""

    handle: Any

    def mon(self, prefix: str, stdin: str = "", **words: Any) -> Any:
        """Return the answer of the monitor to a command, parsed (None when it is empty)."""
        return self._send("mon_command", prefix, stdin, **words)

    def mgr(self, prefix: str, **words: Any) -> Any:
        """Return the answer of the manager."""
        return self._send("mgr_command", prefix, **words)

    def _send(self, to: str, prefix: str, stdin: str = "", **words: Any) -> Any:
        command = json.dumps({"prefix": prefix, "format": "json", **words})
        status, answer, why = getattr(self.handle, to)(command, stdin.encode(), timeout=ANSWER_S)
        if status:
            raise StoreError(f"ceph {prefix}: {why or 'no reason given'} ({status})")
        return json.loads(answer) if answer.strip() else None


@contextmanager
def connect(config: Config) -> Iterator[CephConnection]:
    """Yield the cluster; `StoreError` when it does not answer."""
    try:
        import rados  # of the package python3-rados; only a store of Ceph has it
    except ImportError as error:
        raise StoreError("python3-rados is not installed") from error
    try:
        handle = rados.Rados(
            conffile=str(config.home / "ceph.conf"), rados_id="admin",
            conf={"client_mount_timeout": str(ANSWER_S), "rados_mon_op_timeout": str(ANSWER_S)},
        )  # fmt: skip
        handle.connect()
    except (rados.Error, OSError) as error:
        raise StoreError(f"the cluster does not answer: {error}") from error
    try:
        yield CephConnection(handle)
    except rados.Error as error:
        raise StoreError(f"the cluster does not answer: {error}") from error
    finally:
        handle.shutdown()


def daemon(path: Path, prefix: str, **words: Any) -> Any:
    """Return what a daemon answers on its admin socket (bytes that are no JSON as text)."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.settimeout(60.0)
        try:
            link.connect(str(path))
            link.sendall(json.dumps({"prefix": prefix, "format": "json", **words}).encode() + b"\0")
            reply = bytearray()
            while chunk := link.recv(1 << 16):
                reply += chunk
        except OSError as error:
            raise StoreError(f"{path.name} does not answer {prefix!r}: {error}") from error
    if len(reply) < 4 or struct.unpack(">I", reply[:4])[0] != len(reply) - 4:
        raise StoreError(f"{path.name} answers {prefix!r} with something else than its length says")
    text = reply[4:].decode("utf-8", "replace").strip()
    if text.startswith(REFUSED):  # the protocol has no status
        raise StoreError(f"{path.name} refuses {prefix!r}: {text[:400]}")
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text


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
    rows, number = _dump(cluster, "pgs", "pg_stats"), _pool(cluster)
    return sorted((row for row in rows if row["pgid"].startswith(f"{number}.")), key=lambda row: str(row["pgid"]))


def totals(cluster: CephConnection) -> dict[str, Any]:
    """Return of our pool: placement groups by state, objects, bytes (of one copy, stored, recovered, left), errors.

    And when a state last changed (Unix time).
    """
    number, rows = _pool(cluster), groups(cluster)
    sums: Counter[str] = Counter()
    for row in rows:
        sums.update({name: row["stat_sum"][f"num_{name}"] for name in SUMS})
    stored = [row["store_stats"] for row in _dump(cluster, "pools", "pool_stats") if row["poolid"] == number]
    if not stored:
        raise StoreError(f"the manager knows nothing of pool {number} yet")
    share = sums["objects_degraded"] / sums["objects"] if sums["objects"] else 0.0
    return {
        "states": dict(Counter(row["state"] for row in rows)),
        "objects": sums["objects"],
        "degraded": sums["objects_degraded"],
        "left_B": round(share * sums["bytes"]),
        "recovered_B": sums["bytes_recovered"],
        "stored_B": int(stored[0]["data_stored"]),
        "errors": sums["scrub_errors"],
        "repaired": sums["objects_repaired"],
        "unfound": sums["objects_unfound"],
        "changed_s": max((datetime.strptime(row["last_change"], CHANGED).timestamp() for row in rows), default=0.0),
    }


def scrub(config: Config, kind: str) -> dict[str, Any]:
    """Scrub all placement groups; return what was found by sizes and attributes (``light``), by contents (``deep``)."""
    with connect(config) as cluster:
        _run_pass(cluster, "scrub" if kind == "light" else "deep-scrub", STAMP[kind])
        return _scrub_result(config, cluster, kind)


def repair(config: Config) -> dict[str, Any]:
    """Repair all placement groups that a scrub called inconsistent, and return what could and could not be."""
    with connect(config) as cluster:
        before = totals(cluster)["repaired"]
        hopeless = _inconsistent(config, cluster)  # nobody lists them again after a repair that failed
        _run_pass(cluster, "repair", STAMP["deep"])
        mended = totals(cluster)["repaired"] - before
        result = _scrub_result(config, cluster, "repair") | {"repaired": mended}
        left = result["raw"]["inconsistent"]
        result["unrecoverable"] += sum(
            _count_unrecoverable(each) for name, each in hopeless.items() if left.get(name) == []
        )
        # Of a group that has no list any more, the manager may count what is lost later than the repair ends.
        result["unrecoverable"] = max(result["unrecoverable"], sum(map(_count_unrecoverable, hopeless.values())))
        return result


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


def _scrub_result(config: Config, cluster: CephConnection, kind: str) -> dict[str, Any]:
    found, listed = totals(cluster), _inconsistent(config, cluster)
    return {
        "kind": kind,
        "examined_B": 0 if kind == "light" else found["stored_B"],
        "errors": found["errors"] + found["unfound"],
        "repaired": 0,
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
        if each["poolname"] == POOL:
            return int(each["poolnum"])
    raise StoreError(f"there is no pool {POOL}")


def _dump(cluster: CephConnection, what: str, key: str) -> list[dict[str, Any]]:
    """Return the rows that the manager has of ``pgs`` or ``pools``: a list, or below a key, by its version."""
    dump = cluster.mgr("pg dump", dumpcontents=[what])
    rows: list[dict[str, Any]] = dump[key] if isinstance(dump, dict) else dump
    return rows


def spread_primaries(cluster: CephConnection) -> None:
    """Return with every OSD the primary of as many placement groups of a clean pool as the others (one apart)."""
    rows = groups(cluster)
    if not all(is_clean(row["state"]) for row in rows) or is_even(rows):
        return
    osds = sorted(rows[0]["acting"])
    wanted = {row["pgid"]: osds[turn % len(osds) :] + osds[: turn % len(osds)] for turn, row in enumerate(rows)}

    def is_done() -> bool:
        rows = groups(cluster)
        return is_even(rows) and all(is_clean(row["state"]) for row in rows)

    with ThreadPoolExecutor(PLACEMENT_GROUPS) as pool:  # at once: the monitor puts them into one new map
        list(pool.map(lambda name: cluster.mon("osd pg-upmap", pgid=name, id=wanted[name]), wanted))
    daemons.until(is_done, EVEN_S, "primaries on all OSDs alike")


def is_even(rows: list[dict[str, object]]) -> bool:
    """Tell whether no OSD is the primary of more placement groups than another, but for one."""
    counts = Counter({osd: 0 for row in rows for osd in row["acting"]})
    counts.update(row["acting_primary"] for row in rows)
    return max(counts.values()) - min(counts.values()) <= 1
