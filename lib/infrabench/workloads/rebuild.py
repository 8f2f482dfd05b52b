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
from collections.abc import Mapping
from pathlib import Path

from infrabench.core import Capture, DesignError, Measurements, NotAsClaimed, Param, Params, Roles, Step, Steps
from infrabench.workloads import _rebuild_log, _volume
from infrabench.workloads._parse import KIB, MIB, equal, higher, lower, positive, value

VERSION = ("fio", "--version"), r"^fio-(\S+)$"
TOOL = "rebuild"
READS = ("3.33", "3.39")
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
supported = _volume.needing("fio", "python3")
METRICS = {
    "rebuild_B_per_s": "fixed-work rate",
    **dict.fromkeys(("foreground_iops_before", "foreground_iops_during"), "fixed-time rate"),
    **dict.fromkeys(("rebuild_s", "noticed_s", "foreground_worst_s", "foreground_longest_s"), "time"),
    **dict.fromkeys(("foreground_latency_before_s", "foreground_latency_during_s"), "time"),
}


def plan(params: Params, roles: Roles) -> Steps:
    """Return making and filling the pool, and the script that loses a disk of it."""
    _volume.check(roles)
    if params["foreground_iops"] % 2:
        raise DesignError("rebuild: foreground_iops is halved between reads and writes, it must be even")
    (uri,) = _volume.lifecycle(roles, "uri", "it serves no volume over NBD")
    used = params["used_bytes"]
    limit_s = _volume.MAKE_S + used / SLOWEST_B_PER_S
    whole_s = params["lead_s"] + params["tail_s"] + limit_s + 4 * _volume.COMMAND_S
    asked = {
        "store": roles["server"].lifecycle["store"], "folder": FOLDER, "disk": DISKS[params["disk"]],
        "lead_s": params["lead_s"], "tail_s": params["tail_s"], "poll_s": POLL_S, "limit_s": limit_s,
        "bin_s": _rebuild_log.BIN_S, "fio": _load(params, uri, whole_s),
    }  # fmt: skip
    argv = ("python3", "-c", SCRIPT.read_text(encoding="utf-8"), json.dumps(asked))
    return (
        _volume.verb(roles, ("remake",), "prepare"),
        _volume.verb(roles, ("throttle", params["throttle"]), "prepare"),
        _volume.verb(roles, ("serve", params["mode"]), "prepare"),
        _volume.verb(roles, ("fill", used), "prepare", moved_bytes=used),
        _volume.verb(roles, ("drop",), "prepare"),
        Step("settle", "server", ("sleep", f"{SETTLE_S:g}"), phase="prepare"),
        _volume.usage(roles, "before", "prepare"),
        Step("rebuild", "server", argv, timeout_s=whole_s),
        *_volume.rescue(roles),
        Step("remove", "server", ("rm", "-rf", FOLDER), phase="cleanup"),
        _volume.verb(roles, ("throttle", "default"), "cleanup", "unthrottle"),
        _volume.verb(roles, ("empty",), "cleanup"),  # the space of a pool that now only waits is another's
    )


def parse(capture: Capture) -> Measurements:
    """Return times of the rebuild and the load before and during it; `ParseError` when they contradict each other."""
    asked, told = capture.params, _rebuild_log.read(capture, _said(capture.params))
    usage = _volume.said(capture, "usage-before", "usage")
    used = positive(TOOL, "data in the pool", value(TOOL, usage, "pool", "used_B"))
    if used < FILLED * asked["used_bytes"]:
        raise NotAsClaimed(f"{asked['used_bytes']} bytes were filled, but the pool holds {used:.0f}")
    if asked["disk"] != "drawn":
        equal(TOOL, "the disk", told.disk, DISKS[asked["disk"]])
    took_s, before, during = told.clean_s - told.replaced_s, told.before(), told.during()
    return (
        *lower("s", rebuild_s=took_s),
        *higher("B/s", rebuild_B_per_s=used / took_s),
        *lower("s", noticed_s=told.noticed_s),
        *higher("1/s", foreground_iops_before=before.per_s, foreground_iops_during=during.per_s),
        *lower("s", foreground_latency_before_s=before.mean_s, foreground_latency_during_s=during.mean_s),
        *lower("s", foreground_worst_s=during.worst_s, foreground_longest_s=during.longest_s),
    )


def timeline(capture: Capture) -> _rebuild_log.Timeline:
    """Return the course of a trial: the load and what was copied over time, and events."""
    return _rebuild_log.timeline(_rebuild_log.read(capture, _said(capture.params)))


def _said(params: Params) -> Mapping[str, object]:
    """Return the options that fio's report of the load has to repeat."""
    half = params["foreground_iops"] // 2
    return {
        "rw": "randrw", "bs": BLOCK, "iodepth": DEPTH, "size": params["used_bytes"] // MIB * MIB,
        "rate_iops": f"{half},{half}",
    }  # fmt: skip


def _load(params: Params, uri: str, most_s: float) -> tuple[str, ...]:
    return (
        "fio", f"--name={_rebuild_log.LOAD}", "--ioengine=nbd", f"--uri={uri}",
        *(f"--{name}={given}" for name, given in _said(params).items()),
        "--randrepeat=0", "--refill_buffers", "--time_based", f"--runtime={math.ceil(most_s)}",
        "--disable_slat=1", "--disable_clat=1", "--log_unix_epoch=1", "--per_job_logs=0", "--output-format=json",
    )  # fmt: skip
