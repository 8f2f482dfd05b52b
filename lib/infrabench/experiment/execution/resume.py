"""How far a session is, and with which parameters of its notebook it goes on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infrabench.core import InfrabenchError, Request
from infrabench.experiment.design import design as designs
from infrabench.experiment.execution import blocks, session
from infrabench.ledger import ledger, records
from infrabench.ledger.session_folder import SessionFolder

RUNNING, COMPLETE, INTERRUPTED = "running", "complete", "interrupted"


@dataclass(frozen=True, slots=True)
class State:
    """How far a session is: `word` is running, complete or interrupted; blocks that are whole, of those planned."""

    word: str
    done: int
    planned: int
    whole: int
    blocks: int


def state(folder: Path) -> State:
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


def parameters(folder: Path) -> dict[str, Any] | None:
    """Return what to set in the notebook of its study so that it goes on with this session, the rest by default.

    None where the notebook cannot: an A/A session, or a profile or study that is not known any more.
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
    kind, name = {**data, **data["parameters"]}["site"]["kind"], stored.site
    site = name if kind in ("lab", "local") else f"the {kind} of {name}"
    return {"mode": "run", "profile": stored.profile, **given, "site": site, "session": stored.session}


def lines(given: Mapping[str, Any]) -> str:
    """Return parameters as one types them into a notebook's cell, ``mode = "run"; runs = 2``."""
    return "; ".join(f"{name} = {json.dumps(value)}" for name, value in given.items())
