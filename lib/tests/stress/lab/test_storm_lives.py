"""All that the lab is, and what runs on it, is killed at drawn moments: `infrabench lab down` leaves nothing of it.

Killed is every process that a command has started and every one in a cgroup that the lab or a system has made, as when
a machine runs out of memory. What is frozen does not die: that is for the product to find.
"""

from __future__ import annotations

import itertools
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from infrabench.ledger.records import recorded
from infrabench.machines.hosts import marks
from infrabench_platforms.lab import nodes
from infrabench_platforms.systems import lxc, native
from tests.stress.torture.dens import MARK
from tests.support.leftovers import Traces, left_since, quiet_traces
from tests.support.storm import SEED, size

KILLS = size(10, 40)
LONGEST_S, DOWN_S = 600.0, 180.0
TRIALS, BEYOND_S = 3, 5.0  # a session is killed until it has so many trials, and so long after
DEAD_S, LINGER_S = 5.0, 15.0  # for what was killed and is not frozen; for what the kernel removes a moment later
WORDS = {
    "lab": ("lab", "up"),
    "cluster": ("lab", "up", "--kubernetes", "flannel"),
    "storage": ("run", "storage", "--profile", "smoke", "--systems", "zfs", "--workloads", "fio-4k", "--runs", "200",
                "--deployments", "1", "--site", "lab"),
    "local": ("run", "containers", "--profile", "smoke", "--systems", "native", "lxc", "--workloads", "null",
              "--runs", "5000", "--site", "local"),
}  # fmt: skip
SESSIONS = ("storage", "local")
# What is begun one after the other; all but the last stand, or measure, when the moment of the last is drawn.
COURSES = (
    ("lab",), ("cluster",), ("storage",), ("local",), ("cluster", "storage"), ("cluster", "storage", "local"),
)  # fmt: skip
SMOKE = ("run", "containers", "--profile", "smoke", "--systems", "native", "--workloads", "null", "--runs", "2")


class Machine:
    """This machine, on which commands of infrabench are started, and killed with all that they made."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.mark = folder, f"lives-{os.getpid()}"
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        self.began = 0
        self.locks = folder / "locks"  # the session on site local claims this machine beside one on the lab
        self.locks.mkdir()

    def start(self, step: str) -> None:
        """Start a command; a session is a new one each time."""
        self.began += 1
        own = {marks.LOCKS: str(self.locks)} if step == "local" else {}
        more = ("--session", str(self.session(step))) if step in SESSIONS else ()
        argv = (sys.executable, "-m", "infrabench.cli", *WORDS[step], *more)
        environment = {**os.environ, **own, MARK: self.mark, "INFRABENCH_HOME": str(self.folder)}
        with self.said(step).open("wb") as said:
            self.children[step] = subprocess.Popen(argv, stdout=said, stderr=said, env=environment)

    def session(self, step: str) -> Path:
        return self.folder / f"{step}-{self.began}"

    def said(self, step: str) -> Path:
        return self.folder / f"{step}.said"

    def reach(self, step: str) -> float:
        """Start a command, return when it stands, or measures, and give how long that took."""
        begin = time.monotonic()
        self.start(step)
        child, folder = self.children[step], self.session(step) / "trials"
        while time.monotonic() < begin + LONGEST_S:
            if step in SESSIONS and folder.is_dir() and len(recorded(folder.parent)) >= TRIALS:
                break
            if child.poll() is not None:
                assert child.returncode == 0, self.said(step).read_text()
                assert step not in SESSIONS, f"{step} was over before its moment: give it more runs"
                break
            time.sleep(0.1)
        else:
            pytest.fail(f"{step} did not get on: {self.said(step).read_text()}")
        return time.monotonic() - begin + (BEYOND_S if step in SESSIONS else 0.0)

    def targets(self) -> set[int]:
        """Return all that a command has started, and all in cgroups that were made."""
        parents, ours = dict[int, int](), {child.pid for child in self.children.values()}
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it ended meanwhile
                state, parent = (entry / "stat").read_text("utf-8", "replace").rsplit(")", 1)[1].split()[:2]
                if state in "ZX":
                    continue
                parents[int(entry.name)] = int(parent)
                if f"{MARK}={self.mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    ours.add(int(entry.name))
        while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
            ours |= more
        return (ours & parents.keys() | members()) - {os.getpid(), 0}

    def kill(self) -> tuple[int, int]:
        """Kill all that there is; return how many that were, and how many of them did not die, being frozen."""
        gone = set[int]()
        while found := self.targets() - gone:
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            gone |= found
        for child in self.children.values():
            child.wait(LONGEST_S)
        self.children.clear()
        deadline = time.monotonic() + DEAD_S
        while (left := self.targets() & gone) and time.monotonic() < deadline:
            time.sleep(0.1)
        return len(gone), len(left)


def members() -> set[int]:
    """Return the pids in cgroups of the lab's nodes and of what systems make on this machine."""
    names = "|".join((f"{nodes.container_prefix()}.*", lxc.NAME, lxc.SPARE))
    made = re.compile(rf"/(lxc\.(payload|monitor)\.({names})|{native.NAME}|infrabench-store-[^/]*)(-\d+)?(/|$)")
    found = set[int]()
    for folder, _, _ in os.walk("/sys/fs/cgroup"):
        if made.search(folder):
            with suppress(OSError):
                found |= {int(pid) for pid in Path(folder, "cgroup.procs").read_text().split()}
    return found


