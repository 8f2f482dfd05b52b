"""A session as files for other tools: one table in every form, described as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from scipy.stats import hmean

from infrabench import cli, registry
from infrabench.analysis.columns import AVERAGES, DICTIONARY, FORMS
from infrabench.analysis.export import export, package_of
from infrabench.analysis.session_data import Session, open_session, pool
from infrabench.analysis.tidy import DTYPES, SCHEMA, check
from infrabench.core import DesignError
from infrabench.core.workloads import Kind
from infrabench.ledger import catalogue
from infrabench.stats import estimates
from infrabench.stats.table import CASE
from tests.support.analysis_fixtures import read_table, write_session
from tests.support.checks import check_each
from tests.support.places import ROOT

# What the values of a type of Table Schema look like in a file.
LOOKS = {
    "string": r".+", "integer": r"-?\d+", "number": r"-?\d+(\.\d+)?([eE][+-]?\d+)?",
    "datetime": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z",
}  # fmt: skip


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """A session with failed, invalid and missing trials."""
    return open_session(write_session(tmp_path_factory.mktemp("runs") / "s1", blocks=3, skip_last=5))


def of_table(session: Session, table: pd.DataFrame) -> Session:
    return Session(session.folder, session.data, check(table), session.missing)


def read(path: Path) -> pd.DataFrame:
    """Return an exported table as another tool would have it."""
    if path.suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        return pd.DataFrame(rows, columns=list(DTYPES)).astype(DTYPES)
    return read_table(path)


def described(path: Path) -> dict[str, Any]:
    (resource,) = json.loads(package_of(path).read_text())["resources"]
    return resource


@pytest.mark.parametrize("form", FORMS)
def test_every_table_is_the_tidy_one_and_twice_the_same_bytes(session: Session, tmp_path: Path, form: str) -> None:
    first, second = (export(session, form, tmp_path / name / f"t.{form}") for name in ("a", "b"))
    pd.testing.assert_frame_equal(read(first), session.table, check_exact=True)
    assert first.read_bytes() == second.read_bytes()
    assert package_of(first).read_bytes() == package_of(second).read_bytes()


@pytest.mark.parametrize("form", FORMS)
def test_texts_that_trouble_readers_come_back(session: Session, tmp_path: Path, form: str) -> None:
    texts = ['a "quoted", cut\nline\r\ttab', "=1+1", "\\", "null", "NA", "Größe µ\u2028x"]
    # a workload may be called "null"; a CSV reader's defaults would lose it
    table = session.table.head(len(texts)).assign(reason=texts, workload="null")
    back = read(export(of_table(session, table), form, tmp_path / f"t.{form}"))
    assert list(back["reason"]) == texts
    assert set(back["workload"]) == {"null"}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("states", [(), ("failed", "invalid")])
def test_a_session_without_a_value_is_exported_too(
    session: Session, tmp_path: Path, form: str, states: tuple[str, ...]
) -> None:
    table = session.table[session.table["state"].isin(states)].reset_index(drop=True)
    path = export(of_table(session, table), form, tmp_path / f"t.{form}")
    pd.testing.assert_frame_equal(read(path), table)
    assert json.loads(package_of(path).read_text())["infrabench"]["metrics"] == []


def _recorded() -> list[str]:
    """Return the recorded session of every study."""
    return [name for study in registry.names("studies") for name in catalogue.recorded(study)]


def test_the_dictionary_says_what_the_recorded_session_of_every_study_writes(tmp_path: Path) -> None:
    def check_one(name: str) -> None:
        opened = open_session(catalogue.find(None, name))
        path = export(opened, "csv", tmp_path / f"{name}.csv")
        resource = described(path)
        assert resource["bytes"] == len(path.read_bytes())
        assert resource["hash"] == f"sha256:{sha256(path.read_bytes()).hexdigest()}"
        assert (path.parent / resource["path"]).samefile(path)
        text = pd.read_csv(path, dtype="str", keep_default_na=False)
        fields = resource["schema"]["fields"]
        assert [field["name"] for field in fields] == list(text.columns) == [each.name for each in DICTIONARY]
        for field in fields:
            cells, rules = set(text[field["name"]]), field.get("constraints", {})
            assert not (rules.get("required") and "" in cells), field
            assert all(re.fullmatch(LOOKS[field["type"]], cell, re.DOTALL) for cell in cells - {""}), field
            assert cells - {""} <= {*rules.get("enum", cells)}, field
        about = json.loads(package_of(path).read_text())["infrabench"]
        assert sum(about["trials"].values()) == opened.table["trial"].nunique()
        assert about["missing"] == len(opened.missing)

    check_each(check_one, _recorded())


def test_means_as_the_dictionary_says_are_those_of_the_analysis(tmp_path: Path) -> None:
    assert set(AVERAGES) == set(get_args(Kind))

    def check_one(name: str) -> None:
        opened = open_session(catalogue.find(None, name))
        path = export(opened, "jsonl", tmp_path / f"{name}.jsonl")
        metrics = json.loads(package_of(path).read_text())["infrabench"]["metrics"]
        average = {
            (each["workload"], scenario, each["metric"]): each["average"].split()[0]
            for each in metrics for scenario in each["scenarios"]
        }  # fmt: skip
        values = read(path).dropna(subset="value").groupby([*CASE, "system"])[["deployment", "value"]]
        for row in estimates(opened.table, opened.missing).dropna(subset="mean").itertuples():
            cell = values.get_group((row.workload, row.scenario, row.metric, row.system))
            mean = hmean if average[row.workload, row.scenario, row.metric] == "harmonic" else np.mean
            by_deployment = [mean(own) for _, own in cell.groupby("deployment")["value"]]
            assert row.mean == pytest.approx(mean(by_deployment), rel=1e-9), row

    check_each(check_one, _recorded())


def test_every_column_has_a_meaning_and_numbers_have_their_unit() -> None:
    assert all(len(each.meaning.split()) >= 3 for each in DICTIONARY)
    assert all(each.unit == "s" for each in DICTIONARY if each.name.endswith("_s"))
    assert next(each.unit for each in DICTIONARY if each.name == "value") == "as in column unit"


def test_parquet_has_the_dictionary_in_its_schema(session: Session, tmp_path: Path) -> None:
    path = export(session, "parquet", tmp_path / "t.parquet")
    schema = pq.read_schema(path)
    assert schema.equals(SCHEMA)
    for column, field in zip(DICTIONARY, schema, strict=True):
        assert field.metadata[b"description"].decode() == column.meaning
        assert field.metadata.get(b"unit", b"").decode() == column.unit
    about = json.loads(schema.metadata[b"infrabench"])
    assert about["trials"] == {"failed": 3, "invalid": 1, "ok": len(set(session.table["trial"])) - 4}
    assert about["missing"] == 5
    assert about["baseline"] == "native"


def test_nothing_is_exported_that_the_session_and_the_dictionary_do_not_say(session: Session, tmp_path: Path) -> None:
    known = {session.folder.name, *(str(cell) for column in session.table for cell in session.table[column])}
    for form in FORMS:
        path = export(session, form, tmp_path / f"t.{form}")
        texts = package_of(path).read_text() + ("" if form == "parquet" else path.read_text())
        assert str(tmp_path) not in texts
        assert str(ROOT) not in texts
        assert str(session.folder.parent) not in texts
        about = json.loads(package_of(path).read_text())["infrabench"]
        assert {*about["sessions"], about["study"], about["baseline"]} <= known


def test_pooled_sessions_are_one_table_that_needs_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(catalogue.VARIABLE, str(tmp_path))
    parts = [write_session(tmp_path / name, blocks=1, seed=seed) for name, seed in (("s1", 1), ("s2", 2))]
    both = pool(parts, stamped=True)
    with pytest.raises(DesignError, match="name the file"):
        export(both)
    path = export(both, "csv", tmp_path / "both.csv")
    assert set(read_table(path)["session"]) == {"s1", "s2"}
    assert json.loads(package_of(path).read_text())["infrabench"]["sessions"] == ["s1", "s2"]


def test_a_file_is_replaced_whole_or_not(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill_disk(table: pd.DataFrame) -> Iterator[str]:
        yield "{}"
        raise OSError("No space left")

    monkeypatch.setattr("infrabench.analysis.export._render_rows", fill_disk)
    path = tmp_path / "t"
    path.write_text("before")
    with pytest.raises(OSError, match="No space left"):
        export(session, "jsonl", path)
    assert [each.name for each in tmp_path.iterdir()] == ["t"]
    assert path.read_text() == "before"


def test_a_session_is_never_written_to(session: Session, tmp_path: Path) -> None:
    for inside in (session.folder / "t.csv", session.folder / "new" / "t.csv"):
        with pytest.raises(DesignError, match="holds nothing but what was recorded"):
            export(session, "csv", inside)
    with pytest.raises(DesignError, match="is a folder"):
        export(session, "csv", tmp_path)
    with pytest.raises(DesignError, match="did you mean parquet"):
        export(session, "parket", tmp_path / "t")


def test_the_command_writes_each_form_and_says_what_is_in_it(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(catalogue.VARIABLE, str(tmp_path))
    for form in FORMS:
        assert cli.main(["session", "export", str(session.folder), "--as", form]) == 0
        first, *more = capsys.readouterr().out.splitlines()
        path = tmp_path / f"out/export/s1.{form}"
        counts = "3 failed, 1 invalid, 144 ok, 5 missing"
        assert first == f"{path}: {len(session.table)} rows; trials: {counts}"
        assert more == [f"{package_of(path)}: what the columns are"]
    assert cli.main(["session", "export", str(session.folder), "-o", str(tmp_path / "x.txt")]) == 0
    assert read_table((tmp_path / "x.txt").rename(tmp_path / "x.csv")).equals(session.table)


@pytest.mark.parametrize(("words", "said"), [
    (["lab-quick-2026-11-runds"], "did you mean lab-quick-2026-11-rounds"),
    (["s1", "--as", "xls"], "choose from csv, parquet"),
])  # fmt: skip
def test_a_wrong_name_gets_the_right_ones(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = cli.main(["session", "export", *words])
    except SystemExit as stop:
        status = stop.code
    assert status == 2
    assert said in capsys.readouterr().err.replace("'", "")
