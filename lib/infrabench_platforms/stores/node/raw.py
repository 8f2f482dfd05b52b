"""The engine `raw`: one disk without a storage system, served by nbdkit. What the others cost is seen beside it.

The volume is the disk's own sparse file. Its page cache is what caches, within the memory limit of the server. There
is no second copy: whatever is about a lost disk or damage cannot be done.
"""

from __future__ import annotations

from typing import Any, NoReturn

from . import daemons, disks
from .config import Config, StoreError
from .nbd import listen_options

SERVER = "nbdkit"
DISK = 0
THREADS = "32"  # requests of one connection at a time
# Every write is followed by a flush where nothing may be confirmed before the disk has it.
FILTERS = {"default": ((), ()), "strict": (("--filter=fua",), ("fuamode=force",))}
NO_COPY = "a disk without a storage system has no second copy"


def create(config: Config) -> None:
    """Make the disk as large as the volume."""
    disks.remove(config, DISK)
    path = disks.file(config, DISK)
    with open(path, "wb") as file:
        file.truncate(config.volume_bytes)
    disks.attach(path)


def destroy(config: Config) -> None:
    """End the server."""
    unserve(config)


def serve(config: Config, mode: str) -> None:
    """Serve the disk; writes are confirmed from the page cache (``default``), or after a flush (``strict``)."""
    if daemons.serves(config, SERVER, mode):
        return
    unserve(config)
    filters, settings = FILTERS[mode]
    daemons.start(config, SERVER, (
        SERVER, "-f", "-t", THREADS, *listen_options(config, "-i", "-U"), *filters, "file",
        disks.device(config, DISK), *settings,
    ))  # fmt: skip
    config.mode.write_text(mode)


def unserve(config: Config) -> None:
    """End the server; it writes what it holds first."""
    daemons.stop(config, SERVER)
    config.socket.unlink(missing_ok=True)  # nbdkit takes none that is there


def pids(config: Config) -> dict[str, dict[str, int]]:
    """Return the server: of a disk as it is, serving is all there is."""
    return daemons.pids(config, (SERVER,))


def used(config: Config) -> int:
    """Return the bytes that the disk's file takes."""
    return disks.allocated_bytes(config)


def drop(config: Config) -> None:
    """Write what the page cache holds of the disk, and empty it."""
    daemons.run(("blockdev", "--flushbufs", disks.device(config, DISK)))


def state(config: Config) -> dict[str, Any]:
    """Return that all is there: nothing is ever copied."""
    disks.device(config, DISK)
    return {"clean": True, "copied_B": 0, "left_B": 0, "detail": {}}


def throttle(config: Config, level: str) -> None:
    """Do nothing: there is no rebuild that it could hold back."""


def _refuse(*_: Any) -> NoReturn:
    raise StoreError(NO_COPY)


fail = replace = corrupt = scrub = repair = _refuse
evidence = daemons.log_ends


def facts(config: Config) -> dict[str, Any]:
    """Return which server this is and what the disk is."""
    version = daemons.run((SERVER, "--version")).split()[-1]
    return {
        "engine": f"a disk without a storage system, served over NBD by nbdkit {version}",
        "version": version,
        "cache_bytes": config.memory_bytes,  # its page cache, up to the limit of all
        "pool": {
            "layout": "one disk, its own size", "copies": 1, "volume_bytes": config.volume_bytes,
            "sync": "default: confirmed from the page cache; strict: each write is flushed",
            "drop": "the page cache of the disk, all written",
        },
    }  # fmt: skip
