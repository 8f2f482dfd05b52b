"""What storing a trial costs, and that the last one of a long session costs no more than the tenth."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from infrabench import registry
from infrabench.core import Measurement, Profile, Trial, TrialRecord
from infrabench.experiment.execution import runner
from infrabench.experiment.execution.trial import Finished
from tests.support.fakes import PLUGINS, run_session
from tests.support.storm import size


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
    monkeypatch.setenv(registry.VARIABLE, str(PLUGINS))
    monkeypatch.setattr(
        runner,
        "execute_turns",
        lambda turns, *_: [Finished(make_record(each), {"monitor-here.jsonl": b"{}\n"}, None) for each, _ in turns],
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
            run_session(study, folder, on_progress=step)
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
