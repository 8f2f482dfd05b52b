"""stream: memory bandwidth of four kernels (copy, scale, add, triad), by `ib-stream` (lab/guest/src/stream.c).

Each array is ``array_bytes``, or ``llc_multiple`` times the last-level caches of the allowed CPUs (4: the rule of
STREAM; below it, caches answer part of the requests, and the report in the raw output says how far below). Metric
``KERNEL_B_per_s`` = bytes moved by all timed repetitions / their total time, the first repetition left out: the
harmonic mean of their rates. Bytes are counted as STREAM does, 16 an element for copy and scale, 24 for add and triad.
The program validates the arrays and refuses sizes that do not fit in 90 % of the memory limit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from infrabench.core import Capture, Measurements, Param, Params, ParseError, Roles, Step, Steps
from infrabench.workloads._parse import at, at_least, equal, higher, json_object, positive, text, value, within

PARAMS = {
    "threads": Param(0, least=0, meaning="threads; 0: every CPU that the target may use"),
    "repetitions": Param(
        10, least=2, meaning="times that each kernel runs, of which the first is not counted", work=True
    ),
    "array_bytes": Param(0, least=0, unit="B", meaning="size of an array, 4096 or more; 0: from llc_multiple"),
    "llc_multiple": Param(
        4.0,
        least=0,
        meaning="size of an array in last-level caches; not used when array_bytes is given",
        instead="array_bytes",
    ),
}
PROGRAMS = {"server": {"ib-stream": ""}}
VERSION = ("ib-stream", "--version"), r"^ib-stream (.+)$"
TOOL = "ib-stream"
ELEMENT = 8  # bytes: arrays are whole ones
PRINTED_S = 1e-9
ARRAYS_MOVED = {"copy": 2, "scale": 2, "add": 3, "triad": 3}
METRICS = {f"{kernel}_B_per_s": "fixed-work rate" for kernel in ARRAYS_MOVED}


def plan(params: Params, roles: Roles) -> Steps:
    """Return the one run; `DesignError` when a parameter is out of range."""
    size = ("--llc-multiple", f"{params['llc_multiple']:g}")
    if params["array_bytes"]:
        at_least("array_bytes", params["array_bytes"], 4096)
        size = ("--array-bytes", str(params["array_bytes"]))
    threads = ("--threads", str(params["threads"])) if params["threads"] else ()
    # Threads that stay where they are keep the pages that they touched first.
    argv = ("env", "OMP_PROC_BIND=true", TOOL, *threads, "--repetitions", str(params["repetitions"]), *size)
    return (Step("stream", "server", argv, timeout_s=60.0 + 5.0 * params["repetitions"]),)


def parse(capture: Capture) -> Measurements:
    """Return the four bandwidths in bytes per second."""
    report = read(text(capture["stream"]), capture.params)
    equal(TOOL, "repetitions", at(TOOL, report, "repetitions"), capture.params["repetitions"])
    return higher("B/s", **{f"{kernel}_B_per_s": bandwidth(report, kernel) for kernel in ARRAYS_MOVED})


def read(output: str, params: Params) -> Mapping[str, Any]:
    """Return the report of one run, which has to say that its result is right and that it did what `params` ask for."""
    report = json_object(TOOL, output)
    equal(TOOL, "program", at(TOOL, report, "program"), TOOL)
    equal(TOOL, "valid", at(TOOL, report, "valid"), True)
    if params["threads"]:
        equal(TOOL, "threads", at(TOOL, report, "threads"), params["threads"])
    size = params["array_bytes"] or float(f"{params['llc_multiple']:g}") * value(TOOL, report, "llc_bytes")
    equal(TOOL, "array_bytes", value(TOOL, report, "array_bytes"), float(size // ELEMENT * ELEMENT))
    return report


def bandwidth(report: Mapping[str, Any], kernel: str) -> float:
    """Return bytes per second of `kernel` over all repetitions of a report but the first."""
    moved, times = read_times(report, kernel)
    return moved * (len(times) - 1) / math.fsum(times[1:])


def read_times(report: Mapping[str, Any], kernel: str) -> tuple[float, list[float]]:
    """Return the bytes that `kernel` moves in a repetition, and the time of each; they have to fit their mean."""
    array_bytes = value(TOOL, report, "array_bytes")
    moved = value(TOOL, report, "kernels", kernel, "bytes")
    equal(TOOL, f"bytes moved by {kernel}", moved, ARRAYS_MOVED[kernel] * array_bytes)
    listed = at(TOOL, report, "kernels", kernel, "times_s")
    if not isinstance(listed, list) or len(listed) != at(TOOL, report, "repetitions"):
        raise ParseError(TOOL, f"expected one time of {kernel} for each repetition", str(listed))
    path = ("kernels", kernel, "times_s")
    times = [positive(TOOL, kernel, value(TOOL, report, *path, index)) for index in range(len(listed))]
    mean_s, best_s = (value(TOOL, report, "kernels", kernel, key) for key in ("mean_s", "best_s"))
    counted = len(times) - 1
    within(TOOL, f"mean_s of {kernel}", mean_s * counted, *_about(math.fsum(times[1:]), counted * PRINTED_S))
    within(TOOL, f"best_s of {kernel}", best_s, *_about(min(times[1:]), PRINTED_S))
    return moved, times


def _about(middle: float, off: float) -> tuple[float, float]:
    return middle - off, middle + off
