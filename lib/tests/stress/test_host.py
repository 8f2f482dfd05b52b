"""The local host: results, limits, streams, files. Channels of SSH whose other end is slow, late or lost."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import paramiko
import pytest

from infrabench.core import CommandFailed, SiteError, Target, wait
from infrabench.machines.hosts import host as hosts
from infrabench.machines.hosts import ssh_channel
from infrabench.machines.hosts.host import LocalHost, SSHHost
from infrabench_selfcheck import overhead
from tests.support.fakes import SCRIPTS, MemoryHost
from tests.unit.test_memory_host import said


@pytest.fixture
def host() -> LocalHost:
    return LocalHost()


def test_run_returns_status_and_both_streams_as_bytes(host: LocalHost) -> None:
    result = host.run(("sh", "-c", "cat; echo err >&2; exit 3"), timeout_s=5, stdin=b"in\xff")
    assert (result.status, result.stdout, result.stderr) == (3, b"in\xff", b"err\n")
    assert (result.ok, result.timed_out) == (False, False)
    missing = host.run(("no-such-program-here",), timeout_s=5)
    assert (missing.status, b"no-such-program-here" in missing.stderr) == (127, True)  # as in a shell


def test_a_hanging_command_is_killed_with_its_children(host: LocalHost, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    begin = time.monotonic()
    result = host.run(("sh", "-c", f"sleep 60 & echo $! >{pid_file}; wait"), timeout_s=0.5)
    assert (result.timed_out, result.status) == (True, None)
    assert time.monotonic() - begin < 5
    assert wait.until(lambda: not Path(f"/proc/{pid_file.read_text().strip()}").exists(), 2.0, 0.02)


@pytest.mark.parametrize(("inside_s", "outside_s"), [(0.1, 30.0), (30.0, 0.1), (None, 0.1)])
def test_a_host_in_memory_ends_what_hangs_as_this_machine_does(inside_s: float | None, outside_s: float) -> None:
    argv = ("sh", "-c", SCRIPTS["hang"], "sh", "2.5")
    limited = argv if inside_s is None else ("timeout", "-k", "5", f"{inside_s:g}", *argv)
    real, fake = (host.run(limited, timeout_s=outside_s) for host in (LocalHost("here"), MemoryHost("here")))
    assert (said(real), real.argv) == (said(fake), fake.argv)
    assert real.duration_s >= fake.duration_s == 0.1
    assert said(Target("server", MemoryHost("here")).run(argv, timeout_s=0.1)) == (None, b"", b"", True, False)


def test_another_tool_that_hangs_is_an_error() -> None:
    with pytest.raises(SiteError, match=r"sleep did not end within 0\.2 s"):
        overhead.run_timed(("sleep", "20"), limit_s=0.2)


def test_a_target_keeps_the_limit_inside_too_and_raises_with_what_was_said(host: LocalHost) -> None:
    result = Target("server", host).run(("sleep", "30"), timeout_s=0.3)
    assert (result.timed_out, result.status) == (True, None)
    with pytest.raises(CommandFailed, match=r"exited with 4.*sad"):
        Target("server", host).check(("sh", "-c", "echo sad >&2; exit 4"), timeout_s=5)


def test_stream_talks_line_by_line_and_ends_with_the_context(host: LocalHost) -> None:
    with host.stream(("cat",)) as stream:
        stream.write_line("one")
        assert stream.read_line(2) == "one"
        with pytest.raises(TimeoutError):
            stream.read_line(0.05)
    with host.stream(("true",)) as stream, pytest.raises(EOFError):
        stream.read_line(2)


def test_put_is_whole_and_get_says_what_it_cannot_read(host: LocalHost, tmp_path: Path) -> None:
    path = tmp_path / "deep/er/file"
    host.put(b"data", str(path), 0o600)
    assert host.get(str(path)) == b"data"
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(path.parent) == ["file"]
    with pytest.raises(CommandFailed, match="nothing-here"):
        host.get(str(tmp_path / "nothing-here"))


def test_a_failed_command_is_told_by_its_beginning_and_its_last_words(host: LocalHost) -> None:
    result = host.run(("sh", "-c", "echo no disk >&2; exit 4", *["long argument"] * 40), timeout_s=5)
    told = str(CommandFailed(result, "here"))
    assert told.startswith("sh -c echo no disk >&2; exit 4 long argument long")
    assert "... on here exited with 4 after" in told
    assert told.endswith("no disk")
    assert len(told) < 200


def test_a_host_that_stalls_before_it_takes_a_command_is_lost_within_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = threading.Event()

    def waits(command: str) -> None:  # as paramiko does: until the connection ends
        assert closed.wait(20)
        raise paramiko.SSHException("Channel closed.")

    channel = SimpleNamespace(exec_command=waits, settimeout=lambda _: None)
    transport = SimpleNamespace(open_session=lambda **_: channel, close=closed.set)
    monkeypatch.setattr(hosts, "CONNECT_S", 0.1)
    monkeypatch.setattr(hosts, "DEAD_AFTER_S", 0.1)
    (tmp_path / "known_hosts").touch()
    host = SSHHost("far", "127.0.0.1", port=1, key=tmp_path / "key", known_hosts=tmp_path / "known_hosts")
    monkeypatch.setattr(host, "_transport", lambda: transport)
    begin = time.monotonic()
    with pytest.raises(SiteError, match="far: cannot run a command: Channel closed"):
        host.run(("true",), timeout_s=5)
    assert time.monotonic() - begin < 5


class LateChannel:
    """A command that is silent until the wait for it is just over, and then prints and exits at once."""

    def __init__(self) -> None:
        self.waiting, self.exited = [b""], False
        self.status_event = threading.Event()
        self.settimeout = self.recv_stderr_ready = lambda *_: False

    def recv(self, count: int) -> bytes:
        if not self.exited:
            self.exited, self.waiting = True, [b"the end\n", b""]
            self.status_event.set()
            raise TimeoutError
        return self.waiting.pop(0)

    def exit_status_ready(self) -> bool:
        return self.exited


def test_output_that_comes_just_after_a_silent_wait_is_not_lost() -> None:
    out = bytearray()
    assert ssh_channel.drain(LateChannel(), out, bytearray(), time.monotonic() + 5)
    assert out == b"the end\n"


class SlowChannel:
    """A command that takes its input in small parts, and makes its sender wait between them."""

    def __init__(self, closes_after: int | None = None) -> None:
        self.taken, self.ended, self.waits, self.closes_after = b"", False, 0, closes_after

    def send(self, data: bytes) -> int:
        self.waits += 1
        if self.waits % 3:
            raise TimeoutError
        if self.closes_after is not None and len(self.taken) >= self.closes_after:
            return 0
        self.taken += data[:1000]
        return min(len(data), 1000)

    def shutdown_write(self) -> None:
        self.ended = True


def test_input_of_which_only_a_part_was_taken_never_looks_whole() -> None:
    data = bytes(range(256)) * 100
    for channel, taken, ended in ((SlowChannel(), data, True), (SlowChannel(closes_after=5000), data[:5000], False)):
        ssh_channel.feed(channel, data)
        assert (channel.taken, channel.ended) == (taken, ended)


@pytest.mark.parametrize("error", [EOFError, OSError, paramiko.SSHException])
def test_closing_a_channel_of_a_lost_connection_hides_nothing(error: type[Exception]) -> None:
    def close() -> None:
        raise error

    ssh_channel.close(SimpleNamespace(close=close))
