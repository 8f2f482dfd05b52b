from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from infrabench.analysis.published.printed_numbers import (
    COLUMNS,
    CONTAINERS,
    CSV,
    RESULTS,
    SOURCES,
    RoundingSpan,
    numbers,
    papers,
    printed_span,
    published,
)
from infrabench.core import InfrabenchError, SchemaError


@pytest.fixture
def table() -> pd.DataFrame:
    return pd.read_csv(CSV, dtype="str", keep_default_na=False)


def damaged(table: pd.DataFrame, path: Path, name: str, changes: dict[str, str]) -> Path:
    """Write the file with the row `name` changed."""
    for column, text in changes.items():
        table.loc[table["id"] == name, column] = text
    table.to_csv(path / "p.csv", index=False)
    return path / "p.csv"


def test_the_file_is_complete_and_typed() -> None:
    found = published()
    assert len(found) == 368
    assert tuple(found.columns) == COLUMNS
    assert found["study"].nunique() == 5
    assert found["statistic"].isin(RESULTS).sum() == 227
    assert str(found["n"].dtype) == "Int64"
    assert set(published(CONTAINERS)["study"]) == {CONTAINERS}
    assert found["id"].is_unique
    assert dict(found.groupby("source").size()) == {"000": 113, "001": 33, "002": 76, "003": 99, "004": 47}


def test_versions_are_no_numbers_and_digits_are_kept() -> None:
    rows = published().set_index("id")
    assert rows.loc["A.cpu.sysbench-version.003", "printed"] == "0.4.12"
    assert pd.isna(rows.loc["A.cpu.sysbench-version.003", "value"])
    assert rows.loc["D.ycruncher.40.utilisation.containerd.004", "printed"] == "94.90"
    assert rows.loc["A.background.emails-sent.000", "value"] == 12e12
    assert rows.loc["A.iozone.read.rate.docker.000", ["unit", "unit_meant"]].tolist() == ["Mbps", "MB/s"]


def test_every_number_stands_in_its_words() -> None:
    in_words = {"A.mail.duration.000", "A.cpu.threads.1.003", "B.setup.worker-nodes.001", "B.setup.master-nodes.001"}
    for row in published().itertuples():
        quote = row.quote.replace(" ", "") if row.metric == "hash" else row.quote
        found = row.printed in quote or row.printed.replace(".", ",") in quote
        assert found != (row.id in in_words), row.id


def test_the_two_container_papers_print_one_table() -> None:
    rows = published()
    cells = rows[rows["statistic"] == "table cell"]
    values = [cells.loc[cells["source"] == source, "printed"].tolist() for source in ("000", "003")]
    assert values[0] == values[1]
    assert len(values[0]) == 24


def test_papers_are_those_of_the_numbers() -> None:
    assert {row.source: (row.study, row.letter) for row in papers().itertuples()} == SOURCES


def test_unknown_study_absent_and_damaged_file(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="there are ittp-2023"):
        published("nobody")
    with pytest.raises(InfrabenchError, match="is missing"):
        published(path=tmp_path / "p.csv")
    (tmp_path / "p.csv").write_text("a,b\n1,2\n")
    with pytest.raises(SchemaError, match="columns are"):
        published(path=tmp_path / "p.csv")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"unit": "parsec"}, "unit 'parsec': one of"),
        ({"unit_meant": "parsec"}, "unit_meant 'parsec'"),
        ({"statistic": "average"}, "statistic 'average'"),
        ({"study": CONTAINERS}, f"study '{CONTAINERS}'"),
        ({"source": "009"}, "study 'jtsiskom"),
        ({"value": "17"}, "value '17'"),
        ({"value": ""}, "value ''"),
        ({"printed": "fast", "value": ""}, "value ''"),
        ({"n": "0"}, "n '0'"),
        ({"n": "three"}, "n 'three'"),
        ({"n_text": "several"}, "n '3'"),
        ({"quote": ""}, "quote ''"),
        ({"section": ""}, "section ''"),
        ({"metric": "iops (mean)"}, r"metric 'iops \(mean\)'"),
        ({"id": "A.copy.read.rate.zfs.002"}, "id 'A.copy"),
        ({"id": "C.copy.read.rate.ceph.002"}, "id 'C.copy"),
    ],
)
def test_a_damaged_row_is_named_by_its_line(
    table: pd.DataFrame, tmp_path: Path, changes: dict[str, str], said: str
) -> None:
    line = 2 + table.index[table["id"] == "C.copy.read.rate.zfs.002"][0]
    with pytest.raises(SchemaError, match=f"line {line}: {said}"):
        published(path=damaged(table, tmp_path, "C.copy.read.rate.zfs.002", changes))


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
        (1 + RoundingSpan(1, 2), RoundingSpan(2, 3)),
        (2 * RoundingSpan(1, 2), RoundingSpan(2, 4)),
        (1 / RoundingSpan(1, 2), RoundingSpan(0.5, 1)),
        (RoundingSpan(4, 9) ** 0.5, RoundingSpan(2, 3)),
        (printed_span("4.0"), RoundingSpan(3.95, 4.05)),
    ],
)
def test_spans_hold_what_the_digits_leave_open(found: RoundingSpan, expected: RoundingSpan) -> None:
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_the_sign_of_a_span_is_known_only_when_it_excludes_zero() -> None:
    assert [RoundingSpan(1, 2).sign, RoundingSpan(-2, -1).sign, RoundingSpan(-1, 2).sign, RoundingSpan(0, 1).sign] == [
        1,
        -1,
        0,
        0,
    ]
