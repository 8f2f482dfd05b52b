"""A time that is shared out on real systems: it is kept, its choices follow from the trials, and it says the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from infrabench import registry
from infrabench.analysis.budget import check_looks
from infrabench.analysis.session_data import open_session
from infrabench.experiment.execution import reparse, runs, session
from infrabench.experiment.execution.blocks import FINAL
from infrabench.experiment.execution.reparse import check_plan
from infrabench.ledger import catalogue, records
from infrabench.ledger.pace import measure_pace
from infrabench.ledger.session_folder import SessionFolder
from infrabench.notebook import plan_tables

pytestmark = pytest.mark.timeout(600)
MINUTES = 2


def test_two_minutes_are_kept_and_the_session_says_what_they_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(catalogue.VARIABLE, str(tmp_path))
    wanted = session.request(
        registry.study("containers"), profile="brief", systems=["native", "docker"],
        workloads=["sysbench-cpu", "stream"], minutes=MINUTES, site="lab",
    )  # fmt: skip
    folder = runs.carry_out(wanted, look=plan_tables.look_of(wanted)).path
    stored = SessionFolder(folder)
    looks = stored.notes(records.LOOK)
    assert looks[-1]["reason"] in FINAL
    pace = measure_pace(stored.records.values())
    first = measure_pace(each for each in stored.records.values() if each.trial.block < wanted.blocks)
    if first.spent_s < 60 * MINUTES:  # else the machine is slower than the plan, and nothing may be added
        assert pace.spent_s <= 60 * MINUTES + max(pace.costs_s.values())
    else:
        assert len(looks) == 1
    assert records.verify(folder) + check_plan(stored) + check_looks(stored) == []
    assert reparse.compare(folder).differences == ()
    opened = open_session(folder)
    assert len(plan_tables.budget_table(opened)) == 3  # two cases of sysbench, one of STREAM; docker
    assert plan_tables.budget_summary(opened).startswith(("After the first blocks", "The first blocks took"))
