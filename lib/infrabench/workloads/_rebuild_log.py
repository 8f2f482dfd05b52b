"""The course of one rebuild, from what `_rebuild_script` printed: when what happened, and the load in half seconds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from infrabench.core import Capture, NotAsClaimed, ParseError
from infrabench.workloads import _fio_report
from infrabench.workloads._parse import at, equal, json_object, positive, text, value

TOOL = "rebuild"
STEP = "rebuild"
LOAD = "load"
BIN_S = 0.5
LEAST_S = 0.5  # of a part of the load that a number is given for
SLACK_S = 0.05  # a span is of another clock than its ends
COPIED = ("copied_B", "left_B")  # of what a store says of itself: the first that it says at all
COLUMNS = 6  # of a bin: begin, reads, their latencies, writes, their latencies, the longest


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


@dataclass(frozen=True, slots=True)
class Part:
    """What the load was in a part of the time: requests completed in each second, and their latencies."""

    per_s: float
    mean_s: float
    worst_s: float  # highest mean of one bin
    longest_s: float


@dataclass(frozen=True, slots=True)
class Told:
    """What happened. Times are Unix time of the store; `noticed_s` is a span, from the loss on."""

    disk: int
    lost_s: float
    noticed_s: float
    replaced_s: float
    clean_s: float
    bins: Sequence[Sequence[float]] = field(repr=False)
    states: Sequence[Mapping[str, Any]] = field(repr=False)

    def before(self) -> Part:
        """Return the load until the loss, but for the bin in which it began."""
        return _part(self.bins, self.bins[0][0] + BIN_S, math.floor(self.lost_s / BIN_S) * BIN_S)

    def during(self) -> Part:
        """Return the load from the loss until the store was clean, in whole bins."""
        return _part(self.bins, math.floor(self.lost_s / BIN_S) * BIN_S, math.ceil(self.clean_s / BIN_S) * BIN_S)


def read(capture: Capture, load: Mapping[str, object]) -> Told:
    """Return what the script told; `load` are options that its fio must have had.

    Raises `ParseError` when it contradicts itself, `NotAsClaimed` when the pool was not clean to begin with.
    """
    told = json_object(TOOL, text(capture[STEP]))
    disk = at(TOOL, told, "disk")
    if disk not in (0, 1) or isinstance(disk, bool):
        raise ParseError(TOOL, "there is no such disk", str(disk))
    lost_s, noticed_s, replaced_s = _events(told)
    states = _states(told)
    clean_s = _clean(states, lost_s, replaced_s)
    return Told(disk, lost_s, noticed_s, replaced_s, clean_s, _bins(told, load), states)


def timeline(told: Told) -> Timeline:
    """Return the load, what was copied and the events, in seconds after the disk was replaced."""
    zero = told.replaced_s
    events = {
        "lost": told.lost_s - zero,
        "noticed": told.lost_s + told.noticed_s - zero,
        "replaced": 0.0,
        "clean": told.clean_s - zero,
    }
    samples = (*sample_load(told.bins, BIN_S, zero), *sample_copied(told.states, zero, told.clean_s))
    return Timeline(samples, events)


def sample_load(bins: Sequence[Sequence[float]], bin_s: float, zero: float) -> tuple[Sample, ...]:
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


def sample_copied(states: Sequence[Mapping[str, Any]], zero: float, clean_s: float) -> tuple[Sample, ...]:
    """Return ``copied_B``, or ``left_B`` where only that is told, from the replacement until all is clean."""
    during = [state for state in states if zero <= state["begun_s"] <= clean_s]
    for name in COPIED:
        rows = [state for state in during if state[name] is not None]
        if rows:
            return tuple(Sample(name, state["begun_s"] - zero, float(state[name]), "B") for state in rows)
    return ()


def _events(told: Mapping[str, Any]) -> tuple[float, float, float]:
    """Return when the disk was lost, after what time that was noticed, and when it was replaced.

    A verb begins when its program does, some tenths of a second before the disk is touched: a store that knows better
    when it was lost says so.
    """
    events = at(TOOL, told, "events")
    for name in ("fail", "replace"):
        equal(TOOL, f"verb of {name}", at(TOOL, events, name, "verb"), name)
    begun_s, done_s = (value(TOOL, events, "fail", key) for key in ("begun_s", "done_s"))
    lost_s = value(TOOL, events, "fail", "lost_s") if "lost_s" in at(TOOL, events, "fail") else begun_s
    noticed_s = positive(TOOL, "noticed_s", value(TOOL, events, "fail", "noticed_s"))
    replaced_s, replaced = (value(TOOL, events, "replace", key) for key in ("begun_s", "done_s"))
    late = lost_s + noticed_s > done_s + SLACK_S
    if late or not begun_s <= lost_s <= done_s <= replaced_s <= replaced:
        raise ParseError(TOOL, "loss and replacement are not in order", str(events))
    return lost_s, noticed_s, replaced_s


def _states(told: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    states = at(TOOL, told, "states")
    if not isinstance(states, list) or not states:
        raise ParseError(TOOL, "there are no states", str(states))
    for index, row in enumerate(states):
        if at(TOOL, states, index, "clean") not in (True, False) or not isinstance(row, dict):
            raise ParseError(TOOL, "a state does not say whether it is clean", str(row))
        for key in COPIED:
            if at(TOOL, states, index, key) is not None:
                value(TOOL, states, index, key)
    begins = [value(TOOL, states, index, "begun_s") for index in range(len(states))]
    if begins != sorted(begins):
        raise ParseError(TOOL, "states are not in order", str(begins))
    return states


def _clean(states: Sequence[Mapping[str, Any]], lost_s: float, replaced_s: float) -> float:
    """Return when the store was clean for good: the begin of the first state after the last one that was not."""
    before = [row["clean"] for row in states if row["begun_s"] < lost_s]
    if not before or not all(before):
        raise NotAsClaimed("the store was not clean before a disk was lost")
    unclean = [index for index, row in enumerate(states) if not row["clean"]]
    if not unclean or unclean[-1] + 1 == len(states):
        raise ParseError(TOOL, "the store was never not clean, or not clean at the end", str(states[-2:]))
    clean_s: float = states[unclean[-1] + 1]["begun_s"]
    if clean_s <= replaced_s:
        raise ParseError(TOOL, "the store was clean before the disk was replaced", f"{clean_s} {replaced_s}")
    return clean_s


def _bins(told: Mapping[str, Any], load: Mapping[str, object]) -> Sequence[Sequence[float]]:
    """Return the load in half seconds; together they hold every request that fio's report tells of."""
    equal(TOOL, "bin_s", value(TOOL, told, "bin_s"), BIN_S)
    rows = at(TOOL, told, "bins")
    if not isinstance(rows, list) or not rows or any(not isinstance(row, list) or len(row) != COLUMNS for row in rows):
        raise ParseError(TOOL, "the load has no bins, or they are not whole", str(rows))
    bins = [[value(TOOL, row, column) for column in range(COLUMNS)] for row in rows]
    if any(b[0] <= a[0] for a, b in pairwise(bins)) or any(min(row) < 0 or row[0] % BIN_S for row in bins):
        raise ParseError(TOOL, "bins are not in order, or hold less than nothing", str(rows))
    if not all(row[1] + row[3] for row in bins):
        raise ParseError(TOOL, "a bin is empty", str(rows))
    job = _fio_report.checked(at(TOOL, told, "fio"), LOAD, load)
    for way, column in (("read", 1), ("write", 3)):
        requests = sum(row[column] for row in bins)
        equal(TOOL, f"requests of all bins that {way}", requests, value(TOOL, job, way, "total_ios"))
    return bins


def _part(bins: Sequence[Sequence[float]], begin_s: float, end_s: float) -> Part:
    """Return what the load was between two ends of bins; there are no bins where nothing was completed."""
    rows = [row for row in bins if begin_s <= row[0] < end_s]
    if end_s - begin_s < LEAST_S or not rows:
        raise ParseError(TOOL, f"nothing of the load was completed in {end_s - begin_s:g} s", str(bins[:2]))
    counts, sums = [row[1] + row[3] for row in rows], [row[2] + row[4] for row in rows]
    return Part(
        sum(counts) / (end_s - begin_s), math.fsum(sums) / sum(counts),
        max(total / count for total, count in zip(sums, counts, strict=True)), max(row[5] for row in rows),
    )  # fmt: skip
