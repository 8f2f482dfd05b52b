"""The vocabulary: frozen dataclasses, protocols and exceptions. Standard library only.

Every other module speaks in these words and nothing here imports another part of the package, so a plug-in
that knows this file knows its whole contract.

Units in data are SI base units, named in the suffix: ``duration_s``, ``memory_bytes``.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, fields, replace
from types import NoneType
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

T = TypeVar("T")
LONGEST_NAME = 200  # characters of anything that people name

# --------------------------------------------------------------------------------------------- exceptions


class InfrabenchError(Exception):
    """Base of every error this package raises on purpose: says what, where, and what to try."""

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook shows below the cell: the sentence alone. IPython asks for it by this name."""
        return [f"{type(self).__name__}: {self}"]


class DesignError(InfrabenchError):
    """A study, parameter, profile or plan that cannot be carried out as asked."""


class SiteError(InfrabenchError):
    """A site or host that cannot be reached or used."""


class ProvisionError(InfrabenchError):
    """A lab, node, image or system that could not be made ready."""


class NotRunnable(InfrabenchError):
    """A system that cannot run on this site; the message is the reason shown as ``not run: reason``."""


class NotAsClaimed(InfrabenchError):
    """A trial whose own evidence says that it did not measure what it claims (traffic took another path): invalid."""


class LedgerError(InfrabenchError):
    """A session folder that is damaged or does not belong to the plan; never repaired by guessing."""


class Interrupted(InfrabenchError):
    """A run that its user stopped in a notebook: what is recorded is safe, and the same cell goes on."""


class SchemaError(InfrabenchError):
    """A table whose columns, types or values are not those that the analysis expects."""


class CommandFailed(InfrabenchError):
    """A command that had to succeed did not. Carries the `Result`."""

    def __init__(self, result: Result, where: str = "") -> None:
        self.result = result
        self.where = where
        tail = (result.stderr or result.stdout).decode("utf-8", "replace").strip()[-800:]
        at = f" on {where}" if where else ""
        command = " ".join(" ".join(arg.split())[:60] for arg in result.argv[:12])
        command = command if len(command) <= 120 else f"{command[:117]}..."
        super().__init__(f"{command}{at} {result.ending} after {result.duration_s:.1f} s: {tail or 'no output'}")


class ParseError(InfrabenchError):
    """A tool's output that does not say what it should. `excerpt` is the text that was looked at."""

    def __init__(self, tool: str, what: str, excerpt: str | bytes = "") -> None:
        if isinstance(excerpt, bytes):
            excerpt = excerpt.decode("utf-8", "replace")
        self.tool, self.what, self.excerpt = tool, what, excerpt.strip()[:400]
        super().__init__(f"{tool}: {what}" + (f" in: {self.excerpt!r}" if self.excerpt else " in empty output"))


# ----------------------------------------------------------------------------------------- hosts, targets


@dataclass(frozen=True, slots=True)
class Result:
    """What one command did. `status` is None when it never reported one (timeout, flood, lost connection)."""

    argv: tuple[str, ...]
    status: int | None
    stdout: bytes
    stderr: bytes
    started_s: float  # Unix time on the controlling machine
    duration_s: float  # monotonic, controlling machine
    timed_out: bool = False
    flooded: bool = False  # it was stopped because it said more than any tool does; only the beginning is kept

    @property
    def ok(self) -> bool:
        return self.status == 0 and not self.timed_out

    @property
    def ending(self) -> str:
        """Return in words how it ended."""
        if self.timed_out:
            return "timed out"
        return "was stopped for a flood of output" if self.flooded else f"exited with {self.status}"


@runtime_checkable
class Host(Protocol):
    """A machine where argv lists run: over one SSH connection, or the local machine."""

    name: str
    address: str

    def run(self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"") -> Result:
        """Run `argv` (no shell) and return its `Result`; does not raise on a non-zero status.

        Raises `SiteError` when the host itself is unreachable.
        """
        ...

    def stream(self, argv: Sequence[str]) -> AbstractContextManager[Stream]:
        """Start a long-lived process whose stdin and stdout stay connected until the context ends."""
        ...

    def put(self, data: bytes, path: str, mode: int = 0o644) -> None:
        """Write `data` to `path` on the host, whole or not at all; parent directories are made."""
        ...

    def get(self, path: str) -> bytes:
        """Return the bytes of the file `path` on the host; `CommandFailed` when it cannot be read."""
        ...

    def forward(self, socket_path: str) -> AbstractContextManager[str]:
        """Yield a local unix-socket path that reaches the host's unix socket `socket_path` (for SDKs)."""
        ...

    def close(self) -> None: ...


