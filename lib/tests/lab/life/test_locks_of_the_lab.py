"""Whoever waits for a lock of the lab says for whom, and for how long at most; another user holds none."""

from __future__ import annotations

import json
import os
import re
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from infrabench.core import SiteError
from infrabench.machines.hosts.host import LocalHost
from infrabench_platforms.lab import go_tools, images, processes, shell


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of its own; nobody waits in it, and nobody waits in silence."""
    monkeypatch.setenv("INFRABENCH_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(shell, "SILENT_S", 0.0)
    monkeypatch.setattr(shell, "LOCKS", {name: (doing, 0.0) for name, (doing, _) in shell.LOCKS.items()})
    return shell.open_state_dir()


def note(file: Path, holder: processes.Process) -> None:
    file.write_text(json.dumps(asdict(holder)))


@pytest.mark.parametrize("name", shell.LOCKS)
def test_who_waits_says_for_whom_and_gives_up(name: str, state: Path) -> None:
    said: list[str] = []
    me = re.escape(processes.describe(processes.this_process()))
    assert f"process {os.getpid()} (`" in processes.describe(processes.this_process())
    wanted = rf"^{me} {shell.LOCKS[name][0]}, .*waited 0 s.*fuser {state / name}"
    with (
        shell.locked(name),
        pytest.raises(SiteError, match=wanted),
        shell.locked(name, say=said.append),
    ):
        pass
    (line,) = said
    assert re.match(rf"Waiting for {me}, which {shell.LOCKS[name][0]}: at most 0 s$", line)
    with shell.locked(name, say=said.append):
        pass
    assert len(said) == 1  # nobody had it


def test_a_holder_that_has_died_is_not_taken_for_one_that_has_its_pid(state: Path) -> None:
    me = processes.this_process()
    with shell.locked(), shell.in_use():
        # Killed holders have left their words, and what holds the locks now has said nothing yet.
        note(state / "lock", replace(me, started=me.started - 1, command="infrabench lab up"))
        note(state / shell.USE, replace(me, pid=2**22 + 1, command="infrabench run"))
        unknown = "a process that does not say who it is"
        wanted = rf"{unknown} \(.*, {me.pid}, `infrabench lab up`, has ended\)"
        with pytest.raises(SiteError, match=wanted), shell.locked():
            pass
        wanted = rf"in use by {unknown} \(.*, {2**22 + 1}, `infrabench run`, has ended\)"
        with pytest.raises(SiteError, match=wanted), shell.in_use():
            pass
        (state / "lock").write_text("")
        with pytest.raises(SiteError, match=f"^{unknown} brings the lab up"), shell.locked():
            pass


def test_who_ends_well_leaves_no_word(state: Path) -> None:
    with shell.locked(), shell.in_use():
        assert json.loads((state / "lock").read_text()) == asdict(processes.this_process())
        assert json.loads((state / shell.USE).read_text()) == asdict(processes.this_process())
    assert (state / "lock").read_text() == (state / shell.USE).read_text() == ""


def test_a_full_disk_keeps_nobody_from_a_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with shell.locked(), pytest.raises(SiteError, match="does not say who it is brings"), shell.locked():
        pass


def test_an_image_that_is_made_holds_up_no_lab_and_nobody_who_has_his(monkeypatch: pytest.MonkeyPatch) -> None:
    made = images._image("node")
    monkeypatch.setattr(images, "_fill", lambda kind, folder: pytest.fail(f"{kind} was made"))
    with shell.locked(images.LOCK):
        with shell.locked(), shell.in_use():  # what `lab down` holds
            pass
        with pytest.raises(SiteError, match="makes an image"):
            images.make("node")
        with pytest.raises(SiteError, match="makes an image"):
            images.purge()
        made.folder.mkdir(parents=True)
        assert images.make("node") == made
    images.purge()
    assert not made.folder.exists()


def test_go_programs_are_not_taken_from_below_their_build() -> None:
    with shell.locked(go_tools.LOCK):
        for remove in (go_tools.purge, go_tools.forget_caches):
            with pytest.raises(SiteError, match="builds Go tools"):
                remove()


def test_a_process_is_told_by_its_state_and_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "PROC", tmp_path)
    fields = " ".join(map(str, range(4, 53)))  # of proc(5), from the fourth on
    for pid, state, name, words in (
        (7, "D", "a) R (b", b"dd\0if=/dev/sda\0"), (8, "S", "sleep", b"sleep\0" + b"9" * 200),
        (9, "T", "kthread", b""), (10, "R", "evil", b"a\x1b[2J\0\n"),
    ):  # fmt: skip
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} ({name}) {state} {fields}\n")
        (tmp_path / str(pid) / "cmdline").write_bytes(words)
        (tmp_path / str(pid) / "comm").write_text(f"{name}\n")
    found = {pid: processes.find(pid) for pid in (7, 8, 9, 10, 11)}
    assert found[11] is None
    assert found[7] == processes.Process(7, 22, "dd if=/dev/sda")
    told = {pid: processes.describe(each) for pid, each in found.items() if each}
    assert told[7] == "process 7 (`dd if=/dev/sda`, waiting in the kernel for a disk, say, or frozen (D))"
    assert told[8] == f"process 8 (`sleep {'9' * 94}`)"
    assert told[9] == "process 9 (`kthread`, stopped (T))"
    assert told[10] == "process 10 (`a?[2J`)"
    assert processes.is_alive(found[7])
    assert not processes.is_alive(replace(found[7], started=23))
    (tmp_path / "7/stat").unlink()
    assert not processes.is_alive(found[7])
    assert processes.describe(found[7]) == "process 7 (`dd if=/dev/sda`, ended)"


def test_another_user_holds_no_lock_of_the_lab_and_enters_no_image(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the most careless setting: everybody may read, and write, what is made without a thought."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        stack.callback(os.umask, os.umask(0))
        Path(folder).chmod(0o755)
        state = Path(folder) / "state"
        monkeypatch.setenv("INFRABENCH_STATE", str(state))
        with shell.locked("lock"), shell.in_use():
            (state / "images").mkdir()
        for command in (("flock", "-n", state / "lock", "true"), ("flock", "-n", state / "use.lock", "true"),
                        ("ls", state / "images")):  # fmt: skip
            as_other = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *map(str, command))
            assert LocalHost().run(as_other, timeout_s=10).stderr.endswith(b"Permission denied\n")
            assert LocalHost().run([str(each) for each in command], timeout_s=10).ok
