"""What is there of a campaign, what is missing and why: ``campaign.json``, for people and for the analysis of sites."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infrabench.core import LedgerError
from infrabench.experiment.campaign import engine, plan
from infrabench.experiment.campaign.plan import Job, Plan
from infrabench.ledger import catalogue
from infrabench.ledger.ledger import replace_file
from infrabench.ledger.records import read_session

FILE = "campaign.json"


def sessions(planned: Plan) -> list[dict[str, Any]]:
    """Return one entry per job: site, study, label, session (a path from the project's home), state, reason, not_run.

    States: ``complete``; ``partial``, where trials are missing; ``failed``, where the job failed and recorded none;
    ``missing``, where it was not begun. The reason is null for a job that was done to its end. ``not_run``:
    systems that the site cannot run, and why; a session without them is complete.
    """
    return [_entry(planned, job) for job in planned.jobs]


def write(planned: Plan) -> Path:
    """Write ``campaign.json`` and return it."""
    path = engine.folder(planned.campaign) / FILE
    text = json.dumps({"name": planned.campaign, "sessions": sessions(planned)}, indent=1)
    replace_file(path, f"{text}\n".encode())
    return path


def lines(path: Path) -> Iterator[str]:
    """Yield what ``campaign.json`` says, a line for each session."""
    found = json.loads(path.read_text())["sessions"]
    for each in found:
        why = f": {each['reason']}" if each["reason"] else ""
        yield f"{each['site']} {each['label']}: {each['state']} ({each['session']}){why}"
        yield from (f"  {name} not run: {because}" for name, because in each["not_run"].items())
    complete = sum(each["state"] == "complete" for each in found)
    yield f"{complete} of {len(found)} sessions are complete; {path}"


def _entry(planned: Plan, job: Job) -> dict[str, Any]:
    last = engine.last_event(job, planned.campaign)
    try:
        stand = plan.read_stand(job)
        state, done, broken = stand.state, stand.done, None
    except LedgerError as error:
        state, done, broken = "failed", 0, plan.one_line(error)
    reason = broken or last.get("reason")
    if state != "complete" and job.site.label in planned.without:
        reason = "its site was left out" + (f"; before: {reason}" if reason else "")
    if state != "complete" and not reason:
        reason = "it was interrupted" if last.get("event") == "begun" else _not_begun(planned, job)
    if last.get("event") == "failed" and state in ("missing", "partial") and done == 0:
        state = "failed"
    return {
        "site": job.site.label, "study": job.study.name, "label": job.label,
        "session": os.path.relpath(job.folder, catalogue.home()), "state": state, "reason": reason,
        "not_run": _not_run(job.folder),
    }  # fmt: skip


def _not_run(folder: Path) -> dict[str, str]:
    try:
        return read_session(folder)["not_run"]
    except LedgerError:  # not begun, or damaged, which its reason says
        return {}


def _not_begun(planned: Plan, job: Job) -> str:
    earlier = [each for each in planned.jobs if each.site.label == job.site.label]
    for each in earlier[: earlier.index(job)]:
        if engine.last_event(each, planned.campaign).get("event") in ("failed", "begun"):
            return f"not begun: {each.label} did not end well on this site"
    return "not begun"


def complete(path: Path) -> bool:
    """Tell whether ``campaign.json`` says that every session is complete, and its notebook was executed to its end."""
    return all(each["state"] == "complete" and not each["reason"] for each in json.loads(path.read_text())["sessions"])
