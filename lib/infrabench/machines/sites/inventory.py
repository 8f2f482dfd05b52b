"""Inventory files: hosts of one's own by role, and machines that a system may make a cluster of.

``docs/own-hosts.md`` shows one. No password is ever read or stored, and the hosts' keys must be known.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from infrabench.core import Machines, NotRunnable, SiteError
from infrabench.machines.hosts import claims
from infrabench.machines.hosts.clock_rate import hold_clock_rate
from infrabench.machines.hosts.host import SSHHost
from infrabench.machines.sites.platforms import Say, find_platforms

GUEST_NETWORK = IPv4Network("198.18.64.0/24")


# What begins with a dash would be an option of the command that it is handed to.
Address = Annotated[str, Field(pattern=r"^[A-Za-z0-9:_]([A-Za-z0-9_.:%-]{0,252}[A-Za-z0-9_.])?$")]
Login = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@\\$+-]{0,127}$")]
# It becomes a part of the names of folders.
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+-]{0,59}$")]


def _plain(path: object) -> object:
    if isinstance(path, str) and (len(path) > 4096 or not path.isprintable()):
        raise ValueError("not the path of a file")
    return path


File = Annotated[Path, BeforeValidator(_plain)]


class Gateway(BaseModel):
    """How a host is reached through which others are."""

    model_config = ConfigDict(extra="forbid")
    address: Address
    user: Login = "root"
    port: int = Field(22, ge=1, le=65535)
    key: File | None = None

    @field_validator("address")
    @classmethod
    def _shorten(cls, address: str) -> str:
        """Return an IPv6 address in its one short form: that of SSH's files of known hosts."""
        return str(IPv6Address(address)) if ":" in address else address


class Machine(Gateway):
    """How a host is reached, and whether its login is made root by sudo."""

    gateway: Name | None = None
    sudo: bool = False


class ClusterMachine(Machine):
    """A machine of a cluster: the others of the cluster reach it at its address too."""

    @field_validator("address")
    @classmethod
    def _is_address(cls, address: str) -> str:
        return str(IPv4Address(address))


class Team(BaseModel):
    """The machines of one cluster."""

    model_config = ConfigDict(extra="forbid")
    control: ClusterMachine
    worker1: ClusterMachine
    worker2: ClusterMachine | None = None

    def members(self, workers: int = 2) -> dict[str, ClusterMachine]:
        """Return the machines by role: as many workers as are asked for, where there are so many."""
        every = {"control": self.control, "worker1": self.worker1, "worker2": self.worker2}
        return {role: node for role, node in list(every.items())[: 1 + workers] if node is not None}


class Inventory(BaseModel):
    """An inventory file; unknown keys (a password, say) are refused."""

    model_config = ConfigDict(extra="forbid")
    name: Name
    hosts: dict[Literal["server", "client"], Machine]
    gateways: dict[Name, Gateway] = {}
    known_hosts: File | None = None  # else SSH's own
    guest_network: IPv4Network = GUEST_NETWORK  # the client is given a route to it through the server
    hold_clock_rate: bool = False  # governor and turbo of all its machines, while a session measures on them
    clusters: dict[Name, Team] = {}  # by system

    def machines(self, systems: Collection[str] | None = None) -> dict[str, Machine]:
        """Return the hosts, and the machines of all clusters or of those of `systems`, by name."""
        chosen = {name: team for name, team in self.clusters.items() if systems is None or name in systems}
        nodes = {f"{name}-{role}": node for name, team in chosen.items() for role, node in team.members().items()}
        return {**self.hosts, **nodes}


def parse_inventory(path: Path, data: object) -> Inventory:
    """Return the inventory in parsed YAML; `SiteError` says what is wrong and where."""
    if not isinstance(data, Mapping):
        raise SiteError(f"{path}: neither an inventory (name, hosts) nor a kubeconfig (kind: Config)")
    try:
        inventory = Inventory.model_validate(data)
    except ValidationError as error:
        faults = error.errors(include_input=False, include_url=False, include_context=False)
        why = "; ".join(f"{'.'.join(str(part)[:60] for part in item['loc'])}: {item['msg']}" for item in faults[:10])
        why += f"; and {len(faults) - 10} more" if len(faults) > 10 else ""
        raise SiteError(f"{path}: {why}. A host takes {', '.join(Machine.model_fields)}; no password.") from error
    if "server" not in inventory.hosts:
        raise SiteError(f"{path}: no host has the role server; write one under hosts: server")
    if unknown := {each.gateway for each in inventory.machines().values() if each.gateway} - set(inventory.gateways):
        raise SiteError(f"{path}: gateways that are not described: {', '.join(sorted(unknown))}")
    for name, team in inventory.clusters.items():
        members = team.members().values()
        if len({node.address for node in members}) < len(members):
            raise SiteError(f"{path}: clusters.{name} needs different machines, each with an address of its own")
    return inventory


