"""Folders on file systems that lack what local ones have: locks, hard links, a rename over what is open."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from infrabench.core import LedgerError, LockError, SiteError, locks
from infrabench.core.locks import hold_lock, wait_until_free
from infrabench.ledger import ledger
from infrabench_platforms.lab import shell

REFUSED = r"cannot be locked: .*Its file system has no locks.*INFRABENCH_HOME"


@pytest.fixture(params=[errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EIO], ids=errno.errorcode.get)
def no_locks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: Any, operation: int) -> None:
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(fcntl, "flock", refuse)


@pytest.mark.usefixtures("no_locks")
def test_where_nothing_can_be_locked_nothing_is_begun_and_sessions_are_listed(tmp_path: Path) -> None:
    folder = tmp_path / "runs/containers/one"
    holds = ledger.claimed(folder), locks.locked(tmp_path), hold_lock(tmp_path / "lock", "somebody has it")
    for hold in holds:
        with pytest.raises(LockError, match=REFUSED), hold:
            pass
    with pytest.raises(LockError, match=REFUSED):
        wait_until_free(tmp_path / "lock")
    assert [*folder.parent.iterdir()] == []
    assert ledger.is_being_written(tmp_path) is False


@pytest.mark.usefixtures("no_locks")
def test_the_lab_says_where_nothing_can_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFRABENCH_STATE", str(tmp_path / "state"))
    for hold in (shell.locked, shell.in_use):
        with pytest.raises(LockError, match=r"lock cannot be locked: .*for the lab INFRABENCH_STATE"), hold():
            pass


@pytest.fixture
def as_nfs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks as between two machines on NFS: of a folder none, of a file only through a descriptor that may write."""
    real = fcntl.flock

    def flock(descriptor: int, operation: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            return
        if operation & fcntl.LOCK_EX and not fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)


@pytest.mark.usefixtures("as_nfs")
def test_two_machines_that_share_a_folder_do_not_write_to_one_session(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "one"
    refused = pytest.raises(LedgerError, match="one is being written by another run")
    with ledger.claimed(folder):
        with refused, ledger.claimed(folder):
            pass
        os.rename(folder.with_name(ledger.TMP + "one"), folder)  # as it becomes a session
        assert ledger.is_being_written(folder)
        with refused, ledger.claimed(folder):
            pass
    assert not ledger.is_being_written(folder)
    with ledger.claimed(folder):
        pass
    assert [*folder.iterdir()] == []


def test_a_stranger_s_lock_that_leads_elsewhere_is_not_opened(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    for make in (lambda path: path.symlink_to(tmp_path / "mine"), os.mkfifo):
        make(folder / ledger.LOCK)
        assert not ledger.is_being_written(folder)
        with pytest.raises(LedgerError, match=r"one/.tmp-lock is no plain file"), ledger.claimed(folder):
            pass
        (folder / ledger.LOCK).unlink()
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK], ids=errno.errorcode.get)
def test_the_lab_says_where_no_hard_links_are(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setenv("INFRABENCH_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(SiteError, match=r"state takes no hard link: .* Set INFRABENCH_STATE"):
        shell.open_state_dir()
    assert [*(tmp_path / "state").iterdir()] == []


@pytest.mark.parametrize("number", [errno.EBUSY, errno.EACCES, errno.ESTALE, errno.EXDEV], ids=errno.errorcode.get)
def test_a_rename_that_is_refused_is_told_and_keeps_what_was_there(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "session.json"
    ledger.replace_file(path, b"before")

    def refuse(source: Path, target: Path) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "rename", refuse)
    with (
        path.open("rb"),
        pytest.raises(LedgerError, match=r"session.json cannot be written: .*What was recorded before is"),
    ):
        ledger.replace_file(path, b"after")
    with pytest.raises(LedgerError, match="one cannot be written"):
        ledger.replace_folder(tmp_path / "one", {"a": b"1"})
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"session.json": b"before"}
