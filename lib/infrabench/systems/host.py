"""Host: node to node without any CNI, the baseline of what the machines and their wire can do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from infrabench.core import Deployment, DeploySpec, Host, Site, Target
from infrabench.machines.clusters.workers import Worker
from infrabench.systems import _targets

NEEDS = {"server": {"ip": "iproute2"}, "far": {"ip": "iproute2"}}
ON_HOST = True


def supported(site: Site) -> str | None:
    """Return None, or that the site's hosts cannot be reached."""
    return "a kubeconfig gives pods, and no commands on hosts" if site.kind == "kubeconfig" else None


@contextmanager
def deploy(site: Site, spec: DeploySpec) -> Iterator[Deployment]:
    """Yield the site's hosts as they are; nothing is made, and nothing is limited."""
    server = site.hosts["server"]
    hosts: dict[str, Host] = {"server": server, "near": server}
    if "client" in site.hosts:
        hosts["far"] = site.hosts["client"]
    targets = {
        role: Target(role, host, address=host.address, addresses={"primary": host.address}, devices={"primary": "lo"})
        for role, host in hosts.items()
    }
    for role, host in (("worker1", server), ("worker2", site.hosts.get("client"))):
        if host is not None:
            targets[role] = _witness(role, host, embedded=site.kind == "lab")
    uplink = targets["worker1"].devices["uplink"]
    for role in targets.keys() & {"server", "far"}:
        targets[role] = Target(
            role, hosts[role], address=hosts[role].address, addresses={"primary": hosts[role].address},
            devices={"primary": uplink},
        )  # fmt: skip
    where = "the lab's server and client node" if site.kind == "lab" else "the hosts themselves"
    facts = {
        "runs_on": f"{where}, no pod and no CNI",
        "network": "the hosts' own; two programs of one host talk over its loopback device",
        "limits": {},
        "capabilities": {
            "encapsulation": "none", "service": "none", "multus": "none", "second_interface": "none",
            "network_policy": "none",
        },
        "cgroups": [],
    }  # fmt: skip
    yield Deployment("host", targets, facts)


def _witness(role: str, host: Host, *, embedded: bool) -> Target:
    counters = _targets.counters(host) if embedded else ()
    device = _targets.uplink(Worker(role, host))
    return Target(role, host, address=host.address, devices={"uplink": device}, counters=counters)
