"""Interrupts: what runs is taken down whole, also by commands, in a closed terminal and in calls for many hosts."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from infrabench.machines.hosts import parallel
from infrabench.machines.hosts.interrupts import SIGNALS, raise_once, set_event


@pytest.fixture(autouse=True)
def _default_actions() -> Iterator[None]:
    """Handle signals as a process does that is started in a terminal, also where `&` or nohup has them ignored."""
    before = {each: signal.getsignal(each) for each in SIGNALS}
    for each in SIGNALS:
        signal.signal(each, signal.default_int_handler if each == signal.SIGINT else signal.SIG_DFL)
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


def test_each_run_has_an_interrupt_of_its_own_and_another_thread_keeps_what_there_is() -> None:
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt), raise_once(print):
            signal.raise_signal(signal.SIGINT)
    before, seen = signal.getsignal(signal.SIGINT), []

    def inside() -> None:
        with raise_once(print):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join(5)
    assert seen == [before]


def test_an_interrupt_sets_the_event_wherever_the_main_thread_is() -> None:
    class Late:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)  # an exception that is raised here is ignored

    before = signal.getsignal(signal.SIGINT)
    stopped, lines = threading.Event(), list[str]()
    with set_event(stopped, lines.append):
        for _ in range(2):
            late = Late()
            del late
    assert stopped.is_set()
    assert lines == ["Interrupted: what runs comes to its end, and nothing else is started"]
    assert signal.getsignal(signal.SIGINT) is before


CHILD = """
import pathlib, sys, time
from infrabench.machines.hosts.interrupts import raise_once
try:
    with raise_once(lambda line: print(line, flush=True)):
        try:
            print("ready", flush=True)
            time.sleep(60)
        finally:
            for _ in range(20):
                print("taking down", flush=True)
                time.sleep(0.05)
            pathlib.Path(sys.argv[1]).write_text("taken down")
except KeyboardInterrupt:
    sys.exit(130)
"""


def start_in_terminal(script: str, *arguments: object, prefix: tuple[str, ...] = ()) -> tuple[int, int]:
    """Run a script as the leader of a terminal's session; return its pid and the terminal's other end."""
    pid, terminal = pty.fork()
    if pid == 0:
        argv = [*prefix, sys.executable, "-c", script, *map(str, arguments)]
        os.execvp(argv[0], argv)
    shown = b""
    while b"ready" not in shown:
        shown += os.read(terminal, 1024)
    return pid, terminal


def test_a_closed_terminal_takes_everything_down_but_what_is_to_outlive_it(tmp_path: Path) -> None:
    # Under nohup an end of the terminal is ignored, and so it would be here.
    pid, terminal = start_in_terminal(CHILD, tmp_path / "end", prefix=("env", "--default-signal=HUP"))
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
    assert (tmp_path / "end").read_text() == "taken down"
    short = CHILD.replace("sleep(60)", "sleep(1)")
    pid, terminal = start_in_terminal(short, tmp_path / "end", prefix=("env", "--ignore-signal=HUP"))
    for _ in range(2):
        os.kill(pid, signal.SIGHUP)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(terminal)


# A command, and the job of a campaign, whose work ends at the first interrupt and takes a second to put away.
SLOW = """
import pathlib, sys, time
from argparse import Namespace
from infrabench.cli import parser
from infrabench.experiment.campaign import job

def work(*_):
    try:
        print("ready", flush=True)
        time.sleep(60)
    finally:
        for _ in range(20):
            time.sleep(0.05)
        pathlib.Path(sys.argv[1]).write_text("taken down")
    yield ""

if sys.argv[2] == "command":
    parser.make_parser = lambda: Namespace(parse_args=lambda argv: Namespace(debug=False, command=work))
    sys.exit(parser.main([]))
job._carry_out = lambda *_: list(work())
pathlib.Path("jobs").write_text('{"jobs": [{"id": "a"}], "home": "."}')
try:
    job.main(["jobs", "a"])
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("what", ["command", "job"])
def test_no_command_is_cut_short_while_it_takes_down(tmp_path: Path, what: str, number: signal.Signals) -> None:
    argv = ["env", "--default-signal", sys.executable, "-c", SLOW, tmp_path / "end", what]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline() == b"ready\n"
        for each in (number, *SIGNALS):
            child.send_signal(each)
            time.sleep(0.1)
        assert child.wait(10) == 130
        assert what == "job" or child.stderr.read().count(b"being taken down") == 3
    assert (tmp_path / "end").read_text() == "taken down"


# ------------------------------------------------------------------------------------------ calls for many hosts


def test_results_come_in_the_order_of_the_items() -> None:
    assert parallel.run_all(lambda number: (time.sleep(0.02 / number), number)[1], [1, 2, 3]) == [1, 2, 3]
    assert parallel.run_all(str, []) == []


def test_the_first_error_is_raised_when_all_calls_have_ended() -> None:
    ended = []

    def call(number: int) -> None:
        if number == 0:
            raise ValueError("the first")
        time.sleep(0.05)
        ended.append(number)

    with pytest.raises(ValueError, match="the first"):
        parallel.run_all(call, range(3))
    assert sorted(ended) == [1, 2]


def test_an_interrupt_starts_no_further_call() -> None:
    started = []

    def call(number: int) -> None:
        started.append(number)
        if number == 0:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # type: ignore[arg-type]
        time.sleep(0.7)

    with pytest.raises(KeyboardInterrupt):
        parallel.run_all(call, range(4), most=1)
    assert len(started) < 4
