"""Ending what a trial has left on a host, such as the tool of a run that was killed, before the next trial begins.

Whatever a trial starts on a host bears its mark (`marks`). A session that has claimed its hosts is alone on them, so
what bears one between trials is nobody's. Containers and pods do not bear it: they are removed by their labels.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import resources

from infrabench.core import Host, SiteError, Stream
from infrabench.machines.hosts import marks

ANSWER_S = 15.0

log = logging.getLogger(__name__)


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
                stream = self._stream(host)
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

    def _stream(self, host: Host) -> Stream:
        if id(host) not in self._streams:
            stream = self._stack.enter_context(host.stream(("python3", "-c", _script(), marks.prefix())))
            self._streams[id(host)] = host, stream
        return self._streams[id(host)][1]


@contextmanager
def sweeping() -> Iterator[Sweeper]:
    """Yield a `Sweeper`; its processes end with the context."""
    with ExitStack() as stack:
        yield Sweeper(stack)


def _script() -> str:
    return resources.files("infrabench.machines.hosts").joinpath("probes/orphans.py").read_text()
