"""Finds shell (and Python) programs that are put together at run time, in the source of the package.

House rule: what ``sh -c`` gets is a constant, and values go to it as arguments of their own ("$1", "$2").
A constant is a literal, a name that stands for one, a file of the package, or these put together.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

SHELLS = {"sh", "bash", "dash", "/bin/sh", "/bin/bash", "python3", "python"}
FORBIDDEN = {"system", "popen", "getoutput", "getstatusoutput", "create_subprocess_shell"}
KEEPS = {"format", "strip", "replace", "encode", "decode", "join", "dedent"}  # of constants they make constants
Source = Callable[[str], str | None]  # name of a module -> its source, if it is one of ours


def violations(name: str, source: Source) -> list[str]:
    """Return every place in the module `name` that hands a shell something that is not a constant."""
    text = source(name)
    assert text is not None
    return list(_Module(name, ast.parse(text), source).violations())


class _Module:
    def __init__(self, name: str, tree: ast.Module, source: Source) -> None:
        self.name, self.tree, self.source = name, tree, source
        self.parent = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        self.imports = dict(_imports(tree, name))

    def violations(self) -> Iterator[str]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call):
                yield from self._call(node)
            if isinstance(node, ast.Tuple | ast.List | ast.Call):
                yield from self._argv(node)

    def _call(self, node: ast.Call) -> Iterator[str]:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        owner = getattr(getattr(node.func, "value", None), "id", "")
        if called in FORBIDDEN and owner in {"os", "subprocess", "asyncio", ""}:
            yield self._at(node, f"calls {called}")
        for keyword in node.keywords:
            if keyword.arg == "shell" and ast.unparse(keyword.value) != "False":
                yield self._at(node, "asks for a shell")
        if called in {"run_script", "script", "_sh"} and len(node.args) > 1 and not self.constant(node.args[1]):
            yield self._at(node, f"hands {called} what is not a constant: {ast.unparse(node.args[1])}")

    def _argv(self, node: ast.Tuple | ast.List | ast.Call) -> Iterator[str]:
        words = node.args if isinstance(node, ast.Call) else node.elts
        for shell, option, program in zip(words, words[1:], words[2:], strict=False):
            runs = _literal(shell) in SHELLS and _literal(option).startswith("-") and "c" in _literal(option)
            if runs and not self.constant(program):
                yield self._at(node, f"hands {_literal(shell)} what is not a constant: {ast.unparse(program)}")

    def _at(self, node: ast.AST, what: str) -> str:
        return f"{self.name}:{node.lineno} {what}"  # type: ignore[attr-defined]

    def constant(self, node: ast.expr | None) -> bool:
        """Tell whether an expression has one value, whatever the program is asked for."""
        match node:
            case ast.Constant():
                return True
            case ast.Name():
                return self._name(node)
            case ast.Attribute(value=ast.Name(id=owner)) if owner in self.imports:
                return self._imported(self.imports[owner], node.attr)
            case ast.BinOp():
                return self.constant(node.left) and self.constant(node.right)
            case ast.JoinedStr():
                return all(self.constant(part) for part in node.values)
            case ast.FormattedValue():
                return self.constant(node.value)
            case ast.IfExp():
                return self.constant(node.body) and self.constant(node.orelse)
            case ast.Subscript():
                return self.constant(node.value)
            case ast.Dict():
                return all(map(self.constant, node.values))
            case ast.Tuple() | ast.List():
                return all(map(self.constant, node.elts))
            case ast.Starred():
                return self.constant(node.value)
            case ast.Call(func=ast.Name(id=called), args=[], keywords=[]):
                return self._returned(called)
            case ast.Call(func=ast.Attribute(attr="read_text" | "read_bytes")):
                return True  # what a file of the package says: see the test of where they are read
            case ast.Call(func=ast.Attribute(value=owner, attr=attr)) if attr in KEEPS:
                given = (*node.args, *(keyword.value for keyword in node.keywords))
                return self.constant(owner) and all(map(self.constant, given))
        return False

    def _returned(self, called: str) -> bool:
        """Tell whether a function of this module that takes nothing returns a constant."""
        found = [each for each in self.tree.body if isinstance(each, ast.FunctionDef) and each.name == called]
        values = [node.value for each in found for node in ast.walk(each) if isinstance(node, ast.Return)]
        return bool(values) and all(map(self.constant, values))

    def _name(self, node: ast.Name) -> bool:
        scope: ast.AST | None = self.parent.get(node)
        while scope is not None:
            if isinstance(scope, ast.FunctionDef | ast.Lambda):
                taken = scope.args
                if node.id in {each.arg for each in (*taken.args, *taken.kwonlyargs, *taken.posonlyargs)}:
                    return isinstance(scope, ast.FunctionDef) and scope.name in {"run_script", "script", "_sh"}
                if isinstance(scope, ast.FunctionDef) and (found := list(_assigned(scope, node.id))):
                    return all(map(self.constant, found))
            scope = self.parent.get(scope)
        if found := list(_assigned(self.tree, node.id)):
            return all(map(self.constant, found))
        return node.id in self.imports and self._imported(*self.imports[node.id].rpartition(".")[::2])

    def _imported(self, module: str, name: str) -> bool:
        text = self.source(module)
        if text is None:
            return False
        other = _Module(module, ast.parse(text), self.source)
        found = list(_assigned(other.tree, name))
        return bool(found) and all(map(other.constant, found))


def _literal(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _assigned(scope: ast.AST, name: str) -> Iterator[ast.expr | None]:
    """Yield what is bound to a name in a scope itself; None where a loop, an import or the like binds it."""
    inner = (ast.FunctionDef, ast.ClassDef, ast.Lambda)
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name) and target.id == name:
                    yield node.value
                elif any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(target)):
                    yield None
        elif isinstance(node, ast.For | ast.comprehension | ast.withitem):
            bound = node.optional_vars if isinstance(node, ast.withitem) else node.target
            if bound is not None and any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(bound)):
                yield node.iter if isinstance(node, ast.For | ast.comprehension) else None
        if not isinstance(node, inner):
            waiting += ast.iter_child_nodes(node)


def _imports(tree: ast.Module, name: str) -> Iterator[tuple[str, str]]:
    """Yield the names that a module imports from ours, and the dotted path of each."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def package(folder: Path) -> Source:
    """Return where sources come from: the folder that holds the packages."""

    def source(name: str) -> str | None:
        place = folder / name.replace(".", "/")
        for path in (place.with_suffix(".py"), place / "__init__.py"):
            if path.is_file():
                return path.read_text()
        return None

    return source
