"""Every fixture that a test asks for is there, also in folders that are seldom run. Files are read, and no test run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.places import TESTS

OF_PYTEST = frozenset({
    "cache", "capfd", "capfdbinary", "caplog", "capsys", "capsysbinary", "monkeypatch", "pytestconfig", "recwarn",
    "record_property", "record_testsuite_property", "request", "tmp_path", "tmp_path_factory", "worker_id",
})  # fmt: skip
parse = cache(lambda path: ast.parse(path.read_bytes()))


def missing(tests: Path) -> list[str]:
    """Return what tests and fixtures below the folder `tests` ask for, and neither their file nor a conftest.py has."""
    return [
        f"{path.relative_to(tests)}: {name} asks for {each}"
        for path in sorted({*tests.rglob("test_*.py"), *tests.rglob("conftest.py")})
        for name, wanted in asked(parse(path))
        for each in sorted(wanted - OF_PYTEST)
        if not any(each in known(parse(file)) for file in (path, *conftests(tests, path)))
    ]


def conftests(tests: Path, path: Path) -> Iterator[Path]:
    folders = (folder for folder in path.parents if folder.is_relative_to(tests))
    yield from (folder / "conftest.py" for folder in folders if (folder / "conftest.py").exists())


@cache
def known(tree: ast.Module) -> set[str]:
    """Return the names of a file's fixtures, and of all that it imports or takes from a module beside it."""
    found = set[str]()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            found |= {node.name} if any(called(mark) == "fixture" for mark in node.decorator_list) else set()
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign):
            found |= {each.id for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name)}
    return found


@cache
def asked(tree: ast.Module) -> list[tuple[str, set[str]]]:
    """Return the tests and fixtures of a file with what they ask for by a parameter, and calls that name fixtures."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            if node.name.startswith("test_") or any(called(mark) == "fixture" for mark in node.decorator_list):
                found.append((node.name, parameters(node)))
        elif isinstance(node, ast.Call) and called(node) in ("usefixtures", "getfixturevalue"):
            found.append((f"line {node.lineno}", {each.value for each in node.args if isinstance(each, ast.Constant)}))
    return found


def called(node: ast.expr) -> str:
    """Return the last part of the name of what is called, or named without a call."""
    function = node.func if isinstance(node, ast.Call) else node
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def parameters(node: ast.FunctionDef) -> set[str]:
    """Return a function's parameters without a default, but for those that its decorators give: cases and examples."""
    positional = [each.arg for each in node.args.args[: len(node.args.args) - len(node.args.defaults)]]
    found = {*positional, *(each.arg for each in node.args.kwonlyargs)} - {"self"}
    for mark in (each for each in node.decorator_list if isinstance(each, ast.Call)):
        if called(mark) == "parametrize":
            names = ast.literal_eval(mark.args[0])
            found -= {name.strip() for name in (names.split(",") if isinstance(names, str) else names)}
        elif called(mark) == "given":
            found -= {*(word.arg for word in mark.keywords), *(positional[-len(mark.args) :] if mark.args else ())}
    return found


def test_every_fixture_that_is_asked_for_is_there() -> None:
    assert missing(TESTS) == []


@pytest.mark.parametrize(
    ("name", "source", "told"),
    [
        ("test_a.py", "def test_a(there, tmp_path): ...", []),
        ("test_a.py", "def test_a(gone): ...", ["test_a asks for gone"]),
        ("test_a.py", "@pytest.mark.parametrize('a, b', [(1, 2)])\ndef test_a(a, b, c=1): ...", []),
        ("test_a.py", "@given(st.integers(), b=st.text())\ndef test_a(there, a, b): ...", ["test_a asks for a"]),
        ("test_a.py", "@given(st.integers())\ndef test_a(there, a): ...", []),
        ("test_a.py", "pytestmark = pytest.mark.usefixtures('gone')", ["line 1 asks for gone"]),
        ("conftest.py", "@pytest.fixture(autouse=True)\ndef a(gone): ...", ["a asks for gone"]),
        ("test_a.py", "from tests.unit import test_b\ninner, b = test_b.inner, 1\ndef test_a(inner): ...", []),
    ],
)
def test_a_fixture_that_is_missing_is_named(name: str, source: str, told: list[str], tmp_path: Path) -> None:
    (tmp_path / "stress").mkdir()
    (tmp_path / "conftest.py").write_text("@pytest.fixture\ndef there(): ...")
    (tmp_path / "stress" / name).write_text(source)
    assert missing(tmp_path) == [f"stress/{name}: {each}" for each in told]
