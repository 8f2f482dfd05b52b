"""The contract of a system under test: what it is asked to make, and what it yields."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from infrabench.core.hosts import Target

if TYPE_CHECKING:
    from infrabench.core.sites import Site


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits set alike for every system and verified from inside the target."""

    cpus: str = ""  # a Linux CPU list such as "0-1"; empty: every CPU of the host
    memory_bytes: int = 4 * 2**30
    nofile: int = 16384  # room for 8000 connections, below the hard limit of common hosts


@dataclass(frozen=True, slots=True)
class DeploySpec:
    """What a system is asked to make: equal for every system of a session."""

    session: str  # label put on everything that is made
    limits: Limits
    address: str  # the address that the target should answer on, inside the guest network
    disk_bytes: int = 0  # most space that one trial of the plan needs inside its target
    to_make: int = 1  # how many systems of the session are still to be made, this one included


@dataclass
class Deployment:
    """A system made ready on a site."""

    system: str
    targets: Mapping[str, Target]
    facts: Mapping[str, Any]  # versions, storage driver, network mode, effective limits
    pause: Any = None  # () -> None; both None when the system has nothing to pause
    resume: Any = None


class System(Protocol):
    """The contract of a module in ``systems/`` or of a member of its `FAMILY`: `deploy` is a context manager.

    A module may have `NEEDS`, laid out as `PROGRAMS` of a workload, with the roles of a site's hosts and of a cluster's
    machines; `MODULES`: file -> kernel module that makes it; and `ON_HOST`, when what is measured are programs of the
    hosts.
    A system that runs on a host as it is has ``remove(host)``, which removes what a killed session left of it there.
    """

    def supported(self, site: Site) -> str | None: ...

    def deploy(self, site: Site, spec: DeploySpec) -> AbstractContextManager[Deployment]: ...
