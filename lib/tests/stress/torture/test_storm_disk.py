"""Disks that are full or read-only: a clear error, a sound ledger, and the same command goes on when there is room."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from infrabench import registry
from infrabench.analysis.dataset import folder as dataset
from infrabench.analysis.export import export, package_of
from infrabench.analysis.session_data import open_session
from infrabench.core import LedgerError, Study
from infrabench.experiment.execution import preflight
from infrabench.ledger import archive, catalogue, records
from infrabench.ledger.session_folder import SessionFolder
from infrabench.machines.hosts.host import LocalHost
from infrabench.notebook.api import results
from tests.support import stored_sessions
from tests.support.analysis_fixtures import read_table
from tests.support.fakes import fake_site, run_session, stop_after
from tests.support.started_commands import hash_trials
from tests.support.storm import SEED, size

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="not run: mounting a file system needs root")

MIB = 2**20


@contextmanager
def small_disk(home: Path, size_bytes: int) -> Iterator[Path]:
    """Yield a folder on a new file system of that size; both are gone afterwards."""
    image, place = home / "disk.img", home / "disk"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(size_bytes)
    subprocess.run(("mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", image), check=True, timeout=60)
    subprocess.run(("mount", "-o", "loop", image, place), check=True, timeout=60)
    try:
        yield place
    finally:
        subprocess.run(("umount", "--lazy", place), check=True, timeout=60)
        image.unlink()


def fill(place: Path, leave_bytes: int) -> Path:
    """Fill a file system until `leave_bytes` are left, and return the file that does it."""
    filler = place / "filler"
    left = os.statvfs(place)
    size = left.f_bavail * left.f_frsize - leave_bytes
    with filler.open("ab") as file:
        while True:
            try:
                os.posix_fallocate(file.fileno(), 0, max(size, 1))
                return filler
            except OSError:  # of a file in many pieces, the list of them needs room too
                size -= left.f_frsize
                if size <= 0:
                    raise


def read_only(place: Path, yes: bool) -> None:
    """Mount it so that nobody can write to it, or as before."""
    subprocess.run(("mount", "-o", f"remount,{'ro' if yes else 'rw'}", place), check=True, timeout=60)


@pytest.fixture
def disk(tmp_path: Path, storm: Study) -> Iterator[Path]:
    with small_disk(tmp_path, 12 * MIB) as place:
        yield place


def run(disk: Path, folder: Path, runs: int = 2, **more: object) -> Path:
    site = fake_site(LocalHost("here"), home=str(disk.parent / "dens"))
    return run_session(registry.study("storm"), folder, site, profile="storm", runs=runs, **more)


def tried(disk: Path, folder: Path) -> str:
    """Run the session and return what it complained of; empty when it is complete."""
    try:
        run(disk, folder)
    except LedgerError as error:
        return str(error)
    return ""


def test_a_disk_that_fills_up_at_any_moment(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left when a run begins is drawn: it is the run itself that fills the disk, wherever it happens to be."""
    # What is expected to fit is refused before anything starts. Here it is to begin.
    monkeypatch.setattr(preflight, "_compare", lambda *_: None)
    rng, failed, sessions = random.Random(SEED), 0, 0
    while failed < size(6, 60):
        folder, before = disk / f"runs/s{sessions}", dict[str, str]()
        sessions += 1
        while True:
            filler = fill(disk, rng.choice((0, 4096, 40_000, 200_000, 900_000)) + rng.randrange(4096))
            told = tried(disk, folder)
            if told:
                assert "cannot be written: No space left" in told
                assert "safe" in told
                failed += 1
            else:
                filler.unlink()
                break
            if folder.exists():
                assert records.verify(folder) == []
                now = hash_trials(folder)
                assert before.items() <= now.items()
                before = now
            filler.unlink()
            if rng.random() < 0.3:
                run(disk, folder)  # room was made
                break
        plan = records.read_plan(folder)
        assert records.recorded(folder) == {trial.id for trial in plan}
        assert records.verify(folder) == []
        assert {each.state for each in records.read_trials(folder)} == {"ok"}
        listed = (folder / "SHA256SUMS").read_text().splitlines()
        assert len(listed) == len(set(listed))
        assert not list(folder.rglob(".tmp-*"))
        for path in sorted(folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()


def test_a_full_disk_leaves_no_half_table_and_no_half_archive(disk: Path, tmp_path: Path) -> None:
    opened = open_session(run(disk, tmp_path / "runs/s", runs=6))
    table = export(opened, "csv", disk / "out/table.csv")
    whole = table.read_bytes()
    filler = fill(disk, 5000)
    for name in ("table.csv", "table.parquet", "other.csv", "other.parquet"):
        with pytest.raises(OSError, match="No space left"):
            export(opened, name.partition(".")[2], disk / "out" / name)
    assert table.read_bytes() == whole
    assert set((disk / "out").iterdir()) == {table, package_of(table)}
    with pytest.raises(LedgerError, match="No space left"):
        archive.pack(tmp_path / "runs/s", disk / "s.tar.xz")
    assert not list(disk.glob("*.tar.xz"))
    assert not list(disk.glob(".tmp-*"))
    filler.unlink()
    for name in ("table.csv", "table.parquet"):
        assert len(read_table(export(opened, name.partition(".")[2], disk / "out" / name))) == len(opened.table)


def test_a_ledger_that_is_read_only_is_read_and_not_written(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(catalogue.VARIABLE, str(disk))
    folder = disk / "data/runs/storm/s"
    run(disk, folder)
    half = disk / "data/runs/storm/half"
    with pytest.raises(KeyboardInterrupt):
        run(disk, half, on_progress=stop_after(3))
    read_only(disk, True)
    try:
        assert records.verify(folder) == records.verify(half) == []
        assert len(open_session(folder).table) == 12
        results(open_session(folder), str(disk.parent / "out"))
        with pytest.raises(LedgerError, match="no folder that this user can write to"):
            run(disk, half)
        with pytest.raises(LedgerError, match="no folder that this user can write to"):
            run(disk, disk / "data/runs/storm/new")
        assert run(disk, folder) == folder  # complete: nothing has to be written
    finally:
        read_only(disk, False)
    run(disk, half)
    assert len(records.recorded(half)) == 12


def test_a_data_set_on_a_lower_layer_of_overlay_is_brought_up_to_date(tmp_path: Path) -> None:
    """Overlay renames no folder of a lower layer, as a container's image has: the part is replaced all the same."""
    disk, merged = tmp_path / "disk", tmp_path / "merged"
    for each in (disk, merged):
        each.mkdir()
    subprocess.run(("mount", "-t", "tmpfs", "tmpfs", disk), check=True, timeout=60)
    try:
        for name in ("lower", "upper", "work"):
            (disk / name).mkdir()
        session = stored_sessions.write_session(tmp_path / "s")
        assert [each.read for each in dataset.update([session], disk / "lower/set")] == [True]
        layers = f"lowerdir={disk}/lower,upperdir={disk}/upper,workdir={disk}/work"
        subprocess.run(("mount", "-t", "overlay", "overlay", "-o", layers, merged), check=True, timeout=60)
        SessionFolder(session).append_file("provenance/more.json", b"{}")
        place = merged / "set/containers/lab/s"
        with pytest.raises(OSError, match="Invalid cross-device link"):
            os.rename(place, place.with_name("t"))
        for read in (True, False):
            assert [each.read for each in dataset.update([session], merged / "set")] == [read]
        assert (place / "provenance/more.json").is_file()
        assert dataset.parts(merged / "set")[1] == []
        assert [path.name for path in place.parent.iterdir()] == ["s"]
    finally:
        for each in (merged, disk):
            subprocess.run(("umount", "--lazy", each), check=each == disk, timeout=60)
