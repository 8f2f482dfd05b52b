"""The pages that the report adds to the notebooks, as notebooks: an overview, and one page for each study.

Prose is Markdown. What was measured or typed stands in parts of a template, which escapes it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import nbformat
from jinja2 import Environment, PackageLoader, StrictUndefined
from nbformat import NotebookNode

from infrabench.notebook import session_summary
from infrabench.publish.report.executed import Executed
from infrabench.publish.report.files import Data, Figure, FileLink, closer_look

WORDS = """## What the verdicts say

* *different*: the 95 % interval of the ratio excludes 1.
* *different, within the margin*: it excludes 1, and the difference is shown to be smaller than the margin that the
  study had fixed for the metric beforehand.
* *equivalent*: the difference is shown to be smaller than the margin: the 90 % interval of the ratio lies within it,
  with p adjusted by Holm for all contrasts of the metric.
* *inconclusive*: neither is shown. That is no evidence of equality; where it can be said, the n that would
  decide stands beside it.

A ratio is the mean of a system over the mean of the baseline, over complete blocks of trials. Each *n* counts blocks
(or deployments, where systems were made ready several times), never samples inside a trial.
"""
INTRODUCTION = (
    "Systems are compared with a baseline, by trials of real tools in randomised complete blocks. Every ratio has an "
    "interval, and every verdict a margin that was fixed before the first trial. The tables are those that the "
    "executed notebooks computed; every number in them has its raw output in the session that is named with it."
)
CASE = ("workload", "scenario", "metric")
TITLES = {"cnis": "CNIs", "dataset": "Data set"}  # a name that is no word
SITE_KINDS = {"lab": "the embedded lab of one machine", "local": "this machine itself"}


@dataclass(frozen=True)
class ShownNotebook:
    """A notebook with what the site has of it: documents (names of pages), figures, tables and data."""

    executed: Executed
    page: str
    notebook: str
    figures: tuple[Figure, ...]
    tables: Mapping[str, tuple[FileLink, ...]]
    data: tuple[Data, ...]
    itself: FileLink | None

    @property
    def title(self) -> str:
        """The notebook's name as a heading."""
        return _heading(self.executed.name)


def overview(title: str, shown: Sequence[ShownNotebook], absent: Mapping[str, str]) -> NotebookNode:
    """Return the first page: verdicts of every study, and, by name, what is not in this report and why."""
    cells = [_text(f"# {title}"), _toctree([each.page for each in shown]), _text(INTRODUCTION)]
    for each in shown:
        cells += [_text(f"## {each.title}"), _text(each.executed.question or "")]
        cells += _trouble(each)
        studies = list(filter(is_study, each.executed.abstracts))
        cells += [cell for told in studies for cell in _verdicts(told, each.executed.question)]
        others = [told for told in each.executed.abstracts if told not in studies]
        cells += [_part("pairs", [(told["title"], _extent(told)) for told in others])] * bool(others)
        cells.append(_part("ways", each.page, each.notebook, bool(each.executed.abstracts)))
    if absent:
        cells += [_text("## Not in this report"), _part("pairs", list(absent.items()))]
    return _page([*cells, _text(WORDS)])


def is_study(told: Mapping[str, Any]) -> bool:
    """Tell whether a session asks something; one whose answer is known beforehand asks about the suite."""
    return not told["aa"] and not told["known"]


def study(shown: ShownNotebook) -> NotebookNode:
    """Return the page of one notebook: verdicts, sessions, failures, plan, figures, tables, provenance, data."""
    told = shown.executed.abstracts
    cells = [_text(f"# {shown.title}"), _toctree([f"Executed notebook <{shown.notebook}>"])]
    cells += [_text(shown.executed.question or ""), *_trouble(shown)]
    cells.append(_part("ways_on", shown.notebook))
    if told:
        cells += [_text("## Verdicts"), *(cell for each in told for cell in _verdicts(each, shown.executed.question))]
        cells += [_text("## Sessions"), *(_part("pairs", _session(each)) for each in told)]
        cells += [_text("## Failures and gaps"), *(cell for each in told for cell in _failures(each))]
        cells += [_text("## Plan"), *(cell for each in told for cell in _plan(each))]
    if shown.figures:
        cells += [_text("## Figures"), *(_part("figure", each, closer_look(each)) for each in shown.figures)]
    if shown.tables:
        cells += [_text("## Tables"), _part("files", [(name, links, "") for name, links in shown.tables.items()])]
    if told:
        cells += [_text("## Where it was measured"), *(cell for each in told for cell in _provenance(each))]
    cells += [_text("## Downloads"), _part("files", _downloads(shown))]
    return _page(cells)