def private(inventory: Inventory) -> dict[str, str]:
    """Return every address that the inventory names, and whose it is: what no session may hold."""
    tables = (inventory.gateways, inventory.machines())  # a gateway may be called as a host is
    return {machine.address: name for table in tables for name, machine in table.items()}


def _expand(path: Path) -> Path:
    """Return a path without its ~; one of a user who is not known stays as it is, and is not there."""
    return Path(os.path.expanduser(path))


@contextmanager
def open_hosts(inventory: Inventory, machines: Mapping[str, Machine]) -> Iterator[dict[str, SSHHost]]:
    """Yield a host for each of the machines, by name, connected when it is first used; they end with the context."""
    known = _expand(inventory.known_hosts) if inventory.known_hosts else None
    with ExitStack() as stack:

        def open_host(name: str, each: Gateway, gateway: SSHHost | None = None, sudo: bool = False) -> SSHHost:
            key = _expand(each.key) if each.key else None
            if key is not None and not os.access(key, os.R_OK):
                raise SiteError(f"{name}: the key file {each.key} cannot be read. Name another under key")
            if key is not None and (mode := key.stat().st_mode & 0o777) & 0o077:
                fault = f"{name}: the key file {each.key} is open to others (mode {mode:o})"
                raise SiteError(f"{fault}. Try: chmod 600 on it")
            host = SSHHost(
                name, each.address, user=each.user, port=each.port, key=key, known_hosts=known, gateway=gateway,
                sudo=sudo,
            )  # fmt: skip
            stack.callback(host.close)
            return host

        gateways = {name: open_host(name, each) for name, each in inventory.gateways.items()}
        yield {
            name: open_host(name, each, gateways.get(each.gateway or ""), each.sudo) for name, each in machines.items()
        }


@contextmanager
def hold_hosts(
    inventory: Inventory, hosts: Mapping[str, SSHHost], say: Say, holder: claims.Holder | None,
    checks: list[Callable[[], None]],
) -> Iterator[None]:  # fmt: skip
    """Claim open hosts of an inventory for a session inside, with their clock rate held where that is asked for.

    What tells whether it still is stands among the site's `checks` meanwhile.
    """
    with ExitStack() as stack:
        if holder is not None:
            stack.enter_context(claims.claim_hosts(hosts.values(), holder))
            for host in hosts.values() if inventory.hold_clock_rate else ():
                checks.append(check := stack.enter_context(hold_clock_rate(host, say)))
                stack.callback(checks.remove, check)
        yield


@dataclass(frozen=True, slots=True)
class Teams:
    """The clusters' machines of an open inventory; machines that two clusters share serve one at a time."""

    inventory: Inventory
    say: Say
    holder: claims.Holder | None = None
    checks: list[Callable[[], None]] = field(default_factory=list)  # of the site
    taken: dict[str, str] = field(default_factory=dict)  # address -> system

    @contextmanager
    def machines(self, name: str, tools: tuple[str, ...], workers: int = 2) -> Iterator[Machines]:
        """Yield the machines of the system `name` with programs and images on them; they are left as they were found.

        Raises `NotRunnable` when the inventory names none, another system holds one of them, or one cannot be used.
        """
        team = self.inventory.clusters.get(name)
        if team is None:
            raise NotRunnable(f"the inventory names no machines for it: write them under clusters: {name}")
        members = team.members(workers)
        if len(members) < 1 + workers:
            raise NotRunnable(f"the inventory names no second worker for it: write worker2 under clusters: {name}")
        addresses = {node.address for node in members.values()}
        if shared := sorted(addresses & self.taken.keys()):
            role = next(role for role, node in members.items() if node.address == shared[0])
            raise NotRunnable(
                f"{self.taken[shared[0]]} has a cluster on {role} now: name other machines under clusters: {name}, or "
                "measure one of the two systems at a time"
            )
        self.taken.update(dict.fromkeys(addresses, name))
        named = {f"{name}-{role}": node for role, node in members.items()}
        try:
            with open_hosts(self.inventory, named) as opened:
                hosts = dict(zip(members, opened.values(), strict=True))
                held = hold_hosts(self.inventory, opened, self.say, self.holder, self.checks)
                with held, find_platforms().open_cluster(hosts, tools, self.say) as borrowed:
                    yield borrowed
        finally:
            for address in addresses:
                del self.taken[address]
