"""A session's files are read once: counted by the files that a run opens."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from infrabench import registry
from infrabench.analysis import session_data
from infrabench.analysis.tidy import tidy
from infrabench.core import Case, Profile
from infrabench.experiment.execution import runs, session
from infrabench.experiment.execution.runner import Look
from infrabench.ledger import records
from infrabench.ledger.session_folder import SessionFolder
from infrabench.notebook import live
from tests.support.fakes import fake_site

pytestmark = pytest.mark.usefixtures("fake_plugins")


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
        stored, site = SessionFolder(folder), fake_site()
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
                session.carry_out(study, wanted, site, nullcontext(site), stored=stored, on_progress=step, look=look)
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
    reads = count_reads(folder, lambda: runs.read_state(folder))
    assert not any(name.startswith("trials/") for name in reads)
