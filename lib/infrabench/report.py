"""Executed notebooks, figures, tables and sessions as static pages that open from a file, with no network.

Everything a page shows is inside it or beside it. A page that would load anything from elsewhere is refused.
"""

from __future__ import annotations

import base64
import html
import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from infrabench import labels
from infrabench.core import InfrabenchError
from infrabench.records import absences, awaited, not_applicable
from infrabench.tidy import missing, read_session

# what makes a browser fetch by itself; a link that a reader may click is no such thing
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed|object)\b[^>]*?\b(?:src|data)\s*=\s*["']?(?P<a>(?:https?:)?//[^"'\s>]+)
    |<link\b[^>]*?\bhref\s*=\s*["']?(?P<b>(?:https?:)?//[^"'\s>]+)
    |@import\s+(?:url\()?\s*["']?(?P<c>(?:https?:)?//[^"'\s)]+)
    |url\(\s*["']?(?P<d>(?:https?:)?//[^"'\s)]+)
    |\bimport\s*(?:\(|[^;"'<]*?\bfrom)\s*["'](?P<e>(?:https?:)?//[^"']+)""",
    re.VERBOSE | re.IGNORECASE,
)
CDN_SCRIPTS = ("require_js_url", "mathjax_url", "jquery_url", "mermaid_js_url")
TABLE_KINDS = ("md", "csv", "tex")
FIGURE_KINDS = ("pdf", "svg", "png")
CSS = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
h1{font-size:1.6rem}h2{font-size:1.2rem;border-bottom:1px solid #ccc;margin-top:2.2rem}
figure{margin:1.5rem 0}figure img{max-width:100%;height:auto}figcaption{font-size:.85rem;color:#444}
table{border-collapse:collapse;font-size:.9rem}td,th{padding:.2rem .7rem;border-bottom:1px solid #ddd;text-align:left}
.none{color:#666}
"""


def report(
    notebooks: Sequence[Path],
    out_dir: Path,
    *,
    figures: Path | None = None,
    tables: Path | None = None,
    sessions: Sequence[Path] = (),
    title: str = "infrabench",
) -> Path:
    """Write the report into `out_dir` and return the path of its ``index.html``.

    Parameters
    ----------
    notebooks
        Executed notebooks; each becomes a page of its own.
    figures, tables
        Folders as written by `infrabench.figures.save` and `infrabench.tables.save`, searched through; what lies
        outside `out_dir` is copied into it.
    sessions
        Session folders, linked where they are, with the state of their plan.

    Raises
    ------
    InfrabenchError
        A notebook is missing or is not one, was not executed, or its page would load something over the network.
    """
    out = Path(out_dir)
    out.mkdir(parents=True, exist_ok=True)
    pages = [_page(Path(notebook), out) for notebook in notebooks]
    body = [
        _section("Notebooks", [f'<li><a href="{_url(page, out)}">{html.escape(page.stem)}</a></li>' for page in pages]),
        _section("Sessions", [_session(Path(session), out) for session in sessions], "div"),
        _section("Figures", _figures(figures, out, _started(notebooks)), "div"),
        _section("Tables", _tables(tables, out)),
    ]
    index = out / "index.html"
    index.write_text(_document(title, "\n".join(body)), encoding="utf-8")
    return index


def external_references(page: str) -> list[str]:
    """Return the addresses that a browser would fetch over the network when it opens the page."""
    return [next(filter(None, match.groups())) for match in FETCHED.finditer(_without_output_text(page))]


def _without_output_text(page: str) -> str:
    """Data of embedded images can look like anything; it is not markup."""
    return re.sub(r"data:[\w/+.-]+;base64,[A-Za-z0-9+/=\s]+", "data:", page)


def _page(notebook: Path, out: Path) -> Path:
    # imported here because nbconvert takes a second to load, and only this function needs it
    import nbformat
    from nbconvert import HTMLExporter

    try:
        node = nbformat.read(notebook, as_version=4)
    except (OSError, nbformat.reader.NotJSONError, nbformat.ValidationError) as error:
        raise InfrabenchError(f"{notebook} cannot be read as a notebook: {error}") from error
    code = [cell for cell in node.cells if cell.cell_type == "code" and cell.source.strip()]
    if code and all(cell.execution_count is None for cell in code):
        raise InfrabenchError(f"{notebook} was never executed: run it, then make the report")
    exporter = HTMLExporter(embed_images=True, **dict.fromkeys(CDN_SCRIPTS, ""))
    page, _ = exporter.from_notebook_node(node, resources={"metadata": {"name": notebook.stem}})
    page = _offline(page)
    found = external_references(page)
    if found:
        raise InfrabenchError(f"the page of {notebook} would load {', '.join(sorted(set(found)))}: embed it instead")
    path = out / f"{notebook.stem}.html"
    path.write_text(page, encoding="utf-8")
    return path


def _offline(page: str) -> str:
    """Drop the template's loaders of remote scripts, which an empty address leaves behind."""
    scripts = re.compile(r"<script\b[^>]*>.*?</script>", re.DOTALL | re.IGNORECASE)
    return scripts.sub(lambda found: "" if _loads(found.group()) else found.group(), page)


def _loads(script: str) -> bool:
    empty = re.match(r"""<script\b[^>]*\bsrc\s*=\s*["']\s*["']""", script, re.IGNORECASE)
    return bool(empty or external_references(script) or re.search(r"mermaid|MathJax", script))


def _session(folder: Path, out: Path) -> str:
    session = labels.renamed(read_session(folder), labels.of(folder))
    plan, absent = awaited(folder), missing(folder)
    not_run = session.get("not_run", {}) | absences(not_applicable(session))
    rows = {
        "study": f"{session['study']}, profile {session.get('profile', 'not recorded')}",
        "site": f"{session['site']['name']} ({session['site'].get('kind', 'kind not recorded')})",
        "systems": ", ".join(session["systems"]) + f"; baseline {session['baseline']}",
        "not run": "; ".join(f"{name}: {reason}" for name, reason in not_run.items()) or "none",
        "trials": f"{len(plan) - len(absent)} of {len(plan)} recorded",
        "started": str(session.get("created_utc", "not recorded")),
    }
    cells = "".join(f"<tr><th>{name}</th><td>{html.escape(text)}</td></tr>" for name, text in rows.items())
    link = f'<a href="{_url(folder, out)}/">{html.escape(folder.name)}</a>'
    return f"<h3>{link}: every trial with its raw output</h3><table>{cells}</table>"


def _started(notebooks: Sequence[Path]) -> dict[str, float]:
    """Return when each notebook's run began, by its name; Unix time."""
    found = {}
    for path in map(Path, notebooks):
        told = json.loads(path.read_text(encoding="utf-8")).get("metadata", {}).get("papermill", {}).get("start_time")
        if told:
            found[path.stem] = datetime.fromisoformat(told).timestamp()
    return found


def _figures(folder: Path | None, out: Path, started: Mapping[str, float]) -> list[str]:
    """One `figure` for each side-car, the picture inside the page and the files beside it.

    A figure that is older than the run of the notebook of its folder's name was made by an earlier run.
    """
    parts = []
    for car in sorted(Path(folder).rglob("*.json")) if folder else ():
        if car.stat().st_mtime < started.get(car.parent.name, 0):
            continue
        data: dict[str, Any] = json.loads(car.read_text(encoding="utf-8"))
        if "figure" not in data or not car.with_suffix(".png").is_file():
            continue
        kinds = [car.with_suffix(f".{kind}") for kind in FIGURE_KINDS] + [car]
        here = _bring(kinds, Path(folder), out / "figures", out)
        png = base64.b64encode(car.with_suffix(".png").read_bytes()).decode()
        # 1 mm is 96 / 25.4 CSS pixels; a third larger than in print, for reading on a screen
        width = round(data.get("size_mm", [174])[0] * 96 / 25.4 * 1.35)
        name = html.escape(data["figure"])
        picture = f'<img src="data:image/png;base64,{png}" width="{width}" alt="{name}">'
        caption = f"<b>{name}.</b> {html.escape(data.get('caption', ''))} {_links(here, out)}"
        parts.append(f"<figure>{picture}<figcaption>{caption}</figcaption></figure>")
    return parts


def _tables(folder: Path | None, out: Path) -> list[str]:
    parts = []
    for first in sorted(Path(folder).rglob("*.md")) if folder else ():
        kinds = [first.with_suffix(f".{kind}") for kind in TABLE_KINDS]
        here = _bring(kinds, Path(folder), out / "tables", out)
        parts.append(f"<li>{html.escape(first.stem)}: {_links(here, out)}</li>")
    return parts


def _bring(paths: Iterable[Path], source: Path, target: Path, out: Path) -> list[Path]:
    """Copy files that lie outside the report into it, and return where they are now."""
    here = []
    for path in filter(Path.is_file, paths):
        if path.resolve().is_relative_to(out.resolve()):
            here.append(path)
            continue
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        here.append(Path(shutil.copyfile(path, copy)))
    return here


def _links(paths: Iterable[Path], out: Path) -> str:
    return " · ".join(f'<a href="{_url(path, out)}">{path.suffix[1:].upper()}</a>' for path in paths)


def _url(path: Path, out: Path) -> str:
    return html.escape(Path(os.path.relpath(path.resolve(), out.resolve())).as_posix(), quote=True)


def _section(title: str, parts: Sequence[str], kind: str = "ul") -> str:
    inside = "\n".join(parts) if parts else '<p class="none">none</p>'
    return f"<h2>{title}</h2>\n<{kind}>{inside}</{kind}>"


def _document(title: str, body: str) -> str:
    name = html.escape(title)
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{name}</title>'
    head += f"<style>{CSS}</style>"
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body><h1>{name}</h1>\n{body}\n</body></html>\n'
