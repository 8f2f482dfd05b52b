"""What workloads on a population of equal pods share: that it stands, a tool in all of it, what becomes of failed pods.

The role ``control`` makes and removes pods by the commands of its life cycle (`population`, then a verb), and tells how
many fit. The role ``conductor`` is one more pod, in which `ib-pods` (lab/pod/pods) starts a tool in all pods behind a
barrier. ``worker1`` is their node, where a system gives it. Pods stay between trials; those of a
failed one are removed, after what is known of them was kept with the trial.

With ``load`` = ``pairs`` the odd pods serve and each of the even ones asks the one before it; ``first``: only the first
two do, and all others idle.

``cpu_percent`` is the busy share of all CPUs of the node's machine between two readings around the tool: it includes
starting and ending it, and all else that runs there.

What ``ib-pods run`` prints is read strictly. It waits in every pod, all get the same instant, and each notes when it
woke up. Times of a pod are brought to the conductor's clock by the offset that was measured just before: it is right
within half of the round trip that is told beside it, and a trial in which that is long is invalid.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infrabench.core.errors import NotAsClaimed, NotRunnable, ParseError
from infrabench.core.systems import Deployment
from infrabench.core.workloads import Capture, Measurements, Param, Params, Roles, Step, find_missing
from infrabench.workloads import _counters
from infrabench.workloads._parse import at, equal, higher, json_object, lower, positive, quantity, value, whole

PODS = {"pods": Param(10, least=1, meaning="number of pods")}
TOOL = "ib-pods"
LOADS = {"pairs": "all", "first": "first"}  # -> as ib-pods calls it
POPULATION_S = 300.0  # making or removing all pods
COMMAND_S = 60.0  # what needs no work
NO_POPULATIONS = "it makes no populations of pods"
TOGETHER_S = 0.1  # starts that are further apart are no common start
# A pod's clock is compared with the conductor's within half a round trip, and read again after it woke up.
CLOCK_S = 1e-3
ROUND_TRIP_S = 0.01  # the longest over which clocks are compared; 2 ms where twenty of gVisor's pods work
RUN_KEYS = frozenset({"ib_pods", "count", "gate", "pairs", "limit_s", "begun_s", "go_s", "sent_s", "command"})
WHO_KEYS = frozenset({"name", "address", "started_s", "offset_s", "round_trip_s", "error"})
POD_KEYS = WHO_KEYS | {
    "role", "ready_s", "start_s", "end_s", "status", "signal", "timed_out", "user_s", "system_s", "stdout", "stderr",
}  # fmt: skip


def check(params: Params, roles: Roles) -> None:
    """Raise `NotRunnable` for a system without populations, and for more pods than fit; says how many do."""
    pods = params["pods"]
    if "conductor" not in roles or "control" not in roles or "population" not in roles["control"].lifecycle:
        raise NotRunnable(NO_POPULATIONS)
    fit, why = roles["control"].pods, roles["control"].lifecycle.get("pods_reason", ())
    if fit is not None and pods > fit:
        raise NotRunnable(f"{pods} pods do not fit, {fit} do{': ' if why else ''}{' '.join(why)}")


def pairs(params: Params) -> str:
    """Return how ib-pods calls the ``load``; `NotRunnable` where so many pods make no pairs."""
    if params["pods"] < 2 or (params["load"] == "pairs" and params["pods"] % 2):
        raise NotRunnable(f"{params['pods']} pods make no pairs")
    return LOADS[params["load"]]


def conducted(
    params: Params, roles: Roles, tool: Sequence[str], limit_s: float,
    options: Sequence[str] = (), before: Sequence[str] = (), after: Sequence[str] = (),
) -> tuple[Step, ...]:  # fmt: skip
    """Return the steps of a trial that runs `tool` in all pods at once.

    `limit_s` is the longest time for getting ready, and again for the tool; `options` are more of ``ib-pods run``.
    Commands `before` and `after`, where given, run in all pods too, outside of what is measured, as steps of that name.
    """
    check(params, roles)
    return (
        verb(roles, "ensure", "prepare", params["pods"]),
        *_everywhere("before", "prepare", params, before, limit_s),
        *reading(roles, "node-before", "prepare"),
        *_everywhere("run", "measure", params, tool, limit_s, options),
        *reading(roles, "node-after", "cleanup"),
        *_everywhere("after", "cleanup", params, after, limit_s),
        *rescue(roles),
    )


def _everywhere(
    name: str, phase: Any, params: Params, tool: Sequence[str], limit_s: float, options: Sequence[str] = ()
) -> tuple[Step, ...]:
    """Return the step in which all pods run `tool`; none where there is no tool."""
    if not tool:
        return ()
    argv = ("ib-pods", "run", "-n", str(params["pods"]), "-t", f"{limit_s:g}", *options, "--", *tool)
    # A pod that is lost in the middle is given up after twice the limit and the time of a few answers.
    return (Step(name, "conductor", argv, timeout_s=3 * limit_s + COMMAND_S, phase=phase),)


def verb(roles: Roles, name: str, phase: Any, count: int | None = None, step: str = "") -> Step:
    """Return the step in which ``control`` does `name` with its pods; the step is called so unless `step` says else."""
    argv = (*roles["control"].lifecycle["population"], name, *(() if count is None else (str(count),)))
    return Step(step or name, "control", argv, timeout_s=POPULATION_S, phase=phase, host=True)


def rescue(roles: Roles) -> tuple[Step, Step]:
    """Return what happens to the pods of a trial that failed: what is known of them is kept, and they are removed."""
    return (verb(roles, "evidence", "rescue"), verb(roles, "remove", "rescue"))


def reading(roles: Roles, name: str, phase: Any) -> tuple[Step, ...]:
    """Return the step that reads the node's CPU time; none where the system gives no node."""
    if "worker1" not in roles:
        return ()
    argv = ("cat", *roles["worker1"].counters, "/proc/net/dev", "/proc/stat")
    return (Step(name, "worker1", argv, timeout_s=COMMAND_S, phase=phase),)


