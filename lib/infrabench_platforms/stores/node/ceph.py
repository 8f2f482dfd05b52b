"""The engine `ceph`: a cluster of one monitor, one manager and an OSD on each disk, and an RBD image in one pool.

The daemons are those of the Debian packages, run by hand and not by a deployment tool, so that all of them can be seen,
killed and removed. Two copies, placed on the two OSDs.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from . import ceph_cluster as options
from . import daemons, damage, disks, krbd
from .ceph_cluster import CephConnection, connect, daemon, is_clean, serves_alone, spread_primaries, totals
from .ceph_cluster import repair as repair
from .ceph_cluster import scrub as scrub
from .config import MODES, Config, StoreError

CLIENT = "qemu-nbd"
FSID, KEY = "fsid", "key"  # options: what a client on another node knows of the cluster
RELEASE = 18  # the first that has the options of `ceph_cluster`
_IMAGE = f"{options.POOL}/{options.IMAGE}"
UP_S, CLEAN_S, DOWN_S = 60.0, 90.0, 60.0
OPTIONS_S = 15.0  # for OSDs to get options from the monitor
GIVE_UP_S = 6
BEFORE = "recovered.json"  # bytes recovered before the disk that is replaced now was lost
CACHE = {"default": "writeback", "strict": "none"}
# What an OSD shares its disk out by. The capacity of disks of its class is Ceph's guess, unless an OSD, which measures
# its disk when it is made, finds less than what it believes of such disks.
SCHEDULER = (
    "osd_op_queue",
    "osd_mclock_profile",
    "osd_mclock_max_capacity_iops_hdd",
    "osd_mclock_max_capacity_iops_ssd",
)
AS_ROOT = ("--setuser", "root", "--setgroup", "root")


def create(config: Config) -> None:
    """Make the cluster, its pool and its image on the two disks; return when all placement groups are clean."""
    _check_release(config)
    # Those who know the cluster on another node know the next one, made in its place, too.
    fsid = config.options.get(FSID) or str(uuid.uuid4())
    (config.home / "ceph.conf").write_text(options.cluster(config, fsid))
    write_client(config, fsid)
    run, keyring = _program(config), config.home / "keyring"
    every = ("--cap", "osd", "allow *", "--cap", "mgr", "allow *")
    run("ceph-authtool", "--create-keyring", keyring, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *")
    key = ("--add-key", config.options[KEY]) if KEY in config.options else ("--gen-key",)
    run("ceph-authtool", keyring, *key, "-n", "client.admin", "--cap", "mon", "allow *", *every)
    run("ceph-authtool", keyring, "--gen-key", "-n", "mgr.x", "--cap", "mon", "allow profile mgr", *every)
    run("monmaptool", "--create", "--fsid", fsid, "--addv", "a", options.address(config), config.home / "monmap")
    run("ceph-mon", "--mkfs", "-i", "a", "--monmap", config.home / "monmap", *AS_ROOT)
    _start(config, "mon", "ceph-mon", "a")
    with connect(config) as cluster:
        # The manager's own watch over real disks would make a pool of its own.
        cluster.mon("config set", who="mgr", name="mgr/devicehealth/enable_monitoring", value="false", force=True)
        _start(config, "mgr", "ceph-mgr", "x")
        with ThreadPoolExecutor(config.copies) as pool:
            list(pool.map(lambda disk: _osd(config, cluster, disk), range(config.copies)))
        _up(cluster, config.copies)
        groups = options.PLACEMENT_GROUPS
        cluster.mon("osd pool create", pool=options.POOL, pg_num=groups, pgp_num=groups)
        cluster.mon("osd pool application enable", pool=options.POOL, app="rbd")
        daemons.until(lambda: _state(cluster)["clean"], CLEAN_S, "clean placement groups")
        spread_primaries(cluster)
    size = f"{config.volume_bytes}B"
    run("rbd", "create", _IMAGE, "--size", size, "--image-feature", "layering", "--image-format", "2")


def _check_release(config: Config) -> None:
    """Raise `StoreError` for a release that knows other options: it would ignore those that are set here."""
    version = _program(config)("ceph-osd", "--version")
    found = re.search(r"^ceph version ((\d+)\.[\d.]+)", version)
    if not found or int(found[2]) < RELEASE:
        raise StoreError(f"Ceph {RELEASE} or newer is needed here, not {found[1] if found else version.strip()}")


def destroy(config: Config) -> None:
    """End the daemons: those who write first, the monitor last. What is left of them is ended by who calls."""
    krbd.detach(config)
    daemons.stop(config, CLIENT, wait_s=2)
    daemons.stop(config, *_osds(config), wait_s=2)
    daemons.stop(config, "mgr", "mon", wait_s=2)


def serve(config: Config, mode: str) -> None:
    """Serve the image with qemu-nbd: librbd with its write-back cache (``default``), or with none (``strict``)."""
    if daemons.serves(config, CLIENT, mode):
        return
    unserve(config)
    with connect(config) as cluster:
        spread_primaries(cluster)  # an OSD that was replaced has brought back CRUSH's own draw
    serve_image(config, mode)
    krbd.attach(config)
    config.mode.write_text(mode)


def serve_image(config: Config, mode: str) -> None:
    """Start qemu-nbd on the image, on the cluster's own node or on another."""
    config.socket.unlink(missing_ok=True)
    _point(config, mode)
    conf = _client_conf(config, mode)
    image = f"rbd:{_IMAGE}:conf={conf}:admin_socket={config.run / CLIENT}.asok"
    how = ("-t", "-e", "16", "-f", "raw", "-k", config.socket, f"--cache={CACHE[mode]}", "--discard=unmap")
    daemons.start(config, CLIENT, (CLIENT, *how, image))


