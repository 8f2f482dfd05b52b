"""What every CNI does alike: a cluster of its own, pods to measure between, and proof that the CNI carries the packets.

Its pods exist twice, made through Multus (with a second interface) and made by the CNI alone, and one receiver has a
network policy. Before anything is measured, flows prove the path that packets take, and the policy's effect.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from infrabench.core import Deployment, DeploySpec, Host, NotRunnable, ProvisionError, Site, Target
from infrabench_platforms.clusters import hosts, pods, remote, workers
from infrabench_platforms.clusters.cluster import Cluster, Kubectl, list_programs, make_resume
from infrabench_platforms.clusters.cni import CNI, make_cluster, migrate
from infrabench_platforms.systems import _flows, _namespace

OWN = "a cluster of its own: one control node, two workers"
KNOWN = ("flannel", "flannel-direct", "cilium")  # of which a cluster that is used as it is says that it has them
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
_CREATE = """
pod=$1; shift
"$@" create --filename="$0" >/dev/null && "$@" wait --for=condition=Ready --timeout=60s "pod/$pod" >/dev/null
"""
# A pod that does not go is taken from the API at least: the next one must be able to come.
_REMOVE = '"$@" --timeout=30s >/dev/null || { "$@" --force --grace-period=0 --timeout=20s; exit 1; }'

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class System:
    """The system that is a CNI, as the file of a CNI has it in its `FAMILY`.

    >>> FAMILY = {"wire": _cni.System(cni.CNI(name="wire", ...))}
    """

    CNI: CNI  # (as a module has it)

    @property
    def NEEDS(self) -> dict[str, dict[str, str]]:  # noqa: N802 (as a module of a system has it)
        """Programs that the machines of a cluster with this CNI need -> Debian package, by role."""
        every = remote.programs((*self.CNI.parts, workers.parts("containerd")[0]))
        worker = {**every, **dict(self.CNI.programs)}
        return {"control": every, "worker1": worker, "worker2": worker}

    def supported(self, site: Site) -> str | None:
        """Return None, or why the site has no place for a cluster; what its hosts lack is found when they are there."""
        if site.kind == "local":
            return "a CNI needs three hosts: take site lab, an inventory with machines, or a kubeconfig"
        return None

    def deploy(self, site: Site, spec: DeploySpec) -> AbstractContextManager[Deployment]:
        """Return the pods of a new cluster with this CNI, or of the cluster that the site's kubeconfig leads to."""
        return (_deploy_in_existing if site.kind == "kubeconfig" else _deploy)(site, spec, self.CNI)


@contextmanager
def _deploy(site: Site, spec: DeploySpec, cni: CNI) -> Iterator[Deployment]:
    """Yield the pods of a new cluster."""
    with site.machines(cni.name, cni.parts) as machines:
        cluster = make_cluster(machines, cni.before or cni)
        if cni.before:
            _deploy_pods(cluster, spec, cni.before, machines.images["tools"][0])
            _namespace.remove(cluster.kubectl)
            migrate(cluster, cni.before, cni)
        deployment = _deploy_pods(cluster, spec, cni, machines.images["tools"][0])
        own = {} if machines.embedded else machines.hosts
        resume = make_resume(cluster, machines.resume)
        yield replace(deployment, pause=machines.pause, resume=resume, machines=own)


def _deploy_in_existing(site: Site, spec: DeploySpec, cni: CNI) -> AbstractContextManager[Deployment]:
    """Return pods on a cluster that is used as it is; only our namespace is made in it, and removed at the end."""
    if cni.name.startswith(("flannel-", "cilium-")) and cni.name not in KNOWN:
        raise NotRunnable(
            f"whether a cluster that is used as it is was set up as {cni.name} cannot be told: name {', '.join(KNOWN)}"
        )
    kubectl = Kubectl(site.hosts["server"], tuple(site.facts["kubectl"]))
    names = [node["metadata"]["name"] for node in _namespace.nodes(kubectl)]
    if len(names) < 2:
        raise NotRunnable(f"the cluster has {len(names)} nodes that take pods; two are needed")
    cluster = Cluster(kubectl, (names[0], names[1]))
    if differs := cni.installed(cluster):
        raise NotRunnable(f"the cluster's CNI is not {cni.name}: {differs}")
    return _namespace.borrow(site, kubectl, lambda: _deploy_pods(cluster, spec, cni, site.facts["pod_image"]))


