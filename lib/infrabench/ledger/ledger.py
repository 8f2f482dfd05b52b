"""Durable writing: files and folders that are there whole or not at all, and the claim of a folder by one process."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from hashlib import sha256
from io import RawIOBase
from pathlib import Path

from infrabench.core import LedgerError, locks
from infrabench.ledger.files import SUMS, TMP, line

LOCK = TMP + "lock"  # in a session's folder while it is written to
GLANCE_S = 0.2  # somebody who only asks whether a session is being written holds its lock for a moment


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Be the only run of the session `folder`, which need not be there yet.

    A run claims its session before it makes anything ready: the next one would take that for leftovers and remove it.
    Raises `LedgerError` when another process has it. The claim of a process that was killed ends with it.
    """
    with ExitStack() as stack:
        while True:
            with locked_parent(folder), ExitStack() as attempt:
                # What is not there yet is claimed by the folder that is to become it.
                place = folder if folder.exists() else folder.with_name(TMP + folder.name)
                try:
                    place.mkdir(exist_ok=True)
                except OSError as error:
                    raise unwritable(folder, error) from error
                try:
                    descriptor = attempt.enter_context(locks.locked(place, wait_s=GLANCE_S))
                    attempt.enter_context(_locked_file(place, folder))
                    if place != folder and folder.exists():
                        continue  # on another machine it has become a session meanwhile
                except FileNotFoundError:
                    continue  # its holder has removed it, or renamed it to `folder`
                except BlockingIOError as error:
                    raise LedgerError(
                        f"{folder} is being written by another run; wait or name another session"
                    ) from error
                stack.push(attempt.pop_all())
                break
        try:
            yield
        finally:
            if place != folder and locks.is_at(descriptor, place):  # it never became a session
                for left in place.iterdir():
                    if left.name != LOCK:  # which goes last, with the folder
                        shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink()


@contextmanager
def _locked_file(place: Path, folder: Path) -> Iterator[None]:
    """Hold a lock that other machines see: on NFS a folder's is known to one machine alone, a file's to its server.

    The file is made in `place`, which may become `folder` meanwhile, and is removed in the end.
    """
    if not _is_free_or_plain(place / LOCK):
        raise LedgerError(f"{place / LOCK} is no plain file, and no session holds such a thing: remove it")
    try:
        descriptor = locks.take(place / LOCK, wait_s=GLANCE_S, create=True)
    except (FileNotFoundError, BlockingIOError):
        raise
    except OSError as error:
        raise unwritable(folder, error) from error
    try:
        yield
    finally:
        for path in (place / LOCK, folder / LOCK):
            if locks.is_at(descriptor, path):
                with suppress(OSError):
                    path.unlink()
                    if path.parent != folder:
                        path.parent.rmdir()
        os.close(descriptor)


def _is_free_or_plain(path: Path) -> bool:
    return not path.is_symlink() and (path.is_file() or not path.exists())


def is_being_written(folder: Path) -> bool:
    """Tell whether a process that lives, here or on a machine that shares the file system, writes to a session."""
    path = folder / LOCK
    return locks.is_locked(folder) or (_is_free_or_plain(path) and locks.is_locked(path))


def locked_parent(folder: Path) -> AbstractContextManager[int]:
    """Return a context in which no other process begins a session beside `folder`, whose parent is made."""

    def make() -> None:
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(folder, error) from error

    return locks.locked(folder.parent, make=make)


def replace_file(path: Path, data: bytes) -> None:
    """Write a file, in place of an earlier one, whole and on disk when this returns; `LedgerError` when it cannot."""
    temporary = path.with_name(TMP + path.name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(temporary, data)
        sync(temporary)
        os.rename(temporary, path)
        sync(path.parent)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise unwritable(path, error) from error


def replace_folder(final: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder of files with its own ``SHA256SUMS``, in place of an earlier one, on disk when this returns.

    A name may have one folder in it, ``provenance/HOST.json``. Killed at any moment, it leaves the earlier folder, the
    new one, or none: never a part of one with its sums. Raises `LedgerError` when it cannot be written.
    """
    earlier = final.with_name(f"{TMP}earlier-{final.name}")
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        for left in (earlier, final.with_name(TMP + final.name)):
            shutil.rmtree(left, ignore_errors=True)  # its maker was killed
        write_whole_folder(final, files, earlier)
        shutil.rmtree(earlier, ignore_errors=True)
    except OSError as error:
        raise unwritable(final, error) from error


def write_whole_folder(final: Path, files: Mapping[str, bytes], earlier: Path | None = None) -> bytes:
    """Write a folder under a temporary name, sync and rename it; return its sums. What is there goes to `earlier`."""
    sums = "".join(line(sha256(files[name]).hexdigest(), name) for name in sorted(files)).encode()
    temporary = final.with_name(TMP + final.name)
    try:
        inside = {name.partition("/")[0] for name in files if "/" in name}
        write_folder(temporary, {**files, SUMS: sums}, folders=sorted(inside))
        if earlier is not None and final.exists():
            _move_away(final, earlier)
        os.rename(temporary, final)
        sync(final.parent)
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return sums


def _move_away(folder: Path, earlier: Path) -> None:
    """Rename a folder, or remove it where it cannot be renamed: overlay renames no folder of a lower layer."""
    try:
        os.rename(folder, earlier)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        (folder / SUMS).unlink(missing_ok=True)  # first: half of a folder must not look like the whole
        shutil.rmtree(folder)


def write_folder(folder: Path, files: Mapping[str, bytes], folders: Sequence[str] = ()) -> None:
    """Write files into `folder` and make `folders` in it, all on disk when this returns."""
    folder.mkdir(exist_ok=True)
    for name in folders:
        (folder / name).mkdir()
    # All are written before any is synced: the first sync then carries most of the others with it.
    for name, data in files.items():
        write_file(folder / name, data)
    for name in (*files, *folders):
        sync(folder / name)
    sync(folder)


def write_file(path: Path, data: bytes) -> None:
    """Write a file, not yet synced."""
    with open(path, "wb", buffering=0) as file:
        _write_all(file, data)


def _write_all(file: RawIOBase, data: bytes) -> None:
    # A disk that is nearly full takes a part, and says so only of the next one.
    view = memoryview(data)
    while view:
        view = view[file.write(view) or 0 :]


def sync(path: Path) -> None:
    """Wait until a file, or the entries of a folder, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def append_sum(folder: Path, data: bytes, name: str) -> None:
    """Add the line of the file `name`, which holds `data`, to the ``SHA256SUMS`` of a folder."""
    # Not synced: a line that is lost with the machine's power is written again from the file it speaks of.
    with open(folder / SUMS, "ab", buffering=0) as file:
        before = file.seek(0, os.SEEK_END)
        try:
            _write_all(file, line(sha256(data).hexdigest(), name).encode())
        except OSError:
            file.truncate(before)  # half a line would spoil the next one
            raise


def unwritable(path: Path, error: OSError) -> LedgerError:
    """Return the error that says that `path` cannot be written, why, and how to go on."""
    return LedgerError(
        f"{path} cannot be written: {error.strerror}. What was recorded before is safe; "
        "free space or mend the disk, then run again to continue"
    )