def unserve(config: Config) -> None:
    """End the server; what its cache holds is written first."""
    krbd.detach(config)
    daemons.stop(config, CLIENT)
    config.socket.unlink(missing_ok=True)
    config.mode.unlink(missing_ok=True)


def pids(config: Config) -> dict[str, dict[str, int]]:
    """Return the processes by what they are part of; librbd works inside qemu-nbd, a client."""
    return daemons.pids(config, ("mon", "mgr", *_osds(config)), (CLIENT,))


def used(config: Config) -> int:
    """Return the bytes that are stored in the pool, one copy."""
    with connect(config) as cluster:
        return int(totals(cluster)["stored_B"]) // config.copies


def drop(config: Config) -> None:
    """Empty the caches of the OSDs and of librbd. RocksDB's own cache of blocks, which holds metadata, stays."""
    for name in _osds(config):
        if daemons.alive(config, name):
            daemon(config.run / f"{name}.asok", "cache drop")
    if daemons.alive(config, CLIENT):
        daemon(config.run / f"{CLIENT}.asok", f"rbd cache invalidate {_IMAGE}")


def throttle(config: Config, level: str) -> None:
    """Set or remove the options that brake a rebuild; return when all OSDs have them. Those that come later do too."""
    opened = level == "open"
    with connect(config) as cluster:
        for name, value in options.OPEN.items() if opened else reversed(options.OPEN.items()):
            if opened:
                cluster.mon("config set", who="osd", name=name, value=value)
            else:
                cluster.mon("config rm", who="osd", name=name)
    # An OSD puts back what its scheduler does not take: then the throttle is not what it is called.
    daemons.until(lambda: all(found == opened for found in _find_open_osds(config)), OPTIONS_S, f"throttle {level}")


def fail(config: Config, disk: int) -> dict[str, Any]:
    """Kill an OSD, wait until the monitor calls it down, take it out for good and delete its disk."""
    name = f"osd.{disk}"
    if not daemons.alive(config, name):
        raise StoreError(f"{name} does not run: it cannot be lost")
    with connect(config) as cluster:
        (config.run / BEFORE).write_text(json.dumps(totals(cluster)["recovered_B"]))
        begun, at_s = time.monotonic(), daemons.kill(config, name)
        daemons.until(lambda: disk not in _running(cluster), DOWN_S, f"{name} down")
        noticed_s = time.monotonic() - begun
        # The other OSD serves alone once it has seen that this one is dead, and so can answer no reads: of an OSD that
        # no longer exists it cannot see that, and would wait for the end of its lease (most of `osd_heartbeat_grace`).
        daemons.until(lambda: serves_alone(totals(cluster)["states"]), UP_S, "placement groups without the lost disk")
        cluster.mon("osd purge-actual", id=disk, yes_i_really_mean_it=True)
    shutil.rmtree(config.home / name)
    disks.remove(config, disk)
    return {"failed": name, "lost_s": at_s, "noticed_s": noticed_s}


