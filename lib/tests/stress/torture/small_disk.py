"""A small real file system: ext4 on a loop device, which this machine's root may mount."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOT_ROOT = "not run: mounting a file system needs root"


@contextmanager
def small_disk(home: Path, size_bytes: int) -> Iterator[Path]:
    """Yield a folder on a new file system of that size; both are gone afterwards."""
    image, place = home / "disk.img", home / "disk"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(size_bytes)
    subprocess.run(("mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", image), check=True, timeout=60)
    subprocess.run(("mount", "-o", "loop", image, place), check=True, timeout=60)
    try:
        yield place
    finally:
        subprocess.run(("umount", "--lazy", place), check=True, timeout=60)
        image.unlink()


def fill(place: Path, leave_bytes: int) -> Path:
    """Fill a file system until `leave_bytes` are left, and return the file that does it."""
    filler = place / "filler"
    left = os.statvfs(place)
    size = left.f_bavail * left.f_frsize - leave_bytes
    with filler.open("ab") as file:
        while True:
            try:
                os.posix_fallocate(file.fileno(), 0, max(size, 1))
                return filler
            except OSError:  # of a file in many pieces, the list of them needs room too
                size -= left.f_frsize
                if size <= 0:
                    raise


def read_only(place: Path, yes: bool) -> None:
    """Mount it so that nobody can write to it, or as before."""
    subprocess.run(("mount", "-o", f"remount,{'ro' if yes else 'rw'}", place), check=True, timeout=60)
