"""A session's files are read once: counted by the files that a run opens, and seen in what its last trial costs."""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import PLUGINS, ScriptedHost, fake_site

from infrabench import registry
from infrabench.analysis import session_data
from infrabench.analysis.tidy import tidy
from infrabench.core import Case, Measurement, Profile, Trial, TrialRecord
from infrabench.experiment.execution import resume, runner, session
from infrabench.experiment.execution.runner import Look
from infrabench.experiment.execution.trial import Finished
from infrabench.ledger import records
from infrabench.ledger.session_folder import SessionFolder
from infrabench.notebook import live
from tests.torture.storm import size


@pytest.fixture(autouse=True)
def _plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(registry.VARIABLE, str(PLUGINS))


# ------------------------------------------------------------------------------------------------- by opened files


def count_reads(folder: Path, body: Callable[[], object]) -> Counter[str]:
    """Return how often a process that executes `body` opens each file of `folder` to read it.

    The process is another one: its audit hook cannot be removed again.
    """
    context = multiprocessing.get_context("fork")
    answer = context.Queue()

    def execute() -> None:
        reads = Counter[str]()

        def note(event: str, args: tuple[Any, ...]) -> None:
            # os.open has no mode: that is how files are synced.
            if event == "open" and args[1] is not None and "r" in args[1] and str(args[0]).startswith(f"{folder}/"):
                reads[os.path.relpath(args[0], folder)] += 1

        sys.addaudithook(note)
        try:
            body()
        finally:
            answer.put(reads)

    child = context.Process(target=execute)
    child.start()
    reads = answer.get(timeout=200)
    child.join()
    assert child.exitcode == 0
    return reads


def run_whole(folder: Path, stop_at: int = 0) -> Callable[[], None]:
    """Return what runs a session as a notebook does: with a stopping rule, the live display, and tables at its end.

    The session is interrupted after `stop_at` trials, if that is not 0.
    """
    widths = {30: 0.05, 35: 0.01}

    def look(stored: SessionFolder, spent_s: float) -> Look:
        n = int(tidy(stored)["block"].nunique())
        return Look(n, {"cell": widths[n]}, widths[n] <= 0.02, "target" if widths[n] <= 0.02 else "")

    def body() -> None:
        study = registry.study("fakes")
        study = replace(study, profiles={"tiny": Profile(30, (Case("fake", "a"),))}, probe_s=0.001)
        wanted = session.request(study, profile="tiny", precision=0.02)
        stored = SessionFolder(folder)
        live.PROGRESS_S = live.ESTIMATES_S = 0.0
        live.SHARE = 1e9
        live.figures.interim = lambda *_: None
        live.display = lambda what, display_id: SimpleNamespace(update=repr)
        with live.shown("fakes") as show:

            def step(progress: Any) -> None:
                show(progress)
                if progress.done == stop_at:
                    raise ZeroDivisionError

            try:
                session.carry_out(
                    study, wanted, fake_site(ScriptedHost("here")), stored=stored, on_progress=step, look=look
                )
            except ZeroDivisionError:
                return
        session_data.read_stored(stored)

    return body


def test_a_run_reads_each_record_at_most_once(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    started = count_reads(folder, run_whole(folder, stop_at=20))
    assert [name for name in started if name.startswith(("trials/", "blocks/", "plan", "session"))] == []
    before = records.recorded(folder)
    assert len(before) == 20
    resumed = count_reads(folder, run_whole(folder))
    assert len(records.recorded(folder)) == 70
    assert {name: count for name, count in resumed.items() if name.endswith("trial.json")} == {
        f"trials/{trial}/trial.json": 1 for trial in before
    }
    assert max(count for name, count in resumed.items() if name.startswith(("trials/", "blocks/", "plan"))) == 1
    complete = count_reads(folder, run_whole(folder))
    assert sum(name.endswith("trial.json") for name in complete) == 70
    assert max(count for name, count in complete.items() if name.startswith(("trials/", "blocks/", "plan"))) == 1


def test_how_far_a_session_is_is_told_without_reading_a_record(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    count_reads(folder, run_whole(folder, stop_at=20))
    reads = count_reads(folder, lambda: resume.state(folder))
    assert not any(name.startswith("trials/") for name in reads)


# ------------------------------------------------------------------------------------------------- by time


def make_record(trial: Trial) -> TrialRecord:
    steps = ({"name": "tool", "phase": "measure", "argv": ["true"], "status": 0, "duration_s": 0.5},)
    values = (Measurement("value", 1.0, "1/s", "higher"),)
    return TrialRecord(trial, "ok", "", "2026-01-01T00:00:00.000Z", 1.0, 0.5, steps, values, {"here": {}})


def work_as_ever() -> None:
    """Take as much of a processor each time, in the way of what is measured."""
    for _ in range(5):
        json.loads(json.dumps([{"number": number, "text": "x" * 20} for number in range(20)]))


def test_the_last_trial_of_a_long_session_costs_what_the_tenth_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    """Processor time of all but the tools, in units of the same work done between trials; no disk is waited for.

    On a machine that is busy with others, a processor does up to half as much in a second; the unit is slower alike.
    """
    blocks, window = size(750, 2500), 100
    monkeypatch.setattr(
        runner, "execute", lambda trial, *_: Finished(make_record(trial), {"monitor-here.jsonl": b"{}\n"}, None)
    )
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    study = replace(
        registry.study("fakes"), profiles={"tiny": Profile(blocks, registry.study("fakes").profiles["tiny"].cases)}
    )
    folder, steps = tmp_path / "s", list[tuple[float, float]]()  # when each trial was over, and the unit after it

    def run(until: int) -> float:
        steps.clear()
        begin = time.process_time()

        def step(progress: Any) -> None:
            over = time.process_time()
            work_as_ever()
            steps.append((over, time.process_time()))
            if progress.done == until:
                raise InterruptedError

        with pytest.raises(InterruptedError):
            session.run(study, fake_site(ScriptedHost("here")), profile="tiny", folder=folder, on_progress=step)
        spent = time.process_time() - begin - sum(end - over for over, end in steps)
        return spent / unit(steps)

    def unit(some: list[tuple[float, float]]) -> float:
        return statistics.median(end - over for over, end in some)

    def cost(some: list[tuple[float, float]]) -> float:
        return statistics.median(over - before for (_, before), (over, _) in pairwise(some)) / unit(some)

    count = 4 * blocks
    whole = run(count - window)
    tenth, last = cost(steps[10 : 11 + window]), cost(steps[-window - 1 :])
    resumed = run(count)  # reads all that is recorded, and goes on
    costs = {"tenth": tenth, "last": last, "after resuming": cost(steps), "resuming": resumed, "whole run": whole}
    record_property("session folder", {"trials": count, **costs})
    assert last < 2 * tenth, costs
    assert costs["after resuming"] < 2 * tenth, costs
    assert resumed < 2 * whole, costs