def needing(*programs: str) -> Callable[[Deployment], str | None]:
    """Return the `supported` of a workload: None, or what a system lacks, populations or `programs` in its pods."""

    def supported(deployment: Deployment) -> str | None:
        return find_missing(deployment, TOOL, *programs) if "conductor" in deployment.targets else NO_POPULATIONS

    return supported


def answer(tool: str, capture: Capture, step: str) -> Mapping[str, Any]:
    """Return the JSON object that a step printed, which has to have succeeded; `tool` is who reads it."""
    return json_object(tool, whole(TOOL, capture, step))


def cpu(capture: Capture) -> Measurements:
    """Return ``cpu_percent`` between the readings of the node; nothing where it was not read."""
    spent = _spent(capture)
    return () if spent is None else lower("%", cpu_percent=100 * spent[0] / spent[1])


def counted_s(capture: Capture) -> float | None:
    """Return the CPU seconds of the node itself between its readings; None where it has no counters of its own."""
    if _spent(capture) is None:
        return None
    counters = capture["node-before"].argv[::-1].index("cat") - 2  # what stands before the two files that all have
    if not counters:
        return None
    return _counters.counted_s(*(whole(TOOL, capture, f"node-{when}") for when in ("before", "after")), counters)


def _spent(capture: Capture) -> tuple[float, float] | None:
    """Return busy and total CPU seconds of the node's machine between its readings; None where there are none."""
    if "node-before" not in capture.steps:
        return None
    return _counters.between(*(_counters.machine(whole(TOOL, capture, f"node-{when}")) for when in ("before", "after")))


@dataclass(frozen=True, slots=True)
class Pod:
    """What one pod did; times in seconds of the conductor's clock."""

    name: str
    address: str
    role: str  # tool, server, client or idle
    offset_s: float  # its clock minus the conductor's
    start_s: float
    end_s: float
    output: str


@dataclass(frozen=True, slots=True)
class Run:
    """One tool in many pods: the instant at which all were to start (conductor's clock), and what each did."""

    go_s: float
    pods: tuple[Pod, ...]

    @property
    def span_s(self) -> float:
        """From the instant at which all were to start until the last tool ended: all did what they did in this time."""
        return max(pod.end_s for pod in self.pods if pod.role in ("tool", "client")) - self.go_s

    def of(self, role: str) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.pods if pod.role == role)


def lines(output: str, count: int) -> list[Mapping[str, Any]]:
    """Return the JSON objects, one a line, before the last line, which proves that nothing is cut off."""
    if output[-1:] != "\n":
        raise ParseError(TOOL, "the last line is cut off", output[-300:])
    rows = [json_object(TOOL, line) for line in output[:-1].split("\n")]
    equal(TOOL, "the last line", rows[-1], {"end": count})
    return rows[:-1]


def read(capture: Capture, gate: str = "exec", paired: str | None = None, step: str = "run") -> Run:
    """Return what ``ib-pods run`` printed; `ParseError` unless every pod did its job, and the one that was asked for.

    `gate` and `paired` are what it was given as ``--gate`` and ``--pairs``; `step` is the one in which it ran.
    """
    params = capture.params
    records = lines(whole(TOOL, capture, step), params["pods"])
    equal(TOOL, "number of pods", len(records) - 1, params["pods"])
    first, *rows = records
    equal(TOOL, "the run's keys", set(first), RUN_KEYS)
    limit_s, command = _given(capture[step].argv)
    for key, expected in (("count", params["pods"]), ("gate", gate), ("pairs", paired), ("command", command)):
        equal(TOOL, key, first[key], expected)
    equal(TOOL, "limit_s", value(TOOL, first, "limit_s"), limit_s)
    go_s = value(TOOL, first, "go_s")
    if not value(TOOL, first, "begun_s") < value(TOOL, first, "sent_s") < go_s:
        raise ParseError(TOOL, "the word to go came after the instant", str(first))
    found = tuple(_pod(row, _role(index, paired)) for index, row in enumerate(rows))
    if len({pod.name for pod in found}) != len(found):
        raise ParseError(TOOL, "a pod is there twice", ", ".join(pod.name for pod in found))
    early = [pod.name for pod in found if pod.role in ("tool", "client") and pod.start_s < go_s - CLOCK_S]
    if gate == "exec" and early:
        raise ParseError(TOOL, f"{', '.join(early)} started before the instant", "")
    return Run(go_s, found)


