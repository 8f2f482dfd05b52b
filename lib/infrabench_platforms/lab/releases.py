"""Versions of a system: server nodes of other releases of Debian, and clusters with another version of a program.

``docker@26.1`` is the Docker of the release whose Docker is 26.1, and ``native@debian13`` the programs of that release
without an engine. Each release that a session needs is one node, with a guest network of its own that the client has a
route to; the guest image is the same for all.

``flannel@0.28.4`` and ``containerd-runc@2.1`` are clusters like those of the plain names, whose Flannel or containerd
is built from another pinned module (`go_parts.VERSIONS`); the nodes are of the same image.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import NoReturn

from infrabench.core import Machines, NotRunnable, Site
from infrabench.machines.hosts.host import run_checked
from infrabench_platforms.lab import go_parts, images, node_groups
from infrabench_platforms.lab.nodes import GUEST_DIR
from infrabench_platforms.lab.shell import Say

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Release:
    """A release of Debian: the image of its nodes, the network of its guests, and its versions of systems."""

    image: str
    network: str
    versions: Mapping[str, str]


RELEASES = {
    "debian12": Release(
        "node12",
        "198.18.65.0/24",
        {"docker": "20.10", "lxc": "5.0", "lxd": "5.0", "podman": "4.3", "native": "debian12"},
    ),
    "debian13": Release(
        "node",
        "198.18.66.0/24",
        {"docker": "26.1", "lxc": "6.0", "incus": "6.0", "podman": "5.4", "native": "debian13"},
    ),
}


def find_release(system: str, version: str) -> str:
    """Return the release that has a version of a system; `NotRunnable` where none has.

    >>> find_release("docker", "26.1"), find_release("lxd", "debian13")
    ('debian13', 'debian13')
    """
    for name, release in RELEASES.items():
        if version in (name, release.versions.get(system)):
            return name
    known = [f"{system}@{release.versions[system]}" for release in RELEASES.values() if system in release.versions]
    raise NotRunnable(f"the lab has no {system}@{version}; it has {', '.join([*known, *RELEASES])}")


@dataclass(frozen=True, slots=True)
class ReleaseServers:
    """The servers of releases that a session has, each made with the first system that needs it."""

    say: Say = log.info
    servers: dict[str, Machines] = field(default_factory=dict)

    @contextmanager
    def open(self, site: Site, system: str, version: str) -> Iterator[Site]:
        """Yield the site with the server of a release in the place of its own; it goes with its first user.

        Contexts are left in the opposite order, so that the first user of a release is the last one to go. For a
        version of a cluster's program it is the site whose clusters have this version.
        """
        if part := go_parts.find_version(system, version):

            def machines_of(name: str, tools: tuple[str, ...], workers: int) -> AbstractContextManager[Machines]:
                return site.machines(f"{name}-{version}", (*tools, part), workers)

            yield replace(site, maker=machines_of)  # type: ignore[type-var]
            return
        name = find_release(system, version)
        if name in self.servers:
            yield _view(site, name, self.servers[name])
            return
        release = RELEASES[name]
        guest, image = images.make("guest", self.say), images.make(release.image, self.say)
        group, client = f"release-{name}", site.hosts["client"]
        with ExitStack() as stack:  # the node goes although the client is lost
            machines = node_groups.boot(group, ("server",), image, {GUEST_DIR: guest.folder})
            stack.callback(node_groups.close_group, group, machines.hosts)
            stack.callback(client.run, ("ip", "route", "del", release.network), timeout_s=10)
            route = ("ip", "route", "replace", release.network, "via", machines.hosts["server"].address)
            run_checked(client, route, timeout_s=10)
            stack.callback(self.servers.pop, name)
            self.servers[name] = replace(machines, facts={"release": name, "node_image": image.hash})
            yield _view(site, name, self.servers[name])


def refuse_machines(name: str, *_: object) -> NoReturn:
    """Raise `NotRunnable`: a release is that of a server, and clusters and stores are the same with each."""
    raise NotRunnable(f"the lab has one version of {name} alone")


def _view(site: Site, name: str, machines: Machines) -> Site:
    facts = {**site.facts, **machines.facts, "guest_network": RELEASES[name].network}
    hosts = {**site.hosts, "server": machines.hosts["server"]}
    return replace(site, hosts=hosts, facts=facts, maker=refuse_machines, storer=refuse_machines)  # type: ignore[type-var]
