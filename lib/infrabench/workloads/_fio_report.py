"""What fio's own report and logs say, read strictly; and whether the rate of a run was steady.

Times of fio are whole milliseconds (``runtime``) or nanoseconds (latencies). An error of the job, requests that were
cut short or dropped, another job than the one that was asked for, rates that are not the amounts over the time, and
latencies that are not in order are refused.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import fmean
from typing import Any, Literal

import numpy as np

from infrabench.core import ParseError, Result
from infrabench.workloads._parse import at, equal, items, json_object, positive, text, value, within

TOOL = "fio"
REMARKS = r"\A(?:fio: .*\n)*"  # stand before the report: that it is connected, what failed
WAY = Literal["read", "write"]
DIRECTIONS: Mapping[str, WAY] = {"0": "read", "1": "write"}
COUNT = "[0-9]{1,20}"
BUCKET = 1.01  # how far a percentile may lie from any value in its bucket, as a factor: a bucket is 1/64 wide
BUCKETS = 29  # of latency in a line of the log, at the coarsest
LEAST_PARTS, MOST_PARTS = 2, 20
LARGEST_STEP = 0.10  # between the means of both halves, of the first
LEAST_P = 0.01  # of the test for a trend


@dataclass(frozen=True, slots=True)
class Side:
    """What a job says of its reads or of its writes. Latencies are from submission to completion, in seconds."""

    requests: int
    measured: int  # whose latency was: those under way when the ramp ended are among them
    bytes: float
    runtime_s: float
    latency_mean_s: float
    percentiles_s: Mapping[str, float]  # as fio names them: "99.900000"

    @property
    def per_s(self) -> float:
        return self.requests / self.runtime_s

    @property
    def bytes_per_s(self) -> float:
        return self.bytes / self.runtime_s


def whole(result: Result) -> Mapping[str, Any]:
    """Return fio's report, without the remarks that it may make before it."""
    output = re.sub(REMARKS, "", text(result))
    if output[:1] not in ("", "{"):
        raise ParseError(TOOL, "no JSON: it begins with something else than remarks of fio (`fio: ...`)", output)
    return json_object(TOOL, output)


def checked(
    report: Mapping[str, Any], name: str, asked: Mapping[str, object], place: int = 0, count: int = 1
) -> Mapping[str, Any]:
    """Return the job at `place` of the `count` jobs of a parsed report, whose options were `asked`.

    `ParseError` when it failed, was asked for something else, or is not one of so many.
    """
    jobs = items(TOOL, report, "jobs")
    equal(TOOL, "number of jobs", len(jobs), count)
    equal(TOOL, "name of the job", at(TOOL, jobs, place, "jobname"), name)
    equal(TOOL, f"error of job {name}", at(TOOL, jobs, place, "error"), 0)
    for option, given in asked.items():
        equal(TOOL, f"option {option}", at(TOOL, jobs, place, "job options", option), str(given))
    found: Mapping[str, Any] = jobs[place]
    return found


def side(found: Mapping[str, Any], way: WAY) -> Side:
    """Return what the job says of one direction; there has to be work in it, all of it whole."""
    for key in ("short_ios", "drop_ios"):
        equal(TOOL, f"{way} {key}", value(TOOL, found, way, key), 0.0)
    requests = positive(TOOL, f"{way} requests", value(TOOL, found, way, "total_ios"))
    size = positive(TOOL, f"{way} bytes", value(TOOL, found, way, "io_bytes"))
    runtime_s = positive(TOOL, f"{way} runtime", value(TOOL, found, way, "runtime")) / 1e3
    # It cuts its rates off, one to whole bytes, the other to six decimals.
    for key, amount, step in (("bw_bytes", size, 1.0), ("iops", requests, 1e-6)):
        rate = amount / runtime_s
        within(TOOL, f"{way} {key}", value(TOOL, found, way, key), rate - step - 1e-9 * rate, rate + step)
    measured = value(TOOL, found, way, "lat_ns", "N")
    mean_s = positive(TOOL, f"{way} latency", value(TOOL, found, way, "lat_ns", "mean")) * 1e-9
    if requests != int(requests) or measured != int(measured):
        raise ParseError(TOOL, f"{way} has no whole report", str(found))
    return Side(int(requests), int(measured), size, runtime_s, mean_s, latencies(found, way, "lat_ns"))


def latencies(found: Mapping[str, Any], way: WAY, kind: str) -> Mapping[str, float]:
    """Return the percentiles of one `kind` of latency, in seconds, as fio names them; `ParseError` unless in order.

    They are the middles of buckets, the largest and the mean are not (`BUCKET`).
    """
    least, mean, most = (value(TOOL, found, way, kind, name) for name in ("min", "mean", "max"))
    percentiles = at(TOOL, found, way, kind).get("percentile", {})
    if not isinstance(percentiles, dict):
        raise ParseError(TOOL, f"{way} has no whole report", str(found))
    points = [value(TOOL, percentiles, key) for key in percentiles]
    rising = all(a <= b for a, b in pairwise([least / BUCKET, *points, BUCKET * most]))
    if not rising or not least <= mean <= most:
        raise ParseError(TOOL, f"{way} latencies ({kind}) are not in order", str(found[way][kind]))
    return {key: point * 1e-9 for key, point in zip(percentiles, points, strict=True)}


