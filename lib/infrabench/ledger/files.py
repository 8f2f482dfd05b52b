"""Reading inside a session's folder: plain files alone, of bounded size, and never through a link; and lists of sums.

A session may be a stranger's. What its folder holds is opened here and nowhere else: a link, a pipe or a device in it
would otherwise lead to a file of this user's, to bytes without end, or to a wait for ever.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from infrabench.core import LedgerError

TMP = ".tmp-"  # what is being written: never counted
DEEPEST = 3  # trials/ID/FILE
LARGEST_FILE = 128 * 2**20  # bytes: a tool's output is cut off at 64 MiB
LARGEST = 4 * 2**30  # bytes of a whole session
# Bytes of one JSON text: parsed, it takes up to 25 times as much memory. Those of recorded sessions have some thousand.
LARGEST_DOCUMENT = 8 * 2**20
SUMS = "SHA256SUMS"  # in the format of ``sha256sum --check``
_LINE = re.compile(r"([0-9a-f]{64})  ([^\x00\n]+)")


def read_file(folder: Path, name: str) -> bytes:
    """Return the bytes of the file `name` inside `folder`, as ``provenance/HOST.json``.

    Raises `LedgerError` naming it when it cannot be read: it is not there, is no plain file or lies behind a link, is
    outside, or is larger than any file of a session.
    """

    def opener(_path: str, _flags: int) -> int:
        return _open(folder, name)

    try:
        with open(f"{folder}/{name}", "rb", buffering=0, opener=opener) as file:
            if os.fstat(file.fileno()).st_size > LARGEST_FILE:
                why_not = f"is larger than any file of a session, {LARGEST_FILE} bytes; it is not read"
                raise LedgerError(f"{folder / name} {why_not}")
            return file.readall()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise LedgerError(f"{folder / name} cannot be read: {why}; restore it from a copy") from error


def read_bytes(path: Path) -> bytes:
    """Return the bytes of `path`, which is no link; `LedgerError` as of `read_file`."""
    return read_file(path.parent, path.name)


def list_files(folder: Path) -> tuple[list[str], list[str]]:
    """Return the names of a session's files, not of those being written, and sentences about what no session has."""
    names, foreign, total = list[str](), list[str](), 0
    waiting = [""]
    while waiting:
        inside = waiting.pop()
        try:
            entries = list(os.scandir(folder / inside))
        except OSError as error:
            raise LedgerError(f"{folder / inside} is not a session folder: {error.strerror}") from error
        for entry in entries:
            path = f"{inside}/{entry.name}" if inside else entry.name
            if entry.name.startswith(TMP):
                continue
            if entry.is_dir(follow_symlinks=False) and path.count("/") + 1 < DEEPEST:
                waiting.append(path)
            elif entry.is_file(follow_symlinks=False):
                names.append(path)
                total += entry.stat(follow_symlinks=False).st_size
            else:
                foreign.append(f"{folder / path} is no plain file (a link, a pipe, a device or a folder)")
    if total > LARGEST:
        foreign.append(f"{folder} holds {total} bytes, more than any session")
    return sorted(names), sorted(foreign)


def _open(folder: Path, name: str) -> int:
    """Return a descriptor of the plain file `name` below `folder`, which itself may be a link."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if not parts or name.startswith("/") or ".." in parts:
        raise OSError(0, "it is outside the folder")
    holder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=holder)
            holder, outer = inner, holder
            os.close(outer)
        # Looked at before it is opened: to open a device may do something.
        if not stat.S_ISREG(os.stat(parts[-1], dir_fd=holder, follow_symlinks=False).st_mode):
            raise OSError(0, "it is no plain file (a link, a pipe, a device or a folder)")
        return os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=holder)
    finally:
        os.close(holder)


def line(value: str, name: str) -> str:
    """Return the line of one file in a list of sums."""
    return f"{value}  {name}\n"


def read_sums(path: Path, damaged: list[str] | None = None) -> tuple[dict[str, str], bool]:
    """Return the sums by file name, and whether the last line was torn (written without its newline, and left out).

    A line that is not one of ``sha256sum`` is added to `damaged`, in a sentence; without such a list it is a
    `LedgerError`, as is a file that is named twice.
    """
    return parse_sums(path, read_bytes(path), damaged)


def parse_sums(path: Path, content: bytes, damaged: list[str] | None = None) -> tuple[dict[str, str], bool]:
    """Return what the bytes of a file of sums say, as `read_sums` does; errors name `path`."""
    lines = content.decode("utf-8", "replace").split("\n")
    torn = lines.pop() != ""
    found: dict[str, str] = {}
    for number, text in enumerate(lines, start=1):
        match = _LINE.fullmatch(text)
        if match is not None and match[2] not in found:
            found[match[2]] = match[1]
            continue
        problem = f"{path}, line {number}: {'named twice' if match else 'not a sum'}: {text[:100]!r}"
        if match is not None or damaged is None:
            raise LedgerError(problem)
        damaged.append(problem)
    return found, torn
