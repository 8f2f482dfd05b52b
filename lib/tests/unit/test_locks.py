"""Locks: whoever waits for one never gets that of a file or folder which was removed, or made anew, meanwhile."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest

from infrabench.core import InfrabenchError, LedgerError, locks, wait
from infrabench.core.locks import hold_lock
from infrabench.ledger import archive, ledger
from infrabench_platforms.lab import shell


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    folder.mkdir()
    with ledger.claimed(folder):
        yield


@contextmanager
def unpacked(folder: Path) -> Iterator[None]:
    packed = archive.write(folder.with_suffix(".tar.xz"), [archive.ArchiveMember("one/SHA256SUMS", b"")])
    with pytest.raises(LedgerError, match="damaged"):  # after the lock: it has no plan
        archive.unpack(packed, folder)
    yield


# How each lock is taken, the path below a state folder that is locked, and whether it is waited for without end.
EVERY: dict[str, tuple[Callable[[Path], AbstractContextManager[object]], str, bool]] = {
    "a session that is begun": (lambda state: claimed(state / "s"), "s", False),
    "a session that is not": (lambda state: ledger.claimed(state / "s"), f"{ledger.TMP}s", False),
    "the study of sessions": (lambda state: ledger.locked_parent(state / "study" / "s"), "study", True),
    "unpacked archives": (lambda state: unpacked(state / "recorded"), "recorded", True),
    "a campaign": (lambda state: hold_lock(state / "c" / ".lock", "taken", wait_s=0.0), "c/.lock", False),
    "the lab": (lambda state: shell.locked(), "lock", True),
    "the lab's only user": (lambda state: shell.in_use(), shell.USE, False),
}


def replace(path: Path) -> int:
    """Put another file, or folder, in the place of `path`, and return a descriptor that has locked it."""
    is_folder = path.is_dir()
    shutil.rmtree(path) if is_folder else path.unlink()
    path.mkdir() if is_folder else path.touch()
    descriptor = os.open(path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


@pytest.mark.parametrize("name", EVERY)
def test_a_lock_is_of_what_stands_there(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one waits for the lock, its holder ends and the file goes, and a third makes and locks another."""
    monkeypatch.setenv("INFRABENCH_STATE", str(tmp_path / "state"))
    state = shell.open_state_dir()
    take, locked, waits = EVERY[name]
    real, third, refused = fcntl.flock, ExitStack(), list[int]()

    def flock(descriptor: int, how: int) -> None:
        try:
            real(descriptor, how)
        except BlockingIOError:
            refused.append(descriptor)
            if waits:
                third.close()  # it ends, and who still waits may go on
            raise
        if how & fcntl.LOCK_EX and not replaced and locks.is_at(descriptor, state / locked):
            replaced.append(locked)
            third.callback(os.close, replace(state / locked))

    replaced = list[str]()
    monkeypatch.setattr(fcntl, "flock", flock)
    with third, ExitStack() as inside:
        if waits:
            inside.enter_context(take(state))
        else:
            with pytest.raises(InfrabenchError):
                inside.enter_context(take(state))
    assert replaced
    assert refused
    with take(state) if not (state / "s").exists() else ledger.claimed(state / "s"):
        pass


def test_who_ends_removes_no_claim_of_another(tmp_path: Path) -> None:
    """A session that was begun is removed by hand while its run goes on; the next run claims what is not there yet."""
    folder = tmp_path / "s"
    first, second = ExitStack(), ExitStack()
    first.enter_context(ledger.claimed(folder))
    place = folder.with_name(ledger.TMP + folder.name)
    os.rename(place, folder)
    shutil.rmtree(folder)
    with second:
        second.enter_context(ledger.claimed(folder))
        first.close()
        assert place.is_dir()
        with pytest.raises(LedgerError, match="is being written by another run"), ledger.claimed(folder):
            pass


def test_a_lock_file_that_goes_with_its_folder_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "c" / ".lock"
    with hold_lock(path, "taken"):
        shutil.rmtree(path.parent)
        with (
            hold_lock(path, "taken"),
            pytest.raises(InfrabenchError, match="taken"),
            hold_lock(path, "taken", wait_s=0.0),
        ):
            pass


def test_what_is_true_at_once_is_not_waited_for() -> None:
    assert wait.until(lambda: "there", wait_s=0.0, pause_s=60.0) == "there"


def test_the_last_answer_is_returned_when_nothing_comes() -> None:
    answers = iter([0, 0, 7])
    assert wait.until(lambda: next(answers), wait_s=60.0, pause_s=0.0) == 7
    assert wait.until(list, wait_s=0.0, pause_s=0.0) == []


def test_the_error_of_the_deadline_is_raised_and_no_other_is_retried() -> None:
    calls = list[int]()

    def fail() -> int:
        calls.append(1)
        if len(calls) < 3:
            raise OSError("not yet")
        return len(calls)

    assert wait.retry(fail, OSError, wait_s=60.0, pause_s=0.0) == 3
    with pytest.raises(ZeroDivisionError):
        wait.retry(lambda: 1 / 0, OSError, wait_s=60.0, pause_s=0.0)
    with pytest.raises(OSError, match="no file"):
        wait.retry(lambda: Path("/no file").read_text(), OSError, wait_s=-1.0, pause_s=60.0)
