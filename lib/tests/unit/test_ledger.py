from __future__ import annotations

import errno
import json
import os
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from infrabench.core import LedgerError, Measurement, Trial, TrialRecord, digest
from infrabench.ledger import archive, ledger, records
from infrabench.ledger.files import read_file
from infrabench.ledger.session_folder import SessionFolder
from tests.support.stored_sessions import reseal


def trial(number):
    return Trial(f"{number:016x}", 0, number, "native", "null", "default", {"n": [1]}, None, None, 1.0)


def record(number, **more):
    made = TrialRecord(
        trial(number), "ok", "", "2026-01-01T00:00:00.000Z", 1.0, 0.5,
        ({"name": "tool", "argv": ["true"], "status": 0},), (Measurement("wall_s", 0.5, "s", "lower"),), {"here": {}},
    )  # fmt: skip
    return replace(made, **more)


PLAN = tuple(trial(number) for number in range(5))
PARAMETERS = {"seed": 1, "runs": 5}
SESSION = {"study": "s", "parameters": PARAMETERS, "parameters_sha256": digest(PARAMETERS, 64)}
BLOBS = {"tool.stdout": b"out\x00\xff", "tool.stderr": b"err"}


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "study" / "one"
    with SessionFolder(path).opened(SESSION, PLAN) as stored:
        assert stored.records == {}
        for number in range(3):
            stored.append_trial(record(number), BLOBS)
        stored.append_file("provenance/here.json", b"{}")
    return path


def reopened(folder, session=SESSION, plan=PLAN):
    with SessionFolder(folder).opened(session, plan) as stored:
        return stored.recorded()


def test_what_is_written_is_read_back(folder):
    assert records.verify(folder) == []
    assert records.read_session(folder) == SESSION
    assert records.read_plan(folder) == PLAN
    assert records.read_trial(folder, PLAN[0].id) == record(0)
    assert (folder / "trials" / PLAN[0].id / "tool.stdout").read_bytes() == BLOBS["tool.stdout"]
    assert reopened(folder) == {trial.id for trial in PLAN[:3]}


def test_sums_are_those_of_sha256sum(folder):
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=folder, check=True)
    own = folder / "trials" / PLAN[0].id
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=own, check=True)
    assert "provenance/here.json" in (folder / "SHA256SUMS").read_text()


def test_a_trial_is_never_written_twice(folder):
    with pytest.raises(LedgerError, match="already recorded"):
        SessionFolder(folder).append_trial(record(0), BLOBS)


@pytest.mark.parametrize(
    ("write", "final"),
    [
        (lambda stored: stored.append_trial(record(3), BLOBS), f"study/one/trials/{PLAN[3].id}"),
        (lambda stored: stored.append_file("provenance/there.json", b"{}"), "study/one/provenance/there.json"),
        (lambda stored: reopened(stored.path.with_name("two")), "study/two"),
    ],
    ids=["a trial", "a file", "a session"],
)
def test_what_counts_is_on_disk_before_its_rename_and_its_name_after(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[SessionFolder], object], final: str
) -> None:
    synced, rename = set[Path](), os.rename
    calls: list[tuple[str, Path]] = []

    def note_sync(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        synced.add(path)
        calls.append(("sync", path))

    def note_rename(old: Path, new: Path) -> None:
        assert synced >= {old, *old.rglob("*")} - {old / ledger.LOCK}
        rename(old, new)
        calls.append(("rename", new))

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "rename", note_rename)
    monkeypatch.setattr(os, "replace", note_rename)
    write(SessionFolder(folder))
    place = tmp_path / final
    assert calls[-2:] == [("rename", place), ("sync", place.parent)]


def test_temporary_folders_are_not_counted_and_the_next_writer_removes_them(folder):
    left = folder / "trials" / (records.TMP + PLAN[4].id)
    left.mkdir()
    (left / "trial.json").write_text("{")
    assert records.verify(folder) == []
    assert PLAN[4].id not in records.recorded(folder)
    reopened(folder)
    assert not left.exists()


