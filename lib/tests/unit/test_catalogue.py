"""From names to sessions: a name that several sessions have stands for none of them, and no session hides another."""

from __future__ import annotations

from pathlib import Path

import pytest

from infrabench import cli
from infrabench.core import DesignError
from infrabench.ledger import archive, catalogue

# Every command that takes the name of a session, and what else it needs.
COMMANDS = (
    ("session", "list"), ("session", "show"), ("session", "verify"), ("session", "reparse", "out/new"),
    ("session", "pack", "out/new.tar.xz"), ("session", "diff", "only"), ("session", "remove", "--yes"), ("paper",),
    ("plan", "--pilot"),
)  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with sessions of one name in two studies, and as folder and archive, and one more."""
    monkeypatch.setenv(catalogue.VARIABLE, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name in ("runs/cnis/one", "runs/storage/one", "runs/cnis/two", "runs/cnis/only"):
        path = tmp_path / "data" / name / "session.json"
        path.parent.mkdir(parents=True)
        path.write_text("{}")
    archive.write(tmp_path / "data/recorded/cnis/two.tar.xz", [archive.ArchiveMember("two/session.json", b"{}")])
    return tmp_path / "data"


@pytest.mark.parametrize(
    ("name", "places"), [("one", ("runs/cnis/one", "runs/storage/one")),
                         ("two", ("recorded/cnis/two.tar.xz", "runs/cnis/two"))],
)  # fmt: skip
def test_a_name_of_several_is_refused_with_where_each_is(home: Path, name: str, places: tuple[str, str]) -> None:
    paths = [home / place for place in places]
    with pytest.raises(DesignError, match=f"2 sessions are called '{name}'.*{paths[0]} or {paths[1]}$"):
        catalogue.find(None, name)
    found = catalogue.sessions()
    assert name not in found
    assert [found[str(path)] for path in paths] == paths


def test_within_a_study_or_by_its_path_each_is_found(home: Path) -> None:
    assert catalogue.find("storage", "one") == home / "runs/storage/one"
    assert catalogue.find(None, str(home / "runs/cnis/one")) == home / "runs/cnis/one"
    assert catalogue.find(None, "only") == home / "runs/cnis/only"
    assert sorted(catalogue.local()) == sorted(
        ["only", "two", str(home / "runs/cnis/one"), str(home / "runs/storage/one")]
    )
    assert list(catalogue.recorded()) == ["two"]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_takes_one_of_them(home: Path, command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(home.rglob("*"))
    words = [*command[:2], "one", *command[2:]] if command != ("plan", "--pilot") else [*command, "one"]
    assert cli.main(words) != 0
    said = capsys.readouterr()
    for study in ("cnis", "storage"):
        assert str(home / "runs" / study / "one") in said.err + said.out
    assert sorted(home.rglob("*")) == before


def test_archives_of_two_studies_are_unpacked_apart(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = list[Path]()
    monkeypatch.setattr(catalogue, "unpack", lambda packed, place: places.append(place) or place)
    for study in ("cnis", "storage"):
        archive.write(home / f"recorded/{study}/three.tar.xz", [])
        catalogue.find(study, "three")
    assert len(set(places)) == 2
