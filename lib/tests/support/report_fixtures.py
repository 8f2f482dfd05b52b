"""Sessions and executed notebooks to make reports of, without a kernel."""

from __future__ import annotations

import base64
import html
import json
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from infrabench.analysis import session_data
from infrabench.notebook import api, session_tables
from tests.support.analysis_fixtures import write_session

HOSTILE = '<script>alert("x")</script>`{include} /etc/passwd`'
NAMED = "s <img src=x onerror=alert(1)>"  # a session may be called anything that a folder may
TOKEN = "planted-secret"
ABSENT = {"system": "lxc", "workload": "fio", "scenario": "default", "reason": "no such disk"}
# The smallest picture: one white pixel.
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4//8/AAX+Av4N70a4AAAAAElFTkSuQmCC")


def session(folder: Path, *, fact: str = "1", **changes: Any) -> Path:
    """Write a session with provenance; `changes` are of its ``session.json``."""
    made = write_session(folder, blocks=6)
    data = json.loads((made / "session.json").read_text())
    more = {"parameters": {}, "left_out": {}, "not_applicable": [ABSENT]}
    (made / "session.json").write_text(json.dumps(data | more | changes))
    (made / "provenance").mkdir()
    each = {name: {"facts": {"version": fact}, "tools": {"ab": "2.3"}} for name in ("native", "docker", "lxc")}
    (made / "provenance" / "deployments.json").write_text(json.dumps(each))
    (made / "provenance" / "server.json").write_text(json.dumps({"cpu": {"model": "a processor"}}))
    return made


def told(folder: Path) -> dict[str, Any]:
    """Return the abstract of the session in a folder."""
    opened = session_data.open_session(folder)
    return session_tables.make_abstract(opened, api.results(opened))


def figure(alt: str = "A picture of nothing.", data: bytes = PNG) -> str:
    """Return a figure as notebooks show it."""
    told, text = html.escape(alt, quote=True), base64.b64encode(data).decode()
    return f'<figure><img alt="{told}" src="data:image/png;base64,{text}"></figure>'


def shown(**data: Any) -> NotebookNode:
    """Return an output of a cell: by kind, ``html`` or ``text``, or an abstract as ``told``."""
    kinds = {"html": "text/html", "text": "text/plain", "told": session_tables.MIME}
    return nbformat.v4.new_output("display_data", data={kinds[name]: value for name, value in data.items()})


def figure_file(folder: Path, name: str, data: bytes = PNG) -> Path:
    """Write a saved figure, as PDF, SVG, PNG and side-car."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.png").write_bytes(data)
    svg = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><path d="M1 1h7"/></svg>'
    (folder / f"{name}.svg").write_text(svg)
    (folder / f"{name}.pdf").write_bytes(b"%PDF-1.4")
    (folder / f"{name}.json").write_text(json.dumps({"figure": name, "size_mm": [85, 60]}))
    return folder / f"{name}.png"


def home(folder: Path) -> Path:
    """Make a checkout with executed notebooks in ``out``: one whole, one interrupted, one not executed, one torn."""
    made = session(
        folder / "data" / "runs" / "containers" / NAMED, fact=HOSTILE, not_run={"lxd": f"{HOSTILE} in {folder}/x"}
    )
    out = folder / "out"
    figure_file(out / "figures" / "containers", "forest")
    (out / "tables" / "containers").mkdir(parents=True)
    for kind in ("csv", "md", "tex"):
        (out / "tables" / "containers" / f"contrasts.{kind}").write_text("a\n")
    notebook(
        out / "containers.ipynb",
        shown(told=told(made), text="a line"),
        shown(html=figure()),
        shown(html=f"<table><tr><td>{html.escape(HOSTILE)}</td></tr></table>"),
        nbformat.v4.new_output("stream", text=f"{HOSTILE} {folder}/data/runs/x is complete"),
        markdown=f"# Does it matter?\n\nIt may: $x^2$, {HOSTILE}",
        metadata={"papermill": {"environment_variables": {"TOKEN": TOKEN}, "output_path": str(out / "x.ipynb")}},
    )
    notebook(out / "cnis.ipynb", shown(text="1"), executed=1, cells=2)
    notebook(out / "runtimes.ipynb", executed=0)
    (out / "torn.ipynb").write_text('{"cells": [')
    return folder


def notebook(
    path: Path, *outputs: NotebookNode, markdown: str = "# Does it matter?\n\nIt may.", executed: int = 1,
    cells: int = 1, metadata: dict[str, Any] | None = None,
) -> Path:  # fmt: skip
    """Write a notebook of `cells` code cells, the first `executed` of them executed; the first has the outputs."""
    code = [
        nbformat.v4.new_code_cell(f"step({n})", execution_count=n + 1 if n < executed else None) for n in range(cells)
    ]
    code[0].outputs = list(outputs)
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(markdown), *code])
    made.metadata |= {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
                      "language_info": {"name": "python"}, **(metadata or {})}  # fmt: skip
    nbformat.write(made, path)
    return path
