"""What the storm found, as a table at the end; the long form also writes it down."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.storm import LONG, SEED, Note

OUT = Path(os.environ.get("INFRABENCH_TORTURE_OUT", "out/torture.json"))


@pytest.fixture
def note(record_property: Any) -> Note:
    """Add a row to the table: a part of the storm, its count, what was found, and the seconds since the test began."""
    begin = time.monotonic()

    def add(part: str, count: int, told: str) -> None:
        row = {"part": part, "count": count, "seconds": time.monotonic() - begin, "told": told}
        record_property("storm", row)

    return add


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int) -> None:
    """Print each part with its count, duration and figures; the long form keeps them."""
    reports = [each for kind in ("passed", "failed") for each in terminalreporter.stats.get(kind, ())]
    rows = [
        {**dict(each.user_properties)["storm"], "green": each.passed}
        for each in reports
        if "storm" in dict(getattr(each, "user_properties", ()))
    ]
    if not rows:
        return
    rows.sort(key=lambda row: str(row["part"]))
    terminalreporter.section(f"fault storm, seed {SEED}")
    terminalreporter.write_line(f"{'part':<26} {'count':>8} {'seconds':>8}  ")
    for row in rows:
        green = "" if row["green"] else "FAILED: "
        terminalreporter.write_line(f"{row['part']:<26} {row['count']:>8} {row['seconds']:>8.1f}  {green}{row['told']}")
    total_s = sum(row["seconds"] for row in rows)
    terminalreporter.write_line(f"{'all':<26} {sum(row['count'] for row in rows):>8} {total_s:>8.1f}  ")
    if LONG:
        OUT.parent.mkdir(parents=True, exist_ok=True)
        found = {"seed": SEED, "green": exitstatus == pytest.ExitCode.OK, "parts": rows}
        OUT.write_text(json.dumps(found, indent=1) + "\n")
        terminalreporter.write_line(f"written to {OUT}")
