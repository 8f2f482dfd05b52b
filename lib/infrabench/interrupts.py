"""Interrupting what has to be taken down in order: the first Ctrl-C counts, impatient ones do not cut it short."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def one_is_enough(say: Callable[[str], None]) -> Iterator[None]:
    """Let the first interrupt inside through as `KeyboardInterrupt`; each further one is only answered, by `say`.

    A second one would end the removal of systems half-way: the stop button of a notebook, and Ctrl-C, are often pressed
    more than once. Outside the main thread nothing changes: signals do not arrive there.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    count = 0

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal count
        count += 1
        if count == 1:
            raise KeyboardInterrupt
        say("Interrupted already; what was made is being taken down. This takes seconds, for clusters a minute")

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler if before is None else before)