class Stream(Protocol):
    """The two ends of a long-lived process, line by line."""

    def write_line(self, line: str) -> None: ...

    def read_line(self, timeout_s: float) -> str:
        """Return the next line without its newline; raises `TimeoutError`, or `EOFError` at the end."""
        ...


@dataclass(frozen=True, slots=True)
class Target:
    """A place where a command runs: a host plus an argv prefix, for one role.

    `address` is where a client reaches services of this target. `lifecycle` holds argv lists that run on the
    *host* and make or remove a fresh throw-away instance of the system (used by `startup`); its keys are
    ``create``, ``exec`` (a prefix), ``remove`` and the value of ``address`` is a one-element tuple.

    A target that has several ways in names them in `addresses`: ``primary`` (which is `address`), ``second`` (of a
    second interface), ``service``. `devices` names network devices by what they are for: inside a pod ``primary`` and
    ``second``; on a node ``uplink`` (to the other node) and ``overlay`` (encapsulates; absent where nothing does).
    `counters` are files that tell the CPU time which the target has used so far (of a node: its cgroup's). `pods` is
    how many pods the target can hold at once, where it makes them.
    """

    role: str
    host: Host
    prefix: tuple[str, ...] = ()
    address: str = "127.0.0.1"
    lifecycle: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    addresses: Mapping[str, str] = field(default_factory=dict)
    devices: Mapping[str, str] = field(default_factory=dict)
    counters: tuple[str, ...] = ()
    pods: int | None = None

    def run(self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"") -> Result:
        """Run `argv` inside the target. The time limit is also kept inside, so nothing outlives it there."""
        inner = ("timeout", "-k", "5", f"{timeout_s:g}", *argv)
        result = self.host.run((*self.prefix, *inner), timeout_s=timeout_s + 10, stdin=stdin)
        # Killed, timeout(1) ends as its command did: a shell says 137, this machine's own kernel -9.
        if result.status in (124, 137, -9) and result.duration_s >= timeout_s:
            return Result(result.argv, None, result.stdout, result.stderr, result.started_s, result.duration_s, True)
        return result

    def check(self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"") -> bytes:
        """Return stdout of a command that has to succeed; raises `CommandFailed`."""
        result = self.run(argv, timeout_s=timeout_s, stdin=stdin)
        if not result.ok:
            raise CommandFailed(result, f"{self.role} {self.host.name}")
        return result.stdout


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits set alike for every system and verified from inside the target."""

    cpus: str = ""  # a Linux CPU list such as "0-1"; empty: every CPU of the host
    memory_bytes: int = 4 * 2**30
    nofile: int = 16384  # room for 8000 connections, below the hard limit of common hosts


@dataclass(frozen=True, slots=True)
class DeploySpec:
    """What a system is asked to make: equal for every system of a session."""

    session: str  # label put on everything that is made
    limits: Limits
    address: str  # the address that the target should answer on, inside the guest network
    disk_bytes: int = 0  # most space that one trial of the plan needs inside its target
    to_make: int = 1  # how many systems of the session are still to be made, this one included


@dataclass
class Deployment:
    """A system made ready on a site."""

    system: str
    targets: Mapping[str, Target]
    facts: Mapping[str, Any]  # versions, storage driver, network mode, effective limits
    pause: Any = None  # () -> None; both None when the system has nothing to pause
    resume: Any = None


@dataclass(frozen=True, slots=True)
class Machines:
    """Hosts that a system has for its own, and where on them its programs and images lie.

    Of a cluster the hosts are ``control``, ``worker1``, ``worker2``; of a store there is one, ``store``.

    `pause` and `resume` freeze and thaw all of them at once; None where that cannot be had.
    """

    hosts: Mapping[str, Host]  # by role
    tools: Mapping[str, str]  # part (kubernetes, etcd, ...) -> folder on every host
    images: Mapping[str, tuple[str, str]]  # kind (pause, tools) -> name of the image, path of its archive on every host
    embedded: bool  # nodes of the lab, that go away whole; else hosts that have to be left as they were found
    pause: Any = None
    resume: Any = None
    facts: Mapping[str, Any] = field(default_factory=dict)


class Site(Protocol):
    """The hosts a study runs on, by role, and where guests get their image and network from.

    `machines` gives a system hosts of its own for as long as its context lasts: a name, the parts of the tools that it
    needs, and how many workers. `store` gives it one host for its disks and daemons, with `need_bytes` of free space;
    with `guest`, that host also has what a virtual machine is started from, in its tools' folder ``guest``.
    Both raise `NotRunnable` where the site has none.
    """

    name: str
    kind: Literal["lab", "local", "inventory", "kubeconfig"]
    hosts: Mapping[str, Host]  # role -> host; `server` always, `client` when there is another
    facts: Mapping[str, Any]  # what the site knows of itself (guest image path and hash, bridge, ...)
    private: Mapping[str, str]  # what no session may hold (addresses of its machines) -> what it says there instead

    def machines(self, name: str, tools: tuple[str, ...], workers: int = 2) -> AbstractContextManager[Machines]: ...

    def store(self, name: str, need_bytes: int, guest: bool = False) -> AbstractContextManager[Machines]: ...


# ---------------------------------------------------------------------------------------------- workloads


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a trial. Only ``measure`` steps are timed as tool work; ``cleanup`` steps always run.

    ``rescue`` steps run before those of ``cleanup``, and only after a step that failed or a host that was lost: they
    keep evidence, and remove what the next trial must not find.

    `until_ok_s`: repeat until exit status 0 or this many seconds have passed (readiness; ``prepare`` only).
    `host`: run on the target's host, outside the target (life-cycle commands).
    """

    name: str
    role: str
    argv: tuple[str, ...]
    timeout_s: float = 60.0
    phase: Literal["prepare", "measure", "rescue", "cleanup"] = "measure"
    stdin: bytes = b""
    until_ok_s: float | None = None
    host: bool = False

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", self.name):
            raise DesignError(f"step name {self.name!r}: use lower-case letters, digits, - and _")
        if self.until_ok_s is not None and self.phase != "prepare":
            raise DesignError(f"step {self.name!r}: a measurement is never retried")


