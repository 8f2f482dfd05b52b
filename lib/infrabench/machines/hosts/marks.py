"""Marks: what the processes of a trial bear in their environment, and ending those that a trial has left on a host.

By its mark the process of a trial can be told from all others. A session that has claimed its hosts is alone on them,
so what bears one between trials, such as the tool of a run that was killed, is nobody's: it is ended before the next
trial. Containers and pods do not bear it: they are removed by their labels.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from types import MappingProxyType

from infrabench.core import Host, SiteError, Stream
from infrabench.machines.hosts.remote_shell import probe

TRIAL = "INFRABENCH_TRIAL"
LOCKS = "INFRABENCH_HOST_LOCKS"  # names a folder that is locked for a host's claim instead, where hosts have it

_environment: ContextVar[Mapping[str, str]] = ContextVar("environment", default=MappingProxyType({}))
ANSWER_S = 15.0

log = logging.getLogger(__name__)


def lock_folder() -> str:
    """Return the folder that `LOCKS` names, or nothing."""
    return os.environ.get(LOCKS, "")


def prefix() -> str:
    """Return what every mark begins with: whoever has claimed a host by this lock may end what bears it."""
    return f"{TRIAL}={lock_folder()}:"


@contextmanager
def mark_commands(trial: str) -> Iterator[None]:
    """Let every command that is run on a host inside bear the mark of `trial`."""
    token = _environment.set({TRIAL: f"{lock_folder()}:{trial}"})
    try:
        yield
    finally:
        _environment.reset(token)


def environment() -> Mapping[str, str]:
    """Return the variables of the mark that commands bear now; nothing between trials."""
    return _environment.get()


class Sweeper:
    """A process on each host that has been asked once: asking again costs what looking at the host's processes does."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._streams: dict[int, tuple[Host, Stream]] = {}  # by identity: hosts of one name may follow each other

    def end_orphans(self, hosts: Iterable[Host]) -> list[str]:
        """End what earlier trials have left on `hosts`, and return, in words, what cannot be ended."""
        left = []
        for host in {id(each): each for each in hosts}.values():
            try:
                if id(host) not in self._streams:
                    command = (*probe("machines/hosts/probes/orphans.py"), prefix())
                    self._streams[id(host)] = host, self._stack.enter_context(host.stream(command))
                stream = self._streams[id(host)][1]
                stream.write_line("")
                answer = json.loads(stream.read_line(ANSWER_S))
            except (OSError, EOFError, ValueError) as error:
                raise SiteError(
                    f"{host.name}: cannot tell what runs there ({error}). Is the host up, and has it python3?"
                ) from error
            for pid, name in answer["ended"]:
                log.warning("%s: process %d (%s) of an earlier trial still ran and was ended", host.name, pid, name)
            left += [
                f"{host.name}: process {pid} ({name}) of an earlier trial still runs and cannot be ended"
                for pid, name in answer["left"]
            ]
        return left


@contextmanager
def sweeping() -> Iterator[Sweeper]:
    """Yield a `Sweeper`; its processes end with the context."""
    with ExitStack() as stack:
        yield Sweeper(stack)
