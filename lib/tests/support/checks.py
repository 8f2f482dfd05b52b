"""One test for many files: what costs little for each is checked in a loop, and one failure lists all that is wrong."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import pytest

Item = TypeVar("Item")


def violations(
    check: Callable[[Item], Iterable[str] | None], items: Iterable[Item], name: Callable[[Item], str] = str
) -> list[str]:
    """Return what `check` returns or raises for each of `items`, behind its name. No item at all is an error."""
    faults, count = list[str](), 0
    for item in items:
        count += 1
        try:
            faults += [f"{name(item)}: {fault}" for fault in check(item) or ()]
        except (Exception, SystemExit, pytest.fail.Exception) as error:  # noqa: BLE001 (the others are checked, too)
            faults.append(f"{name(item)}: {_say(error)}")
    assert count, "there is nothing to check"
    return faults


def check_each(
    check: Callable[[Item], Iterable[str] | None], items: Iterable[Item], name: Callable[[Item], str] = str
) -> None:
    """Fail once with all `violations`: pytest itself shows the first one of a list only."""
    __tracebackhide__ = True
    faults = violations(check, items, name)
    if faults:
        pytest.fail("\n".join((f"{len(faults)} violations:", *faults)), pytrace=False)


def _say(error: BaseException) -> str:
    """Return kind, message without pytest's " + where" lines, and the line of the check that an error comes from."""
    frames = traceback.extract_tb(error.__traceback__)
    place = frames[min(1, len(frames) - 1)]  # the first frame is the loop above
    kind = "" if isinstance(error, AssertionError | pytest.fail.Exception) else f"{type(error).__name__}: "
    message = "\n".join(line for line in str(error).splitlines() if line.strip() and not line.startswith(" +"))
    return f"{kind}{message} ({Path(place.filename).name}:{place.lineno})"
