"""What this machine could run, in the lab and by itself, system by system: nothing is made, nothing started.

A system that is said to run may still be refused when it is made: whether a node's kernel has VXLAN, say, only a node
can tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from infrabench import registry
from infrabench.core import DeploySpec, Host, InfrabenchError, Machines, NotRunnable, Site, Study, System
from infrabench.machines.sites.platforms import Outlook
from infrabench.machines.sites.site import open_local
from infrabench_platforms.clusters import kata
from infrabench_platforms.lab import go_parts, go_tools, images, node_groups, pod_images, releases
from infrabench_platforms.lab.network import GUESTS_NET
from infrabench_platforms.lab.shell import require

BASE = ("guest", "node")  # what every lab is made from


def check_systems(study: Study, systems: Sequence[str], disk_bytes: int, cached: dict[str, bool]) -> dict[str, Outlook]:
    """Return the outlook of each system of a study; `disk_bytes`: most space that one of its trials needs.

    `cached` begins empty, and keeps from study to study what is known of the Go tools.
    """
    found, local = {}, open_local(make=False)
    for number, label in enumerate(systems):
        name = study.variants[label].system if label in study.variants else label
        system = registry.system(name)
        spec = DeploySpec("outlook", study.limits, "", disk_bytes, len(systems) - number)
        first: tuple[str, ...] = ()
        try:
            lab = LabAhead(cached=cached)
        except NotRunnable as error:
            in_lab: str | None = str(error)
        else:
            in_lab = _find_obstacle(system, lab, spec)
            first = tuple(dict.fromkeys(lab.first)) if in_lab is None else ()
        found[label] = Outlook(in_lab, _find_obstacle(system, local), first)
    return found


def _find_obstacle(system: System, site: Site, spec: DeploySpec | None = None) -> str | None:
    """Return None, or why the system cannot run there; with `spec` it is asked up to where it would make something."""
    try:
        reason = system.supported(site)
        if reason is None and spec is not None:
            with system.deploy(site, spec):
                pass
    except Enough:
        return None
    except InfrabenchError as error:
        return str(error)
    return reason


class Enough(Exception):
    """A system would use the lab now: so far nothing stands against it."""


@dataclass(frozen=True, slots=True)
class LabAhead:
    """The lab as a site that does not stand: it refuses what this machine cannot carry, and stops at what it can.

    `first` collects what would be made before, by the names of `prebuild.names`; give one `cached` to all that are
    asked together. Raises `NotRunnable` where there can be no lab at all.
    """

    name: str = "lab"
    kind: str = "lab"
    first: list[str] = field(default_factory=list)
    cached: dict[str, bool] = field(default_factory=dict)  # what is known of Go tools: asking takes a moment for each
    part: tuple[str, ...] = ()  # of the Go tools, in the place of what it is a version of
    of_release: bool = False  # with the server of a release, and no machines for clusters and stores

    def __post_init__(self) -> None:
        require()
        self.first.extend(kind for kind in BASE if images.cached(kind) is None)

    @property
    def hosts(self) -> Mapping[str, Host]:
        return {role: _Node(role) for role in ("server", "client")}

    @property
    def facts(self) -> Mapping[str, Any]:
        return {"guest_network": str(GUESTS_NET)}

    def guest_image(self) -> Mapping[str, str]:
        """Return one without a name: the lab makes its image itself."""
        return {"hash": "", "tar": ""}

    def machines(self, name: str, tools: tuple[str, ...], workers: int = 2) -> AbstractContextManager[Machines]:
        """Raise `Enough`, or `NotRunnable` with what stands against machines for a cluster."""
        if self.of_release:
            releases.refuse_machines(name)
        if kata.PART in tools:
            node_groups.find_local_kata()
        wanted = node_groups.parts((*tools, *self.part))
        self.cached.update((part, go_tools.cached(part) is not None) for part in wanted if part not in self.cached)
        missing = [part for part in wanted if not self.cached[part]]
        if missing:
            go_tools.require(missing)
        self.first.extend(missing)
        self.first.extend(kind for kind in pod_images.KINDS if pod_images.cached(kind) is None)
        self._images("cluster")
        raise Enough

    def store(self, name: str, need_bytes: int, client: bool = False) -> AbstractContextManager[Machines]:
        """Raise `Enough`, or `NotRunnable` with what stands against a store."""
        if self.of_release:
            releases.refuse_machines(name)
        if reason := node_groups.find_store_obstacle(need_bytes):
            raise NotRunnable(reason)
        self._images("storage")
        raise Enough

    def version(self, system: str, version: str) -> AbstractContextManager[Site]:
        """Return the lab as a version of a system finds it; `NotRunnable` where the lab has no such version."""
        if part := go_parts.find_version(system, version):
            return nullcontext(replace(self, part=(part,)))
        self._images(releases.RELEASES[releases.find_release(system, version)].image)
        return nullcontext(replace(self, of_release=True))

    def _images(self, *kinds: str) -> None:
        self.first.extend(kind for kind in kinds if images.cached(kind) is None)


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of the lab that is not there: whoever would use it has all that was to be asked."""

    name: str
    address: str = ""

    def run(self, *_: object, **__: object) -> NoReturn:
        raise Enough

    stream = put = get = run

    def close(self) -> None:
        """Nothing is held open."""
