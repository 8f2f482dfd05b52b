"""What a trial saw in its course, from its raw output: a workload that has such a thing offers `timeline(capture)`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

COPIED = ("copied_B", "left_B")  # of what a store says of itself: the first that it says at all


@dataclass(frozen=True, slots=True)
class Sample:
    """One value at one time: `at_s` seconds after the event that the trial is about; `unit` is an SI base unit."""

    series: str  # named like a metric
    at_s: float
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """Samples by series and time, and when what happened: seconds after the event that is at 0."""

    samples: tuple[Sample, ...]
    events: Mapping[str, float]


def load(bins: Sequence[Sequence[float]], bin_s: float, zero: float) -> tuple[Sample, ...]:
    """Return ``foreground_iops`` and ``foreground_latency_s`` (mean) of a load, at the middle of each bin.

    `bins`: begin in Unix time, reads, sum of their latencies, writes, sum of theirs, longest; none where nothing was
    completed, which is a rate of 0 and a latency that is no number. The first and the last are left out: begin and end
    of the load cut them off.
    """
    rows = {round(row[0] / bin_s): row for row in bins}
    found = []
    for number in range(min(rows) + 1, max(rows)):
        at_s = (number + 0.5) * bin_s - zero
        _, reads, read_s, writes, write_s, _ = rows.get(number, (0.0,) * 6)
        done = reads + writes
        mean_s = (read_s + write_s) / done if done else math.nan
        found.append(Sample("foreground_iops", at_s, done / bin_s, "1/s"))
        found.append(Sample("foreground_latency_s", at_s, mean_s, "s"))
    return tuple(found)


def copied(states: Sequence[Mapping[str, Any]], zero: float, clean_s: float) -> tuple[Sample, ...]:
    """Return ``copied_B``, or ``left_B`` where only that is told, from the replacement until all is clean."""
    during = [state for state in states if zero <= state["begun_s"] <= clean_s]
    for name in COPIED:
        rows = [state for state in during if state[name] is not None]
        if rows:
            return tuple(Sample(name, state["begun_s"] - zero, float(state[name]), "B") for state in rows)
    return ()
