"""The engine `zfs`: OpenZFS in user space (libzpool), a mirror of the two disks with one volume, served by nbdkit.

One process is everything: the pool, its cache and the NBD server (the plugin in ``lab/storage/zvol``). It answers on a
control socket, see zvol/control.c. Whoever needs the pool while it does not run starts it; `unserve` exports the pool.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator, Mapping
from typing import Any

from . import daemons, damage, disks, zpool
from .config import Config, StoreError
from .nbd import listen_options
from .zpool import BLOCK_BYTES, DIRTY, POLL_S, SCRUB_S, SEEN_S, SYNC

SERVER = "nbdkit"
POOL = "store"
PLUGIN = "/usr/local/lib/infrabench/nbdkit-zvol-plugin.so"
THREADS = "32"  # requests of one connection at a time
START_S, STOP_S, TRIM_S = 60.0, 90.0, 60.0
THROTTLE = "throttle"  # in the run folder: the level that a server is started with
ANSWER_S = 120.0
ANSWER_BYTES = 1 << 20
# glibc keeps what is freed in the heap that it is of, and has up to eight heaps a processor: on two processors, reading
# 4 GB through a cache of 1 GiB took all of a memory limit of 5 GiB. With two heaps it takes 3.3 GB. See mallopt(3).
ALLOCATOR = {"MALLOC_ARENA_MAX": "2"}


def create(config: Config) -> None:
    """Make the pool and its volume, and leave them served in the default mode."""
    _start(config, "default", make=True)


def destroy(config: Config) -> None:
    """Kill the server: what it has not written goes with the disks."""
    with contextlib.suppress(StoreError):  # there is none, or it cannot be killed yet: the caller tries it again
        daemons.kill(config, SERVER)


def serve(config: Config, mode: str) -> None:
    """Serve the volume; writes are acknowledged from memory (``default``) or from the disks (``strict``)."""
    _ensure_running(config, mode)
    ask(config, "sync", SYNC[mode])


def unserve(config: Config) -> None:
    """Give free space back to the disks below, then export the pool and end the server."""
    if not daemons.alive(config, SERVER):
        _clear(config)
        return
    with contextlib.suppress(StoreError):  # a disk that is gone cannot be trimmed
        ask(config, "trim")
        daemons.until(lambda: all(leaf["trim"] != "active" for leaf in leaves(ask(config, "status"))), TRIM_S, "trim")
    daemons.stop(config, SERVER, wait_s=STOP_S)
    _clear(config)


def pids(config: Config) -> dict[str, dict[str, int]]:
    """Return the one process, which is the storage system; the client is what speaks NBD with it."""
    return daemons.pids(config, (SERVER,))


def used(config: Config) -> int:
    """Return the bytes that the mirror has allocated, which is one copy, metadata included."""
    _ensure_running(config)
    return int(ask(config, "status")["vdevs"]["allocated_B"])


def drop(config: Config) -> None:
    """Write everything to the disks and empty the ARC and what holds buffers of it."""
    if daemons.alive(config, SERVER):
        ask(config, "drop")


def throttle(config: Config, level: str) -> None:
    """Let scrub and resilver make way for other requests (``default``), or not (``open``)."""
    (config.run / THROTTLE).write_text(level)
    if daemons.alive(config, SERVER):
        ask(config, "throttle", level)


def fail(config: Config, disk: int) -> dict[str, Any]:
    """Take a disk offline for good, wait until the pool calls itself degraded, and delete it."""
    _ensure_running(config)
    path = str(disks.device(config, disk))
    lost = [leaf for leaf in leaves(ask(config, "status")) if leaf["path"] == path and leaf["state"] == "online"]
    if len(lost) != 1:
        raise StoreError(f"disk {disk} ({path}) is no disk that the pool uses: it cannot be lost")
    at_s, begun = time.time(), time.monotonic()
    ask(config, "offline", str(lost[0]["guid"]))
    daemons.until(lambda: bool(ask(config, "status")["vdevs"]["state"] == "degraded"), SEEN_S, "a degraded pool")
    noticed_s = time.monotonic() - begun
    disks.remove(config, disk)
    return {"failed": path, "lost_s": at_s, "noticed_s": noticed_s}


def replace(config: Config, disk: int) -> dict[str, Any]:
    """Put a new disk in the place of the lost one; return when its resilver has begun."""
    _ensure_running(config)
    lost = [leaf for leaf in leaves(ask(config, "status")) if leaf["state"] != "online"]
    if len(lost) != 1 or disks.attached_devices(disks.file(config, disk)):
        raise StoreError(f"disk {disk} was not lost: there is nothing to replace")
    begun, path = time.monotonic(), disks.make(config, disk)
    before = ask(config, "status")["scan"]
    ask(config, "replace", str(lost[0]["guid"]), str(path))

    def has_begun() -> bool:
        status = ask(config, "status")  # another resilver than that of before runs, or has already ended
        return not is_replacing(status) or (status["scan"] != before and status["scan"]["kind"] == "resilver")

    daemons.until(has_begun, SEEN_S, "a resilver")
    return {"replaced": str(path), "up_s": time.monotonic() - begun}


def state(config: Config) -> dict[str, Any]:
    """Return whether both disks have everything, and how many bytes the resilver has copied and has left."""
    _ensure_running(config)
    return progress(ask(config, "status"), config.copies)


def corrupt(config: Config, copies: str) -> dict[str, Any]:
    """Damage blocks of files on disk 1, or the same blocks on both."""
    if not daemons.alive(config, SERVER):
        raise StoreError("nothing is served: there are no files to damage")
    ask(config, "commit")
    return damage.damage_files(config, (1,) if copies == "one" else (0, 1))


def scrub(config: Config, kind: str) -> dict[str, Any]:
    """Scrub the pool: every copy of every block is read, checked, and mended from another where it is wrong.

    ``errors`` counts bad copies met (one that cannot be mended is read again, and counted again), ``unrecoverable``
    blocks without any good copy, ``repaired`` copies that were mended, in blocks of the volume's size.
    """
    if kind == "light":
        return {"kind": kind, "supported": False}
    _ensure_running(config)
    before = checksum_errors(ask(config, "status"))
    ask(config, "scrub", "start")
    deadline = time.monotonic() + SCRUB_S
    while (status := ask(config, "status"))["scan"]["state"] == "scanning":
        if time.monotonic() > deadline:
            raise StoreError(f"the scrub did not end within {SCRUB_S:.0f} s")
        time.sleep(POLL_S)
    scan = status["scan"]
    if scan["kind"] != "scrub" or scan["state"] != "finished":
        raise StoreError(f"the scrub did not come to its end: {scan}")
    mended = -(-scan["processed_B"] // status["volume"]["block_B"])
    return {
        "kind": kind, "examined_B": scan["issued_B"], "errors": checksum_errors(status) - before, "repaired": mended,
        "unrecoverable": scan["errors"], "repaired_B": scan["processed_B"], "raw": status,
    }  # fmt: skip


def repair(config: Config) -> dict[str, Any]:
    """Scrub once more: a scrub mends what it finds, there is no repair besides."""
    return {**scrub(config, "deep"), "kind": "repair"}


def facts(config: Config) -> dict[str, Any]:
    """Return which engine this is and what the pool says of itself."""
    _ensure_running(config)
    status = ask(config, "status")
    packages = daemons.run(("dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}\n", "libzpool*linux"))
    (packaged,) = {line.split()[1] for line in packages.splitlines() if line.startswith("installed ")}
    volume = status["volume"]
    return {
        "engine": f"OpenZFS {packaged.split('-')[0]} engine in user space (libzpool), zvol served over NBD",
        "version": packaged,
        "pool": {
            "layout": zpool.LAYOUT, "copies": config.copies,
            "volume_bytes": volume["size_B"], "block_bytes": volume["block_B"], "compression": volume["compression"],
            "cache_bytes": status["cache"]["most_B"], "dirty_bytes": status["dirty_most_B"],
            "autotrim": status["autotrim"], "sync": zpool.SYNC_EFFECT,
            "drop": "all written, buffers and ARC emptied", "allocator": "glibc's, two heaps for all threads",
            **zpool.THROTTLE_EFFECT, "throttle_by": "open: their reads are queued as those of clients, ten at a time",
            "assertions": "on, as Debian builds the library: slower than the kernel's module",
        },
    }  # fmt: skip


def evidence(config: Config) -> str:
    """Return the pool's state, if it answers, and the end of the log."""
    try:
        state = json.dumps(ask(config, "status", timeout_s=5), indent=1)
    except StoreError as error:
        state = str(error)
    return f"{state}\n{daemons.log_ends(config)}"


