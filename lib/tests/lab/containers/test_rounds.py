"""Trials in rounds on real systems: each takes its turns alone, its server stays up, and the session verifies."""

from __future__ import annotations

from pathlib import Path

import pytest

from infrabench import registry
from infrabench.core import TrialRecord
from infrabench.experiment.execution import reparse, runs, session
from infrabench.ledger import catalogue, records

pytestmark = pytest.mark.timeout(300)
ROUNDS = 4


def begins(found: TrialRecord) -> list[float]:
    return [step["started_s"] for step in found.steps if step["phase"] == "measure"]


def test_systems_take_turns_and_every_trial_has_one_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(catalogue.VARIABLE, str(tmp_path))
    study = registry.study("containers")
    wanted = session.request(study, profile="smoke", workloads=["web"], runs=1, rounds=ROUNDS, site="lab")
    folder = runs.carry_out(wanted).path
    found = [each for each in records.read_trials(folder) if not each.trial.attempt]
    assert [each.reason for each in found if each.state not in ("ok", "invalid")] == []
    assert {each.trial.system for each in found} == set(wanted.systems)
    turns = sorted((begin, each.trial.system) for each in found for begin in begins(each))
    order = [system for _, system in turns]
    k = len(wanted.systems)
    assert [order[n * k : (n + 1) * k] for n in range(ROUNDS)] == [order[:k], order[k - 1 :: -1]] * (ROUNDS // 2)
    for each in found:
        assert [step["name"] for step in each.steps if step["phase"] == "prepare"] == ["start", "ready"]
    assert records.verify(folder) == []
    assert reparse.compare(folder).differences == ()
