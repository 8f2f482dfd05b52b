"""Hosts that stand for the nodes of a cluster in unit tests."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from infrabench.core import Machines, Result
from infrabench.machines.hosts.host import LocalHost

Answer = Callable[[tuple[str, ...], bytes], tuple[int, bytes]]


def nothing(argv: tuple[str, ...], stdin: bytes) -> tuple[int, bytes]:
    return 0, b""


@dataclass
class Scripted(LocalHost):
    """A host that answers by a function, and keeps what it was asked and which files were pushed to it."""

    answer: Answer = nothing
    name: str = "node"
    address: str = "198.18.0.22"
    asked: list[tuple[str, ...]] = field(default_factory=list)
    given: list[bytes] = field(default_factory=list)

    def run(self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"") -> Result:
        self.asked.append(tuple(argv))
        self.given.append(stdin)
        status, out = self.answer(tuple(argv), stdin)
        return Result(tuple(argv), status, out, b"" if status == 0 else out, time.time(), 0.01)

    @property
    def pushed(self) -> dict[str, str]:
        found = {}
        for argv, data in zip(self.asked, self.given, strict=True):
            if argv[0] == "tar":
                with tarfile.open(fileobj=io.BytesIO(data)) as tar:
                    found |= {f"/{each.name}": tar.extractfile(each).read().decode() for each in tar if each.isfile()}
        return found


def machines(*hosts: Scripted) -> Machines:
    """Return machines by the names of their hosts, with every part of the tools and the images of pods."""
    tools = {
        part: f"/opt/infrabench/{part}" for part in ("kubernetes", "etcd", "containerd", "crio", "gvisor", "multus")
    }
    images = {kind: (f"localhost/{kind}:1", f"/opt/images/{kind}.tar") for kind in ("pause", "tools")}
    facts = {"versions": {"kubernetes": "v1.34.4"}}
    return Machines({host.name: host for host in hosts}, tools, images, embedded=True, facts=facts)


def scripts(host: Scripted, word: bytes) -> list[tuple[str, ...]]:
    """Return the arguments of the scripts in which a word is that a host was given, in order."""
    return [argv for argv, text in zip(host.asked, host.given, strict=True) if word in text]


@dataclass
class Rooted(LocalHost):
    """This machine, but files are pushed below a folder."""

    root: Path = Path("/nonexistent")
    name: str = "rooted"
    address: str = "127.0.0.1"
    _environment: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        LocalHost.__init__(self, self.name, self.address)

    def run(self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"") -> Result:
        return LocalHost.run(self, [str(self.root) if part == "/" else part for part in argv],
                             timeout_s=timeout_s, stdin=stdin)  # fmt: skip


def words_of(line: str) -> list[str]:
    """Return the words of an ``ExecStart=`` value as systemd.service(5) says that they are read.

    Written from the manual: quotes around whole words, C's escapes, ``%%`` is a percent sign. ``$$`` is left as it is.
    """
    words, word, quote, begun, escapes = [], "", "", False, {"n": "\n", "t": "\t", "\\": "\\", '"': '"', "'": "'"}
    rest = iter(line)
    for char in rest:
        if char == "\\":
            word, begun = word + escapes[next(rest)], True
        elif char == "%":
            assert next(rest) == "%", f"a specifier in {line!r}"
            word, begun = word + "%", True
        elif quote:
            word, quote = (word, "") if char == quote else (word + char, quote)
        elif char in "\"'" and not begun:
            quote, begun = char, True
        elif char.isspace():
            words, word, begun = ([*words, word] if begun else words), "", False
        else:
            word, begun = word + char, True
    assert not quote, f"an open quote in {line!r}"
    return [*words, word] if begun else words


def answers(told: Mapping[str, object] | None = None, **more: object) -> Answer:
    """Return an answer: what a command prints that has a word in it, or in a script that it reads; else nothing.

    The first word counts. What is printed is text, or anything as JSON; a pair has the exit status before it.
    """
    known = {**(told or {}), **more}

    def answer(argv: tuple[str, ...], stdin: bytes) -> tuple[int, bytes]:
        line = " ".join(argv) + ("" if argv[0] == "tar" else stdin.decode("utf-8", "replace"))
        said = next((said for word, said in known.items() if word in line), "")
        status, said = said if isinstance(said, tuple) else (0, said)
        text = said if isinstance(said, str | bytes) else json.dumps(said)
        return status, text.encode() if isinstance(text, str) else text

    return answer


def sleeper() -> subprocess.Popen[bytes]:
    """Start a process that does nothing for a minute."""
    return subprocess.Popen(["sleep", "60"])
