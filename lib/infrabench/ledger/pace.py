"""What a session has taken, and what a block of each case takes: by the times of its trials, with what is between them.

By trials that are stored, so that whoever reads the session finds the same, whenever that is.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from infrabench.core import TrialRecord

PAUSE_S = 60.0  # between two trials: while nothing of them runs for longer, the session does not


class Pace(NamedTuple):
    """Seconds that a session has taken, and that a block takes of each case (workload, scenario) that it has."""

    spent_s: float
    costs_s: Mapping[tuple[str, str], float]


def measure_pace(records: Iterable[TrialRecord]) -> Pace:
    """Return the `Pace` of recorded trials, those of discarded blocks too.

    What is between two trials (switches, drift probes, looks) is in it, unless it is longer than `PAUSE_S`: then the
    session was interrupted. A block of one case is taken to have as much before its first trial as blocks had so far.
    """
    spent, before_s = defaultdict[tuple[str, str], float](float), list[float]()
    blocks: Counter[tuple[str, str]] = Counter()
    seen: set[tuple[int, str, str]] = set()
    end, block = 0.0, -1
    for record in sorted(records, key=lambda each: (each.started_utc, each.trial.position, each.trial.attempt)):
        trial, begin = record.trial, _seconds(record.started_utc)
        case = (trial.workload, trial.scenario)
        gap = begin - end if 0 < begin - end <= PAUSE_S else 0.0
        if trial.block != block:
            before_s.append(gap)
        else:
            spent[case] += gap
        last = end_s(record) - max(0.0, record.conditions.get("clock_stepped_s", 0.0))  # while the machine slept
        spent[case] += max(0.0, last - max(begin, end))  # trials in rounds overlap
        end, block = max(end, last), trial.block
        blocks[case] += (trial.block, *case) not in seen
        seen.add((trial.block, *case))
    each_s = sum(before_s) / max(len(before_s) - 1, 1)  # nothing is before the first
    costs_s = {case: each_s + total / blocks[case] for case, total in spent.items()}
    return Pace(sum(spent.values()) + sum(before_s), costs_s)


def end_s(record: TrialRecord) -> float:
    """Return when a trial ended, in Unix time."""
    return _seconds(record.ended_utc) if record.ended_utc else _seconds(record.started_utc) + record.duration_s


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()