def test_a_whole_trial_that_is_not_listed_yet_is_listed(folder):
    sums = folder / "SHA256SUMS"
    whole = sums.read_text()
    sums.write_text("".join(line for line in whole.splitlines(True) if PLAN[2].id not in line))
    assert records.verify(folder) == []
    assert PLAN[2].id in reopened(folder)
    assert sorted(sums.read_text().splitlines()) == sorted(whole.splitlines())


def test_a_session_says_whether_somebody_writes_to_it(folder, tmp_path):
    assert not ledger.is_being_written(folder)
    with SessionFolder(folder).opened(SESSION, PLAN):
        assert ledger.is_being_written(folder)
        assert ledger.is_being_written(folder)
    assert not ledger.is_being_written(folder)
    assert not ledger.is_being_written(tmp_path / "nothing")


def test_a_packed_session_tells_what_it_is_without_being_unpacked(folder, tmp_path):
    packed = archive.pack(folder, tmp_path / "one.tar.xz")
    assert archive.peek(packed) == json.loads((folder / "session.json").read_bytes())
    packed.write_bytes(packed.read_bytes()[:100])
    with pytest.raises(LedgerError, match=r"one.tar.xz"):
        archive.peek(packed)


def test_a_torn_last_line_is_dropped_and_written_again(folder):
    sums = folder / "SHA256SUMS"
    whole = sums.read_text()
    for cut in (1, 20, 70, len(whole.splitlines()[-1]) - 1):
        sums.write_text(whole[:-cut])
        assert records.verify(folder) == []
        reopened(folder)
        assert sums.read_text() == whole


def damage_text(name, old, new):
    def do(folder):
        path = folder / name
        path.write_text(path.read_text().replace(old, new))

    return do


