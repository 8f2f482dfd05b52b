"""Host: node to node without any CNI, the baseline of what the machines and their wire can do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from infrabench.core import Deployment, DeploySpec, Site, Target
from infrabench_platforms.clusters.hosts import counters, uplink

NEEDS = {"server": {"ip": "iproute2"}, "far": {"ip": "iproute2"}}
ON_HOST = True


def supported(site: Site) -> str | None:
    """Return None, or that the site's hosts cannot be reached."""
    return "a kubeconfig gives pods, and no commands on hosts" if site.kind == "kubeconfig" else None


@contextmanager
def deploy(site: Site, spec: DeploySpec) -> Iterator[Deployment]:
    """Yield the site's hosts as they are; nothing is made, and nothing is limited."""
    server, far = site.hosts["server"], site.hosts.get("client")
    own = {"primary": server.address}
    targets = {"near": Target("near", server, address=server.address, addresses=own, devices={"primary": "lo"})}
    for role, witness, host in (("server", "worker1", server), ("far", "worker2", far)):
        if host is not None:
            used = counters(host) if site.kind == "lab" else ()
            device = uplink(host)
            targets[witness] = Target(witness, host, address=host.address, devices={"uplink": device}, counters=used)
            targets[role] = Target(
                role, host, address=host.address, addresses={"primary": host.address}, devices={"primary": device}
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
