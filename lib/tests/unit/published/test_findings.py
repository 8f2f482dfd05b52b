"""The papers' numbers, each with its place and its words, and the findings: no number of their own in a sentence."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from infrabench.analysis.published import printed_numbers
from infrabench.analysis.published.findings import KINDS, OUTCOMES, VERDICTS, outcomes, recompute, tally
from infrabench.analysis.published.findings import audit as audited
from infrabench.analysis.published.formulas import FIELD, filled
from infrabench.analysis.published.printed_numbers import NO_RESULTS, RoundingSpan, numbers, published, read_toml
from infrabench.core import InfrabenchError, SchemaError

RESULTS = (
    *("mean", "mean of scores", "mean over platforms", "table cell", "single", "not stated"),
    *("minimum over levels", "maximum over levels", "minimum over platforms", "maximum over platforms"),
    *("minimum over cells", "maximum over cells", "minimum of runs", "maximum of runs"),
    *("difference", "ratio", "bound", "threshold", "claim"),
)
STATISTICS = (*RESULTS, *NO_RESULTS)
UNITS = (
    *("", "1", "%", "percentage points", "s", "ms", "min", "GHz", "MHz", "MT/s", "rpm"),
    *("k", "Kb", "KB", "MB", "GB", "TB", "bit", "sectors", "MB/s", "MB/sec", "MBps", "Mbps", "kbps"),
    *("Gb/s", "Gbit/s", "Gbits/sec", "IOPS", "I/Os", "OLTP", "OLTP/s", "VMs", "vCPU", "containers", "devices"),
    *("disks", "files", "messages", "nodes", "port", "rows", "runs", "steps", "threads", "users"),
)
WORDS = {"": 1.0, "juta": 1e6, "milyar": 1e9, "triliyun": 1e12}  # Indonesian words for powers of ten
ID = re.compile(r"[A-D](\.[a-zA-Z0-9][a-zA-Z0-9.\-]*)+")


COLUMNS = (
    *("id", "study", "source", "section", "quote", "platform", "workload", "scenario", "metric"),
    *("unit", "unit_meant", "printed", "value", "statistic", "n", "n_text", "note"),
)


def test_every_row_is_as_it_must_be() -> None:
    table = pd.read_csv(printed_numbers.FOLDER / "published.csv", dtype="str", keep_default_na=False)
    sources = {row.source: (row.study, row.letter) for row in printed_numbers.papers().itertuples()}
    assert tuple(table.columns) == COLUMNS
    assert table["id"].is_unique
    for row in table.itertuples(index=False):
        assert (row.study, row.id[0]) == sources[row.source], row.id
        assert ID.fullmatch(row.id), row.id
        assert row.statistic in STATISTICS, row.id
        assert {row.unit, row.unit_meant} <= set(UNITS), row.id
        assert all(text.strip() for text in (row.printed, row.section, row.quote)), row.id
        assert re.fullmatch(r"\w+", row.metric, re.ASCII), row.id
        # the number of runs, or what the paper says instead
        assert row.n == "" or (re.fullmatch(r"[1-9]\d*", row.n) and row.n_text == ""), row.id
        digits, _, word = row.printed.partition(" ")
        if row.value == "":  # words, or digits that are a name: a version, a model
            assert row.unit == "", row.id
        else:
            assert math.isclose(float(row.value), float(digits) * WORDS[word], rel_tol=1e-12), row.id


def test_the_file_is_complete_and_typed() -> None:
    found = published()
    assert tuple(found.columns) == COLUMNS
    assert set(printed_numbers.papers()["letter"]) == set(printed_numbers.EXPERIMENTS) == {"A", "B", "C", "D"}
    assert found["statistic"].isin(RESULTS).sum() == 227
    assert str(found["n"].dtype) == "Int64"
    assert dict(found.groupby("source").size()) == {"000": 113, "001": 33, "002": 76, "003": 99, "004": 47}
    rows = found.set_index("id")
    assert rows.loc["A.cpu.sysbench-version.003", "printed"] == "0.4.12"
    assert pd.isna(rows.loc["A.cpu.sysbench-version.003", "value"])
    assert rows.loc["D.ycruncher.40.utilisation.containerd.004", "printed"] == "94.90"
    assert rows.loc["A.background.emails-sent.000", "value"] == 12e12
    assert rows.loc["A.iozone.read.rate.docker.000", ["unit", "unit_meant"]].tolist() == ["Mbps", "MB/s"]
    cells = found[found["statistic"] == "table cell"]  # the two container papers print one table
    values = [cells.loc[cells["source"] == source, "printed"].tolist() for source in ("000", "003")]
    assert values[0] == values[1]
    assert len(values[0]) == 24


def test_every_number_stands_in_its_words() -> None:
    in_words = {"A.mail.duration.000", "A.cpu.threads.1.003", "B.setup.worker-nodes.001", "B.setup.master-nodes.001"}
    for row in published().itertuples():
        quote = row.quote.replace(" ", "") if row.metric == "hash" else row.quote
        found = row.printed in quote or row.printed.replace(".", ",") in quote
        assert found != (row.id in in_words), row.id


def test_an_absent_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printed_numbers, "FOLDER", tmp_path)
    with pytest.raises(InfrabenchError, match="is missing"):
        published()


def test_numbers_by_id_are_remembered() -> None:
    known = numbers()
    assert known("C.copy.read.rate.zfs.002") == 23.6
    assert known.span("A.iozone.write.percent.lxc.000") == RoundingSpan(76.5, 77.5)
    assert list(known.used) == ["C.copy.read.rate.zfs.002", "A.iozone.write.percent.lxc.000"]
    assert not known.fresh().used
    with pytest.raises(SchemaError, match=r"no published number has the id 'C\.nothing'"):
        known("C.nothing")
    with pytest.raises(SchemaError, match="is no number"):
        known("C.sha256.after.hash.002")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (RoundingSpan(1, 2) + RoundingSpan(3, 5), RoundingSpan(4, 7)),
        (RoundingSpan(3, 5) - RoundingSpan(1, 2), RoundingSpan(1, 4)),
        (RoundingSpan(1, 2) * RoundingSpan(3, 5), RoundingSpan(3, 10)),
        (RoundingSpan(3, 5) / RoundingSpan(1, 2), RoundingSpan(1.5, 5)),
        (1 - RoundingSpan(1, 2), RoundingSpan(-1, 0)),
        (RoundingSpan(1, 2) - 1.5, RoundingSpan(-0.5, 0.5)),
        (1 + RoundingSpan(1, 2), RoundingSpan(2, 3)),
        (2 * RoundingSpan(1, 2), RoundingSpan(2, 4)),
        (1 / RoundingSpan(1, 2), RoundingSpan(0.5, 1)),
        (RoundingSpan(4, 9) ** 0.5, RoundingSpan(2, 3)),
        (printed_numbers.printed_span("4.0"), RoundingSpan(3.95, 4.05)),
    ],
)
def test_spans_hold_what_the_digits_leave_open(found: RoundingSpan, expected: RoundingSpan) -> None:
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert (found.sign, (-1 * found).sign) == ((1, -1) if expected.low > 0 else (0, 0))


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
        assert {source for source, *_ in each.get("evidence", [])} <= set(printed_numbers.papers()["source"])
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
