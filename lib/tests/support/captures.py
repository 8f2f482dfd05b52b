"""Captured outputs of real tools: ``data/WORKLOAD/CASE/`` with ``case.json`` and one file for each stream of a step.

``case.json``: tool (its version), params, steps (argv, status, duration_s), expect (measurements, or an error's words).
A case with ``derived_from`` was made from another one by writing into it what the tool says where more went wrong than
here (``web/errors``), or on a terminal (``fio/terminal``).
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from infrabench.core import Capture, Result
from tests.support.places import LIBRARY, TESTS

DATA = TESTS / "data"
WORKLOADS = tuple(path.stem.replace("_", "-") for path in sorted((LIBRARY / "workloads").glob("[!_]*.py")))


def case_folders() -> list[Path]:
    """Return the folder of every captured case."""
    return sorted(path.parent for path in DATA.glob("*/*/case.json"))


def read(folder: Path) -> tuple[Capture, dict[str, Any]]:
    """Return the capture that lies in `folder`, and its ``case.json``."""
    about = json.loads((folder / "case.json").read_text())
    steps = {
        name: Result(tuple(s["argv"]), s["status"], *_streams(folder, name), started_s=0.0, duration_s=s["duration_s"])
        for name, s in about["steps"].items()
    }
    return Capture(steps, about["params"]), about


def label(path: Path) -> str:
    return f"{path.parent.name}-{path.name}"


def with_stdout(capture: Capture, step: str, stdout: bytes) -> Capture:
    """Return `capture` with other output of one step."""
    return Capture({**capture.steps, step: replace(capture[step], stdout=stdout)}, capture.params)


def _streams(folder: Path, step: str) -> tuple[bytes, bytes]:
    paths = (folder / f"{step}.stdout", folder / f"{step}.stderr")
    out, err = (path.read_bytes() if path.exists() else b"" for path in paths)
    return out, err


GOOD = [path for path in case_folders() if "measurements" in read(path)[1]["expect"]]  # whose output is read
