"""Silent damage of what files hold: blocks of them are found on the disks by their content, and overwritten there.

So only data is hit, no matter how the engine lays it out, as long as it stores blocks as they are (incompressible ones,
aligned to `BLOCK`). What is written goes to the disk itself, behind the engine's back.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import disks
from .config import Config, StoreError

BLOCK = 4096
KEY = 32  # bytes of a block that it is looked for by
CHUNK = 8 * 2**20
# Files that are damaged, by the number of copies: a request that no copy answers takes long to fail.
MOST = {1: 8, 2: 2}
TRIES = 8  # blocks of a file, of which one is damaged


@dataclass(frozen=True)
class FileBlock:
    """A block of a file, and its content."""

    file: str
    offset: int
    content: bytes


def choose_blocks(folder: Path, most: int) -> list[FileBlock]:
    """Return blocks of up to `most` files below `folder`, `TRIES` of each, spread over its length."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size >= TRIES * BLOCK)
    if not files:
        raise StoreError(f"{folder} holds no files to damage")
    found: dict[bytes, FileBlock] = {}
    for number in range(min(most, len(files))):
        path = files[number * len(files) // min(most, len(files))]
        with open(path, "rb") as file:
            for offset in range(0, path.stat().st_size // BLOCK * BLOCK, path.stat().st_size // TRIES // BLOCK * BLOCK):
                file.seek(offset)
                content = file.read(BLOCK)
                if len(content) == BLOCK and len(set(content)) > BLOCK // 32:  # no zeros, no text
                    found[content[:KEY]] = FileBlock(str(path.relative_to(folder)), offset, content)
    if not found:
        raise StoreError(f"{folder} holds nothing but compressible data: its blocks cannot be told on a disk")
    return list(found.values())


def locate_blocks(backing: Path, places: Sequence[FileBlock]) -> dict[FileBlock, list[int]]:
    """Return where on a disk each place is; those that are nowhere are left out."""
    wanted = {place.content[:KEY]: place for place in places}
    where: dict[FileBlock, list[int]] = {}
    for start, data in _read_data(backing):
        view = memoryview(data)
        for at in range(0, len(data) - BLOCK + 1, BLOCK):
            place = wanted.get(bytes(view[at : at + KEY]))
            if place is not None and view[at : at + BLOCK] == place.content:
                where.setdefault(place, []).append(start + at)
    return where


def damage_files(config: Config, hit: Sequence[int]) -> dict[str, object]:
    """Damage one block of each of some files, the same on the disks `hit`; all caches must be empty.

    Only blocks that are on every disk, and there once: another one of the same content would not be the file's.
    `StoreError` when there is none.
    """
    places = choose_blocks(config.mount, MOST[len(hit)])
    where = {disk: locate_blocks(disks.file(config, disk), places) for disk in range(config.copies)}
    good = [place for place in places if all(len(each.get(place, ())) == 1 for each in where.values())]
    taken = {place.file: place for place in reversed(good)}
    if not taken:
        raise StoreError(f"none of {len(places)} blocks of files is on every disk, once and as it is in the file")
    for disk in hit:
        _overwrite(disks.device(config, disk), [where[disk][place][0] for place in taken.values()])
    size = len(taken) * len(hit) * BLOCK
    return {"bytes": size, "places": len(taken), "disks": list(hit), "files": sorted(taken)}


def _read_data(backing: Path) -> Iterator[tuple[int, bytes]]:
    """Yield position and content of what a sparse file holds, in chunks that begin at multiples of a block."""
    fd = os.open(backing, os.O_RDONLY)
    try:
        end = position = 0
        size = os.fstat(fd).st_size
        while position < size:
            try:
                begin = os.lseek(fd, position, os.SEEK_DATA)
            except OSError:  # nothing but a hole is left
                return
            end = os.lseek(fd, begin, os.SEEK_HOLE)
            for start in range(begin // BLOCK * BLOCK, end, CHUNK):
                data = os.pread(fd, min(CHUNK, end - start), start)
                os.posix_fadvise(fd, start, len(data), os.POSIX_FADV_DONTNEED)
                yield start, data
            position = end
    finally:
        os.close(fd)


def _overwrite(device: Path, offsets: Sequence[int]) -> None:
    """Write random bytes over blocks of a device, past the page cache."""
    with mmap.mmap(-1, BLOCK) as buffer:
        fd = os.open(device, os.O_WRONLY | os.O_DIRECT | os.O_SYNC)
        try:
            for offset in offsets:
                buffer[:] = os.urandom(BLOCK)
                os.pwrite(fd, buffer, offset)
        finally:
            os.close(fd)