@dataclass(frozen=True, slots=True)
class Capture:
    """The immutable raw outcome of a trial: each step's `Result` by step name, and the trial's parameters."""

    steps: Mapping[str, Result]
    params: Mapping[str, Any]

    def __getitem__(self, name: str) -> Result:
        """Return the result of step `name`; `ParseError` when the trial never reached it."""
        if name not in self.steps:
            raise ParseError("capture", f"step {name!r} is missing; there are {sorted(self.steps)}")
        return self.steps[name]


@dataclass(frozen=True, slots=True)
class Measurement:
    """One number of one trial, in SI base units."""

    metric: str
    value: float
    unit: str
    better: Literal["higher", "lower"]


UNITS = frozenset({"1", "s", "B", "B/s", "bit/s", "1/s", "1/min", "%", "W", "K", "s/B"})


class Workload(Protocol):
    """The contract of a module in ``workloads/``. All four are module functions; `DEFAULTS` names every parameter.

    `plan` raises `NotRunnable` for parameters that the system at hand has no place for (a second interface, say): that
    treatment is then left out of every block, with the reason.

    `NEEDS`, which a module may have, says what programs a host needs for it where no image brings them: role of `plan`
    -> program (or file) -> Debian package, nothing where the guest image has it. ``infrabench prepare`` installs them.
    """

    DEFAULTS: Mapping[str, Any]

    def plan(self, params: Mapping[str, Any], roles: Mapping[str, Target]) -> Sequence[Step]: ...

    def version(self, target: Target) -> str: ...

    def supported(self, deployment: Deployment) -> str | None: ...

    def parse(self, capture: Capture) -> Sequence[Measurement]: ...


