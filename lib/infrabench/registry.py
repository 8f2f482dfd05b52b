"""Plug-ins by name: a workload, a system or a study is a module, and its file name is its name.

``sysbench-cpu`` is ``workloads/sysbench_cpu.py``; the systems are in the package `PLATFORMS`, where that is installed.
Plug-ins that differ in a word or two may share a file: it defines `FAMILY`, a dictionary with their names as literal
keys, whose values have what a module would have. Names come from listing files, so asking which plug-ins there are
imports none of them. Folders named in the environment variable ``INFRABENCH_PLUGINS`` hold more of them, laid out
alike: ``FOLDER/workloads/mine.py``.

An error while a plug-in is imported is the plug-in's own and reaches the caller as it is: it never turns into
"unknown".
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import sys
import time
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from infrabench.core import (
    DesignError,
    MetricKind,
    Study,
    System,
    Versioned,
    Workload,
    digest,
    find_missing,
    read_version,
    split_version,
    unknown_name,
)

PLATFORMS = "infrabench_platforms"
PACKAGES = ("infrabench", PLATFORMS)  # whose code makes trials, and says what it does
KINDS = ("workloads", "systems", "studies")
CONTRACT = {
    "workloads": ("PARAMS", "plan", "version", "supported", "parse"),
    "systems": ("supported", "deploy"),
    "studies": ("STUDY",),
}
DERIVED = ("VERSION", "PROGRAMS")  # what a workload may declare in place of `version` and `supported`
VARIABLE = "INFRABENCH_PLUGINS"
STARTED_S = time.time()  # before any module of a later room was loaded
LOADED_S: dict[str, float] = {}  # when a plug-in from outside was loaded, by the name of its module


@cache
def packages() -> dict[Path, str]:
    """Return the folders of the packages that are installed, and their names."""
    specs = {name: importlib.util.find_spec(name) for name in PACKAGES}
    return {Path(str(spec.origin)).parent: name for name, spec in specs.items() if spec is not None}


def names(kind: str) -> tuple[str, ...]:
    """Return the names of all plug-ins of a kind (``workloads``, ``systems``, ``studies``), sorted; imports none."""
    return tuple(sorted(_files(kind)))


def workload(name: str) -> Workload:
    """Return the workload module `name`; `DesignError` with the nearest names when there is none."""
    return cast(Workload, _load("workloads", name))


def system(name: str) -> System:
    """Return the system module `name`; `DesignError` with the nearest names when there is none.

    ``docker@26.1`` is a version of the system ``docker`` (`core.Versioned`).
    """
    plain, version = split_version(name)
    found = cast(System, _load("systems", plain))
    return Versioned(found, plain, version) if version else found


def study(name: str) -> Study:
    """Return the `Study` called `name`; `DesignError` with the nearest names when there is none."""
    found = _load("studies", name).STUDY
    if not isinstance(found, Study) or found.name != name:
        raise DesignError(f"the study file of {name!r} must define STUDY, a core.Study whose name is {name!r}")
    return found


def source(kind: str, name: str) -> Path:
    """Return the file of a plug-in (that of its family), or its folder; `DesignError` when there is none."""
    files, plain = _files(kind), split_version(name)[0]
    if plain not in files:
        raise unknown_name(kind.removesuffix("s"), name, files)
    return files[plain]


def metric_kinds(workload_name: str) -> Mapping[str, MetricKind]:
    """Return metric -> kind as a workload declares it.

    Empty where it declares nothing, and where its plug-in is not at hand or cannot be imported: a session recorded
    elsewhere can still be read. ``web (code 2)``, as trials of another code are called, is of the kinds of ``web``, and
    so is ``web, 1000 users``, a scenario of it.
    """
    return cast(Mapping[str, MetricKind], _read_declaration(workload_name, "METRICS"))


def less_failed(workload_name: str) -> Mapping[str, tuple[str, str]]:
    """Return rate -> the metrics of its time and of what failed, of rates that a workload reports without what failed.

    Empty where `metric_kinds` is.
    """
    return cast(Mapping[str, tuple[str, str]], _read_declaration(workload_name, "LESS_FAILED"))


def _read_declaration(workload_name: str, what: str) -> Mapping[str, Any]:
    try:
        plain = workload_name.partition(" (code ")[0].partition(", ")[0]
        return cast(Mapping[str, Any], getattr(workload(plain), what, {}))
    except (DesignError, ImportError):
        return {}


def _files(kind: str) -> dict[str, Path]:
    if kind not in KINDS:
        raise unknown_name("kind of plug-in", kind, KINDS)
    folders = [*packages(), *(Path(part) for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part)]
    found: dict[str, Path] = {}
    for folder in folders:
        if not folder.is_dir():
            raise DesignError(f"plug-in folder {folder} does not exist; check {VARIABLE}")
        for path in sorted((folder / kind).glob("[!_.]*")):
            for name in _members(path, path.stat().st_mtime_ns):
                if found.setdefault(name, path) != path:
                    raise DesignError(f"two plug-ins are called {name!r}: {found[name]} and {path}; rename one")
    return found


@lru_cache(maxsize=1024)
def _members(path: Path, changed_ns: int) -> tuple[str, ...]:
    """Return the names of the plug-ins in a file or folder: the keys of its `FAMILY`, else its own; none for others."""
    own = path.stem.replace("_", "-")
    if path.suffix != ".py":
        return (own,) if (path / "__init__.py").is_file() else ()
    text = path.read_text(encoding="utf-8", errors="replace")
    if "FAMILY" not in text:  # most files need no parsing
        return (own,)
    try:
        tree = ast.parse(text, str(path))
    except SyntaxError:  # told when the plug-in is imported
        return (own,)
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(each, ast.Name) and each.id == "FAMILY" for each in targets):
            keys = getattr(getattr(node, "value", None), "keys", [None])
            if not all(isinstance(key, ast.Constant) and isinstance(key.value, str) for key in keys):
                raise DesignError(f"plug-in {path}: FAMILY must be a dictionary with literal names as keys")
            return tuple(key.value for key in keys)
    return (own,)


def _load(kind: str, name: str) -> Any:
    files = _files(kind)
    if not isinstance(name, str) or name not in files:
        raise unknown_name({"studies": "study"}.get(kind, kind.removesuffix("s")), name, files)
    path = files[name]
    package = packages().get(path.parent.parent)
    module = importlib.import_module(f"{package}.{kind}.{path.stem}") if package else _from_file(kind, path)
    plugin = module.FAMILY[name] if hasattr(module, "FAMILY") else module
    if kind == "workloads":  # what it declares, and does not define
        if hasattr(plugin, "VERSION") and not hasattr(plugin, "version"):
            plugin.version = lambda target: read_version(target, *plugin.VERSION)
        if hasattr(plugin, "PROGRAMS") and not hasattr(plugin, "supported"):
            plugin.supported = lambda deployment: find_missing(deployment, *plugin.PROGRAMS.get("server", ()))
    absent = [attribute for attribute in CONTRACT[kind] if not hasattr(plugin, attribute)]
    if absent:
        raise DesignError(f"plug-in {path} lacks {', '.join(absent)}; see the contract in infrabench/core/")
    return plugin


def _from_file(kind: str, path: Path) -> ModuleType:
    # The path is part of the module name: two folders may hold files of the same name.
    key = f"infrabench_plugin_{kind}_{path.stem}_{digest(str(path.resolve()), 8)}"
    if key in sys.modules:
        return sys.modules[key]
    file, inside = (path / "__init__.py", [str(path)]) if path.is_dir() else (path, None)
    spec = importlib.util.spec_from_file_location(key, file, submodule_search_locations=inside)
    if spec is None or spec.loader is None:
        raise DesignError(f"plug-in {file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    LOADED_S[key] = time.time()
    sys.modules[key] = module  # dataclasses look their module up while it is being executed
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[key]
        raise
    return module
