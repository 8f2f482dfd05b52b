"""Locks of sessions and archives, while somebody holds them: who only asks refuses no writer, and who unpacks waits."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import shutil
import threading
import time

import pytest

from infrabench.core import LedgerError
from infrabench.ledger import archive, ledger, records
from tests.unit import test_ledger

folder = test_ledger.folder


def test_who_only_asks_refuses_no_writer_and_who_stays_does(folder):
    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    with pytest.raises(LedgerError, match="is being written by another run"):
        test_ledger.reopened(folder)
    threading.Timer(ledger.GLANCE_S / 4, os.close, [descriptor]).start()
    assert test_ledger.reopened(folder)


def _unpack(packed, destination, begin, answers):
    begin.wait(60)
    try:
        answers.put(str(archive.unpack(packed, destination)))
    except LedgerError as error:
        answers.put(f"failed: {error}")


def test_processes_that_open_one_archive_at_once_all_have_it(folder, tmp_path, monkeypatch):
    packed = archive.pack(folder, tmp_path / "one.tar.xz")
    copy = shutil.copyfileobj

    def slowly(source, target):
        time.sleep(0.02)
        return copy(source, target)

    monkeypatch.setattr(shutil, "copyfileobj", slowly)  # so that they are inside together; children are forks
    fork = multiprocessing.get_context("fork")
    begin, answers = fork.Event(), fork.Queue()
    every = [fork.Process(target=_unpack, args=(packed, tmp_path / "there", begin, answers)) for _ in range(4)]
    for each in every:
        each.start()
    begin.set()
    assert [answers.get(timeout=60) for _ in every] == [str(tmp_path / "there/one")] * len(every)
    for each in every:
        each.join(60)
    assert records.verify(tmp_path / "there/one") == []
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["one"]