def replace(config: Config, disk: int) -> dict[str, Any]:
    """Make a new OSD on a new disk; return when it is up, which is when backfill begins."""
    if (config.home / f"osd.{disk}").exists():
        raise StoreError(f"osd.{disk} was not lost: there is nothing to replace")
    disks.make(config, disk)
    with connect(config) as cluster:
        begin = time.monotonic()
        _osd(config, cluster, disk)
        _up(cluster, config.copies)
    return {"replaced": f"osd.{disk}", "up_s": time.monotonic() - begin}


def state(config: Config) -> dict[str, Any]:
    """Return whether all placement groups are active and clean on all OSDs, and the bytes copied so far, and left."""
    with connect(config) as cluster:
        found = _state(cluster)
    before = config.run / BEFORE
    copied = found["recovered_B"] - json.loads(before.read_text()) if before.exists() else -1
    detail = {key: found[key] for key in ("osds_up", "states", "degraded", "objects", "repaired")}
    detail["errors"] = found["errors"] + found["repaired"]  # what a scrub called inconsistent, and what reading mended
    copied_bytes = copied if copied >= 0 else None
    # The manager hears of a change up to a second later; the placement groups say when it was.
    since = {"since_s": found["changed_s"]} if found["clean"] else {}
    return {"clean": found["clean"], "copied_B": copied_bytes, "left_B": found["left_B"], **since, "detail": detail}


def corrupt(config: Config, copies: str) -> dict[str, Any]:
    """Damage blocks of files on the disk of osd.1, or the same blocks on both.

    Ceph lets whoever reads an object of which no copy is whole wait for ever: from now on the client of this pool gives
    such a request up after `GIVE_UP_S`, so that its reader is told.
    """
    result = damage.damage_files(config, (1,) if copies == "one" else (0, 1))
    daemon(config.run / f"{CLIENT}.asok", "config set", var="rados_osd_op_timeout", val=[str(GIVE_UP_S)])
    return result


def _find_open_osds(config: Config) -> list[bool]:
    """Return of each OSD that runs whether its throttle is open."""
    return [
        {key: _option(config, name, key) for key in options.OPEN} == options.OPEN
        for name in _osds(config)
        if daemons.alive(config, name)
    ]


def _option(config: Config, name: str, option: str) -> str:
    """Return the value of an option that an OSD has now."""
    answer: dict[str, str] = daemon(config.run / f"{name}.asok", "config get", var=option)
    return answer[option]


def _state(cluster: CephConnection) -> dict[str, Any]:
    found, up = totals(cluster), len(_running(cluster))
    whole = sum(found["states"].values()) == options.PLACEMENT_GROUPS and all(map(is_clean, found["states"]))
    return {**found, "osds_up": up, "clean": up == 2 and whole}


def _osd(config: Config, cluster: CephConnection, disk: int) -> None:
    """Make an OSD on a disk that is empty, and start it."""
    home, run, osd_uuid = config.home / f"osd.{disk}", _program(config), str(uuid.uuid4())
    home.mkdir()
    os.symlink(disks.device(config, disk), home / "block")
    secret = run("ceph-authtool", "--gen-print-key").strip()
    cluster.mon("osd new", json.dumps({"cephx_secret": secret}), uuid=osd_uuid, id=disk)
    keyring = home / "keyring"
    run("ceph-authtool", "--create-keyring", keyring, "-n", f"osd.{disk}", "--add-key", secret)
    run("ceph-osd", "-i", str(disk), "--mkfs", "--osd-uuid", osd_uuid, "--keyring", keyring, *AS_ROOT)
    _start(config, f"osd.{disk}", "ceph-osd", str(disk), "--keyring", keyring)


