"""Carrying out a request on a site, the one way that the command line and notebooks share; how far its session is.

And with which parameters of its notebook a session goes on.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infrabench.core import InfrabenchError, Request, Study, digest
from infrabench.experiment.design import design as designs
from infrabench.experiment.design.design import Design
from infrabench.experiment.execution import blocks, session
from infrabench.experiment.execution.progress import OnProgress
from infrabench.ledger import catalogue, ledger, records
from infrabench.ledger.session_folder import SessionFolder
from infrabench.machines.hosts.interrupts import raise_once

RUNNING, COMPLETE, INTERRUPTED = "running", "complete", "interrupted"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SiteName:
    """Name and kind of a site that is not open."""

    name: str
    kind: str


def resolved(spec: str) -> str:
    """Return `spec`, and for ``auto`` the best site that this user has here."""
    from infrabench.machines.sites.site import resolve  # needs Fabric; reading sessions does not

    return resolve(spec)


def site_name(spec: str) -> SiteName:
    """Return name and kind of the site `spec` without opening it; `SiteError` when there is no such site."""
    from infrabench.machines.sites.site import name_and_kind  # needs Fabric; reading sessions does not

    return SiteName(*name_and_kind(spec))


def folder_for(study: Study, wanted: Design, site: session.Named) -> Path:
    """Return the session folder of a request: the same request finds the same folder, unless it names another."""
    name = wanted.request.session
    if name is not None:
        catalogue.check_name(name)
        if os.sep in name:
            return Path(name)
    chosen = name or f"{site.name}-{wanted.profile}-{digest(session.parameters(study, wanted, site), 8)}"
    return catalogue.home() / "data" / "runs" / study.name / chosen


def carry_out(
    wanted: Design, *, on_progress: OnProgress | None = None, look: session.LookAt | None = None,
) -> SessionFolder:  # fmt: skip
    """Run `wanted` on the site that its request names (not even opened for a complete session); return its session."""
    from infrabench.machines.sites.site import open_site

    site = resolved(wanted.request.site)
    known = site_name(site)
    study = session.at(session.study_of(wanted), known)
    stored = SessionFolder(folder_for(study, wanted, known))
    with raise_once(log.info):
        opening = open_site(site, log.info, session=stored.path.name)
        session.carry_out(study, wanted, known, opening, stored=stored, on_progress=on_progress, look=look)
    return stored


@dataclass(frozen=True, slots=True)
class State:
    """How far a session is: `word` is running, complete or interrupted; blocks that are whole, of those planned."""

    word: str
    done: int
    planned: int
    whole: int
    blocks: int


def read_state(folder: Path) -> State:
    """Return how far the session in `folder` is; it may grow while this looks."""
    stored = SessionFolder(folder)
    data, plan, done = stored.session, stored.awaited, stored.recorded()
    planned = designs.by_block(plan)
    whole = sum(all(trial.id in done for trial in block) for block in planned.values())
    missing = sum(trial.id not in done for trial in plan)
    is_open = bool(data.get("stopping")) and not blocks.is_stopped(stored)
    is_due = bool(missing or blocks.select_promised(stored) or is_open)
    if planned and not is_due:  # blocks are finished one after the other: only the last can have a repeat due
        last, most = planned[max(planned)], data["parameters"].get("repeats", 0)
        found = {each: records.read_trial(folder, each) for each in blocks.attempts(last, most, done)}
        is_due = bool(blocks.due_repeats(last, found, most))
    word = RUNNING if ledger.is_being_written(folder) else INTERRUPTED if is_due else COMPLETE
    return State(word, len(plan) - missing, len(plan), whole, len(planned))


def notebook_parameters(folder: Path) -> dict[str, Any] | None:
    """Return what to set in the notebook of its study so that it goes on with this session, the rest by default.

    Without ``site`` where that is a file, of which no session knows the path. None where the notebook cannot: an A/A
    session, or a profile or study that is not known any more.
    """
    data = SessionFolder(folder).session
    stored = Request.from_session(data, folder.name)
    try:
        usual = designs.complete(session.resolve(Request(stored.study, stored.profile)))
    except InfrabenchError:
        return None
    if stored.aa or data.get("known"):
        return None
    given = {name: value for name, value in stored.given().items() if value != usual.given().get(name)}
    if {**data, **data["parameters"]}["site"]["kind"] not in ("lab", "local"):
        given.pop("site")
    return {"mode": "run", "profile": stored.profile, **given, "session": stored.session}


def cell_text(given: Mapping[str, Any]) -> str:
    """Return parameters as one types them into a notebook's cell, ``mode = "run"; runs = 2``."""
    return "; ".join(f"{name} = {json.dumps(value)}" for name, value in given.items())
