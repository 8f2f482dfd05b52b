"""The engine `zfs_kernel`: OpenZFS's module in the kernel, by `zpool` and `zfs`: a mirror of the two disks, and a zvol.

The zvol is a block device (`device`), and is served over NBD by qemu-nbd, past the page cache, for the path that all
engines have. Pools of others are never touched: ours has a name of its own and says whose it is in a property. The
module's parameters are those of the whole machine: what is changed is put back again.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import block, daemons, damage, disks, zpool
from .config import Config, StoreError
from .nbd import listen_options
from .zpool import BLOCK_BYTES, DIRTY, POLL_S, SCRUB_S, SEEN_S, SYNC

SERVER = "qemu-nbd"
OWNER = "infrabench:store"
COMMAND_S, FREE_S = 120.0, 20.0
LEAST_CACHE = 64 << 20  # the module takes no less
DEVICE = Path("/dev/zfs")
PARAMETERS = Path("/sys/module/zfs/parameters")
ARC_STATS = Path("/proc/spl/kstat/zfs/arcstats")
ARC, ARC_CHOSEN = "zfs_arc_max", "c_max"
DYNAMIC = Path("/sys/module/spl/parameters/spl_taskq_thread_dynamic")
LOAD_S = 60.0
BEFORE = "parameters.json"  # in the home: what parameters were before they were changed
# Beginnings of names of its threads; the second are of queues whose threads may come and go.
STAYING = ("z_null", "z_rd", "z_wr", "z_fr", "z_cl", "z_ioctl", "z_trim", "txg_", "dp_sync", "arc_evict", "dbu_evict")
COMING = ("zvol", "dp_zil", "spl_", "arc_prune", "arc_reap", "z_metaslab", "z_upgrade", "z_zrele", "z_prefetch")
# Requests of scrub and resilver in flight to a disk; how much they make way for others; bytes in flight: see zfs(4).
# The last is what a module of 2.1.12 or newer has by itself; `choose_brakes` gives an older one its own.
THROTTLE = {
    "default": {
        "zfs_vdev_scrub_min_active": 1, "zfs_vdev_scrub_max_active": 3, "zfs_vdev_nia_credit": 5,
        "zfs_vdev_nia_delay": 5, "zfs_scan_vdev_limit": 16 << 20,
    },
    "open": {
        "zfs_vdev_scrub_min_active": 10, "zfs_vdev_scrub_max_active": 10, "zfs_vdev_nia_credit": 10,
        "zfs_vdev_nia_delay": 0, "zfs_scan_vdev_limit": 16 << 20,
    },
}  # fmt: skip


def create(config: Config) -> None:
    """Make the pool and its volume; return when the volume's device is there."""
    load()
    tune(config, {
        "zfs_arc_max": config.cache_bytes, "zfs_dirty_data_max": config.memory_bytes * DIRTY // 100,
        **choose_brakes("default"),
    })  # fmt: skip
    two = [str(disks.device(config, disk)) for disk in range(config.copies)]
    run(
        "zpool", "create", "-o", "ashift=12", "-o", "cachefile=none", "-o", "autotrim=on", "-O", "mountpoint=none",
        "-O", "canmount=off", "-O", "compression=off", "-O", f"{OWNER}={config.name}", pool(config), "mirror", *two,
    )  # fmt: skip
    run("zfs", "create", "-s", "-b", str(BLOCK_BYTES), "-V", str(config.volume_bytes), _volume(config))
    daemons.until(device(config).exists, SEEN_S, "the volume's device")


def destroy(config: Config) -> None:
    """Destroy the pool, if it is there and ours; module parameters are put back."""
    with contextlib.suppress(StoreError):
        daemons.kill(config, SERVER)
    if is_loaded() and _is_imported(config):
        run("zpool", "destroy", "-f", pool(config))
    untune(config)


def serve(config: Config, mode: str) -> None:
    """Serve the volume over NBD; the mode is the volume's, so it holds for its device too."""
    _import_pool(config)
    run("zfs", "set", f"sync={SYNC[mode]}", _volume(config))
    if daemons.alive(config, SERVER):
        return
    config.socket.unlink(missing_ok=True)
    how = ("-t", "-e", "16", "-f", "raw", "--cache=none", "--aio=native", "--discard=unmap")
    daemons.start(config, SERVER, (SERVER, *how, *listen_options(config, "-b", "-k"), device(config)))


def unserve(config: Config) -> None:
    """End the server; the pool stays."""
    daemons.stop(config, SERVER)
    config.socket.unlink(missing_ok=True)


def device(config: Config) -> Path:
    """Return the volume's block device."""
    return Path("/dev/zvol") / _volume(config)


def pids(config: Config) -> dict[str, dict[str, int]]:
    """Return the module's threads, of all pools of the machine, as the storage system; qemu-nbd is its client."""
    return {**daemons.pids(config, (), (SERVER,)), "storage": threads()}


def used(config: Config) -> int:
    """Return the bytes that the mirror has allocated, which is one copy, metadata included."""
    return int(run("zpool", "list", "-Hpo", "allocated", pool(config)))


