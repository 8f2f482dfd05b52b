"""The cells of a notebook, executed in this process: for what it shows of sessions that are unlike the recorded one.

That papermill and a kernel execute every notebook, and that its figures are written in every format, is shown on the
recorded sessions; here neither a kernel nor print quality is waited for.
"""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat

from tests.support.sketches import sketched


def shown(notebook: Path, given: Mapping[str, Any]) -> list[str]:
    """Return what a notebook shows with these parameters, as plain text; what a cell raises is raised here."""
    names: dict[str, Any] = {}
    found = []
    with sketched(), _log_of_its_own():
        for cell in nbformat.read(notebook, 4).cells:
            if cell.cell_type != "code":
                continue
            code = ast.parse(cell.source)
            last = code.body.pop() if code.body and isinstance(code.body[-1], ast.Expr) else None
            exec(compile(code, notebook.name, "exec"), names)
            if "parameters" in cell.metadata.get("tags", []):
                assert given.keys() <= names.keys()
                names |= given
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), notebook.name, "eval"), names)
                if value is not None:
                    found.append(repr(value))
                    if not isinstance(value, str):
                        value._repr_html_()  # as a browser would ask for it
    return found


@contextmanager
def _log_of_its_own() -> Iterator[None]:
    """A notebook's log takes the place of every other; put them back."""
    root, ours = logging.getLogger(), logging.getLogger("infrabench")
    handlers, levels = list(root.handlers), (root.level, ours.level)
    root.handlers = []
    try:
        yield
    finally:
        root.handlers = handlers
        root.setLevel(levels[0])
        ours.setLevel(levels[1])
