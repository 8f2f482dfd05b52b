"""What code makes a session's trials, and whether a session that goes on still has the one that made its last trial.

A part of the code is the definitions and files that a plug-in or a module reaches, and their digest. Definitions are
followed by name through the modules of `ROOMS`, and through what a plug-in from outside imports beside the standard
library and installed packages. They count as syntax trees: comments, docstrings, type hints of functions and the layout
of the text do not. A file that is named in a text counts too: a script that runs on hosts as other modules do, and the
sources of an ``ib-`` tool byte by byte.
"""

from __future__ import annotations

import ast
import re
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from infrabench import registry
from infrabench.core import DesignError, LedgerError, Study, digest
from infrabench.core.workloads import SCRIPTS
from infrabench.experiment.design import design as designs
from infrabench.experiment.design.design import Design
from infrabench.experiment.provenance import collect
from infrabench.ledger.codes import CODE, known_codes
from infrabench.ledger.records import not_applicable
from infrabench.ledger.session_folder import SessionFolder

PACKAGES = registry.packages()
HARNESS = Path(__file__).parents[2]
# Rooms whose code decides what a value is; analysis, figures, commands and the ledger read it, or keep it.
ROOMS = (
    *(f"infrabench/{room}/" for room in ("core", "workloads", "machines", "experiment/design", "experiment/execution")),
    f"{registry.PLATFORMS}/",
)
LEFT_OUT = ("infrabench/experiment/execution/progress.py",)
TOOLS = "lab"  # where the sources of ib- tools lie, in the platforms
PATH = re.compile(r"(?!/)(?!.*\.\.)[\w./-]{1,200}")  # a text that may name a file of ours
HINTS = {"returns", "annotation"}  # of functions
Definition = tuple[Path, str | None]  # a module and a name in it; None: everything in it; "": what has no name
RUN = (*(name for name in registry.CONTRACT["workloads"] if name != "parse"), *registry.DERIVED)
EXECUTION = HARNESS / "experiment/execution"
# What runs, watches and judges a trial; what decides which trial comes next.
SUITE: Mapping[str, tuple[Definition, ...]] = {
    "measurement": (
        (EXECUTION / "trial.py", None), (EXECUTION / "runner.py", "Runner"), (EXECUTION / "deployments.py", None),
        (HARNESS / "machines/hosts/host.py", None),
    ),
    "plan": ((HARNESS / "experiment/design/design.py", "trials"), (EXECUTION / "blocks.py", None)),
}  # fmt: skip
CHOICES = (
    "Start another session (give it a name), or go on with a mixture (--mixture; MIXTURE=true with make; "
    "mixture = True in a notebook; mixture: true in a campaign file): trials of another code are then analysed apart"
)
REPARSE = "; or `infrabench session reparse` it into a folder, which goes on with the parsers of now"


@dataclass(frozen=True)
class Module:
    """The statements of a module by the name that they define, ``""`` for none, and what its imports stand for."""

    path: Path
    names: Mapping[str, list[ast.stmt]]
    imports: Mapping[str, Definition]
    known: dict[str, tuple[str, list[Definition]]] = field(default_factory=dict)

    def definition(self, name: str) -> tuple[str, list[Definition]]:
        """Return the digest of what a name stands for, and what it reaches."""
        if name not in self.known:
            statements = self.names[name]
            reached = [each for part in statements for each in _references(part, self)]
            texts = [text for each in statements for text in _texts(each)]
            reached += [(self.path, ""), *((each, None) for each in _files(texts, self.path))]
            self.known[name] = digest([_shape(each) for each in statements]), reached
        return self.known[name]


def digests_of(parts: Mapping[str, Iterable[Definition]]) -> dict[str, str]:
    """Return the digest of everything that the roots of each part reach; each file is read once.

    Raises `LedgerError` when a module, or a script for hosts, has changed since this process loaded it: what runs is
    not what its file says.
    """
    modules: dict[Path, Module] = {}
    found = {part: _digest(roots, modules) for part, roots in parts.items()}
    _check_loaded(modules)
    return found


def _digest(roots: Iterable[Definition], modules: dict[Path, Module]) -> str:
    """Return the digest of everything that `roots` reach; adds the modules that hold it to `modules`."""
    found: dict[Definition, str] = {}
    queue = list(roots)
    while queue:
        path, name = key = queue.pop()
        if key in found or not _counts(path):
            continue
        found[key] = ""
        if path.suffix != ".py":
            found[key] = sha256(path.read_bytes()).hexdigest()
            continue
        module = modules[path] if path in modules else modules.setdefault(path, _module(path, path.read_bytes()))
        if name is None:
            queue += [(path, each) for each in module.names]
        elif name in module.names:
            found[key], reached = module.definition(name)
            queue += reached
        elif target := module.imports.get(name) or _submodule(path.parent, name):
            queue.append(target)
    # Of a module there are many definitions.
    labels = {path: _place(path) or f"{path.parent.name}/{path.name}" for path in {path for path, _ in found}}
    return digest(sorted([labels[path], name or "", each] for (path, name), each in found.items() if each))


