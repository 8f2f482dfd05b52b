"""`scripts/golden`: what it looks for in the library stands where it looks first.

That it starts, that two runs are alike, and that a change shows, is seen whenever it is used.
"""

from __future__ import annotations

import ast
import importlib

from tests.support.places import ROOT

SCRIPT = ROOT / "scripts/golden"


def test_what_it_uses_is_where_it_looks_first() -> None:
    calls = [node for node in ast.walk(ast.parse(SCRIPT.read_text())) if isinstance(node, ast.Call)]
    used = [call.args for call in calls if isinstance(call.func, ast.Name) and call.func.id == "find"]
    assert len(used) >= 6
    for name, home, *_ in (map(ast.literal_eval, args) for args in used):
        assert hasattr(importlib.import_module(f"infrabench.{home}"), name), (
            f"{home} has no {name}: mend scripts/golden"
        )
