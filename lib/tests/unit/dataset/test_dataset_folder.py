"""A data set is brought up to date and never half: what is unchanged is not read, what is foreign is named."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pandas as pd
import pytest

from infrabench.analysis import session_data
from infrabench.analysis.dataset import folder, part
from infrabench.analysis.tidy import tidy
from infrabench.core import DesignError, LedgerError
from infrabench.ledger import ledger
from tests.support import dataset_sessions as sessions
from tests.support.analysis_fixtures import read_table


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    place = tmp_path_factory.mktemp("runs")
    return [sessions.ledger(place / "s1", blocks=3), sessions.ledger(place / "s2", blocks=2, seed=8, skip_last=4)]


def updated(names: list[Path], root: Path, site: str = "") -> list[bool]:
    return [each.read for each in folder.update(names, root, site)]


def test_a_part_is_the_session_without_its_raw_output(two: list[Path], tmp_path: Path) -> None:
    updated(two, tmp_path / "d")
    found, left_out = folder.parts(tmp_path / "d")
    assert [each.session for each in found] == ["s1", "s2"]
    assert left_out == []
    for session, each in zip(two, found, strict=True):
        table = tidy(session)
        back = read_table(each.folder / part.TRIALS)
        by = ["workload", "position", "attempt", "metric"]
        pd.testing.assert_frame_equal(
            back.sort_values(by, ignore_index=True), table.sort_values(by, ignore_index=True), check_exact=True
        )
        assert (each.rows, sum(each.states.values())) == (len(table), table["trial"].nunique())
        assert (each.folder / "session.json").read_bytes() == (session / "session.json").read_bytes()
        part.verify(each)
    absent = part.missing(found)
    assert (
        absent.astype({"trial": "str"})["trial"].tolist() == session_data.open_session(two[1]).missing["trial"].tolist()
    )
    assert part.missing(found[:1]).empty


def test_labels_of_systems_are_part_of_their_names(tmp_path: Path) -> None:
    updated([sessions.ledger(tmp_path / "s", blocks=2, emulated=True)], tmp_path / "d")
    ((one,), _) = folder.parts(tmp_path / "d")
    assert one.systems == ("docker", "lxc (emulated)", "native")


def test_a_session_is_read_again_only_when_something_was_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names, root = [sessions.ledger(tmp_path / name, blocks=2, skip_last=1) for name in ("s1", "s2")], tmp_path / "d"
    assert updated(names, root) == [True, True]
    with monkeypatch.context() as patch:
        patch.setattr(part, "write", lambda *_: pytest.fail("nothing was added"))
        assert updated(names, root) == [False, False]
    done = next((names[1] / "trials").iterdir())
    absent = session_data.open_session(names[1]).missing["trial"].iloc[0]
    data = json.loads((done / "trial.json").read_text())
    wanted = next(json.loads(line) for line in (names[1] / "plan.jsonl").read_text().splitlines() if absent in line)
    (names[1] / "trials" / absent).mkdir()
    (names[1] / "trials" / absent / "trial.json").write_text(json.dumps(data | {"trial": wanted}))
    assert updated(names, root) == [False, True]
    found = {each.session: each for each in folder.parts(root)[0]}
    assert (found["s1"].missing, found["s2"].missing) == (1, 0)


def test_a_site_of_another_name(two: list[Path], tmp_path: Path) -> None:
    assert updated(two, tmp_path / "d", "host-a") == [True, True]
    assert updated(two, tmp_path / "d", "host-a") == [False, False]
    assert updated(two[:1], tmp_path / "d") == [True]
    found = {(each.site, each.session) for each in folder.parts(tmp_path / "d")[0]}
    assert found == {("host-a", "s1"), ("host-a", "s2"), ("lab", "s1")}
    assert set(read_table(tmp_path / "d/containers/host-a/s1" / part.TRIALS)["site"]) == {"host-a"}


def test_sessions_of_one_name_are_never_taken_for_each_other(tmp_path: Path) -> None:
    first = sessions.ledger(tmp_path / "a/s", blocks=2)
    other = sessions.ledger(tmp_path / "b/s", blocks=2, seed=8)
    with pytest.raises(DesignError, match=r"a/s .*would both be"):
        updated([first, other], tmp_path / "d")
    assert not (tmp_path / "d").exists()
    updated([first], tmp_path / "d")
    with pytest.raises(DesignError, match="another session called s"):
        updated([other], tmp_path / "d")
    assert updated([first, first], tmp_path / "d") == [False]


@pytest.mark.parametrize("name", ["../out", "a/b", "", ".hidden", "a\nb", "x" * 200, 'x"><script>'])
def test_a_site_cannot_lead_out_of_the_data_set(name: str, tmp_path: Path) -> None:
    session = sessions.ledger(tmp_path / "s", blocks=1, site=name)
    with pytest.raises(DesignError, match="cannot be the name of a folder; --site"):
        updated([session], tmp_path / "d")
    assert not (tmp_path / "d").exists()
    assert updated([session], tmp_path / "d", "named") == [True]


def test_another_folder_is_left_alone(two: list[Path], tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("words")
    with pytest.raises(DesignError, match="not a data set"):
        updated(two, tmp_path / "mine")
    assert sessions.contents(tmp_path / "mine") == {"thesis.tex": b"words"}
    with pytest.raises(LedgerError, match=r"dataset\.json cannot be read"):
        folder.parts(tmp_path / "mine")


@pytest.mark.parametrize("mark", ["[]", '{"format": 2}', "{"])
def test_a_later_format_is_refused(mark: str, two: list[Path], tmp_path: Path) -> None:
    updated(two, tmp_path / "d")
    (tmp_path / "d" / folder.MARK).write_text(mark)
    with pytest.raises(LedgerError, match=r"format 1|not JSON"):
        folder.parts(tmp_path / "d")


def test_what_is_foreign_is_named_and_left_out(two: list[Path], tmp_path: Path) -> None:
    root = tmp_path / "d"
    updated(two, root)
    (root / "notes.txt").write_text("")
    (root / "containers" / "elsewhere").symlink_to(two[0].parent, target_is_directory=True)
    (root / "containers" / "lab" / "bad name").mkdir()
    (root / "containers" / "lab" / "empty").mkdir()
    (root / "containers" / "lab" / f"{ledger.TMP}s3").mkdir()
    shutil.copytree(root / "containers/lab/s1", root / "containers/other/s1")
    found, left_out = folder.parts(root)
    assert [each.session for each in found] == ["s1", "s2"]
    assert len(left_out) == 5
    for name in ("notes.txt", "elsewhere", "bad name", "empty", "says that it is containers/lab/s1"):
        assert sum(name in each for each in left_out) == 1


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format": 1}', '{"format": 9}', "[" * 100_000])
def test_a_part_that_does_not_say_what_it_is_is_named_and_made_anew(text: str, two: list[Path], tmp_path: Path) -> None:
    updated(two, tmp_path / "d")
    (tmp_path / "d/containers/lab/s1" / part.ABOUT).write_text(text)
    found, (left_out,) = folder.parts(tmp_path / "d")
    assert [each.session for each in found] == ["s2"]
    assert "s1/part.json" in left_out
    assert updated(two, tmp_path / "d") == [True, False]


@pytest.mark.parametrize("name", ["trials.parquet", "missing.parquet", "session.json", "provenance/server.json"])
def test_every_damaged_byte_is_found_and_mended(name: str, two: list[Path], tmp_path: Path) -> None:
    root = tmp_path / "d"
    updated(two, root)
    path = root / "containers/lab/s1" / name
    whole, (before, _) = path.read_bytes(), folder.parts(root)
    rng = random.Random(name)
    for damaged in (
        *(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in rng.sample(range(len(whole)), 5)),
        whole[: len(whole) // 2], b"",
    ):  # fmt: skip
        path.write_bytes(damaged)
        with pytest.raises(LedgerError, match=f"{name} is damaged"):
            part.verify(before[0])
    path.unlink()
    with pytest.raises(LedgerError, match=f"{name} is missing"):
        part.verify(before[0])
    assert updated(two, root) == [True, False]
    assert path.read_bytes() == whole
    (path.parent / "more.json").write_text("{}")
    with pytest.raises(LedgerError, match=r"more\.json, which its SHA256SUMS does not name"):
        part.verify(before[0])


def test_tables_that_are_none_are_refused_though_their_sums_are_right(two: list[Path], tmp_path: Path) -> None:
    updated(two[:1], tmp_path / "d")
    ((each,), _) = folder.parts(tmp_path / "d")
    for name, data in (("trials.parquet", b"PAR1"), ("trials.parquet", (each.folder / part.MISSING).read_bytes())):
        files = sessions.contents(each.folder) | {name: data}
        ledger.replace_folder(each.folder, {key: value for key, value in files.items() if key != "SHA256SUMS"})
        part.verify(each)
        with pytest.raises(LedgerError, match="not a table of a part"):
            part.trials([each], "web")
    about = json.loads((each.folder / part.ABOUT).read_text())
    updated(two[:1], tmp_path / "d")
    about["workloads"].reverse()
    swapped = part.SessionPart(
        *(getattr(each, name) for name in part.SessionPart.__slots__[:-2]), tuple(about["workloads"]), ()
    )
    part.write(two[0], each.folder)
    with pytest.raises(LedgerError, match="is not of web"):
        part.trials([swapped], "web")


def test_only_one_process_writes(two: list[Path], tmp_path: Path) -> None:
    updated(two[:1], tmp_path / "d")
    with ledger.claimed(tmp_path / "d"), pytest.raises(LedgerError, match="is being written"):
        updated(two, tmp_path / "d")