def _ensure_running(config: Config, mode: str = "default") -> None:
    if not daemons.alive(config, SERVER):
        _start(config, mode)


def _start(config: Config, mode: str, *, make: bool = False) -> None:
    """Start the server on the disks that are there, and return when it answers."""
    _clear(config)
    there = [str(disks.device(config, disk)) for disk in range(config.copies) if disks.file(config, disk).exists()]
    level = config.run / THROTTLE
    settings: Mapping[str, object] = {
        "pool": POOL, "control": config.run / "control.sock", "sync": SYNC[mode], "arc": config.cache_bytes,
        "dirty": config.memory_bytes * DIRTY // 100, "throttle": level.read_text() if level.exists() else "default",
        **({"create": "yes", "size": config.volume_bytes, "block": BLOCK_BYTES} if make else {}),
    }  # fmt: skip
    argv = [SERVER, "-f", "-t", THREADS, *listen_options(config, "-i", "-U"), config.options.get("plugin", PLUGIN)]
    argv += [f"{key}={value}" for key, value in settings.items()] + [f"disk={path}" for path in there]
    daemons.start(config, SERVER, argv, ALLOCATOR)

    def answers() -> bool:
        if not daemons.alive(config, SERVER):
            raise StoreError("nbdkit ended")
        with contextlib.suppress(StoreError):
            return bool(ask(config, "status")["ok"])
        return False

    try:
        daemons.until(answers, START_S, "the pool")
    except StoreError as error:
        last = " ".join((config.log / f"{SERVER}.log").read_text(errors="replace").split())[-600:]
        raise StoreError(f"{error}: {last}") from error


