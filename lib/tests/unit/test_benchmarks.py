from __future__ import annotations

import json

import numpy as np
import pytest

from infrabench.core import InfrabenchError
from infrabench.ledger import records
from infrabench_selfcheck import overhead
from tests.support.fakes import run_session


def test_ways_take_turns_in_every_block_and_the_first_round_is_thrown_away():
    order = []

    def way(name):
        def do():
            order.append(name)
            return float(len(order))

        return do

    taken = overhead.measure({"a": way("a"), "b": way("b")}, blocks=20)
    assert order[:2] == ["a", "b"]
    rounds = [tuple(order[i : i + 2]) for i in range(2, 42, 2)]
    assert set(rounds) == {("a", "b"), ("b", "a")}
    assert {name: seconds.size for name, seconds in taken.items()} == {"a": 20, "b": 20}


def test_the_table_has_a_row_for_every_way_with_its_difference(monkeypatch):
    monkeypatch.setattr(overhead, "PER_BLOCK", 2)
    monkeypatch.setattr(overhead, "is_installed", lambda name: False)
    rows = list(overhead.report("local", 6))
    assert any(row.startswith("bare exec ") for row in rows)
    ours = next(row for row in rows if row.startswith("infrabench  "))
    middle, beyond = (float(part.split("[")[0].split()[-1]) for part in ours.split("]")[:2])
    assert 0 < middle < 1000
    assert beyond < middle
    assert "hyperfine                    not run: hyperfine is not installed" in rows


def test_the_intervals_are_those_of_the_median():
    assert overhead._format_ms(np.arange(1, 31) / 1000).split() == ["15.50", "[10.00,", "21.00]"]


@pytest.fixture
def ran(study, tmp_path):
    return run_session(study, tmp_path / "s")


def test_the_share_of_tools_is_at_most_the_whole(ran):
    told = overhead.tool_share(ran)
    shares = [float(part.rstrip("%,;")) for part in told.split() if part.rstrip(",;").endswith("%")]
    assert len(shares) == 4
    assert sum(shares) == pytest.approx(100, abs=0.2)
    record = records.read_trial(ran, records.read_plan(ran)[0].id)
    assert 0 < record.tool_s < record.duration_s


def test_a_session_with_gaps_has_no_share(ran):
    (ran / "provenance" / "suite.resumed-1.json").write_text(json.dumps({}))
    with pytest.raises(InfrabenchError, match="was interrupted"):
        overhead.tool_share(ran)
