"""rebuild: how long a storage system takes to have two copies again after a disk was lost, and what a load feels of it.

The pool is made anew and ``used_bytes`` of its raw area are filled, so that every trial copies the same data in the
same layout. A load of ``foreground_iops`` (requests of 4 KiB at random places of what is filled, half of them writes,
offered at a fixed rate) runs from ``lead_s`` before the loss to ``tail_s`` after the end. Which of both disks fails is
drawn anew for each trial (``disk``: "drawn", "0" or "1"). ``throttle``: ``default`` is what the system does by itself
to spare a load, ``open`` is as fast as it can. `_rebuild_script` does all this on the store.

Metrics. ``rebuild_s``: from giving the pool its new, empty disk until its state is clean for good (asked twice a
second); making the disk ready for the pool is part of it. ``rebuild_B_per_s``: data in the pool, counted once, by that
time. ``noticed_s``: from the loss until the pool says that it is degraded. ``foreground_iops_before``,
``foreground_latency_before_s`` (mean): from the first whole half second of the load until the loss; the same
``_during``, from the loss until it is clean. ``foreground_worst_s``: the highest mean latency of the requests that were
completed in one half second meanwhile; ``foreground_longest_s``: the longest single request.

The load keeps its rate on average: what it could not ask while the pool did not answer, it asks afterwards.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from infrabench.core import Capture, DesignError, Measurements, NotAsClaimed, Param, Params, ParseError, Roles, Step
from infrabench.core.workloads import script_command
from infrabench.workloads import _fio_report, _volume, fio
from infrabench.workloads._parse import KIB, MIB, at, equal, higher, in_order, json_object, lower, positive, text, value

VERSION = fio.VERSION
TOOL = "rebuild"
READS = fio.READS
SCRIPT = Path(__file__).with_name("_rebuild_script.py")
FOLDER = "/var/tmp/infrabench-rebuild"
BLOCK = 4 * KIB
DEPTH = 16
POLL_S = 0.5
SETTLE_S = 3.0  # until what was filled is counted
SLOWEST_B_PER_S = 3_000_000  # slower than this is a hang
THROTTLES = ("default", "open")
DISKS: Mapping[str, int | None] = {"drawn": None, "0": 0, "1": 1}
PARAMS = {
    "used_bytes": Param(2_000_000_000, least=16 * MIB, unit="B", meaning="how much of the raw area is filled"),
    "throttle": Param("default", choices=THROTTLES, meaning="what spares the load: the system's own, or nothing"),
    "foreground_iops": Param(200, least=10, unit="1/s", meaning="requests that the load offers, an even number"),
    "lead_s": Param(5.0, least=2, most=86399, unit="s", meaning="load before the loss"),
    "tail_s": Param(3.0, least=0, most=86399, unit="s", meaning="load after the end"),
    "mode": _volume.MODE,
    "disk": Param("drawn", choices=tuple(DISKS), meaning="disk that is lost; drawn: another one in each trial"),
}
FILLED = 0.9  # of what was to be filled, at least, is what the pool says that it holds
LOAD = "load"  # name of the job of fio
BIN_S = 0.5
LEAST_S = 0.5  # of a part of the load that a number is given for
SLACK_S = 0.05  # a span is of another clock than its ends
COPIED = ("copied_B", "left_B")  # of what a store says of itself: the first that it says at all
COLUMNS = 6  # of a bin: begin, reads, their latencies, writes, their latencies, the longest

supported = _volume.needing("fio", "python3")
METRICS = {
    "rebuild_B_per_s": "fixed-work rate",
    **dict.fromkeys(("foreground_iops_before", "foreground_iops_during"), "fixed-time rate"),
    **dict.fromkeys(("rebuild_s", "noticed_s", "foreground_worst_s", "foreground_longest_s"), "time"),
    **dict.fromkeys(("foreground_latency_before_s", "foreground_latency_during_s"), "time"),
}


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
class Course:
    """What happened. Times are Unix time of the store; `noticed_s` is a span, from the loss on."""

    disk: int
    lost_s: float
    noticed_s: float
    replaced_s: float
    clean_s: float
    bins: Sequence[Sequence[float]] = field(repr=False)
    states: Sequence[Mapping[str, Any]] = field(repr=False)


def plan(params: Params, roles: Roles) -> tuple[Step, ...]:
    """Return making and filling the pool, and the script that loses a disk of it."""
    if params["foreground_iops"] % 2:
        raise DesignError("rebuild: foreground_iops is halved between reads and writes, it must be even")
    _volume.check(roles, copies=2)
    (uri,) = _volume.lifecycle(roles, "uri", "it serves no volume over NBD")
    used = params["used_bytes"]
    limit_s = _volume.MAKE_S + used / SLOWEST_B_PER_S
    whole_s = params["lead_s"] + params["tail_s"] + limit_s + 4 * _volume.COMMAND_S
    order = {
        "store": roles["server"].lifecycle["store"], "folder": FOLDER, "disk": DISKS[params["disk"]],
        "lead_s": params["lead_s"], "tail_s": params["tail_s"], "poll_s": POLL_S, "limit_s": limit_s,
        "bin_s": BIN_S, "fio": _load(params, uri, whole_s),
    }  # fmt: skip
    argv = (*script_command(SCRIPT), json.dumps(order))
    return (
        _volume.verb(roles, ("remake",), "prepare"),
        _volume.verb(roles, ("throttle", params["throttle"]), "prepare"),
        _volume.verb(roles, ("serve", params["mode"]), "prepare"),
        _volume.verb(roles, ("fill", used), "prepare", moved_bytes=used),
        _volume.verb(roles, ("drop",), "prepare"),
        Step("settle", "server", ("sleep", f"{SETTLE_S:g}"), phase="prepare"),
        _volume.verb(roles, ("usage",), "prepare", "usage-before"),
        Step("rebuild", "server", argv, timeout_s=whole_s),
        *_volume.rescue(roles),
        Step("remove", "server", ("rm", "-rf", FOLDER), phase="cleanup"),
        _volume.verb(roles, ("throttle", "default"), "cleanup", "unthrottle"),
        _volume.verb(roles, ("empty",), "cleanup"),  # the space of a pool that now only waits is another's
    )


def parse(capture: Capture) -> Measurements:
    """Return times of the rebuild and the load before and during it; `ParseError` when they contradict each other."""
    asked, course = capture.params, read_course(capture)
    usage = _volume.said(capture, "usage-before", "usage")
    used = positive(TOOL, "data in the pool", value(TOOL, usage, "pool", "used_B"))
    if used < FILLED * asked["used_bytes"]:
        raise NotAsClaimed(f"{asked['used_bytes']} bytes were filled, but the pool holds {used:.0f}")
    if asked["disk"] != "drawn":
        equal(TOOL, "the disk", course.disk, DISKS[asked["disk"]])
    took_s = course.clean_s - course.replaced_s
    # Whole bins: the one in which the load began is left out, and that of the loss is the first of the rebuild.
    begin_s, end_s = math.floor(course.lost_s / BIN_S) * BIN_S, math.ceil(course.clean_s / BIN_S) * BIN_S
    before_per_s, before_s, _, _ = _measure_load(course.bins, course.bins[0][0] + BIN_S, begin_s)
    during_per_s, during_s, worst_s, longest_s = _measure_load(course.bins, begin_s, end_s)
    return (
        *lower("s", rebuild_s=took_s),
        *higher("B/s", rebuild_B_per_s=used / took_s),
        *lower("s", noticed_s=course.noticed_s),
        *higher("1/s", foreground_iops_before=before_per_s, foreground_iops_during=during_per_s),
        *lower("s", foreground_latency_before_s=before_s, foreground_latency_during_s=during_s),
        *lower("s", foreground_worst_s=worst_s, foreground_longest_s=longest_s),
    )


def timeline(capture: Capture) -> Timeline:
    """Return the course of a trial in seconds after the disk was replaced: load, what was copied, and events."""
    course = read_course(capture)
    zero = course.replaced_s
    events = {
        "lost": course.lost_s - zero,
        "noticed": course.lost_s + course.noticed_s - zero,
        "replaced": 0.0,
        "clean": course.clean_s - zero,
    }
    return Timeline((*sample_load(course.bins, zero), *sample_copied(course.states, zero, course.clean_s)), events)


def sample_load(bins: Sequence[Sequence[float]], zero: float) -> tuple[Sample, ...]:
    """Return ``foreground_iops`` and ``foreground_latency_s`` (mean) of a load, at the middle of each bin.

    `bins`: begin in Unix time, reads, sum of their latencies, writes, sum of theirs, longest; none where nothing was
    completed, which is a rate of 0 and a latency that is no number. The first and the last are left out: begin and end
    of the load cut them off.
    """
    rows = {round(row[0] / BIN_S): row for row in bins}
    found = []
    for number in range(min(rows) + 1, max(rows)):
        at_s = (number + 0.5) * BIN_S - zero
        _, reads, read_s, writes, write_s, _ = rows.get(number, (0.0,) * 6)
        done = reads + writes
        mean_s = (read_s + write_s) / done if done else math.nan
        found.append(Sample("foreground_iops", at_s, done / BIN_S, "1/s"))
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


def read_course(capture: Capture) -> Course:
    """Return what the script printed; `ParseError` when it contradicts itself.

    A verb begins when its program does, some tenths of a second before the disk is touched: a store that knows better
    when it was lost says so. Raises `NotAsClaimed` when the pool was not clean to begin with.
    """
    report = json_object(TOOL, text(capture["rebuild"]))
    disk = at(TOOL, report, "disk")
    if disk not in (0, 1) or isinstance(disk, bool):
        raise ParseError(TOOL, "there is no such disk", str(disk))
    events = at(TOOL, report, "events")
    for name in ("fail", "replace"):
        equal(TOOL, f"verb of {name}", at(TOOL, events, name, "verb"), name)
    begun_s, done_s = (value(TOOL, events, "fail", key) for key in ("begun_s", "done_s"))
    lost_s = value(TOOL, events, "fail", "lost_s") if "lost_s" in at(TOOL, events, "fail") else begun_s
    noticed_s = positive(TOOL, "noticed_s", value(TOOL, events, "fail", "noticed_s"))
    replaced_s, ended_s = (value(TOOL, events, "replace", key) for key in ("begun_s", "done_s"))
    late = lost_s + noticed_s > done_s + SLACK_S
    if late or not begun_s <= lost_s <= done_s <= replaced_s <= ended_s:
        raise ParseError(TOOL, "loss and replacement are not in order", str(events))
    states = _read_states(report)
    clean_s = _find_clean(states, lost_s, replaced_s)
    return Course(disk, lost_s, noticed_s, replaced_s, clean_s, _read_bins(report, _said(capture.params)), states)


def _read_states(report: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    states = at(TOOL, report, "states")
    if not isinstance(states, list) or not states:
        raise ParseError(TOOL, "there are no states", str(states))
    for index, row in enumerate(states):
        if at(TOOL, states, index, "clean") not in (True, False):
            raise ParseError(TOOL, "a state does not say whether it is clean", str(row))
        for key in COPIED:
            if at(TOOL, states, index, key) is not None:
                value(TOOL, states, index, key)
        if "since_s" in row:
            value(TOOL, states, index, "since_s")
    begins = [value(TOOL, states, index, "begun_s") for index in range(len(states))]
    in_order(TOOL, "states", begins, str(begins))
    return states


def _find_clean(states: Sequence[Mapping[str, Any]], lost_s: float, replaced_s: float) -> float:
    """Return when the store was clean for good: the begin of the first state after the last one that was not.

    Or when that state says that it was so since, by the system's own clock.
    """
    before = [row["clean"] for row in states if row["begun_s"] < lost_s]
    if not before or not all(before):
        raise NotAsClaimed("the store was not clean before a disk was lost")
    unclean = [index for index, row in enumerate(states) if not row["clean"]]
    if not unclean or unclean[-1] + 1 == len(states):
        raise ParseError(TOOL, "the store was never not clean, or not clean at the end", str(states[-2:]))
    first = states[unclean[-1] + 1]
    clean_s: float = min(first["begun_s"], first.get("since_s", first["begun_s"]))
    if clean_s <= replaced_s:
        raise ParseError(TOOL, "the store was clean before the disk was replaced", f"{clean_s} {replaced_s}")
    return clean_s


def _read_bins(report: Mapping[str, Any], load: Mapping[str, object]) -> Sequence[Sequence[float]]:
    """Return the load in half seconds; together they hold every request that fio's report tells of."""
    equal(TOOL, "bin_s", value(TOOL, report, "bin_s"), BIN_S)
    rows = at(TOOL, report, "bins")
    if not isinstance(rows, list) or not rows or any(not isinstance(row, list) or len(row) != COLUMNS for row in rows):
        raise ParseError(TOOL, "the load has no bins, or they are not whole", str(rows))
    bins = [[value(TOOL, row, column) for column in range(COLUMNS)] for row in rows]
    if any(b[0] <= a[0] for a, b in pairwise(bins)) or any(min(row) < 0 or row[0] % BIN_S for row in bins):
        raise ParseError(TOOL, "bins are not in order, or hold less than nothing", str(rows))
    if not all(row[1] + row[3] for row in bins):
        raise ParseError(TOOL, "a bin is empty", str(rows))
    job = _fio_report.checked(at(TOOL, report, "fio"), LOAD, load)
    for way, column in (("read", 1), ("write", 3)):
        requests = sum(row[column] for row in bins)
        equal(TOOL, f"requests of all bins that {way}", requests, value(TOOL, job, way, "total_ios"))
    return bins