def _clear(config: Config) -> None:
    """Remove the sockets of a server that is gone: nbdkit takes none that is there."""
    for name in (config.socket, config.run / "control.sock"):
        name.unlink(missing_ok=True)


def ask(config: Config, *words: str, timeout_s: float = ANSWER_S) -> dict[str, Any]:
    """Return the answer to one command; `StoreError` with the engine's reason when it refuses, or nothing answers."""
    path, command = config.run / "control.sock", " ".join(words)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            connection.connect(str(path))
            connection.sendall(command.encode() + b"\n")
            answer = b""
            while len(answer) < ANSWER_BYTES and (more := connection.recv(65536)):
                answer += more
        reply: dict[str, Any] = json.loads(answer)
    except (OSError, ValueError) as error:
        raise StoreError(f"the engine does not answer {command!r}: {error}") from error
    if reply.get("ok") is not True:
        raise StoreError(f"the engine refuses {command!r}: {reply.get('reason')}")
    return reply


def leaves(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the disks of the pool, without what they are grouped in."""
    return [vdev for vdev in _all(status["vdevs"]) if not vdev["children"]]


def is_replacing(status: Mapping[str, Any]) -> bool:
    """Tell whether a disk is being replaced: the old one and the new one stand side by side until the end."""
    return any(vdev["type"] == "replacing" for vdev in _all(status["vdevs"]))


def checksum_errors(status: Mapping[str, Any]) -> int:
    """Return how many copies with a wrong checksum the pool's disks have given so far."""
    return sum(int(leaf["checksum_errors"]) for leaf in leaves(status))


def progress(status: Mapping[str, Any], copies: int) -> dict[str, Any]:
    """Return `zpool.rebuild_progress` of a status."""
    disks, scan, block = leaves(status), status["scan"], status["volume"]["block_B"]
    resilver = None
    if scan is not None and scan["kind"] == "resilver":
        runs = scan["state"] == "scanning"
        left = scan["all_B"] - scan["skipped_B"] - scan["issued_B"]
        resilver = runs, scan["processed_B"], max(0, left) if runs else 0
    online = len(disks) == copies and all(disk["state"] == "online" for disk in disks)
    errors = 0
    for disk in disks:  # what a read ahead met is mended as well, but only counted as mended bytes
        met = max(disk["checksum_errors"], -(-disk["healed_B"] // block))
        errors += met + disk["read_errors"] + disk["write_errors"]
    detail = {
        "errors": errors + status["errors"], "healed_B": sum(disk["healed_B"] for disk in disks),
        "pool": status["vdevs"]["state"], "scan": scan, "disks": {disk["path"]: disk["state"] for disk in disks},
    }  # fmt: skip
    whole = online and status["vdevs"]["state"] == "online"
    return zpool.rebuild_progress(whole, is_replacing(status), resilver, detail)


def _all(vdev: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield vdev
    for child in vdev["children"]:
        yield from _all(child)
