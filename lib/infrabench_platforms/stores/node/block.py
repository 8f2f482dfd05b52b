"""The volume as a user has it: over NBD, filled, and as a file system; and all of that undone again, in order.

The path of the file area is the same for every engine: NBD server, nbdfuse, loop device with direct I/O, ext4.
"""

from __future__ import annotations

import contextlib
import json
import random
from pathlib import Path
from typing import Any

from . import daemons, disks
from .config import Config, StoreError
from .nbd import Client

READY_S, UNMOUNT_S, BUSY_S = 30.0, 40.0, 10.0
FUSE = "nbdfuse"
FILLED = "filled.json"
AREA = "area.json"  # how many bytes of the file area are, or were, in use
CONNECTIONS = "4"
PLAIN = "/usr/local/lib/infrabench/nbd-plain-replies.so"  # see lab/storage/replies; hosts of one's own lack it
MIB = 2**20
# One inode for each MiB, nothing left to do in the background, no discard of what was given back before.
MKFS = ("mkfs.ext4", "-q", "-T", "largefile", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard")


def serve(config: Config, engine: Any, mode: str) -> dict[str, Any]:
    """Serve the volume over NBD in a mode of durability, and return once it answers and has its size."""
    if not answers(config):
        engine.unserve(config)  # one that serves elsewhere: here for a client on another node, or the other way round
    engine.serve(config, mode)
    daemons.until(lambda: answers(config), READY_S, "the NBD server")
    with Client(config.endpoint) as client:
        if client.size != config.volume_bytes:
            raise StoreError(f"the volume has {client.size} bytes, not {config.volume_bytes}")
    return {"uri": config.uri, "mode": mode}


def fill(config: Config, _engine: Any, size: int) -> dict[str, Any]:
    """Fill the first `size` bytes of the raw area with incompressible data, unless this pool has that already."""
    marker = config.home / FILLED
    if size > config.raw_bytes:
        raise StoreError(f"the raw area has {config.raw_bytes} bytes: {size} are too many")
    if marker.exists() and size <= json.loads(marker.read_text()):
        return {"written_B": 0}
    argv = (
        "fio", "--name=fill", "--ioengine=nbd", f"--uri={config.uri}", "--rw=write", "--bs=1M", "--iodepth=8",
        f"--size={size}", "--refill_buffers=1", "--end_fsync=1", "--output-format=json",
        f"--randseed={random.getrandbits(31)}",  # else each fill would write the same bytes
    )  # fmt: skip
    daemons.run(argv, timeout_s=60 + size / MIB)
    marker.write_text(json.dumps(size))
    return {"written_B": size}


def empty(config: Config, engine: Any) -> dict[str, Any]:
    """Give the space of the raw area back, as far as it was filled."""
    marker = config.home / FILLED
    if not marker.exists():
        return {"given_back_B": 0}
    size = json.loads(marker.read_text())
    marker.unlink()  # first: what is half empty is not filled
    _trim(config, engine, 0, size)
    return {"given_back_B": size}


def mount(config: Config, engine: Any, mode: str, size: int) -> dict[str, Any]:
    """Serve the volume and mount a fresh ext4 over `size` bytes of the file area; what was mounted before goes."""
    if size > config.volume_bytes - config.raw_bytes:
        raise StoreError(f"the file area has {config.volume_bytes - config.raw_bytes} bytes: {size} are too many")
    unmount(config, engine)
    serve(config, engine, mode)
    (config.home / AREA).write_text(json.dumps(size))
    for folder in (config.fuse, config.mount):
        folder.mkdir(exist_ok=True)
    # Of qemu-nbd: one block that cannot be read must not take all others with it.
    plain = {"LD_PRELOAD": PLAIN} if Path(PLAIN).exists() else {}
    daemons.start(config, FUSE, (FUSE, "-C", CONNECTIONS, config.shown, config.uri), plain)

    def is_shown() -> bool:
        if not daemons.alive(config, FUSE):
            tail = (config.log / f"{FUSE}.log").read_text(errors="replace")[-400:]
            raise StoreError(f"nbdfuse ended: {tail}")
        with contextlib.suppress(OSError):
            return config.shown.stat().st_size == config.volume_bytes
        return False

    daemons.until(is_shown, READY_S, "nbdfuse")
    device = disks.attach(config.shown, config.raw_bytes, size)
    daemons.run((*MKFS, device), timeout_s=120)
    daemons.run(("mount", "-t", "ext4", "-o", "noatime", device, config.mount))
    return {"mounted": str(config.mount), "uri": config.uri, "mode": mode, "device": str(device)}


def unmount(config: Config, engine: Any) -> dict[str, Any]:
    """Undo `mount` and `serve`, whatever is there of them, and give the file area's space back."""
    _umount(config)
    for device in disks.attached_devices(config.fuse):
        disks.detach(device)
    daemons.stop(config, FUSE)
    _umount_fuse(config)
    result: dict[str, Any] = {"given_back_B": 0}
    if (area := config.home / AREA).exists():
        size = int(json.loads(area.read_text()))
        try:
            _trim(config, engine, config.raw_bytes, size)
            area.unlink()
            result["given_back_B"] = size
        except StoreError as error:  # of a pool that is damaged: what is left of it has to end all the same
            result["not_given_back"] = str(error)
    engine.unserve(config)
    return result


def drop(config: Config, engine: Any) -> dict[str, Any]:
    """Make everything cold: what was written goes to the disks, then page cache and the engine's caches are emptied."""
    if is_mounted(config.mount):
        # Not sync(2): it would wait for file systems of nodes that are frozen.
        daemons.run(("sync", "-f", config.mount), timeout_s=120)
    if answers(config):
        with Client(config.endpoint) as client:
            client.flush()
    engine.drop(config)
    Path("/proc/sys/vm/drop_caches").write_text("3")
    return {}


def moved(config: Config) -> dict[str, int]:
    """Return the bytes that the device of the mounted file area has read and written so far; nothing without one."""
    found = disks.attached_devices(config.fuse)
    return disks.moved_bytes(found[0]) if found else {}


def is_mounted(point: Path) -> bool:
    """Tell whether something is mounted there."""
    return any(line.split()[1] == str(point) for line in Path("/proc/self/mounts").read_text().splitlines())


def end(config: Config) -> None:
    """Undo the mount and what is below it whatever state it is in: servers that are gone, or stuck."""
    if is_mounted(config.mount):
        daemons.end_users(config.mount)
    with contextlib.suppress(StoreError):
        daemons.kill(config, FUSE)
    _umount(config)
    for device in disks.attached_devices(config.fuse):
        disks.detach(device)
    _umount_fuse(config)


def _trim(config: Config, engine: Any, begin: int, size: int) -> None:
    if not answers(config):
        engine.unserve(config)
        serve(config, engine, "default")
    with Client(config.endpoint, timeout_s=120) as client:
        client.trim(begin, size)
        client.flush()


def _umount(config: Config) -> None:
    """Unmount the file area: what keeps it busy is ended, and what lies below it if that does not answer."""
    for wait_s, free in (
        (UNMOUNT_S, lambda: daemons.end_users(config.mount)),
        (BUSY_S, lambda: daemons.kill(config, FUSE)),  # without it every request ends in an error, and nothing waits
        (BUSY_S, lambda: daemons.run(("umount", "-l", config.mount))),
    ):
        if is_mounted(config.mount):
            with contextlib.suppress(StoreError):
                daemons.run(("umount", config.mount), timeout_s=wait_s)
        if is_mounted(config.mount):
            free()


def _umount_fuse(config: Config) -> None:
    for point in (config.shown, config.fuse):
        if is_mounted(point):
            daemons.run(("umount", "-l", point))


def answers(config: Config) -> bool:
    """Tell whether an NBD server answers where the volume is to be served."""
    try:
        with Client(config.endpoint, timeout_s=5):
            return True
    except StoreError:
        return False
