"""The first page in JupyterLab: the studies, what this machine can run of them, and the sessions there are."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from infrabench import registry
from infrabench.analysis.results import Shown
from infrabench.analysis.tables.notation import Link, html_table, markdown
from infrabench.core import InfrabenchError, LedgerError
from infrabench.experiment.design import design as designs
from infrabench.experiment.execution import resume, session
from infrabench.experiment.execution.progress import words
from infrabench.experiment.provenance import labels
from infrabench.ledger import archive, catalogue
from infrabench.ledger.fields import check_present
from infrabench.ledger.records import read_session
from infrabench.machines.sites import availability

PROFILES = ("smoke", "quick", "paper")
SHOWN = ("study", "profile", "systems", "blocks", "site", "created_utc")  # fields of a session
Looked = Mapping[str, Mapping[str, availability.Outlook]]


def look_around(studies: Sequence[str] | None = None) -> dict[str, dict[str, availability.Outlook]]:
    """Return what this machine could run, by study and system, making nothing; some seconds.

    `studies`: their names; None: every study that has a notebook.
    """
    names = _studies() if studies is None else studies
    made: dict[str, bool] = {}
    return {name: availability.check_systems(registry.study(name), *_default_needs(name), made) for name in names}


def studies_table(found: Looked) -> Shown:
    """Return the studies with what each asks, how long it takes, and what is made first; `found`: of `look_around`."""
    rows = []
    for name, systems in found.items():
        study = registry.study(name)
        times = {profile: _time(name, profile) for profile in PROFILES if profile in study.profiles}
        first = availability.seconds([each for one in systems.values() for each in one.first])
        runs_here = sum(None in (each.lab, each.local) for each in systems.values())
        rows.append({
            "study": _link(name), "question": study.title, "systems that run here": f"{runs_here} of {len(systems)}",
            **times, "made first, once": f"about {words(first)}" if first else "nothing",
        })  # fmt: skip
    return _table(rows)


def machine_table(found: Looked) -> Shown:
    """Return whether each system can run here, in the lab and on this host itself; `found`: of `look_around`.

    Systems of a study with the same answers share a row.
    """
    alike: dict[tuple[str, str, str], list[str]] = {}
    for name, systems in found.items():
        for system, each in systems.items():
            alike.setdefault((name, _availability_text(each.lab), _availability_text(each.local)), []).append(system)
    return _table([
        {"study": name, "systems": ", ".join(systems), "in the lab": lab, "on this host itself": local}
        for (name, lab, local), systems in alike.items()
    ])  # fmt: skip


def recorded_table() -> Shown:
    """Return the sessions that come with the project, which every notebook reads without any hardware."""
    rows = [_recorded(name, path) for name, path in catalogue.recorded().items()]
    return _table(rows) if rows else _sentence("There is no recorded session.")


def own_table() -> Shown:
    """Return the sessions made on this machine: how far each is, and how to go on with it or to look at it."""
    rows = [_own(name, path) for name, path in catalogue.local().items()]
    return _table(rows) if rows else _sentence("There is no session of this machine yet.")


def _recorded(name: str, path: Path) -> dict[str, Any]:
    try:
        data = read_session(path) if path.is_dir() else archive.peek(path)
        check_present(path, data, SHOWN)
    except (LedgerError, OSError) as error:
        return {"session": name, "study": str(error)}
    return {
        "session": name, "study": _link(data["study"]), "profile": data["profile"],
        "systems": ", ".join(data["systems"]), "blocks": str(data["blocks"]), "begun": data["created_utc"][:10],
    }  # fmt: skip


def _own(name: str, path: Path) -> dict[str, Any]:
    try:
        if not path.is_dir():
            return {"state": "packed"} | _recorded(name, path)
        data = read_session(path)
        check_present(path, data, SHOWN)
        now, names, given = resume.state(path), labels.of(path), resume.parameters(path)
    except (InfrabenchError, OSError) as error:
        return {"session": name, "study": "", "state": str(error)}
    told = f"{now.done} of {now.planned} trials, {now.whole} of {now.blocks} blocks whole"
    return {
        "session": name, "study": _link(data["study"]), "profile": data["profile"],
        "systems": ", ".join(names.get(each, each) for each in data["systems"]),
        "begun": data["created_utc"].replace("T", " ")[:16], "state": f"{now.word}: {told}", "next": _next(now, given),
    }  # fmt: skip


def _next(now: resume.State, given: Mapping[str, Any] | None) -> str:
    if now.word == resume.RUNNING:
        return "It is being measured now."
    if now.word == resume.INTERRUPTED:
        if given is None:
            return "The command that began it goes on with it."
        return f"To go on, set in its notebook, and run it: {resume.lines(given)}"
    if given is None:
        return ""
    asked = {name: value for name, value in given.items() if name not in ("mode", "systems", "workloads", "site")}
    return f"To look at it, set in its notebook: {resume.lines(asked)}"


def _studies() -> list[str]:
    """Return the studies that have a notebook."""
    return [name for name in registry.names("studies") if (catalogue.home() / "notebooks" / f"{name}.ipynb").is_file()]


def _default_needs(name: str) -> tuple[tuple[str, ...], int]:
    """Return the systems of a study that its profiles run, and the most space that a trial of `quick` needs."""
    study = registry.study(name)
    usual = {profile: session.request(study, profile=profile) for profile in PROFILES if profile in study.profiles}
    systems = tuple(dict.fromkeys(system for each in usual.values() for system in each.systems))
    sizes = [case.disk_bytes for case in usual["quick"].cases] if "quick" in usual else []
    return systems or study.systems, max(sizes, default=0)


def _time(name: str, profile: str) -> str:
    study = registry.study(name)
    return words(designs.expected_study_cost(study, session.request(study, profile=profile)).seconds)


def _availability_text(reason: str | None) -> str:
    return "yes" if reason is None else f"not run: {reason}"


def _link(study: str) -> Link | str:
    notebook = catalogue.home() / "notebooks" / f"{study}.ipynb"
    return Link(study, os.path.relpath(notebook, Path.cwd())) if notebook.is_file() else study


def _table(rows: list[dict[str, Any]]) -> Shown:
    """Return the rows as a table with the columns of the fullest: what cannot be read has fewer."""
    made = pd.DataFrame(rows, columns=list(max(rows, key=len))).astype("object").fillna("")
    return Shown(html_table(made, words=True), markdown(made))


def _sentence(text: str) -> Shown:
    return Shown(f"<p>{text}</p>", text)
