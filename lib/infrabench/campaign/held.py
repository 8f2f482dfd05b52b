"""Locks of a campaign: the kernel's own, on files, so that what a killed process held is free, and nothing is left."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infrabench.core import InfrabenchError

GLANCE_S = 0.1


@contextmanager
def held(path: Path, told: str, wait_s: float = 1.0) -> Iterator[int]:
    """Hold `path` (an empty file, made when absent) for this process, and whoever inherits the descriptor it yields.

    Raises `InfrabenchError` saying `told` when another process still has it after `wait_s`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        deadline = time.monotonic() + wait_s
        while not _taken(descriptor):
            if time.monotonic() > deadline:
                raise InfrabenchError(told)
            time.sleep(GLANCE_S)
        yield descriptor
    finally:
        os.close(descriptor)


def is_held(path: Path) -> bool:
    """Tell whether a process that lives holds `path`."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _taken(descriptor)
    finally:
        os.close(descriptor)


def wait_until_free(path: Path) -> None:
    """Return when nobody holds `path`: its holder has ended, or it is gone."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
