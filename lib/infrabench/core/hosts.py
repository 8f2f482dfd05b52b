"""Sites and their hosts, the commands that run on them, and targets: a host plus an argv prefix, for one role."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from infrabench.core.errors import CommandFailed, ParseError


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


def plain(output: bytes) -> str:
    r"""Return `output` as text with lines that end as the tool ended them.

    A terminal (``docker run -t``) puts a carriage return before each newline. Where only some lines have one, something
    else has written between them, and nobody can say what the tool's own output is.

    >>> plain(b"rate: 3\r\n")
    'rate: 3\n'
    """
    found = output.decode("utf-8", "replace")
    lines, returns = found.count("\n"), found.count("\r\n")
    if 0 < returns < lines:
        raise ParseError("output", f"{returns} of {lines} lines end as on a terminal (CRLF), the others do not", output)
    return found.replace("\r\n", "\n")


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
class Machines:
    """Hosts that a system has for its own, and where on them its programs and images lie.

    Of a cluster the hosts are ``control``, ``worker1``, ``worker2``; of a store there is one, ``store``, and
    another one, ``client``, where that was asked for and the site has it.

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
    with `client`, there is a second host for the store's client, where the site has one.
    Both raise `NotRunnable` where the site has none.

    `guest_image` returns hash and path on the server of the image that containers' guests are made from (``hash``,
    ``tar``). It is made and brought there when somebody asks for the first time, and a fact of the site from then on;
    `NotRunnable` says why there is none.

    `version` gives the site as a version of a system finds it: its ``server`` is a host that has this version. It
    raises `NotRunnable` where there is none.
    """

    name: str
    kind: Literal["lab", "local", "inventory", "kubeconfig"]
    hosts: Mapping[str, Host]  # role -> host; `server` always, `client` when there is another
    facts: Mapping[str, Any]  # what the site knows of itself (nodes, network of guests, ...)
    private: Mapping[str, str]  # what no session may hold (addresses of its machines) -> what it says there instead
    checks: Sequence[Callable[[], None]]  # before each block: they raise `SiteError` where it must not be measured on

    def machines(self, name: str, tools: tuple[str, ...], workers: int = 2) -> AbstractContextManager[Machines]: ...

    def store(self, name: str, need_bytes: int, client: bool = False) -> AbstractContextManager[Machines]: ...

    def guest_image(self) -> Mapping[str, str]: ...

    def version(self, system: str, version: str) -> AbstractContextManager[Site]: ...
