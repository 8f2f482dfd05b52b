"""Names that a machine can check: one name for each data class, no participle or pronoun for a function."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.checks import check_each
from tests.support.places import LIB, PACKAGES, PLATFORMS, TESTS, files_of_packages

UNCLEAR = {"told", "asked", "found", "seen", "made", "again", "held", "theirs", "mine"}


def definitions(kind: type[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    for path in files_of_packages():
        name = path.relative_to(LIB).as_posix()
        yield from ((name, node) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kind))


def is_data_class(node: ast.ClassDef) -> bool:
    marks = [ast.unparse(each) for each in (*node.decorator_list, *node.bases)]
    return any(mark == "NamedTuple" or "dataclass" in mark for mark in marks)


def test_no_function_is_named_by_a_participle_or_a_pronoun() -> None:
    named = ((file, node.name) for file, node in definitions(ast.FunctionDef))
    assert not [each for each in named if each[1].strip("_") in UNCLEAR]


def test_no_two_data_classes_have_one_name() -> None:
    files: dict[str, list[str]] = {}
    for file, node in definitions(ast.ClassDef):
        if is_data_class(node):
            files.setdefault(node.name, []).append(file)
    assert not {name: each for name, each in files.items() if len(each) > 1}


@cache
def names_of(module: Path) -> set[str]:
    """Return what a module defines or imports at its top, and the modules of a package."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(each.asname or each.name).partition(".")[0] for each in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    within = module.parent.iterdir() if module.name == "__init__.py" else ()
    return found | {each.stem for each in within} | {"__file__", "__name__", "__doc__"}


def file_of(dotted: str) -> Path | None:
    """Return the file of a module of ours; on nodes, the package of the stores is called ``node``."""
    first, *rest = dotted.split(".")
    base = ({package.name: package for package in PACKAGES} | {"node": PLATFORMS / "stores/node"}).get(first)
    if base is None:
        return None
    path = base.joinpath(*rest)
    return next((each for each in (path / "__init__.py", path.with_suffix(".py")) if each.is_file()), None)


def gone_names(course: Path) -> list[str]:
    """Return what a file takes from modules of ours and is not in them."""
    tree, modules, gone = ast.parse(course.read_text()), dict[str, Path](), list[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (source := file_of(node.module or "")):
            gone += [f"{node.module}.{each.name}" for each in node.names if each.name not in names_of(source)]
            below = {each.asname or each.name: file_of(f"{node.module}.{each.name}") for each in node.names}
            modules |= {name: path for name, path in below.items() if path}
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = node.value.id
            if name in modules.keys() - stored and node.attr not in names_of(modules[name]):
                gone.append(f"{name}.{node.attr}")
    return gone


def test_what_runs_on_the_lab_alone_takes_names_that_there_are() -> None:
    courses = sorted((TESTS / "lab").rglob("*.py"))
    assert len(courses) > 20
    check_each(gone_names, courses, lambda path: path.relative_to(TESTS).as_posix())
