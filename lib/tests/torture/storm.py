"""Sizes and seed of the fault storm. The long form is `make torture`; the short one is a part of the suite."""

from __future__ import annotations

import os
from pathlib import Path

LONG = os.environ.get("INFRABENCH_TORTURE") == "long"
SEED = int(os.environ.get("INFRABENCH_TORTURE_SEED", "20261122"))


def size(short: int, long: int) -> int:
    """Return how often something is done: `short` in the suite, `long` in `make torture`."""
    return long if LONG else short


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
