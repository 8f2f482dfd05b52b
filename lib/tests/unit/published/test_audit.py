from __future__ import annotations

import re
from string import Formatter

import pandas as pd
import pytest

from infrabench.analysis.published.comparison import targets
from infrabench.analysis.published.findings import KINDS, VERDICTS, facts, outcomes, recompute, tally
from infrabench.analysis.published.findings import audit as audited
from infrabench.analysis.published.printed_numbers import SOURCES, filled, numbers, published, read_toml
from infrabench.core import SchemaError

# what may stand in a sentence with a digit in it: places, references, names; anything else is a number and computed
NAMES = re.compile(
    r"(sec|Table|Tabel|Figures?|figures|table|Gambar|eq\.|conclusion) \(?[IVX\d.A-E]+\)?( to [\d.]+)?|\[\d+\]|SHA-256|"
    r"\b00[0-4]\b|\b[A-E]\d{1,2}\b|\(\d+, \d+\)|1999-06|2020|et al\. \d{4}|Belli 2015|rule 4|10⁶|iperf3"
)


def fields(template: str) -> list[str]:
    """Return the names in a template."""
    return [name for _, name, _, _ in Formatter().parse(template) if name is not None]


def words(template: str) -> str:
    """Return a template's own text, without its fields."""
    return "".join(text for text, *_ in Formatter().parse(template))


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return audited()


def test_every_inconsistency_is_there(table: pd.DataFrame) -> None:
    expected = [f"{letter}{i}" for letter, n in zip("ABCDE", (35, 12, 14, 15, 9), strict=True) for i in range(1, n + 1)]
    assert list(table["id"]) == expected
    assert set(table["kind"]) == set(KINDS)
    assert set(table["verdict"]) == set(VERDICTS)
    assert not (table[["claim", "recomputed", "consequence", "where"]] == "").any(axis=None)


def test_editorial_findings_are_called_so(table: pd.DataFrame) -> None:
    assert (table.loc[table["kind"] == "E", "verdict"] == "editorial").all()
    assert (table.loc[table["kind"] == "C", "verdict"] != "editorial").all()


def test_arithmetic_has_inputs_and_text_has_words(table: pd.DataFrame) -> None:
    known = set(published()["id"])
    for row in table.itertuples():
        inputs = set(filter(None, row.inputs.split("; ")))
        assert inputs <= known
        assert (row.basis == "arithmetic") == bool(recompute(row.id))
        assert inputs or row.evidence, row.id
    assert (table["basis"] == "arithmetic").sum() >= 45


def test_inputs_are_those_that_were_read(table: pd.DataFrame) -> None:
    row = table.set_index("id").loc["A17"]
    assert set(row["inputs"].split("; ")) == {
        *(f"A.mail.decrease.{engine}.000" for engine in ("docker", "lxc", "lxd")),
        "A.mail.spread.bound.containers.000",
    }
    assert row["where"] == "000 sec 3.3, sec 4, item 4"


def test_no_number_is_typed_in_a_sentence() -> None:
    data = read_toml("audit.toml")
    texts = [each[name] for each in data["finding"] for name in ("claim", "recomputed", "consequence")]
    texts += [text for each in data["outcome"] for kind in ("survives", "falls", "undecided") for text in each[kind]]
    texts += [note for target in targets() for note in target.notes.values()]
    assert [text for text in texts if re.search(r"\d", NAMES.sub("", words(text)))] == []


def test_a_changed_number_changes_the_sentence() -> None:
    rows = published()
    rows.loc[rows["id"] == "A.mail.decrease.docker.000", ["printed", "value"]] = ["3.85", 3.85]
    changed = audited(known=numbers(rows, facts())).set_index("id")["recomputed"]
    assert changed["A17"].startswith("3.85 - 1.85 = 2.00")
    assert changed["A16"].startswith("The largest value is 3.85 %")


def test_by_study(table: pd.DataFrame) -> None:
    assert set(audited("C")["id"]) == {f"C{i}" for i in range(1, 15)}
    assert set(table.loc[table["id"].str.startswith("E"), "study"]) == {"A"}
    with pytest.raises(SchemaError, match="there are A, B, C, D"):
        audited("X")


def test_tally_counts_all(table: pd.DataFrame) -> None:
    counts = tally(table)
    assert counts[list(VERDICTS)].to_numpy().sum() == 85
    assert list(counts.columns) == ["study", "kind", *VERDICTS]


@pytest.mark.parametrize("study", "ABCD")
def test_outcomes(study: str) -> None:
    found = outcomes(study)
    assert list(found) == ["survives", "falls", "undecided"]
    assert all("{" not in text for texts in found.values() for text in texts)


def test_outcome_of_nothing() -> None:
    with pytest.raises(SchemaError, match="no outcome"):
        outcomes("X")


def test_a_template_names_what_is_lacking() -> None:
    known = numbers(facts={"x": 1.0})
    assert filled("{A.ram.percent.lxd.000} {unit.A.ram.rate.lxd.000} {=a:.1f} {fact.x:.0f}", known, {"a": 2}) == (
        "99.03 Mbps 2.0 1"
    )
    assert fields("{=a:.1f} and {A.b.c}") == ["=a", "A.b.c"]
    with pytest.raises(SchemaError, match="there is a"):
        filled("{=b}", known, {"a": 2})
    with pytest.raises(SchemaError, match="has the id"):
        filled("{A.b.c}", known)


def test_every_finding_is_as_it_must_be() -> None:
    needed, seen = {"id", "kind", "verdict", "claim", "recomputed", "consequence"}, set[str]()
    for each in read_toml("audit.toml")["finding"]:
        assert needed <= set(each) <= needed | {"evidence", "compute"}, each["id"]
        assert each["kind"] in KINDS
        assert each["verdict"] in VERDICTS
        assert {source for source, *_ in each.get("evidence", [])} <= set(SOURCES)
        assert each["id"] not in seen
        seen.add(each["id"])
