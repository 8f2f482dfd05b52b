"""A script of the checkout as a module: it has no suffix that an import would know."""

from __future__ import annotations

import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from typing import Any

from tests.support.places import ROOT


def load_script(name: str) -> Any:
    """Return `scripts/NAME` as a module, without a file of bytecode beside it."""
    loader = SourceFileLoader(name, str(ROOT / "scripts" / name))
    module = module_from_spec(spec_from_loader(loader.name, loader))  # type: ignore[arg-type]
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module
