"""What many rows cost is measured on rows like real ones, in processes of their own, and fails above its bound."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from infrabench.analysis.dataset import folder, part, survey
from infrabench.analysis.tidy import check, tidy
from infrabench.core import InfrabenchError
from infrabench.ledger import catalogue
from tests.support import many_rows


@pytest.fixture(scope="module")
def like() -> many_rows.Pattern:
    return many_rows.pattern(catalogue.find(None, many_rows.LIKE))


def test_synthetic_rows_are_like_those_of_the_session(like: many_rows.Pattern, tmp_path: Path) -> None:
    table = like.session.table
    assert many_rows.write(tmp_path / "d", like, 3 * len(table) - 1, sites=2) == 3 * len(table)
    found, left_out = folder.parts(tmp_path / "d")
    assert left_out == []
    assert [(each.site, each.rows) for each in found] == [
        ("synthetic-000", len(table)), ("synthetic-000", len(table)), ("synthetic-001", len(table)),
    ]  # fmt: skip
    assert all(each.session.startswith(many_rows.NAME) for each in found)  # never to be taken for a measurement
    for each in found:
        part.verify(each)
    drawn = [check(many_rows.drawn(like, number, sites=2)) for number in range(3)]
    pd.testing.assert_frame_equal(drawn[2], many_rows.drawn(like, 2, sites=2))
    logs = [np.log(one["value"] / table["value"])[table["value"] != 0] for one in drawn]
    within = np.array([each.groupby([table["block"], table["system"]]).std().mean() for each in logs])
    assert within == pytest.approx(many_rows.SPREAD["trial"], rel=0.1)
    assert not drawn[0]["value"].equals(drawn[2]["value"])
    unchanged = ["trial", "block", "system", "workload", "scenario", "metric", "unit", "better", "state"]
    pd.testing.assert_frame_equal(drawn[0][unchanged], table[unchanged])


def test_copied_ledgers_are_the_session_under_other_names(tmp_path: Path) -> None:
    session = catalogue.find(None, many_rows.LIKE)
    before = sorted((path, path.stat().st_mtime_ns) for path in session.rglob("*"))
    (copy,) = many_rows.copies(session, tmp_path, 1)
    assert copy.name == "synthetic-00000"
    pd.testing.assert_frame_equal(tidy(copy).drop(columns="session"), tidy(session).drop(columns="session"))
    assert sorted((path, path.stat().st_mtime_ns) for path in session.rglob("*")) == before


def test_time_and_peak_are_those_of_the_command_and_what_it_starts() -> None:
    hold = "x = bytearray(300_000_000); import time; time.sleep(0.3)"
    here = bytearray(600_000_000)  # what holds more than the command is no part of its peak
    taken = many_rows.measured((sys.executable, "-c", hold))
    assert len(here) == 600_000_000
    assert taken.seconds >= 0.3
    assert 300 < taken.peak_mb < 400
    again = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {hold!r}])"
    assert 300 < many_rows.measured((sys.executable, "-c", again)).peak_mb < 400
    with pytest.raises(InfrabenchError, match=r"(?s)exited with 3: .*this went wrong"):
        many_rows.measured((sys.executable, "-c", "import sys; sys.stderr.write('this went wrong'); sys.exit(3)"))


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
        _all(told, many_rows.report([8000], sites=1))
    steps = [line[:22].strip() for line in told]
    assert steps[1:6] == ["build from ledgers", "build, nothing new", "analyze", "notebook and analysis", "report"]
    one = int(told[2][22:32])  # the last batch is one ledger
    assert int(told[1][22:32]) == 2 * one >= 8000
    assert told[6].startswith("largest peak")
    assert not list((catalogue.home() / "out").glob(".rows-*"))


def _all(told: list[str], lines) -> None:
    for line in lines:
        told.append(line)


def test_groups_of_synthetic_rows_are_comparable(like: many_rows.Pattern, tmp_path: Path) -> None:
    many_rows.write(tmp_path / "d", like, 2 * len(like.session.table), sites=1)
    (group,) = survey.groups(folder.parts(tmp_path / "d")[0])
    found = survey.analyse_group(group)
    assert not found.data["stamp"]
    assert set(found.contrasts["pair_unit"]) == {"deployments"}
