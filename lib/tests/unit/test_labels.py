"""What an emulator measured is called so in every table, figure, legend, sentence, status and report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infrabench import cli
from infrabench.analysis import results, session_data
from infrabench.analysis.scenarios import between
from infrabench.analysis.tidy import tidy
from infrabench.core import Case, Request
from infrabench.experiment.design.design import Design
from infrabench.experiment.provenance import labels
from infrabench.ledger.records import read_session
from infrabench.notebook import api, session_figures, session_tables
from tests.support.analysis_fixtures import CASES, results_of, write_session

NAME = "lxc (emulated)"
ABSENT = {"system": "lxc", "workload": "fio", "scenario": "default", "reason": "no such disk"}
CLAIM = session_tables.CLAIM + json.dumps({"device": "eth0", "devices": {"eth0": True}})


def said(folder: Path, name: str, **facts: object) -> None:
    (folder / "provenance").mkdir(exist_ok=True)
    each = {
        "native": {"facts": {"version": "1"}, "tools": {}},
        "lxc": {"facts": {"version": "2", **facts}, "tools": {}},
    }
    (folder / "provenance" / name).write_text(json.dumps(each))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = write_session(tmp_path_factory.mktemp("labels") / "s", blocks=6, not_run={}, faults=False)
    data = json.loads((made / "session.json").read_text())
    more = {"parameters": {}, "left_out": {}, "not_applicable": [ABSENT], "known": [["lxc", "web", "total_s", 1.1]]}
    (made / "session.json").write_text(json.dumps(data | more))
    for path in made.glob("trials/*/trial.json"):  # each claims a path, so that the table of paths has rows
        record = json.loads(path.read_text())
        record["steps"] = [{"name": "claim", "argv": ["env", CLAIM, "cat"]}]
        path.write_text(json.dumps(record))
    said(made, "deployments.json", emulated=False, capabilities={"isolation": "virtual machine"})
    said(made, "deployments.resumed-1.json", emulated=True, capabilities={"isolation": "virtual machine"})
    return made


@pytest.fixture(scope="module")
def found(folder: Path) -> results.Results:
    return results_of(folder, folder / "out")


def test_a_system_that_was_emulated_once_is_called_so(folder: Path) -> None:
    assert labels.of(folder) == {"lxc": NAME}
    session = session_data.open_session(folder)
    assert session.data["systems"] == ["native", "docker", NAME]
    assert set(session.table["system"]) == {"native", "docker", NAME}
    assert session.table["system"].dtype == tidy(folder)["system"].dtype
    assert session.data["known"][0][0] == session.data["not_applicable"][0]["system"] == NAME
    assert read_session(folder)["systems"] == ["native", "docker", "lxc"]  # what is on disk stays


@pytest.mark.parametrize(
    ("facts", "label"),
    [
        ([{"qualifier": "user space"}], "lxc (user space)"),
        ([{"qualifier": "user space"}, {"qualifier": "kernel module"}], "lxc (user space, kernel module)"),
        ([{}, {"qualifier": "user space"}, {"qualifier": "user space"}], "lxc (user space)"),
        ([{"qualifier": "user space", "emulated": True}], "lxc (emulated, user space)"),
        ([{"qualifier": ""}, {"qualifier": None, "emulated": False}], None),
    ],
)
def test_what_a_system_must_not_be_shown_without_is_in_its_name(
    facts: list[dict[str, object]], label: str | None, tmp_path: Path
) -> None:
    for number, each in enumerate(facts):
        said(tmp_path, f"deployments{f'.resumed-{number}' if number else ''}.json", **each)
    assert labels.of(tmp_path) == ({"lxc": label} if label else {})


def test_a_system_that_was_not_keeps_its_name(folder: Path, tmp_path: Path) -> None:
    plain = write_session(tmp_path / "s", blocks=1, faults=False)
    (plain / "session.json").write_text(json.dumps(read_session(plain) | {"parameters": {}}))
    assert labels.of(plain) == {}
    said(plain, "deployments.json", emulated=False)
    session = session_data.open_session(plain)
    assert labels.of(plain) == {}
    assert session.table.equals(tidy(plain))
    assert session.data == read_session(plain)


@pytest.mark.parametrize(
    "kind", ["estimates", "contrasts", "results", "interactions", "trends", "tiers", "diagnostics"]
)
def test_every_table_says_so(found: results.Results, kind: str) -> None:
    told = results.table(found, kind)
    assert NAME in told.text
    assert NAME in told.html
    alone = [line for line in told.text.splitlines() if "lxc" in line.replace(NAME, "")]
    assert alone == []


@pytest.mark.parametrize("kind", ["points", "forest", "tiers", "order"])  # of every frame that a figure is made of
def test_every_figure_says_so(found: results.Results, kind: str) -> None:
    scenario = "users=3000" if kind == "order" else ""
    session_figures.figure(found, kind, "web", "requests_per_s", scenario=scenario)
    made = max((found.folder / "figures").rglob(f"{kind}-*.svg"), key=lambda path: path.stat().st_mtime)
    text = made.read_text()
    assert "(emulated)" in text
    assert ">lxc<" not in text


def test_sentences_say_so(found: results.Results) -> None:
    assert f"users=3000, {NAME}: " in results.findings(found, "web", "requests_per_s").text
    assert NAME in results.summary(found).text
    assert f"{NAME} at default: no such disk" in results.findings(found, "fio", "read_B_per_s").text
    turned = between(found, "web", "users=1000", ["users=2000"], "v")
    assert f"{NAME}, users=2000: " in results.findings(turned, "web", "total_s").text


def test_what_a_session_says_of_itself_says_so(folder: Path) -> None:
    session = session_data.open_session(folder)
    assert NAME in set(session_tables.validity_table(session)["system"])
    assert list(session_tables.deployments_table(session).columns) == ["native", NAME]
    assert list(session_tables.capabilities_table(session).columns) == [NAME]
    assert set(session_tables.paths_table(session)["system"]) == {"native", "docker", NAME}


def test_status_and_the_abstract_for_the_report_say_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["session", "list", str(folder)]) == 0
    told = capsys.readouterr().out
    assert f"  {NAME}: " in told
    assert f"  {NAME}, fio default: not run: no such disk" in told
    session = session_data.open_session(folder)
    made = session_tables.make_abstract(session, api.results(session))
    assert made["systems"] == ["native", "docker", NAME]
    assert NAME in {row[made["verdicts"]["columns"].index("system")] for row in made["verdicts"]["rows"]}
    assert made["not_run"][f"{NAME}, fio default"] == "no such disk"
    assert '"lxc"' not in json.dumps(made)


def test_systems_are_asked_for_by_their_plain_names(folder: Path) -> None:
    cases = tuple(Case(*case[:2]) for case in CASES)
    wanted = Design(Request("containers", "quick"), 6, ("docker", "lxc"), cases, 7, baseline="lxc")
    narrowed = api._narrowed(session_data.open_session(folder), wanted)
    assert set(narrowed.table["system"]) == {"docker", NAME}
    assert narrowed.data["baseline"] == NAME
    assert narrowed.data["not_applicable"] == []
