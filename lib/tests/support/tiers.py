"""What the tests of a folder need, how long they take, and what is reported where a machine lacks it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from infrabench.core import NotRunnable
from infrabench_platforms.lab import prebuild
from infrabench_platforms.lab.shell import require

BROWSER = ("chromium", "sysbench")  # programs, and Debian's packages of the same names
LIMIT_S = 900.0


def give_tier(items: Iterable[pytest.Item], folder: Path, reason: str | None) -> list[pytest.Item]:
    """Return the tests of a folder, with the limit of real systems; with a `reason` they are reported as not run."""
    found = [item for item in items if item.path.is_relative_to(folder)]
    for item in found:
        if reason:
            item.add_marker(pytest.mark.skip(reason=f"not run: {reason}"))
        if not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(LIMIT_S))
    return found


def give_lab(items: Iterable[pytest.Item], folder: Path) -> None:
    """Do the same for tests of the lab; the run ends where its images and programs are not made."""
    reason = without_lab()
    if give_tier(items, folder, reason) and not reason:
        demand_build()


def without_browser() -> str | None:
    """Return what a real browser lacks on this machine; None where it can be had."""
    missing = [name for name in BROWSER if not shutil.which(name)]
    return f"not installed here: apt-get install {' '.join(missing)}" if missing else None


def without_lab() -> str | None:
    """Return what the embedded lab lacks on this machine; None where it can be had."""
    try:
        require()
    except NotRunnable as error:
        return str(error)
    return None


def demand_build() -> None:
    """End the run with a clear line where the lab's images and programs are not made: no fixture makes them."""
    lacking = [name for name in prebuild.select_names(()) if not prebuild.is_made(name)]
    if lacking:
        pytest.exit(f"The lab is not made here. Run `make build` first (half an hour, once): {', '.join(lacking)}", 2)
