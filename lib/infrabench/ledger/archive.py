"""A recorded session as one reproducible ``.tar.xz``: equal sessions give equal bytes."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from infrabench.core import LedgerError, locks
from infrabench.ledger.archive_members import read_members, refuse_damage
from infrabench.ledger.checksums import SUMS, read_sums
from infrabench.ledger.files import TMP, list_files, read_file
from infrabench.ledger.records import BLOCKS, SESSION, parse_session, unlisted, verify
from infrabench.ledger.session_folder import SessionFolder


class ArchiveMember(NamedTuple):
    """One file of an archive: its name, what it holds, whether it can be executed."""

    name: str
    data: bytes
    executable: bool = False


def pack(folder: Path, archive: Path) -> Path:
    """Write the session `folder` into `archive` and return it.

    Raises `LedgerError` when the session is damaged, or holds a file that its sums do not name.
    """
    SessionFolder(folder).finalize()
    found = [*verify(folder), *_unproved(folder)]
    if found:
        raise LedgerError(f"{folder} is damaged and is not packed: {found[0]}")
    name, names = folder.resolve().name, list_files(folder)[0]
    # Files of one kind lie side by side: that alone makes the archive much smaller.
    ordered = sorted(names, key=lambda each: (PurePosixPath(each).name, f"{name}/{each}"))
    return write(archive, (ArchiveMember(f"{name}/{each}", read_file(folder, each)) for each in ordered))


def write(archive: Path, members: Iterable[ArchiveMember], mtime_s: int = 0) -> Path:
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

    Raises `LedgerError` for anything but the plain files of one session, each named by a sum, for more than any session
    holds, and for a session that is damaged; nothing of it stays.
    """
    name, sums = _find_member(archive, SUMS)
    folder = destination / name
    if not folder.exists():
        with locks.locked(destination, make=lambda: destination.mkdir(parents=True, exist_ok=True)):
            if not folder.exists():  # another process may have unpacked it meanwhile
                _extract(archive, destination, name)
                return folder
    if sums != read_file(folder, SUMS):
        raise LedgerError(f"{folder} is not the session that {archive} holds; move it away to unpack this one")
    found = verify(folder)
    if found:
        raise LedgerError(f"{folder} (from {archive}) is damaged: {found[0]}")
    return folder


def peek(archive: Path) -> dict[str, Any]:
    """Return the ``session.json`` of a packed session without unpacking it, nor checking the rest.

    `LedgerError` when there is none.
    """
    name, content = _find_member(archive, SESSION)
    return parse_session(archive / name / SESSION, content)


def _find_member(archive: Path, wanted: str) -> tuple[str, bytes]:
    """Return the name of the session in `archive`, and the content of its file `wanted`."""
    with refuse_damage(archive), closing(read_members(archive)) as members:
        for name, file, source in members:
            if file == wanted:
                return name, source.read()
    raise LedgerError(f"{archive} holds no {wanted}: it is no packed session")


def _extract(archive: Path, destination: Path, name: str) -> None:
    """Unpack and check under a temporary name, so that what is damaged or foreign never has the session's."""
    temporary = destination / (TMP + name)
    shutil.rmtree(temporary, ignore_errors=True)  # its maker was killed
    try:
        for part in ("trials", "provenance", BLOCKS):
            (temporary / part).mkdir(parents=True)
        with refuse_damage(archive), closing(read_members(archive)) as members:
            for _, file, source in members:
                path = temporary / file
                path.parent.mkdir(exist_ok=True)
                with path.open("xb") as copy:
                    shutil.copyfileobj(source, copy)
        found = [*verify(temporary), *_unproved(temporary)]
        if found:
            fault = found[0].replace(str(temporary), str(destination / name))
            raise LedgerError(f"{archive} is damaged and is not unpacked: {fault}")
        os.rename(temporary, destination / name)
    except OSError as error:
        raise LedgerError(f"{archive} cannot be unpacked below {destination}: {error.strerror}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _unproved(folder: Path) -> list[str]:
    """Return a sentence for each file that is in no list of sums; a trial has a list of its own."""
    sums, _ = read_sums(folder / SUMS, [])
    names = [name for name in unlisted(folder, sums) if not name.startswith("trials/")]
    return [f"{folder} holds {name}, which its {SUMS} does not name" for name in names]
