"""Waiting ends with what is waited for, or with the deadline, and looks once more when that has passed."""

from __future__ import annotations

from pathlib import Path

import pytest

from infrabench.core import wait


def test_what_is_true_at_once_is_not_waited_for() -> None:
    assert wait.until(lambda: "there", wait_s=0.0, pause_s=60.0) == "there"


def test_the_last_answer_is_returned_when_nothing_comes() -> None:
    answers = iter([0, 0, 7])
    assert wait.until(lambda: next(answers), wait_s=60.0, pause_s=0.0) == 7
    assert wait.until(list, wait_s=0.0, pause_s=0.0) == []


def test_the_error_of_the_deadline_is_raised_and_no_other_is_retried() -> None:
    calls = list[int]()

    def fail() -> int:
        calls.append(1)
        if len(calls) < 3:
            raise OSError("not yet")
        return len(calls)

    assert wait.retry(fail, OSError, wait_s=60.0, pause_s=0.0) == 3
    with pytest.raises(ZeroDivisionError):
        wait.retry(lambda: 1 / 0, OSError, wait_s=60.0, pause_s=0.0)
    with pytest.raises(OSError, match="no file"):
        wait.retry(lambda: Path("/no file").read_text(), OSError, wait_s=-1.0, pause_s=60.0)