def drop(config: Config) -> None:
    """Empty the ARC: by exporting the pool and importing it, or, while its files are mounted, by letting it shrink."""
    if block.is_mounted(config.mount):
        run("zpool", "sync", pool(config))
        tune(config, {ARC: LEAST_CACHE})
        Path("/proc/sys/vm/drop_caches").write_text("3")
        daemons.until(lambda: int(_read_arc("size")) < 2 * LEAST_CACHE, FREE_S, "an empty ARC")
        tune(config, {ARC: config.cache_bytes})
        return
    served = daemons.alive(config, SERVER)
    unserve(config)
    _export(config)
    _import_pool(config)
    if served:
        mode = run("zfs", "get", "-Hpo", "value", "sync", _volume(config)).strip()
        serve(config, {sync: mode for mode, sync in SYNC.items()}[mode])
        daemons.until(lambda: block.answers(config), SEEN_S, "the NBD server")


def throttle(config: Config, level: str) -> None:
    """Let scrub and resilver make way for other requests (``default``), or not (``open``)."""
    tune(config, choose_brakes(level))


def fail(config: Config, disk: int) -> dict[str, Any]:
    """Take a disk offline for good, wait until the pool calls itself degraded, and delete it."""
    path = str(disks.device(config, disk))
    at_s, begun = time.time(), time.monotonic()
    run("zpool", "offline", pool(config), path)
    daemons.until(lambda: _status(config)["state"] == "DEGRADED", SEEN_S, "a degraded pool")
    noticed_s = time.monotonic() - begun
    disks.remove(config, disk)
    return {"failed": path, "lost_s": at_s, "noticed_s": noticed_s}


def replace(config: Config, disk: int) -> dict[str, Any]:
    """Put a new disk in the place of the lost one; return when its resilver has begun."""
    lost = zpool.find_lost_disks(pool(config))
    if len(lost) != 1 or disks.attached_devices(disks.file(config, disk)):
        raise StoreError(f"disk {disk} was not lost: there is nothing to replace")
    begun, path = time.monotonic(), disks.make(config, disk)
    run("zpool", "replace", "-f", pool(config), lost[0], str(path))
    return {"replaced": str(path), "up_s": time.monotonic() - begun}


def state(config: Config) -> dict[str, Any]:
    """Return whether both disks have everything, and what the resilver has copied and has left, see `zpool`."""
    return zpool.progress(_status(config), config.copies)


def corrupt(config: Config, copies: str) -> dict[str, Any]:
    """Damage blocks of files on disk 1, or the same blocks on both."""
    run("zpool", "sync", pool(config))
    return damage.damage_files(config, (1,) if copies == "one" else (0, 1))


def scrub(config: Config, kind: str) -> dict[str, Any]:
    """Scrub the pool: every copy of every block is read, checked, and mended from another where it is wrong."""
    if kind == "light":
        return {"kind": kind, "supported": False}
    before, held = zpool.checksum_errors(_status(config)), used(config)
    run("zpool", "scrub", "-w", pool(config), timeout_s=SCRUB_S)
    status = _status(config)
    scan = status["scan"]
    if not scan or scan["kind"] != "scrub" or scan["runs"]:
        raise StoreError(f"the scrub did not come to its end: {scan}")
    found, lost = zpool.checksum_errors(status) - before, scan["errors"]
    # What no copy answers is asked for again, and counted again: then only bytes tell what was mended.
    mended = -(-scan["done_B"] // BLOCK_BYTES) if lost else found
    return {
        "kind": kind, "examined_B": held, "errors": found, "unrecoverable": lost, "repaired": mended,
        "repaired_B": scan["done_B"], "raw": status["raw"],
    }  # fmt: skip


def repair(config: Config) -> dict[str, Any]:
    """Scrub once more: a scrub mends what it finds, there is no repair besides."""
    return {**scrub(config, "deep"), "kind": "repair"}


def facts(config: Config) -> dict[str, Any]:
    """Return which engine this is and what pool and volume say of themselves."""
    properties = ("volsize", "volblocksize", "compression", "sync", "checksum")
    table = run("zfs", "get", "-Hpo", "property,value", ",".join(properties), _volume(config))
    volume = dict(line.split("\t") for line in table.splitlines())
    return {
        "engine": f"OpenZFS {version()}, the kernel's module, zvol",
        "version": version(),
        "pool": {
            "layout": zpool.LAYOUT, "copies": config.copies,
            "volume_bytes": int(volume["volsize"]), "block_bytes": int(volume["volblocksize"]),
            "compression": volume["compression"], "cache_bytes": config.cache_bytes, "autotrim": "on",
            "dirty_bytes": config.memory_bytes * DIRTY // 100,
            "sync": zpool.SYNC_EFFECT,
            "drop": "the pool exported and imported; while files are mounted: ARC shrunk as far as it goes",
            **zpool.THROTTLE_EFFECT,
            "cpu_counted": "all threads of the module" if counts_all() else
            "threads of the module that stay, not those of queues whose threads come and go",
        },
    }  # fmt: skip


def evidence(config: Config) -> str:
    """Return the pool's state, if it answers, and the ends of the logs."""
    parts = []
    for words in (("zpool", "status", "-pPv", pool(config)), ("zpool", "events")):
        with contextlib.suppress(StoreError):
            parts += [f"# {' '.join(words)}", *daemons.run(words, timeout_s=15).splitlines()[-60:]]
    return "\n".join([*parts, daemons.log_ends(config)])


def run(*argv: str, timeout_s: float = COMMAND_S) -> str:
    """Return what a command says, such as `zpool` or `zfs`; `StoreError` when it refuses."""
    return daemons.run(argv, timeout_s=timeout_s)


def pool(config: Config) -> str:
    """Return the name of the store's pool."""
    return f"infrabench-{config.name}"


def _volume(config: Config) -> str:
    return f"{pool(config)}/volume"


def _status(config: Config) -> dict[str, Any]:
    return zpool.status(pool(config))


def _is_imported(config: Config) -> bool:
    """Tell whether the pool is imported; `StoreError` when one of its name is somebody else's."""
    if pool(config) not in run("zpool", "list", "-Ho", "name").split():
        return False
    owner = run("zfs", "get", "-Ho", "value", OWNER, pool(config)).strip()
    if owner != config.name:
        raise StoreError(f"the pool {pool(config)} does not carry our label: it is not touched")
    return True


def _import_pool(config: Config) -> None:
    if _is_imported(config):
        return
    where = [word for disk in range(config.copies) for word in ("-d", str(disks.device(config, disk)))]
    run("zpool", "import", "-N", "-o", "cachefile=none", *where, pool(config))
    daemons.until(device(config).exists, SEEN_S, "the volume's device")


def _export(config: Config) -> None:
    deadline = time.monotonic() + FREE_S
    while True:
        try:
            run("zpool", "export", pool(config))
            return
        except StoreError:  # something looks into the volume's device, as udev does when it is closed
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_S)


