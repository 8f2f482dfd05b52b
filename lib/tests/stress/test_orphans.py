"""What a killed run has left on a host is ended before the next trial; what cannot be makes that trial invalid."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from infrabench import registry
from infrabench.core import Host, Result
from infrabench.experiment.execution.reparse import compare
from infrabench.ledger import records
from infrabench.machines.hosts import marks
from infrabench.machines.hosts.host import LocalHost
from tests.support import ssh_server
from tests.support.fakes import PLUGINS, fake_site, run_session

FORK = multiprocessing.get_context("fork")
LONGEST_S = 20.0
SLEEP = ("sleep", "3600")


@pytest.fixture(autouse=True)
def _plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(registry.VARIABLE, str(PLUGINS))


@pytest.fixture(params=["local", "over SSH"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Host]:
    if request.param == "local":
        yield LocalHost("here")
        return
    with ssh_server.serving(tmp_path) as login:
        far = login.host("far")
        yield far
        far.close()


@contextmanager
def process(environment: dict[str, str], *argv: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of this test, as `environment` and nothing else would have it; it says when it runs."""
    script = ("sh", "-c", 'echo; exec "$@"', "sh", *(argv or SLEEP))
    with subprocess.Popen(script, env={"PATH": os.environ["PATH"], **environment}, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            child.stdout.read(1)
            yield child
        finally:
            child.kill()


def mark(trial: str = "s/1") -> dict[str, str]:
    name, _, value = f"{marks.prefix()}{trial}".partition("=")
    return {name: value}


def swept(host: Host) -> list[str]:
    with marks.sweeping() as sweeper:
        return sweeper.end_orphans([host, host])


def test_what_bears_a_mark_is_ended_with_its_children_and_nothing_else(host: Host) -> None:
    """An environment that a program clears does not hide the child of one that bears a mark."""
    cleared = ("sh", "-c", "env -i sleep 3600 & echo $!; wait")
    others = ({}, {marks.TRIAL: "/other/locks:s/1"}, {"X": f"{marks.prefix()}s/1"}, {f"X{marks.TRIAL}": ":s/1"})
    with ExitStack() as stack:
        strangers = [stack.enter_context(process(each)) for each in others]
        ours = [stack.enter_context(process(mark(trial))) for trial in ("s/1", "another/2")]
        parent = stack.enter_context(process(mark(), *cleared))
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert swept(host) == []
        assert [each.wait(LONGEST_S) for each in ours] == [-signal.SIGKILL] * 2
        assert parent.wait(LONGEST_S) in (-signal.SIGKILL, 0)  # 0: it saw its child's end
        assert not runs(child)
        assert [each.poll() for each in strangers] == [None] * len(strangers)


def test_commands_bear_the_mark_of_their_trial_and_no_other(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(marks.TRIAL, "of a session around this one")
    with marks.mark_commands("s/it's 1"):
        inside = host.run(("env",), timeout_s=10)
    outside = host.run(("env",), timeout_s=10)
    assert f"{marks.prefix()}s/it's 1" in inside.stdout.decode().splitlines()
    assert marks.TRIAL not in outside.stdout.decode()
    assert inside.argv == outside.argv == ("env",)


class Log(list[str]):
    """What a fake system says that it does, while a process does not run."""

    def __init__(self, watched: int) -> None:
        super().__init__()
        self.watched = watched

    def append(self, what: str) -> None:
        assert not runs(self.watched), what
        super().append(what)


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""  # of one that has ended, nothing can be read
    except FileNotFoundError:
        return False


def _hang(pipe: Path) -> None:
    """A run in a trial whose tool has begun."""
    with marks.mark_commands("s/1"):
        LocalHost().run(("sh", "-c", 'echo $$ >"$1"; exec sleep 3600', "sh", str(pipe)), timeout_s=3600)


def test_the_tool_of_a_killed_run_is_ended_before_anything_is_deployed(tmp_path: Path) -> None:
    pipe = tmp_path / "pid"
    os.mkfifo(pipe)
    killed = FORK.Process(target=_hang, args=(pipe,))
    killed.start()
    pid = int(pipe.read_text())
    try:
        killed.kill()
        killed.join(LONGEST_S)
        assert runs(pid)
        log = Log(pid)
        run_session(registry.study("fakes"), tmp_path / "s", fake_site(LocalHost("here"), log=log), runs=1)
        assert log[0] == "deploy fake-base"
    finally:
        if runs(pid):
            os.kill(pid, signal.SIGKILL)
    assert {each.state for each in records.read_trials(tmp_path / "s")} == {"ok"}


class Leaving(LocalHost):
    """This machine, where every tool leaves a process; how many of those run when a tool begins is counted."""

    def __init__(self, pids: Path) -> None:
        super().__init__("here")
        self.pids, self.counts = pids, list[int]()

    def run(self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"") -> Result:
        if any("printf 'value=" in word for word in argv):
            known = self.pids.read_text().split() if self.pids.exists() else ()
            self.counts.append(sum(runs(int(pid)) for pid in known))
            leave = 'setsid sleep 3600 >/dev/null 2>&1 & echo $! >>"$1"'
            super().run(("sh", "-c", leave, "sh", str(self.pids)), timeout_s=timeout_s)
        return super().run(argv, timeout_s=timeout_s, stdin=stdin)


def test_a_trial_leaves_nothing_to_the_next(tmp_path: Path) -> None:
    host = Leaving(tmp_path / "pids")
    try:
        run_session(registry.study("fakes"), tmp_path / "s", fake_site(host), runs=1)
    finally:
        swept(host)
    assert host.counts == [0] * 4
    assert len(host.pids.read_text().split()) == 4


def test_what_cannot_be_ended_makes_the_trial_invalid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    *python, script = marks.probe("machines/hosts/probes/orphans.py")
    script = script.replace("SIGKILL", "SIGCONT").replace("WAIT_S = 2.0", "WAIT_S = 0.0")
    monkeypatch.setattr(marks, "probe", lambda path: (*python, script))
    with process(mark()) as stays:
        run_session(registry.study("fakes"), tmp_path / "s", fake_site(LocalHost("here")), runs=1)
        assert stays.poll() is None
    trials = records.read_trials(tmp_path / "s")
    assert {each.state for each in trials} == {"invalid"}
    reason = f"here: process {stays.pid} (sleep) of an earlier trial still runs and cannot be ended"
    assert {each.reason for each in trials} == {reason}
    assert compare(tmp_path / "s").differences == ()  # a mended parser does not make it valid