def _deploy_pods(cluster: Cluster, spec: DeploySpec, cni: CNI, image: str) -> Deployment:
    """Make the pods, and return them as a deployment once traffic between them was seen to take the CNI's path."""
    own = cluster.machines is not None
    _namespace.remove(cluster.kubectl)
    manifests = [pods.namespace(spec.session), pods.service("server"), pods.policy("server-guarded")]
    if own:
        manifests += [pods.runtime_class(pods.PLAIN), pods.second_network(hosts.uplink(cluster.workers[0].host))]
    for role, (node, client, with_multus, last) in ROLES.items():
        if own or with_multus:
            second = second_address(cluster.workers[0].host, last) if own and with_multus else ""
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
    targets = find_targets(cluster, cni, spec, image, _namespace.running(cluster.kubectl))
    _check_limits(targets, spec)
    if own and cni.idle_services:
        server = targets["server"]
        idle = _make_services(cluster, cni.idle_services, server.address)
        targets["server"] = replace(server, addresses={**server.addresses, "idle": idle})
    if own and cni.idle_policies:
        _flows.add_policies(cluster, cni, targets)
    capabilities = _flows.verify_network(cni.name, targets, enforces=cni.enforces, joins_nodes=cni.joins_nodes)
    if own and cni.joins_nodes:
        _flows.verify_segments(cni, targets["worker1"], capabilities["mss_bytes"])
    capabilities |= {"service": _find_service(cluster, cni), "idle_services": cni.idle_services if own else "unknown"}
    capabilities |= {"idle_policies": cni.idle_policies if own else "unknown"}
    facts = _facts(cluster, cni, spec, image, targets, capabilities)
    return Deployment(cni.name, targets, facts, programs=list_programs(cluster))


def _make_services(cluster: Cluster, count: int, address: str) -> str:
    """Make services that nobody asks for, and return the address of the last one."""
    services = pods.idle_services(count, address)
    cluster.kubectl.create(services)
    last = services[-1]["metadata"]["name"]
    return cluster.kubectl.get("service", last, f"--namespace={pods.NAMESPACE}")["spec"]["clusterIP"]


def find_targets(
    cluster: Cluster, cni: CNI, spec: DeploySpec, image: str, found: Mapping[str, Mapping[str, Any]]
) -> dict[str, Target]:
    """Return the targets by role, of pods that were `found` (by name) and of the nodes that they are on.

    `ProvisionError` when Multus made the network of a pod that should have none of it, or the other way round.
    """
    host = cluster.kubectl.host
    service = cluster.kubectl.get("service", "server", f"--namespace={pods.NAMESPACE}")["spec"]["clusterIP"]
    targets = {}
    for role, (node, _, with_multus, _) in ROLES.items():
        if role not in found or (node == 1 and not cni.joins_nodes):
            continue
        # A cluster that was found may have Multus or not: its pods are as they are.
        addresses = _addresses(found[role], with_multus if cluster.machines else None)
        if role == "server":
            addresses["service"] = service
        prefix = cluster.kubectl.exec_prefix(pods.NAMESPACE, role)
        devices = {name: device for name, device in POD_DEVICES.items() if name in addresses}
        targets[role] = Target(role, host, prefix, addresses["primary"], addresses=addresses, devices=devices)
    for number, name in enumerate(("worker1", "worker2")):
        targets[name] = _witness(cluster, cni, number)
    operator = {"agents": (f"{hosts.PREFIX}{cni.operator}",)} if cluster.workers and cni.operator else {}
    targets["control"] = Target("control", host, lifecycle={**_lifecycle(cluster, spec, image), **operator})
    return targets


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
            shown = address and target.check(("sh", "-c", hosts.UPLINK, "sh", address), timeout_s=30).decode().split()
            devices |= {"uplink": shown[0]} if shown else {}
        return replace(target, devices=devices)
    worker = cluster.workers[number]
    assert cluster.machines is not None
    # A real host's own figures are those of the machine; a lab node is told apart by its cgroup.
    return Target(
        role, worker.host, address=worker.host.address, devices={**devices, "uplink": hosts.uplink(worker.host)},
        counters=hosts.counters(worker.host) if cluster.machines.embedded else (),
        lifecycle={
            "metrics": ("curl", "--silent", "--show-error", "--fail", worker.runtime.metrics), "agents": cni.agents,
        },
    )  # fmt: skip


