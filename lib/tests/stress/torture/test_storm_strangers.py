"""A stranger's session or archive: read, packed and analysed inside its folder, in bounded time and memory."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from infrabench.analysis import session_data, tables
from infrabench.analysis.dataset import part
from infrabench.analysis.results import Results
from infrabench.analysis.tidy import tidy
from infrabench.cli import session as commands
from infrabench.core import InfrabenchError, LedgerError, SchemaError
from infrabench.core.names import file_name
from infrabench.experiment.execution import reparse, runs
from infrabench.experiment.provenance import comparability, labels
from infrabench.ledger import archive, catalogue, records
from infrabench.ledger.files import list_files
from infrabench.ledger.session_folder import SessionFolder
from infrabench.notebook import start_page
from infrabench.publish import latex
from infrabench.publish.report import files
from tests.stress.torture import strangers
from tests.support.stored_sessions import reseal, write_session
from tests.support.storm import SEED, Memory, size

LONGEST_S = 20  # of one step, on a machine that does other things
MOST_GROWN = 256 * 2**20


@contextmanager
def bounded() -> Iterator[None]:
    """Fail what waits or computes without end."""

    def stop(_number: int, _frame: object) -> None:
        raise AssertionError(f"it took longer than {LONGEST_S} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, LONGEST_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def snapshot(folder: Path) -> dict[str, object]:
    return {str(path): path.lstat().st_mtime_ns for path in folder.rglob("*") if not path.is_dir()}


def publish(folder: Path, out: Path) -> None:
    """Put the data of a session into a report."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalogue, "sessions", lambda study=None: {"s": folder})
        files.Shelf(out / "report").data("s")


USES: tuple[Callable[[Path, Path], object], ...] = (
    lambda folder, _out: records.read_session(folder),
    lambda folder, _out: session_data.open_session(folder),
    lambda folder, _out: SessionFolder(folder).recover(),
    lambda folder, out: archive.pack(folder, out / "a.tar.xz"),
    lambda folder, out: part.write(folder, out / "part"),
    lambda folder, out: reparse.write(folder, out / "again"),
    lambda folder, _out: (labels.of(folder), runs.read_state(folder), list(commands.describe_state(folder))),
    lambda folder, _out: comparability.differences(folder, folder),
    publish,
)


def test_what_is_no_file_of_a_session_is_named_and_never_opened(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    sound = write_session(tmp_path / "sound/s")
    kinds = [*strangers.FOLDERS, *rng.choices([*strangers.FOLDERS], k=size(10, 500))]
    for number, kind in enumerate(kinds):
        home = tmp_path / str(number)
        folder, outside, out = home / "s", home / "outside", home / "out"
        shutil.copytree(sound, folder)
        for each in (outside, out):
            each.mkdir()
        (outside / "secret").write_bytes(strangers.SECRET)
        place = rng.choice(sorted(folder.rglob("*")))
        strangers.FOLDERS[kind](place, outside)
        about, before = f"seed {SEED}, {number}: {kind} at {place.relative_to(folder)}", snapshot(outside)
        with bounded():
            assert records.verify(folder), about
            for use in USES:
                with suppress(InfrabenchError):
                    use(folder, out)
        assert not (out / "a.tar.xz").exists(), f"{about} was packed"
        assert all(strangers.SECRET not in path.read_bytes() for path in out.rglob("*") if path.is_file()), about
        assert snapshot(outside) == before, about


def test_a_bad_archive_is_refused_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "SMALL", 4 * 2**20)  # so that a bomb need not be a large one
    monkeypatch.setattr(archive, "MOST_MEMBERS", 2000)
    rng = random.Random(SEED)
    sound = write_session(tmp_path / "sound/s")
    (tmp_path / "secret").write_bytes(strangers.SECRET)
    there = tmp_path / "a/b/there"
    for _ in range(size(1, 20)):
        for what, data in strangers.bad_archives(sound, rng):
            packed, memory = tmp_path / "bad.tar.xz", Memory()
            packed.write_bytes(data)
            before = snapshot(tmp_path)
            for use in (lambda path: archive.unpack(path, there), archive.peek):
                with bounded(), suppress(LedgerError):
                    use(packed)
                    assert use is archive.peek, f"seed {SEED}: {what} was unpacked"  # what it reads was sound
            assert snapshot(tmp_path) == before, what
            assert not there.exists() or not list(there.iterdir()), what
            assert memory.grown < MOST_GROWN, what
    assert archive.unpack(archive.pack(sound, tmp_path / "good.tar.xz"), there) == there / "s"


