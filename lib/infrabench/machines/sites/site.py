"""Sites: `lab` (embedded), `local` (this host, no SSH), an inventory file of SSH hosts, or a cluster's kubeconfig."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from ipaddress import IPv4Network, ip_interface
from pathlib import Path
from typing import Any, Literal

from infrabench.core import LONGEST_NAME, Host, Machines, NotRunnable, Site, SiteError
from infrabench.machines import host_cache
from infrabench.machines.hosts import claims, marks
from infrabench.machines.hosts.host import LocalHost
from infrabench.machines.hosts.remote_shell import probe
from infrabench.machines.sites import cluster_claim, kubeconfig, yaml_with_lines
from infrabench.machines.sites import inventory as inventories
from infrabench.machines.sites.inventory import GUEST_NETWORK, Inventory
from infrabench.machines.sites.kubeconfig import Kubeconfig
from infrabench.machines.sites.platforms import Say, find_platforms

ROUTE_PROTOCOL = "198"  # of our routes, in `ip route`: tells one that a killed run left from an administrator's
ROUTE_S = 20.0
OWN_LINKS = "infrabench"  # what our bridges' names begin with
# Status 3: no route is needed, 4: not root, so none can be made. A name means to the client what its own resolver says;
# guests have IPv4 alone, and so the route leads through an IPv4 address.
_ADD_ROUTE = r"""
network=$1 server=$2 protocol=$3
addresses=$(getent ahosts "$server" | awk '!known[$1]++ { print $1 }')
for address in $addresses; do
  case $(ip route get "$address" 2>/dev/null) in local*) exit 3 ;; esac
done
[ "$(id -u)" != 0 ] || ip route del "$network" proto "$protocol" 2>/dev/null
[ -z "$(ip route show "$network")" ] || exit 3
[ "$(id -u)" = 0 ] || exit 4
why="it knows no IPv4 address of the server"
for address in $addresses; do
  case $address in *:*) continue ;; esac
  why=$(ip route add "$network" via "$address" proto "$protocol" 2>&1) && exit 0
