"""A session whose process is killed at any moment loses nothing and repeats nothing."""

from __future__ import annotations

import multiprocessing
import random
import signal
import time

import pytest

from infrabench.ledger import records
from tests.support.fakes import run_session as run
from tests.unit import test_session

study, _plugins = test_session.study, test_session._plugins  # the fixtures of the module beside it in the gate


@pytest.mark.parametrize("torn", [0, 7])
def test_what_a_writer_that_was_killed_at_its_very_end_did_not_list_is_listed(tmp_path, study, torn):
    folder = run(study, tmp_path / "s")
    sums = (folder / "SHA256SUMS").read_bytes()
    *others, last = sums.splitlines(keepends=True)
    (folder / "SHA256SUMS").write_bytes(b"".join(others) + last[:torn])
    assert records.verify(folder) == []
    run(study, folder)
    assert (folder / "SHA256SUMS").read_bytes() == sums


def test_kill_9_at_random_moments_loses_nothing_and_repeats_nothing(tmp_path, study):
    folder, rng = tmp_path / "s", random.Random(20200315)
    context = multiprocessing.get_context("fork")
    plans, finished = set(), {}
    for _ in range(10):
        steps = context.Semaphore(0)
        more = {"runs": 60, "on_progress": lambda _, steps=steps: steps.release()}
        child = context.Process(target=run, args=(study, folder), kwargs=more)
        child.start()
        for _ in range(rng.randint(1, 9)):
            assert steps.acquire(timeout=20)
        time.sleep(rng.uniform(0.0, 0.02))  # somewhere inside a trial, or inside its being written
        child.kill()
        child.join()
        assert child.exitcode == -signal.SIGKILL
        plans.add((folder / "plan.jsonl").read_bytes())
        assert records.verify(folder) == []
        for name in records.recorded(folder):
            data = (folder / "trials" / name / "trial.json").read_bytes()
            assert finished.setdefault(name, data) == data
    assert 0 < len(finished) < 240
    run(study, folder, runs=60)
    assert len(plans | {(folder / "plan.jsonl").read_bytes()}) == 1
    assert records.recorded(folder) == {trial.id for trial in records.read_plan(folder)}
    assert len(records.recorded(folder)) == 240
    assert all((folder / "trials" / n / "trial.json").read_bytes() == data for n, data in finished.items())
    assert not list(folder.glob("trials/.tmp-*"))
    assert records.verify(folder) == []