def test_an_archive_that_wants_much_memory_or_is_no_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = archive.pack(write_session(tmp_path / "s"), tmp_path / "s.tar.xz")
    os.mkfifo(tmp_path / "pipe.tar.xz")
    (tmp_path / "zero.tar.xz").symlink_to("/dev/zero")
    for name in ("pipe.tar.xz", "zero.tar.xz", "s"):
        for use in (archive.peek, lambda path: archive.unpack(path, tmp_path / "there")):
            with bounded(), pytest.raises(LedgerError, match="no plain file"):
                use(tmp_path / name)
    monkeypatch.setattr(archive, "XZ_MEMORY", 2**20)
    with pytest.raises(LedgerError, match="Memory usage limit"):
        archive.unpack(packed, tmp_path / "there")


@pytest.mark.parametrize("dense", [b"[],", b"{},", b'{"":{}},', b"0,", b'"",', b"[[]],"])
@pytest.mark.parametrize("what", ["session.json", "plan.jsonl", "trial.json", "server.json"])
def test_a_text_of_many_values_takes_little_memory(tmp_path: Path, what: str, dense: bytes) -> None:
    """Parsed, it is 25 times as large; packed, it has some thousand bytes."""
    folder = write_session(tmp_path / "s")
    name = min(folder.rglob(what)).relative_to(folder).as_posix()
    head, _, tail = (folder / name).read_bytes().partition(b"{")
    text = b'{"more": [' + dense * (60 * 2**20 // len(dense)) + b"0]" + (b", " if len(tail) > 2 else b"")
    reseal(folder, name, head + text + tail)
    memory = Memory()
    with bounded(), suppress(LedgerError):
        records.verify(folder)
        for use in USES[:3]:
            use(folder, tmp_path / "out")
    assert memory.grown < MOST_GROWN


def spoil_field(folder: Path, rng: random.Random) -> str:
    """Give one field of one file another value, sums mended, and say which."""
    every = [name for name in list_files(folder)[0] if name.endswith((".json", ".jsonl"))]
    name, value = rng.choice(["session.json", "plan.jsonl", *every]), rng.choice(strangers.HOSTILE)
    lines = (folder / name).read_bytes().splitlines() if name.endswith("l") else [(folder / name).read_bytes()]
    number = rng.randrange(len(lines))
    data = json.loads(lines[number])
    places = [*strangers.fields(data)]
    if name == "session.json" and rng.random() < 0.3:
        places = [(rng.choice(("view", "aa", "stamp", "variants", "known", "not_applicable", "stopping")),)]
    if not places:
        return ""
    place = rng.choice(places)
    lines[number] = json.dumps(strangers.replaced(data, place, value)).encode()
    reseal(folder, name, b"\n".join(lines) + b"\n")
    return f"{name} {place} = {str(value)[:40]!a}"


def test_a_hostile_field_is_refused_or_stays_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No field ends the lists of sessions, leads to a path outside, or to an exception of Python's."""
    monkeypatch.setenv("INFRABENCH_HOME", str(tmp_path))
    home = tmp_path / "data/runs/containers"
    folder, rng = write_session(home / "s"), random.Random(SEED)
    whole = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    write_session(home / "whole")
    unreadable = ("broken", "fifo", "folder", "pipe", "zeros")
    for name in ("fifo", "folder", "zeros"):
        (home / name).mkdir()
    (home / "broken.tar.xz").write_bytes(b"\xfd7zXZ no more")
    (home / "folder/session.json").mkdir()
    (home / "zeros/session.json").symlink_to("/dev/zero")
    for path in (home / "pipe.tar.xz", home / "fifo/session.json"):
        os.mkfifo(path)
    for number in range(size(30, 5000)):
        about = spoil_field(folder, rng)
        before = snapshot(tmp_path)
        try:
            records.verify(folder)
            told = list(listed())
            assert any("whole: 3 of 3 trials" in line for line in told)
            assert all(any(line.startswith(f"{name}: ") for line in told) for name in unreadable)
            page = start_page.own_table().text
            assert "| whole" in page
            assert all(f"| {name} |" in page for name in ("s", *unreadable))
            for use in USES[:3]:
                with suppress(InfrabenchError):
                    use(folder, tmp_path / "out")
            with suppress(InfrabenchError):
                stored = SessionFolder(folder)
                tidy(stored)
                assert "/" not in Results.name.fget(SimpleNamespace(data=stored.session))  # type: ignore[attr-defined]
        except Exception as error:
            raise AssertionError(f"seed {SEED}, {number}: {about}") from error
        assert {*snapshot(tmp_path)} == {*before}, about
        for path, data in whole.items():
            if path.read_bytes() != data:
                path.write_bytes(data)


def listed() -> Iterator[str]:
    lines = commands.list_sessions(Namespace(sessions=[]))
    with suppress(LedgerError):  # after the last, it names those that cannot be read
        yield from lines


@pytest.mark.parametrize(
    "name", ["../x", "/tmp/x", "..", "", ".x", "-x", "a\nb", "a\x00b", "x" * 300, "=x", "a\\b", "a/b"]
)
def test_no_name_leads_out_of_the_folder_of_results(tmp_path: Path, name: str) -> None:
    frame = pd.DataFrame({"system": ["native"]})
    found = SimpleNamespace(data={"study": name, "view": name}, table=pd.DataFrame({"session": ["s"]}))
    with pytest.raises(SchemaError, match="cannot be the name of a file"):
        tables.save(frame, tmp_path / "out", name)
    with pytest.raises(SchemaError, match="cannot be the name of a file"):
        file_name(name)
    for data in ({"study": name}, {"study": "x", "aa": name}, {"study": "x", "view": name}):
        if "/" in name or "\\" in name or not name.isprintable() or len(name) > 200:
            with pytest.raises(SchemaError, match="cannot be the name of a file"):
                Results.name.fget(SimpleNamespace(data=data))  # type: ignore[attr-defined]
    with pytest.raises(SchemaError, match="cannot be the name of a file"):
        latex.write(found, tmp_path / "out", prefix=name or "../y")  # type: ignore[arg-type]
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "'", "''=", "-2+3+cmd|' /C calc'!A0"])
def test_a_spreadsheet_executes_no_text_of_a_session(tmp_path: Path, start: str) -> None:
    text = f"{start}HYPERLINK(1)"
    frame = pd.DataFrame({"system": [text, "native", "-0.5"], text: ["+1", "1e-3", "a\r=1"], "n": [-1.0, 2.0, 3.0]})
    tables.save(frame, tmp_path, "t", caption="<script>alert(1)</script>\n![x](http://198.51.100.1/x.png)")
    cells = pd.read_csv(tmp_path / "t.csv", dtype="str", keep_default_na=False, header=None).to_numpy().ravel()
    assert [cell for cell in cells if cell.startswith(tuple("=+-@\t\r")) and not is_number(cell)] == []
    assert {"-0.5", "+1", "-1.0"} <= {*cells}  # numbers stay numbers
    told = (tmp_path / "t.md").read_text()
    assert "<script" not in told
    assert "](" not in told


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
