"""pods-startup: how long many pods take to start and to go, end to end and at the runtime, and what each holds.

All pods go, their node rests, all are made again at once, and the node rests again. Metrics, of one pod on average
unless said otherwise:

* ``ready_s``: from when the API tells of the first of them until it says that the pod is Ready; ``ready_p50_s`` and
  ``ready_p90_s``: until it says so of half of them, and of nine tenths; ``all_ready_s``: of the last;
  ``first_instruction_s``: until the pod's main program runs, by its own clock, brought to the
  conductor's and then to that of the machine which hears the API. How far these two are apart is measured in each
  trial, within half of a round trip, and a trial in which that is long is invalid.
* ``sandbox_s``, ``create_s``, ``start_s``: what the runtime took for the sandbox, for the container, and for its start,
  as the kubelet counted it (``kubelet_runtime_operations_duration_seconds``); ``runtime_s``: the three together. They
  share the work differently (CRI-O calls the low-level runtime when it creates a container, containerd when it starts
  one), so only the last compares two of them. A runtime that made another number of
  them than there are pods served others as well, or tried again: that trial is invalid.
* ``cpu_s``: CPU time of the node from before their creation until the last is Ready (where its counters are known).
* ``memory_B_per_pod``: what the node's cgroup holds more, anonymous and shared memory and the kernel's; on a node whose
  cgroup cannot be read, what its machine has available less, which is rough for few pods.
* ``teardown_s``: from when the API tells that the first is to go until the last is gone; ``gone_p50_s`` and
  ``gone_p90_s``: until half of them are gone, and nine tenths; ``stop_s``: what the runtime took to stop the sandbox.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from infrabench.core import Capture, Measurements, NotAsClaimed, Param, Params, ParseError, Roles, Step, Steps
from infrabench.workloads import _pods
from infrabench.workloads._parse import KIB, at, equal, items, lower, number, positive, value, whole

VERSION = ("ib-pods", "--version"), r"^ib-pods (\S+)$"
PARAMS = {**_pods.PODS, "settle_s": Param(2.0, least=0, unit="s", meaning="rest of the node before it is read")}
TOOL = "population"
CRI = {"sandbox_s": "run_podsandbox", "create_s": "create_container", "start_s": "start_container"}
STOP = "stop_podsandbox"
MEMINFO = r"^MemAvailable: +([0-9]+) kB$"
COUNTED = ("count", "seconds")
ROUND_TRIP_S = 0.05  # longest through the API to the conductor that its clock is compared over
LATEST_S = 10.0  # that a program may begin after its pod is Ready, where all wait for a processor
supported = _pods.needing()
PERCENT = (50, 90)
TIMES = (
    "first_instruction_s", "ready_s", *(f"ready_p{each}_s" for each in PERCENT), "all_ready_s", *CRI, "runtime_s",
    *(f"gone_p{each}_s" for each in PERCENT), "teardown_s", "stop_s", "cpu_s",
)  # fmt: skip
METRICS = {**dict.fromkeys(TIMES, "time"), "memory_B_per_pod": "quantity"}


def plan(params: Params, roles: Roles) -> Steps:
    """Return the removal of all pods, what the node holds, their creation, and what the node holds then."""
    _pods.check(params, roles)
    pods = params["pods"]
    rest = ("sleep", f"{params['settle_s']:g}")
    return (
        _pods.verb(roles, "ensure", "prepare", pods),
        _pods.verb(roles, "remove", "measure", step="teardown"),
        _pods.verb(roles, "calls", "measure", step="calls-before"),
        Step("rest", "conductor", rest, timeout_s=params["settle_s"] + _pods.COMMAND_S),
        *_memory(roles, "before"),
        *_pods.reading(roles, "node-before", "measure"),
        _pods.verb(roles, "create", "measure", pods),
        *_pods.reading(roles, "node-after", "measure"),
        # The kubelet's own figures and a command in a pod cost its node time, too.
        _pods.verb(roles, "calls", "measure", step="calls-after"),
        Step("settle", "conductor", rest, timeout_s=params["settle_s"] + _pods.COMMAND_S),
        *_memory(roles, "after"),
        _pods.verb(roles, "clock", "measure"),
        Step("hello", "conductor", ("ib-pods", "hello", "-n", str(pods)), timeout_s=_pods.COMMAND_S),
        *_pods.rescue(roles),
    )


def parse(capture: Capture) -> Measurements:
    """Return times and sizes; `NotAsClaimed` when the runtime made more, or fewer, than these pods."""
    pods = capture.params["pods"]
    removal, creation = _verb(capture, "teardown", "remove", "gone_s"), _verb(capture, "create", "create", "ready_s")
    begun_s, ready = value(TOOL, creation, "begun_s"), _times(creation, "ready_s")
    gone, going_s = _times(removal, "gone_s"), value(TOOL, removal, "begun_s")
    first = _first_instructions(capture, begun_s, ready)
    made = _operations(capture, creation)
    calls = {name: _operation(made, operation, pods, exact=True) / pods for name, operation in CRI.items()}
    times = {
        "first_instruction_s": math.fsum(first.values()) / pods - begun_s,
        "ready_s": math.fsum(ready.values()) / pods - begun_s,
        **{f"ready_p{each}_s": _percentile(ready, each) - begun_s for each in PERCENT},
        "all_ready_s": max(ready.values()) - begun_s,
        **calls,
        "runtime_s": math.fsum(calls.values()),
        **{f"gone_p{each}_s": _percentile(gone, each) - going_s for each in PERCENT},
        "teardown_s": max(gone.values()) - going_s,
        "stop_s": _operation(at(TOOL, removal, "cri"), STOP, pods, exact=False) / pods,
    }
    used_s = _pods.counted_s(capture)
    return (
        *lower("s", **{name: positive(TOOL, name, time_s) for name, time_s in times.items()}),
        *(() if used_s is None else lower("s", cpu_s=used_s / pods)),
        *lower("B", memory_B_per_pod=_held_bytes(capture) / pods),
    )


def _memory(roles: Roles, when: str) -> Steps:
    """Return the steps that read what the node holds, and what it has available."""
    free = Step(f"free-{when}", "conductor", ("cat", "/proc/meminfo"), timeout_s=_pods.COMMAND_S)
    if "worker1" not in roles or "memory" not in roles["worker1"].lifecycle:
        return (free,)
    argv = roles["worker1"].lifecycle["memory"]
    return (Step(f"memory-{when}", "worker1", argv, timeout_s=_pods.COMMAND_S, host=True), free)


def _verb(capture: Capture, step: str, verb: str, key: str) -> Mapping[str, Any]:
    """Return what a verb printed; it has to be of all pods, each once, and its times between its begin and its end."""
    said = _pods.answer(TOOL, capture, step)
    equal(TOOL, "verb", at(TOOL, said, "verb"), verb)
    equal(TOOL, f"count of {verb}", at(TOOL, said, "count"), capture.params["pods"])
    times = _times(said, key)
    equal(TOOL, f"pods of {verb}", len(times), capture.params["pods"])
    begun_s, done_s = (value(TOOL, said, each) for each in ("begun_s", "done_s"))
    if not begun_s < min(times.values()) or max(times.values()) > done_s:
        raise ParseError(TOOL, f"times of {verb} are not between its begin and its end", str(said))
    return said


def _times(said: Mapping[str, Any], key: str) -> Mapping[str, float]:
    """Return each pod's time by its name."""
    pods = items(TOOL, said, "pods")
    found = {str(at(TOOL, pods, index, "name")): value(TOOL, pods, index, key) for index in range(len(pods))}
    equal(TOOL, "pods with a name of their own", len(found), len(pods))
    return found


