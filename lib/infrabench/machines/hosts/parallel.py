"""Calling a function for many hosts at the same time, with the main thread free to handle interrupts.

Python handles a signal that arrives just before its main thread waits for a lock only after that wait: the main thread
must never wait for other threads without a timeout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

SIGNALS_S = 0.5  # the longest delay of an interrupt
T = TypeVar("T")
R = TypeVar("R")


def run_all(function: Callable[[T], R], items: Iterable[T], most: int | None = None) -> list[R]:
    """Return what `function` returns for each item, called in a thread for each (`most` at a time).

    The first error is raised once all calls have ended. After an interrupt no further call is started.
    """
    items = list(items)
    with ThreadPoolExecutor(max(1, min(len(items), most or len(items)))) as pool:
        futures = [pool.submit(function, item) for item in items]
        try:
            return collect_results(futures)
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def collect_results(futures: Sequence[Future[R]]) -> list[R]:
    """Return the results of futures once all of them are done; the first error is raised."""
    while wait(futures, timeout=SIGNALS_S).not_done:
        pass
    return [each.result() for each in futures]
