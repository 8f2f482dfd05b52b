"""How far a session is, what is left of it, what it took, and how to go on with it."""

from __future__ import annotations

import fcntl
import io
import os
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from infrabench import registry
from infrabench.core import Stopping, Trial, TrialRecord
from infrabench.experiment.design.design import TRIAL_OVERHEAD_S
from infrabench.experiment.execution import progress, runs, session
from infrabench.experiment.execution.progress import Estimator, bar, words
from infrabench.ledger.pace import measure_pace
from infrabench.ledger.records import read_session
from infrabench.notebook import api
from tests.support.fakes import fake_site, interrupt_session, run_session


def trial(number, workload="slow", seconds=10.0):
    return Trial(str(number), 0, number, "native", workload, "default", {}, None, None, seconds)


def record(made, seconds, state="ok"):
    return TrialRecord(made, state, "", "", seconds, seconds, (), (), {})


TRIALS = [trial(n, "slow" if n % 2 else "quick", 10.0 if n % 2 else 1.0) for n in range(20)]


def test_before_anything_ran_the_plan_is_believed():
    now = Estimator(TRIALS).now()
    assert (now.done, now.total) == (0, 20)
    assert now.remaining_s == pytest.approx(10 * (10 + TRIAL_OVERHEAD_S) + 10 * (1 + TRIAL_OVERHEAD_S))


def test_what_was_measured_corrects_the_same_treatment_and_scales_the_others():
    estimator = Estimator(TRIALS)
    quick = 2 * (1.0 + TRIAL_OVERHEAD_S)
    now = estimator.add(record(TRIALS[0], quick))
    assert now.remaining_s == pytest.approx(9 * quick + 10 * 2 * (10 + TRIAL_OVERHEAD_S))
    now = estimator.add(record(TRIALS[1], 5.0))
    assert now.remaining_s == pytest.approx(9 * quick + 9 * 5.0)


def test_at_the_end_nothing_remains_and_states_are_counted():
    estimator = Estimator(TRIALS)
    for made in TRIALS:
        now = estimator.add(record(made, 1.0, "ok" if made.position else "failed"))
    assert now.remaining_s == 0
    assert now.states == {"failed": 1, "ok": 19}


def test_what_is_left_counts_the_making_ready_of_later_deployments():
    trials = [replace(each, deployment=number // 8) for number, each in enumerate(TRIALS)]  # three of them
    estimator = Estimator(trials, ready_s=1000.0)
    seconds = 10 * (10 + TRIAL_OVERHEAD_S) + 10 * (1 + TRIAL_OVERHEAD_S)
    assert estimator.now().remaining_s == pytest.approx(2000 + seconds)
    for made in trials[:8]:
        now = estimator.add(record(made, made.seconds + TRIAL_OVERHEAD_S))
        seconds -= made.seconds + TRIAL_OVERHEAD_S
        assert now.remaining_s == pytest.approx(2000 + seconds)
    stored = SimpleNamespace(records={made.id: record(made, made.seconds + TRIAL_OVERHEAD_S) for made in trials[:8]})
    assert Estimator(trials, stored, ready_s=500.0).now().remaining_s == pytest.approx(500 + seconds)


def test_of_a_time_that_is_shared_out_what_is_left_of_it_remains(monkeypatch):
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    estimator = Estimator(TRIALS)
    estimator.left_s = 600.0
    with bar("title") as show:
        for made in TRIALS:
            now = estimator.add(record(made, 10.0))
            show(now)
    assert (now.remaining_s, now.total_text, now.grows) == (400.0, "20 or more", True)
    assert "20/20 or more" in log.getvalue()
    assert "7 min left" in log.getvalue()
    estimator.left_s = 0.0  # the last look has ended it
    assert (estimator.now().remaining_s, estimator.now().total_text) == (0.0, "20")


def test_a_log_is_not_flooded_and_says_what_failed(monkeypatch):
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    estimator = Estimator(TRIALS)
    with bar("title") as show:
        show(estimator.now())
        for made in TRIALS:
            show(estimator.add(record(made, 0.0, "timeout" if made.position == 3 else "ok")))
    assert len(log.getvalue().split("\r")) <= 4
    assert "20/20" in log.getvalue()
    assert "1 timeout" in log.getvalue()


def test_somebody_looks_at_a_notebook_only_where_there_is_a_kernel_and_no_log(monkeypatch):
    monkeypatch.delenv(progress.HEADLESS, raising=False)
    assert not progress.in_notebook()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert not progress.in_notebook()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=1)))
    assert progress.in_notebook()
    monkeypatch.setenv(progress.HEADLESS, "1")
    assert not progress.in_notebook()


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "0 s"), (89, "89 s"), (300, "5 min"), (5400, "1 h 30 min"), (86399, "24 h 0 min")]
)
def test_durations_in_words(seconds, said):
    assert words(seconds) == said


pytestmark = pytest.mark.usefixtures("fake_plugins")


def stopped(folder: Path, after: int, **choice: Any) -> Path:
    return interrupt_session(registry.study("fakes"), folder, after, **choice)


def test_a_session_is_interrupted_running_or_complete(tmp_path: Path) -> None:
    folder = stopped(tmp_path / "s", 5)
    assert runs.read_state(folder) == runs.State("interrupted", 5, 12, 1, 3)
    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    assert runs.read_state(folder).word == "running"
    os.close(descriptor)
    run_session(registry.study("fakes"), folder)
    assert runs.read_state(folder) == runs.State("complete", 12, 12, 3, 3)


