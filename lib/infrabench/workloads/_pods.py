"""What workloads on a population of equal pods share: that it stands, a tool in all of it, what becomes of failed pods.

The role ``control`` makes and removes pods by the commands of its life cycle (`population`, then a verb), and tells how
many fit. The role ``conductor`` is one more pod, in which `ib-pods` (lab/pod/pods) starts a tool in all pods behind a
barrier: see `_conducted`. ``worker1`` is their node, where a system gives it. Pods stay between trials; those of a
failed one are removed, after what is known of them was kept with the trial.

With ``load`` = ``pairs`` the odd pods serve and each of the even ones asks the one before it; ``first``: only the first
two do, and all others idle.

``cpu_percent`` is the busy share of all CPUs of the node's machine between two readings around the tool: it includes
starting and ending it, and all else that runs there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from infrabench.core import Capture, Deployment, Measurements, NotRunnable, Param, Params, Roles, Step, find_missing
from infrabench.workloads import _counters
from infrabench.workloads._parse import lower, positive, whole

PODS = {"pods": Param(10, least=1, meaning="number of pods")}
TOOL = "ib-pods"
LOADS = {"pairs": "all", "first": "first"}  # -> as ib-pods calls it
POPULATION_S = 300.0  # making or removing all pods
COMMAND_S = 60.0  # what needs no work
NO_POPULATIONS = "it makes no populations of pods"


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
    options: Sequence[str] = (),
) -> tuple[Step, ...]:  # fmt: skip
    """Return the steps of a trial that runs `tool` in all pods at once.

    `limit_s` is the longest time for getting ready, and again for the tool; `options` are more of ``ib-pods run``.
    """
    check(params, roles)
    argv = ("ib-pods", "run", "-n", str(params["pods"]), "-t", f"{limit_s:g}", *options, "--", *tool)
    # A pod that is lost in the middle is given up after twice the limit and the time of a few answers.
    run = Step("run", "conductor", argv, timeout_s=3 * limit_s + COMMAND_S)
    return (
        verb(roles, "ensure", "prepare", params["pods"]),
        *reading(roles, "node-before", "prepare"),
        run,
        *reading(roles, "node-after", "cleanup"),
        *rescue(roles),
    )


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
    used = [_counters.counted_s(whole(TOOL, capture, f"node-{when}"), counters) for when in ("before", "after")]
    return positive(TOOL, "CPU time", used[1] - used[0])


def _spent(capture: Capture) -> tuple[float, float] | None:
    """Return busy and total CPU seconds of the node's machine between its readings; None where there are none."""
    if "node-before" not in capture.steps:
        return None
    return _counters.between(*(_counters.machine(whole(TOOL, capture, f"node-{when}")) for when in ("before", "after")))
