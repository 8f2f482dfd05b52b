"""The ledger under two processes, and what storing a trial costs: what a machine's load may change."""

from __future__ import annotations

import multiprocessing
import statistics
import time

from infrabench.core import LedgerError
from infrabench.ledger.session_folder import SessionFolder
from tests.unit import test_ledger
from tests.unit.test_ledger import PLAN, SESSION, record, reopened, trial

folder = test_ledger.folder  # the fixture of the module beside it in the gate


def test_two_runs_cannot_write_to_one_session(folder):
    def other(queue):
        try:
            reopened(folder)
            queue.put("opened")
        except LedgerError as error:
            queue.put(str(error))

    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    with SessionFolder(folder).opened(SESSION, PLAN):
        child = context.Process(target=other, args=(queue,))
        child.start()
        assert "is being written by another run" in queue.get(timeout=20)
        child.join()
    reopened(folder)


def test_a_null_trial_is_stored_within_milliseconds(tmp_path):
    plan = tuple(trial(number) for number in range(60))
    times = []
    with SessionFolder(tmp_path / "s").opened(SESSION, plan) as stored:
        for number in range(60):
            begin = time.perf_counter()
            stored.append_trial(record(number), {"monitor-here.jsonl": b"x" * 3000})
            times.append(time.perf_counter() - begin)
    assert statistics.median(times) < 0.05  # 0.6 ms on a quick disk; a slow one is no mistake of the ledger
