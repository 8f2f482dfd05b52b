"""A recorded session as one reproducible ``.tar.xz``: equal sessions give equal bytes."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from infrabench.core import LedgerError
from infrabench.records import BLOCKS, SESSION, TMP, read_bytes, verify
from infrabench.sums import SUMS

LARGEST = 4 * 2**30  # bytes after unpacking: more is not a session but an accident


class Member(NamedTuple):
    """One file of an archive: its name, what it holds, whether it can be executed."""

    name: str
    data: bytes
    executable: bool = False


def pack(folder: Path, archive: Path) -> Path:
    """Write the session `folder` into `archive` and return it; `LedgerError` when the session is damaged."""
    found = verify(folder)
    if found:
        raise LedgerError(f"{folder} is damaged and is not packed: {found[0]}")
    name = folder.resolve().name
    paths = [path for path in folder.rglob("*") if not any(part.startswith(TMP) for part in path.parts)]
    # Files of one kind lie side by side: that alone makes the archive much smaller.
    ordered = sorted((p for p in paths if p.is_file()), key=lambda p: (p.name, p.as_posix()))
    return write(archive, (Member(f"{name}/{p.relative_to(folder).as_posix()}", read_bytes(p)) for p in ordered))


def write(archive: Path, members: Iterable[Member], mtime_s: int = 0) -> Path:
    """Write files into a ``.tar.xz`` in this order and return it: equal members and time give equal bytes.

    No owner is in it, and one time for all. Raises `LedgerError` when it cannot be written; no half of it stays.
    """
    archive.parent.mkdir(parents=True, exist_ok=True)
    temporary = archive.with_name(TMP + archive.name)
    try:
        with tarfile.open(temporary, "w:xz", preset=9, format=tarfile.PAX_FORMAT) as tar:
            for member in members:
                info = tarfile.TarInfo(member.name)
                info.size, info.mode, info.mtime = len(member.data), 0o755 if member.executable else 0o644, mtime_s
                tar.addfile(info, io.BytesIO(member.data))
        os.replace(temporary, archive)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise LedgerError(f"{archive} cannot be written: {error.strerror}") from error
    return archive


def unpack(archive: Path, destination: Path) -> Path:
    """Unpack a session below `destination` and return its folder, checked; one that is there already is checked only.

    Raises `LedgerError` for anything but plain files inside one folder, and for a session that is damaged.
    """
    try:
        with tarfile.open(archive, "r:xz") as tar:
            members = [member for member in tar.getmembers() if not member.isdir()]
            name = _only_folder(archive, members)
            folder = destination / name
            if not folder.exists():
                _extract(tar, members, destination, name)
            packed = tar.extractfile(f"{name}/{SUMS}")
            if packed is None or packed.read() != read_bytes(folder / SUMS):
                raise LedgerError(f"{folder} is not the session that {archive} holds; move it away to unpack this one")
    except (tarfile.TarError, EOFError, OSError, KeyError) as error:
        raise LedgerError(f"{archive} cannot be unpacked: {error}") from error
    found = verify(folder)
    if found:
        raise LedgerError(f"{folder} (from {archive}) is damaged: {found[0]}")
    return folder


def peek(archive: Path) -> bytes:
    """Return the ``session.json`` of a packed session without unpacking it, nor checking the rest.

    `LedgerError` when there is none.
    """
    try:
        with tarfile.open(archive, "r|xz") as tar:
            for member in tar:
                source = tar.extractfile(member) if PurePosixPath(member.name).name == SESSION else None
                if source is not None:
                    return source.read()
    except (tarfile.TarError, EOFError, OSError) as error:
        raise LedgerError(f"{archive} cannot be read: {error}") from error
    raise LedgerError(f"{archive} holds no {SESSION}: it is no packed session")


def _only_folder(archive: Path, members: list[tarfile.TarInfo]) -> str:
    for member in members:
        parts = PurePosixPath(member.name).parts
        if not member.isreg() or len(parts) < 2 or parts[0].startswith((".", "/")) or ".." in parts:
            raise LedgerError(f"{archive} holds {member.name!r}, which no session has; it is not unpacked")
    tops = {PurePosixPath(member.name).parts[0] for member in members}
    if len(tops) != 1 or sum(member.size for member in members) > LARGEST:
        raise LedgerError(f"{archive} is not one session: it holds {len(tops)} folders")
    return tops.pop()


def _extract(tar: tarfile.TarFile, members: list[tarfile.TarInfo], destination: Path, name: str) -> None:
    temporary = destination / (TMP + name)
    shutil.rmtree(temporary, ignore_errors=True)
    for member in members:
        source = tar.extractfile(member)
        path = temporary.joinpath(*PurePosixPath(member.name).parts[1:])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source.read() if source else b"")
    for empty in ("trials", "provenance", BLOCKS):
        (temporary / empty).mkdir(exist_ok=True)
    os.rename(temporary, destination / name)
