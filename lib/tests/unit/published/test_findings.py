"""The findings: all there, with inputs or words, and no number of their own in a sentence."""

from __future__ import annotations

import re
from dataclasses import replace

import pandas as pd
import pytest

from infrabench.analysis.published.findings import KINDS, OUTCOMES, VERDICTS, outcomes, recompute, tally
from infrabench.analysis.published.findings import audit as audited
from infrabench.analysis.published.formulas import FIELD, filled
from infrabench.analysis.published.printed_numbers import numbers, papers, published, read_toml
from infrabench.core import SchemaError

# what may stand in a sentence with a digit in it: places, references, names; anything else is a number and computed
NAMES = re.compile(
    r"(sec|Table|Tabel|Figures?|figures|table|Gambar|eq\.|conclusion) \(?[IVX\d.A-E]+\)?( to [\d.]+)?|\[\d+\]|SHA-256|"
    r"\b00[0-4]\b|\b[A-E]\d{1,2}\b|\(\d+, \d+\)|1999-06|2020|et al\. \d{4}|Belli 2015|rule 4|10⁶|iperf3"
)
SENTENCES = ("claim", "recomputed", "consequence")


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return audited()


def test_every_inconsistency_is_there_and_is_as_it_must_be(table: pd.DataFrame) -> None:
    expected = [f"{letter}{i}" for letter, n in zip("ABCDE", (35, 12, 14, 15, 9), strict=True) for i in range(1, n + 1)]
    assert list(table["id"]) == expected
    assert set(table["kind"]) == set(KINDS)
    assert set(table["verdict"]) == set(VERDICTS)
    assert not (table[[*SENTENCES, "where"]] == "").any(axis=None)
    assert (table.loc[table["kind"] == "E", "verdict"] == "editorial").all()
    assert (table.loc[table["kind"] == "C", "verdict"] != "editorial").all()
    needed = {"id", "kind", "verdict", *SENTENCES}
    for each in read_toml("audit.toml")["finding"]:
        assert needed <= set(each) <= needed | {"evidence", "compute"}, each["id"]
        assert {source for source, *_ in each.get("evidence", [])} <= set(papers()["source"])
    assert tally(table)[list(VERDICTS)].to_numpy().sum() == len(expected)


def test_arithmetic_has_inputs_and_text_has_words(table: pd.DataFrame) -> None:
    known = set(published()["id"])
    for row in table.itertuples():
        inputs = set(filter(None, row.inputs.split("; ")))
        assert inputs <= known
        assert (row.basis == "arithmetic") == bool(recompute(row.id))
        assert inputs or row.evidence, row.id
    assert (table["basis"] == "arithmetic").sum() >= 45
    one = table.set_index("id").loc["A17"]
    read = {*(f"A.mail.decrease.{engine}.000" for engine in ("docker", "lxc", "lxd"))}
    assert set(one["inputs"].split("; ")) == read | {"A.mail.spread.bound.containers.000"}
    assert one["where"] == "000 sec 3.3, sec 4, item 4"


def test_no_number_is_typed_in_a_sentence() -> None:
    data = read_toml("audit.toml")
    texts = [each[name] for each in data["finding"] for name in SENTENCES]
    texts += [text for each in data["outcome"] for kind in OUTCOMES for text in each[kind]]
    texts += read_toml("targets.toml")["notes"].values()
    assert len(texts) > 300
    assert [text for text in texts if re.search(r"\d", NAMES.sub("", FIELD.sub("", text)))] == []


def test_a_changed_number_changes_the_sentence() -> None:
    known, name = numbers(), "A.mail.decrease.docker.000"
    other = known.rows[name]._replace(printed="3.85", value=3.85)
    changed = audited(known=replace(known, rows={**known.rows, name: other})).set_index("id")["recomputed"]
    assert changed["A17"].startswith("3.85 - 1.85 = 2.00")
    assert changed["A16"].startswith("The largest value is 3.85 %")


def test_a_study_has_its_own_findings_and_outcomes(table: pd.DataFrame) -> None:
    assert set(audited("C")["id"]) == {f"C{i}" for i in range(1, 15)}
    assert set(table.loc[table["id"].str.startswith("E"), "study"]) == {"A"}
    with pytest.raises(SchemaError, match="there are A, B, C, D"):
        audited("X")
    for study in "ABCD":
        found = outcomes(study)
        assert list(found) == list(OUTCOMES)
        assert all("{" not in text for texts in found.values() for text in texts)
    with pytest.raises(SchemaError, match="no outcome"):
        outcomes("X")


def test_a_template_names_what_is_lacking() -> None:
    known = numbers()
    template = "{A.ram.percent.lxd.000} {unit.A.ram.rate.lxd.000} {=a:.1f} {fact.cpu_threads:.1f}"
    assert filled(template, known, {"a": 2}) == "99.03 Mbps 2.0 4.0"
    for lacking, said in (("{=b}", "there is a"), ("{A.b.c}", "has the id"), ("{fact.b}", "there is cpu_threads")):
        with pytest.raises(SchemaError, match=said):
            filled(lacking, known, {"a": 2})