done
echo "${why##*Error: }"
exit 1
"""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OpenSite:
    """An open site; see `core.Site`."""

    name: str
    kind: Literal["lab", "local", "inventory", "kubeconfig"]
    hosts: Mapping[str, Host]
    facts: dict[str, Any] = field(default_factory=dict)
    maker: Callable[[str, tuple[str, ...], int], AbstractContextManager[Machines]] | None = None
    storer: Callable[[str, int, bool], AbstractContextManager[Machines]] | None = None
    imager: Callable[[], Mapping[str, Any]] | None = None
    private: Mapping[str, str] = field(default_factory=dict)
    versioner: Callable[[Site, str, str], AbstractContextManager[Site]] | None = None
    checks: Sequence[Callable[[], None]] = ()

    def machines(self, name: str, tools: tuple[str, ...], workers: int = 2) -> AbstractContextManager[Machines]:
        """Return a context with hosts of its own for the system `name`; `NotRunnable` where the site has none."""
        if self.maker is None:
            raise NotRunnable(f"site {self.name} has no machines for a cluster")
        return self.maker(name, tools, workers)

    def store(self, name: str, need_bytes: int, client: bool = False) -> AbstractContextManager[Machines]:
        """Return a context with a host for the storage system `name`; `NotRunnable` where the site has none.

        With `client` there is one for its client too, where the site has two.
        """
        if self.storer is None:
            raise NotRunnable(f"site {self.name} has no host for a storage system")
        return self.storer(name, need_bytes, client)

    def guest_image(self) -> Mapping[str, str]:
        """Return hash and path of the guest image, made first where nobody has asked yet; `NotRunnable`: there is none.

        A reason stays as well: making one that failed takes a minute, and would fail for the next engine too.
        """
        if "guest_image" not in self.facts:
            none = {"guest_image": None, "guest_image_reason": "this site makes none"}
            self.facts.update(none if self.imager is None else self.imager())
        if self.facts["guest_image"] is None:
            raise NotRunnable(f"no guest image: {self.facts['guest_image_reason']}")
        return self.facts["guest_image"]

    def version(self, system: str, version: str) -> AbstractContextManager[Site]:
        """Return a context with the site as a version of a system finds it; `NotRunnable` where it has one alone."""
        if self.versioner is None:
            raise NotRunnable(f"site {self.name} has one version of {system} alone")
        return self.versioner(self, system, version)


def resolve(spec: str) -> str:
    """Return `spec`; for ``auto`` the best site that this user has here: `lab`, else `local` (the log says why)."""
    if spec != "auto":
        return spec
    try:
        find_platforms().require_lab()
    except NotRunnable as error:
        log.warning("the study runs on this host itself, with the systems that this user can use: %s", error)
        return "local"
    return "lab"


def name_and_kind(spec: str | Path) -> tuple[str, str]:
    """Return what the site `spec` is called and its kind, without opening it.

    Raises `SiteError` when it is no site: neither `lab`, `local`, nor a readable, valid inventory or kubeconfig.
    """
    if str(spec) in ("lab", "local"):
        return str(spec), str(spec)
    found = read_file(spec)
    return found.name, "inventory" if isinstance(found, Inventory) else "kubeconfig"


@contextmanager
def open_site(spec: str | Path, say: Say = log.info, session: str = "") -> Iterator[OpenSite]:
    """Yield the site named by `spec`, with every host connected; connections end with the context.

    A lab that is not up is brought up, and taken down again at the end; one that was up stays up. With the name of a
    `session`, every host is claimed for it first (see `claims`), and so is a cluster that a kubeconfig leads to (see
    `cluster_claim`): nobody else can measure there meanwhile. What a killed session has left on these hosts is removed.
    Raises `SiteError` for an unknown site, a faulty file, a host or cluster that does not answer within seconds, or a
    host that another session has; `ProvisionError` for what was left and cannot be removed, or a lab that does not come
    up.
    """
    holder = claims.make_holder(session) if session else None
    with ExitStack() as stack:
        if str(spec) in ("lab", "local"):
            if holder is not None:
                stack.enter_context(claims.claim_hosts([LocalHost("this machine")], holder))
            in_lab = str(spec) == "lab"
            site = stack.enter_context(find_platforms().open_lab(say, holder)) if in_lab else open_local(say)
        else:
            found = read_file(spec)
            is_inventory = isinstance(found, Inventory)
            opened = _open_remote(found, say, holder) if is_inventory else _open_cluster(found, say, holder)
            site = stack.enter_context(opened)
        # A claim of another lock than the host's own says nothing of who else measures there; the lab has one user.
        is_claimed = site.kind == "lab" or (site.kind != "kubeconfig" and marks.LOCKS not in os.environ)
        if holder is not None and is_claimed:
            for host in site.hosts.values():
                find_platforms().remove_leftovers(host, say)
        yield site


def read_file(spec: str | Path) -> Inventory | Kubeconfig:
    """Return the inventory or kubeconfig in a YAML file; `SiteError` says what is wrong and where."""
    try:
        path = Path(spec).expanduser()
        known = path.is_file()
    except (OSError, RuntimeError, TypeError, ValueError):  # longer than any name; nobody's home; no text at all
        known = False
    if not known:
        shown = str(spec)[:LONGEST_NAME]
        raise SiteError(
            f"unknown site {shown!r}: use auto, lab, local, or the path of an inventory or a kubeconfig (YAML)"
        )
    data = yaml_with_lines.read(path, "an inventory or a kubeconfig", SiteError).data
    if isinstance(data, Mapping) and data.get("kind") == "Config":
        return kubeconfig.read_context(path, data)
    return inventories.parse_inventory(path, data)


def open_local(say: Say = log.info, make: bool = True) -> OpenSite:
    """Return the site `local`; unless `make`, without its guest image where that is still to be made."""
    platforms, here = find_platforms(), LocalHost()
    store, image = partial(platforms.open_store, here, None), partial(platforms.guest_image, say, make)
    return OpenSite("local", "local", {"server": here}, {"guest_network": str(GUEST_NETWORK)}, None, store, image)


@contextmanager
def _open_cluster(config: Kubeconfig, say: Say, holder: claims.Holder | None) -> Iterator[OpenSite]:
    # The user's whole environment: the kubeconfig may name a program that takes its credentials from there.
    here = LocalHost(environment=os.environ)
    facts = {"kubectl": list(kubeconfig.check_access(config, here)), **kubeconfig.pod_image(say)}
    with ExitStack() as stack:
        if holder is not None:
            claim = stack.enter_context(cluster_claim.claim_cluster(here, facts["kubectl"], holder, say))
            here = cluster_claim.ClaimedHost(claim, os.environ)
        yield OpenSite(config.name, "kubeconfig", {"server": here}, facts, private=kubeconfig.private(config))


@contextmanager
def _open_remote(inventory: Inventory, say: Say, holder: claims.Holder | None) -> Iterator[OpenSite]:
    network = str(inventory.guest_network)
    with ExitStack() as stack:
        hosts = stack.enter_context(inventories.open_hosts(inventory, inventory.hosts))
        checks: list[Callable[[], None]] = []
        stack.enter_context(inventories.hold_hosts(inventory, hosts, say, holder, checks))
        private = inventories.private(inventory)
        for host in hosts.values():
            own = host.run(probe("machines/hosts/probes/addresses.py"), timeout_s=10)
            if not own.ok:
                raise SiteError(f"{host.name}: python3 does not run there. Install it on the host.")
            private = dict.fromkeys(json.loads(own.stdout), host.name) | private
            check_range(host, inventory.guest_network)
        if "client" in hosts:
            stack.enter_context(open_route(hosts["client"], hosts["server"], network, say))
        teams = inventories.Teams(inventory, say, holder, checks)
        store = partial(find_platforms().open_store, hosts["server"], hosts.get("client"))
        image = partial(_upload_image, hosts["server"], say)
        facts = {"guest_network": network}
        yield OpenSite(inventory.name, "inventory", hosts, facts, teams.machines, store, image, private, checks=checks)


def _upload_image(host: Host, say: Say) -> Mapping[str, Any]:
    """Return the facts of the guest image on the host, copied there from this machine where it is not there yet."""
    facts = find_platforms().guest_image(say)
    if facts["guest_image"] is None:
        return facts
    digest, tar = facts["guest_image"]["hash"], Path(facts["guest_image"]["tar"])
    name = f"guest-{digest}.tar"
    if not host_cache.verify_copy(host, tar, name):
        say(f"Copying the guest image to {host.name}")
        host_cache.copy(host, tar, name)
    return {"guest_image": {"hash": digest, "tar": f"{host_cache.FOLDER}/{name}"}}


def check_range(host: Host, network: IPv4Network) -> None:
    """Raise `SiteError` where a device of the host that is not ours has an address in the guests' network.

    What is sent to a guest would go to somebody else, or the guest would take his address.
    """
    shown = host.run(("ip", "-json", "-4", "address", "show"), timeout_s=ROUTE_S)
    for link in json.loads(shown.stdout) if shown.ok else ():
        for each in link.get("addr_info", ()):
            own = ip_interface(f"{each['local']}/{each['prefixlen']}")
            if (own in network or own.network.subnet_of(network)) and not link["ifname"].startswith(OWN_LINKS):
                raise SiteError(
                    f"{host.name}: its device {link['ifname']} has an address in the guests' network {network}. Name a "
                    "range that nobody uses as guest_network in the inventory"
                )


@contextmanager
def open_route(client: Host, server: Host, network: str, say: Say) -> Iterator[None]:
    """Give the client a route to the guests while the site is open, unless it has one of its own.

    Without root no route can be made, and `say` is told. Raises `SiteError` when root cannot make one either: every
    connection to a guest would fail.
    """
    by_hand = f"ip route add {network} via ADDRESS, an IPv4 address of {server.name} in a network of {client.name}"
    added = client.run(("sh", "-c", _ADD_ROUTE, "sh", network, server.address, ROUTE_PROTOCOL), timeout_s=ROUTE_S)
    if added.status == 4:
        say(f"{client.name} has no route to guests on {server.name}, and no root to make one. As root there: {by_hand}")
    elif added.status not in (0, 3):
        reason = (added.stdout or added.stderr).decode("utf-8", "replace")
        why = reason.replace(server.address, server.name).strip(" .\n")
        raise SiteError(
            f"{client.name} cannot reach the guests ({network}) through {server.name}: {why or added.ending}. Give the "
            f"server's IPv4 address in the inventory, or make the route by hand: {by_hand}"
        )
    try:
        yield
    finally:
        if added.ok:
            client.run(("ip", "route", "del", network, "proto", ROUTE_PROTOCOL), timeout_s=ROUTE_S)
