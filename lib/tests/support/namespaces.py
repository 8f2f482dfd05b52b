"""This machine with a network, and mounts if asked for, of its own: what is made there goes with the context."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from infrabench.core import Result
from infrabench.machines.hosts.host import LocalHost


class Apart(LocalHost):
    """Runs commands in the namespaces of a process."""

    def __init__(self, name: str, address: str, into: Sequence[str]) -> None:
        super().__init__(name, address)
        self._into = into

    def run(self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"") -> Result:
        return super().run((*self._into, *argv), timeout_s=timeout_s, stdin=stdin)

    def ip(self, *words: str) -> str:
        """Return what ip(8), which has to succeed, prints there."""
        done = self.run(("ip", *words), timeout_s=10)
        assert done.ok, done.stderr
        return done.stdout.decode().strip()


@contextmanager
def open_apart(
    setup: str, *kinds: str, name: str = "apart", address: str = "127.0.0.1", within: Sequence[str] = ()
) -> Iterator[Apart]:  # fmt: skip
    """Yield the host once `setup` is done in its namespaces, of these kinds; the test is skipped where none can be had.

    `within`: words before every command.
    """
    options = [f"--{kind}" for kind in kinds]
    argv = ("unshare", *options, "sh", "-ec", f"{setup}\necho ready\nexec sleep 60")
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        if not child.stdout.readline():
            pytest.skip(f"not run: {child.stderr.read().strip()}")
        yield Apart(name, address, ("nsenter", f"--target={child.pid}", *options, *within))
        child.kill()
