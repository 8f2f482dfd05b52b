from __future__ import annotations

import signal
import threading

import pytest

from infrabench.interrupts import one_is_enough


def test_impatient_interrupts_do_not_cut_the_taking_down_short() -> None:
    said: list[str] = []
    taken_down = False
    before = signal.getsignal(signal.SIGINT)

    def session() -> None:
        nonlocal taken_down
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            taken_down = True

    with pytest.raises(KeyboardInterrupt), one_is_enough(said.append):
        session()
    assert taken_down
    assert len(said) == 2
    assert "being taken down" in said[0]
    assert signal.getsignal(signal.SIGINT) is before


def test_each_run_has_an_interrupt_of_its_own() -> None:
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt), one_is_enough(print):
            signal.raise_signal(signal.SIGINT)


def test_another_thread_keeps_what_there_is() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def inside() -> None:
        with one_is_enough(print):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join(5)
    assert seen == [before]
