"""What a session says of what its systems can do, and of the paths that its trials took."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from infrabench.analysis import session_data
from infrabench.ledger import records
from infrabench.notebook import session_tables
from infrabench.workloads import _network
from tests.support import storage_fixtures
from tests.support.analysis_fixtures import write_session

CLAIMS = (
    {"placement": "two-nodes", "interface": "second", "nodes": 1, "device": "net1",
     "devices": {"eth0": False, "net1": True}},
    {"node": "worker1", "devices": {"uplink": "eth0", "overlay": "flannel.1"}, "counters": 1},
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
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


def test_what_every_deployment_said_of_itself_is_shown(folder: Path) -> None:
    deployments(folder, 0, "enforced")
    deployments(folder, 1, "enforced")
    table = session_tables.capabilities_table(session_data.open_session(folder))
    assert list(table.columns) == ["docker"]
    assert table["docker"].to_dict() == {
        "network_policy": "enforced", "mtu": "1450", "made ready and checked (times)": "2",
    }  # fmt: skip
    deployments(folder, 2, "not enforced")
    table = session_tables.capabilities_table(session_data.open_session(folder))
    assert table.loc["network_policy", "docker"] == "enforced / not enforced"


def test_a_session_without_capabilities_has_an_empty_table(folder: Path) -> None:
    assert session_tables.capabilities_table(session_data.open_session(folder)).empty


def changed(folder: Path, how: dict[str, object], claims: tuple[dict[str, object], ...], system: str) -> None:
    """Give the web trials of one system steps that claim a path."""
    for record in records.read_trials(folder):
        if (record.trial.workload, record.trial.scenario, record.trial.system) == ("web", "users=1000", system):
            steps = tuple(
                {"name": f"step-{i}", "argv": ["env", session_tables.CLAIM + json.dumps(claim), "cat"]}
                for i, claim in enumerate(claims)
            )
            path = folder / "trials" / record.trial.id / "trial.json"
            path.write_text(json.dumps(replace(record, steps=steps, **how).as_json()))  # type: ignore[arg-type]


def test_the_claim_is_the_one_that_workloads_make() -> None:
    assert session_tables.CLAIM == _network.CLAIM


def test_trials_that_were_held_against_their_path_are_counted(folder: Path) -> None:
    changed(folder, {}, CLAIMS, "native")
    lost = {"state": "invalid", "reason": "eth0 carried it", "measurements": (), "conditions": {"invalid": []}}
    changed(folder, lost, CLAIMS, "docker")
    table = session_tables.paths_table(session_data.open_session(folder)).set_index("system")
    assert table.loc["native"].to_dict() == {
        "workload": "web", "scenario": "users=1000", "ok": 2, "checked": 2, "another path": 0, "carried": "net1",
        "quiet": "eth0", "on the nodes": "worker1 eth0, worker1 flannel.1",
    }  # fmt: skip
    assert table.loc["docker", ["ok", "checked", "another path"]].tolist() == [0, 0, 2]


def test_a_trial_that_a_guard_spoilt_took_no_other_path_and_one_without_devices_was_not_checked(folder: Path) -> None:
    spoilt = {"state": "invalid", "reason": "steal", "conditions": {"invalid": ["steal 0.5 > 0.02"]}}
    changed(folder, spoilt, CLAIMS, "docker")
    changed(folder, {}, ({**CLAIMS[0], "device": None, "devices": {}},), "native")
    table = session_tables.paths_table(session_data.open_session(folder)).set_index("system")
    assert table.loc["docker", ["ok", "checked", "another path"]].tolist() == [0, 0, 0]
    assert table.loc["native", ["ok", "checked", "another path"]].tolist() == [2, 0, 0]


def test_workloads_that_claim_no_path_are_not_in_it(folder: Path) -> None:
    assert session_tables.paths_table(session_data.open_session(folder)).empty


def test_what_a_system_can_do_in_parts_is_one_row_a_part(tmp_path: Path) -> None:
    session = session_data.open_session(storage_fixtures.write_session(tmp_path / "s", profile="smoke"))
    told = session_tables.capabilities_table(session)["ceph"]
    assert (told["throttle_open.osd_max_backfills"], told["osd_class"]) == ("8", "hdd")
    assert session_tables.capabilities_table(session).loc["throttle_open.osd_recovery_sleep"].tolist() == ["", "0"]
