"""Watching hosts while a trial runs: one long-lived process each, asked once before and once after the measurement."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import MappingProxyType
from typing import Any

from infrabench.core import Host, SiteError, Stream
from infrabench.machines.hosts.remote_shell import probe

ANSWER_S = 15.0  # a host that cannot answer its monitor for this long cannot be measured either
Sample = Mapping[str, Any]


class Monitor:
    """The monitors of a session's hosts. A window is what lies between `begin` and `end`."""

    def __init__(self, streams: Mapping[str, Stream]) -> None:
        self._streams = streams

    def of(self, hosts: Iterable[str]) -> Monitor:
        """Return the monitors of these hosts alone."""
        return Monitor({host: self._streams[host] for host in dict.fromkeys(hosts)})

    def begin(self, mark: str, cgroups: Mapping[str, Sequence[str]] = MappingProxyType({})) -> dict[str, Sample]:
        """Return one sample of now by host name, and forget all earlier ones.

        `cgroups` names, by host, folders whose tasks that run or wait for a processor are counted: they are all looked
        at, which takes a tenth of a second for the thousands of a web server.
        """
        lines = {host: "\t".join((f"begin {mark}", *cgroups.get(host, ()))) for host in self._streams}
        return {host: samples[-1] for host, samples in self._ask(lines, mark).items()}

    def end(self, mark: str) -> dict[str, list[Sample]]:
        """Return the samples since `begin` by host name, 1 Hz; the last one is of now."""
        return self._ask(dict.fromkeys(self._streams, f"end {mark}"), mark)

    def _ask(self, lines: Mapping[str, str], mark: str) -> dict[str, list[Sample]]:
        for host, stream in self._streams.items():  # ask all before any answer is awaited: one round trip in all
            try:
                stream.write_line(lines[host])
            except (OSError, EOFError) as error:
                raise _lost(host, error) from error
        return {host: _read_samples(host, stream, mark) for host, stream in self._streams.items()}


@contextmanager
def watching(hosts: Sequence[Host], cgroups: Mapping[str, Sequence[str]]) -> Iterator[Monitor]:
    """Yield a `Monitor` of `hosts`; `cgroups` names, by host, the cgroup folders to read in every sample.

    Raises `SiteError` when a host has no python3 or stops answering.
    """
    with ExitStack() as stack:
        streams: dict[str, Stream] = {}
        for host in hosts:
            if host.name not in streams:
                argv = (*probe("machines/hosts/probes/monitor.py"), *cgroups.get(host.name, ()))
                streams[host.name] = stack.enter_context(host.stream(argv))
        monitor = Monitor(streams)
        monitor.begin("start")
        yield monitor


def _read_samples(host: str, stream: Stream, mark: str) -> list[Sample]:
    samples: list[Sample] = []
    while not samples or samples[-1]["mark"] != mark:
        try:
            samples.append(json.loads(stream.read_line(ANSWER_S)))
        except (OSError, EOFError, TimeoutError, ValueError) as error:
            raise _lost(host, error) from error
    return samples


def _lost(host: str, error: Exception) -> SiteError:
    return SiteError(f"{host}: its monitor stopped answering ({error}). Is the host up, and has it python3?")
