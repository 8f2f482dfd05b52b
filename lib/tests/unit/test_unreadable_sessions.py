"""Sessions that cannot be read, or whose names and texts are a stranger's, end no list and reach no terminal."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from infrabench import cli
from infrabench.core import LedgerError, ParseError, names
from infrabench.ledger import archive, catalogue, fields, records
from infrabench.notebook import start_page
from infrabench.workloads import _parse
from tests.support.stored_sessions import reseal, write_session


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
def test_one_that_cannot_be_read_is_named_and_the_others_are_shown(
    runs: Path, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_a_link_and_what_an_archive_holds_are_not_removed(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
def test_a_text_that_would_take_gigabytes_of_memory_is_not_read(
    runs: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
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
