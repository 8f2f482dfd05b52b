"""What a session says of itself: its abstract in a notebook's output, what its systems can do, its trials' paths."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from infrabench.analysis import session_data
from infrabench.ledger import records
from infrabench.notebook import api, sections, session_tables
from infrabench.workloads import _counters
from tests.support import storage_fixtures
from tests.support.analysis_fixtures import write_session
from tests.support.report_fixtures import ABSENT, session, told

CLAIMS = (
    {"placement": "two-nodes", "interface": "second", "nodes": 1, "device": "net1",
     "devices": {"eth0": False, "net1": True}},
    {"node": "worker1", "devices": {"uplink": "eth0", "overlay": "flannel.1"}, "counters": 1},
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return session(tmp_path_factory.mktemp("abstract") / "s")


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, Any]:
    return told(folder)


def test_an_abstract_is_json_and_says_how_much_there_is(found: dict[str, Any]) -> None:
    made = json.loads(json.dumps(found, allow_nan=False))
    assert (made["study"], made["sessions"], made["name"]) == ("containers", ["s"], "containers")
    assert (made["planned"], made["recorded"]) == (306, 306)
    assert made["ok"] == 306 - 6 - 1
    assert made["not_run"] == {"lxd": "the LXD daemon did not answer", "lxc, fio default": ABSENT["reason"]}
    assert sum(int(row[made["plan"]["columns"].index("trials")]) for row in made["plan"]["rows"]) == 306


def test_its_verdicts_are_those_of_the_analysis(folder: Path, found: dict[str, Any]) -> None:
    contrasts = api.contrasts(session_data.open_session(folder))
    rows = contrasts[contrasts["metric"].isin(["events_per_s", "requests_per_s"])]
    made = found["verdicts"]
    columns = dict(zip(made["columns"], zip(*made["rows"], strict=True), strict=True))
    assert list(columns["system"]) == list(rows["system"])
    assert [verdict.partition(" (")[0] for verdict in columns["verdict"]] == list(rows["verdict"])
    assert [float(ratio) for ratio in columns["ratio"]] == pytest.approx(list(rows["ratio"]), abs=5e-3)
    assert set(columns["better"]) == {"higher"}


def test_it_says_why_it_has_no_verdict_as_the_notebook_does(folder: Path, found: dict[str, Any]) -> None:
    opened = session_data.open_session(folder)
    compared = api.results(opened)
    bare = replace(compared, contrasts=compared.contrasts[:0])
    none = session_tables.make_abstract(opened, bare)["none"]
    assert none == "No scenario with a primary metric was tried on native and on another system."
    assert sections.answer(bare).text.startswith(none)
    assert found["none"] == ""


def test_missing_trials_are_planned_and_not_recorded_and_those_of_a_discarded_block_neither(tmp_path: Path) -> None:
    made = session(tmp_path / "s")
    for path in sorted((made / "trials").iterdir())[:5]:
        (path / "trial.json").unlink()
        path.rmdir()
    assert [told(made)[name] for name in ("planned", "recorded")] == [306, 301]
    made = session(tmp_path / "discarded")
    (made / "blocks").mkdir()
    note = {"block": 2, "reason": "interrupted for an hour", "trials": [], "adds": []}
    (made / "blocks/00002-discarded.json").write_text(json.dumps(note))
    assert [told(made)[name] for name in ("planned", "recorded")] == [255, 255]
    assert told(made)["discarded"]["rows"]


def test_pooled_sessions_whose_trials_have_equal_ids_keep_them_all(folder: Path) -> None:
    one = session_data.open_session(folder)
    two = replace(one, table=pd.concat([one.table, one.table.assign(session="again")], ignore_index=True))
    for counted in (session_tables.validity_table, session_tables.reasons_table):
        alone, pooled = (counted(each).select_dtypes("number") for each in (one, two))
        assert alone.to_numpy().sum() > 0
        pd.testing.assert_frame_equal(pooled, 2 * alone)


def test_blocks_of_pooled_sessions_are_counted_each_those_without_a_record_too(tmp_path: Path) -> None:
    for name in ("one", "two"):
        made = session(tmp_path / name)
        for trial in records.read_plan(made):
            if trial.block == 5:
                shutil.rmtree(made / "trials" / trial.id)
    pooled = session_data.pool([tmp_path / "one", tmp_path / "two"])
    assert pooled.missing.groupby("session").size().to_dict() == {"one": 51, "two": 51}
    plan = session_tables.make_abstract(pooled, api.results(pooled, str(tmp_path)))["plan"]
    assert {row[plan["columns"].index("blocks")] for row in plan["rows"]} == {"12"}


def test_what_pooled_sessions_were_asked_for_is_that_of_all(tmp_path: Path) -> None:
    for name, seed, other in (
        ("one", 7, {}),
        ("two", 9, {"order": "adjacent", "deployments": 3, "created_utc": "2025-12-31T00:00:00.000Z",
                    "site": {"name": "rack", "kind": "lab"}}),
    ):  # fmt: skip
        path = write_session(tmp_path / name, blocks=2, seed=seed) / "session.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | other))
    pooled = session_data.pool([tmp_path / "one", tmp_path / "two"])
    made = session_tables.make_abstract(pooled, api.results(pooled, str(tmp_path)))
    assert {key: made[key] for key in ("profile", "blocks", "deployments", "order", "seed", "created_utc", "site")} == {
        "profile": "quick", "blocks": 4, "deployments": 4, "order": "random and adjacent", "seed": "7 and 9",
        "created_utc": "2025-12-31T00:00:00.000Z", "site": {"name": "lab and rack", "kind": "lab"},
    }  # fmt: skip


def test_only_a_notebook_is_told(
    folder: Path, found: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    session_tables.results(session_data.open_session(folder))
    assert capsys.readouterr().out == ""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    shell = InteractiveShell.instance()
    try:
        with capture_output() as captured:
            assert len(session_tables.results(session_data.open_session(folder)).contrasts)
        outputs = [{"data": each.data} for each in captured.outputs]
    finally:
        shell.clear_instance()
    assert session_tables.find_abstracts(outputs) == [found]
    assert outputs[0]["data"]["text/plain"] == "s: containers, profile quick, site lab; 306 of 306 trials, 299 valid"


def test_of_the_same_session_the_last_one_counts(found: dict[str, Any]) -> None:
    ones = [found | {"name": name, "ok": ok} for name, ok in (("a", 1), ("b", 2), ("a", 3))]
    outputs = [{"data": {session_tables.MIME: each}} for each in ones]
    assert [each["ok"] for each in session_tables.find_abstracts([*outputs, {"text": "x"}])] == [3, 2]


def test_what_another_version_wrote_is_no_abstract(found: dict[str, Any]) -> None:
    other = [{key: value for key, value in found.items() if key != gone} for gone in found]
    columns = {**found["verdicts"], "columns": found["verdicts"]["columns"][1:]}
    other += [found | {"format": 2}, found | {"systems": "lxc"}, found | {"verdicts": columns}, found | {"plan": []}]
    other += [found | {"sessions": []}, *(found | {name: "3"} for name in ("planned", "recorded", "ok"))]
    for each in (*other, "x", None):
        assert session_tables.find_abstracts([{"data": {session_tables.MIME: each}}]) == []


def test_what_is_missing_is_an_empty_text() -> None:
    frame = pd.DataFrame({"a": [1, None], "b": [None, "x"]}).rename_axis("row")
    assert session_tables.split(frame) == {"columns": ["row", "a", "b"], "rows": [["0", "1.0", ""], ["1", "", "x"]]}


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    made = write_session(tmp_path / "s", blocks=2, systems=("native", "docker"), not_run={}, faults=False)
    data = json.loads((made / "session.json").read_text())
    (made / "session.json").write_text(json.dumps({**data, "parameters": {}}))
    return made


def deployments(folder: Path, number: int, policy: str) -> None:
    (folder / "provenance").mkdir(exist_ok=True)
    facts = {"capabilities": {"network_policy": policy, "mtu": 1450}}
    said = {"native": {"facts": {}, "tools": {}}, "docker": {"facts": facts, "tools": {}}}
    name = f"deployments{f'.resumed-{number}' if number else ''}.json"
    (folder / "provenance" / name).write_text(json.dumps(said))


def test_what_every_deployment_said_of_itself_is_shown(plain: Path) -> None:
    deployments(plain, 0, "enforced")
    deployments(plain, 1, "enforced")
    table = session_tables.capabilities_table(session_data.open_session(plain))
    assert list(table.columns) == ["docker"]
    assert table["docker"].to_dict() == {
        "network_policy": "enforced", "mtu": "1450", "made ready and checked (times)": "2",
    }  # fmt: skip
    deployments(plain, 2, "not enforced")
    table = session_tables.capabilities_table(session_data.open_session(plain))
    assert table.loc["network_policy", "docker"] == "enforced / not enforced"
    again = shutil.copytree(plain, plain.with_name("again"))
    pooled = session_tables.capabilities_table(session_data.pool([plain, again]))
    assert pooled["docker"].tolist() == ["enforced / not enforced", "1450", "6"]


def test_hosts_and_systems_of_pooled_sessions_have_a_row_for_each_answer(plain: Path) -> None:
    folders = [plain, *(shutil.copytree(plain, plain.with_name(name)) for name in ("t", "u"))]
    for folder, docker, uptime_s in zip(folders, ("28", "", "29"), (5, 5, 7), strict=True):
        (folder / "provenance").mkdir()
        said = {"native": {"facts": {}, "tools": {"fio": "3.36"}}}
        said |= {"docker": {"facts": {"version": docker}, "tools": {"fio": "3.36"}}} if docker else {}
        (folder / "provenance/deployments.json").write_text(json.dumps(said))
        (folder / "provenance/server.json").write_text(json.dumps({"hostname": "here", "uptime_s": uptime_s}))
    pooled = session_data.pool(folders, stamped=True)
    assert session_tables.split(session_tables.deployments_table(pooled)) == {
        "columns": ["field", "session", "native", "docker"],
        "rows": [
            ["in sessions", "", "all", "s, u"], ["tools.fio", "all", "3.36", "3.36"], ["version", "s", "", "28"],
            ["version", "u", "", "29"],
        ],
    }  # fmt: skip
    assert session_tables.split(session_tables.provenance_table(pooled)) == {
        "columns": ["field", "session", "server"],
        "rows": [["hostname", "all", "here"], ["uptime_s", "s, t", "5"], ["uptime_s", "u", "7"]],
    }
    told = sections.fold_provenance(pooled).text
    assert told.startswith("Measured at lab (lab) from 2026-01-01 00:00 UTC, in 3 sessions: ")
    assert "What each host says, a line where all sessions say the same, and else one for each answer:" in told
    alone = session_tables.provenance_table(session_data.open_session(plain))
    assert session_tables.split(alone) == {
        "columns": ["field", "server"], "rows": [["hostname", "here"], ["uptime_s", "5"]],
    }  # fmt: skip


def test_a_session_that_says_no_capabilities_and_claims_no_path_has_empty_tables(plain: Path) -> None:
    opened = session_data.open_session(plain)
    assert session_tables.capabilities_table(opened).empty
    assert session_tables.paths_table(opened).empty


def changed(folder: Path, how: dict[str, object], claims: tuple[dict[str, object], ...], system: str) -> None:
    """Give the web trials of one system steps that claim a path."""
    for record in records.read_trials(folder):
        if (record.trial.workload, record.trial.scenario, record.trial.system) == ("web", "users=1000", system):
            steps = tuple(
                {"name": f"step-{i}", "argv": ["env", _counters.CLAIM + json.dumps(claim), "cat"]}
                for i, claim in enumerate(claims)
            )
            path = folder / "trials" / record.trial.id / "trial.json"
            path.write_text(json.dumps(replace(record, steps=steps, **how).as_json()))  # type: ignore[arg-type]


def test_trials_that_were_held_against_their_path_are_counted(plain: Path) -> None:
    changed(plain, {}, CLAIMS, "native")
    lost = {"state": "invalid", "reason": "eth0 carried it", "measurements": (), "conditions": {"invalid": []}}
    changed(plain, lost, CLAIMS, "docker")
    table = session_tables.paths_table(session_data.open_session(plain)).set_index("system")
    assert table.loc["native"].to_dict() == {
        "workload": "web", "scenario": "users=1000", "ok": 2, "checked": 2, "another path": 0, "carried": "net1",
        "quiet": "eth0", "on the nodes": "worker1 eth0, worker1 flannel.1",
    }  # fmt: skip
    assert table.loc["docker", ["ok", "checked", "another path"]].tolist() == [0, 0, 2]
    again = shutil.copytree(plain, plain.with_name("again"))
    pooled = session_tables.paths_table(session_data.pool([plain, again])).set_index("system")
    assert pooled.loc["docker", ["ok", "checked", "another path"]].tolist() == [0, 0, 4]


def test_a_trial_that_a_guard_spoilt_took_no_other_path_and_one_without_devices_was_not_checked(plain: Path) -> None:
    spoilt = {"state": "invalid", "reason": "steal", "conditions": {"invalid": ["steal 0.5 > 0.02"]}}
    changed(plain, spoilt, CLAIMS, "docker")
    changed(plain, {}, ({**CLAIMS[0], "device": None, "devices": {}},), "native")
    table = session_tables.paths_table(session_data.open_session(plain)).set_index("system")
    assert table.loc["docker", ["ok", "checked", "another path"]].tolist() == [0, 0, 0]
    assert table.loc["native", ["ok", "checked", "another path"]].tolist() == [2, 0, 0]


def test_what_a_system_can_do_in_parts_is_one_row_a_part(tmp_path: Path) -> None:
    opened = session_data.open_session(storage_fixtures.write_session(tmp_path / "s", profile="smoke"))
    table = session_tables.capabilities_table(opened)
    assert table.loc[["throttle_open.osd_max_backfills", "osd_class"], "ceph"].tolist() == ["8", "hdd"]
    assert table.loc["throttle_open.osd_recovery_sleep"].tolist() == ["", "0"]
