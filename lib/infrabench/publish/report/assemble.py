"""The report: what was executed, what is missing, and everything that belongs to it, in one folder."""

from __future__ import annotations

import logging
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from infrabench.core import InfrabenchError
from infrabench.ledger import catalogue
from infrabench.ledger.files import TMP
from infrabench.publish.report import pages
from infrabench.publish.report.executed import Executed, Hide, make_path_filter, read
from infrabench.publish.report.files import Data, Figure, Shelf, closer_look, existing_folders
from infrabench.publish.report.offline import of_folder
from infrabench.publish.report.outputs import Picture, sanitise_notebook
from infrabench.publish.report.pages import ShownNotebook, is_study
from infrabench.publish.report.site import MAIN, build

Kept = tuple[ShownNotebook, NotebookNode]

log = logging.getLogger(__name__)

FOLDER = "report"
MARK = "searchindex.js"  # a folder that has it was made by this
RESERVED = (MAIN, "search", "genindex", "files", "_static")


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
        A page would load something over the network, or the folder holds something else than a report. The earlier
        report is still there then.
    """
    out = Path(out_dir)
    out.mkdir(parents=True, exist_ok=True)
    place = out / FOLDER
    if place.exists() and not (place / MARK).is_file():
        raise InfrabenchError(f"{place} is not a report made here: move it away, or give another --out")
    hide = make_path_filter({catalogue.home(): "", catalogue.home().resolve(): "", Path.home(): "~"})
    with tempfile.TemporaryDirectory(prefix=TMP, dir=out) as work:
        beside = Path(work) / "beside"
        keep = _make_keeper(beside, figures, tables, raw, hide)
        site = _site([read(path, hide) for path in notebooks], Path(work), title, expected, keep)
        if beside.is_dir():
            shutil.move(beside / "files", site / "files")
        found = of_folder(site)
        if found:
            page, addresses = next(iter(found.items()))
            raise InfrabenchError(f"{page} of the report would load {', '.join(dict.fromkeys(addresses))}: embed it")
        if place.exists():
            os.rename(place, Path(work) / "earlier")
        os.rename(site, place)
    return place / f"{MAIN}.html"


def _site(
    found: Sequence[Executed], work: Path, title: str, expected: Sequence[str], keep: Callable[[Executed, str], Kept]
) -> Path:
    """Build the whole site in the folder `work`, and return its folder."""
    made: dict[str, NotebookNode] = {}
    shown: list[ShownNotebook] = []
    for each in sorted(found, key=lambda one: (not any(map(is_study, one.abstracts)), one.name)):
        if each.seen:
            log.info("%s", each.name)
            page = _document(each.name, made)
            whole, made[f"{page}-notebook"] = keep(each, page)
            made[page] = pages.study(whole)
            shown.append(whole)
    absent = {each.name: each.trouble for each in found if not each.seen}
    there = {*absent, *(name for each in shown for name in (each.executed.name, each.executed.study))}
    absent |= {name: "No executed notebook of it here" for name in expected if name not in there}
    made[MAIN] = pages.overview(title, shown, absent)
    log.info("pages")
    return build(made, work, title)


def _make_keeper(
    files: Path, figures: Sequence[Path], tables: Sequence[Path], raw: bool, hide: Hide
) -> Callable[[Executed, str], Kept]:
    """Return what keeps, in the folder `files`, all that belongs to a notebook: what is shown, and its whole page."""
    known: dict[str, Data] = {}

    def keep(each: Executed, page: str) -> Kept:
        shelf, seen = Shelf(files, existing_folders(figures)), []
        try:
            node = sanitise_notebook(each.node, lambda picture: _place_picture(shelf, picture, seen))
        except InfrabenchError as error:
            raise InfrabenchError(f"{each.name}: {error}") from error
        names = dict.fromkeys(name for told in each.abstracts for name in told["sessions"])
        for name in (one for one in names if one not in known):
            data = shelf.data(name, raw=raw)
            known[name] = replace(data, note=hide(data.note))
        whole = ShownNotebook(
            each, page, f"{page}-notebook", tuple(seen), shelf.tables(existing_folders(tables), each),
            tuple(known[name] for name in names), shelf.notebook(page, nbformat.writes(each.node)),
        )  # fmt: skip
        return whole, node

    return keep


def _place_picture(shelf: Shelf, picture: Picture, seen: list[Figure]) -> tuple[str, str, int]:
    figure = shelf.place(picture)
    if figure not in seen:
        seen.append(figure)
    return figure.src, closer_look(figure), figure.width


def _document(name: str, taken: dict[str, object]) -> str:
    """Return the name of a notebook's page: what addresses and Sphinx both take as it is, and no other page has."""
    plain = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-") or "notebook"
    for number in range(1, len(taken) + 3):
        found = plain if number == 1 else f"{plain}-{number}"
        if found not in taken and found not in RESERVED and f"{found}-notebook" not in taken:
            return found
    raise AssertionError("there is always another number")
