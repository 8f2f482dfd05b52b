"""Fakes shared by the tests of the runner: a site of this machine, without SSH, engines or root."""

from __future__ import annotations

import json
import os
import runpy
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from infrabench import registry
from infrabench.core import Host, Result, Site, SiteError, Stream, Study
from infrabench.experiment.design import design as designs
from infrabench.experiment.execution import session
from infrabench.experiment.execution.progress import OnProgress, Progressed
from infrabench.experiment.execution.runner import LookAt
from infrabench.experiment.provenance import collect
from infrabench.ledger.session_folder import SessionFolder
from infrabench.machines.hosts.host import LocalHost
from infrabench.machines.sites.site import OpenSite
from infrabench_platforms.lab import go_tools
from tests.support.scripts import write_program

PLUGINS = Path(__file__).parent / "plugins"
SCRIPTS: Mapping[str, str] = runpy.run_path(str(PLUGINS / "workloads/fake.py"))["SCRIPTS"]
ASKED_S = 60.0  # how long this machine may take to say what hosts in memory repeat

TOOL_S = 0.0011  # of every tool: the begins of trials are told apart by milliseconds

Said = tuple[int, bytes, bytes]  # exit status, stdout, stderr


def hide_engines(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give this machine no Go, and a Docker that does not answer, whatever it has."""
    program = write_program(folder / "engines/docker", "exit 1")
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    monkeypatch.setattr(go_tools, "find_toolchain", lambda: None)


@dataclass
class FakeSite:
    """A site whose only host is this machine, in memory (or the one given)."""

    hosts: dict[str, Host]
    facts: dict[str, Any]
    name: str = "fake"
    kind: str = "inventory"
    private: dict[str, str] = field(default_factory=dict)
    checks: list[Callable[[], None]] = field(default_factory=list)
    imager: None = None
    guest_image = OpenSite.guest_image


def fake_site(host: Host | None = None, **facts: Any) -> FakeSite:
    return FakeSite({"server": host or MemoryHost("here")}, {"log": [], **facts})


def run_session(
    study: Study, folder: Path, site: Site | FakeSite | None = None, on_progress: OnProgress | None = None,
    look: LookAt | None = None, **parameters: Any,
) -> Path:  # fmt: skip
    """Run what is missing of a session, of the profile ``tiny`` where no other one is named, and return its folder."""
    at: Any = site or fake_site()
    wanted = session.request(study, **{"profile": "tiny", **parameters})
    study = session.at(designs.study_of(study, wanted, registry.names("systems")), at)
    stored = SessionFolder(folder)
    session.carry_out(study, wanted, at, nullcontext(at), stored=stored, on_progress=on_progress, look=look)
    return folder


def interrupt_session(study: Study, folder: Path, count: int, **more: Any) -> Path:
    """Run a session until so many of its trials are recorded, and then interrupt it."""
    with pytest.raises(KeyboardInterrupt):
        run_session(study, folder, on_progress=stop_after(count), **more)
    return folder


def stop_after(count: int) -> OnProgress:
    """Return what interrupts a session that has so many trials."""

    def stop(progress: Progressed) -> None:
        if progress.done >= count:
            raise KeyboardInterrupt

    return stop


class MemoryHost(LocalHost):
    """This machine, but every command that a session of the workload ``fake`` runs is answered without a process.

    Files are real, and what probes say is what they once said in this process of tests: `test_memory_host` holds all of
    it against `LocalHost`. Where processes, sockets or limits are what is tested, a host has to be that one.
    """

    def run(self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"") -> Result:
        """Return what `LocalHost` would, without a wait; `AssertionError` for a command that is not known."""
        started, begin = time.time(), time.monotonic()
        limit_s, inner = _without_prefix(argv)
        if inner[:3] == ("sh", "-c", SCRIPTS["hang"]):
            late = limit_s > timeout_s
            return Result(tuple(argv), None if late else 124, b"", b"", started, min(limit_s, timeout_s), late)
        status, stdout, stderr = _answer(tuple(argv), inner)
        while inner[0] == "sh" and time.time() < started + TOOL_S:
            pass
        return Result(tuple(argv), status, stdout, stderr, started, time.monotonic() - begin)

    @contextmanager
    def stream(self, argv: Sequence[str]) -> Iterator[Stream]:
        """Yield the two ends of a probe; `AssertionError` for another process."""
        answers = {("python3", "-c", probe("monitor")): _sample, ("python3", "-c", probe("orphans"), *argv[3:]): _sweep}
        if tuple(argv) not in answers:
            raise unknown(argv)
        yield MemoryStream(answers[tuple(argv)])


class MemoryStream:
    """The two ends of a process that answers each line at once."""

    def __init__(self, answer: Callable[[str], str]) -> None:
        self._answer = answer
        self._lines: deque[str] = deque()

    def write_line(self, line: str) -> None:
        self._lines.append(self._answer(line))

    def read_line(self, timeout_s: float) -> str:
        if not self._lines:
            raise TimeoutError(f"no line within {timeout_s:g} s")
        return self._lines.popleft()


def unknown(argv: Sequence[str]) -> AssertionError:
    words = " ".join(argv)[:300]
    return AssertionError(f"no host in memory knows this command; teach it there, or take LocalHost: {words}")


def probe(name: str) -> str:
    """Return a script that the product runs on hosts."""
    return _read(f"probes/{name}.py")


@cache
def _read(name: str) -> str:
    return resources.files("infrabench.machines.hosts").joinpath(name).read_text()


def _without_prefix(argv: Sequence[str]) -> tuple[float, tuple[str, ...]]:
    """Return the limit of timeout(1) before a command (none is infinite), and the command."""
    inner, limit_s = tuple(argv), float("inf")
    if inner[:2] == ("env", "LOUD=1"):  # of a variant; another variable could change what is said
        inner = inner[2:]
    if inner[:3] == ("timeout", "-k", "5"):
        limit_s, inner = float(inner[3]), inner[4:]
    return limit_s, inner


def _answer(argv: tuple[str, ...], inner: tuple[str, ...]) -> Said:
    if inner in REPEATED or inner == ("python3", "-c", probe("facts")) or inner[:3] == ("sh", "-c", collect.SCRIPT):
        return _repeat(argv)
    if inner[:3] == ("python3", "-c", probe("drift")):
        return 0, json.dumps({"bytes": 2**18, "seconds": float(inner[3])}).encode() + b"\n", b""
    if inner[:2] == ("sh", "-c") and inner[2] in SHELL:
        return SHELL[inner[2]](*inner[4:])
    if inner[0] in PROGRAMS:
        return PROGRAMS[inner[0]](*inner[1:])
    raise unknown(argv)


@cache
def _repeat(argv: tuple[str, ...]) -> Said:
    """Return what this machine said when a command was run for the first time."""
    result = LocalHost().run(argv, timeout_s=ASKED_S)
    assert result.status is not None, result
    return result.status, result.stdout, result.stderr


@cache
def _seen() -> Mapping[str, Any]:
    """Return what this machine's monitor said at the begin of a window."""
    with LocalHost().stream(("python3", "-c", probe("monitor"))) as stream:
        stream.write_line("begin first")
        while (seen := json.loads(stream.read_line(ASKED_S)))["mark"] is None:
            pass  # of a second that began meanwhile
    return seen


def _sample(line: str) -> str:
    """Return what a monitor says of a machine whose processors have all been idle since it was asked first."""
    request, *counted = line.split("\t")
    mark = request.partition(" ")[2]
    seen = _seen()
    now_s, at_s = time.monotonic(), time.time()
    idle = seen["cpu"]["idle"] + seen["cpu"]["cpus"] * (now_s - seen["monotonic_s"])
    load = seen["load"] | ({"own": dict.fromkeys(counted, 0)} if counted else {})
    now = {"mark": mark, "time_s": at_s, "monotonic_s": now_s, "cpu": {**seen["cpu"], "idle": idle}}
    return json.dumps({**seen, **now, "load": load}, separators=(",", ":"))


def _sweep(line: str) -> str:
    return json.dumps({"ended": [], "left": []})


def _append(line: str, path: str) -> Said:
    with open(path, "a") as file:
        file.write(f"{line}\n")
    return 0, b"", b""


# Commands whose answer is this machine's own.
REPEATED = (("df", "-P", "-B1", "/"), ("no-such-tool", "-V"), ("true", "--version"))
PROGRAMS: Mapping[str, Callable[..., Said]] = {
    "true": lambda: (0, b"", b""),
    "false": lambda: (1, b"", b""),
    "echo": lambda *words: (0, f"{' '.join(words)}\n".encode(), b""),
}
# Scripts of a shell, with what follows its name.
SHELL: Mapping[str, Callable[..., Said]] = {
    SCRIPTS["ok"]: lambda value: (0, f"value={value}\nend\n".encode(), b""),
    SCRIPTS["fail"]: lambda *words: (3, b"", b"cannot open device\n"),
    SCRIPTS["garbage"]: lambda *words: (0, b"\0\xff no numbers here", b""),
    SCRIPTS["half"]: lambda *words: (0, b"val", b""),
    SCRIPTS["nothing"]: lambda *words: (0, b"", b""),
    SCRIPTS["nan"]: lambda *words: (0, b"value=nan\nend\n", b""),
    SCRIPTS["mistake"]: lambda *words: (0, b"value=a\nend\n", b""),
    SCRIPTS["astray"]: lambda *words: (0, b"value=1\nother path\n", b""),
    'echo "$1" >>"$2"': _append,
    "exit 7": lambda: (7, b"", b""),
}


@dataclass
class DyingHost:
    """A host that is lost when a command contains `word`; its monitor lives on."""

    word: str
    name: str = "mortal"
    address: str = "127.0.0.1"
    alive: bool = True
    inner: Host = field(default_factory=MemoryHost)

    def run(self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"") -> Result:
        if any(self.word in part for part in argv):
            self.alive = False
        if not self.alive:
            raise SiteError(f"{self.name}: connection lost")
        return self.inner.run(argv, timeout_s=timeout_s, stdin=stdin)

    @contextmanager
    def stream(self, argv: Sequence[str]) -> Iterator[Any]:
        with self.inner.stream(argv) as stream:
            yield stream
