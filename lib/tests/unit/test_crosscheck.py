"""Two sessions of two engines side by side: by direction alone, and only where both have a ratio."""

from __future__ import annotations

from pathlib import Path

import pytest

from infrabench.analysis import results
from infrabench.notebook import crosscheck
from tests.support.analysis_fixtures import results_of, table_rows
from tests.support.storage_fixtures import IOPS, write_session


def opened(folder: Path, **how: object) -> results.Results:
    return results_of(write_session(folder, **how), folder.parent / "out")  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> results.Results:
    return opened(tmp_path_factory.mktemp("quick") / "s")


def test_directions_are_compared_by_operation_and_mode(
    quick: results.Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # in the other engine sequential writes turn, and random reads cannot be told apart
    monkeypatch.setitem(IOPS, ("write", "default"), (9e3, 3e3))
    monkeypatch.setitem(IOPS, ("randread", "strict"), (9e3, 9e3))
    other = opened(tmp_path / "vm", profile="crosscheck")
    assert other.systems == ["zfs-vm (emulated)", "ceph-vm (emulated)"]
    told = {row["scenario"]: row for row in table_rows(crosscheck.directions(quick, str(tmp_path / "vm")))}
    assert len(told) == 8
    assert told["sequential write default"]["direction"] == "other direction"
    assert told["random read strict"]["direction"] == "not decided"
    assert {row["direction"] for name, row in told.items() if name.startswith("random write")} == {"same direction"}
    one = told["random write strict"]
    assert one["ratio"] == "ceph / zfs (user space)"
    assert one["cross-check"] == "ceph-vm (emulated) / zfs-vm (emulated)"
    assert one["ratio, 95 % CI"].startswith("[0.")
    assert (quick.folder / "tables/storage/crosscheck.csv").is_file()


def test_without_one_it_says_how_to_have_one(quick: results.Results, tmp_path: Path) -> None:
    assert "No cross-check was named" in crosscheck.directions(quick, None).text
    opened(tmp_path / "vm", profile="crosscheck", not_run={"ceph-vm": "the guest did not start"})
    assert "no operation that both" in crosscheck.directions(quick, str(tmp_path / "vm")).text
