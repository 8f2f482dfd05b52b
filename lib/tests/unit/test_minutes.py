"""A time that is shared out: first blocks of every case, then more of those that are too wide for their margins."""

from __future__ import annotations

import json
import re
from argparse import Namespace
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from infrabench import registry
from infrabench.analysis.budget import check_looks
from infrabench.analysis.session_data import open_session, pool
from infrabench.analysis.tidy import tidy
from infrabench.cli.session import describe_state, verify
from infrabench.core import Capture, DesignError, LedgerError, Measurement, ParseError, Request, Trial, canonical
from infrabench.experiment.design.design import FIRST_BLOCKS
from infrabench.experiment.execution import reparse, runs, session, trial
from infrabench.experiment.execution.reparse import check_plan
from infrabench.ledger import records
from infrabench.ledger.pace import measure_pace
from infrabench.ledger.session_folder import SessionFolder
from infrabench.notebook import api, plan_tables, sections, session_tables
from infrabench.stats import contrasts, planning
from tests.support.analysis_fixtures import lose, table_of
from tests.support.fakes import fake_site, run_session
from tests.unit.test_code import seal

MINUTES = 60  # more than such trials take: what ends a session must not hang on the clock
NOISE = {1.0: 0.002, 2.0: 0.02}  # value=1 is narrow at once, value=2 after some looks


@pytest.fixture(autouse=True)
def _noise(fake_plugins: None, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)

    def parse(capture: Capture) -> list[Measurement]:
        value = float(capture.params["value"])
        return [Measurement("value", value * float(np.exp(rng.normal(0, NOISE[value]))), "1/s", "higher")]

    monkeypatch.setattr(registry.workload("fake"), "parse", parse)


def wanted(**more: Any) -> Any:
    return api.request("fakes", profile="tiny", **{"runs": FIRST_BLOCKS, "minutes": MINUTES, **more})


