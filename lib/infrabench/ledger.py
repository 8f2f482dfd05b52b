"""The append-only store of one session: a folder that is right at every moment, also when its writer is killed.

A trial is written to ``trials/.tmp-ID`` with its own ``SHA256SUMS``, synced and renamed: it is there whole or not at
all. One line in the session's ``SHA256SUMS`` follows. So after a kill there can be, and only be: a temporary folder
(never counted, removed by the next writer), a whole trial that is not listed yet (proved by its own sums, then
listed), and a last line without its newline (dropped). Everything else that does not fit is damage: `LedgerError`
names the file and nothing is repaired by guessing.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from io import RawIOBase
from pathlib import Path
from typing import Any

from infrabench.core import LedgerError, Trial, TrialRecord, canonical
from infrabench.records import (
    BLOCKS,
    EXTRA,
    PLAN,
    SESSION,
    TMP,
    block_file,
    read_bytes,
    read_session,
    recorded,
    unlisted,
    verify,
)
from infrabench.sums import SUMS, line, read_sums

GLANCE_S = 0.2  # somebody who only asks whether a session is being written holds its lock for a moment


@contextmanager
def opened(folder: Path, session: Mapping[str, Any], trials: Sequence[Trial]) -> Iterator[frozenset[str]]:
    """Claim the session `folder` and begin it; yields the ids of the trials it holds. See `claimed` and `begin`."""
    with claimed(folder):
        yield begin(folder, session, trials)


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Be the only run of the session `folder`, which need not be there yet.

    A run claims its session before it makes anything ready: the next one would take that for leftovers and remove it.
    Raises `LedgerError` when another process has it. The claim of a process that was killed ends with it.
    """
    _make_parents(folder)
    with ExitStack() as stack:
        with _locked(folder.parent, wait=True):
            # What is not there yet is claimed by the folder that is to become it.
            place = folder if folder.exists() else folder.with_name(TMP + folder.name)
            try:
                place.mkdir(exist_ok=True)
            except OSError as error:
                raise _unwritable(folder, error) from error
            stack.enter_context(_locked(place, wait=False))
        try:
            yield
        finally:
            if place != folder:
                shutil.rmtree(place, ignore_errors=True)  # it never became a session


def begin(folder: Path, session: Mapping[str, Any], trials: Sequence[Trial]) -> frozenset[str]:
    """Create the claimed session `folder`, or go on with it, and return the ids of the trials it holds.

    Raises
    ------
    LedgerError
        A file is damaged, it was made with other parameters or another plan, or it cannot be written.
    """
    if not folder.exists():
        with _locked(folder.parent, wait=True):
            _create(folder, session, trials)
    check_parameters(folder, session["parameters"])
    if read_bytes(folder / PLAN) != _plan_bytes(trials):
        raise LedgerError(f"{folder / PLAN} is not the plan that the same parameters give now; use a new session")
    try:
        return recover(folder)
    except OSError as error:
        raise _unwritable(folder, error) from error


def is_being_written(folder: Path) -> bool:
    """Tell whether a process that lives writes to the session `folder`; a writer that begins just now is let through.

    The lock of a dead process is gone with it.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)  # which unlocks it
    return False


def check_parameters(folder: Path, parameters: Mapping[str, Any]) -> None:
    """Return when the session in `folder` has these parameters; else `LedgerError` naming the ones that differ."""
    stored = read_session(folder)["parameters"]
    wanted = json.loads(canonical(parameters))
    differing = sorted(key for key in {*stored, *wanted} if stored.get(key) != wanted.get(key))
    if differing:
        shown = "; ".join(f"{key}: recorded {stored.get(key)!r}, asked {wanted.get(key)!r}" for key in differing)
        raise LedgerError(f"{folder} was made with other parameters ({shown}); name another session or use these")


def write_trial(folder: Path, record: TrialRecord, blobs: Mapping[str, bytes]) -> None:
    """Store a finished trial and its raw files, on disk and whole when this returns.

    Raises `LedgerError` when it cannot be written (a full disk, mostly); nothing half-written counts then.
    """
    files = dict(blobs) | {"trial.json": canonical(record.as_json()).encode() + b"\n"}
    final = folder / "trials" / record.trial.id
    if final.exists():
        raise LedgerError(f"{final} is already recorded; a session never writes a trial twice")
    try:
        _append(folder, _whole(final, files), f"trials/{final.name}/{SUMS}")
    except OSError as error:
        raise _unwritable(final, error) from error


def replace_file(path: Path, data: bytes) -> None:
    """Write a file, in place of an earlier one, whole and on disk when this returns; `LedgerError` when it cannot."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace_file(path, data)
    except OSError as error:
        raise _unwritable(path, error) from error