def _start(config: Config, name: str, program: str, number: str, *more: str | Path) -> None:
    conf = ("-c", config.home / "ceph.conf")
    daemons.start(config, name, (program, "-f", "-i", number, *conf, *AS_ROOT, *more))


def _up(cluster: CephConnection, count: int) -> None:
    daemons.until(lambda: len(_running(cluster)) == count, UP_S, f"{count} OSDs up")


def _running(cluster: CephConnection) -> list[int]:
    return [each["osd"] for each in cluster.mon("osd dump")["osds"] if each["up"]]


def _osds(config: Config) -> Sequence[str]:
    return [f"osd.{disk}" for disk in range(config.copies)]


def _program(config: Config) -> Any:
    """Return what runs a program of Ceph's with this cluster's configuration."""
    environment = {"CEPH_CONF": str(config.home / "ceph.conf")}
    return lambda *argv: daemons.run(argv, environment=environment)


def write_client(config: Config, fsid: str) -> None:
    """Write what clients of the cluster are told, in each mode."""
    for mode in MODES:
        _client_conf(config, mode).write_text(options.client(config, fsid, mode))
    _point(config, "default")


def _client_conf(config: Config, mode: str) -> Path:
    return config.home / f"client-{mode}.conf"


def _point(config: Config, mode: str) -> None:
    """Let ``client.conf``, which programs that speak with the cluster themselves are given, be that of a mode."""
    link = config.home / "client.conf"
    link.unlink(missing_ok=True)
    link.symlink_to(_client_conf(config, mode).name)


def facts(config: Config) -> dict[str, Any]:
    """Return the version and all that the cluster was told."""
    with connect(config) as cluster:
        detail = cluster.mon("osd metadata")
        pool = cluster.mon("osd pool get", pool=options.POOL, var="all")
        flags = cluster.mon("osd dump")["flags"]
        health = sorted(cluster.mon("health")["checks"])
    run = _program(config)
    image = json.loads(run("rbd", "info", _IMAGE, "--format", "json"))
    return {
        "engine": "ceph",
        "version": run("ceph-osd", "--version").strip(),
        "pool": {
            "layout": "one pool, one copy on each of two OSDs (failure domain osd), BlueStore",
            "copies": pool["size"], "min_copies": pool["min_size"], "placement_groups": pool["pg_num"],
            "primaries": "even: each OSD answers for as many placement groups",
            "object_bytes": image["object_size"], "image_features": image["features"], "compression": "none",
            "osd_class": sorted({str(each.get("default_device_class")) for each in detail}),
            "osd_cache_bytes": config.cache_bytes // config.copies,
            "osd_cache": "fixed size, no autotuning; Ceph's own shares: metadata 45 %, RocksDB 45 %, data what is left",
            "client_cache": "default: librbd's, 32 MiB, write-back from the start; strict: none",
            "sync": "a write is acknowledged when both OSDs have it on disk; by librbd's cache before, in default",
            "drop": "OSDs: cache drop; librbd: invalidated; RocksDB's block cache (metadata) stays",
            "client_gives_up": "after data was damaged: what no copy answers ends in an error; before that never",
            "throttle_default": "Ceph's own for this class of disk", "throttle_open": options.OPEN,
            "scheduler": {name: {key: _option(config, name, key) for key in SCHEDULER} for name in _osds(config)},
            "freeze": options.FREEZE, "scrubs": options.SCRUBS, "discard": "on, asynchronous", "flags": flags,
            "health": health,
        },
    }  # fmt: skip


def evidence(config: Config) -> str:
    """Return health, tree and the ends of all logs."""
    parts = []
    for words in (("health", "detail"), ("osd", "tree"), ("pg", "stat")):
        with contextlib.suppress(StoreError):
            ceph = ("ceph", "-c", config.home / "ceph.conf", "--connect-timeout", "5", *words)
            parts += [f"# ceph {' '.join(words)}", daemons.run(ceph, timeout_s=15)]
    return "\n".join([*parts, daemons.log_ends(config)])
