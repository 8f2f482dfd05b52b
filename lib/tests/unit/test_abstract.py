"""What a notebook says of its session, as data in its output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from infrabench.analysis import session_data
from infrabench.notebook import api, session_summary
from tests.support.report_fixtures import ABSENT, session, told


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
    assert session_summary.line(made) == "s: containers, profile quick, site lab; 306 of 306 trials, 299 valid"


def test_its_verdicts_are_those_of_the_analysis(folder: Path, found: dict[str, Any]) -> None:
    contrasts = api.contrasts(session_data.open_session(folder))
    rows = contrasts[contrasts["metric"].isin(["events_per_s", "requests_per_s"])]
    made = found["verdicts"]
    columns = dict(zip(made["columns"], zip(*made["rows"], strict=True), strict=True))
    assert list(columns["system"]) == list(rows["system"])
    assert [verdict.partition(" (")[0] for verdict in columns["verdict"]] == list(rows["verdict"])
    assert [float(ratio) for ratio in columns["ratio"]] == pytest.approx(list(rows["ratio"]), abs=5e-3)
    assert set(columns["better"]) == {"higher"}


def test_missing_trials_are_planned_and_not_recorded(tmp_path: Path) -> None:
    folder = session(tmp_path / "s")
    for path in sorted((folder / "trials").iterdir())[:5]:
        (path / "trial.json").unlink()
        path.rmdir()
    made = told(folder)
    assert (made["planned"], made["recorded"]) == (306, 301)


def test_a_discarded_block_is_neither_planned_nor_recorded(tmp_path: Path) -> None:
    folder = session(tmp_path / "s")
    (folder / "blocks").mkdir()
    note = {"block": 2, "reason": "interrupted for an hour", "trials": [], "adds": []}
    (folder / "blocks/00002-discarded.json").write_text(json.dumps(note))
    made = told(folder)
    assert (made["planned"], made["recorded"]) == (255, 255)
    assert made["discarded"]["rows"]


def test_only_a_notebook_is_told(
    folder: Path, found: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    session_summary.publish(found)
    assert capsys.readouterr().out == ""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    shell = InteractiveShell.instance()
    try:
        with capture_output() as captured:
            assert len(session_summary.results(session_data.open_session(folder)).contrasts)
        outputs = [{"data": each.data} for each in captured.outputs]
    finally:
        shell.clear_instance()
    assert session_summary.inside(outputs) == [found]
    assert outputs[0]["data"]["text/plain"] == session_summary.line(found)


def test_of_the_same_session_the_last_one_counts(found: dict[str, Any]) -> None:
    ones = [found | {"name": name, "ok": ok} for name, ok in (("a", 1), ("b", 2), ("a", 3))]
    outputs = [{"data": {session_summary.MIME: each}} for each in ones]
    assert [each["ok"] for each in session_summary.inside([*outputs, {"text": "x"}])] == [3, 2]


def test_what_another_version_wrote_is_no_abstract(found: dict[str, Any]) -> None:
    other = [{key: value for key, value in found.items() if key != gone} for gone in found]
    columns = {**found["verdicts"], "columns": found["verdicts"]["columns"][1:]}
    other += [found | {"format": 2}, found | {"systems": "lxc"}, found | {"verdicts": columns}, found | {"plan": []}]
    for each in (*other, "x", None):
        assert session_summary.inside([{"data": {session_summary.MIME: each}}]) == []


def test_what_is_missing_is_an_empty_text() -> None:
    frame = pd.DataFrame({"a": [1, None], "b": [None, "x"]}).rename_axis("row")
    assert session_summary.split(frame) == {"columns": ["row", "a", "b"], "rows": [["0", "1.0", ""], ["1", "", "x"]]}
