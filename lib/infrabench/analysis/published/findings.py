"""What does not add up in the papers: every claim beside what its own numbers give, computed when it is asked for.

Sentences and the formulas of what they name are data: ``audit.toml``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import groupby
from typing import Any

import pandas as pd

from infrabench.analysis.published import score
from infrabench.analysis.published.formulas import entry, evaluate, filled, look_up
from infrabench.analysis.published.printed_numbers import EXPERIMENTS, FOLDER, NO_RESULTS, Numbers, numbers, read_toml
from infrabench.core import SchemaError

TOML = FOLDER / "audit.toml"
SYSTEM = "SYSTEM"  # stands in a formula and in its name for every system of the study
KINDS = {
    "C": "changes a conclusion",
    "N": "changes a number",
    "M": "information is missing",
    "E": "editorial",
}
VERDICTS = ("confirmed", "cannot be decided", "editorial")
OUTCOMES = {"survives": "survives", "falls": "does not survive", "undecided": "cannot be decided"}
BOTH = "E"  # the letter of findings that set 000 beside 003; their study is A
PLACE = re.compile(r"(Abstra[a-z]+|(sec|Tabel|Table) [A-Z\d.]+)(, item \d)?")  # as far as a table names it
CELLS = ("throughput", "latency", "cpu_utilization", "memory_bandwidth")  # metrics of study D that have a cell


def audit(study: str = "", known: Numbers | None = None) -> pd.DataFrame:
    """Return every inconsistency of the papers, or of the experiment with the letter `study` (A to D), one row each.

    ``id``; ``study``; ``kind`` (of `KINDS`); ``verdict`` (of `VERDICTS`); ``basis``: *arithmetic* where ``recomputed``
    was computed from the inputs, else *text*; ``claim``: what is printed; ``recomputed``; ``consequence``; ``where``:
    places of the inputs and of the evidence; ``evidence``: quoted words; ``inputs``: ids of all published numbers that
    were read. `SchemaError` where a sentence names what nothing has. `known`: by default those of the repository.
    """
    known = known or numbers()
    table = pd.DataFrame([_row(each, known.fresh()) for each in _findings().values()])
    chosen = table[table["study"].str.startswith(study)].reset_index(drop=True)
    if chosen.empty:
        raise SchemaError(f"no findings on study {study!r}; there are {', '.join(sorted(set(table['study'])))}")
    return chosen


def outcomes(study: str) -> dict[str, list[str]]:
    """Return what is left of an experiment: sentences by ``survives``, ``falls`` and ``undecided``."""
    known = numbers()
    computed = {f"{name}.{key}": value for name in _findings() for key, value in recompute(name, known).items()}
    for each in read_toml(TOML.name)["outcome"]:
        if each["study"] == study:
            return {kind: [filled(text, known, computed) for text in each[kind]] for kind in OUTCOMES}
    raise SchemaError(f"no outcome of study {study!r}")


def tally(table: pd.DataFrame) -> pd.DataFrame:
    """Return how many findings there are by study, kind and verdict, from `audit`."""
    named = table.assign(kind=pd.Categorical(table["kind"].map(KINDS), list(KINDS.values())))
    counts = pd.crosstab([named["study"], named["kind"]], named["verdict"])
    return counts.reindex(columns=list(VERDICTS), fill_value=0).reset_index().rename_axis(None, axis=1)


def recompute(finding: str, known: Numbers | None = None) -> Mapping[str, Any]:
    """Return what is computed for a finding, by name; empty for one that is not arithmetic."""
    known = known or numbers()
    formulas = _findings()[finding].get("compute", {})
    if isinstance(formulas, str):
        return recompute(formulas, known)
    computed: dict[str, Any] = {}
    for by_system, group in groupby(formulas, key=lambda name: SYSTEM in name):
        names = list(group)
        for system in EXPERIMENTS[finding[0]][1] if by_system else ("",):
            for name in names:
                formula = formulas[name].replace(SYSTEM, system)
                computed[name.replace(SYSTEM, system)] = evaluate(formula, lambda each: _read(each, known), computed)
    return computed


def _findings() -> dict[str, dict[str, Any]]:
    return {each["id"]: each for each in read_toml(TOML.name)["finding"]}


def _read(name: str, known: Numbers) -> Any:
    """Return what a name in braces stands for in a formula of the audit (see ``audit.toml``)."""
    kind, _, rest = name.partition(".")
    results = (row for row in known.rows.values() if row.statistic not in NO_RESULTS)
    match kind:
        case "row":
            version, row, engine = rest.split(".")
            return score.rows(version, engine, known)[row]
        case "score":
            version, engine = rest.split(".")
            return score.scores(known)[version, engine][0]
        case "order":
            return score.order(rest, known)
        case "results":
            return sum(row.source == rest for row in results)
        case "cells":
            means = [row for row in results if row.source == "004" and row.metric in CELLS]
            cells = {(row.platform, row.workload, row.metric, row.printed) for row in means}
            return len(cells if rest == "printed" else {printed for *_, printed in cells})
    return entry(recompute(kind[1:], known), rest) if kind[0] == "=" else look_up(name, known, known)


def _row(each: Mapping[str, Any], known: Numbers) -> dict[str, str]:
    computed = recompute(each["id"], known)
    texts = {name: filled(each[name], known, computed) for name in ("claim", "recomputed", "consequence")}
    evidence = [tuple(part) for part in each.get("evidence", [])]
    inputs = [known.rows[name] for name in known.used]
    places = [(row.source, row.section) for row in inputs] + [(source, section) for source, section, _ in evidence]
    letter = each["id"][0]
    return {
        "id": each["id"],
        "study": "A" if letter == BOTH else letter,
        "kind": each["kind"],
        "verdict": each["verdict"],
        "basis": "arithmetic" if computed else "text",
        **texts,
        "where": _places(places),
        "evidence": "; ".join(f"{source}: '{quote}'" for source, _, quote in evidence),
        "inputs": "; ".join(known.used),
    }


def _places(places: list[tuple[str, str]]) -> str:
    """Return the places by source, each once: ``000 sec 3.4.1, Tabel 3.1; 003 Table 2``."""
    by_source: dict[str, dict[str, None]] = {}
    for source, section in sorted(dict.fromkeys(places), key=lambda place: place[0]):
        by_source.setdefault(source, {})[PLACE.match(section).group()] = None  # type: ignore[union-attr]
    return "; ".join(f"{source} {', '.join(sections)}" for source, sections in by_source.items())
