"""Locks of a campaign: the kernel's own, on files, so that what a killed process held is free, and nothing is left."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infrabench.core import InfrabenchError, locks


@contextmanager
def hold_lock(path: Path, message: str, wait_s: float = 1.0) -> Iterator[int]:
    """Hold `path` (an empty file, made when absent) for this process, and whoever inherits the descriptor it yields.

    Raises `InfrabenchError` with `message` when another process still has it after `wait_s`.
    """
    try:
        descriptor = locks.take(
            path, wait_s=wait_s, create=True, make=lambda: path.parent.mkdir(parents=True, exist_ok=True)
        )
    except BlockingIOError:
        raise InfrabenchError(message) from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def wait_until_free(path: Path) -> None:
    """Return when nobody holds `path`: its holder has ended, or it is gone."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        locks.flock(descriptor, fcntl.LOCK_SH, path)
    finally:
        os.close(descriptor)
