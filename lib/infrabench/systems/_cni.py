"""What every CNI does alike: a cluster of its own, pods to measure between, and proof that the CNI carries the packets.

Its pods exist twice, made through Multus (with
a second interface) and made by the CNI alone, and one receiver has a network policy.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from infrabench.clusters import pods
from infrabench.clusters.cluster import Cluster, is_ready, until
from infrabench.clusters.cni import CNI, standing
from infrabench.clusters.kubectl import Kubectl
from infrabench.core import Deployment, DeploySpec, NotRunnable, ProvisionError, Site, Target
from infrabench.systems import _flows, _targets

PODS_S = 60.0
THAW_S = 30.0
SETTLE_S = 0.4  # a thawed cluster catches up on its timers: two processors for 0.1 to 0.2 s, as measured
GONE_S = 90.0
OWN = "a cluster of its own: one control node, two workers"
log = logging.getLogger(__name__)


def system(cni: CNI) -> tuple[Callable[[Site], str | None], Callable[[Site, DeploySpec], Any]]:
    """Return `supported` and `deploy` of a system that is this CNI: what a system's file has to have."""
    return _supported, partial(contextmanager(deployed), cni=cni)


def _supported(site: Site) -> str | None:
    """Return None, or why the site has no place for a cluster; what its hosts lack is found when they are there."""
    if site.kind == "local":
        return "a CNI needs three hosts: take site lab, an inventory with machines, or a kubeconfig"
    return None


def deployed(site: Site, spec: DeploySpec, cni: CNI) -> Iterator[Deployment]:
    """Yield the pods of a new cluster with this CNI, or of the cluster that the site's kubeconfig leads to."""
    if site.kind == "kubeconfig":
        with _found(site, spec, cni) as deployment:
            yield deployment
        return
    with site.machines(cni.name, cni.parts) as machines:
        cluster = standing(machines, cni)
        made = _populated(cluster, spec, cni)
        resume = machines.resume
        thaw = None if resume is None else lambda: _thaw(resume, cluster)
        yield replace(made, pause=machines.pause, resume=thaw)


def _thaw(resume: Callable[[], None], cluster: Cluster) -> None:
    begin = time.monotonic()
    resume()
    until("the thawed cluster's nodes to be Ready", lambda: is_ready(cluster), THAW_S)
    time.sleep(max(0.0, begin + SETTLE_S - time.monotonic()))


@contextmanager
def _found(site: Site, spec: DeploySpec, cni: CNI) -> Iterator[Deployment]:
    """Yield pods on a cluster that is used as it is; only our namespace is made in it, and removed at the end."""
    kubectl = Kubectl(site.hosts["server"], tuple(site.facts["kubectl"]))
    names = [
        node["metadata"]["name"]
        for node in kubectl.get("nodes")["items"]
        if not node["spec"].get("unschedulable")
        and not any(taint["effect"] != "PreferNoSchedule" for taint in node["spec"].get("taints", ()))
    ]
    if len(names) < 2:
        raise NotRunnable(f"the cluster has {len(names)} nodes that take pods; two are needed")
    cluster = Cluster(kubectl, (names[0], names[1]))
    if differs := cni.installed(cluster):
        raise NotRunnable(f"the cluster's CNI is not {cni.name}: {differs}")
    _check_namespace(kubectl)
    try:
        yield _placed(cluster, spec, cni, site)
    finally:
        _remove_namespace(kubectl)


def _placed(cluster: Cluster, spec: DeploySpec, cni: CNI, site: Site) -> Deployment:
    try:
        return _populated(cluster, spec, cni, image=site.facts["pod_image"])
    except ProvisionError as error:
        if "image" not in str(error):
            raise
        raise ProvisionError(f"{error}. {site.facts['pod_image_hint']}") from error


def _check_namespace(kubectl: Kubectl) -> None:
    """Raise `NotRunnable` when a namespace of that name is somebody else's: ours is removed with all that is in it."""
    found = kubectl.check("get", "namespace", pods.NAMESPACE, "--ignore-not-found", "--output=json")
    if found.strip() and pods.LABEL not in json.loads(found)["metadata"].get("labels", {}):
        raise NotRunnable(
            f"the cluster has a namespace {pods.NAMESPACE} that infrabench did not make. Remove it, or label it: "
            f"kubectl label namespace {pods.NAMESPACE} {pods.LABEL}=yes"
        )


def _remove_namespace(kubectl: Kubectl) -> None:
    kubectl.check(
        "delete", "namespace", pods.NAMESPACE, "--ignore-not-found", f"--timeout={GONE_S:.0f}s", timeout_s=GONE_S + 10
    )  # fmt: skip


def _populated(cluster: Cluster, spec: DeploySpec, cni: CNI, image: str = "") -> Deployment:
    """Make the pods, and return them as a deployment once traffic between them was seen to take the CNI's path."""
    own = cluster.machines is not None
    if cluster.machines is not None:
        image = cluster.machines.images["tools"][0]
    _remove_namespace(cluster.kubectl)
    manifests = [pods.namespace(spec.session), pods.service("server"), pods.policy("server-guarded")]
    if own:
        manifests += [pods.runtime_class(), pods.second_network(_targets.uplink(cluster.workers[0]))]
    for role, (node, client, with_multus, last) in _targets.ROLES.items():
        if own or with_multus:
            second = _second(cluster, last) if own and with_multus else ""
            manifests.append(pods.pod(
                role, cluster.nodes[node], image, memory_bytes=spec.limits.memory_bytes, client=client, second=second,
                plain=not with_multus,
            ))  # fmt: skip
    if not own:
        manifests += [
            pods.pod(f"witness{number + 1}", name, image, memory_bytes=spec.limits.memory_bytes, host_network=True)
            for number, name in enumerate(cluster.nodes)
        ]
    cluster.kubectl.apply(manifests)
    targets = _targets.targets(cluster, cni, spec, image, _running(cluster))
    _check_limits(targets, spec)
    capabilities = _flows.verified(cni.name, targets, enforces=cni.enforces, joins_nodes=cni.joins_nodes)
    return Deployment(cni.name, targets, _facts(cluster, cni, spec, image, targets, capabilities))


def _second(cluster: Cluster, last: int) -> str:
    # The second network of every cluster lies on the same wire: the nodes' own addresses tell them apart.
    third = 100 + int(cluster.workers[0].host.address.split(".")[-1]) % 156
    return f"198.18.{third}.{last}/24"


def _running(cluster: Cluster) -> dict[str, Mapping[str, Any]]:
    """Return every pod by name once all are Ready; `ProvisionError` with their events when they do not get so."""
    told = cluster.kubectl.run(
        "wait", "--for=condition=Ready", "pods", "--all", f"--namespace={pods.NAMESPACE}", f"--timeout={PODS_S:.0f}s",
        timeout_s=PODS_S + 10,
    )  # fmt: skip
    if not told.ok:
        events = cluster.kubectl.run(
            "get", "events", f"--namespace={pods.NAMESPACE}", "--field-selector=type=Warning",
            "--output=jsonpath={range .items[*]}{.involvedObject.name}: {.message}{'\\n'}{end}",
        )  # fmt: skip
        last = events.stdout.decode("utf-8", "replace").strip().splitlines()[-4:]
        raise ProvisionError(f"pods are not Ready after {PODS_S:.0f} s: {'; '.join(last) or told.stderr.decode()}")
    found = cluster.kubectl.get("pods", f"--namespace={pods.NAMESPACE}")["items"]
    return {each["metadata"]["name"]: each for each in found}


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