def measure(
    folder: Path, on_progress: Callable[..., None] | None = None, most: int | None = None, **changes: Any
) -> None:
    study, look = replace(registry.study("fakes"), **changes), plan_tables.look_of(wanted(most=most))
    asked = {"runs": FIRST_BLOCKS, "minutes": MINUTES, "most": most}
    run_session(study, folder, on_progress=on_progress, look=look, **asked)


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
    assert check_looks(stored) == []
    assert stored.verify() == []
    pairs = contrasts(tidy(stored), "fake-base", {"": 0.02}, [("fake", "value")]).set_index("scenario")["n_pairs"]
    assert pairs.to_dict() == {"value=1": FIRST_BLOCKS, "value=2": count["value=2"] // 2}
    assert runs.read_state(tmp_path / "s").word == "complete"
    assert "5 blocks added of fake value=2" in "\n".join(describe_state(tmp_path / "s"))
    told = session_tables.size_table(open_session(tmp_path / "s"))
    assert told["then"].tolist()[-1] == "stopped: target"
    assert told["have enough"].tolist() == [*["1 of 2"] * (len(told) - 1), "2 of 2"]


@pytest.mark.parametrize("gap_s", [600.0, 0.0], ids=["goes on", "discards the block"])
def test_an_interrupted_session_goes_on_with_what_its_looks_have_given(tmp_path: Path, gap_s: float) -> None:
    whole: list[int] = []
    measure(tmp_path / "whole", lambda now: whole.append(now.total))

    def stop(now: Any) -> None:
        if now.done == 4 * FIRST_BLOCKS + 3:  # within the first blocks of one case
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(tmp_path / "s", stop, block_gap_s=gap_s)
    before = SessionFolder(tmp_path / "s").notes(records.LOOK)
    measure(tmp_path / "s", block_gap_s=gap_s)
    stored = SessionFolder(tmp_path / "s")
    assert stored.notes(records.LOOK)[: len(before)] == before
    (given,) = before  # one of its blocks was begun; all were run, or another in the place of that one
    ended = {trial.block for trial in stored.awaited if trial.id in stored.records}
    spoilt = stored.notes(records.DISCARDED)
    assert len(spoilt) == (gap_s == 0)
    added = [number for note in (given, *spoilt) for number, _ in note["adds"]]
    assert ended | {note["block"] for note in spoilt} >= {*added}
    assert check_plan(stored) + check_looks(stored) == []
    assert not [trial for trial in stored.awaited if trial.id not in stored.records]


def test_a_note_that_names_another_case_does_not_fit_the_plan(tmp_path: Path) -> None:
    measure(tmp_path / "s")
    path = min((tmp_path / "s/blocks").glob("*-look*"))
    path.write_text(path.read_text().replace("value=2", "value=1"))
    assert any("is not the one that follows" in fault for fault in check_plan(SessionFolder(tmp_path / "s")))


def edit_look(folder: Path, number: int, change: Callable[[dict[str, Any]], None]) -> SessionFolder:
    """Change what one look of a session notes, and return the session."""
    path = sorted((folder / "blocks").glob("*-look*"))[number]
    note = json.loads(path.read_text())
    change(note)
    path.write_text(json.dumps(note))
    return SessionFolder(folder)


@pytest.mark.parametrize(
    ("number", "change", "message"),
    [
        (0, lambda note: note["adds"].pop(), "gave 4 blocks of fake value=2, and .* follows 5 blocks of fake value=2"),
        (0, lambda note: note.update(cases=[["fake", "value=1"]]), "gave 5 blocks of fake value=1, and .* value=2"),
        (-1, lambda note: note.update(reason="time"), r"gave none \(time\), and .* follows none \(target\)"),
        (0, lambda note: note["budget"]["contrasts"][1].update(need=17), "other pairs, needs, costs or time"),
        (0, lambda note: note["budget"].update(left_s=1.0), "other pairs, needs, costs or time"),
        (0, lambda note: note.pop("budget"), "other pairs, needs, costs or time"),
    ],
)
def test_a_choice_that_does_not_follow_from_the_trials_before_it_is_found(
    tmp_path: Path, number: int, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    measure(tmp_path / "s")
    (fault,) = check_looks(edit_look(tmp_path / "s", number, change))
    assert re.search(message, fault)


def test_a_session_with_a_choice_that_does_not_follow_is_not_sound_though_all_sums_are_mended(tmp_path: Path) -> None:
    measure(tmp_path / "s")
    edit_look(tmp_path / "s", -1, lambda note: note["budget"]["contrasts"][0].update(pairs=99))
    seal(tmp_path / "s")
    with pytest.raises(LedgerError, match=r"its look after block .* notes other pairs"):
        list(verify(Namespace(sessions=[str(tmp_path / "s")])))


def test_a_session_that_was_reparsed_is_not_asked_for_its_choices(tmp_path: Path) -> None:
    measure(tmp_path / "s")
    reparse.write(tmp_path / "s", tmp_path / "other")  # this parser draws other values each time
    other = SessionFolder(tmp_path / "other")
    assert check_looks(other) + other.verify() + check_plan(other) == []


def test_what_the_time_could_not_decide_and_what_that_would_take_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setitem(NOISE, 2.0, 0.5)
    measure(tmp_path / "s", most=20)
    opened = open_session(tmp_path / "s")
    said = plan_tables.budget_summary(opened)
    assert "After the first blocks 1 of 2 primary contrasts have enough pairs for their margins; 0 more" in said
    open_ = r"Not: fake value=2 value of fake-other: 20 pairs, \d+ would be enough \(.* more\)\.$"
    assert re.search(
        rf"It ended because the rest have as many blocks as a case may have, .*: 1 of 2 .*\. {open_}", said
    )
    told = plan_tables.budget_table(opened)
    assert told["scenario"].tolist() == ["value=1", "value=2"]
    assert told["note"].tolist() == ["enough", "not enough"]
    assert int(told["pairs needed"][1]) > 20
    shown = sections.fold_provenance(opened).text
    assert said in shown
    monkeypatch.setitem(NOISE, 2.0, 0.002)
    measure(tmp_path / "t")
    both = pool([tmp_path / "s", tmp_path / "t"])
    other = plan_tables.budget_summary(open_session(tmp_path / "t"))
    assert ": 2 of 2 primary contrasts have enough pairs" in other
    assert plan_tables.budget_summary(both) == f"s: {said} t: {other}"
    rows = plan_tables.budget_table(both)
    assert list(rows[["session", "note"]].itertuples(index=False, name=None)) == [
        ("s", "enough"), ("s", "not enough"), ("t", "enough"), ("t", "enough"),
    ]  # fmt: skip
    assert "It ended because" in "\n".join(describe_state(tmp_path / "s"))
    assert "It ended because" in caplog.text
    assert "After the first blocks" in caplog.text


@pytest.mark.parametrize(
    ("left_s", "contrasts", "said"),
    [
        (
            -90.0,
            [("a", 15, 99, "")],
            "The first blocks took 2 min more than the time that was given: none can be added",
        ),
        (100.0, [], "None of the primary metrics could be compared"),
        # of two cases that need 10 and 20 blocks of 5 s the quicker one can have them; it is not said of both
        (100.0, [("a", 15, 25, ""), ("b", 15, 35, "")], "0 of 2 .* 1 more are expected to in the 2 min"),
        # the soonest first, 10 blocks of a and 12 of b; then 15 more of a, whose blocks serve both of its systems
        (184.0, [("a", 15, 25, ""), ("a", 15, 40, ""), ("b", 15, 27, "")], "0 of 3 .* 2 more are expected"),
        (185.0, [("a", 15, 25, ""), ("a", 15, 40, ""), ("b", 15, 27, "")], "0 of 3 .* 3 more are expected"),
        (1e6, [("a", 15, 101, "")], "0 of 1 .* 0 more are expected"),  # a case may have 100
        (100.0, [("a", 15, 15, ""), ("b", 0, None, "no ok trial of lxd")], "1 of 2 .* 0 more are expected"),
    ],
)
def test_what_is_expected_of_the_time_that_is_left(left_s: float, contrasts: Any, said: str) -> None:
    names = ("scenario", "pairs", "need", "why")
    rows = [{"workload": "w", "metric": "m", "system": "s"} | dict(zip(names, row, strict=True)) for row in contrasts]
    noted = {"left_s": left_s, "most": 100, "costs_s": [["w", "a", 5.0], ["w", "b", 5.0]], "contrasts": rows}
    assert re.match(f".*{said}", plan_tables.describe_expectation(noted))


def test_a_metric_without_a_margin_is_refused_before_the_first_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    study = replace(registry.study("fakes"), margins={"other": 0.1})
    monkeypatch.setattr(session, "study_of", lambda asked: study)
    with pytest.raises(DesignError, match="no equivalence margin for 'value'"):
        plan_tables.look_of(wanted())


def test_a_case_in_which_one_system_can_do_nothing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parse = trial.parse_trial

    def fails(workload: Any, each: Trial, results: Any) -> tuple[Measurement, ...]:
        if (each.system, each.scenario) == ("fake-other", "value=2"):
            raise ParseError("fake", "nothing there")
        return parse(workload, each, results)

    monkeypatch.setattr(trial, "parse_trial", fails)
    measure(tmp_path / "s")
    (look,) = SessionFolder(tmp_path / "s").notes(records.LOOK)
    assert look["reason"] == "n_max"
    said = plan_tables.budget_summary(open_session(tmp_path / "s"))
    assert said.endswith("Not: fake value=2 value of fake-other: 0 pairs, no ok trial of fake-other.")
    assert check_looks(SessionFolder(tmp_path / "s")) == []


def test_a_pilot_says_what_a_time_is_expected_to_decide(tmp_path: Path) -> None:
    measure(tmp_path / "s")
    pilot = open_session(tmp_path / "s")
    said, table = plan_tables.budget_from_pilot(pilot, 20)
    assert "20 minutes: 15 blocks of every case" in said
    assert "Of 2 primary contrasts 1 need no more, 1 more are expected to have enough." in said
    assert table["note"].tolist() == ["enough", "expected within the time"]
    with pytest.raises(DesignError, match=r"10 blocks took .* minutes have to hold half as many again"):
        plan_tables.budget_from_pilot(pilot, 1e-4)


def test_a_contrast_without_a_spread_has_enough_with_the_first_blocks_however_many_the_pilot_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(NOISE, 1.0, 0.0)
    measure(tmp_path / "s")
    block_s = sum(measure_pace(SessionFolder(tmp_path / "s").records.values()).costs_s.values())
    said, table = plan_tables.budget_from_pilot(open_session(tmp_path / "s"), 3 / 2 * 12.5 * block_s / 60)
    assert "12 blocks of every case" in said
    assert "Of 2 primary contrasts 1 need no more" in said
    assert table.loc[table["scenario"] == "value=1", ["pairs needed", "note"]].to_numpy().tolist() == [["12", "enough"]]


PILOT = {"baseline": "native", "margins": {"": 0.02}, "primary": [["sysbench-cpu", "events_per_s"]]}


def begin(table: pd.DataFrame, seconds: pd.Series) -> pd.DataFrame:
    """Return trials that began so many seconds after midnight."""
    times = [(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=each)).isoformat() for each in seconds]
    return table.assign(started_utc=times).astype(table.dtypes)


def pace_s(table: pd.DataFrame) -> float:
    """Return the seconds that a pilot takes for one block, or deployment, as the hours of its plan have it."""
    planned = plan_tables.plan_from_pilot(PILOT, table, [0.02]).dropna(subset="hours")
    (each,) = {round(3600 * hours / n, 6) for hours, n in zip(planned["hours"], planned["n"], strict=True)}
    return each


def test_a_block_of_a_pilot_is_one_with_every_case_and_none_that_was_discarded() -> None:
    values = {"native": [100.0, 102, 101, 104, 103], "docker": [101.0, 100, 104, 102, 105]}
    few = {system: each[:3] for system, each in values.items()}
    spoilt = table_of({"native": [100.0] * 10}, scenario="a")
    spoilt = pd.concat([spoilt, spoilt.assign(scenario="b", trial="b-" + spoilt["trial"])]).query("block == 9")
    lose(spoilt, spoilt["block"] == 9, "discarded")
    tables = [table_of(few, scenario="a"), table_of(values, scenario="b"), spoilt]
    table = pd.concat(tables, ignore_index=True).astype(tables[0].dtypes)
    place = 18 * (table["scenario"] == "b") + 9 * (table["system"] == "docker")
    assert pace_s(begin(table, 1000.0 * table["block"] + place)) == 28.0  # four trials of one second, 8 s apart


# When each deployment began: blocks of a minute, two in each, and 300 s to make the systems ready.
DEPLOYMENTS_S = (0.0, 420.0, 37000.0, 37420.0)


def deployed(count: int, *, spoilt: int) -> pd.DataFrame:
    """Return the trials of a pilot of so many deployments, of which one was interrupted, for ten hours."""
    rng = np.random.default_rng(3)
    native = np.repeat(rng.normal(100, 5, count), 2) + rng.normal(0, 1, 2 * count)
    docker = np.repeat(rng.normal(95, 5, count), 2) + rng.normal(0, 1, 2 * count)
    table = table_of({"native": list(native), "docker": list(docker)}, blocks_per_deployment=2)
    lose(table, table["deployment"] == spoilt, "discarded")
    begins = table["deployment"].map(dict(enumerate(DEPLOYMENTS_S))) + 60.0 * (table["block"] % 2)
    return begin(table, begins + 59.0 * (table["system"] == "docker"))


def test_a_pause_is_no_cost_of_making_systems_ready_and_hours_have_that_cost() -> None:
    table = deployed(4, spoilt=1)
    sized = plan_tables.dimensions_from_pilot(PILOT, table, [0.02]).query("note == ''")
    assert len(sized)
    costs_s = 3600 * sized["hours"] / sized["deployments"]
    assert costs_s.tolist() == pytest.approx((300 + 60 * sized["blocks"]).tolist())
    assert pace_s(table) == 300 + 2 * 60


def test_what_stands_beside_interrupted_deployments_alone_has_no_known_cost() -> None:
    table = deployed(3, spoilt=1)
    sized = plan_tables.dimensions_from_pilot(PILOT, table, [0.02])
    assert set(sized["note"]) == {planning.NO_COSTS}
    assert pace_s(table) == 2 * 60


def test_what_a_plan_can_show_holds_within_the_largest_family() -> None:
    said = plan_tables.power_summary(wanted())
    alone, both = (float(planning.equivalence_margin(1.0, FIRST_BLOCKS, alpha)) for alpha in (0.05, 0.025))
    assert both > alone
    assert f"({planning.detectable(1.0, FIRST_BLOCKS, 0.025):.2f} with Holm over 2 contrasts)" in said  # two scenarios
    assert f"equivalent, with 80 % power and Holm over as many, within {both:.2f} SD" in said
    assert f"asks for an SD of at most {2 / both:.2g} %" in said


def test_one_time_is_one_session_however_it_is_written() -> None:
    study = registry.study("fakes")
    first, second = (
        session.parameters(study, session.request(study, profile="tiny", minutes=minutes), fake_site())
        for minutes in (20, 20.0)
    )
    assert canonical(first) == canonical(second)
    assert Request("fakes", "tiny", minutes=0.5).minutes == 0.5


def test_first_blocks_are_as_many_as_leave_a_third_of_the_time() -> None:
    study = registry.study("containers")
    counts = {minutes: session.request(study, profile="quick", minutes=minutes).blocks for minutes in (60, 12)}
    assert counts[60] == FIRST_BLOCKS
    assert 10 <= counts[12] < FIRST_BLOCKS
    with pytest.raises(DesignError, match=r"10 blocks of 10 cases on 4 systems take about . minutes, and 5 have"):
        session.request(study, profile="quick", minutes=5)
    with pytest.raises(DesignError, match=r"runs are the first blocks of every case, .* at least 10, not 2"):
        session.request(study, profile="quick", minutes=60, runs=2)
    with pytest.raises(DesignError, match=r"the first 60 blocks take about .* minutes, and 10 are given"):
        session.request(study, profile="quick", minutes=10, runs=60)
    assert session.request(study, profile="smoke", minutes=60).blocks == FIRST_BLOCKS  # whatever it has by itself
    with pytest.raises(DesignError, match="one deployment only"):
        session.request(study, profile="quick", minutes=60, deployments=3)
