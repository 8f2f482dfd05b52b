"""Waiting until a deadline: for something to be true, or for something that fails at first to succeed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(read: Callable[[], T], wait_s: float, pause_s: float) -> T:
    """Return what `read` returns as soon as that is true, or what it returned last when `wait_s` have passed."""
    deadline = time.monotonic() + wait_s
    while not (found := read()) and time.monotonic() <= deadline:
        time.sleep(pause_s)
    return found


def retry(action: Callable[[], T], error: type[Exception], wait_s: float, pause_s: float) -> T:
    """Return what `action` returns; it is called again after each `error` until `wait_s` have passed."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            return action()
        except error:
            if time.monotonic() > deadline:
                raise
        time.sleep(pause_s)
