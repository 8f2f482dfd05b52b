"""Fakes shared by the tests of the runner: a site of this machine, without SSH, engines or root."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infrabench.core import Host, Result, SiteError
from infrabench.machines.hosts.host import LocalHost

PLUGINS = Path(__file__).parent / "plugins"


@dataclass
class FakeSite:
    """A site whose only host is this machine (or the one given)."""

    hosts: dict[str, Host]
    facts: dict[str, Any]
    name: str = "fake"
    kind: str = "inventory"
    private: dict[str, str] = field(default_factory=dict)


def fake_site(host: Host | None = None, **facts: Any) -> FakeSite:
    return FakeSite({"server": host or LocalHost("here")}, {"log": [], **facts})


class ScriptedHost(LocalHost):
    """This machine, but the two commands of a trial of the workload ``fake`` are answered without a process.

    For tests of what is done between hundreds of trials; that commands are run for real is shown by all others.
    """

    def run(self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"") -> Result:
        begin = time.monotonic()
        if argv[-1] == "true":
            stdout = b""
        elif any(part.startswith("printf 'value=") for part in argv):
            stdout = f"value={argv[-1]}\nend\n".encode()
        else:
            return super().run(argv, timeout_s=timeout_s, stdin=stdin)
        return Result(tuple(argv), 0, stdout, b"", time.time(), time.monotonic() - begin)


@dataclass
class DyingHost:
    """A host that is lost when a command contains `word`; its monitor lives on."""

    word: str
    name: str = "mortal"
    address: str = "127.0.0.1"
    alive: bool = True
    inner: LocalHost = field(default_factory=LocalHost)

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
