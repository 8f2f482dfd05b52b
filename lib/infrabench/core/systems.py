"""The contract of a system under test: what it is asked to make, and what it yields."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from ipaddress import ip_address, ip_network
from typing import Any, Protocol

from infrabench.core.errors import NotRunnable, ProvisionError
from infrabench.core.hosts import Host, Site, Target


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
    two_nodes: bool = False  # a case of the session has its client on another node than the system


@dataclass
class Deployment:
    """A system made ready on a site.

    `programs` are those that it consists of, for a session keeps their checksums: hosts, each with names in its PATH,
    files, patterns of files (``/usr/lib/*/liblxc.so.1``), and files by another name (``pod image=/opt/tools.tar``).
    `machines` are hosts of its own, by role, on which it is measured in place of the site's; none for nodes of the lab,
    which share a kernel with those.
    """

    system: str
    targets: Mapping[str, Target]
    facts: Mapping[str, Any]  # versions, storage driver, network mode, effective limits
    pause: Any = None  # () -> None; both None when the system has nothing to pause
    resume: Any = None
    programs: Sequence[tuple[Host, Sequence[str]]] = ()
    machines: Mapping[str, Host] = field(default_factory=dict)


class System(Protocol):
    """The contract of a module in ``systems/`` or of a member of its `FAMILY`: `deploy` is a context manager.

    A module may have `NEEDS`, laid out as `PROGRAMS` of a workload, with the roles of a site's hosts and of a cluster's
    machines; `MODULES`: file -> kernel module that makes it; and `ON_HOST`, when what is measured are programs of the
    hosts.
    A system that runs on a host as it is has ``remove(host)``, which removes what a killed session left of it there.
    """

    def supported(self, site: Site) -> str | None: ...

    def deploy(self, site: Site, spec: DeploySpec) -> AbstractContextManager[Deployment]: ...


VERSION = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]*)@([A-Za-z0-9][A-Za-z0-9_.+-]{0,39})")


def split_version(name: str) -> tuple[str, str]:
    """Return the system and the version of a name; the version is empty where the name has none.

    >>> split_version("docker@26.1")
    ('docker', '26.1')
    """
    found = VERSION.fullmatch(name)
    return (found[1], found[2]) if found else (name, "")


def order_systems(names: Iterable[str], known: Sequence[str]) -> tuple[str, ...]:
    """Return systems in the order of those `known`, and versions of one from the oldest on, after it itself.

    >>> order_systems(["lxc", "docker@26.1", "docker@9.0", "docker"], ["docker", "lxc"])
    ('docker', 'docker@9.0', 'docker@26.1', 'lxc')
    """

    def place(name: str) -> tuple[int, list[tuple[int, str]]]:
        system, version = split_version(name)
        parts = re.findall(r"\d+|[^\d.]+", version)
        return known.index(name if name in known else system), [
            (int(part), "") if part.isdigit() else (-1, part) for part in parts
        ]

    return tuple(sorted(names, key=place))


@dataclass(frozen=True, slots=True)
class Versioned:
    """One version of a system, as a system of its own: it is made on a server, or a cluster, that has this version.

    The version is checked against the one that the deployment finds. A system without a version of its own (the native
    one) is of the release of its server, which is named instead.
    """

    system: System
    name: str
    version: str

    def supported(self, site: Site) -> str | None:
        """Return None, or why a site has one version of each system alone."""
        return None if site.kind == "lab" else "several versions of a system are there in the lab alone"

    @contextmanager
    def deploy(self, site: Site, spec: DeploySpec) -> Iterator[Deployment]:
        """Yield a deployment of the version; with a server of its own, in the guest network of that one."""
        with site.version(self.name, self.version) as own:
            if reason := self.system.supported(own):
                raise NotRunnable(reason)
            if (network := own.facts["guest_network"]) != site.facts["guest_network"]:
                last = int(ip_address(spec.address)) & 0xFF
                spec = replace(spec, address=str(ip_network(network)[last]))
            with self.system.deploy(own, spec) as deployment:
                found, release = deployment.facts.get("version"), own.facts.get("release")
                # A node tells its runtime as containerd://2.4.2, and a Go module's version begins with a v.
                same = rf"([a-z-]+://)?v?{re.escape(self.version)}(?!\d)"
                if self.version != release and not re.match(same, str(found)):
                    raise ProvisionError(f"{self.name}@{self.version}: version {found} is what runs there")
                of_server = {key: own.facts[key] for key in ("release", "node_image") if key in own.facts}
                facts = {**deployment.facts, "version_wanted": self.version, **of_server}
                yield replace(deployment, system=f"{self.name}@{self.version}", facts=facts)
