"""Executed notebooks -> HTML pages, and one index page that grows as studies finish."""

from __future__ import annotations

import html
import os
from datetime import UTC, datetime
from pathlib import Path

import nbformat
from nbconvert import HTMLExporter

from infrabench.core import DesignError

INDEX = "index.html"
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>infrabench</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>body{{font:16px/1.5 sans-serif;max-width:50em;margin:2em auto;padding:0 1em}}li{{margin:.5em 0}}</style>
</head><body><h1>infrabench</h1><p>Studies executed on this machine, one page each.</p>
<ul>
{items}
</ul></body></html>
"""


def page(notebook: Path, folder: Path) -> Path:
    """Write an executed notebook as one HTML file into `folder`, renew the index page, and return the page.

    Raises `DesignError` when the file is no notebook or was never executed: an empty page would look like a result.
    """
    try:
        source = nbformat.read(notebook, as_version=4)
    except (OSError, ValueError, nbformat.reader.NotJSONError, nbformat.ValidationError) as error:
        raise DesignError(f"{notebook} is not a notebook: {error}") from error
    if not any(cell.get("outputs") for cell in source.cells if cell.cell_type == "code"):
        raise DesignError(f"{notebook} has no outputs: execute it first (infrabench notebook {notebook} OUT)")
    exporter = HTMLExporter(exclude_input_prompt=True, exclude_output_prompt=True)
    body, _ = exporter.from_notebook_node(source, {"metadata": {"name": _title(source, notebook.stem)}})
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{notebook.stem}.html"
    _replace(target, body)
    _index(folder)
    return target


def _index(folder: Path) -> None:
    items = []
    for path in sorted(folder.glob("*.html")):
        if path.name != INDEX:
            when = datetime.fromtimestamp(path.stat().st_mtime, UTC).strftime("%Y-%m-%d %H:%M UTC")
            name = html.escape(path.stem)
            items.append(f'<li><a href="{html.escape(path.name)}">{name}</a> ({when})</li>')
    _replace(folder / INDEX, _PAGE.format(items="\n".join(items)))


def _title(source: nbformat.NotebookNode, otherwise: str) -> str:
    for cell in source.cells:
        if cell.cell_type == "markdown" and cell.source.startswith("# "):
            return cell.source.splitlines()[0].removeprefix("# ")
    return otherwise


def _replace(path: Path, text: str) -> None:
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)
