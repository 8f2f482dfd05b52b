"""Proof from the ledgers that no two trials that must not meet ever did: when each began and ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import floor
from pathlib import Path

from infrabench.core import TrialRecord
from infrabench.experiment.campaign.plan import Plan, format_count
from infrabench.ledger.records import SESSION, read_trials

MOST_SHOWN = 10
PER_SECOND = 1000  # a ledger's instants are cut to milliseconds


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
    if not (folder / SESSION).is_file():
        return []
    found = []
    for record in read_trials(folder):
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
    every = [span for job in planned.jobs for span in spans(job.site.label, job.folder)]
    met = overlaps(every, planned)
    checked = f"{format_count(len(every), 'trial')} on {format_count(len({span.site for span in every}), 'site')}"
    if not met:
        gap = closest(every, planned)
        near = "" if gap is None else f"; the closest two were {gap:.3f} s apart"
        return [f"exclusive: {checked}; no two that must not meet overlap{near}"], True
    shown = [
        f"  {a.site} {a.session} {a.trial} and {b.site} {b.session} {b.trial}: {seconds:.3f} s"
        for a, b, seconds in met[:MOST_SHOWN]
    ]
    more = [f"and {len(met) - MOST_SHOWN} more"] if len(met) > MOST_SHOWN else []
    return [f"NOT exclusive: {checked}; {format_count(len(met), 'pair')} at the same time", *shown, *more], False


def closest(every: Sequence[Span], planned: Plan) -> float | None:
    """Return the shortest time between two trials that must not meet, from the end of one to the next; None if none."""
    gaps, last = list[float](), list[Span]()
    for span in sorted(every, key=lambda each: each.begin_s):
        gaps += [span.begin_s - other.end_s for other in last if _must_not_meet(span, other, planned)]
        # Of each site only the trial that ended last can be near the next one.
        last = [other for other in last if other.site != span.site] + [span]
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
