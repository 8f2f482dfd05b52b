"""What every CNI does alike: a cluster of its own, pods to measure between, and proof that the CNI carries the packets.

Its pods exist twice, made through Multus (with
a second interface) and made by the CNI alone, and one receiver has a network policy.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from infrabench.core import Deployment, DeploySpec, NotRunnable, ProvisionError, Site, Target
from infrabench.machines.clusters import pods, remote, workers
from infrabench.machines.clusters.cluster import Cluster
from infrabench.machines.clusters.cni import CNI, standing
from infrabench.machines.clusters.freezer import thawing
from infrabench.machines.clusters.kubectl import Kubectl
from infrabench.systems import _namespace, _network_checks, _targets

OWN = "a cluster of its own: one control node, two workers"
log = logging.getLogger(__name__)


def system(cni: CNI) -> tuple[Callable[[Site], str | None], Callable[[Site, DeploySpec], Any]]:
    """Return `supported` and `deploy` of a system that is this CNI: what a system's file has to have."""
    return _supported, partial(contextmanager(deployed), cni=cni)


def needs(cni: CNI, **others: str) -> dict[str, dict[str, str]]:
    """Return the programs that the machines of a cluster with this CNI need -> Debian package, by role.

    `others` are those of its workers that no other CNI needs.
    """
    every = remote.programs((*cni.parts, workers.parts("containerd")[0]))
    return {"control": every, "worker1": {**every, **others}, "worker2": {**every, **others}}


def _supported(site: Site) -> str | None:
    """Return None, or why the site has no place for a cluster; what its hosts lack is found when they are there."""
    if site.kind == "local":
        return "a CNI needs three hosts: take site lab, an inventory with machines, or a kubeconfig"
    return None


def deployed(site: Site, spec: DeploySpec, cni: CNI) -> Iterator[Deployment]:
    """Yield the pods of a new cluster with this CNI, or of the cluster that the site's kubeconfig leads to."""
    if site.kind == "kubeconfig":
        with _deploy_in_existing(site, spec, cni) as deployment:
            yield deployment
        return
    with site.machines(cni.name, cni.parts) as machines:
        cluster = standing(machines, cni)
        made = _populated(cluster, spec, cni)
        yield replace(made, pause=machines.pause, resume=thawing(cluster, machines.resume))


@contextmanager
def _deploy_in_existing(site: Site, spec: DeploySpec, cni: CNI) -> Iterator[Deployment]:
    """Yield pods on a cluster that is used as it is; only our namespace is made in it, and removed at the end."""
    kubectl = Kubectl(site.hosts["server"], tuple(site.facts["kubectl"]))
    names = [node["metadata"]["name"] for node in _namespace.nodes(kubectl)]
    if len(names) < 2:
        raise NotRunnable(f"the cluster has {len(names)} nodes that take pods; two are needed")
    cluster = Cluster(kubectl, (names[0], names[1]))
    if differs := cni.installed(cluster):
        raise NotRunnable(f"the cluster's CNI is not {cni.name}: {differs}")
    _namespace.check(kubectl)
    try:
        with _namespace.hinted(site):
            made = _populated(cluster, spec, cni, image=site.facts["pod_image"])
        yield made
    finally:
        _namespace.remove(kubectl)


def _populated(cluster: Cluster, spec: DeploySpec, cni: CNI, image: str = "") -> Deployment:
    """Make the pods, and return them as a deployment once traffic between them was seen to take the CNI's path."""
    own = cluster.machines is not None
    if cluster.machines is not None:
        image = cluster.machines.images["tools"][0]
    _namespace.remove(cluster.kubectl)
    manifests = [pods.namespace(spec.session), pods.service("server"), pods.policy("server-guarded")]
    if own:
        manifests += [pods.runtime_class(pods.PLAIN), pods.second_network(_targets.uplink(cluster.workers[0]))]
    for role, (node, client, with_multus, last) in _targets.ROLES.items():
        if own or with_multus:
            second = _second(cluster, last) if own and with_multus else ""
            manifests.append(pods.pod(
                role, cluster.nodes[node], image, memory_bytes=spec.limits.memory_bytes, client=client, second=second,
                runtime_class="" if with_multus else pods.class_name(pods.PLAIN),
            ))  # fmt: skip
    if not own:
        manifests += [
            pods.pod(f"witness{number + 1}", name, image, memory_bytes=spec.limits.memory_bytes, host_network=True)
            for number, name in enumerate(cluster.nodes)
        ]
    cluster.kubectl.apply(manifests)
    targets = _targets.targets(cluster, cni, spec, image, _namespace.running(cluster.kubectl))
    _check_limits(targets, spec)
    capabilities = _network_checks.verified(cni.name, targets, enforces=cni.enforces, joins_nodes=cni.joins_nodes)
    return Deployment(cni.name, targets, _facts(cluster, cni, spec, image, targets, capabilities))


def _second(cluster: Cluster, last: int) -> str:
    # The second network of every cluster lies on the same wire: the nodes' own addresses tell them apart.
    third = 100 + int(cluster.workers[0].host.address.split(".")[-1]) % 156
    return f"198.18.{third}.{last}/24"


def _check_limits(targets: Mapping[str, Target], spec: DeploySpec) -> None:
    seen = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.max"
    found = targets["server"].check(("sh", "-c", seen), timeout_s=30).decode().strip()
    if found != str(spec.limits.memory_bytes):
        raise ProvisionError(f"the server pod's memory limit is {found}, not {spec.limits.memory_bytes} bytes")


def _facts(
    cluster: Cluster, cni: CNI, spec: DeploySpec, image: str, targets: Mapping[str, Target],
    capabilities: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    versions = dict(cluster.machines.facts["versions"]) if cluster.machines else {}
    nodes = {
        node["metadata"]["name"]: {
            key: node["status"]["nodeInfo"][key]
            for key in ("kubeletVersion", "containerRuntimeVersion", "kernelVersion", "osImage")
        }
        for node in cluster.kubectl.get("nodes")["items"]
    }
    has_second = "second" in targets["server"].addresses
    return {
        "runs_on": OWN if cluster.machines else "a cluster as it was found",
        "version": versions.get(cni.parts[0]) if cni.parts else versions and "Debian's reference plugins",
        "versions": versions,
        "image": image,
        "nodes": nodes,
        "network": f"{cni.encapsulation} over the nodes' bridge" if cni.overlay else "a bridge on each node",
        "limits": {"memory_bytes": spec.limits.memory_bytes},
        "not_controlled": [] if cluster.machines else [
            "other pods and tenants of the cluster", "kernel and sysctl settings", "version and options of the CNI",
            "freezing the cluster while another is measured",
        ],
        "capabilities": {
            "encapsulation": cni.encapsulation,
            "service": cni.service if cluster.machines else "as the cluster has it",
            "multus": versions.get("multus", "as the cluster has it"),
            "second_interface": "macvlan" if has_second else "none",
            **capabilities,
        },
        "cgroups": [],
    }  # fmt: skip