def _verdicts(told: Mapping[str, Any], question: str) -> list[NotebookNode]:
    cells = [_part("verdicts", matrix(told, question))]
    gone = told["planned"] - told["recorded"]
    text = f"{gone} planned trials had no record when this was computed; the command that began them goes on with them."
    return [_part("warning", "This session is not whole", text), *cells] if gone else cells


def _session(told: Mapping[str, Any]) -> list[tuple[str, str]]:
    site, versions = told["site"], told["versions"]
    suite = ", ".join(f"{name} {versions[name]}" for name in ("infrabench", "python") if name in versions)
    return [
        ("session", ", ".join(told["sessions"])),
        ("study", f"{told['study']}, profile {told['profile']}"),
        ("site", f"{site['name']}, {SITE_KINDS.get(site['kind'], site['kind'])}"),
        ("systems", f"{', '.join(told['systems'])}; baseline {told['baseline']}"),
        ("trials", f"{told['recorded']} of {told['planned']} planned are recorded, {told['ok']} are valid"),
        ("started", str(told["created_utc"] or "not recorded")),
        ("measured by", suite + (f", commit {versions['commit'][:12]}" if versions.get("commit") else "")),
        *([("remark", told["note"])] if told["note"] else []),
    ]


def _extent(told: Mapping[str, Any]) -> str:
    return f"{', '.join(told['sessions'])}: {told['recorded']} of {told['planned']} trials, {told['ok']} valid"


def _failures(told: Mapping[str, Any]) -> list[NotebookNode]:
    cells = [_part("paragraph", f"{_extent(told)}.")]
    if told["not_run"]:
        cells.append(_part("gaps", told["not_run"]))
    if told["reasons"]["rows"]:
        cells += [_part("paragraph", "Trials that do not count, with their reason:"), _part("table", told["reasons"])]
    else:
        cells.append(_part("paragraph", "No trial failed, timed out or was invalid."))
    if told["discarded"]["rows"]:
        cells += [_part("paragraph", "Blocks that were discarded whole:"), _part("table", told["discarded"])]
    return [*cells, _part("folded", "Trials by system, workload and state", told["trials"])]


def _plan(told: Mapping[str, Any]) -> list[NotebookNode]:
    order = told["order"] or "random"
    made = told["deployments"] or 1
    ready = "once" if made == 1 else f"anew {made} times"
    text = (
        f"{', '.join(told['sessions'])}: {told['planned']} trials in {told['blocks']} blocks, in {order} order inside "
        f"a block, seed {told['seed']}; every system made ready {ready}."
    )
    return [_part("paragraph", text), _part("folded", "Cases of the plan", told["plan"])]


def _provenance(told: Mapping[str, Any]) -> list[NotebookNode]:
    return [
        _part("paragraph", f"{', '.join(told['sessions'])}, {told['site']['name']}:"),
        _part("folded", "What each host says of itself", told["hosts_say"]),
        _part("folded", "What each system says of itself", told["systems_say"]),
    ]


def _downloads(shown: ShownNotebook) -> list[tuple[str, tuple[FileLink, ...], str]]:
    rows = [(each.session, each.links, each.note) for each in shown.data]
    return rows + ([("executed notebook", (shown.itself,), "")] if shown.itself else [])


def _trouble(shown: ShownNotebook) -> list[NotebookNode]:
    told = shown.executed.trouble
    return [_part("warning", "This notebook is not whole", f"{told}.")] if told else []


def _heading(name: str) -> str:
    """Return a file's name as words that Markdown takes for text."""
    words = " ".join("".join(sign if sign.isalnum() else " " for sign in name).split())
    return TITLES.get(words, words[:1].upper() + words[1:]) or "Notebook"


def _toctree(pages: Sequence[str]) -> NotebookNode:
    return _text("\n".join(["```{toctree}", ":hidden:", "", *pages, "```"]))


def _text(markdown: str) -> NotebookNode:
    return nbformat.v4.new_markdown_cell(markdown)


def _part(name: str, *told: Any) -> NotebookNode:
    made = str(getattr(_parts(), name)(*told))
    output = nbformat.v4.new_output("display_data", data={"text/html": made})
    # MyST-NB skips a cell without a source, whatever it put out
    return nbformat.v4.new_code_cell(name, outputs=[output], metadata={"tags": ["remove-input"]})


def _page(cells: Sequence[NotebookNode]) -> NotebookNode:
    about = {"language_info": {"name": "python"}}  # myst-nb asks for it, though there is no code to colour
    return nbformat.v4.new_notebook(cells=[cell for cell in cells if cell.source], metadata=about)


@functools.cache
def _parts() -> Any:
    loader = PackageLoader("infrabench.publish.report")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.get_template("parts.html").module


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