def load() -> None:
    """Load the module unless it is there; `StoreError` where this kernel has none."""
    if is_loaded():
        return
    # Threads that stay, where we may choose: the CPU time of one that is gone cannot be read any more.
    with contextlib.suppress(StoreError):
        run("modprobe", "spl", "spl_taskq_thread_dynamic=0", timeout_s=LOAD_S)
    with contextlib.suppress(StoreError):
        run("modprobe", "zfs", timeout_s=LOAD_S)
    if not is_loaded():
        raise StoreError("the kernel has no ZFS module, or it cannot be loaded here: there is no /dev/zfs")


def is_loaded() -> bool:
    """Tell whether the module is there; its device alone may be there without it, to load it when it is opened."""
    return PARAMETERS.exists() and DEVICE.exists()


def version() -> str:
    """Return the version of the module that is loaded."""
    return (PARAMETERS.parent / "version").read_text().strip()


def choose_brakes(level: str) -> dict[str, int]:
    """Return the parameters of a throttle, for the module that is loaded."""
    release = tuple(int(number) for number in version().split("-")[0].split(".")[:3])
    own_limit = {"zfs_scan_vdev_limit": 4 << 20} if level == "default" and release < (2, 1, 12) else {}
    return THROTTLE[level] | own_limit


def tune(config: Config, values: Mapping[str, int]) -> None:
    """Set parameters, remembering what they were; they are those of the whole machine."""
    kept = config.home / BEFORE
    before = json.loads(kept.read_text()) if kept.exists() else {}
    if ARC in values and ARC not in before:
        before[ARC_CHOSEN] = _read_arc(ARC_CHOSEN)
    before |= {name: (PARAMETERS / name).read_text().strip() for name in values if name not in before}
    kept.write_text(json.dumps(before))
    for name, value in values.items():
        (PARAMETERS / name).write_text(str(value))


def untune(config: Config) -> None:
    """Put parameters back as they were before `tune`."""
    kept = config.home / BEFORE
    if kept.exists() and PARAMETERS.exists():
        before = json.loads(kept.read_text())
        # A 0 for what the module chooses by itself is taken, and changes nothing: first what it had chosen.
        chosen = {ARC: size} if (size := before.pop(ARC_CHOSEN, "")) and before[ARC] == "0" else {}
        for name, value in (*chosen.items(), *before.items()):
            with contextlib.suppress(OSError):
                (PARAMETERS / name).write_text(value)
        kept.unlink()


def _read_arc(name: str) -> str:
    """Return what the module says of its cache, in bytes: such as its `size` now; nothing where it does not tell."""
    rows = [line.split() for line in ARC_STATS.read_text().splitlines()] if ARC_STATS.exists() else []
    return next((row[2] for row in rows if row[:1] == [name]), "")


def threads() -> dict[str, int]:
    """Return the module's threads by name and pid; without those that come and go, where there are such."""
    wanted = (*STAYING, *COMING) if counts_all() else STAYING
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                name = (entry / "comm").read_text().strip()
                if name.startswith(wanted) and not (entry / "cmdline").read_bytes():
                    found[f"{name}-{entry.name}"] = int(entry.name)
    return found


def counts_all() -> bool:
    """Tell whether all threads stay, so that all of their CPU time is counted."""
    return DYNAMIC.exists() and DYNAMIC.read_text().strip() == "0"
