"""Hosts that are dead, or half dead: an error names them within seconds, and a session goes on later."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from infrabench.core import SiteError, Study
from infrabench.ledger import records
from infrabench.machines.hosts import child_process
from infrabench.machines.hosts import host as hosts
from infrabench.machines.hosts.host import SSHHost
from tests.stress.torture import farhost
from tests.support.fakes import fake_site, run_session
from tests.support.started_commands import hash_trials, unused_port
from tests.support.storm import SEED, size


class Far:
    """The far host: its files, its process, and new connections to it."""

    def __init__(self, home: Path) -> None:
        self.home, self.port, self.process = home, 0, None
        self.start()

    def start(self) -> None:
        argv = (sys.executable, "-m", farhost.__name__, str(self.home), str(self.port))
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.port = int(self.process.stdout.readline())

    def host(self, key: str = "id", port: int | None = None) -> SSHHost:
        files = {"key": self.home / key, "known_hosts": self.home / "known_hosts"}
        return SSHHost("far", "127.0.0.1", user="someone", port=port or self.port, **files)

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Far]:
    monkeypatch.setattr(hosts, "CONNECT_S", 2.0)
    monkeypatch.setattr(hosts, "DEAD_AFTER_S", 2.0)
    made = Far(tmp_path)
    yield made
    with suppress(ProcessLookupError):
        made.signal(signal.SIGCONT)
    made.kill()


def said(do: Callable[[], object], most_s: float = 20.0) -> str:
    begin = time.monotonic()
    with pytest.raises(SiteError) as caught:
        do()
    assert time.monotonic() - begin < most_s
    assert "far" in str(caught.value)
    return str(caught.value)


def soon(do: Callable[[], object], wait_s: float = 0.5) -> None:
    threading.Timer(wait_s, do).start()


def test_what_goes_to_and_comes_from_a_far_host_is_whole(far: Far) -> None:
    host = far.host()
    result = host.run(("sh", "-c", "cat; echo e >&2; exit 3"), timeout_s=20, stdin=b"in\xff\x00")
    assert (result.status, result.stdout, result.stderr) == (3, b"in\xff\x00", b"e\n")
    data = random.Random(SEED).randbytes(6_000_000)  # more than both windows hold
    assert host.run(("cat",), timeout_s=60, stdin=data).stdout == data
    assert host.run(("true",), timeout_s=20, stdin=data).ok
    host.put(data, str(far.home / "deep/file"), 0o600)
    assert (far.home / "deep/file").read_bytes() == data
    host.close()


def test_a_flood_from_a_far_host_is_stopped(far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "MOST_BYTES", 2_000_000)
    host = far.host()
    for where in ("", ">&2"):
        begin = time.monotonic()
        result = host.run(("sh", "-c", f"yes {where}"), timeout_s=30)
        assert result.flooded
        assert not result.ok
        assert result.status is None
        assert max(len(result.stdout), len(result.stderr)) <= child_process.KEPT_BYTES
        assert time.monotonic() - begin < 20
    assert host.run(("echo", "on"), timeout_s=20).stdout == b"on\n"
    host.close()


def test_nobody_listens(far: Far) -> None:
    assert "cannot connect" in said(lambda: far.host(port=unused_port()).run(("true",), timeout_s=5))


def test_somebody_listens_and_says_nothing(far: Far) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = far.host(port=silent.getsockname()[1])
        assert "cannot connect" in said(lambda: host.run(("true",), timeout_s=5))


@pytest.mark.parametrize(
    "words", [b"\x00" * 100_000, b"220 mail.example ESMTP\r\n" * 2000, b"SSH-2.0-x\r\n" + b"\xff" * 50_000]
)
def test_somebody_listens_and_is_no_ssh(far: Far, words: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer() -> None:
            with suppress(OSError):
                one, _ = other.accept()
                one.sendall(words)
                one.close()

        threading.Thread(target=answer, daemon=True).start()
        host = far.host(port=other.getsockname()[1])
        assert "cannot connect" in said(lambda: host.run(("true",), timeout_s=5))


@pytest.mark.parametrize("text", [b"\xff\xfe\x00", b"[127.0.0.1]:22 ssh-ed25519 AAAA!!!\n", None])
def test_the_known_hosts_file_is_damaged_or_not_there(far: Far, text: bytes | None) -> None:
    path = far.home / "known_hosts"
    path.unlink() if text is None else path.write_bytes(text)
    said(lambda: far.host().run(("true",), timeout_s=5))


@pytest.mark.parametrize(
    "text", [b"", b"\xff" * 3000, b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"]
)
def test_the_key_is_none(far: Far, text: bytes) -> None:
    (far.home / "broken").write_bytes(text)
    said(lambda: far.host("broken").run(("true",), timeout_s=5))


def test_the_host_dies_in_a_command(far: Far) -> None:
    host = far.host()
    assert host.run(("true",), timeout_s=20).ok
    soon(lambda: far.signal(signal.SIGKILL))
    assert "lost" in said(lambda: host.run(("sleep", "30"), timeout_s=30))
    assert "lost" in said(lambda: host.run(("true",), timeout_s=30))


def test_the_host_stalls_in_a_command(far: Far) -> None:
    host = far.host()
    assert host.run(("true",), timeout_s=20).ok
    soon(lambda: far.signal(signal.SIGSTOP))
    assert "cannot run a command" in said(lambda: host.run(("sleep", "30"), timeout_s=2.0))


def test_the_host_stalls_while_it_is_told_much(far: Far) -> None:
    host = far.host()
    assert host.run(("true",), timeout_s=20).ok
    far.signal(signal.SIGSTOP)
    path = far.home / "told"
    said(
        lambda: host.run(
            ("sh", "-c", 'cat >"$0.part" && mv "$0.part" "$0"', str(path)), timeout_s=2.0, stdin=b"x" * 9_000_000
        )
    )
    far.signal(signal.SIGCONT)
    time.sleep(1.0)
    assert not path.exists()  # half of it never looks like the whole


def test_a_session_on_a_host_that_is_lost_goes_on_when_it_is_back(far: Far, storm: Study) -> None:
    rng, folder = random.Random(SEED), far.home / "runs/session"
    losses, before = size(2, 12), dict[str, str]()

    def run(after: float | None) -> None:
        host = far.host()
        if after is not None:
            soon(lambda: far.signal(rng.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP))), after)
        try:
            site = fake_site(host, home=str(far.home / "dens"))
            run_session(storm, folder, site, profile="storm")
        finally:
            host.close()

    lost = 0
    for _ in range(losses):
        try:
            run(rng.uniform(0.6, 4.0))
        except SiteError:
            lost += 1
        else:
            break  # it was over before: nothing is left to lose
        with suppress(ProcessLookupError):
            far.signal(signal.SIGCONT)
        far.kill()
        far.start()
        if folder.exists():
            assert records.verify(folder) == []
            now = hash_trials(folder)
            assert before.items() <= now.items()
            before = now
    time.sleep(4.1 if lost < losses else 0)  # the last signal may still come
    with suppress(ProcessLookupError):
        far.signal(signal.SIGCONT)
    if lost < losses:
        far.kill()
        far.start()
    run(None)
    plan, found = records.read_plan(folder), records.read_trials(folder)
    assert [each.trial.id for each in found] == [trial.id for trial in plan]
    aborted = sum(each.state == "aborted" for each in found)
    assert {each.state for each in found} <= {"ok", "aborted", "timeout"}
    assert lost
    assert aborted <= lost
