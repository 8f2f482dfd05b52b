"""Every fixture that a test asks for is there, also in folders that are seldom run. Files are read, and no test run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.places import TESTS

OF_PYTEST = frozenset({
    "cache", "capfd", "capfdbinary", "caplog", "capsys", "capsysbinary", "monkeypatch", "pytestconfig", "recwarn",
    "record_property", "record_testsuite_property", "request", "tmp_path", "tmp_path_factory", "worker_id",
})  # fmt: skip
Fixtures = Mapping[str, tuple[str, ...]]  # name -> what each asks for itself
Function = ast.FunctionDef | ast.AsyncFunctionDef


class File(NamedTuple):
    """What a file has, and what it asks for."""

    fixtures: Fixtures
    asked: tuple[tuple[str, tuple[str, ...]], ...]


def missing(tests: Path) -> list[str]:
    """Return what tests and fixtures below the folder `tests` ask for, and neither their file nor a conftest.py has."""
    return [
        f"{path.relative_to(tests)}: {name} asks for {each}"
        for path in sorted({*tests.rglob("test_*.py"), *tests.rglob("conftest.py")})
        for name, wanted in (*_file(tests, path).fixtures.items(), *_file(tests, path).asked)
        for each in wanted
        if each not in _known(tests, path)
    ]


@cache
def _known(tests: Path, path: Path) -> frozenset[str]:
    above = [folder / "conftest.py" for folder in path.parents if folder.is_relative_to(tests)]
    return OF_PYTEST.union(*(_file(tests, each).fixtures for each in (path, *above) if each.exists()))


@cache
def _file(tests: Path, path: Path) -> File:
    source = path.read_bytes()
    tree = ast.parse(source)
    marked = b"usefixtures" in source or b"getfixturevalue" in source
    return File(_fixtures(tests, tree), (*_of_tests(tree), *(_of_calls(tree) if marked else ())))


def _of_tests(tree: ast.Module) -> Iterator[tuple[str, tuple[str, ...]]]:
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef))
    for node in (*tree.body, *(inner for each in classes for inner in each.body)):
        if isinstance(node, Function) and node.name.startswith("test_"):
            given = _given(node)
            yield node.name, tuple(name for name in _parameters(node) if name not in given)


def _of_calls(tree: ast.Module) -> Iterator[tuple[str, tuple[str, ...]]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called(node) in ("usefixtures", "getfixturevalue"):
            yield f"line {node.lineno}", tuple(each.value for each in node.args if isinstance(each, ast.Constant))


def _fixtures(tests: Path, tree: ast.Module) -> Fixtures:
    """Return the fixtures of a file: its own, imported ones, and those it takes as ``name = module.name``."""
    found, modules = dict[str, tuple[str, ...]](), dict[str, Path]()
    for node in tree.body:
        if isinstance(node, Function):
            marks = [mark for mark in node.decorator_list if _called(mark) == "fixture"]
            found |= {_renamed(mark) or node.name: _parameters(node) for mark in marks}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "tests":
            place = tests.joinpath(*(node.module or "").split(".")[1:])
            for alias in node.names:
                name = alias.asname or alias.name
                if place.is_dir():
                    modules[name] = place / f"{alias.name}.py"
                elif alias.name in (there := _file(tests, place.with_suffix(".py")).fixtures):
                    found[name] = there[alias.name]
        elif isinstance(node, ast.Assign):
            for name, value in _pairs(node):
                if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name) and value.value.id in modules:
                    there = _file(tests, modules[value.value.id]).fixtures
                    found |= {name: there[value.attr]} if value.attr in there else {}
    return found


def _pairs(node: ast.Assign) -> Iterator[tuple[str, ast.expr]]:
    target, value = node.targets[0], node.value
    several = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
    for left, right in zip(target.elts, value.elts, strict=False) if several else [(target, value)]:
        if isinstance(left, ast.Name):
            yield left.id, right


def _called(node: ast.expr) -> str:
    """Return the last part of the name of what is called, or named without a call."""
    function = node.func if isinstance(node, ast.Call) else node
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _renamed(mark: ast.expr) -> str:
    words = mark.keywords if isinstance(mark, ast.Call) else []
    return next((ast.literal_eval(word.value) for word in words if word.arg == "name"), "")


def _parameters(node: Function) -> tuple[str, ...]:
    """Return the names of a function's parameters; those with a default are no fixtures."""
    positional = node.args.args[: len(node.args.args) - len(node.args.defaults)]
    keyword = [each for each, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if not default]
    return tuple(each.arg for each in (*positional, *keyword) if each.arg != "self")


def _given(node: Function) -> set[str]:
    """Return the parameters of a test that its decorators give: cases, and generated examples."""
    found = set[str]()
    for mark in (each for each in node.decorator_list if isinstance(each, ast.Call)):
        if _called(mark) == "parametrize":
            names = ast.literal_eval(mark.args[0])
            found |= {name.strip() for name in (names.split(",") if isinstance(names, str) else names)}
        elif _called(mark) == "given":
            found |= {word.arg for word in mark.keywords if word.arg}
            found |= set(_parameters(node)[-len(mark.args) :] if mark.args else ())
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
        ("test_a.py", "@pytest.fixture(name='b')\ndef a(gone): ...\ndef test_a(b): ...", ["b asks for gone"]),
        ("conftest.py", "@pytest.fixture(autouse=True)\ndef a(gone): ...", ["a asks for gone"]),
        ("test_a.py", "from tests.unit.test_b import inner\ndef test_a(inner): ...", ["inner asks for outer"]),
        ("test_a.py", "from tests.unit import test_b\ninner, outer = test_b.inner, test_b.outer", []),
        ("test_a.py", "from tests.unit import test_b\ninner = test_b.lost\ndef test_a(inner): ...",
         ["test_a asks for inner"]),
    ],
)  # fmt: skip
def test_a_fixture_that_is_missing_is_named(name: str, source: str, told: list[str], tmp_path: Path) -> None:
    files = {
        "conftest.py": "@pytest.fixture\ndef there(): ...",
        "unit/test_b.py": "@pytest.fixture\ndef outer(): ...\n@pytest.fixture\ndef inner(outer): ...",
        f"stress/{name}": source,
    }
    for each, text in files.items():
        (tmp_path / each).parent.mkdir(exist_ok=True)
        (tmp_path / each).write_text(text)
    assert missing(tmp_path) == [f"stress/{name}: {each}" for each in told]
