"""What workloads on a storage system share: the store's verbs as steps, what its answers say, and its use of CPU.

A *store* is a node that carries a storage system with its clients; a program of ours there does what its `verb` says
and prints one JSON object. ``serve`` gives the volume's *raw area* over NBD, ``mount`` its *file area* as ext4.

``cpu_percent`` is the busy share of all CPUs of the store's machine between two answers of ``usage``, as `/proc/stat`
counts it. Its busy seconds are shared out: those of the storage daemons (proc(5): user and system time of their
processes), and the rest, which is the client: the load itself, the file system, and whatever serves the volume but is
no part of the storage system (librbd in the server of NBD, for Ceph). What else runs on the machine is in the rest too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from infrabench.core import Capture, Deployment, NotRunnable, Param, ParseError, Roles, Step, find_missing
from infrabench.workloads._parse import MIB, at, equal, json_object, positive, value, whole

TOOL = "store"
MODE = Param(
    "default", choices=("default", "strict"),
    meaning="durability: the system's own, or every write on disk when it is acknowledged",
)  # fmt: skip
COMMAND_S = 120.0  # what moves no data
MAKE_S = 420.0  # making a pool, with the old one's removal
SPARE_BYTES = 64 * MIB
SLOWEST_B_PER_S = 4 * MIB  # slower than this is a hang
NO_STORE = "it is no storage system"
NO_COPY = "it has no second copy"
PHASE = Literal["prepare", "measure", "rescue", "cleanup"]


def check(roles: Roles, copies: int = 1) -> None:
    """Raise `NotRunnable` for a system that stores nothing, or not as many copies of it."""
    if "server" not in roles or "store" not in roles["server"].lifecycle:
        raise NotRunnable(NO_STORE)
    if int(roles["server"].lifecycle.get("copies", (str(copies),))[0]) < copies:
        raise NotRunnable(NO_COPY)


def lifecycle(roles: Roles, key: str, otherwise: str) -> tuple[str, ...]:
    """Return what the store says of `key` in its life cycle; `NotRunnable` with the reason where it has none."""
    found = roles["server"].lifecycle.get(key, ())
    if not found:
        raise NotRunnable(otherwise)
    return tuple(found)


def verb(roles: Roles, words: Sequence[object], phase: PHASE, step: str = "", moved_bytes: float = 0) -> Step:
    """Return the step in which the store does `words`: a verb and its arguments; `step` is called so unless it says.

    `moved_bytes`: how much data has to move at most before it is done.
    """
    first = str(words[0])
    timeout_s = (MAKE_S if first in ("create", "remake") else COMMAND_S) + moved_bytes / SLOWEST_B_PER_S
    argv = (*roles["server"].lifecycle["store"], *map(str, words))
    return Step(step or first, "server", argv, timeout_s=timeout_s, phase=phase)


def area_bytes(size: int) -> int:
    """Return how large a file system is made for `size` bytes of files: whole MiB, with what it needs for itself."""
    return (size + size // 10) // MIB * MIB + SPARE_BYTES


def usage(roles: Roles, when: str, phase: PHASE = "measure") -> Step:
    """Return the step that reads what the store has used so far; `used` reads two of them."""
    return verb(roles, ("usage",), phase, f"usage-{when}")


def rescue(roles: Roles) -> tuple[Step, Step]:
    """Return what happens to the store of a trial that failed: what is known of it is kept, and it is made anew."""
    return (verb(roles, ("evidence",), "rescue"), verb(roles, ("remake",), "rescue", "rescue-remake"))


def needing(*programs: str) -> Callable[[Deployment], str | None]:
    """Return the `supported` of a workload: None, or what a system lacks, a store or `programs` on its node."""

    def supported(deployment: Deployment) -> str | None:
        target = deployment.targets.get("server")
        stores = target is not None and "store" in target.lifecycle
        return find_missing(deployment, *programs) if stores else NO_STORE

    return supported


def said(capture: Capture, step: str, verb_name: str) -> Mapping[str, Any]:
    """Return what the store answered in a step; `ParseError` when it failed, or answers another question."""
    answer = json_object(TOOL, whole(TOOL, capture, step))
    equal(TOOL, f"verb of {step}", at(TOOL, answer, "verb"), verb_name)
    begun_s, done_s = (positive(TOOL, f"{key} of {step}", value(TOOL, answer, key)) for key in ("begun_s", "done_s"))
    if done_s < begun_s:
        raise ParseError(TOOL, f"{step} ended before it began", str(answer))
    return answer


@dataclass(frozen=True, slots=True)
class Used:
    """CPU seconds between two readings: of the storage daemons, of all processes, and of all CPUs, idle or not."""

    storage_s: float
    busy_s: float
    total_s: float

    @property
    def client_s(self) -> float:
        """Busy seconds that are not the storage daemons'; counters of processes and of CPUs differ by some ticks."""
        return max(self.busy_s - self.storage_s, 0.0)

    @property
    def percent(self) -> float:
        return 100 * self.busy_s / self.total_s


def used(capture: Capture, before: str, after: str) -> Used:
    """Return what was used between two readings; `ParseError` when a daemon came, went, or counts backwards."""
    first, last = (said(capture, f"usage-{when}", "usage") for when in (before, after))
    if value(TOOL, last, "begun_s") < value(TOOL, first, "done_s"):
        raise ParseError(TOOL, f"usage-{after} was read before usage-{before}", str(last))
    storage = [_cpu(answer) for answer in (first, last)]
    equal(TOOL, "the storage daemons", sorted(storage[1]), sorted(storage[0]))
    spent = {name: storage[1][name] - storage[0][name] for name in storage[0]}
    busy_s, total_s = (
        value(TOOL, last, "machine", key) - value(TOOL, first, "machine", key) for key in ("busy_s", "total_s")
    )
    if min(spent.values()) < 0 or busy_s < 0 or not total_s > 0:
        raise ParseError(TOOL, f"counters went backwards between usage-{before} and usage-{after}", str((first, last)))
    return Used(sum(spent.values()), busy_s, max(total_s, busy_s))  # idle time may be counted back a little


def _cpu(answer: Mapping[str, Any]) -> Mapping[str, float]:
    """Return CPU seconds of each storage daemon by its name; there is one at least."""
    daemons = at(TOOL, answer, "storage")
    if not isinstance(daemons, dict) or not daemons:
        raise ParseError(TOOL, "it names no storage daemons", str(answer))
    return {name: value(TOOL, daemons, name, "cpu_s") for name in daemons}
