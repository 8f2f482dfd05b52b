"""Sizes and seed of the fault storm. `INFRABENCH_TORTURE=long` gives the long forms."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

LONG = os.environ.get("INFRABENCH_TORTURE") == "long"
SEED = int(os.environ.get("INFRABENCH_TORTURE_SEED", "20261122"))


def size(short: int, long: int) -> int:
    """Return how often something is done: `short`, or `long` in the long forms."""
    return long if LONG else short


# For tests of the lab that wait for minutes, each beside a shorter one of the same kind.
in_long_form = pytest.mark.skipif(not LONG, reason="not run: it takes minutes; INFRABENCH_TORTURE=long runs it")


def marked_processes(variable: str, mark: str) -> dict[int, str]:
    """Return the living processes that have this value of a variable in their environment: id -> command."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            if f"{variable}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0") and state not in "ZX":
                found[int(folder.name)] = (
                    (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
    return found


class Memory:
    """How much more memory this process takes than at its making, at most (bytes)."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # forget the highest mark: it may be of long ago
        self.before = _status("VmRSS")

    @property
    def grown(self) -> int:
        return _status("VmHWM") - self.before


def _status(key: str) -> int:
    rows = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(rows[key].split()[0])