def _check_loaded(paths: Collection[Path]) -> None:
    files = {str(path): path for path in paths}  # a process holds thousands of modules: no path is made of most
    now_s = time.time()  # on a machine whose clock is behind, files are of the future, and were not written just now
    changed = [path for path in SCRIPTS.keys() & paths if SCRIPTS[path] != path.read_text(encoding="utf-8")]
    for name, module in list(sys.modules.items()):
        if (path := files.get(getattr(module, "__file__", None) or "")) is not None:
            loaded_s = registry.LOADED_S.get(name.partition(".")[0], registry.STARTED_S)
            about = path.stat()  # a package manager gives a new file the time of its archive, but not its ctime
            changed += [path] if any(loaded_s < each <= now_s for each in (about.st_mtime, about.st_ctime)) else []
    if changed:
        raise LedgerError(
            f"{changed[0]} has changed since this process loaded it, so that nobody could say what made the next "
            "trial. Start the command again; in a notebook, restart the kernel"
        )


@lru_cache(maxsize=4096)
def _counts(path: Path) -> bool:
    place = _place(path)
    return not place or (place.startswith(ROOMS) and place not in LEFT_OUT)


def _place(path: Path) -> str:
    """Return how a file of the suite is called wherever its checkout lies; empty for any other."""
    folder = next((folder for folder in PACKAGES if path.is_relative_to(folder)), None)
    return f"{PACKAGES[folder]}/{path.relative_to(folder).as_posix()}" if folder else ""


