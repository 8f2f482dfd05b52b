"""OpenZFS's module in this kernel: is it there, its parameters (changed, and put back again), its threads."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path

from . import daemons
from .config import Config, StoreError

DEVICE = Path("/dev/zfs")
PARAMETERS = Path("/sys/module/zfs/parameters")
DYNAMIC = Path("/sys/module/spl/parameters/spl_taskq_thread_dynamic")
LOAD_S = 60.0
BEFORE = "parameters.json"  # in the home: what parameters were before they were changed
# Beginnings of names of its threads; the second are of queues whose threads may come and go.
STAYING = ("z_null", "z_rd", "z_wr", "z_fr", "z_cl", "z_ioctl", "z_trim", "txg_", "dp_sync", "arc_evict", "dbu_evict")
COMING = ("zvol", "dp_zil", "spl_", "arc_prune", "arc_reap", "z_metaslab", "z_upgrade", "z_zrele", "z_prefetch")
# Requests of scrub and resilver in flight to a disk; how much they make way for others; bytes in flight: see zfs(4).
THROTTLE = {
    "default": {
        "zfs_vdev_scrub_min_active": 1, "zfs_vdev_scrub_max_active": 3, "zfs_vdev_nia_credit": 5,
        "zfs_vdev_nia_delay": 5, "zfs_scan_vdev_limit": 4 << 20,
    },
    "open": {
        "zfs_vdev_scrub_min_active": 10, "zfs_vdev_scrub_max_active": 10, "zfs_vdev_nia_credit": 10,
        "zfs_vdev_nia_delay": 0, "zfs_scan_vdev_limit": 16 << 20,
    },
}  # fmt: skip


def load() -> None:
    """Load the module unless it is there; `StoreError` where this kernel has none."""
    if is_loaded():
        return
    # Threads that stay, where we may choose: the CPU time of one that is gone cannot be read any more.
    with contextlib.suppress(StoreError):
        daemons.run(("modprobe", "spl", "spl_taskq_thread_dynamic=0"), timeout_s=LOAD_S)
    with contextlib.suppress(StoreError):
        daemons.run(("modprobe", "zfs"), timeout_s=LOAD_S)
    if not is_loaded():
        raise StoreError("the kernel has no ZFS module, or it cannot be loaded here: there is no /dev/zfs")


def is_loaded() -> bool:
    """Tell whether the module is there; its device alone may be there without it, to load it when it is opened."""
    return PARAMETERS.exists() and DEVICE.exists()


def version() -> str:
    """Return the version of the module that is loaded."""
    return (PARAMETERS.parent / "version").read_text().strip()


def tune(config: Config, values: Mapping[str, int]) -> None:
    """Set parameters, remembering what they were; they are those of the whole machine."""
    kept = config.home / BEFORE
    before = json.loads(kept.read_text()) if kept.exists() else {}
    before |= {name: (PARAMETERS / name).read_text().strip() for name in values if name not in before}
    kept.write_text(json.dumps(before))
    for name, value in values.items():
        (PARAMETERS / name).write_text(str(value))


def untune(config: Config) -> None:
    """Put parameters back as they were before `tune`."""
    kept = config.home / BEFORE
    if kept.exists() and PARAMETERS.exists():
        for name, value in json.loads(kept.read_text()).items():
            with contextlib.suppress(OSError):  # 0 stands for what the module chose by itself; some take it only then
                (PARAMETERS / name).write_text(value)
        kept.unlink()


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
