"""Folders on file systems that lack what local ones have: locks, hard links, a rename over what is open."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from infrabench.core import LedgerError, LockError, SiteError, locks
from infrabench.core.locks import hold_lock, wait_until_free
from infrabench.ledger import ledger
from infrabench.machines.lab import shell

REFUSED = r"cannot be locked: .*Its file system has no locks.*INFRABENCH_HOME"


@pytest.fixture(params=[errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EIO], ids=errno.errorcode.get)
def no_locks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: Any, operation: int) -> None:
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(fcntl, "flock", refuse)


@pytest.mark.usefixtures("no_locks")
def test_a_session_is_not_begun_where_nothing_can_be_locked(tmp_path: Path) -> None:
    folder = tmp_path / "runs/containers/one"
    with pytest.raises(LockError, match=REFUSED), ledger.claimed(folder):
        pass
    assert [*folder.parent.iterdir()] == []


@pytest.mark.usefixtures("no_locks")
def test_sessions_are_listed_where_nothing_can_be_locked(tmp_path: Path) -> None:
    assert ledger.is_being_written(tmp_path) is False


@pytest.mark.usefixtures("no_locks")
def test_archives_and_campaigns_say_where_nothing_can_be_locked(tmp_path: Path) -> None:
    with pytest.raises(LockError, match=REFUSED), locks.locked(tmp_path):
        pass
    with pytest.raises(LockError, match=REFUSED), hold_lock(tmp_path / "lock", "somebody has it"):
        pass
    with pytest.raises(LockError, match=REFUSED):
        wait_until_free(tmp_path / "lock")


@pytest.mark.usefixtures("no_locks")
def test_the_lab_says_where_nothing_can_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFRABENCH_STATE", str(tmp_path / "state"))
    for hold in (shell.locked, shell.in_use):
        with pytest.raises(LockError, match=r"lock cannot be locked: .*for the lab INFRABENCH_STATE"), hold():
            pass


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK], ids=errno.errorcode.get)
def test_the_lab_says_where_there_are_no_hard_links(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
