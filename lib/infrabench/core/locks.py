"""Locks of the kernel on files and folders: free as soon as their holder ends, however it ends.

What is locked is an open file, and a path may name another one by the time that its lock is free: the last holder may
have removed it, and somebody else made it anew. Two processes would then both have "the" lock. A lock therefore counts
only while its path still names the locked file; else it is taken anew.
"""

from __future__ import annotations

import fcntl
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from infrabench.core import wait
from infrabench.core.errors import InfrabenchError, LockError

Make = Callable[[], object]
POLL_S = 0.02


def _nothing() -> None: ...


def take(path: Path, *, wait_s: float = math.inf, create: bool = False, make: Make = _nothing) -> int:
    """Return a descriptor that holds the lock of `path`, a folder or a file, until it is closed.

    `create` makes a file where there is none; `make`, called each time before `path` is opened, the folder, or that in
    which the file belongs. Raises `BlockingIOError` when another process, or another descriptor of this one, holds the
    lock for longer than `wait_s`, `FileNotFoundError` without such a path, `LockError` where the file system has no
    locks.
    """
    deadline = time.monotonic() + wait_s
    while True:
        make()
        flags = os.O_RDWR | os.O_CREAT if create else os.O_RDONLY
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o644)
        try:
            # No blocking call: it would delay a signal that arrives just before it.
            lock = partial(flock, descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, path)
            wait.retry(lock, BlockingIOError, deadline - time.monotonic(), POLL_S)
            if is_at(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


@contextmanager
def locked(path: Path, *, wait_s: float = math.inf, make: Make = _nothing) -> Iterator[int]:
    """Hold the lock of `path` inside, and yield its descriptor; see `take`."""
    descriptor = take(path, wait_s=wait_s, make=make)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def hold_lock(path: Path, message: str, wait_s: float = 1.0) -> Iterator[int]:
    """Hold `path` (an empty file, made when absent) for this process, and whoever inherits the descriptor it yields.

    Raises `InfrabenchError` with `message` when another process still has it after `wait_s`.
    """
    try:
        descriptor = take(path, wait_s=wait_s, create=True, make=lambda: path.parent.mkdir(parents=True, exist_ok=True))
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
        flock(descriptor, fcntl.LOCK_SH, path)
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Tell whether a living process holds the lock of `path`: nobody does where nothing can be locked.

    A holder that begins just now is let through.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB, path)
    except BlockingIOError:
        return True
    except LockError:
        return False
    finally:
        os.close(descriptor)  # which unlocks it
    return False


def is_at(descriptor: int, path: Path) -> bool:
    """Tell whether `path` still names the open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def flock(descriptor: int, operation: int, path: Path) -> None:
    """Lock the open `path` as `fcntl.flock` does, which raises `BlockingIOError` instead of waiting where it is asked.

    Raises `LockError` where the file system has no locks, as some network file systems are.
    """
    try:
        fcntl.flock(descriptor, operation)
    except BlockingIOError:
        raise
    except OSError as error:
        raise LockError(
            f"{path} cannot be locked: {error.strerror}. Its file system has no locks, and two runs at once would "
            "spoil what is there: take a folder on a local disk (INFRABENCH_HOME; for the lab INFRABENCH_STATE), or "
            "mount the file system with locks"
        ) from error
