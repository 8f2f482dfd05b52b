"""The report: what was executed, what is missing, and everything that belongs to it, in one folder.

A static site that opens from files, offline: an overview, and for each notebook a page about it, its trials, and all
of its cells. What was measured or typed stands in templates, which escape it, or went through `content`.
"""

from __future__ import annotations

import logging
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import nbformat
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from infrabench.analysis.tables import state_bounds
from infrabench.core import InfrabenchError
from infrabench.ledger import catalogue
from infrabench.ledger.files import TMP
from infrabench.publish.report import answers
from infrabench.publish.report.content import CODE, CODE_DARK, make_markdown, render_cells
from infrabench.publish.report.executed import Executed, make_path_filter, read
from infrabench.publish.report.files import Data, Figure, FileLink, Picture, Shelf

log = logging.getLogger(__name__)

FOLDER = "report"
TITLE = "infrabench report"
STYLE = "_static/report.css"  # a folder that has it was made by this
SCRIPTS = ("zoom.js", "tables.js")
RESERVED = ("index", "files")
BESIDE = ("notebook", "trials")  # what follows the name of a notebook's page in those that belong to it
TITLES = {"cnis": "CNIs", "dataset": "Data set"}  # a name that is no word
SITE_KINDS = {"lab": "the embedded lab of one machine", "local": "this machine itself"}
HEADING = re.compile(r'<h(?P<level>[23]) id="(?P<id>[\w-]+)">(?P<text>.*?)</h[23]>', re.DOTALL)


@dataclass(frozen=True)
class ShownNotebook:
    """A notebook with what the site has of it: its page, cells, figures, tables and data."""

    executed: Executed
    page: str
    cells: tuple[tuple[Markup, list[Markup] | None], ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: Mapping[str, tuple[FileLink, ...]] | None = None
    data: tuple[Data, ...] = ()
    itself: FileLink | None = None

    @property
    def trials_page(self) -> str:
        """The address of the page with the values of its trials; empty where none of its sessions is here."""
        return f"{self.page}-trials.html" if any(each.blocks for each in self.data) else ""

    def find_trials(self, told: Mapping[str, Any]) -> str:
        """Return the address of that page for the contrasts of a session, or several; empty where it is not here."""
        here = any(each.blocks and each.session == told["sessions"][0] for each in self.data)
        return self.trials_page if here else ""

    @property
    def title(self) -> str:
        """The notebook's name as a heading."""
        words = " ".join("".join(sign if sign.isalnum() else " " for sign in self.executed.name).split())
        return TITLES.get(words, words[:1].upper() + words[1:]) or "Notebook"


def report(
    notebooks: Sequence[Path], out_dir: Path, *, figures: Sequence[Path] = (), tables: Sequence[Path] = (),
    expected: Sequence[str] = (), raw: bool = False,
) -> Path:  # fmt: skip
    """Write the report into the folder ``report`` of `out_dir`, in place of an earlier one; return its ``index.html``.

    `notebooks`: executed ones, whole or not; each becomes a page about it and a page with all of it. One that was never
    executed or cannot be read is named with that. `figures`, `tables`: folders as written by `figures.save` and
    `tables.save`, from which the files of the figures and tables that these notebooks show are copied. `expected`:
    studies that a whole report would have; those that no notebook is of are named. `raw`: pack every raw output of the
    sessions, however large.

    Raises `InfrabenchError` where the folder holds something else than a report.
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
                shown.append(_shelve(each, _name_page(each.name, {one.page for one in shown}), shelf))
        absent = {each.name: each.trouble for each in found if not each.seen}
        there = {*absent, *(name for each in found if each.seen for name in (each.name, each.study))}
        absent |= {name: "No executed notebook of it here" for name in expected if name not in there}
        _write_pages(site, shown, absent)
        if place.exists():
            os.rename(place, Path(work) / "earlier")
        os.rename(site, place)
    return place / "index.html"


def _shelve(executed: Executed, page: str, shelf: Shelf) -> ShownNotebook:
    """Keep all that belongs to a notebook on the shelf."""
    figures: dict[Figure, None] = {}

    def place(picture: Picture) -> Figure:
        figure = shelf.place(picture)
        figures[figure] = None
        return figure

    cells = tuple(render_cells(executed.node, place))
    sessions = dict.fromkeys(name for told in executed.abstracts for name in told["sessions"])
    return ShownNotebook(
        executed, page, cells, tuple(figures), shelf.tables(executed, {figure.area for figure in figures}),
        tuple(shelf.data(name) for name in sessions), shelf.notebook(page, nbformat.writes(executed.node)),
    )  # fmt: skip


def _write_pages(site: Path, shown: Sequence[ShownNotebook], absent: Mapping[str, str]) -> None:
    (site / "_static").mkdir(parents=True)
    pages = {"index": render("overview", shown, absent=absent)}
    for one in shown:
        pages[one.page] = render("study", shown, one)
        pages[f"{one.page}-notebook"] = render("notebook", shown, one)
        if one.trials_page:
            pages[f"{one.page}-trials"] = render("trials", shown, one)
    for name, text in pages.items():
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


def render(
    template: str, shown: Sequence[ShownNotebook], one: ShownNotebook | None = None,
    absent: Mapping[str, str] | None = None,
) -> str:  # fmt: skip
    """Return a page: ``overview`` of all, ``study``, ``trials`` or ``notebook`` of one, each with links to the others.

    `absent`: what is not in this report, by name, and why.
    """
    page = _make_environment().get_template("page.html")
    return page.render(template=f"{template}.html", site_title=TITLE, shown=shown, one=one, absent=absent or {})


@cache
def _make_environment() -> Environment:
    loader = PackageLoader("infrabench.publish.report")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters |= {
        "contents": HEADING.findall, "safe_text": lambda text: Markup(text).striptags(),
        "markdown": lambda text: Markup(make_markdown()(text)),
        "quantity": lambda rows, word: f"{len(rows)} {word}{'' if len(rows) == 1 else 's'}",
    }  # fmt: skip
    environment.globals |= {
        "answers": answers, "state_bounds": state_bounds, "is_study": is_study, "is_beside": is_beside,
        "site_kinds": SITE_KINDS, "suite": _name_suite,
    }  # fmt: skip
    return environment


def is_study(told: Mapping[str, Any]) -> bool:
    """Tell whether a session asks something; one whose answer is known beforehand asks about the suite."""
    return not told["aa"] and not told["known"]


def is_beside(told: Mapping[str, Any], every: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether a session only stands beside the notebook's own, the first of its study: it has another profile."""
    own = next(each for each in every if each["study"] == told["study"])
    return bool(told["profile"] != own["profile"])


def _name_suite(versions: Mapping[str, str]) -> str:
    named = [f"{name} {versions[name]}" for name in ("infrabench", "python") if name in versions]
    return ", ".join(named + ([f"commit {versions['commit'][:12]}"] if versions.get("commit") else []))
