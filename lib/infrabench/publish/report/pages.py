"""The pages of the report: an overview, and for each study a page, its trials, and its executed notebook.

What was measured or typed stands in templates, which escape it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from infrabench.publish.report import answers
from infrabench.publish.report.content import ShownCell, make_markdown
from infrabench.publish.report.executed import Executed
from infrabench.publish.report.files import Data, Figure, FileLink

TITLES = {"cnis": "CNIs", "dataset": "Data set"}  # a name that is no word
SITE_KINDS = {"lab": "the embedded lab of one machine", "local": "this machine itself"}
HEADING = re.compile(r'<h(?P<level>[23]) id="(?P<id>[\w-]+)">(?P<text>.*?)</h[23]>', re.DOTALL)


@dataclass(frozen=True)
class ShownNotebook:
    """A notebook with what the site has of it: its page, cells, figures, tables and data."""

    executed: Executed
    page: str
    cells: tuple[ShownCell, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: Mapping[str, tuple[FileLink, ...]] | None = None
    data: tuple[Data, ...] = ()
    itself: FileLink | None = None

    @property
    def trials_page(self) -> str:
        """The address of the page with the values of its trials; empty where none of its sessions is here."""
        return f"{self.page}-trials.html" if any(each.blocks for each in self.data) else ""

    @property
    def title(self) -> str:
        """The notebook's name as a heading."""
        words = " ".join("".join(sign if sign.isalnum() else " " for sign in self.executed.name).split())
        return TITLES.get(words, words[:1].upper() + words[1:]) or "Notebook"


def render(
    template: str, title: str, shown: Sequence[ShownNotebook], one: ShownNotebook | None = None,
    absent: Mapping[str, str] | None = None,
) -> str:  # fmt: skip
    """Return a page: ``overview`` of all, ``study``, ``trials`` or ``notebook`` of one, each with links to the others.

    `absent`: what is not in this report, by name, and why.
    """
    loader = PackageLoader("infrabench.publish.report")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters |= {"contents": HEADING.findall, "safe_text": lambda text: Markup(text).striptags()}
    environment.filters["markdown"] = lambda text: Markup(make_markdown()(text))
    environment.globals |= {
        "answers": answers, "is_study": is_study, "extent": session_extent, "suite": _suite, "site_kinds": SITE_KINDS,
        "count_words": _count_words,
    }  # fmt: skip
    page = environment.get_template("page.html")
    return page.render(template=f"{template}.html", site_title=title, shown=shown, one=one, absent=absent or {})


def is_study(told: Mapping[str, Any]) -> bool:
    """Tell whether a session asks something; one whose answer is known beforehand asks about the suite."""
    return not told["aa"] and not told["known"]


def session_extent(told: Mapping[str, Any]) -> str:
    """Return how much of a session there is."""
    return f"{', '.join(told['sessions'])}: {told['recorded']} of {told['planned']} trials, {told['ok']} valid"


def _suite(versions: Mapping[str, str]) -> str:
    named = [f"{name} {versions[name]}" for name in ("infrabench", "python") if name in versions]
    return ", ".join(named + ([f"commit {versions['commit'][:12]}"] if versions.get("commit") else []))


def _count_words(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