def infrabench(*words: str, limit_s: float = LONGEST_S) -> float:
    """Run a command that has to succeed, and return how long it took."""
    begin = time.monotonic()
    done = subprocess.run(
        (sys.executable, "-m", "infrabench.cli", *words), capture_output=True, text=True, timeout=limit_s
    )
    assert done.returncode == 0, (words, done.stdout + done.stderr)
    return time.monotonic() - begin


def instances() -> list[str]:
    """Return the folders of containers on site local: they are no traces of a lab."""
    return [str(path) for path in Path(lxc.HOME).glob("infrabench*")]


def assert_nothing_left(before: Traces) -> None:
    assert left_since(before, LINGER_S) == {}
    assert instances() == []


def draw_courses(rng: random.Random) -> Iterator[Sequence[str]]:
    """Yield which course each killing ends: all of them first."""
    yield from rng.sample(COURSES, len(COURSES))
    while True:
        yield rng.choice(COURSES)


@contextmanager
def machine_of(folder: Path) -> Iterator[Machine]:
    machine = Machine(folder)
    try:
        yield machine
    finally:
        machine.kill()
        infrabench("lab", "down", limit_s=DOWN_S)


@pytest.mark.timeout(2 * 3600)
def test_all_that_lives_is_killed_and_the_lab_goes_down_without_a_trace(tmp_path: Path) -> None:
    infrabench("lab", "down", limit_s=DOWN_S)
    before, rng = quiet_traces(), random.Random(SEED)
    with machine_of(tmp_path) as machine:
        # What each takes when nothing is killed meanwhile, on this machine now.
        lengths = {"lab": machine.reach("lab")}
        infrabench("lab", "down", limit_s=DOWN_S)
        lengths |= {step: machine.reach(step) for step in ("cluster", *SESSIONS)}
        machine.kill()
        infrabench("lab", "down", limit_s=DOWN_S)
        assert_nothing_left(before)
        for course in itertools.islice(draw_courses(rng), KILLS):
            *earlier, last = course
            for step in earlier:
                machine.reach(step)
            of_s = lengths[last] + (lengths["lab"] if course == ("storage",) else 0.0)
            moment_s = rng.uniform(0.2, of_s)
            machine.start(last)
            time.sleep(moment_s)
            killed, outlived = machine.kill()
            down_s = infrabench("lab", "down", limit_s=DOWN_S)
            told = f"{killed} killed, {outlived} outlived it, lab down after {down_s:.1f} s"
            sys.stdout.write(f"{' + '.join(course)} after {moment_s:.1f} of {of_s:.1f} s: {told}\n")
            assert_nothing_left(before)
        infrabench(*SMOKE, "--site", "lab", "--session", str(tmp_path / "smoke"))
        infrabench("lab", "up")
        infrabench("lab", "down", limit_s=DOWN_S)
        assert_nothing_left(before)