def _lifecycle(cluster: Cluster, spec: DeploySpec, image: str) -> dict[str, tuple[str, ...]]:
    """Return how a fresh pod is made on the first worker, with and without Multus, and removed."""
    if not cluster.workers:
        return {}
    files = {f"{FRESH_FILES}/fresh{suffix}.json": json.dumps(pods.pod(
        FRESH, cluster.nodes[0], image, memory_bytes=spec.limits.memory_bytes,
        runtime_class=pods.class_name(pods.PLAIN) if suffix else "",
    )) for suffix in ("", "-plain")}  # fmt: skip
    hosts.push(cluster.kubectl.host, files)
    kubectl = (*cluster.kubectl.prefix, f"--namespace={pods.NAMESPACE}")
    create = [("sh", "-c", _CREATE, path, FRESH, *kubectl) for path in files]
    remove = ("sh", "-c", _REMOVE, "sh", *kubectl, "delete", "pod", FRESH, "--ignore-not-found", "--wait")
    field = "--output=jsonpath={.status.nodeInfo.containerRuntimeVersion}"
    version = (*cluster.kubectl.prefix, "get", "node", cluster.nodes[0], field)
    return {"create": create[0], "create-plain": create[1], "remove": remove, "version": version}


def second_address(node: Host, last: int) -> str:
    """Return an address on the second network of the cluster whose first worker is `node`."""
    # Those of all clusters lie on the same wire: the nodes' own addresses tell them apart.
    return f"198.18.{100 + int(node.address.split('.')[-1]) % 156}.{last}/24"


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
    before = f", which {cni.before.name} joined before" if cni.before else ""
    has_second = "second" in targets["server"].addresses
    return {
        "runs_on": OWN + before if cluster.machines else "a cluster as it was found",
        "version": _find_version(cluster, cni),
        "versions": versions,
        "image": image,
        "nodes": nodes,
        "network": _network(cni),
        "limits": {"memory_bytes": spec.limits.memory_bytes},
        "not_controlled": [] if cluster.machines else [
            "other pods and tenants of the cluster", "kernel and sysctl settings", "version and options of the CNI",
            "freezing the cluster while another is measured",
        ],
        "capabilities": {
            "encapsulation": cni.encapsulation,
            "multus": versions.get("multus", "as the cluster has it"),
            "second_interface": "macvlan" if has_second else "none",
            **capabilities,
        },
        "cgroups": [],
    }  # fmt: skip


def _network(cni: CNI) -> str:
    if not cni.joins_nodes:
        return "a bridge on each node"
    return f"{cni.encapsulation} over the nodes' bridge" if cni.overlay else "routes over the nodes' bridge"


def _find_service(cluster: Cluster, cni: CNI) -> str:
    """Return what leads to services, as every node says; `ProvisionError` where a node says another thing than asked.

    Where no kube-proxy runs, it can only be the CNI: that a service leads to its pod is seen by a flow.
    """
    for worker in cluster.workers:
        if (found := workers.read_proxy(worker)) != cni.proxy:
            said, wanted = (f"kube-proxy in mode {mode}" if mode else "no kube-proxy" for mode in (found, cni.proxy))
            raise ProvisionError(f"{cni.name}: {worker.name} has {said}, where there should be {wanted}")
    if not cluster.workers:
        return "as the cluster has it"
    return f"kube-proxy ({cni.proxy})" if cni.proxy else "the CNI itself, no kube-proxy"


def _find_version(cluster: Cluster, cni: CNI) -> str | None:
    """Return the version of the CNI that runs on the first worker; None on a cluster that was found."""
    if not cluster.workers:
        return None
    return hosts.module_version(cluster.workers[0].host, *cni.program) if cni.program else "Debian's reference plugins"
