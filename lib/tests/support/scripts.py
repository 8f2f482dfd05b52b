"""Scripts: those of the checkout as modules, and shell scripts that stand for programs."""

from __future__ import annotations

import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

from tests.support.places import ROOT


def load_script(place: str | Path) -> Any:
    """Return a script, below ``scripts/`` or at its own path, as a module, without a file of bytecode beside it."""
    loader = SourceFileLoader(Path(place).stem, str(ROOT / "scripts" / place))
    module = module_from_spec(spec_from_loader(loader.name, loader))  # type: ignore[arg-type]
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


def write_program(path: Path, script: str) -> Path:
    """Write a shell script that can be executed, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path
