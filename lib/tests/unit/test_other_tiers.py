"""Tests that the gate does not run use names that are there: of modules that they import, read from, or patch."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

TESTS = Path(__file__).parent.parent
OURS = ("infrabench", "tests.support")  # and what begins so: the packages beside it


def find(module: str, name: str = "") -> Any:
    """Return what a module calls `name`, or its module of that name; None where there is neither."""
    try:
        found = importlib.import_module(module)
        return getattr(found, name) if name else found
    except AttributeError:
        return find(f"{module}.{name}")
    except ModuleNotFoundError:
        return None


def is_there(full: str) -> bool:
    """Tell whether a dotted path leads from a module, perhaps through a class, to something."""
    module, _, name = full.rpartition(".")
    return bool(module) and (
        find(module, name) is not None or (is_there(module) and hasattr(find(*module.rpartition(".")[::2]), name))
    )


def modules(tree: ast.AST) -> Iterator[tuple[str, str, Any]]:
    """Yield what a file imports of ours: how it is called there, its full name, and what it is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module = re.sub(r"^node\b", "infrabench_platforms.stores.node", node.module or "")  # as nodes have it
            for each in node.names if module.startswith(OURS) else ():
                yield each.asname or each.name, f"{module}.{each.name}", find(module, each.name)


def uses(tree: ast.AST, known: dict[str, ModuleType]) -> Iterator[tuple[str, str]]:
    """Yield module and name of each `module.name`, and of what is patched by `setattr(module, "name", ...)`."""
    shadowed = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    shadowed |= {each.arg for node in ast.walk(tree) if isinstance(node, ast.arguments) for each in node.args}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=module), attr=name):
                pass
            case ast.Call(
                func=ast.Attribute(attr="setattr"), args=[ast.Name(id=module), ast.Constant(value=str(name)), *_]
            ):
                pass
            case _:
                continue
        if module in known and module not in shadowed:
            yield module, name


def missing(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    imported = list(modules(tree))
    yield from (full for _, full, found in imported if found is None)
    known = {name: found for name, _, found in imported if isinstance(found, ModuleType)}
    yield from (f"{module}.{name}" for module, name in uses(tree, known) if find(known[module].__name__, name) is None)
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="setattr"), args=[ast.Constant(value=str(full)), *_]):
                if full.startswith(OURS) and not is_there(full):
                    yield full


def test_tests_that_the_gate_does_not_run_use_names_that_are_there() -> None:
    files = [path for tier in ("lab", "browser", "stress") for path in sorted((TESTS / tier).rglob("*.py"))]
    assert len(files) > 50
    wrong = {path.relative_to(TESTS).as_posix(): sorted({*missing(path)}) for path in files}
    assert {path: names for path, names in wrong.items() if names} == {}