class System(Protocol):
    """The contract of a module in ``systems/``: `deploy` is a context manager that yields a `Deployment`.

    A module may have `NEEDS`, as a workload has, with the roles of a site's hosts and of a cluster's machines;
    `MODULES`: file -> kernel module that makes it; and `ON_HOST`, when what is measured are programs of the hosts.
    """

    def supported(self, site: Site) -> str | None: ...

    def deploy(self, site: Site, spec: DeploySpec) -> AbstractContextManager[Deployment]: ...


# ------------------------------------------------------------------------------------------------ designs


@dataclass(frozen=True, slots=True)
class Case:
    """A workload at one scenario: what every system does once a block.

    `factor` and `level` name the numeric axis that the scenario lies on, where it lies on one. Cases of one `group`
    stand together in a block, for each system: what they share (pods that are there) is then made once.
    """

    workload: str
    scenario: str
    params: Mapping[str, Any] = field(default_factory=dict)
    factor: str | None = None
    level: float | None = None
    seconds: float = 1.0  # expected wall time of one trial, for the plan
    disk_bytes: int = 0  # largest space that one trial needs inside its target
    group: str = ""  # empty: it stands anywhere in its block


@dataclass(frozen=True, slots=True)
class Profile:
    """How large a study runs: blocks, cases, and how often every system is made ready anew (blocks are shared out).

    `systems`: those that it runs where none are asked for; empty: all of the study.
    """

    blocks: int
    cases: tuple[Case, ...]
    deployments: int = 1
    systems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Variant:
    """A system under another label, with nothing changed (A/A) or with an effect whose size is known.

    It shares the deployment of `system`. `prefix` stands before every command in its targets; `enter` and `leave` run
    on the hosts, by role, whenever the label begins or ends to be the one that is measured. In them the argument
    ``{cgroups}`` becomes the cgroup folders of the deployment, as arguments of their own.
    """

    system: str
    prefix: tuple[str, ...] = ()
    enter: tuple[tuple[str, tuple[str, ...]], ...] = ()
    leave: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Stopping:
    """When to stop adding blocks: on the width of intervals only, never on what they say."""

    target: float  # relative half-width of the 95 % interval that every primary cell has to meet
    most: int = 100  # blocks
    budget_s: float | None = None  # measuring time of the session
    least: int = 30  # blocks before the first look
    batch: int = 5  # blocks between two looks


@dataclass(frozen=True, slots=True)
class Guards:
    """Rules that make a trial invalid without looking at its metric; None switches a rule off."""

    steal_share: float | None = 0.02  # share of the host's CPU time stolen by the hypervisor
    throttled_periods: int | None = 0  # throttled cgroup periods of the target
    # Runnable tasks per CPU just before the trial. Not the load average: that remembers the study's own last trial.
    runnable_per_cpu: float | None = 4.0
    memory_full_share: float | None = 0.10  # share of the trial in which all tasks waited for memory (PSI full)


@dataclass(frozen=True, slots=True)
class Study:
    """One question, one notebook, one design."""

    name: str
    title: str
    baseline: str
    systems: tuple[str, ...]
    profiles: Mapping[str, Profile]
    limits: Limits
    primary: tuple[tuple[str, str], ...]  # (workload, metric): at most three
    margins: Mapping[str, float]  # metric -> equivalence margin (0.02 = 2 %); "" is the default
    guards: Guards = Guards()
    seed: int = 20200315
    variants: Mapping[str, Variant] = field(default_factory=dict)  # label among `systems` -> what it stands for
    known: tuple[tuple[str, str, str, float], ...] = ()  # (system, workload, metric, true ratio) of injected effects
    repeats: int = 2  # most repeats of an invalid trial, at the end of its own block
    probe_s: float = 1.0  # length of the drift probe before each block; 0: none
    block_gap_s: float = 600.0  # a block that was interrupted for longer is discarded whole, and another one run
    deploy_s: float = 4.0  # expected wall time of making one system ready, for the plan


@dataclass(frozen=True, slots=True)
class Trial:
    """One planned execution of one treatment in one block.

    `attempt` is 0 for a trial of the plan; an invalid trial is repeated at the end of its block as attempt 1, 2, ...
    with a position of its own.
    """

    id: str
    block: int  # 0-based
    position: int  # 0-based order over the whole session
    system: str
    workload: str
    scenario: str
    params: Mapping[str, Any]
    factor: str | None
    level: float | None
    seconds: float
    deployment: int = 0  # 0-based: which replicate of making every system ready
    attempt: int = 0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: Any) -> Trial:
        """Rebuild a trial from parsed JSON; `LedgerError` when keys are missing or unknown, or hold something else."""
        return _rebuilt(Trial, data)

    def repeated(self, attempt: int, position: int) -> Trial:
        """Return this trial's repeat number `attempt` (1, 2, ...), which stands at the end of its block."""
        return replace(self, id=digest([self.id, attempt]), attempt=attempt, position=position)


