"""Asking what the lab could run on this machine, before any of it is there: nothing is made, nothing started."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NoReturn

from infrabench.core import Host, Machines, NotRunnable
from infrabench.machines.clusters import kata
from infrabench.machines.lab import go_tools, images, node_groups, pod_images
from infrabench.machines.lab.network import GUESTS_NET
from infrabench.machines.lab.shell import require

BASE = ("guest", "node")  # what every lab is made from
CLUSTER, STORE, VM = "cluster", "storage", "vm"


class Enough(Exception):
    """A system would use the lab now: so far nothing stands against it."""


@dataclass(frozen=True, slots=True)
class LabAhead:
    """The lab as a site that does not stand: it refuses what this machine cannot carry, and stops at what it can.

    `first` collects what would be made before, by the names of `prebuild.names`; give one `made` to all that are asked
    together. Raises `NotRunnable` where there can be no lab at all.
    """

    name: str = "lab"
    kind: str = "lab"
    first: list[str] = field(default_factory=list)
    made: dict[str, bool] = field(default_factory=dict)  # what is known of Go tools: asking takes a moment for each

    def __post_init__(self) -> None:
        require()
        self.first.extend(kind for kind in BASE if images.cached(kind) is None)

    @property
    def hosts(self) -> Mapping[str, Host]:
        return {role: _Node(role) for role in ("server", "client")}

    @property
    def facts(self) -> Mapping[str, Any]:
        return {"guest_image": {"hash": "", "tar": ""}, "guest_network": str(GUESTS_NET)}

    def machines(self, name: str, tools: tuple[str, ...], workers: int = 2) -> AbstractContextManager[Machines]:
        """Raise `Enough`, or `NotRunnable` with what stands against machines for a cluster."""
        if kata.PART in tools:
            node_groups.find_local_kata()
        wanted = node_groups.parts(tools)
        self.made.update((part, go_tools.cached(part) is not None) for part in wanted if part not in self.made)
        missing = [part for part in wanted if not self.made[part]]
        if missing:
            go_tools.require(missing)
        self.first.extend(missing)
        self.first.extend(kind for kind in pod_images.KINDS if pod_images.cached(kind) is None)
        self._images(CLUSTER)
        raise Enough

    def store(self, name: str, need_bytes: int, guest: bool = False) -> AbstractContextManager[Machines]:
        """Raise `Enough`, or `NotRunnable` with what stands against a store."""
        if reason := node_groups.find_store_obstacle(need_bytes):
            raise NotRunnable(reason)
        self._images(STORE, *([VM] if guest else []))
        raise Enough

    def _images(self, *kinds: str) -> None:
        self.first.extend(kind for kind in kinds if images.cached(kind) is None)


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of the lab that is not there: whoever would use it has all that was to be asked."""

    name: str
    address: str = ""

    def run(self, *_: object, **__: object) -> NoReturn:
        raise Enough

    stream = put = get = forward = run

    def close(self) -> None:
        """Nothing is held open."""
