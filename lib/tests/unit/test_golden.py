"""`scripts/golden`: it starts, its parts are there, and what it looks for in the library stands where it looks first.

That two runs are alike, and that a change shows, is seen whenever it is used.
"""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import ROOT
from tests.support.scripts import load_script

SCRIPT = ROOT / "scripts/golden"


@pytest.fixture(scope="module")
def golden() -> Any:
    return load_script("golden")


def test_it_starts_and_names_its_parts(golden: Any) -> None:
    shown = subprocess.run([sys.executable, SCRIPT, "--help"], check=True, capture_output=True, text=True, timeout=60)
    told = golden.__doc__.splitlines()
    for name in golden.PARTS:
        assert name in shown.stdout
        assert [line for line in told if line.startswith(f"{name} ")], f"its docstring does not say what {name} has"


def test_what_it_uses_is_where_it_looks_first() -> None:
    calls = [node for node in ast.walk(ast.parse(SCRIPT.read_text())) if isinstance(node, ast.Call)]
    used = [call.args for call in calls if isinstance(call.func, ast.Name) and call.func.id == "find"]
    assert len(used) >= 6
    for name, home, *_ in (map(ast.literal_eval, args) for args in used):
        assert hasattr(importlib.import_module(f"infrabench.{home}"), name), (
            f"{home} has no {name}: mend scripts/golden"
        )


def test_a_plan_is_written_to_the_last_byte(golden: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(golden.WORK, str(tmp_path))
    first, second = (golden.plan_lines("containers", {"profile": "smoke", "runs": 2, "seed": seed}) for seed in (1, 2))
    assert len(first) == len(second) > 2 * 4 * 10
    assert first != second
    assert first == golden.plan_lines("containers", {"profile": "smoke", "runs": 2, "seed": 1})
    assert '"error": "DesignError"' in golden.plan_lines("containers", {"profile": "none"})[0]