@lru_cache(maxsize=512)
def _module(path: Path, content: bytes) -> Module:
    try:
        tree = ast.parse(content, str(path))
    except (SyntaxError, ValueError) as error:
        raise DesignError(f"{path} is not Python: {error}") from error
    names: dict[str, list[ast.stmt]] = {"": []}
    imports: dict[str, Definition] = {}
    for statement in tree.body:
        if _is_text(statement) or (isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING"):
            continue
        for part in ast.walk(statement):
            if isinstance(part, ast.Import | ast.ImportFrom):
                imports |= _imported(part, path)
        for name in _defined(statement) or ("",):
            if name not in imports or not isinstance(statement, ast.Import | ast.ImportFrom):
                names.setdefault(name, []).append(statement)
    return Module(path, names, imports)


def _is_text(statement: ast.stmt) -> bool:
    """Tell whether a statement is a text alone: a docstring, or a comment written as one."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _defined(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [each.asname or each.name.partition(".")[0] for each in statement.names]
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    inside = [part for each in targets if each is not None for part in ast.walk(each)]
    return [part.id for part in inside if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)]


def _imported(statement: ast.Import | ast.ImportFrom, path: Path) -> Iterator[tuple[str, Definition]]:
    if isinstance(statement, ast.Import):
        for each in statement.names:
            if found := _located(each.name.split(".")):
                yield each.asname or each.name.partition(".")[0], (found, None)
        return
    parts = statement.module.split(".") if statement.module else []
    package = _located(parts) if not statement.level else _below(path.parents[statement.level - 1], parts)
    if package is None:
        return
    for each in statement.names:
        inside = _submodule(package.parent, each.name) if package.name == "__init__.py" else None
        yield each.asname or each.name, inside or (package, None if each.name == "*" else each.name)


def _located(parts: list[str]) -> Path | None:
    """Return the file of a module that counts: one of the suite, or one that is neither installed nor Python's own."""
    for folder, name in PACKAGES.items():
        if parts[0] == name:
            return _below(folder, parts[1:])
    if parts[0] in sys.stdlib_module_names or parts[0] == "__main__":
        return None
    spec = find_spec(parts[0])
    file = Path(spec.origin) if spec is not None and spec.origin else None
    if file is None or file.suffix != ".py" or {"site-packages", "dist-packages"} & {*file.parts}:
        return None
    return _below(file.parent, parts[1:]) if file.name == "__init__.py" else file


def _below(folder: Path, parts: list[str]) -> Path | None:
    place = folder.joinpath(*parts)
    return next((each for each in (place.with_suffix(".py"), place / "__init__.py") if each.is_file()), None)


def _submodule(folder: Path, name: str) -> Definition | None:
    found = _below(folder, [name]) if name.isidentifier() else None
    return (found, None) if found else None


def _references(node: ast.AST, module: Module) -> Iterator[Definition]:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id not in module.names:
        file, name = module.imports.get(node.value.id, (module.path, ""))
        yield (file, node.attr) if name is None else (file, name)
        return
    if isinstance(node, ast.Name) and node.id in module.names:
        yield module.path, node.id
    elif isinstance(node, ast.Name) and node.id in module.imports:
        yield module.imports[node.id]
    for name, part in ast.iter_fields(node):
        if not _is_hint(node, name):
            for each in part if isinstance(part, list) else [part]:
                if isinstance(each, ast.AST):
                    yield from _references(each, module)


def _is_hint(node: ast.AST, field: str) -> bool:
    return field in HINTS and isinstance(node, ast.arg | ast.FunctionDef | ast.AsyncFunctionDef)


def _shape(node: Any) -> Any:
    """Return a syntax tree as plain data, alike in every version of Python."""
    if isinstance(node, list):
        return [_shape(each) for each in node if not (isinstance(each, ast.stmt) and _is_text(each))]
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = [(name, part) for name, part in ast.iter_fields(node) if name != "kind" and not _is_hint(node, name)]
    return [type(node).__name__, *([name, _shape(part)] for name, part in fields if part is not None and part != [])]


def _texts(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    for part in ast.iter_child_nodes(node):
        if not (isinstance(part, ast.stmt) and _is_text(part)):
            yield from _texts(part)


def _files(texts: list[str], path: Path) -> set[Path]:
    """Return the files that are named in `texts` of the module at `path`."""
    found: set[Path] = set()
    packages = [
        folder.joinpath(*each.split(".")[1:])
        for folder, name in PACKAGES.items()
        for each in texts
        if re.fullmatch(rf"{name}(\.\w+)+", each)
    ]
    for text in texts:
        for tool in re.findall(r"\bib-([a-z]+)\b", text):
            patterns = (f"ib-{tool}", f"src/{tool}.c", f"{tool}/*.[ch]")
            found |= {each for folder in PACKAGES for pattern in patterns for each in (folder / TOOLS).rglob(pattern)}
        if not PATH.fullmatch(text):
            continue
        folders = [each for each in packages if (each / text).exists()]
        packages = [each for each in packages if each not in folders]
        found |= {each for folder in [*PACKAGES] * ("/" in text) + folders for each in _inside(folder / text)}
        found |= {path.parent / text} if (path.parent / text).is_file() else set()
    return found | {each for folder in packages for each in _inside(folder)}


def _inside(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    return [each for each in place.rglob("*") if each.is_file() and "__pycache__" not in each.parts]


def code_parts(study: Study, wanted: Design) -> dict[str, str]:
    """Return the digest of every part of the code that the trials of `wanted` are made with."""
    systems = {study.variants[name].system if name in study.variants else name for name in wanted.systems}
    roots = dict(SUITE)
    for name in sorted(systems):
        roots[f"system {name}"] = _definitions("systems", name, (None,))
    for name in designs.workloads(wanted):
        roots[f"workload {name}"] = _definitions("workloads", name, RUN)
        roots[f"parser {name}"] = parser_definitions(name)
    return digests_of(roots)


def parser_definitions(workload: str) -> tuple[Definition, ...]:
    """Return where the parser of a workload is defined."""
    return _definitions("workloads", workload, ("parse",))


def check_code(stored: SessionFolder, study: Study, wanted: Design) -> dict[str, str] | None:
    """Return the code of now where the session has to take note of it before it goes on; None where nothing differs.

    Raises `LedgerError` when its last trial was made with other code, or it is not known with which, and `wanted` asks
    for no mixture; `DesignError` when it asks for one, and for a precision.
    """
    begun = stored.session
    then = known_codes(begun, stored.notes(CODE))[-1]
    left_out = {"systems": tuple(begun["not_run"]), "workloads": tuple(begun["left_out"])}
    now = code_parts(study, designs.without(wanted, **left_out, excluded=not_applicable(begun)))
    if now == then:
        return None
    if stored.records and not wanted.request.mixture:
        raise LedgerError(f"{stored.path} cannot go on: {_difference(stored, then, now)}")
    if stored.records and wanted.stopping is not None:
        raise DesignError(
            f"{stored.path}: a mixture cannot reach a precision or share out a time, for which the trials of "
            "one code are counted: start another session"
        )
    return now


def append_code(stored: SessionFolder, study: Study, wanted: Design, block: int) -> None:
    """Take note of code that is not that of the last trial, before its first trial, in `block`. See `check_code`."""
    if (now := check_code(stored, study, wanted)) is not None:
        note = {"parts": now, "after": _last_trial(stored), "versions": collect.of_suite()}
        # Notes are read in the order of their blocks: a repeat that is due in an earlier one has the newest code too.
        block = max([block, *(each["block"] for each in stored.notes(CODE))])
        stored.append_block_note(block, CODE, note)


def _definitions(kind: str, name: str, names: Sequence[str | None]) -> tuple[Definition, ...]:
    path = registry.source(kind, name)
    return (
        tuple((each, None) for each in sorted(_inside(path)))
        if path.is_dir()
        else tuple((path, each) for each in names)
    )


def _last_trial(stored: SessionFolder) -> str:
    """Return the id of the trial that was made last; empty without one."""
    return max(stored.records.values(), key=lambda each: each.started_utc).trial.id if stored.records else ""


def _difference(stored: SessionFolder, then: Mapping[str, str], now: Mapping[str, str]) -> str:
    last = stored.records[_last_trial(stored)]
    where = f"trial {last.trial.id} (block {last.trial.block}, {last.started_utc})"
    if not then:
        return f"what made its trials up to {where} is not known, as it was recorded before that was kept. {CHOICES}"
    parts = [part for part in dict.fromkeys([*then, *now]) if then.get(part) != now.get(part)]
    only_parsers = all(part.startswith("parser ") for part in parts)
    return f"the code has changed since {where}: {', '.join(parts)}. {CHOICES}{REPARSE if only_parsers else ''}"