def _measure_load(bins: Sequence[Sequence[float]], begin_s: float, end_s: float) -> tuple[float, float, float, float]:
    """Return requests a second, their mean latency, the highest mean of a bin, and the longest, from bin to bin.

    There are no bins where nothing was completed.
    """
    rows = [row for row in bins if begin_s <= row[0] < end_s]
    if end_s - begin_s < LEAST_S or not rows:
        raise ParseError(TOOL, f"nothing of the load was completed in {end_s - begin_s:g} s", str(bins[:2]))
    counts, sums = [row[1] + row[3] for row in rows], [row[2] + row[4] for row in rows]
    worst_s = max(total / count for total, count in zip(sums, counts, strict=True))
    per_s, mean_s = sum(counts) / (end_s - begin_s), math.fsum(sums) / sum(counts)
    return per_s, mean_s, worst_s, max(row[5] for row in rows)


def _said(params: Params) -> Mapping[str, object]:
    """Return the options that fio's report of the load has to repeat."""
    half = params["foreground_iops"] // 2
    return {
        "rw": "randrw", "bs": BLOCK, "iodepth": DEPTH, "size": params["used_bytes"] // MIB * MIB,
        "rate_iops": f"{half},{half}",
    }  # fmt: skip


def _load(params: Params, uri: str, most_s: float) -> tuple[str, ...]:
    return (
        "fio", f"--name={LOAD}", "--ioengine=nbd", f"--uri={uri}",
        *(f"--{name}={given}" for name, given in _said(params).items()),
        "--randrepeat=0", "--refill_buffers", "--time_based", f"--runtime={math.ceil(most_s)}",
        "--disable_slat=1", "--disable_clat=1", "--log_unix_epoch=1", "--per_job_logs=0", "--output-format=json",
    )  # fmt: skip
