"""A time that is shared out: first blocks of every case, then more of those that are too wide for their margins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infrabench import registry
from infrabench.analysis.tidy import tidy
from infrabench.cli.session import describe_state
from infrabench.core import Capture, DesignError, Measurement, Request
from infrabench.experiment.design.design import FIRST_BLOCKS
from infrabench.experiment.design.replan import check_plan
from infrabench.experiment.execution import resume, session
from infrabench.ledger import records
from infrabench.ledger.session_folder import SessionFolder
from infrabench.notebook import api, plan_tables, session_tables
from infrabench.stats import contrasts
from tests.support.fakes import PLUGINS, fake_site

MINUTES = 60  # more than such trials take: what ends a session must not hang on the clock
NOISE = {1.0: 0.002, 2.0: 0.02}  # value=1 is narrow at once, value=2 after some looks


@pytest.fixture(autouse=True)
def _plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(registry.VARIABLE, str(PLUGINS))
    rng = np.random.default_rng(7)

    def parse(capture: Capture) -> list[Measurement]:
        value = float(capture.params["value"])
        return [Measurement("value", value * float(np.exp(rng.normal(0, NOISE[value]))), "1/s", "higher")]

    monkeypatch.setattr(registry.workload("fake"), "parse", parse)


def wanted(**more: Any) -> Any:
    return api.request("fakes", profile="tiny", **{"runs": FIRST_BLOCKS, "minutes": MINUTES, **more})


def measure(folder: Path, on_progress: Callable[..., None] | None = None) -> None:
    asked = wanted()
    session.run(
        registry.study("fakes"), fake_site(), profile="tiny", runs=FIRST_BLOCKS, minutes=MINUTES, folder=folder,
        look=plan_tables.look_of(asked), on_progress=on_progress,
    )  # fmt: skip


def test_the_case_that_is_too_wide_gets_what_is_left_and_each_case_has_its_own_n(tmp_path: Path) -> None:
    measure(tmp_path / "s")
    stored = SessionFolder(tmp_path / "s")
    looks = stored.notes(records.LOOK)
    assert {tuple(case) for look in looks[:-1] for case in look["cases"]} == {("fake", "value=2")}
    assert looks[-1]["reason"] == "target"
    assert all(len(look["adds"]) == 5 for look in looks[:-1])
    count = Counter(trial.scenario for trial in stored.plan)
    assert count["value=1"] == 2 * FIRST_BLOCKS
    assert count["value=2"] == 2 * (FIRST_BLOCKS + 5 * (len(looks) - 1)) > count["value=1"]
    assert check_plan(stored) == []
    assert stored.verify() == []
    pairs = contrasts(tidy(stored), "fake-base", {"": 0.02}, [("fake", "value")]).set_index("scenario")["n_pairs"]
    assert pairs.to_dict() == {"value=1": FIRST_BLOCKS, "value=2": count["value=2"] // 2}
    assert resume.state(tmp_path / "s").word == "complete"
    assert "5 blocks added of fake value=2" in "\n".join(describe_state(tmp_path / "s"))
    told = session_tables.size_table(session_tables.open_session(tmp_path / "s"))
    assert told["then"].tolist()[-1] == "stopped: target"
    assert told["have enough"].tolist() == [*["1 of 2"] * (len(told) - 1), "2 of 2"]


def test_an_interrupted_session_goes_on_with_what_its_looks_have_given(tmp_path: Path) -> None:
    whole: list[int] = []
    measure(tmp_path / "whole", lambda now: whole.append(now.total))

    def stop(now: Any) -> None:
        if now.done == 4 * FIRST_BLOCKS + 3:  # within the first blocks of one case
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(tmp_path / "s", stop)
    before = SessionFolder(tmp_path / "s").notes(records.LOOK)
    measure(tmp_path / "s")
    stored = SessionFolder(tmp_path / "s")
    assert stored.notes(records.LOOK)[: len(before)] == before
    assert check_plan(stored) == []
    assert not [trial for trial in stored.plan if trial.id not in stored.records]


def test_a_note_that_names_another_case_does_not_fit_the_plan(tmp_path: Path) -> None:
    measure(tmp_path / "s")
    path = min((tmp_path / "s/blocks").glob("*-look*"))
    path.write_text(path.read_text().replace("value=2", "value=1"))
    assert any("is not the one that follows" in fault for fault in check_plan(SessionFolder(tmp_path / "s")))


@pytest.mark.parametrize(
    ("minutes", "message"),
    [
        (0, "minutes must be more than 0"),
        (-5, "minutes must be more than 0"),
        ("20", "minutes must be a number"),
        (float("nan"), "minutes must be a number"),
        (1e12, "minutes must be a number"),
    ],
)
def test_a_time_that_is_none_is_refused(minutes: Any, message: str) -> None:
    with pytest.raises(DesignError, match=message):
        Request("containers", "quick", minutes=minutes)


def test_first_blocks_are_as_many_as_leave_a_third_of_the_time() -> None:
    study = registry.study("containers")
    counts = {minutes: session.request(study, profile="quick", minutes=minutes).blocks for minutes in (60, 12)}
    assert counts[60] == FIRST_BLOCKS
    assert 10 <= counts[12] < FIRST_BLOCKS
    with pytest.raises(DesignError, match=r"10 blocks of 9 cases on 4 systems take about . minutes, and 5 have"):
        session.request(study, profile="quick", minutes=5)
    with pytest.raises(DesignError, match="one deployment only"):
        session.request(study, profile="quick", minutes=60, deployments=3)
