"""Names that a machine can check: one name for each data class, no participle or pronoun for a function."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.support.places import LIB, files_of_packages

UNCLEAR = {"told", "asked", "found", "seen", "made", "again", "held", "theirs", "mine"}


def definitions(kind: type[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    for path in files_of_packages():
        name = path.relative_to(LIB).as_posix()
        yield from ((name, node) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kind))


def test_no_function_is_named_by_a_participle_or_a_pronoun() -> None:
    named = ((file, node.name) for file, node in definitions(ast.FunctionDef))
    assert not [each for each in named if each[1].strip("_") in UNCLEAR]


def test_no_two_data_classes_have_one_name() -> None:
    files: dict[str, list[str]] = {}
    for file, node in definitions(ast.ClassDef):
        marks = [ast.unparse(each) for each in (*node.decorator_list, *node.bases)]
        if any(mark == "NamedTuple" or "dataclass" in mark for mark in marks):
            files.setdefault(node.name, []).append(file)
    assert not {name: each for name, each in files.items() if len(each) > 1}
