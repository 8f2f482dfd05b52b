"""A recorded session as one reproducible ``.tar.xz``: equal sessions give equal bytes.

An archive that is read may be anybody's: plain files of one session, in bounded time and memory. It is read once from
front to back, so that no header can lead back to an earlier one. What a header claims is never allocated: a file is
read from what was unpacked, and that is limited.
"""

from __future__ import annotations

import io
import lzma
import os
import shutil
import stat
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO, NamedTuple

from infrabench.core import LedgerError, locks
from infrabench.core.names import is_name
from infrabench.ledger.files import LARGEST, LARGEST_FILE, SUMS, TMP, list_files, read_file, read_sums
from infrabench.ledger.ledger import is_being_written
from infrabench.ledger.records import BLOCKS, SESSION, parse_session, unlisted, verify
from infrabench.ledger.session_folder import SessionFolder

MOST_MEMBERS = 1_000_000
LONGEST_HEADER = 64 * 2**10  # bytes of the names of one member
XZ_MEMORY = 128 * 2**20  # bytes; the highest preset needs 65 MiB
RATIO, SMALL = 1000, 256 * 2**20  # recorded sessions become 14 to 22 times as large; a small one may become SMALL
CHUNK = 2**16


class ArchiveMember(NamedTuple):
    """One file of an archive: its name, what it holds, whether it can be executed."""

    name: str
    data: bytes
    executable: bool = False


def pack(folder: Path, archive: Path) -> Path:
    """Write the session `folder` into `archive` and return it.

    Raises `LedgerError` when the session is damaged, holds a file that its sums do not name, or is being written, and
    when the archive would be such a file.
    """
    # Only its folder is followed: a link in place of the archive is replaced.
    if Path(os.path.realpath(archive.parent)).is_relative_to(os.path.realpath(folder)):
        raise LedgerError(f"{archive} would lie in the session: name another file")
    if is_being_written(folder):  # its sums would soon name what the archive lacks
        raise LedgerError(f"{folder} is being written by another run; wait until it has ended")
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
    temporary = archive.with_name(f"{TMP}{os.getpid()}-{archive.name}")  # another process may write the same archive
    try:
        with tarfile.open(temporary, "w:xz", preset=9, format=tarfile.PAX_FORMAT) as tar:
            for member in members:
                info = tarfile.TarInfo(member.name)
                info.size, info.mode, info.mtime = len(member.data), 0o755 if member.executable else 0o644, mtime_s
                tar.addfile(info, io.BytesIO(member.data))
        os.replace(temporary, archive)
    except OSError as error:
        raise LedgerError(f"{archive} cannot be written: {error.strerror}") from error
    finally:  # also of an interrupt, and of a member that cannot be read
        with suppress(OSError):
            temporary.unlink()
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
    """Return the ``session.json`` of a packed session, of which nothing else is unpacked or checked."""
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


def read_members(archive: Path) -> Iterator[tuple[str, str, IO[bytes]]]:
    """Yield the session's name, the name of a file inside it, and its content, for each file of an archive.

    Raises `LedgerError` for what no session has, and for more than any session has; what else damage leads to, here
    and in reading the content, `refuse_damage` turns into one.
    """
    with archive.open("rb") as packed:
        limit = min(LARGEST, max(SMALL, RATIO * os.fstat(packed.fileno()).st_size))
        unpacked = _Unpacked(packed, limit, archive)
        session = ""
        with tarfile.open(str(archive), fileobj=unpacked, mode="r|", tarinfo=_Header) as tar:  # type: ignore[arg-type]
            for _ in range(MOST_MEMBERS):
                member = tar.next()
                if member is None:
                    while unpacked.read(CHUNK):  # up to the stream's own check
                        pass
                    return
                tar.members.clear()  # of a million members, none is looked at twice
                if member.isdir():
                    continue
                name, file = _place(archive, member)
                if session not in ("", name):
                    raise LedgerError(f"{archive} is not one session: it holds the folders {session} and {name}")
                session = name
                source = tar.extractfile(member)
                assert source is not None  # it is a plain file
                yield name, file, source
        raise LedgerError(f"{archive} holds more than {MOST_MEMBERS} files; it is not unpacked")


@contextmanager
def refuse_damage(archive: Path) -> Iterator[None]:
    """Turn whatever a damaged or hostile archive leads to into a `LedgerError`."""
    try:
        if not stat.S_ISREG(archive.stat().st_mode):
            raise LedgerError(f"{archive} is no plain file; it is not unpacked")
        yield
    except (tarfile.TarError, lzma.LZMAError, EOFError, OSError, ValueError, RecursionError, KeyError) as error:
        raise LedgerError(f"{archive} cannot be unpacked: {error}") from error


class _Header(tarfile.TarInfo):
    """A header that refuses what no session has before anything that it claims is read."""

    def _proc_member(self, tarfile_: tarfile.TarFile) -> tarfile.TarInfo:
        plain = self.type in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE)
        names = self.type in (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME)
        if not (plain or names) or not 0 <= self.size <= (LONGEST_HEADER if names else LARGEST_FILE):
            raise LedgerError(
                f"{tarfile_.fileobj.name}: {self.name[:60]!r} is no plain file of a session; it is not unpacked"  # type: ignore[union-attr]
            )
        return super()._proc_member(tarfile_)  # type: ignore[misc]


class _Unpacked(io.RawIOBase):
    """What an xz stream holds, up to a limit."""

    def __init__(self, packed: BinaryIO, limit: int, archive: Path) -> None:
        self.name = str(archive)
        self._packed, self._left = packed, limit
        self._xz = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._xz.eof:
            chunk = self._packed.read(CHUNK) if self._xz.needs_input else b""
            if self._xz.needs_input and not chunk:
                raise EOFError("it is cut off")
            data = self._xz.decompress(chunk, len(buffer))
            if data:
                self._left -= len(data)
                if self._left < 0:
                    raise LedgerError(f"{self.name} becomes larger than any session of its size; it is not unpacked")
                buffer[: len(data)] = data
                return len(data)
        return 0


def _place(archive: Path, member: tarfile.TarInfo) -> tuple[str, str]:
    """Return the name of the session, and that of the file inside it; `LedgerError` for what no session has."""
    parts = PurePosixPath(member.name).parts
    inside = parts[1:]
    fits = len(inside) in (1, 2) or (len(inside) == 3 and inside[0] == "trials")  # that a sum names it is checked later
    odd = any(part == ".." or part.startswith(TMP) or not part.isprintable() for part in parts)
    if not fits or odd or not is_name(parts[0]) or member.sparse is not None or not 0 <= member.size <= LARGEST_FILE:
        raise LedgerError(f"{archive} holds {member.name[:200]!r}, which no session has; it is not unpacked")
    return parts[0], "/".join(inside)