def replace_folder(final: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder of files with its own ``SHA256SUMS``, in place of an earlier one, on disk when this returns.

    A name may have one folder in it, ``provenance/HOST.json``. Killed at any moment, it leaves the earlier folder, the
    new one, or none: never a part of one. Raises `LedgerError` when it cannot be written.
    """
    earlier = final.with_name(f"{TMP}earlier-{final.name}")
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        for left in (earlier, final.with_name(TMP + final.name)):
            shutil.rmtree(left, ignore_errors=True)  # its maker was killed
        _whole(final, files, earlier)
        shutil.rmtree(earlier, ignore_errors=True)
    except OSError as error:
        raise _unwritable(final, error) from error


def add_file(folder: Path, name: str, data: bytes) -> None:
    """Add a file such as ``provenance/HOST.json`` to the session; a name is written once and never again."""
    path = folder / name
    if path.exists():
        raise LedgerError(f"{path} is already recorded; a session only grows")
    try:
        path.parent.mkdir(exist_ok=True)
        _replace_file(path, data)
        _append(folder, data, name)
    except OSError as error:
        raise _unwritable(path, error) from error


def add_block(folder: Path, trials: Sequence[Trial]) -> None:
    """Add a block to the plan of a session: one more look was due, or another block was discarded."""
    add_file(folder, block_file(trials[0].block, EXTRA), _plan_bytes(trials))


def say_of_block(folder: Path, block: int, what: str, data: Mapping[str, Any]) -> None:
    """Store what there is to say about a block (`records.DISCARDED`, ``LOOK``, ``PROBE``); earlier words stay."""
    number = len(list((folder / BLOCKS).glob(f"{block:05d}-{what}*")))
    text = json.dumps({"block": block, **data}, sort_keys=True) + "\n"
    add_file(folder, block_file(block, what, number), text.encode())


def recover(folder: Path) -> frozenset[str]:
    """Remove what a killed writer left, list what it did not list, and return the ids of the finished trials.

    Only the holder of the session's lock may call it. Raises `LedgerError` naming every damaged file first.
    """
    found = verify(folder)
    if found:
        raise LedgerError(f"{folder} is damaged and is not continued: {'; '.join(found[:5])}. Restore it from a copy")
    for leftover in [path for sub in ("trials", "provenance", BLOCKS) for path in folder.glob(f"{sub}/{TMP}*")]:
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
    listed, torn = read_sums(folder / SUMS)
    if torn:
        whole = "".join(line(value, name) for name, value in listed.items()).encode()
        _write_file(folder / (TMP + SUMS), whole)
        _sync(folder / (TMP + SUMS))
        os.rename(folder / (TMP + SUMS), folder / SUMS)
    for name in unlisted(folder, listed):
        _append(folder, read_bytes(folder / name), name)
    return recorded(folder)


def settle(folder: Path) -> None:
    """List what the writer of a session that is complete did not list, being killed just before it would have.

    A folder that cannot be written, or that another has, stays as it is: it is sound in any case.
    """
    listed, torn = read_sums(folder / SUMS)
    if torn or unlisted(folder, listed):
        with suppress(LedgerError, OSError), claimed(folder):
            recover(folder)


def _create(folder: Path, session: Mapping[str, Any], trials: Sequence[Trial]) -> None:
    temporary = folder.with_name(TMP + folder.name)
    try:
        for left in temporary.iterdir():  # its maker was killed
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        files = {SESSION: (json.dumps(session, indent=1, sort_keys=True) + "\n").encode(), PLAN: _plan_bytes(trials)}
        sums = "".join(line(sha256(data).hexdigest(), name) for name, data in sorted(files.items()))
        _write_folder(temporary, {**files, SUMS: sums.encode()}, folders=("trials", "provenance", BLOCKS))
        os.rename(temporary, folder)
        _sync(folder.parent)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise _unwritable(folder, error) from error


def _plan_bytes(trials: Sequence[Trial]) -> bytes:
    return "".join(canonical(trial.as_json()) + "\n" for trial in trials).encode()


def _replace_file(path: Path, data: bytes) -> None:
    temporary = path.with_name(TMP + path.name)
    try:
        _write_file(temporary, data)
        _sync(temporary)
        os.rename(temporary, path)
        _sync(path.parent)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _whole(final: Path, files: Mapping[str, bytes], earlier: Path | None = None) -> bytes:
    """Write a folder under a temporary name, sync and rename it; return its sums. What is there goes to `earlier`."""
    sums = "".join(line(sha256(files[name]).hexdigest(), name) for name in sorted(files)).encode()
    temporary = final.with_name(TMP + final.name)
    try:
        inside = {name.partition("/")[0] for name in files if "/" in name}
        _write_folder(temporary, {**files, SUMS: sums}, folders=sorted(inside))
        if earlier is not None and final.exists():
            os.rename(final, earlier)
        os.rename(temporary, final)
        _sync(final.parent)
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return sums


def _write_folder(folder: Path, files: Mapping[str, bytes], folders: Sequence[str] = ()) -> None:
    folder.mkdir(exist_ok=True)
    for name in folders:
        (folder / name).mkdir()
    # All are written before any is synced: the first sync then carries most of the others with it.
    for name, data in files.items():
        _write_file(folder / name, data)
    for name in files:
        _sync(folder / name)
    _sync(folder)


def _write_file(path: Path, data: bytes) -> None:
    with open(path, "wb", buffering=0) as file:
        _write_all(file, data)


def _write_all(file: RawIOBase, data: bytes) -> None:
    # A disk that is nearly full takes a part, and says so only of the next one.
    view = memoryview(data)
    while view:
        view = view[file.write(view) or 0 :]


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _append(folder: Path, data: bytes, name: str) -> None:
    # Not synced: a line that is lost with the machine's power is written again from the file it speaks of.
    with open(folder / SUMS, "ab", buffering=0) as file:
        before = file.seek(0, os.SEEK_END)
        try:
            _write_all(file, line(sha256(data).hexdigest(), name).encode())
        except OSError:
            file.truncate(before)  # half a line would spoil the next one
            raise


def _make_parents(folder: Path) -> None:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from error


def _unwritable(path: Path, error: OSError) -> LedgerError:
    return LedgerError(
        f"{path} cannot be written: {error.strerror}. What was recorded before is safe; "
        "free space or mend the disk, then run again to continue"
    )


@contextmanager
def _locked(folder: Path, *, wait: bool) -> Iterator[None]:
    # The folder itself is locked: no lock file can be left behind.
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        deadline = time.monotonic() + GLANCE_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
                break
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    named = folder.with_name(folder.name.removeprefix(TMP))
                    told = f"{named} is being written by another run; wait or name another session"
                    raise LedgerError(told) from error
                time.sleep(GLANCE_S / 10)
        yield
    finally:
        os.close(descriptor)
