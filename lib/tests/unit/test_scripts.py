"""Scripts about the library: `scripts/golden` looks where things are, `scripts/structure` needs no package."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys

from tests.support.places import ROOT


def test_what_golden_uses_is_where_it_looks_first() -> None:
    calls = [node for node in ast.walk(ast.parse((ROOT / "scripts/golden").read_text())) if isinstance(node, ast.Call)]
    used = [call.args for call in calls if isinstance(call.func, ast.Name) and call.func.id == "find"]
    assert len(used) >= 6
    for name, home, *_ in (map(ast.literal_eval, args) for args in used):
        assert hasattr(importlib.import_module(f"infrabench.{home}"), name), f"{home} has no {name}"


def test_anybody_can_run_structure_on_the_library() -> None:
    # -I -S: the standard library alone
    argv = [sys.executable, "-I", "-S", ROOT / "scripts/structure"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True)
    assert "lib/infrabench: " in done.stdout
    assert any(line.split()[:1] == ["stats"] for line in done.stdout.splitlines())
