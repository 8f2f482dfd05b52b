"""What a Ceph cluster of ours is, for the reader of its figures; and what it says when something failed."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from . import ceph_options as options
from . import daemons
from .ceph_client import connect
from .config import Config, StoreError


def facts(config: Config) -> dict[str, Any]:
    """Return the version and all that the cluster was told."""
    with connect(config) as cluster:
        detail = cluster.mon("osd metadata")
        pool = cluster.mon("osd pool get", pool=options.POOL, var="all")
        flags = cluster.mon("osd dump")["flags"]
    image = json.loads(_run(config, "rbd", "info", f"{options.POOL}/{options.IMAGE}", "--format", "json"))
    return {
        "engine": "ceph",
        "version": _run(config, "ceph-osd", "--version").strip(),
        "pool": {
            "layout": "one pool, one copy on each of two OSDs (failure domain osd), BlueStore",
            "copies": pool["size"], "min_copies": pool["min_size"], "placement_groups": pool["pg_num"],
            "primaries": "even: each OSD answers for as many placement groups",
            "object_bytes": image["object_size"], "image_features": image["features"], "compression": "none",
            "osd_class": sorted({str(each.get("default_device_class")) for each in detail}),
            "osd_cache_bytes": config.cache_bytes // config.copies, "osd_cache": "fixed size, no autotuning",
            "client_cache": "default: librbd's, 32 MiB, write-back after the first flush; strict: none",
            "sync": "a write is acknowledged when both OSDs have it on disk; by librbd's cache before, in default",
            "drop": "OSDs: cache drop; librbd: invalidated; RocksDB's block cache (metadata) stays",
            "client_gives_up": "after data was damaged: what no copy answers ends in an error; before that never",
            "throttle_default": "Ceph's own for this class of disk", "throttle_open": options.OPEN,
            "freeze": options.FREEZE, "scrubs": options.SCRUBS, "discard": "on, asynchronous", "flags": flags,
        },
    }  # fmt: skip


def evidence(config: Config) -> str:
    """Return health, tree and the ends of all logs."""
    told = []
    for words in (("health", "detail"), ("osd", "tree"), ("pg", "stat")):
        with contextlib.suppress(StoreError):
            ceph = ("ceph", "-c", config.home / "ceph.conf", "--connect-timeout", "5", *words)
            told += [f"# ceph {' '.join(words)}", daemons.run(ceph, timeout_s=15)]
    return "\n".join([*told, *daemons.log_ends(config)])


def _run(config: Config, *argv: str) -> str:
    return daemons.run(argv, environment={"CEPH_CONF": str(config.home / "ceph.conf")})