def test_a_session_expects_what_is_planned_for_later_deployments_and_then_what_one_took(tmp_path: Path) -> None:
    """The first one makes what is made once, and says nothing of the others."""
    seen = list[progress.Progressed]()
    slow = replace(registry.study("fakes"), deploy_s=1e6, deploys_s={"fake-other": 1e4})
    run_session(slow, tmp_path / "s", on_progress=seen.append, deployments=3)
    assert seen[0].remaining_s == pytest.approx(2 * (1e6 + 1e4), rel=1e-2)  # of two systems
    second = next(each for each in seen if each.record is None and each.done)
    assert 0 < second.remaining_s < 1000


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        ({}, ""),
        ({"runs": 2, "seed": 5}, "runs = 2; seed = 5; "),
        ({"systems": ["fake-base"], "workloads": ["fake"]}, 'systems = ["fake-base"]; '),
        ({"systems": ["fake-other", "fake-third"], "deployments": 3},
         'systems = ["fake-other", "fake-third"]; deployments = 3; '),
        ({"order": "williams", "workloads": ["null"]}, 'workloads = ["null"]; order = "williams"; '),
        ({"order": "random"}, 'order = "random"; '),
        ({"order": "adjacent"}, ""),
    ],
)  # fmt: skip
def test_the_parameters_told_are_those_of_the_session(tmp_path: Path, choice: dict[str, Any], told: str) -> None:
    folder = stopped(tmp_path / "s", 2, **choice)
    given = runs.notebook_parameters(folder)
    assert given is not None
    assert runs.cell_text(given) == f'mode = "run"; profile = "tiny"; {told}session = "s"'
    asked = {name: value for name, value in given.items() if name not in ("mode", "session")}
    wanted = api.request("fakes", **asked)
    site = fake_site()
    assert session.parameters(session.study_of(wanted), wanted, site) == read_session(folder)["parameters"]


def test_a_stopping_rule_is_told_and_its_look_awaited(tmp_path: Path) -> None:
    rule = Stopping(0.02, most=40, budget_s=7200.0)
    choice = {"runs": 30, "precision": 0.02, "most": 40, "minutes": 120.0, "systems": ["fake-base"]}
    look = {"look": lambda folder, spent: pytest.fail("no look is due")}
    stopped(tmp_path / "s", 60, workloads=["fake"], **choice, **look)
    state, given = runs.read_state(tmp_path / "s"), runs.notebook_parameters(tmp_path / "s")
    assert (state.word, state.done) == ("interrupted", state.planned)
    assert given is not None
    assert (given["precision"], given["most"], given["minutes"]) == (0.02, 40, 120.0)
    wanted = api.request("fakes", **{k: v for k, v in given.items() if k not in ("mode", "site", "session")})
    assert wanted.stopping == rule


def test_a_session_that_its_notebook_cannot_ask_for_is_left_to_its_command(tmp_path: Path) -> None:
    assert runs.notebook_parameters(stopped(tmp_path / "s", 2, aa="fake-base")) is None


def timed(
    block: int, scenario: str, begin: float, end: float, system: str = "native", attempt: int = 0, slept_s: float = 0.0
) -> TrialRecord:
    """Return the record of a trial that ran between two seconds of the session."""
    number = f"{block}{scenario}{system}{attempt}"
    trial = Trial(number, block, 0, system, "web", scenario, {}, None, None, 1.0, attempt=attempt)
    times = (datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds") for at in (begin, end))
    slept = {"clock_stepped_s": slept_s} if slept_s else {}
    return TrialRecord(trial, "ok", "", next(times), end - begin, 1.0, (), (), slept, next(times))


def test_what_is_between_trials_counts_and_the_probe_of_a_block_for_each_block_of_one_case() -> None:
    found = measure_pace([
        timed(0, "a", 0, 10), timed(0, "a", 10.5, 20, "docker"), timed(0, "b", 20.5, 30),
        timed(1, "b", 32, 42), timed(1, "a", 42, 52), timed(1, "a", 52, 62, "docker"),
    ])  # fmt: skip
    assert found.spent_s == 62
    assert found.costs_s == {("web", "a"): 2 + 20, ("web", "b"): 2 + 10}


def test_a_pause_is_no_time_of_the_session_and_a_repeat_is() -> None:
    found = measure_pace([timed(0, "a", 0, 10), timed(0, "a", 10, 20, attempt=1), timed(1, "a", 5000, 5010)])
    assert found.spent_s == 30
    assert found.costs_s == {("web", "a"): 15}


def test_what_the_machine_slept_is_no_time_of_the_session() -> None:
    found = measure_pace([timed(0, "a", 0, 30_010, slept_s=30_000.0), timed(0, "a", 30_011, 30_021, attempt=1)])
    assert found.spent_s == 20


def test_trials_that_take_turns_are_counted_once() -> None:
    found = measure_pace([timed(0, "a", 0, 10), timed(0, "a", 1, 11, "docker"), timed(0, "a", 2, 9, "lxc")])
    assert found.spent_s == 11
    assert found.costs_s == {("web", "a"): pytest.approx(11)}


def test_nothing_has_taken_nothing() -> None:
    assert measure_pace([]) == (0.0, {})