def greeted(row: Mapping[str, Any]) -> tuple[str, float]:
    """Return name and start (on the conductor's clock) of a pod that ``ib-pods hello`` told."""
    equal(TOOL, "a pod's keys", set(row), WHO_KEYS)
    name, _ = _who(row)
    return name, value(TOOL, row, "started_s") - value(TOOL, row, "offset_s")


def together(starts: Sequence[float], tool: str) -> float:
    """Return how far the first and the last start are apart; `NotAsClaimed` over a tenth of a second."""
    apart_s = max(starts) - min(starts)
    if apart_s > TOGETHER_S:
        raise NotAsClaimed(f"said that all pods start {tool} together, but starts are {apart_s:.3f} s apart")
    return apart_s


def shares(name: str, unit: str, done: Sequence[float], span_s: float, one: str = "pod") -> Measurements:
    """Return what all did in a second of `span_s`, the mean of each `one`, and the least that one did, over that mean.

    The sum of the rates that each tells of itself would be another number, and a wrong one: each counts from its own
    beginning, so that those which begin late add work that was done while others rested already.
    """
    total = positive(TOOL, name, math.fsum(done) / positive(TOOL, "time", span_s))
    lowest_share = min(done) * len(done) / math.fsum(done)
    return (*higher(unit, **{name: total, f"{one}_{name}": total / len(done)}), *higher("1", lowest_share=lowest_share))


def _given(argv: Sequence[str]) -> tuple[float, list[str]]:
    """Return the time limit and the tool's command that ``ib-pods run`` was given."""
    own = list(argv[argv.index(TOOL) :]) if TOOL in argv else []
    if "--" not in own or "-t" not in own:
        raise ParseError(TOOL, "its command has no time limit, or no tool", " ".join(argv))
    end = own.index("--")
    return quantity(TOOL, "limit_s", own[own.index("-t") + 1]), own[end + 1 :]


def _role(index: int, paired: str | None) -> str:
    if paired is None:
        return "tool"
    return "idle" if paired == "first" and index > 1 else ("server", "client")[index % 2]


def _who(row: Mapping[str, Any]) -> tuple[str, str]:
    name, address = (at(TOOL, row, key) for key in ("name", "address"))
    if not isinstance(name, str) or not isinstance(address, str):
        raise ParseError(TOOL, "a pod has no name or address", str(row))
    equal(TOOL, f"error of {name}", at(TOOL, row, "error"), None)
    check_round_trip(name, value(TOOL, row, "round_trip_s"), ROUND_TRIP_S)
    return name, address


def check_round_trip(name: str, round_trip_s: float, longest_s: float) -> None:
    """Raise `NotAsClaimed` when a clock was compared over more than `longest_s`."""
    if abs(round_trip_s) > longest_s:
        raise NotAsClaimed(f"said when {name} did what, but its clock is known within {round_trip_s / 2:.3f} s only")


def _pod(row: Mapping[str, Any], role: str) -> Pod:
    equal(TOOL, "a pod's keys", set(row), POD_KEYS)
    name, address = _who(row)
    equal(TOOL, f"role of {name}", row["role"], role)
    equal(TOOL, f"timed_out of {name}", row["timed_out"], False)
    offset_s = value(TOOL, row, "offset_s")
    if role == "idle":
        return Pod(name, address, role, offset_s, math.nan, math.nan, "")
    if role != "server":  # a server is told to end, as it sees fit
        equal(TOOL, f"signal of {name}", row["signal"], None)
        equal(TOOL, f"status of {name}", row["status"], 0)
    times = [value(TOOL, row, key) for key in ("start_s", "end_s")]
    used = [value(TOOL, row, key) for key in ("user_s", "system_s")]
    if times != sorted(times) or min(used) < 0:
        raise ParseError(TOOL, f"times of {name} are not in order", str(row))
    if not isinstance(row["stdout"], str):
        raise ParseError(TOOL, f"{name} has no output", str(row))
    start_s, end_s = (each - offset_s for each in times)
    return Pod(name, address, role, offset_s, start_s, end_s, row["stdout"])
