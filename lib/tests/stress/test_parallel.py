"""Calls for many hosts at the same time: an interrupt is handled while they run, and no further call starts."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from infrabench.machines.hosts import parallel


def test_results_come_in_the_order_of_the_items() -> None:
    assert parallel.run_all(lambda number: (time.sleep(0.02 / number), number)[1], [1, 2, 3]) == [1, 2, 3]
    assert parallel.run_all(str, []) == []


def test_the_first_error_is_raised_when_all_calls_have_ended() -> None:
    ended = []

    def call(number: int) -> None:
        if number == 0:
            raise ValueError("the first")
        time.sleep(0.05)
        ended.append(number)

    with pytest.raises(ValueError, match="the first"):
        parallel.run_all(call, range(3))
    assert sorted(ended) == [1, 2]


def test_an_interrupt_starts_no_further_call() -> None:
    started = []

    def call(number: int) -> None:
        started.append(number)
        if number == 0:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # type: ignore[arg-type]
        time.sleep(0.7)

    with pytest.raises(KeyboardInterrupt):
        parallel.run_all(call, range(4), most=1)
    assert len(started) < 4
