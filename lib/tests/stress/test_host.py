"""The local host: limits, variables, streams, files. Channels of SSH whose output comes late."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from infrabench.core import CommandFailed, SiteError, Target, wait
from infrabench.machines.hosts import host as hosts
from infrabench.machines.hosts import ssh_channel
from infrabench.machines.hosts.host import LocalHost
from infrabench_selfcheck import overhead
from tests.support.fakes import SCRIPTS, MemoryHost
from tests.unit.test_memory_host import said


@pytest.fixture
def host() -> LocalHost:
    return LocalHost()


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


def test_a_tool_gets_no_variable_that_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "planted")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # nor one that changes a measurement
    monkeypatch.setenv("INFRABENCH_THING", "ours")
    said = LocalHost().run(("env",), timeout_s=5).stdout.decode()
    names = {line.split("=")[0] for line in said.splitlines()}
    assert "INFRABENCH_THING" in names
    assert names <= {*hosts.PASSED_ON, "LC_ALL", *(name for name in os.environ if name.startswith(hosts.OWN))}
    with LocalHost().stream(("sh", "-c", 'echo "$TOKEN-$OMP_NUM_THREADS-$INFRABENCH_THING"')) as stream:
        assert stream.read_line(5) == "--ours"
    assert b"TOKEN=planted" in LocalHost(environment=os.environ).run(("env",), timeout_s=5).stdout


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
