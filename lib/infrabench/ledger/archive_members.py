"""Reading an archive that anybody may have made: plain files of one session, in bounded time and memory.

The archive is read once from front to back, so that no header can lead back to an earlier one. What a header claims is
never allocated: a file is read from what was unpacked, and that is limited.
"""

from __future__ import annotations

import io
import lzma
import os
import stat
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO

from infrabench.core import LedgerError
from infrabench.core.names import is_name
from infrabench.ledger.files import LARGEST, LARGEST_FILE, TMP

MOST_MEMBERS = 1_000_000
LONGEST_HEADER = 64 * 2**10  # bytes of the names of one member
XZ_MEMORY = 128 * 2**20  # bytes; the highest preset needs 65 MiB
RATIO, SMALL = 1000, 256 * 2**20  # recorded sessions become 14 to 22 times as large; a small one may become SMALL
CHUNK = 2**16


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
