"""Claims of a session, on a local file system and on NFS: some come, some end, some wait, and one has it at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import stat
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from infrabench.core import LedgerError
from infrabench.ledger import ledger
from tests.support.storm import SEED, size


@pytest.mark.parametrize("file_system", ["local", "NFS"])
def test_a_session_never_has_two_runs(tmp_path: Path, file_system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session begins meanwhile, or what never began is removed."""
    real = fcntl.flock

    def flock(descriptor: int, operation: int) -> None:
        if file_system == "NFS" and stat.S_ISDIR(os.fstat(descriptor).st_mode):
            return  # known to one machine alone
        if (
            file_system == "NFS"
            and operation & fcntl.LOCK_EX
            and not fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_RDWR
        ):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    folder, inside, most = tmp_path / "study" / "s", [0], [0]
    until = time.monotonic() + size(4, 60)

    def contend(rng: random.Random) -> None:
        while time.monotonic() < until:
            with suppress(LedgerError), ledger.claimed(folder):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(rng.random() / 100)
                if not folder.exists() and rng.random() < 0.7:
                    os.rename(folder.with_name(ledger.TMP + folder.name), folder)
                time.sleep(rng.random() / 100)
                inside[0] -= 1
            time.sleep(rng.random() / 100)

    threads = [threading.Thread(target=contend, args=(random.Random(SEED + each),)) for each in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert most == [1]
    assert not ledger.is_being_written(folder)
