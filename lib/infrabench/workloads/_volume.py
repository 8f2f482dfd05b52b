"""What workloads on a storage system share: the store's verbs as steps, what its answers say, and its use of CPU.

A *store* is a node that carries a storage system with its clients; a program of ours there does what its `verb` says
and prints one JSON object. ``serve`` gives the volume's *raw area* over NBD, ``mount`` its *file area* as ext4.

``placement`` says where the client is. On the ``same-node``, all of this is one node. With ``two-nodes`` the client is
on another one, which has the store's program too, and reaches the store over the network by the system's own protocol:
librbd's for Ceph, NBD for the others. The devices of both nodes are read around what is measured: where they have not
counted the bytes that the client moved, these did not cross the network, and the trial is invalid. A command of the
client is ended, and its trial failed, when the store has not answered for some seconds.

``cpu_percent`` is the busy share of all CPUs of the store's machine between two answers of ``usage``, as `/proc/stat`
counts it. Its busy seconds are shared out: those of the storage daemons (proc(5): user and system time of their
processes), and the rest, which is the client: the load itself, the file system, and whatever serves the volume but is
no part of the storage system (librbd in the server of NBD, for Ceph). What else runs on the machine is in the rest too.
Where the client is on another machine, the busy seconds of that one are the client's as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from infrabench.core.errors import NotAsClaimed, NotRunnable, ParseError
from infrabench.core.systems import Deployment
from infrabench.core.workloads import Capture, Param, Params, Roles, Step, Steps, add_up, find_missing
from infrabench.workloads import _counters
from infrabench.workloads._parse import MIB, at, equal, json_object, positive, value, whole

TOOL = "store"
MODE = Param(
    "default", choices=("default", "strict"),
    meaning="durability: the system's own, or every write on disk when it is acknowledged",
)  # fmt: skip
PLACEMENT = Param("same-node", choices=("same-node", "two-nodes"), meaning="where the store and its client are")
COMMAND_S = 120.0  # what moves no data
MAKE_S = 420.0  # making a pool, with the old one's removal
SPARE_BYTES = 64 * MIB
LEAST_MOVED_BYTES = 200_000  # far more than nodes say besides in a run: the commands themselves, a question a second
SLOWEST_B_PER_S = 4 * MIB  # slower than this is a hang
NO_STORE = "it is no storage system"
NO_COPY = "it has no second copy"
NO_CLIENT = "its client has no node of its own here"
PHASE = Literal["prepare", "measure", "rescue", "cleanup"]


def check(roles: Roles, copies: int = 1) -> None:
    """Raise `NotRunnable` for a system that stores nothing, or not as many copies of it."""
    if "server" not in roles or "store" not in roles["server"].lifecycle:
        raise NotRunnable(NO_STORE)
    if int(roles["server"].lifecycle.get("copies", (str(copies),))[0]) < copies:
        raise NotRunnable(NO_COPY)


def lifecycle(roles: Roles, key: str, otherwise: str, role: str = "server") -> tuple[str, ...]:
    """Return what the store, or its client, says of `key` in its life cycle; `NotRunnable` where it has none."""
    found = roles[role].lifecycle.get(key, ())
    if not found:
        raise NotRunnable(otherwise)
    return tuple(found)


def verb(
    roles: Roles, words: Sequence[object], phase: PHASE, step: str = "", moved_bytes: float = 0,
    role: str = "server", store: str = "store",
) -> Step:  # fmt: skip
    """Return the step in which the store does `words`: a verb and its arguments; `step` is called so unless it says.

    `moved_bytes`: how much data has to move at most before it is done. `role` and `store`: whose program does it, and
    what it is called in the life cycle there.
    """
    first = str(words[0])
    timeout_s = (MAKE_S if first in ("create", "remake") else COMMAND_S) + moved_bytes / SLOWEST_B_PER_S
    argv = (*roles[role].lifecycle[store], *map(str, words))
    return Step(step or first, role, argv, timeout_s=timeout_s, phase=phase)


def area_bytes(size: int) -> int:
    """Return how large a file system is made for `size` bytes of files: whole MiB, with what it needs for itself."""
    return (size + size // 10) // MIB * MIB + SPARE_BYTES


def rescue(roles: Roles) -> tuple[Step, Step]:
    """Return what happens to the store of a trial that failed: what is known of it is kept, and it is made anew."""
    return (verb(roles, ("evidence",), "rescue"), verb(roles, ("remake",), "rescue", "rescue-remake"))


@dataclass(frozen=True, slots=True)
class Client:
    """The client of a trial: the `role` whose node it is on, and the steps that hang on that."""

    roles: Roles
    role: Literal["server", "client"]

    @property
    def is_apart(self) -> bool:
        return self.role == "client"

    @property
    def _store(self) -> str:
        """What the store's program is called in its life cycle: apart, it listens to the client's node."""
        return "store-listens" if self.is_apart else "store"

    def _own(self, words: Sequence[object], phase: PHASE, step: str = "") -> Steps:
        """Return the step in which the client's own program does `words`, where it is apart; else none."""
        name = f"client-{step or words[0]}"
        return (verb(self.roles, words, phase, name, role="client"),) if self.is_apart else ()

    def lifecycle(self, key: str, otherwise: str) -> tuple[str, ...]:
        """Return what the client has to reach the volume by, see `lifecycle`."""
        return lifecycle(self.roles, key, otherwise, self.role)

    def serve(self, mode: str) -> Steps:
        """Return the steps after which the volume is served where the client is."""
        served = verb(self.roles, ("serve", mode), "prepare", store=self._store)
        return (served, *self._own(("serve", mode), "prepare"))

    def fill(self, size: int) -> Step:
        """Return the step that fills the raw area, from the store's own node, where it is served."""
        return verb(self.roles, ("fill", size), "prepare", moved_bytes=size, store=self._store)

    def mount(self, mode: str, size: int) -> Steps:
        """Return the steps after which the file area is mounted where the client is."""
        step = verb(self.roles, ("mount", mode, size), "prepare", moved_bytes=size, role=self.role)
        return (verb(self.roles, ("serve", mode), "prepare", store=self._store), step) if self.is_apart else (step,)

    def drop(self, phase: PHASE = "prepare", step: str = "drop") -> Steps:
        """Return the steps that make all cold: first what the client holds, then the store."""
        return (*self._own(("drop",), phase, step), verb(self.roles, ("drop",), phase, step, store=self._store))

    def read(self, when: str) -> Steps:
        """Return the steps that read usage, and apart the devices on the way; `when` begins ``before`` or ``after``."""
        steps = (*self.read_link(when), verb(self.roles, ("usage",), "measure", f"usage-{when}", store=self._store))
        return steps if when.startswith("before") else steps[::-1]

    def read_link(self, when: str, phase: PHASE = "measure") -> Steps:
        """Return the steps that read the devices on the way and what the client has used; none on the same node."""
        if not self.is_apart:
            return ()
        links = {role: _counters.reading(self.roles[role], ()) for role in ("server", "client")}
        return (
            *(Step(f"link-{role}-{when}", role, argv, timeout_s=15.0, phase=phase) for role, argv in links.items()),
            *self._own(("usage",), phase, f"usage-{when}"),
        )

    def command(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Return a command of the client; apart it ends when the store does not answer any more."""
        return (*self.lifecycle("watch", NO_CLIENT), *argv) if self.is_apart else tuple(argv)

    def unmount(self, size: int) -> Step:
        """Return the step that unmounts what `mount` has mounted."""
        return verb(self.roles, ("unmount",), "cleanup", moved_bytes=size, role=self.role)

    def rescue(self) -> Steps:
        """Return what happens to the store of a trial that failed, see `rescue`, and before it to its client."""
        return (*self._own(("evidence",), "rescue"), *self._own(("remake",), "rescue"), *rescue(self.roles))


def place_client(params: Params, roles: Roles) -> Client:
    """Return the client of a trial; `NotRunnable` where the system has none on a node of its own and needs one."""
    if params["placement"] == "same-node":
        return Client(roles, "server")
    if "store-listens" not in roles["server"].lifecycle:
        raise NotRunnable(NO_CLIENT)
    return Client(roles, "client")


def check_link(capture: Capture, before: str, after: str, received_bytes: float = 0, sent_bytes: float = 0) -> None:
    """Raise `NotAsClaimed` unless what a client on another node moved crossed the network between two readings.

    The bytes are payload; the devices of both ends have to have counted nine tenths of them, in their direction.
    Nothing is asked where the client was on the store's own node.
    """
    if capture.params.get("placement", "same-node") == "same-node":
        return
    moved = (received_bytes, sent_bytes)
    if max(moved) < LEAST_MOVED_BYTES:
        raise NotAsClaimed(f"said two nodes, but {max(moved):.0f} B are too few to tell which way they went")
    ends: Sequence[tuple[str, str, Sequence[Literal["in", "out"]]]] = (
        ("client", "the client", ("in", "out")), ("server", "the store", ("out", "in")),
    )  # fmt: skip
    for role, name, ways in ends:
        steps = [f"link-{role}-{when}" for when in (before, after)]
        device = _counters.claimed(capture, steps[0])["devices"]["uplink"]
        passed = _counters.moved(*(whole(_counters.TOOL, capture, step) for step in steps), device)
        for size, way in zip(moved, ways, strict=True):
            amount = _counters.Amount(size, "B")
            _counters.check_passed("two nodes", f"{device} of {name}", amount, passed, way)


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
    """CPU seconds between two readings: of the storage daemons, of all processes, and of all CPUs, idle or not.

    They are of the store's machine; `apart_s` are busy ones of another machine, where the client is on such a one.
    """

    storage_s: float
    busy_s: float
    total_s: float
    apart_s: float = 0.0

    @property
    def client_s(self) -> float:
        """Busy seconds that are not the storage daemons'; counters of processes and of CPUs differ by some ticks."""
        return max(self.busy_s - self.storage_s, 0.0) + self.apart_s

    @property
    def percent(self) -> float:
        return 100 * self.busy_s / self.total_s


def used(capture: Capture, before: str, after: str) -> Used:
    """Return what was used between two readings; `ParseError` when a daemon came, went, or counts backwards."""
    first, last = (said(capture, f"usage-{when}", "usage") for when in (before, after))
    if value(TOOL, last, "begun_s") < value(TOOL, first, "done_s"):
        raise ParseError(TOOL, f"usage-{after} was read before usage-{before}", str(last))
    first = at(TOOL, first, "done") if "done" in first else first  # read after what the question itself took
    storage = [_cpu(answer) for answer in (first, last)]
    equal(TOOL, "the storage daemons", sorted(storage[1]), sorted(storage[0]))
    spent = {name: storage[1][name] - storage[0][name] for name in storage[0]}
    busy_s, total_s = (
        value(TOOL, last, "machine", key) - value(TOOL, first, "machine", key) for key in ("busy_s", "total_s")
    )
    if min(spent.values()) < 0 or busy_s < 0 or not total_s > 0:
        raise ParseError(TOOL, f"counters went backwards between usage-{before} and usage-{after}", str((first, last)))
    # Idle time may be counted back a little.
    return Used(add_up(spent.values()), busy_s, max(total_s, busy_s), _busy_apart_s(capture, before, after))


def moved(capture: Capture, before: str, after: str) -> tuple[float, float]:
    """Return the bytes that the file area of a client on another node has read and written between two readings."""
    first, last = (said(capture, f"client-usage-{when}", "usage") for when in (before, after))
    read, written = (
        value(TOOL, last, "area", key) - value(TOOL, first, "area", key) for key in ("read_B", "written_B")
    )
    if min(read, written) < 0:
        raise ParseError(TOOL, "counters of the file area went backwards", str((first, last)))
    return read, written


def _busy_apart_s(capture: Capture, before: str, after: str) -> float:
    """Return the busy seconds of the client's machine, where that is not the store's: nodes of a lab share one."""
    if f"client-usage-{before}" not in capture.steps:
        return 0.0
    answers = [said(capture, f"client-usage-{when}", "usage") for when in (before, after)]
    kernels = {at(TOOL, each, "boot_id") for each in (*answers, said(capture, f"usage-{before}", "usage"))}
    if len(kernels) == 1:
        return 0.0
    first, last = (value(TOOL, each, "machine", "busy_s") for each in answers)
    if last < first:
        raise ParseError(TOOL, "the counters of the client's machine went backwards", str(answers))
    return last - first


def _cpu(answer: Mapping[str, Any]) -> Mapping[str, float]:
    """Return CPU seconds of each storage daemon by its name; there is one at least."""
    daemons = at(TOOL, answer, "storage")
    if not isinstance(daemons, dict) or not daemons:
        raise ParseError(TOOL, "it names no storage daemons", str(answer))
    return {name: value(TOOL, daemons, name, "cpu_s") for name in daemons}
