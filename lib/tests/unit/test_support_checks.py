"""The loop over many files by which one test stands for one a file: it hides nothing, and is never empty."""

from __future__ import annotations

import sys

import pytest

from tests.support.checks import check_each, violations


def check(number: int) -> list[str]:
    """Return, fail or raise by the number."""
    assert number != 1, "one"
    if number == 2:
        pytest.fail("two")
    if number == 3:
        raise KeyError("three")
    if number == 4:
        with pytest.raises(ValueError, match="four"):
            int("4")
    if number == 6:
        sys.exit("six")
    return ["five", "V"] if number == 5 else []


def test_every_fault_is_listed_with_the_name_of_its_item() -> None:
    found = violations(check, range(8), lambda number: f"file{number}")
    assert [each.split(" (")[0].splitlines()[0] for each in found] == [
        "file1: one", "file2: two", "file3: KeyError: 'three'", "file4: DID NOT RAISE ValueError", "file5: five",
        "file5: V", "file6: SystemExit: six",
    ]  # fmt: skip
    assert all("(test_support_checks.py:" in each for each in found[:4])


def test_one_failure_says_all() -> None:
    with pytest.raises(
        pytest.fail.Exception, match=r"^2 violations:\n1: one(.|\n)*\n2: two \(test_support_checks.py:\d+\)$"
    ):
        check_each(check, [1, 2])
    check_each(check, [0, 7])


def test_no_item_is_an_error() -> None:
    with pytest.raises(AssertionError, match="nothing to check"):
        check_each(check, [])
