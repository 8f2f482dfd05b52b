"""From names to sessions: no session hides another, and none that cannot be read, or is a stranger's, ends a list."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from infrabench import cli
from infrabench.core import DesignError, LedgerError, ParseError, names
from infrabench.ledger import archive, catalogue, fields, records
from infrabench.notebook import start_page
from infrabench.workloads import _parse
from tests.support.stored_sessions import reseal, write_session

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


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the sessions of a study, with a sound one, ``whole``."""
    monkeypatch.setenv(catalogue.VARIABLE, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "data/runs/containers"
    write_session(folder / "whole")
    return folder


def copy(runs: Path) -> Path:
    return write_session(runs / "bad")


def loop(path: Path, runs: Path) -> None:
    path.rename(runs / ".elsewhere")
    path.symlink_to(path.name)


SPOILT: dict[str, Callable[[Path], object]] = {
    "looping archive": lambda runs: (runs / "bad.tar.xz").symlink_to("bad.tar.xz"),
    "dangling archive": lambda runs: (runs / "bad.tar.xz").symlink_to("/nonexistent/bad.tar.xz"),
    "folder as archive": lambda runs: (runs / "bad.tar.xz").mkdir(),
    "looping trials": lambda runs: loop(copy(runs) / "trials", runs),
    "looping trial": lambda runs: loop(next((copy(runs) / "trials").iterdir()), runs),
}


@pytest.mark.parametrize("how", SPOILT)
def test_one_that_cannot_be_read_is_named_with_others(runs: Path, how: str, capsys: pytest.CaptureFixture[str]) -> None:
    SPOILT[how](runs)
    assert cli.main(["session", "list"]) == 1
    said = capsys.readouterr()
    assert "whole: 3 of 3 trials" in said.out
    assert "bad: " in said.out
    assert "not readable: bad" in said.err
    page = start_page.own_table().text
    assert "| whole | " in page
    assert "| bad | " in page
    assert cli.main(["session", "verify", "bad"]) == 1


def test_a_folder_that_may_not_be_entered_ends_no_list(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    closed, listdir = copy(runs) / "trials", records.os.listdir

    def refuse(path: Path) -> list[str]:
        if Path(path) == closed:
            raise PermissionError(13, "Permission denied", str(path))
        return listdir(path)

    monkeypatch.setattr(records.os, "listdir", refuse)
    assert cli.main(["session", "list"]) == 1
    said = capsys.readouterr()
    assert f"bad: {closed} cannot be read: Permission denied" in said.out
    assert "whole: 3 of 3 trials" in said.out


@pytest.mark.parametrize("text", ["\x1b[2Jgone", "a\rb", "\u202egnp.exe", "\x9b31m", "\x00", "\x07"])
def test_texts_of_a_session_move_no_cursor(runs: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = runs / "whole/session.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"not_run": {"podman": f"why: {text}"}}))
    cli.main(["session", "list", "whole"])
    said = capsys.readouterr()
    assert "podman: not run: why: " in said.out
    assert all(each.isprintable() or each == "\n" for each in said.out + said.err)


@pytest.mark.parametrize("what", ["session.json", "plan.jsonl", "trial.json", "deployments.json"])
@pytest.mark.parametrize(("text", "fine"), [("\ud800", False), ("a\udfffb", False), ("\U0001f600 é", True)])
def test_a_text_with_half_a_sign_is_none(runs: Path, what: str, text: str, fine: bool) -> None:
    """No table, figure or terminal can be given it."""
    folder = runs / "whole"
    name = min(folder.rglob(what)).relative_to(folder).as_posix()
    first, _, rest = (folder / name).read_bytes().partition(b"\n")
    data = json.loads(first if what.endswith("l") else first + rest)
    told = data["native"]["facts"] if what == "deployments.json" else data
    told[{"session.json": "title", "trial.json": "reason"}.get(what, "scenario")] = text
    reseal(folder, name, json.dumps(data).encode() + b"\n" + (rest if what.endswith("l") else b""))
    readers: dict[str, Callable[[Path], object]] = {
        "session.json": records.read_session, "plan.jsonl": records.read_plan, "trial.json": records.read_trials,
        "deployments.json": lambda place: records.read_provenance(place, records.DEPLOYMENTS),
    }  # fmt: skip
    with nullcontext() if fine else pytest.raises(LedgerError, match="surrogates not allowed"):
        readers[what](folder)


def test_signs_and_lines_are_kept_as_they_are() -> None:
    text = "mean\t95\u00a0% \u2265 µs\nnext é 日本 ≈"
    assert names.terminal_text(text) == text


def test_links_and_archived_ones_are_kept(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive.pack(runs / "whole", runs / "packed.tar.xz")
    other = write_session(tmp_path / "elsewhere/other")
    (runs / "link").symlink_to(other)
    for name, told in (("link", f"is a link to {other}: name the session by that path"), ("packed", "in an archive")):
        assert cli.main(["session", "remove", name, "--yes"]) == 2
        assert told in capsys.readouterr().err
    assert (runs / "link").is_symlink()
    assert (runs / "packed.tar.xz").is_file()
    assert records.verify(other) == []


@pytest.mark.parametrize("what", ["session.json", "plan.jsonl", "trial.json"])
def test_a_text_of_gigabytes_in_memory_is_not_read(runs: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of a million empty lists has three bytes for each, and takes a hundred."""
    folder = runs / "whole"
    name = next(path for path in sorted(folder.rglob(what))).relative_to(folder).as_posix()
    assert records.verify(folder) == []
    head, _, tail = (folder / name).read_bytes().partition(b"{")
    reseal(folder, name, head + b'{"more": [' + b"[]," * 100_000 + b"[]], " + tail)
    monkeypatch.setattr(fields, "LARGEST_DOCUMENT", 250_000)
    assert any("a text of 3" in each and "which no session has" in each for each in records.verify(folder))
    with pytest.raises(LedgerError, match="which no session has"):
        archive.pack(folder, runs / "new.tar.xz")


def test_a_report_of_a_tool_that_would_take_gigabytes_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_parse, "LARGEST_REPORT", 1000)
    assert _parse.json_object("fio", '{"a": 1}') == {"a": 1}
    with pytest.raises(ParseError, match="JSON of 3004 characters, more than a report has"):
        _parse.json_object("fio", '{"a": [' + "[]," * 998 + "1]}")
