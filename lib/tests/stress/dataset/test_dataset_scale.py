"""What many rows cost: memory that grows far less than they do, and a table that fails above its bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from infrabench.core import InfrabenchError
from infrabench.ledger import catalogue
from tests.support import many_rows


@pytest.fixture(scope="module")
def like() -> many_rows.Pattern:
    return many_rows.pattern(catalogue.find(None, many_rows.LIKE))


def test_the_survey_of_many_rows_holds_few(like: many_rows.Pattern, tmp_path: Path) -> None:
    """Four times the sessions of one site: what is held grows by the rows of one workload, far less than all rows."""
    peaks = []
    for rows in (15_000, 60_000):
        many_rows.write(tmp_path / str(rows), like, rows, sites=1)
        argv = ("dataset", "analyze", str(tmp_path / str(rows)), "--out", str(tmp_path / "out"))
        peaks.append(many_rows.measured(many_rows._command(*argv)).peak_mb)
    grown = (peaks[1] - peaks[0]) * 1e6 / 45_000
    assert peaks[1] < 500
    # All rows as one tidy table, and the copies made of it, are 3 kB a row: 135 MB here, where 10 MB are measured.
    assert grown < 1_500, f"{grown:.0f} B a row"


def test_the_table_ends_with_the_largest_peak_and_fails_above_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_rows, "BATCH", 1)
    monkeypatch.setattr(many_rows, "BOUND_MB", 100.0)
    told: list[str] = []
    with pytest.raises(InfrabenchError, match=r"held \d+ MB, more than 100 MB"):
        told.extend(many_rows.report([8000], sites=1))
    steps = [line[:22].strip() for line in told]
    assert steps[1:6] == ["build from ledgers", "build, nothing new", "analyze", "notebook and analysis", "report"]
    one = int(told[2][22:32])  # the last batch is one ledger
    assert int(told[1][22:32]) == 2 * one >= 8000
    assert told[6].startswith("largest peak")
    assert not list((catalogue.home() / "out").glob(".rows-*"))
