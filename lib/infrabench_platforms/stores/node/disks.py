"""The two disks of a store: sparse backing files and loop devices with direct I/O over them.

Loop devices belong to the machine, not to the container: one is ours when its backing file is one of our home's.
Source: loop(4), linux/loop.h.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import struct
import time
from pathlib import Path

from .config import HOMES, SHOWN, Config, StoreError

CONTROL = "/dev/loop-control"
SYS = Path("/sys/block")
GET_FREE, CONFIGURE, CLEAR, STATUS = 0x4C82, 0x4C0A, 0x4C01, 0x4C05
MAJOR, DIRECT_IO = 7, 16
INFO = struct.Struct("=QQQQQIIII64s64s32sQQ")  # loop_info64
TRIES, CLEAR_S = 20, 10.0
NAME_LENGTH = 63  # of a backing file, in what the kernel keeps


def folder(config: Config) -> Path:
    """Return where the backing files lie."""
    return config.home / "disks"


def file(config: Config, disk: int) -> Path:
    """Return the backing file of disk 0 or 1."""
    return folder(config) / f"disk{disk}.img"


def make(config: Config, disk: int) -> Path:
    """Make disk 0 or 1 anew and empty, and return its loop device; what there was of it goes."""
    remove(config, disk)
    path = file(config, disk)
    path.parent.mkdir(exist_ok=True)
    with open(path, "wb") as disk_file:
        disk_file.truncate(config.disk_bytes)
    return attach(path)


def remove(config: Config, disk: int) -> None:
    """Detach and delete disk 0 or 1, if it is there."""
    for device in attached_devices(file(config, disk)):
        detach(device)
    file(config, disk).unlink(missing_ok=True)


def device(config: Config, disk: int) -> Path:
    """Return the loop device of disk 0 or 1; `StoreError` when there is none."""
    found = attached_devices(file(config, disk))
    if len(found) != 1:
        raise StoreError(f"disk {disk} has {len(found)} loop devices, not one")
    return found[0]


def allocated_bytes(config: Config) -> int:
    """Return the bytes that the backing files take on the disk below."""
    return sum(os.stat(path).st_blocks * 512 for path in folder(config).glob("*.img"))


def moved_bytes(device: Path) -> dict[str, int]:
    """Return the bytes that a block device has read and written so far (see the kernel's block/stat)."""
    fields = (SYS / device.name / "stat").read_text().split()
    return {"read_B": int(fields[2]) * 512, "written_B": int(fields[6]) * 512}


def attach(path: Path, offset: int = 0, size: int = 0) -> Path:
    """Return a new loop device, with direct I/O, over `path` or a part of it; `StoreError` where that cannot be had."""
    if len(str(path)) > NAME_LENGTH:
        raise StoreError(f"{path}: longer than {NAME_LENGTH} characters, it would not be found again")
    with open(path, "r+b", buffering=0) as backing:
        for _ in range(TRIES):
            try:
                with open(CONTROL, "r+b", buffering=0) as control:
                    number = fcntl.ioctl(control, GET_FREE)
            except OSError as error:
                raise StoreError(f"no loop devices here: {error}") from error
            info = INFO.pack(0, 0, 0, offset, size, 0, 0, 0, DIRECT_IO, str(path).encode(), b"", b"", 0, 0)
            with open(_node(number), "r+b", buffering=0) as loop:
                try:
                    fcntl.ioctl(loop, CONFIGURE, struct.pack("=II", backing.fileno(), 0) + info + bytes(64))
                except OSError as error:
                    if error.errno == errno.EBUSY:  # another has taken it meanwhile
                        continue
                    raise StoreError(f"{path}: no loop device with direct I/O over it: {error}") from error
            if (SYS / f"loop{number}/loop/dio").read_text().strip() != "1":
                detach(_node(number))
                raise StoreError(f"{path}: the loop device over it has no direct I/O")
            return _node(number)
    raise StoreError(f"{path}: no free loop device in {TRIES} tries")


def attached_devices(below: Path) -> list[Path]:
    """Return our loop devices over the file `below`, or over any file below that folder, also deleted ones."""
    return [
        node
        for node, path, inode in named_devices(str(below))
        if (path == below or below in path.parents) and is_here(path, inode) is not False
    ]


def named_devices(begin: str) -> list[tuple[Path, Path, int]]:
    """Return device, backing file and its inode number of all loop devices of the machine over files named so.

    The name is the one that was given when the device was made: the kernel's own changes when a mount goes.
    """
    found = []
    for entry in sorted(SYS.glob("loop*/loop/backing_file")):
        device = _node(int(entry.parts[-3].removeprefix("loop")))
        with contextlib.suppress(OSError):  # it may go away while we look
            path, inode = _backing(device, entry)
            if str(path).startswith(begin):
                found.append((device, path, inode))
    return found


def _backing(device: Path, entry: Path) -> tuple[Path, int]:
    """Return the name that the backing file of a loop device was given by, and its inode number (0: not known)."""
    with open(device, "rb", buffering=0) as loop:
        try:
            fields = INFO.unpack(fcntl.ioctl(loop, STATUS, bytes(INFO.size)))
        except OSError:
            # The file system below is gone, and with it all of the name but its end. One of ours tells the rest.
            name = Path(entry.read_text().strip()).name
            if not name.startswith(SHOWN):
                raise
            return HOMES / name.removeprefix(SHOWN) / "fuse" / name, 0
    return Path(fields[9].rstrip(b"\0").decode("utf-8", "replace")), fields[1]


def is_here(path: Path, inode: int) -> bool | None:
    """Tell whether a backing file is the one of that name here; None when there is none (deleted, its mount gone)."""
    try:
        return path.stat().st_ino == inode
    except OSError:
        return None


def detach(device: Path) -> None:
    """Detach a loop device, and return when it is free; `StoreError` when something goes on holding it."""
    deadline = time.monotonic() + CLEAR_S
    backing = SYS / device.name / "loop/backing_file"
    with open(device, "r+b", buffering=0) as loop, contextlib.suppress(OSError):  # ENXIO: it is free already
        fcntl.ioctl(loop, CLEAR)
    while backing.exists():
        if time.monotonic() > deadline:
            raise StoreError(f"{device} is still in use")
        time.sleep(0.02)


def _node(number: int) -> Path:
    """Return the device file of a loop device; a container has none of those that were made after it."""
    path = Path(f"/dev/loop{number}")
    if not path.exists():
        with contextlib.suppress(FileExistsError):
            os.mknod(path, stat.S_IFBLK | 0o660, os.makedev(MAJOR, number))
    return path