def _percentile(times: Mapping[str, float], percent: int) -> float:
    """Return the time by which so many percent of the pods were there, or gone: that of one of them."""
    return sorted(times.values())[math.ceil(percent * len(times) / 100) - 1]


def _operations(capture: Capture, creation: Mapping[str, Any]) -> Any:
    """Return count and seconds of each operation while pods were made; older sessions have them with the creation."""
    if "calls-before" not in capture.steps:
        return at(TOOL, creation, "cri")
    before, after = (_pods.answer(TOOL, capture, f"calls-{when}") for when in ("before", "after"))
    return {
        name: {key: value(TOOL, after, "cri", name, key) - value(TOOL, before, "cri", name, key) for key in COUNTED}
        for name in CRI.values()
    }


def _operation(cri: Any, operation: str, pods: int, exact: bool) -> float:
    """Return the seconds of all calls of an operation; a kubelet may stop a sandbox again that is stopped."""
    count, seconds = (value(TOOL, cri, operation, key) for key in COUNTED)
    if count < pods or (exact and count != pods):
        raise NotAsClaimed(f"the kubelet counted {count:g} times {operation} for {pods} pods")
    return seconds


def _first_instructions(capture: Capture, begun_s: float, ready: Mapping[str, float]) -> Mapping[str, float]:
    """Return when each pod's main program began, on the clock of the machine that hears the API."""
    ahead_s = 0.0  # in older sessions, all of the lab: conductor and API stood on one machine
    if "clock" in capture.steps:
        clock = _pods.answer(TOOL, capture, "clock")
        ahead_s = value(TOOL, clock, "offset_s")
        _pods.check_round_trip("the conductor", value(TOOL, clock, "round_trip_s"), ROUND_TRIP_S)
    rows = _pods.lines(whole(_pods.TOOL, capture, "hello"), capture.params["pods"])
    first = {name: at_s - ahead_s for name, at_s in map(_pods.greeted, rows)}
    equal(TOOL, "pods that answered", set(first), set(ready))
    # Without a probe of its own a pod is Ready as soon as its runtime says that it was started.
    strange = [name for name, at_s in first.items() if not begun_s < at_s < ready[name] + LATEST_S]
    if strange:
        raise ParseError(
            TOOL, "a pod began before it was asked for, or long after it was ready: clocks differ, or it began again",
            f"{strange[0]}: {begun_s:.3f}, {first[strange[0]]:.3f}, {ready[strange[0]]:.3f}",
        )  # fmt: skip
    return first


def _held_bytes(capture: Capture) -> float:
    """Return what all pods hold; may be below 0, where something else on the machine gave back more."""
    texts = {name: whole(_pods.TOOL, capture, name) for name in ("free-before", "free-after")}
    before, after = (KIB * number(TOOL, "MemAvailable", MEMINFO, each) for each in texts.values())
    if "memory-before" not in capture.steps:
        return before - after
    before, after = (
        value(TOOL, _pods.answer(TOOL, capture, f"memory-{when}"), "used_B") for when in ("before", "after")
    )
    return after - before
