"""The pages of the report: an overview, one page for each study, and each executed notebook.

What was measured or typed stands in templates, which escape it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from infrabench.notebook import session_summary
from infrabench.publish.report.content import ShownCell, make_markdown
from infrabench.publish.report.executed import Executed
from infrabench.publish.report.files import Data, Figure, FileLink

CASE = ("workload", "scenario", "metric")
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
    def title(self) -> str:
        """The notebook's name as a heading."""
        words = " ".join("".join(sign if sign.isalnum() else " " for sign in self.executed.name).split())
        return TITLES.get(words, words[:1].upper() + words[1:]) or "Notebook"


def render(
    template: str, title: str, shown: Sequence[ShownNotebook], one: ShownNotebook | None = None,
    absent: Mapping[str, str] | None = None,
) -> str:  # fmt: skip
    """Return a page: ``overview`` of all notebooks, ``study`` or ``notebook`` of one, each with links to the others.

    `absent`: what is not in this report, by name, and why.
    """
    loader = PackageLoader("infrabench.publish.report")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters |= {"contents": HEADING.findall, "safe_text": lambda text: Markup(text).striptags()}
    environment.filters["markdown"] = lambda text: Markup(make_markdown()(text))
    environment.globals |= {
        "matrix": matrix, "is_study": is_study, "extent": session_extent, "suite": _suite, "site_kinds": SITE_KINDS,
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


def matrix(told: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return an abstract's verdicts for the template: systems, rows of cells, and a line that says what they are of.

    `above`: the heading or question that they stand under; a title that says the same is left out.
    """
    rows = [dict(zip(told["verdicts"]["columns"], row, strict=True)) for row in told["verdicts"]["rows"]]
    there = {row["system"] for row in rows}
    systems = [name for name in told["systems"] if name in there]
    cases: dict[tuple[str, ...], dict[str, dict[str, str]]] = {}
    for row in rows:
        cases.setdefault(tuple(row[name] for name in CASE), {})[row["system"]] = row
    return {
        "title": "" if told["title"] == above else told["title"],
        "line": (
            f"Ratios to {told['baseline']} with 95 % intervals. {session_summary.line(told)}. {told['note']}"
        ).strip(),
        "baseline": told["baseline"],
        "systems": systems,
        "rows": [_verdict_row(case, cells, systems) for case, cells in cases.items()],
        "not_run": told["not_run"],
    }


def _verdict_row(case: tuple[str, ...], cells: Mapping[str, Mapping[str, str]], systems: list[str]) -> dict[str, Any]:
    first = next(iter(cells.values()))
    return {
        **dict(zip(CASE, case, strict=True)), "better": first["better"], "margin": first["margin %"],
        "cells": [_verdict_cell(cells[name]) if name in cells else None for name in systems],
    }  # fmt: skip


def _verdict_cell(row: Mapping[str, str]) -> dict[str, str]:
    verdict, _, decides = row["verdict"].partition(" (")
    more = decides.removesuffix(" decides)")  # as in "inconclusive (n = 14 decides)"
    other = row["verdict without flagged"]
    ruled = row.get(session_summary.RULED_OUT, "")
    remarks = [f"n = {row['n']}", f"{more} would decide" if more else "", ruled, row["reason"]]
    remarks.append(f"without the values flagged as outliers: {other}" if other else "")
    return {
        "verdict": verdict, "kind": verdict.replace(",", "").replace(" ", "-"), "ratio": row["ratio"],
        "interval": row["ratio 95 % CI"], "remark": "; ".join(filter(None, remarks)),
    }  # fmt: skip
