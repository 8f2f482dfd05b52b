"""Processes of a store: found again, told apart from others of the same pid, ended with all that they left."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from infrabench_platforms.stores.node import daemons
from infrabench_platforms.stores.node.config import Config, StoreError, claim

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Config]:
    made = Config("ceph", "one", 2**30, 3 * 2**30, homes=str(tmp_path / "homes"))
    top = tmp_path / "cgroup/memory"
    top.mkdir(parents=True)
    (top / "cgroup.procs").touch()
    monkeypatch.setattr(daemons, "CGROUPS", tmp_path / "cgroup")
    claim(made)
    daemons.group(made)
    yield made
    for name in ("mon", "osd"):
        daemons.stop(made, name, wait_s=0)


def group(config: Config) -> Path:
    return daemons.CGROUPS / f"memory/infrabench-store-{config.name}"


def sleeper(config: Config) -> tuple[str, ...]:
    return (sys.executable, "-c", "import time; time.sleep(60)", f"{config.home}/x")


def test_a_daemon_is_started_limited_found_and_stopped(config):
    pid = daemons.start(config, "mon", sleeper(config))
    assert daemons.alive(config, "mon") == pid
    assert (group(config) / "memory.limit_in_bytes").read_text() == str(3 * 2**30)
    assert (group(config) / "cgroup.procs").read_text() == "0"  # itself, written by the process
    with pytest.raises(StoreError, match="runs already"):
        daemons.start(config, "mon", sleeper(config))
    daemons.stop(config, "mon", "never-there")
    assert daemons.alive(config, "mon") is None
    assert list(config.run.iterdir()) == []


def test_one_that_does_not_listen_is_killed(config):
    daemons.start(config, "osd", (sys.executable, "-c", STUBBORN, f"{config.home}/x"))
    daemons.until(lambda: "up" in (config.log / "osd.log").read_text(), 10, "it")
    begin = time.monotonic()
    pid = daemons.alive(config, "osd")
    daemons.stop(config, "osd", wait_s=0.3)
    assert 0.3 <= time.monotonic() - begin < 5
    assert pid is not None
    assert daemons._started(pid) is None


def test_another_process_of_that_pid_is_not_ours(config):
    other = subprocess.Popen(["sleep", "60"])
    try:
        (config.run / "mon.pid").write_text(f"{other.pid} 12345")
        assert daemons.alive(config, "mon") is None
        daemons.stop(config, "mon")
        assert other.poll() is None
        for text in ("", "x", f"{other.pid}"):
            (config.run / "mon.pid").write_text(text)
            assert daemons.alive(config, "mon") is None
    finally:
        other.kill()
        other.wait()


def test_a_kill_is_at_once_and_a_child_that_waits_to_be_reaped_is_gone(config):
    daemons.start(config, "osd", sleeper(config))
    assert abs(daemons.kill(config, "osd") - time.time()) < 5
    assert daemons.alive(config, "osd") is None


def test_strays_are_those_of_the_cgroup_and_who_looks_at_the_store_is_left(config, monkeypatch):
    monkeypatch.setattr(daemons, "KILL_S", 1.0)
    mine, other = subprocess.Popen(sleeper(config)), subprocess.Popen(sleeper(config))
    files = [group(config) / name for name in ("cgroup.procs", "memory.limit_in_bytes")]
    try:
        files[0].write_text(f"0\n{mine.pid}\n{2**22 - 1}\n")  # one that cannot be seen from here, and one that is gone
        assert daemons.strays(config) == [mine.pid]
        daemons.hold(config, held=True)
        daemons.until(lambda: daemons._stat(mine.pid)[0] == "T", 5, "stopped")
        with pytest.raises(StoreError, match="infrabench-store-one empty and removed"):  # a folder that is no cgroup
            daemons.end_all(config)  # a process that was stopped ends too
        assert mine.wait(5) < 0
        assert other.poll() is None
        for file in files:
            file.unlink()
        daemons.end_all(config)
        assert not group(config).exists()
    finally:
        other.kill()
        other.wait()


def test_who_keeps_a_folder_busy(config, tmp_path):
    folder = tmp_path / "mount"
    folder.mkdir()
    with open(folder / "held", "w") as held:
        inside = subprocess.Popen(["sleep", "60"], cwd=folder)
        writes = subprocess.Popen(["sleep", "60"], stdout=held)
    bystander = subprocess.Popen(["sleep", "60"], cwd=tmp_path)
    try:
        daemons.until(lambda: set(daemons.users(folder)) == {inside.pid, writes.pid}, 10, "users")
        daemons.end_users(folder)
        assert inside.wait(5) < 0
        assert writes.wait(5) < 0
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_command_that_fails_is_told_with_its_words():
    assert daemons.run(("printf", "%s", "a b")) == "a b"
    with pytest.raises(StoreError, match=r"sh -c .* failed: no such thing"):
        daemons.run(("sh", "-c", "echo no such thing >&2; exit 3"))
    with pytest.raises(StoreError, match="is not installed"):
        daemons.run(("/no/such/program",))
    with pytest.raises(StoreError, match=r"did not end within 0 s"):
        daemons.run(("sleep", "5"), timeout_s=0.1)


def test_no_memory_cgroup_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(daemons, "CGROUPS", tmp_path)
    with pytest.raises(StoreError, match="equal limits cannot be set"):
        daemons.group(Config("ceph", "one", 1, 1))
