"""Where commands run on a cluster with a CNI: pods by role, the nodes that see their packets, and what makes a pod."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from infrabench.core import DeploySpec, Host, ProvisionError, Target
from infrabench.machines.clusters import pods
from infrabench.machines.clusters.cluster import Cluster
from infrabench.machines.clusters.cni import CNI
from infrabench.machines.clusters.hosts import push, script
from infrabench.machines.clusters.workers import Worker

FRESH = "infrabench-fresh"
FRESH_FILES = "/etc/infrabench"
# Roles -> node (0, 1), whether it is a client, whether Multus makes its network, last part of its second address.
ROLES: Mapping[str, tuple[int, bool, bool, int]] = {
    "server": (0, False, True, 11), "near": (0, True, True, 12), "far": (1, True, True, 13),
    "server-guarded": (0, False, True, 14),
    "server-plain": (0, False, False, 0), "near-plain": (0, True, False, 0), "far-plain": (1, True, False, 0),
}  # fmt: skip
POD_DEVICES = {"primary": "eth0", "second": "net1"}
STATUS = "k8s.v1.cni.cncf.io/network-status"
COUNTERS = ("/sys/fs/cgroup/cpuacct/cpuacct.usage", "/sys/fs/cgroup/cpu.stat")
_CREATE = """
pod=$1; shift
"$@" create --filename="$0" >/dev/null && "$@" wait --for=condition=Ready --timeout=60s "pod/$pod" >/dev/null
"""
# A pod that does not go is taken from the API at least: the next one must be able to come.
_REMOVE = '"$@" --timeout=30s >/dev/null || { "$@" --force --grace-period=0 --timeout=20s; exit 1; }'
_UPLINK = (
    'ip -o -4 addr show | while read -r _ device _ address _; do case $address in "$1"/*) echo "$device";; esac; done'
)


def uplink(worker: Worker) -> str:
    """Return the network device of a worker that has its address."""
    found = script(worker.host, _UPLINK, worker.host.address).split()
    if len(found) != 1:
        raise ProvisionError(f"{worker.host.name}: {len(found)} devices have the address {worker.host.address}")
    return found[0]


def counters(host: Host) -> tuple[str, ...]:
    """Return the file of a lab node that tells how much CPU time it has used."""
    return tuple(script(host, 'for file in "$@"; do [ ! -e "$file" ] || echo "$file"; done', *COUNTERS).split()[:1])


def targets(
    cluster: Cluster, cni: CNI, spec: DeploySpec, image: str, found: Mapping[str, Mapping[str, Any]]
) -> dict[str, Target]:
    """Return the targets by role, of pods that were `found` (by name) and of the nodes that they are on.

    `ProvisionError` when Multus made the network of a pod that should have none of it, or the other way round.
    """
    host = cluster.kubectl.host
    service = cluster.kubectl.get("service", "server", f"--namespace={pods.NAMESPACE}")["spec"]["clusterIP"]
    made = {}
    for role, (node, _, with_multus, _) in ROLES.items():
        if role not in found or (node == 1 and not cni.joins_nodes):
            continue
        # A cluster that was found may have Multus or not: its pods are as they are.
        addresses = _addresses(found[role], with_multus if cluster.machines else None)
        if role == "server":
            addresses["service"] = service
        prefix = cluster.kubectl.exec_prefix(pods.NAMESPACE, role)
        devices = {name: device for name, device in POD_DEVICES.items() if name in addresses}
        made[role] = Target(role, host, prefix, addresses["primary"], addresses=addresses, devices=devices)
    for number, name in enumerate(("worker1", "worker2")):
        made[name] = _witness(cluster, cni, number)
    made["control"] = Target("control", host, lifecycle=_lifecycle(cluster, spec, image))
    return made


def _addresses(pod: Mapping[str, Any], with_multus: bool | None) -> dict[str, str]:
    """Return a pod's addresses by interface, and check that Multus made its network, or did not (None: either)."""
    name, status = pod["metadata"]["name"], pod["metadata"].get("annotations", {}).get(STATUS)
    addresses = {"primary": pod["status"]["podIP"]}
    if with_multus not in (None, status is not None):
        raise ProvisionError(f"pod {name}: Multus {'did not make' if with_multus else 'made'} its network")
    for network in json.loads(status or "[]"):
        if network["interface"] == POD_DEVICES["second"]:
            addresses["second"] = network["ips"][0]
    return addresses


def _witness(cluster: Cluster, cni: CNI, number: int) -> Target:
    role = f"worker{number + 1}"
    devices = {"overlay": cni.overlay} if cni.overlay else {}
    if not cluster.workers:
        prefix = cluster.kubectl.exec_prefix(pods.NAMESPACE, f"witness{number + 1}")
        target = Target(role, cluster.kubectl.host, prefix)
        found = target.check(("sh", "-c", "ip -o route show default"), timeout_s=30).decode().split()
        if "dev" in found:
            devices["uplink"] = found[found.index("dev") + 1]
        else:
            listed = cluster.kubectl.get("node", cluster.nodes[number])["status"]["addresses"]
            address = next((each["address"] for each in listed if each["type"] == "InternalIP"), "")
            shown = address and target.check(("sh", "-c", _UPLINK, "sh", address), timeout_s=30).decode().split()
            devices |= {"uplink": shown[0]} if shown else {}
        return replace(target, devices=devices)
    worker = cluster.workers[number]
    assert cluster.machines is not None
    # A real host's own figures are those of the machine; a lab node is told apart by its cgroup.
    return Target(
        role, worker.host, address=worker.host.address, devices={**devices, "uplink": uplink(worker)},
        counters=counters(worker.host) if cluster.machines.embedded else (),
        lifecycle={"metrics": ("curl", "--silent", "--show-error", "--fail", worker.runtime.metrics)},
    )  # fmt: skip


def _lifecycle(cluster: Cluster, spec: DeploySpec, image: str) -> dict[str, tuple[str, ...]]:
    """Return how a fresh pod is made on the first worker, with and without Multus, and removed."""
    if not cluster.workers:
        return {}
    files = {f"{FRESH_FILES}/fresh{suffix}.json": json.dumps(pods.pod(
        FRESH, cluster.nodes[0], image, memory_bytes=spec.limits.memory_bytes,
        runtime_class=pods.class_name(pods.PLAIN) if suffix else "",
    )) for suffix in ("", "-plain")}  # fmt: skip
    push(cluster.kubectl.host, files)
    kubectl = (*cluster.kubectl.prefix, f"--namespace={pods.NAMESPACE}")
    create = [("sh", "-c", _CREATE, path, FRESH, *kubectl) for path in files]
    remove = ("sh", "-c", _REMOVE, "sh", *kubectl, "delete", "pod", FRESH, "--ignore-not-found", "--wait")
    told = "--output=jsonpath={.status.nodeInfo.containerRuntimeVersion}"
    version = (*cluster.kubectl.prefix, "get", "node", cluster.nodes[0], told)
    return {"create": create[0], "create-plain": create[1], "remove": remove, "version": version}
