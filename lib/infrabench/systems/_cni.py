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
from typing import Any

from infrabench.clusters import pods
from infrabench.clusters.cluster import Cluster, is_ready, until
from infrabench.clusters.cni import CNI, standing
from infrabench.clusters.hosts import push, script
from infrabench.clusters.kubectl import Kubectl
from infrabench.clusters.workers import METRICS, Worker
from infrabench.core import Deployment, DeploySpec, Host, NotRunnable, ProvisionError, Site, Target
from infrabench.systems import _flows

FRESH = "infrabench-fresh"
FRESH_FILES = "/etc/infrabench"
PODS_S = 60.0
THAW_S = 30.0
SETTLE_S = 0.4  # a thawed cluster catches up on its timers: two processors for 0.1 to 0.2 s, as measured
GONE_S = 90.0
# Roles -> node (0, 1), whether it is a client, whether Multus makes its network, last part of its second address.
ROLES: Mapping[str, tuple[int, bool, bool, int]] = {
    "server": (0, False, True, 11), "near": (0, True, True, 12), "far": (1, True, True, 13),
    "server-guarded": (0, False, True, 14),
    "server-plain": (0, False, False, 0), "near-plain": (0, True, False, 0), "far-plain": (1, True, False, 0),
}  # fmt: skip
POD_DEVICES = {"primary": "eth0", "second": "net1"}
STATUS = "k8s.v1.cni.cncf.io/network-status"
COUNTERS = ("/sys/fs/cgroup/cpuacct/cpuacct.usage", "/sys/fs/cgroup/cpu.stat")
_CREATE = '"$@" create --filename="$0" >/dev/null && "$@" wait --for=condition=Ready --timeout=60s pod/{pod} >/dev/null'
# A pod that does not go is taken from the API at least: the next one must be able to come.
_REMOVE = '"$@" --timeout=30s || { "$@" --force --grace-period=0 --timeout=20s; exit 1; }'
_UPLINK = (
    'ip -o -4 addr show | while read -r _ device _ address _; do case $address in "$1"/*) echo "$device";; esac; done'
)

OWN = "a cluster of its own: one control node, two workers"
log = logging.getLogger(__name__)


def supported(site: Site, cni: CNI) -> str | None:
    """Return None, or why the site has no place for a cluster; what its hosts lack is found when they are there."""
    if site.kind == "local":
        return "a CNI needs three hosts: take site lab, an inventory with machines, or a kubeconfig"
    return None


def uplink(worker: Worker) -> str:
    """Return the network device of a worker that has its address."""
    found = script(worker.host, _UPLINK, worker.host.address).split()
    if len(found) != 1:
        raise ProvisionError(f"{worker.host.name}: {len(found)} devices have the address {worker.host.address}")
    return found[0]


def counters(host: Host) -> tuple[str, ...]:
    """Return the file of a lab node that tells how much CPU time it has used."""
    return tuple(script(host, 'for file in "$@"; do [ ! -e "$file" ] || echo "$file"; done', *COUNTERS).split()[:1])


@contextmanager
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
        manifests += [pods.runtime_class(), pods.second_network(uplink(cluster.workers[0]))]
    for role, (node, client, with_multus, last) in ROLES.items():
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
    targets = _targets(cluster, cni, spec, image, _running(cluster))
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


def _targets(
    cluster: Cluster, cni: CNI, spec: DeploySpec, image: str, found: Mapping[str, Mapping[str, Any]]
) -> dict[str, Target]:
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
    targets["control"] = Target("control", host, lifecycle=_lifecycle(cluster, spec, image))
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
        elif address := _node_address(cluster, number):
            shown = target.check(("sh", "-c", _UPLINK, "sh", address), timeout_s=30).decode().split()
            devices |= {"uplink": shown[0]} if shown else {}
        return replace(target, devices=devices)
    worker = cluster.workers[number]
    assert cluster.machines is not None
    # A real host's own figures are those of the machine; a lab node is told apart by its cgroup.
    return Target(
        role, worker.host, address=worker.host.address, devices={**devices, "uplink": uplink(worker)},
        counters=counters(worker.host) if cluster.machines.embedded else (),
        lifecycle={"metrics": ("curl", "--silent", "--show-error", "--fail", f"http://{METRICS}/v1/metrics")},
    )  # fmt: skip


def _node_address(cluster: Cluster, number: int) -> str:
    node = cluster.kubectl.get("node", cluster.nodes[number])
    return next((each["address"] for each in node["status"]["addresses"] if each["type"] == "InternalIP"), "")


def _lifecycle(cluster: Cluster, spec: DeploySpec, image: str) -> dict[str, tuple[str, ...]]:
    """Return how a fresh pod is made on the first worker, with and without Multus, and removed."""
    if not cluster.workers:
        return {}
    files = {f"{FRESH_FILES}/fresh{suffix}.json": json.dumps(pods.pod(
        FRESH, cluster.nodes[0], image, memory_bytes=spec.limits.memory_bytes, plain=bool(suffix)
    )) for suffix in ("", "-plain")}  # fmt: skip
    push(cluster.kubectl.host, files)
    kubectl = (*cluster.kubectl.prefix, f"--namespace={pods.NAMESPACE}")
    create = [("sh", "-c", _CREATE.format(pod=FRESH), path, *kubectl) for path in files]
    remove = ("sh", "-c", _REMOVE, "sh", *kubectl, "delete", "pod", FRESH, "--ignore-not-found", "--wait")
    told = "--output=jsonpath={.status.nodeInfo.containerRuntimeVersion}"
    version = (*cluster.kubectl.prefix, "get", "node", cluster.nodes[0], told)
    return {"create": create[0], "create-plain": create[1], "remove": remove, "version": version}


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