OWN = f"trials/{PLAN[1].id}"


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (damage_text("session.json", "5", "6"), "session.json"),
        (damage_text("plan.jsonl", "native", "nativ3"), "plan.jsonl"),
        (damage_text("provenance/here.json", "{}", "[]"), "here.json"),
        (damage_text(f"{OWN}/trial.json", "0.5", "0.6"), f"{OWN}/trial.json"),
        (damage_text(f"{OWN}/tool.stderr", "err", "eRr"), f"{OWN}/tool.stderr"),
        (damage_text(f"{OWN}/SHA256SUMS", "a", "b"), f"{OWN}/SHA256SUMS"),
        (damage_text("SHA256SUMS", "  plan", "  plam"), "plam.jsonl is missing"),
        (lambda f: (f / OWN / "tool.stdout").unlink(), f"{OWN}/tool.stdout is missing"),
        (lambda f: (f / OWN / "extra").write_text("x"), f"{OWN} holds extra"),
        (lambda f: os.rename(f / OWN, f / "trials" / "unknown"), "trials/unknown: the plan knows no such trial"),
        (lambda f: subprocess.run(["rm", "-r", f / OWN], check=True), f"{OWN}/SHA256SUMS is missing"),
        (lambda f: (f / "plan.jsonl").unlink(), "plan.jsonl is missing"),
        (lambda f: (f / "SHA256SUMS").unlink(), "SHA256SUMS cannot be read"),
    ],
)
def test_damage_is_named_and_refused_and_left_as_it_is(folder, damage, named):
    damage(folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert any(named in problem for problem in records.verify(folder))
    with pytest.raises(LedgerError, match=r"(?i)restore|not the plan|other parameters"):
        reopened(folder)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_changed_record_is_refused_by_who_reads_records_alone(folder: Path) -> None:
    """It is a record all the same, and nothing but its sum tells that it is another one."""
    damage_text(f"{OWN}/trial.json", "0.5", "0.6")(folder)
    assert records.read_trial(folder, PLAN[1].id).tool_s == 0.6
    with pytest.raises(LedgerError, match=rf"{OWN}/trial.json: it is damaged"):
        _ = SessionFolder(folder).records


def test_a_trial_that_lost_its_record_is_damage_and_not_missing(folder: Path) -> None:
    (folder / OWN / "trial.json").unlink()
    with pytest.raises(LedgerError, match=rf"{OWN}/trial\.json is missing; restore it from a copy"):
        _ = SessionFolder(folder).records


def test_a_flipped_bit_anywhere_is_found(folder):
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        data = path.read_bytes()
        for at in {0, len(data) // 2, len(data) - 1}:
            path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
            # The last newline of the session's sums is the one byte that a kill may also leave unwritten.
            torn = path == folder / "SHA256SUMS" and at == len(data) - 1
            assert torn or records.verify(folder), (path, at)
        path.write_bytes(data)
    assert records.verify(folder) == []


def test_other_parameters_are_refused_naming_them(folder):
    with pytest.raises(LedgerError, match=r"runs: recorded 5, asked 6"):
        reopened(folder, {**SESSION, "parameters": {"seed": 1, "runs": 6}})
    with pytest.raises(LedgerError, match="not the plan that the same parameters give now"):
        reopened(folder, plan=PLAN[:4])


def test_a_session_whose_maker_was_killed_is_made_anew(tmp_path):
    (tmp_path / (records.TMP + "one")).mkdir()
    (tmp_path / (records.TMP + "one") / "session.json").write_text("{")
    assert reopened(tmp_path / "one") == frozenset()
    assert records.verify(tmp_path / "one") == []
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_a_full_disk_is_a_clear_error_and_nothing_half_written_counts(folder, monkeypatch):
    real = ledger.write_file

    def full(path, data):
        if path.name == "trial.json":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(path, data)

    monkeypatch.setattr(ledger, "write_file", full)
    with pytest.raises(LedgerError, match=r"No space left on device.*recorded before is safe"):
        SessionFolder(folder).append_trial(record(3), BLOBS)
    monkeypatch.undo()
    assert records.verify(folder) == []
    assert len(reopened(folder)) == 3
    SessionFolder(folder).append_trial(record(3), BLOBS)


class NearlyFull:
    """A file on a disk that has room for some bytes more: it takes them, and says so only of the next ones."""

    def __init__(self, file, room):
        self.file, self.room = file, room

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def write(self, data):
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = self.file.write(bytes(data[: self.room]))
        self.room -= taken
        return taken

    def __getattr__(self, name):
        return getattr(self.file, name)


@pytest.mark.parametrize("room", [0, 1, 70])
def test_half_a_line_of_the_sums_does_not_spoil_the_next(folder, monkeypatch, room):
    real = open
    with monkeypatch.context() as patch:
        patch.setattr(
            "builtins.open",
            lambda path, mode="r", *a, **k: (
                NearlyFull(real(path, mode, *a, **k), room) if mode == "ab" else real(path, mode, *a, **k)
            ),
        )
        with pytest.raises(LedgerError, match="No space left"):
            SessionFolder(folder).append_trial(record(3), BLOBS)
    SessionFolder(folder).append_trial(record(4), BLOBS)
    assert records.verify(folder) == []
    assert len(reopened(folder)) == 5


def test_a_record_of_another_trial_under_a_planned_name_is_found(folder):
    name = f"{OWN}/trial.json"
    reseal(folder, name, (folder / name).read_bytes().replace(b'"native"', b'"docker"'))
    (problem,) = records.verify(folder)
    assert f"{name} records another trial than the plan has" in problem


def test_an_archive_is_reproducible_and_gives_the_same_session(folder, tmp_path):
    one, two = (archive.pack(folder, tmp_path / f"{n}.tar.xz") for n in (1, 2))
    os.utime(folder / "plan.jsonl")
    assert one.read_bytes() == two.read_bytes() == archive.pack(folder, tmp_path / "3.tar.xz").read_bytes()
    again = archive.unpack(one, tmp_path / "there")
    assert again == tmp_path / "there" / "one"
    assert records.verify(again) == []
    assert records.read_trial(again, PLAN[0].id) == record(0)
    assert archive.unpack(one, tmp_path / "there") == again


def test_an_archive_leaves_out_what_is_half_written(folder, tmp_path):
    (folder / "trials" / (records.TMP + "x")).mkdir()
    (folder / "trials" / (records.TMP + "x") / "trial.json").write_text("{")
    with tarfile.open(archive.pack(folder, tmp_path / "a.tar.xz")) as tar:
        assert not [name for name in tar.getnames() if records.TMP in name]


@pytest.mark.parametrize("name", ["x.tar.xz", "trials/x.tar.xz", "more/x.tar.xz", "../link/x.tar.xz"])
def test_no_archive_is_written_into_its_session(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (folder.parent / "link").symlink_to(folder)
    monkeypatch.chdir(folder)
    with pytest.raises(LedgerError, match=f"{name} would lie in the session: name another file"):
        archive.pack(Path("."), Path(name))
    assert records.verify(folder) == []
    assert archive.pack(Path("."), Path("../x.tar.xz")).is_file()


def test_a_session_that_is_being_written_is_not_packed(folder: Path, tmp_path: Path) -> None:
    packed = tmp_path / "one.tar.xz"
    with SessionFolder(folder).opened(SESSION, PLAN) as stored:
        with pytest.raises(LedgerError, match="is being written by another run"):
            archive.pack(folder, packed)
        assert not packed.exists()
        stored.append_trial(record(3), BLOBS)
    assert records.recorded(archive.unpack(archive.pack(folder, packed), tmp_path / "there")) == stored.recorded()


@pytest.mark.parametrize("error", [LedgerError("unreadable"), KeyboardInterrupt(), OSError(errno.ENOSPC, "full")])
def test_no_half_of_an_archive_stays_whatever_ends_it(tmp_path: Path, error: BaseException) -> None:
    def members() -> Iterator[archive.ArchiveMember]:
        yield archive.ArchiveMember("s/a", b"a")
        raise error

    (tmp_path / "a.tar.xz").write_text("an earlier one")
    with pytest.raises(LedgerError if isinstance(error, OSError) else type(error)):
        archive.write(tmp_path / "a.tar.xz", members())
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar.xz"]
    assert (tmp_path / "a.tar.xz").read_text() == "an earlier one"


@pytest.mark.parametrize(
    ("name", "link"), [("../evil", ""), ("/evil", ""), ("one/../../evil", ""), ("plain", ""), ("one/a", "/etc/passwd")]
)
def test_an_archive_that_reaches_outside_is_refused(tmp_path, name, link):
    bad, info = tmp_path / "bad.tar.xz", tarfile.TarInfo(name)
    info.type, info.linkname = (tarfile.SYMTYPE, link) if link else (info.type, "")
    with tarfile.open(bad, "w:xz") as tar:
        tar.addfile(info)
    with pytest.raises(LedgerError, match="not unpacked"):
        archive.unpack(bad, tmp_path / "there")
    assert not (tmp_path / "there").exists()


def test_a_damaged_archive_or_another_session_of_that_name_is_refused(folder, tmp_path):
    good = archive.pack(folder, tmp_path / "good.tar.xz")
    (tmp_path / "cut.tar.xz").write_bytes(good.read_bytes()[:-200])
    with pytest.raises(LedgerError, match=r"cut.tar.xz cannot be unpacked"):
        archive.unpack(tmp_path / "cut.tar.xz", tmp_path / "there")
    archive.unpack(good, tmp_path / "there")
    SessionFolder(folder).append_trial(record(3), BLOBS)
    newer = archive.pack(folder, tmp_path / "newer.tar.xz")
    with pytest.raises(LedgerError, match="is not the session that"):
        archive.unpack(newer, tmp_path / "there")
    (folder / "plan.jsonl").write_text("")
    with pytest.raises(LedgerError, match="damaged and is not packed"):
        archive.pack(folder, tmp_path / "x.tar.xz")


def test_of_two_that_pack_into_one_archive_each_writes_it_whole(folder, tmp_path, monkeypatch):
    """The second begins and ends while the first, which is another process, writes."""
    packed, add, pid = tmp_path / "one.tar.xz", tarfile.TarFile.addfile, os.getpid()
    inside = []

    def add_file(tar, *args):
        if not inside:
            inside.append(tar)
            monkeypatch.setattr(os, "getpid", lambda: pid + 1)
            archive.pack(folder, packed)
            inside.append(packed.read_bytes())
            monkeypatch.setattr(os, "getpid", lambda: pid)
        add(tar, *args)

    monkeypatch.setattr(tarfile.TarFile, "addfile", add_file)
    archive.pack(folder, packed)
    assert packed.read_bytes() == inside[1]
    assert records.verify(archive.unpack(packed, tmp_path / "there")) == []
    assert not list(tmp_path.glob(f"{records.TMP}*"))


def test_edited_parameters_are_found_also_when_the_sums_agree(folder: Path) -> None:
    reseal(folder, "session.json", (folder / "session.json").read_bytes().replace(b'"runs": 5', b'"runs": 6'))
    (problem,) = records.verify(folder)
    assert "its parameters are not those that the session was begun with" in problem


def _zero_page(data: bytes, at: int) -> bytes:
    return data[:at] + bytes(4096) + data[at + 4096 :]


@pytest.mark.parametrize("spoil", [
    lambda data: _zero_page(data, 0), lambda data: _zero_page(data, 4096), lambda data: data.replace(b"0", b"\xff", 3),
    lambda data: data.replace(b"\n", b"\n# a comment\n", 2), lambda data: bytes(len(data)) + b"\n",
    lambda data: bytes(len(data)), lambda data: b"", lambda data: data[:50], lambda data: data[:100],
])  # fmt: skip
def test_lines_of_the_sums_that_are_lost_stop_no_session(tmp_path, spoil):
    """Trials have sums of their own: what they prove is kept and goes on, and verify says which line was lost."""
    folder, plan = tmp_path / "s", tuple(trial(number) for number in range(90))
    with SessionFolder(folder).opened(SESSION, plan) as stored:
        stored.append_file("provenance/here.json", b"{}")
        for number in range(80):
            stored.append_trial(record(number), BLOBS)
    sums, whole = folder / "SHA256SUMS", (folder / "SHA256SUMS").read_bytes()
    assert len(whole) > 2 * 4096
    sums.write_bytes(spoil(whole))
    problems = records.verify(folder)
    assert any(
        (f"{sums}, line " in each and "not a sum" in each) or "is empty, or cut off" in each for each in problems
    )
    assert len(reopened(folder, plan=plan)) == 80
    assert records.verify(folder) == []
    assert sorted(sums.read_bytes().splitlines()) == sorted(whole.splitlines())


def test_lost_lines_of_the_sums_hide_no_other_damage(folder):
    sums = folder / "SHA256SUMS"
    sums.write_bytes(bytes(100) + sums.read_bytes()[100:])
    before = sums.read_bytes()
    (folder / OWN / "tool.stderr").write_text("another")
    with pytest.raises(LedgerError, match=r"tool\.stderr is damaged"):
        reopened(folder)
    assert sums.read_bytes() == before
    (folder / OWN / "tool.stderr").write_bytes(BLOBS["tool.stderr"])
    (folder / "plan.jsonl").write_text((folder / "plan.jsonl").read_text().replace('"seconds":1.0', '"seconds":2.0'))
    with pytest.raises(LedgerError, match=r"not the plan|another trial"):
        reopened(folder)
    assert sums.read_bytes() == before


@pytest.mark.parametrize("name", ["/etc/passwd", "//etc/passwd", "../outside", "a/../../outside", "", ".", "a\0b"])
def test_what_is_no_name_inside_a_session_is_not_read(tmp_path, name):
    (tmp_path / "outside").write_text("secret")
    (tmp_path / "s" / "a").mkdir(parents=True)
    with pytest.raises(LedgerError, match=r"cannot be read: (it is outside the folder|embedded null byte)"):
        read_file(tmp_path / "s", name)
    (tmp_path / "s" / "a" / "file").write_text("ours")
    assert read_file(tmp_path / "s", "a/file") == read_file(tmp_path / "s", "./a//file") == b"ours"


@pytest.mark.parametrize("link", ["trials", f"trials/{PLAN[0].id}", f"trials/{PLAN[0].id}/tool.stdout"])
def test_nothing_behind_a_link_is_read(folder: Path, tmp_path: Path, link: str) -> None:
    name = f"trials/{PLAN[0].id}/tool.stdout"
    assert read_file(folder, name) == BLOBS["tool.stdout"]
    os.rename(folder / link, tmp_path / "elsewhere")
    (folder / link).symlink_to(tmp_path / "elsewhere")
    assert (folder / name).read_bytes() == BLOBS["tool.stdout"]
    with pytest.raises(LedgerError, match=f"{name} cannot be read"):
        read_file(folder, name)
