"""What a session took, by the times of its trials."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from infrabench.core import Trial, TrialRecord
from infrabench.ledger.pace import measure_pace


def record(
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
        record(0, "a", 0, 10), record(0, "a", 10.5, 20, "docker"), record(0, "b", 20.5, 30),
        record(1, "b", 32, 42), record(1, "a", 42, 52), record(1, "a", 52, 62, "docker"),
    ])  # fmt: skip
    assert found.spent_s == 62
    assert found.costs_s == {("web", "a"): 2 + 20, ("web", "b"): 2 + 10}


def test_a_pause_is_no_time_of_the_session_and_a_repeat_is() -> None:
    found = measure_pace([record(0, "a", 0, 10), record(0, "a", 10, 20, attempt=1), record(1, "a", 5000, 5010)])
    assert found.spent_s == 30
    assert found.costs_s == {("web", "a"): 15}


def test_what_the_machine_slept_is_no_time_of_the_session() -> None:
    found = measure_pace([record(0, "a", 0, 30_010, slept_s=30_000.0), record(0, "a", 30_011, 30_021, attempt=1)])
    assert found.spent_s == 20


def test_trials_that_take_turns_are_counted_once() -> None:
    found = measure_pace([record(0, "a", 0, 10), record(0, "a", 1, 11, "docker"), record(0, "a", 2, 9, "lxc")])
    assert found.spent_s == 11
    assert found.costs_s == {("web", "a"): pytest.approx(11)}


def test_nothing_has_taken_nothing() -> None:
    assert measure_pace([]) == (0.0, {})
