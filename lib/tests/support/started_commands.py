"""Commands of `infrabench` that are started as a person would, what they record meanwhile, and how they end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import pytest

from infrabench.core import Deployment, Target
from infrabench.ledger.records import recorded

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


def wait_for_trials(
    folder: Path, count: int, child: subprocess.Popen[str], within_s: float = LONGEST_S
) -> None:  # fmt: skip
    """Return when a session that still runs has recorded so many trials; else the test fails with what it said."""
    deadline = time.monotonic() + within_s
    while len(hash_trials(folder)) < count and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    if child.poll() is not None or len(hash_trials(folder)) < count:
        child.kill()
        pytest.fail(f"it did not come to {count} trials: {end_command(child)}")


@contextmanager
def thawed(deployment: Deployment) -> Iterator[Mapping[str, Target]]:
    """Let a frozen deployment run, and freeze it again at the end."""
    deployment.resume()
    try:
        yield deployment.targets
    finally:
        deployment.pause()