def completed(log: str, way: WAY, block_bytes: int) -> Sequence[tuple[float, int]]:
    """Return rows (end in seconds, requests completed since the row before) of fio's log of histograms.

    A line is ``time in ms, direction, block, count, count, ...``, the counts by latency; it is written with the first
    request that is completed when a window has passed, so a window in which nothing was is a longer one. After that
    there may be a line for each window that was missed, at the same time.
    """
    found: dict[float, int] = {}
    end = 0.0
    for line in log.splitlines(keepends=True):
        match = re.fullmatch(rf"({COUNT}), ([01]), {block_bytes}((?:, {COUNT}){{{BUCKETS}}})\n", line)
        if match is None or DIRECTIONS[match[2]] != way:
            raise ParseError(TOOL, f"a line of the log is not whole, or no {way}", line)
        before, end = end, int(match[1]) / 1e3
        if end < before or not end:
            raise ParseError(TOOL, "the log's times are not in order", line)
        found[end] = found.get(end, 0) + sum(map(int, match[3].split(",")[1:]))
    if not found:
        raise ParseError(TOOL, "the log is empty", log)
    return list(found.items())


def split_log(log: str, jobs: int) -> Sequence[str]:
    """Return the logs of the `jobs` that have written one file, each as a whole: where times begin anew, so does a log.

    `ParseError` when there are not so many.
    """
    if jobs == 1:
        return [log]
    parts, last_ms = [""], 0
    for line in log.splitlines(keepends=True):
        time = line.partition(",")[0]
        time_ms = int(time) if re.fullmatch(COUNT, time) else last_ms  # a line that is none is refused with its log
        parts = [*parts, ""] if time_ms < last_ms else parts
        parts[-1] += line
        last_ms = time_ms
    equal(TOOL, "number of jobs in the log", len(parts), jobs)
    return parts


def add_up(every: Sequence[Sequence[tuple[float, int]]]) -> Sequence[tuple[float, float]]:
    """Return the rows of several logs (`completed`) as those of one: at the end of each, requests since the one before.

    Between two rows of a log its requests are taken as evenly spread.
    """
    ends = sorted({end for rows in every for end, _ in rows})
    reached = np.zeros(len(ends))
    for rows in every:
        own, counts = zip(*rows, strict=True)
        reached += np.interp(ends, [0.0, *own], [0.0, *accumulate(counts)])
    return list(zip(ends, np.diff(reached, prepend=0.0).tolist(), strict=True))


def rates(rows: Sequence[tuple[float, float]], most: int) -> Sequence[float]:
    """Return requests per second in equal parts of the time that `rows` cover, `most` of them at most.

    There are no more parts than rows; in between requests are taken as evenly spread.
    """
    ends, counts = zip(*rows, strict=True)
    parts = min(most, len(rows))
    width = ends[-1] / parts
    borders = [width * part for part in range(parts + 1)]
    reached = np.interp(borders, [0.0, *ends], [0.0, *accumulate(counts)]).tolist()
    return [(b - a) / width for a, b in pairwise(reached)]


def steady(parts: Sequence[float]) -> bool:
    """Return whether a run stayed as it began: no step between its halves and no trend over all of it.

    `parts`: the rate in equal parts of the run, 20 at most, so that they depend little on their neighbours. No step:
    the mean of the second half is within 10 % of the first's (the middle of an odd number counts in neither). No trend:
    the p of `trend` is above 0.01. What is left of dependence makes a slow swing pass for a trend: a run is rather
    called unsteady than steady.
    """
    if len(parts) < LEAST_PARTS:
        raise ParseError(TOOL, f"{len(parts)} parts are too few to tell whether a run is steady", str(parts))
    half = len(parts) // 2
    first, second = fmean(parts[:half]), fmean(parts[-half:])
    return abs(second - first) <= LARGEST_STEP * first and trend(parts) > LEAST_P


def trend(series: Sequence[float]) -> float:
    """Return the two-sided p of Mann and Kendall's test that a series has no monotone trend.

    S is the number of pairs that rise less those that fall; its variance under no trend is
    (n (n-1) (2n+5) - sum t (t-1) (2t+5)) / 18 over groups of t equal values, and (S -+ 1) / sd is taken as normal
    (M. G. Kendall, Rank Correlation Methods, 4th ed. 1975, chapter 4; H. B. Mann, Econometrica 13, 1945). 1 when all
    values are equal.
    """
    count = len(series)
    score = sum((b > a) - (b < a) for i, a in enumerate(series) for b in series[i + 1 :])
    ties = sum(t * (t - 1) * (2 * t + 5) for t in Counter(series).values())
    variance = (count * (count - 1) * (2 * count + 5) - ties) / 18
    if not variance:
        return 1.0
    return math.erfc(max(abs(score) - 1, 0) / math.sqrt(2 * variance))
