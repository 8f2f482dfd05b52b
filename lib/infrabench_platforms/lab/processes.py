"""Processes of this machine, as messages name them: by pid, state and command, and never one that has the pid now."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
# What a reader should know of a process that does not get on.
STATES = {
    "D": "waiting in the kernel for a disk, say, or frozen (D)",
    "T": "stopped (T)",
    "t": "stopped by a debugger (t)",
    "Z": "ended, and its parent does not ask for it (Z)",
    "X": "ended (X)",
}
LONGEST = 100  # characters of a command


@dataclass(frozen=True, slots=True)
class Process:
    """A process: its pid, when it started (ticks since the machine did), and its command."""

    pid: int
    started: int
    command: str


def this_process() -> Process:
    """Return the process that asks."""
    found = find(os.getpid())
    assert found is not None  # it lives
    return found


def find(pid: int) -> Process | None:
    """Return the process that has this pid now; None when there is none."""
    try:
        _, started = _stat(pid)
        words = (PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
        command = b" ".join(words).strip() or (PROC / str(pid) / "comm").read_bytes().strip()
    except OSError:
        return None
    text = command.decode("utf-8", "replace")
    return Process(pid, started, "".join(each if each.isprintable() else "?" for each in text)[:LONGEST])


def is_alive(process: Process) -> bool:
    """Tell whether it is still there, and not another one with its pid."""
    try:
        return _stat(process.pid)[1] == process.started
    except OSError:
        return False


def describe(process: Process) -> str:
    """Return a process in words, with its state where that says why it does not get on."""
    try:
        state = STATES.get(_stat(process.pid)[0], "")
    except OSError:
        state = "ended"
    return f"process {process.pid} (`{process.command}`{state and f', {state}'})"


def _stat(pid: int) -> tuple[str, int]:
    """Return state and start of a process; the name of its program, between brackets, may have any character."""
    fields = (PROC / str(pid) / "stat").read_text("utf-8", "replace").rsplit(")", 1)[1].split()
    return fields[0], int(fields[19])
