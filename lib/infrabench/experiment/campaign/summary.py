"""What is there of a campaign, what is missing and why, and the proof that no two trials met that must not.

``campaign.json`` is for people and for the analysis of sites; the proof is made from the ledgers alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import floor
from pathlib import Path
from typing import Any

from infrabench.core import LedgerError, TrialRecord
from infrabench.experiment.campaign import engine, plan
from infrabench.experiment.campaign.plan import Job, Plan, format_count
from infrabench.ledger import catalogue
from infrabench.ledger.ledger import replace_file
from infrabench.ledger.records import SESSION, read_session, read_trials

FILE = "campaign.json"
MOST_SHOWN = 10
PER_SECOND = 1000  # a ledger's instants are cut to milliseconds


def write(planned: Plan) -> Path:
    """Write ``campaign.json`` and return it.

    It has the sites that are measured ``alone``, for whoever asks no site, and an entry for each job: site, study,
    label, session (a path from the project's home), state, reason, not_run. States: ``complete``; ``partial``, where
    trials are missing; ``failed``, where the job failed and recorded none, or its session cannot be read; ``missing``,
    where it was not begun. The reason is null for a job that was done to its end. ``not_run``: systems that the site
    cannot run, and why; a session without them is complete.
    """
    path = engine.folder(planned.campaign) / FILE
    entries = [_entry(planned, job) for job in planned.jobs]
    data = {"name": planned.campaign, "alone": sorted(planned.alone), "sessions": entries}
    replace_file(path, f"{json.dumps(data, indent=1)}\n".encode())
    return path


def read_alone(campaign: str) -> frozenset[str] | None:
    """Return the sites that are measured alone, as the ``campaign.json`` of a campaign says; None where none says it.

    A start found them by its executor, and by asking the sites.
    """
    path = engine.folder(campaign) / FILE
    alone = json.loads(path.read_text()).get("alone") if path.is_file() else None
    return None if alone is None else frozenset(alone)


def lines(path: Path) -> Iterator[str]:
    """Yield what ``campaign.json`` says, a line for each session."""
    found = json.loads(path.read_text())["sessions"]
    for each in found:
        why = f": {each['reason']}" if each["reason"] else ""
        yield f"{each['site']} {each['label']}: {each['state']} ({each['session']}){why}"
        yield from (f"  {name} not run: {because}" for name, because in each["not_run"].items())
    complete = sum(each["state"] == "complete" for each in found)
    yield f"{complete} of {len(found)} sessions are complete; {path}"


def complete(path: Path) -> bool:
    """Tell whether ``campaign.json`` says that every session is complete, and its notebook was executed to its end."""
    return all(each["state"] == "complete" and not each["reason"] for each in json.loads(path.read_text())["sessions"])


def _entry(planned: Plan, job: Job) -> dict[str, Any]:
    last = engine.last_event(job, planned.campaign)
    try:
        stand = plan.read_stand(job)
        state, done, broken = stand.state, stand.done, None
    except LedgerError as error:
        state, done, broken = "failed", 0, plan.one_line(error)
    try:
        not_run = read_session(job.folder)["not_run"]
    except LedgerError:  # not begun, or damaged, which its reason says
        not_run = {}
    reason = broken or last.get("reason")
    if state == "complete" and not reason and last.get("event") != "finished":
        reason = "measured; its notebook was not executed to its end"
    if state != "complete":
        reason = reason or job.site.fault
        if job.site.label in planned.without:
            reason = "its site was left out" + (f"; before: {reason}" if reason else "")
        elif not reason:
            reason = "it was interrupted" if last.get("event") == "begun" else _not_begun(planned, job)
    if last.get("event") == "failed" and state in ("missing", "partial") and done == 0:
        state = "failed"
    return {
        "site": job.site.label, "study": job.study.name, "label": job.label,
        "session": os.path.relpath(job.folder, catalogue.home()), "state": state, "reason": reason, "not_run": not_run,
    }  # fmt: skip


def _not_begun(planned: Plan, job: Job) -> str:
    earlier = [each for each in planned.jobs if each.site.label == job.site.label]
    for each in earlier[: earlier.index(job)]:
        if engine.last_event(each, planned.campaign).get("event") in ("failed", "begun"):
            return f"not begun: {each.label} did not end well on this site"
    return "not begun"


@dataclass(frozen=True, slots=True)
class Span:
    """When a trial was run on a site, in Unix seconds by the clock of the machine that steered it."""

    site: str
    session: str
    case: tuple[object, ...]  # of a trial in rounds: those of one take turns, each alone while it is measured
    trial: str
    begin_s: float
    end_s: float


def spans(site: str, folder: Path) -> list[Span]:
    """Return every trial of a session, those of discarded blocks too."""
    found = []
    for record in read_trials(folder) if (folder / SESSION).is_file() else ():
        trial = record.trial
        case = (trial.block, trial.workload, trial.scenario) if trial.rounds > 1 else (trial.id, trial.attempt)
        found.append(Span(site, folder.name, case, trial.id, _seconds(record.started_utc), _end(record)))
    return found


def overlaps(every: Iterable[Span], planned: Plan) -> list[tuple[Span, Span, float]]:
    """Return the trials that ran at the same time on one site, or on two that are never measured together.

    Each pair with the seconds that it had in common.
    """
    found, running = list[tuple[Span, Span, float]](), list[Span]()
    for span in sorted(every, key=lambda each: each.begin_s):
        running = [other for other in running if other.end_s > span.begin_s]
        for other in running:
            if _must_not_meet(span, other, planned):
                found.append((other, span, min(span.end_s, other.end_s) - span.begin_s))
        running.append(span)
    return found


def describe_overlaps(planned: Plan) -> tuple[list[str], bool]:
    """Return, in words, what the ledgers of a campaign prove, and whether nothing met that must not."""
    every, unread = list[Span](), list[str]()
    for job in planned.jobs:
        try:
            every += spans(job.site.label, job.folder)
        except LedgerError as error:
            unread.append(f"  without {job.site.label} {job.label}, which cannot be read: {plan.one_line(error)}")
    met = overlaps(every, planned)
    checked = f"{format_count(len(every), 'trial')} on {format_count(len({span.site for span in every}), 'site')}"
    if not met:
        gap = closest(every, planned)
        near = "" if gap is None else f"; the closest two were {gap:.3f} s apart"
        return [f"exclusive: {checked}; no two that must not meet overlap{near}", *unread], True
    shown = [
        f"  {a.site} {a.session} {a.trial} and {b.site} {b.session} {b.trial}: {seconds:.3f} s"
        for a, b, seconds in met[:MOST_SHOWN]
    ]
    more = [f"and {len(met) - MOST_SHOWN} more"] if len(met) > MOST_SHOWN else []
    pairs = format_count(len(met), "pair")
    return [f"NOT exclusive: {checked}; {pairs} at the same time", *shown, *more, *unread], False


def closest(every: Sequence[Span], planned: Plan) -> float | None:
    """Return the shortest time between two trials that must not meet, from the end of one to the next; None if none."""
    gaps, last = list[float](), list[Span]()
    for span in sorted(every, key=lambda each: each.begin_s):
        gaps += [span.begin_s - other.end_s for other in last if _must_not_meet(span, other, planned)]
        # Of each site only the trial that ended last can be near the next one.
        ended = max([other for other in last if other.site == span.site] + [span], key=lambda each: each.end_s)
        last = [other for other in last if other.site != span.site] + [ended]
    return min(gaps, default=None)


def _must_not_meet(a: Span, b: Span, planned: Plan) -> bool:
    take_turns = (a.site, a.session, a.case) == (b.site, b.session, b.case)
    return planned.apart(a.site, b.site) and not take_turns


def _end(record: TrialRecord) -> float:
    """Return when a trial ended, by the clock and at the resolution of its beginning.

    A duration is of another clock, and finer: added to a beginning that is cut to a millisecond, it reaches into the
    next trial, or past its own end. Records that hold no end have it cut in the same way.
    """
    if record.ended_utc:
        return _seconds(record.ended_utc)
    return floor((_seconds(record.started_utc) + record.duration_s) * PER_SECOND) / PER_SECOND


def _seconds(instant: str) -> float:
    return datetime.fromisoformat(instant).timestamp()
