from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from infrabench import stats
from infrabench.analysis.tidy import COLUMNS, DTYPES, check, missing, tidy
from infrabench.core import LedgerError, SchemaError
from infrabench.ledger.records import read_plan
from infrabench.stats.planning import dimensions, plan_from_pilot
from infrabench.stats.stopping import look
from tests.support.analysis_fixtures import DATA_A, table_of, write_session


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_session(tmp_path_factory.mktemp("runs") / "s1", blocks=3, skip_last=5)


def test_columns_types_and_order(session: Path) -> None:
    table = tidy(session)
    assert tuple(table.columns) == COLUMNS
    assert {name: str(dtype) for name, dtype in table.dtypes.items()} == DTYPES
    assert table["position"].is_monotonic_increasing
    assert (table["session"] == "s1").all()
    assert (table["site"] == "lab").all()
    for _, trial in table[table["metric"].notna()].groupby("trial"):
        assert list(trial["metric"]) == sorted(trial["metric"])


def test_every_recorded_trial_is_there_once_and_missing_ones_are_listed(session: Path) -> None:
    plan, table, absent = read_plan(session), tidy(session), missing(session)
    assert len(absent) == 5
    assert list(absent["trial"]) == [trial.id for trial in plan[-5:]]
    assert set(table["trial"]) | set(absent["trial"]) == {trial.id for trial in plan}
    assert not set(table["trial"]) & set(absent["trial"])


def test_only_ok_trials_carry_values_though_others_may_have_measured_some(session: Path) -> None:
    table = tidy(session)
    bad = table[table["state"] != "ok"]
    assert set(bad["state"]) == {"failed", "invalid"}
    assert bad["value"].isna().all()
    assert bad["metric"].isna().all()
    assert not bad["trial"].duplicated().any()
    assert (bad["reason"] != "").all()
    trial = bad.query("state == 'invalid'")["trial"].iloc[0]
    assert json.loads((session / "trials" / trial / "trial.json").read_text())["measurements"]


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("unit", "MB/s", "unknown unit"),
        ("better", "bigger", "unknown better"),
        ("state", "fine", "unknown state"),
        ("value", np.inf, "without a finite value"),
        ("value", np.nan, "without a finite value"),
        ("state", "invalid", "outside an ok measurement"),
        ("unit", None, "without unit"),
        ("unit", "s", "more than one unit"),
        ("better", "lower", "more than one direction"),
        ("level", np.inf, "a level without end"),
        ("block", 1, "two ok trials"),
        ("trial", "default-native-1", "the same metric twice"),
        ("system", None, "'system' has empty cells"),
    ],
)
def test_check_names_the_fault(column: str, value: object, message: str) -> None:
    table = table_of(DATA_A)
    table.loc[0, column] = value
    with pytest.raises(SchemaError, match=message):
        check(table)


def test_check_refuses_other_columns_and_types() -> None:
    for table, message in (
        (table_of(DATA_A).drop(columns="tool_s"), "columns are"),
        (table_of(DATA_A).astype({"block": "float64"}), "'block' is float64, expected int64"),
    ):
        with pytest.raises(SchemaError, match=message):
            check(table)


PRIMARY = [("sysbench-cpu", "events_per_s")]
ANALYSES: dict[str, Callable[[pd.DataFrame], object]] = {
    "estimates": stats.estimates,
    "contrasts": lambda table: stats.contrasts(table, "native", {"": 0.02}),
    "diagnostics": stats.diagnostics,
    "omnibus": stats.omnibus,
    "interactions": lambda table: stats.interactions(table, "native"),
    "tiers": stats.tiers,
    "trends": stats.trends,
    "interim": lambda table: stats.interim(table, "native", PRIMARY),
    "pilot": lambda table: plan_from_pilot(table, "native", {"": 0.02}),
    "look": lambda table: look(table, PRIMARY),
    "dimensions": lambda table: dimensions(table, "native", (0.02,), 1.0, 60.0),
}


@pytest.mark.parametrize("analysis", ANALYSES.values(), ids=ANALYSES)
def test_every_analysis_refuses_a_table_that_is_none(analysis: Callable[[pd.DataFrame], object]) -> None:
    table = table_of(DATA_A)
    analysis(table)
    with pytest.raises(SchemaError, match=r"trial default-native-[12] .*two ok trials"):
        analysis(table.assign(block=table["block"].where(table.index != 1, 2)))
    with pytest.raises(SchemaError, match="it lacks position"):
        analysis(table.drop(columns="position"))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("session.json", "{", "is not JSON"),
        ("session.json", "[]", "is not a session of infrabench"),
        ("session.json", '{"parameters": {}}', "lacks study, baseline"),
        ("plan.jsonl", "{}\n", "line 1: not a trial"),
        ("trials/{id}/trial.json", '{"state": "ok"}', "does not have the fields"),
        ("trials/{id}/trial.json", "", "is not JSON"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    folder = write_session(tmp_path / "s", blocks=1)
    path = folder / name.format(id=read_plan(folder)[0].id)
    path.write_text(text)
    with pytest.raises(LedgerError, match=message) as caught:
        tidy(folder)
    assert str(path) in str(caught.value)


def test_a_trial_that_was_not_planned_is_refused_and_a_half_written_one_ignored(tmp_path: Path) -> None:
    folder = write_session(tmp_path / "s", blocks=1)
    path = folder / "trials" / read_plan(folder)[0].id / "trial.json"
    record, before = path.read_text(), tidy(folder)
    (folder / "trials/.tmp-1").mkdir()
    (folder / "trials/.tmp-1/trial.json").write_text("{")
    pd.testing.assert_frame_equal(tidy(folder), before)
    data = json.loads(record)
    data["trial"]["system"] = "podman"
    path.write_text(json.dumps(data))
    with pytest.raises(LedgerError, match="not the one that the plan"):
        tidy(folder)
    path.write_text(record)
    (folder / "trials/f00d").mkdir()
    (folder / "trials/f00d/trial.json").write_text(record)
    with pytest.raises(LedgerError, match="the plan knows no such trial"):
        tidy(folder)


def test_an_absent_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="cannot be read"):
        tidy(tmp_path / "nowhere")


def test_an_empty_session_is_an_empty_typed_table(tmp_path: Path) -> None:
    folder = write_session(tmp_path / "s", blocks=1)
    for path in (folder / "trials").iterdir():
        shutil.rmtree(path)
    table = tidy(folder)
    assert len(table) == 0
    assert {name: str(dtype) for name, dtype in table.dtypes.items()} == DTYPES
    assert len(missing(folder)) == len(read_plan(folder))
