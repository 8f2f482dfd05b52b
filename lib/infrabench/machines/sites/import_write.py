"""From hosts with roles to inventories: each host says its site and its role there, each site becomes one inventory.

Roles are those of an inventory: ``server``, ``client``, ``gateway``, and of a cluster's machines ``SYSTEM-control``,
``SYSTEM-worker1`` and ``SYSTEM-worker2`` (``flannel-control``). A gateway that names no site serves all of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from infrabench.core import SiteError
from infrabench.machines.sites import inventory

FIELDS = tuple(inventory.Machine.model_fields)  # how a host is reached
OF_A_CLUSTER = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.+-]{0,59})-(control|worker1|worker2)")
ROLES = "server, client, gateway, or SYSTEM-control, SYSTEM-worker1, SYSTEM-worker2 such as flannel-control"


@dataclass(frozen=True, slots=True)
class PlacedHost:
    """A host in its place. `site` is empty for a gateway of all sites; `called` is how errors name the host."""

    called: str
    site: str
    role: str
    reached: Mapping[str, Any]  # `FIELDS` that are known


def inventories(hosts: Sequence[PlacedHost], origin: str, known_hosts: str = "") -> dict[str, str]:
    """Return the YAML of one inventory for each site, by the site's name; `SiteError` says what is wrong and where.

    `origin` is what the hosts were read from, for errors.
    """
    names = list(dict.fromkeys(host.site for host in hosts if host.site))
    if not names:
        raise SiteError(f"{origin}: no host, so no site")
    _check_apart(hosts, origin)
    return {name: _render_inventory(name, [each for each in hosts if each.site in (name, "")], origin, known_hosts)
            for name in names}  # fmt: skip


def _render_inventory(name: str, hosts: Sequence[PlacedHost], origin: str, known_hosts: str) -> str:
    data: dict[str, Any] = {"name": name, "hosts": {}, "gateways": {}, "clusters": {}}
    for host in hosts:
        if host.role in ("server", "client"):
            table, key = data["hosts"], host.role
        elif host.role == "gateway":
            table, key = data["gateways"], host.called
        elif match := OF_A_CLUSTER.fullmatch(host.role):
            table, key = data["clusters"].setdefault(match[1], {}), match[2]
        else:
            raise SiteError(f"{origin}: {host.called} has the unknown role {host.role[:60]!r}. Known are {ROLES}")
        if key in table:
            raise SiteError(f"{origin}: site {name[:60]} has {host.role} twice; {host.called} is the second")
        table[key] = dict(host.reached)
    data = {key: value for key, value in data.items() if value or key == "hosts"}
    if known_hosts:
        data["known_hosts"] = known_hosts
    inventory.parse_inventory(Path(f"{origin}, site {name[:60]}"), data)
    text = yaml.safe_dump(data, sort_keys=False, allow_unicode=False, default_flow_style=None, width=1000)
    return f"# What its hosts lack: `infrabench hosts prepare FILE --dry-run`\n{text}"


def _check_apart(hosts: Sequence[PlacedHost], origin: str) -> None:
    """Refuse one machine under two names or in two sites; of one site, clusters may share it."""
    seen: dict[tuple[str, ...], PlacedHost] = {}
    for host in hosts:
        key = tuple(str(host.reached.get(part, "")) for part in ("address", "port", "gateway"))
        first = seen.setdefault(key, host)
        if first.called != host.called or first.site != host.site:
            where = "" if first.site == host.site else f", in the sites {first.site[:60]} and {host.site[:60]}"
            raise SiteError(f"{origin}: {first.called} and {host.called} have the same address{where}")