# `discarded` is never stored with a trial: the analysis gives it to all trials of a block that was discarded whole.
STATES = ("ok", "failed", "invalid", "timeout", "unparsable", "aborted", "discarded")
State = Literal["ok", "failed", "invalid", "timeout", "unparsable", "aborted", "discarded"]


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """``trial.json``: everything about a finished trial but its raw bytes, which lie beside it.

    Raw output of step S is in ``S.stdout`` and ``S.stderr`` (absent when empty).
    """

    trial: Trial
    state: State
    reason: str  # empty when ok
    started_utc: str  # ISO 8601 with milliseconds, controlling machine
    duration_s: float  # whole trial, harness included
    tool_s: float  # time inside measure steps
    steps: tuple[Mapping[str, Any], ...]  # name, role, phase, argv, status, timed_out, started_s, duration_s
    measurements: tuple[Measurement, ...]
    conditions: Mapping[str, Any]  # what the guards and monitors saw, by host: never a metric

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> TrialRecord:
        """Rebuild a record from parsed ``trial.json``; `LedgerError` when keys are missing or unknown."""
        try:
            parts = dict(data)
            parts["trial"] = Trial.from_json(parts["trial"])
            parts["measurements"] = tuple(_rebuilt(Measurement, each) for each in parts["measurements"])
            parts["steps"] = tuple(parts["steps"])
            record = _rebuilt(TrialRecord, parts)
        except (KeyError, TypeError, ValueError, LedgerError) as error:
            raise LedgerError(f"trial.json does not have the fields of a trial record: {error}") from error
        if record.state not in STATES:
            raise LedgerError(f"trial.json has the unknown state {record.state!r}; known are {', '.join(STATES)}")
        return record


_KINDS: Mapping[str, tuple[type, ...]] = {
    "str": (str,), "State": (str,), "int": (int,), "float": (int, float), "Trial": (Trial,),
    "str | None": (str, NoneType), "float | None": (int, float, NoneType), "Mapping[str, Any]": (dict,),
}  # fmt: skip


def _rebuilt(kind: type[T], data: Any) -> T:
    """Return the dataclass `kind` from parsed JSON; a field that holds something else is a `LedgerError`."""
    try:
        made = kind(**data)
    except TypeError as error:
        raise LedgerError(str(error)) from error
    for each in fields(kind):  # type: ignore[arg-type]
        expected = _KINDS.get(str(each.type))
        if expected is not None and each.name in data and not _is_of(expected, data[each.name]):
            raise LedgerError(f"{each.name} is {str(data[each.name])[:60]!r}, not {each.type}")
    return made


def _is_of(expected: tuple[type, ...], found: object) -> bool:
    # JSON has integers without end, and no column that holds them.
    if isinstance(found, bool) or (isinstance(found, int) and abs(found) >= 2**63):
        return False
    return isinstance(found, expected)


def canonical(data: Any) -> str:
    """Return the one JSON text of `data`: sorted keys, no spaces, so that equal data have equal bytes."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(data: Any, length: int = 16) -> str:
    """Return the first `length` hex digits of the SHA-256 of `canonical(data)`."""
    return hashlib.sha256(canonical(data).encode()).hexdigest()[:length]


def unknown_name(kind: str, name: object, known: Iterable[str]) -> DesignError:
    """Return the error for a name that nobody knows: it says the nearest known ones, then all."""
    names, said = sorted(known), str(name)
    near = difflib.get_close_matches(said, names, n=3, cutoff=0.5) if len(said) <= LONGEST_NAME else []
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    shown = repr(name) if len(said) <= LONGEST_NAME else f"{said[:20]!r}... of {len(said)} characters"
    return DesignError(f"unknown {kind} {shown}: {hint}known are: {', '.join(names) or 'none'}")
