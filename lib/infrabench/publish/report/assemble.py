"""The report: what was executed, what is missing, and everything that belongs to it, in one folder.

A static site that opens from files, offline: its pages come from templates and from what `content` lets through.
"""

from __future__ import annotations

import logging
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

import nbformat

from infrabench.core import InfrabenchError
from infrabench.ledger import catalogue
from infrabench.ledger.files import TMP
from infrabench.publish.report import pages
from infrabench.publish.report.content import CODE, CODE_DARK, render_cells
from infrabench.publish.report.executed import Executed, make_path_filter, read
from infrabench.publish.report.files import Figure, Picture, Shelf
from infrabench.publish.report.pages import ShownNotebook, is_study

log = logging.getLogger(__name__)

FOLDER = "report"
STYLE = "_static/report.css"  # a folder that has it was made by this
SCRIPTS = ("zoom.js", "tables.js")
RESERVED = ("index", "files")
BESIDE = ("notebook", "trials")  # what follows the name of a notebook's page in those that belong to it


def report(
    notebooks: Sequence[Path], out_dir: Path, *, figures: Sequence[Path] = (), tables: Sequence[Path] = (),
    expected: Sequence[str] = (), raw: bool = False, title: str = "infrabench report",
) -> Path:  # fmt: skip
    """Write the report into the folder ``report`` of `out_dir`, in place of an earlier one; return its ``index.html``.

    Parameters
    ----------
    notebooks
        Executed notebooks, whole or not; each becomes a page about it and a page with all of it. One that was never
        executed or cannot be read is named with that.
    figures, tables
        Folders as written by `figures.save` and `tables.save`: files of the figures and tables
        that these notebooks show are copied from there.
    expected
        Studies that a whole report would have; those that no notebook is of are named.
    raw
        Pack every raw output of the sessions, however large.

    Raises
    ------
    InfrabenchError
        The folder holds something else than a report.
    """
    out = Path(out_dir)
    out.mkdir(parents=True, exist_ok=True)
    place = out / FOLDER
    if place.exists() and not (place / STYLE).is_file():
        raise InfrabenchError(f"{place} is not a report made here: move it away, or give another --out")
    hide = make_path_filter({catalogue.home(): "", catalogue.home().resolve(): "", Path.home(): "~"})
    found = [read(path, hide) for path in notebooks]
    with tempfile.TemporaryDirectory(prefix=TMP, dir=out) as work:
        site = Path(work) / "site"
        shelf = Shelf(site, figures, tables, raw=raw, hide=hide)
        shown: list[ShownNotebook] = []
        for each in sorted(found, key=lambda one: (not any(map(is_study, one.abstracts)), one.name)):
            if each.seen:
                log.info("%s", each.name)
                shown.append(_show(each, _name_page(each.name, {one.page for one in shown}), shelf))
        _write_pages(site, title, shown, _find_absent(found, expected))
        if place.exists():
            os.rename(place, Path(work) / "earlier")
        os.rename(site, place)
    return place / "index.html"


def _show(executed: Executed, page: str, shelf: Shelf) -> ShownNotebook:
    """Keep all that belongs to a notebook on the shelf."""
    seen: dict[Figure, None] = {}

    def place(picture: Picture) -> Figure:
        figure = shelf.place(picture)
        seen[figure] = None
        return figure

    cells = tuple(render_cells(executed.node, place))
    sessions = dict.fromkeys(name for told in executed.abstracts for name in told["sessions"])
    return ShownNotebook(
        executed, page, cells, tuple(seen), shelf.tables(executed, {figure.area for figure in seen}),
        tuple(shelf.data(name) for name in sessions), shelf.notebook(page, nbformat.writes(executed.node)),
    )  # fmt: skip


def _find_absent(found: Sequence[Executed], expected: Sequence[str]) -> dict[str, str]:
    """Return, by name, what is not in this report and why."""
    absent = {each.name: each.trouble for each in found if not each.seen}
    there = {*absent, *(name for each in found if each.seen for name in (each.name, each.study))}
    return absent | {name: "No executed notebook of it here" for name in expected if name not in there}


def _write_pages(site: Path, title: str, shown: Sequence[ShownNotebook], absent: Mapping[str, str]) -> None:
    (site / "_static").mkdir(parents=True)
    made = {"index": pages.render("overview", title, shown, absent=absent)}
    for one in shown:
        made[one.page] = pages.render("study", title, shown, one)
        made[f"{one.page}-notebook"] = pages.render("notebook", title, shown, one)
        if one.trials_page:
            made[f"{one.page}-trials"] = pages.render("trials", title, shown, one)
    for name, text in made.items():
        (site / f"{name}.html").write_text(text, encoding="utf-8")
    assets = resources.files("infrabench.publish.report") / "assets"
    dark = CODE_DARK.get_style_defs(".highlight")
    style = (assets / "report.css").read_text(encoding="utf-8")
    style += f"\n{CODE.get_style_defs('.highlight')}\n@media screen and (prefers-color-scheme: dark) {{\n{dark}\n}}\n"
    (site / STYLE).write_text(style, encoding="utf-8")
    for script in SCRIPTS:
        (site / "_static" / script).write_bytes((assets / script).read_bytes())


def _name_page(name: str, taken: set[str]) -> str:
    """Return the name of a notebook's page: what addresses take as it is, and no other page has."""
    plain = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-") or "notebook"
    taken = {*RESERVED, *taken, *(f"{each}-{more}" for each in taken for more in BESIDE)}
    numbered = (plain, *(f"{plain}-{number}" for number in range(2, len(taken) + 3)))
    return next(each for each in numbered if not {each, *(f"{each}-{more}" for more in BESIDE)} & taken)
