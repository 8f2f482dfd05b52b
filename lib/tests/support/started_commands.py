"""Commands of `infrabench` that are started as a person would, what they record meanwhile, and how they end."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

import pytest

from infrabench.core import Deployment, Target, wait
from infrabench.ledger.records import read_plan, read_trials, recorded, verify

LONGEST_S = 300.0


def start_command(*words: str, environment: Mapping[str, str] = os.environ) -> subprocess.Popen[str]:
    """Start a command. A shell that runs this in the background makes it deaf to Ctrl-C: that is undone."""
    argv = ("env", "--default-signal=INT", sys.executable, "-m", "infrabench.cli", *words)
    return subprocess.Popen(argv, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)


def end_command(child: subprocess.Popen[str], within_s: float = LONGEST_S) -> tuple[int, str]:
    """Return the exit status and what was said; a command that does not end is killed."""
    try:
        out, err = child.communicate(timeout=within_s)
    except subprocess.TimeoutExpired:
        child.kill()
        out, err = child.communicate()
    return child.returncode, out + err


def hash_trials(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every recorded trial of a session by its id; nothing where there is no session yet."""
    found = recorded(folder) if (folder / "trials").is_dir() else ()
    return {name: sha256((folder / "trials" / name / "trial.json").read_bytes()).hexdigest() for name in found}


def check_whole(folder: Path) -> None:
    """A session is sound, and every planned trial is recorded once, whatever was repeated."""
    done = [record.trial for record in read_trials(folder)]
    assert sorted(trial.id for trial in done if not trial.attempt) == sorted(trial.id for trial in read_plan(folder))
    assert verify(folder) == []


def wait_for_trials(
    folder: Path, count: int, child: subprocess.Popen[str], within_s: float = LONGEST_S
) -> None:  # fmt: skip
    """Return when a session that still runs has recorded so many trials; else the test fails with what it said."""
    wait.until(lambda: len(hash_trials(folder)) >= count or child.poll() is not None, within_s, 0.05)
    if child.poll() is not None or len(hash_trials(folder)) < count:
        child.kill()
        pytest.fail(f"it did not come to {count} trials: {end_command(child)}")


def processes_with(*words: str) -> list[int]:
    """Return the processes that have all of these in their command lines."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it ended meanwhile
            line = path.read_bytes()
            found += [int(path.parent.name)] if all(word.encode() in line for word in words) else []
    return found


def unused_port() -> int:
    """Return a port of loopback on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        return unused.getsockname()[1]


@contextmanager
def thawed(deployment: Deployment) -> Iterator[Mapping[str, Target]]:
    """Let a frozen deployment run, and freeze it again at the end."""
    deployment.resume()
    try:
        yield deployment.targets
    finally:
        deployment.pause()
