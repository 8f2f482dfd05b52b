"""Sites: `lab` (embedded), `local` (this host, no SSH), or an inventory file of real SSH hosts.

An inventory names hosts by role; no password is ever read or stored, host keys must be known::

    name: two-servers
    hosts:
      server: {address: 192.0.2.10, user: root, key: ~/.ssh/id_ed25519}
      client: {address: 192.0.2.11, user: root, key: ~/.ssh/id_ed25519, gateway: bastion}
    gateways:
      bastion: {address: 198.51.100.7, user: me}
    known_hosts: ~/.ssh/known_hosts      # default
    guest_network: 198.18.64.0/24        # default; the client is given a route to it through the server
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from infrabench.core import Host, InfrabenchError, Machines, NotRunnable, SiteError
from infrabench.host import LocalHost, SSHHost

GUEST_NETWORK = IPv4Network("198.18.64.0/24")
REMOTE_CACHE = "/var/cache/infrabench"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OpenSite:
    """An open site; see `core.Site`."""

    name: str
    kind: Literal["lab", "local", "inventory", "kubeconfig"]
    hosts: Mapping[str, Host]
    facts: Mapping[str, Any] = field(default_factory=dict)
    maker: Callable[[str, tuple[str, ...]], AbstractContextManager[Machines]] | None = None

    def machines(self, name: str, tools: tuple[str, ...]) -> AbstractContextManager[Machines]:
        """Return a context with hosts of its own for the system `name`; `NotRunnable` where the site has none."""
        if self.maker is None:
            raise NotRunnable(f"site {self.name} has no machines for a cluster")
        return self.maker(name, tools)


class _Machine(BaseModel):
    model_config = ConfigDict(extra="forbid")
    address: str
    user: str = "root"
    port: int = Field(22, ge=1, le=65535)
    key: Path | None = None
    gateway: str | None = None


class Inventory(BaseModel):
    """An inventory file; unknown keys (a password, say) are refused."""

    model_config = ConfigDict(extra="forbid")
    name: str
    hosts: dict[Literal["server", "client"], _Machine]
    gateways: dict[str, _Machine] = {}
    known_hosts: Path | None = None
    guest_network: IPv4Network = GUEST_NETWORK


def resolve(spec: str) -> str:
    """Return `spec`; for ``auto`` the best site that this user has here: `lab`, else `local` (the log says why)."""
    if spec != "auto":
        return spec
    from infrabench.lab.shell import require

    try:
        require()
    except NotRunnable as error:
        log.warning("the study runs on this host itself, with the systems that this user can use: %s", error)
        return "local"
    return "lab"


def check_site(spec: str | Path) -> None:
    """Raise `SiteError` when `spec` is no site: neither `lab`, `local` nor a readable, valid inventory."""
    if str(spec) not in ("lab", "local"):
        read_inventory(Path(spec))


@contextmanager
def open_site(spec: str | Path, say: Callable[[str], None] = log.info) -> Iterator[OpenSite]:
    """Yield the site named by `spec`, with every host connected; connections end with the context.

    A lab that is not up is brought up, and taken down again at the end; one that was up stays up.
    Raises `SiteError` for an unknown site, a faulty inventory, or a host that does not answer within seconds.
    """
    with ExitStack() as stack:
        if str(spec) == "lab":
            yield stack.enter_context(_lab(say))
        elif str(spec) == "local":
            yield _local(say)
        else:
            yield stack.enter_context(_remote(read_inventory(Path(spec)), say))


def read_inventory(path: Path) -> Inventory:
    """Return the inventory in a YAML file; `SiteError` says what is wrong and where."""
    if not path.is_file():
        raise SiteError(f"unknown site {str(path)!r}: use auto, lab, local, or the path of an inventory file (YAML)")
    try:
        data = yaml.safe_load(path.read_text())
        inventory = Inventory.model_validate(data)
    except yaml.YAMLError as error:
        raise SiteError(f"{path}: not YAML: {error}") from error
    except ValidationError as error:
        told = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        raise SiteError(f"{path}: {told}. A host takes address, user, port, key and gateway; no password.") from error
    if "server" not in inventory.hosts:
        raise SiteError(f"{path}: no host has the role server; write one under hosts: server")
    wanted = {host.gateway for host in inventory.hosts.values() if host.gateway}
    if unknown := wanted - set(inventory.gateways):
        raise SiteError(f"{path}: gateways that are not described: {', '.join(sorted(unknown))}")
    return inventory


@contextmanager
def _lab(say: Callable[[str], None]) -> Iterator[OpenSite]:
    from infrabench import lab  # the lab's tools are needed only where it is used
    from infrabench.lab.shell import require

    try:
        require()
    except NotRunnable as error:
        raise NotRunnable(f"{error}. Site local runs what this user can run; an inventory names other hosts") from error
    with lab.use(say) as facts, ExitStack() as stack:
        hosts = {node.role: lab.host(node) for node in lab.NODES}
        for host in hosts.values():
            stack.callback(host.close)
            host.run(("true",), timeout_s=5)
        yield OpenSite("lab", "lab", hosts, facts, lambda name, tools: lab.machines(name, tools, say))


def _local(say: Callable[[str], None]) -> OpenSite:
    facts = {"guest_network": str(GUEST_NETWORK)}
    return OpenSite("local", "local", {"server": LocalHost()}, {**facts, **_local_guest(say)})


def _local_guest(say: Callable[[str], None]) -> dict[str, Any]:
    """Return the guest image of this machine as a site fact, or why there is none."""
    from infrabench.lab import images

    image = images.cached("guest")
    if image is None and not shutil.which("mmdebstrap"):
        return {"guest_image": None, "guest_image_reason": "mmdebstrap is not installed (apt-get install mmdebstrap)"}
    try:
        image = image or images.make("guest", say)
    except InfrabenchError as error:
        log.debug("the guest image cannot be made: %s", error)
        last = str(error).strip().splitlines()[-1]
        return {"guest_image": None, "guest_image_reason": f"it cannot be made by this user here: {last}"}
    return {"guest_image": {"hash": image.hash, "tar": str(image.tar)}}


@contextmanager
def _remote(inventory: Inventory, say: Callable[[str], None]) -> Iterator[OpenSite]:
    known = inventory.known_hosts.expanduser() if inventory.known_hosts else None
    gateways = {name: _machine(name, machine, known, None) for name, machine in inventory.gateways.items()}
    hosts: dict[str, Host] = {
        role: _machine(role, machine, known, gateways.get(machine.gateway or ""))
        for role, machine in inventory.hosts.items()
    }
    network = str(inventory.guest_network)
    with ExitStack() as stack:
        for host in (*gateways.values(), *hosts.values()):
            stack.callback(host.close)
        for host in hosts.values():
            answer = host.run(("python3", "-c", "pass"), timeout_s=10)
            if not answer.ok:
                raise SiteError(f"{host.name} ({host.address}): python3 is missing there. Install it on the host.")
        facts = _local_guest(say)
        if facts["guest_image"]:
            facts = {"guest_image": _uploaded(hosts["server"], facts["guest_image"], say)}
        if "client" in hosts:
            stack.enter_context(_route(hosts["client"], network, hosts["server"].address))
        yield OpenSite(inventory.name, "inventory", hosts, {"guest_network": network, **facts})


def _machine(name: str, machine: _Machine, known: Path | None, gateway: SSHHost | None) -> SSHHost:
    key = machine.key.expanduser() if machine.key else None
    if key is not None and not os.access(key, os.R_OK):
        raise SiteError(f"{name}: the key file {machine.key} cannot be read. Name another under key")
    return SSHHost(
        name, machine.address, user=machine.user, port=machine.port, key=key, known_hosts=known, gateway=gateway
    )


def _uploaded(host: Host, image: Mapping[str, str], say: Callable[[str], None]) -> dict[str, str]:
    path = f"{REMOTE_CACHE}/guest-{image['hash']}.tar"
    if not host.run(("test", "-e", path), timeout_s=10).ok:
        say(f"Copying the guest image to {host.name}")
        host.put_file(Path(image["tar"]), path)  # type: ignore[attr-defined]
    return {"hash": image["hash"], "tar": path}


@contextmanager
def _route(client: Host, network: str, via: str) -> Iterator[None]:
    """Give the client a route to the guests while the site is open, if it is root and has none of its own."""
    has = client.run(("ip", "route", "show", network), timeout_s=10)
    made = not has.stdout.strip() and client.run(("ip", "route", "add", network, "via", via), timeout_s=10).ok
    try:
        yield
    finally:
        if made:
            client.run(("ip", "route", "del", network, "via", via), timeout_s=10)
