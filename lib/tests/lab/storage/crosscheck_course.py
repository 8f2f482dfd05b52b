"""What is done inside the guests of the cross-check: ``python3 - COURSE [WORD...]``, one JSON object on stdout.

The guest of `zfs-vm` has the store's program already, and a kernel with OpenZFS's module; that of `ceph-vm` is brought
`krbd` beside this. Standard library alone.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import subprocess
import sys
import time
from typing import Any

sys.path.insert(0, "/opt/infrabench/store")
MIB = 2**20
DATA = 48 * MIB


def life(_path: str) -> dict[str, Any]:
    """A pool on two disks of the guest's own: served, lost a disk, rebuilt, damaged in one copy and in both, gone."""
    from dataclasses import asdict

    from node import disks, main, zfs_kernel
    from node.config import GIB, Config

    config = Config("zfs_kernel", "course", GIB, GIB, cache_bytes=GIB // 4)
    before = _parameters(zfs_kernel)
    main.create(config, zfs_kernel)
    main.VERBS["serve"](config, zfs_kernel, "strict")
    written = _write(config)
    told: dict[str, Any] = {"facts": main.facts(config, zfs_kernel), "usage": main.usage(config, zfs_kernel)}
    zfs_kernel.drop(config)
    told["intact"] = [_sum(config) == written]
    told["lost"] = zfs_kernel.fail(config, 1)
    told["degraded"] = zfs_kernel.state(config)["clean"]
    told["intact"].append(_sum(config) == written)
    zfs_kernel.replace(config, 1)
    deadline = time.monotonic() + 120
    while not (state := zfs_kernel.state(config))["clean"] and time.monotonic() < deadline:
        time.sleep(0.2)
    told |= {"rebuilt": state, "light": zfs_kernel.scrub(config, "light"), "whole": zfs_kernel.scrub(config, "deep")}
    told["one"] = _damaged(config, (1,), (8, 24))
    told["again"] = zfs_kernel.scrub(config, "deep")
    zfs_kernel.drop(config)
    told["intact"].append(_sum(config) == written)
    told["both"] = _damaged(config, (0, 1), (8, 24))
    told["readable"] = _readable(config)
    told["config"] = asdict(config)
    main.destroy(config, zfs_kernel)
    told["left"] = [zfs_kernel.pool(config)] if zfs_kernel.pool(config) in _pools() else []
    told["left"] += [str(each) for each in disks.attached_devices(config.home)]
    told["parameters"] = _parameters(zfs_kernel) == before
    return told


def mapped(monitor: str, key: str, pool: str, image: str, other: str) -> dict[str, Any]:
    """The image as a device of this kernel: what is written through it is read through `other`, librbd's."""
    from node import krbd

    number = krbd.add(monitor, key, pool, image)
    device, data = f"/dev/rbd{number}", os.urandom(4 * MIB)
    _direct(device, data, 64 * MIB)
    size = int(subprocess.run(["blockdev", "--getsize64", device], capture_output=True, check=True).stdout)
    krbd.remove(number)
    fd = os.open(other, os.O_RDONLY | os.O_DIRECT)
    buffer = mmap.mmap(-1, len(data))
    os.preadv(fd, [buffer], 64 * MIB)
    os.close(fd)
    return {"size": size, "same": buffer[:] == data, "left": sorted(krbd.numbers())}


def _write(config: Any) -> str:
    from node.nbd import Client

    data = os.urandom(DATA)
    with Client(config.socket) as client:
        for start in range(0, DATA, MIB):
            client.write(start, data[start : start + MIB])
        client.flush()
    return hashlib.sha256(data).hexdigest()


def _sum(config: Any) -> str:
    from node import zfs_kernel

    with open(zfs_kernel.device(config), "rb") as device:
        os.posix_fadvise(device.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return hashlib.sha256(device.read(DATA)).hexdigest()


def _damaged(config: Any, hit: tuple[int, ...], where_mib: tuple[int, ...]) -> dict[str, Any]:
    """Write garbage over the same blocks of the volume on these disks, and return what a scrub says of it."""
    from node import damage, disks, zfs_kernel

    with open(zfs_kernel.device(config), "rb") as device:
        places = []
        for at in where_mib:
            device.seek(at * MIB)
            places.append(damage.FileBlock(str(at), at * MIB, device.read(damage.BLOCK)))
    zfs_kernel.drop(config)
    count = 0
    for disk in hit:
        for offsets in damage.locate_blocks(disks.file(config, disk), places).values():
            for offset in offsets:
                _direct(str(disks.device(config, disk)), os.urandom(damage.BLOCK), offset)
                count += 1
    zfs_kernel.drop(config)
    return {"hit": count, "scrub": zfs_kernel.scrub(config, "deep")}


def _readable(config: Any) -> bool:
    try:
        _sum(config)
    except OSError:
        return False
    return True


def _direct(device: str, data: bytes, offset: int) -> None:
    buffer = mmap.mmap(-1, len(data))
    buffer.write(data)
    fd = os.open(device, os.O_WRONLY | os.O_DIRECT)
    try:
        os.pwrite(fd, buffer, offset)
        os.fsync(fd)
    finally:
        os.close(fd)


def _parameters(module: Any) -> dict[str, str]:
    module.load()
    names = ("zfs_arc_max", "zfs_dirty_data_max", *module.THROTTLE["default"])
    return {name: (module.PARAMETERS / name).read_text() for name in names}


def _pools() -> list[str]:
    told = subprocess.run(["zpool", "list", "-Ho", "name"], capture_output=True, text=True, check=True)
    return told.stdout.split()


if __name__ == "__main__":
    sys.stdout.write(json.dumps({"life": life, "mapped": mapped}[sys.argv[1]](*sys.argv[2:])) + "\n")
