"""Ending in order what takes things down: Ctrl-C, a polite kill and a closed terminal are the same interrupt.

The first one counts, and impatient ones do not cut it short. A signal that is ignored, as ``nohup`` asks for, stays so.
"""

from __future__ import annotations

import os
import signal
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

Handler = Callable[[int, FrameType | None], None]

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def raise_once(say: Callable[[str], None]) -> Iterator[None]:
    """Let the first interrupt inside through as `KeyboardInterrupt`; each further one is only answered, by `say`.

    A second one would end the removal of systems half-way: the stop button of a notebook, and Ctrl-C, are often pressed
    more than once. Outside the main thread nothing changes: signals do not arrive there.
    """
    count = 0

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal count
        count += 1
        _leave_terminal(number)
        if count == 1:
            raise KeyboardInterrupt
        say("Interrupted already; what was made is being taken down. This takes seconds, for clusters a minute")

    with _handled(handle):
        yield


@contextmanager
def set_event(event: threading.Event, say: Callable[[str], None]) -> Iterator[None]:
    """Let every interrupt inside set `event`, and raise nothing: for work that other threads do and end by themselves.

    The first one is answered by `say`. The main thread must not block without a timeout: a signal that arrives just
    before a lock is waited for is handled only after that.

    A `KeyboardInterrupt` is raised wherever the main thread happens to be, and is lost where Python ignores exceptions,
    as in the callbacks by which a pool of threads is put away. Outside the main thread nothing changes.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        _leave_terminal(number)
        if not event.is_set():
            event.set()
            say("Interrupted: what runs comes to its end, and nothing else is started")

    with _handled(handle):
        yield


@contextmanager
def _handled(handle: Handler) -> Iterator[None]:
    """Let `handle` answer the signals inside; outside the main thread nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number, known in before.items():
        if known != signal.SIG_IGN:
            signal.signal(number, handle)
    try:
        yield
    finally:
        for number, known in before.items():
            # None: a handler that was not installed by Python and cannot be given back.
            signal.signal(number, signal.default_int_handler if known is None else known)


def _leave_terminal(number: int) -> None:
    """After a hang-up, write nothing to the terminal any more: that would be an error in the middle of taking down."""
    if number != signal.SIGHUP:
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        if stat.S_ISCHR(os.fstat(stream).st_mode):
            os.dup2(nowhere, stream)
    os.close(nowhere)
