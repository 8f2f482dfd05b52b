"""What every container runtime does alike: a node of its own, equal pods on it, and proof of what runs them.

A system is a pair: the high-level runtime that the kubelet speaks to, and the low-level one that it calls for the pods
under test. The pods of a population are made by `_population` as trials ask for them. One more pod, the conductor, of
the node's usual runtime, starts their tools. A first pod proves, before any trial, that the pair works and what it is.
"""

from __future__ import annotations

import json
import math
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from ipaddress import ip_network
from typing import Any

from infrabench.core import Deployment, DeploySpec, Limits, NotRunnable, ProvisionError, Site, Target
from infrabench.core.workloads import script_command
from infrabench_platforms.clusters import hosts, kata, pods, remote, runtimes, workers
from infrabench_platforms.clusters.cluster import Cluster, Kubectl, list_programs, make_resume
from infrabench_platforms.clusters.cni import make_cluster
from infrabench_platforms.systems import _namespace, bridge

USUAL = "runc"  # what our own nodes do with a pod that has no runtime class
HIGH = {"containerd": "containerd://", "crio": "cri-o://"}  # -> how a node's status begins to tell its runtime
CONDUCTOR = "conductor"
PORT = 7411
LIST = "/tmp/infrabench-population"  # in the conductor: names and addresses
TOKEN = "INFRABENCH_TOKEN"
WAIT_S, WAIT_S_PER_POD = 30.0, 3.0  # for all pods of a population to come, or to go
OWN = "a cluster of its own: one control node, one worker"
FIRST_POD = "pod-001"
NODE = ("kubeletVersion", "containerRuntimeVersion", "kernelVersion", "osImage")
ISOLATION = {
    "runc": "namespaces and cgroups of the node's kernel", "crun": "namespaces and cgroups of the node's kernel",
    "runsc": "a kernel in user space (gVisor)", "kata": "a virtual machine",
}  # fmt: skip
SCRIPTED = "a script (out-of-memory scores cannot be lowered on this machine)"
OWN_KERNEL = ("runsc", "kata")
# What a processor says of the hypervisor below (CPUID leaf 0x40000000), as their documentation gives it.
EMULATED = "TCGTCGTCGTCG"
HYPERVISORS = {"KVMKVMKVM": "KVM", EMULATED: "emulation by QEMU (TCG)", "Microsoft Hv": "Hyper-V"}
# Kata's virtual machine has the container's limit in a cgroup of its own; gVisor shows none inside.
SHOWS_LIMIT = ("runc", "crun", "kata")
MIB = 2**20
LABEL = "infrabench-population"  # of the pods that are made to fill the node
RESERVED_B = 2048 * MIB  # for the rest of the machine: pods of other systems that are frozen, page cache, tools
# What a pod costs beside its limit and what is free, in steps: so the next deployment finds the same number.
COST_STEP, FREE_STEP = 16 * MIB, 1024 * MIB
# Used by the node's cgroup, bytes: anonymous and shared memory (a virtual machine's may be either), and the kernel's.
_MEMORY = """
import json, os
def fields(path):
    return {key: int(value) for key, value in (line.split()[:2] for line in open(path))}
top = "/sys/fs/cgroup/memory"
if os.path.exists(top + "/memory.stat"):
    found = fields(top + "/memory.stat")
    kernel = int(open(top + "/memory.kmem.usage_in_bytes").read())
    used = found["total_rss"] + found["total_shmem"] + kernel
else:
    found = fields("/sys/fs/cgroup/memory.stat")
    names = ("slab", "kernel_stack", "pagetables", "percpu")
    used = found["anon"] + found["shmem"] + found.get("kernel", sum(found.get(name, 0) for name in names))
print(json.dumps({"used_B": used}))
"""
MEMORY = ("python3", "-c", _MEMORY)


@dataclass(frozen=True, slots=True)
class Pair:
    """The system that is a high-level runtime above a low-level one.

    `runtime_class` is that of its pods (empty: they have none), once it is known.
    """

    high: str
    low: str
    runtime_class: str = ""

    @property
    def name(self) -> str:
        return f"{self.high}-{self.low}"

    @property
    def NEEDS(self) -> dict[str, dict[str, str]]:  # noqa: N802 (as a module of a system has it)
        """Programs that the machines of a cluster with this pair need -> Debian package, by role.

        Kata Containers is in no package: who wants it installs it.
        """
        every = remote.programs(workers.parts(self.high))
        return {"control": every, "worker1": {**every, **runtimes.PROGRAMS.get(self.low, {})}}

    def supported(self, site: Site) -> str | None:
        """Return None, or why the site has no place for the pair; what its hosts lack is found when they are there."""
        if site.kind == "local":
            return (
                "a container runtime needs nodes of its own: take site lab, an inventory with machines, or a kubeconfig"
            )
        if site.kind == "kubeconfig":
            return None
        try:
            workers.parts(self.high, (USUAL, self.low))
        except NotRunnable as error:
            return str(error)
        return None

    def deploy(self, site: Site, spec: DeploySpec) -> AbstractContextManager[Deployment]:
        """Return a context with a node of a new cluster, or of the one that the site's kubeconfig leads to."""
        return (_deploy_in_existing if site.kind == "kubeconfig" else _deploy)(site, spec, self)


@contextmanager
def _deploy(site: Site, spec: DeploySpec, pair: Pair) -> Iterator[Deployment]:
    """Yield a node of a new cluster."""
    pair = replace(pair, runtime_class="" if pair.low == USUAL else pods.class_name(pair.low))
    low = tuple(dict.fromkeys((USUAL, pair.low)))
    with site.machines(pair.name, workers.parts(pair.high, low), 1) as machines:
        cluster = make_cluster(machines, bridge.CNI, pair.high, low, multus=False)
        deployment = _deploy_pods(cluster, spec, pair, machines.images["tools"][0])
        own = {} if machines.embedded else machines.hosts
        resume = make_resume(cluster, machines.resume)
        yield replace(deployment, pause=machines.pause, resume=resume, machines=own)


def _deploy_in_existing(site: Site, spec: DeploySpec, pair: Pair) -> AbstractContextManager[Deployment]:
    """Return a node of a cluster that is used as it is; only our namespace is made in it, and removed at the end."""
    kubectl = Kubectl(site.hosts["server"], tuple(site.facts["kubectl"]))
    runtime_class = _namespace.find_class(kubectl, pair.low)
    runs = {
        node["metadata"]["name"]: node["status"]["nodeInfo"]["containerRuntimeVersion"]
        for node in _namespace.nodes(kubectl)
        if runtime_class is None or _namespace.takes(runtime_class, node)
    }
    good = [name for name, version in runs.items() if version.startswith(HIGH[pair.high])]
    if not good:
        others = ", ".join(f"{name}: {what}" for name, what in runs.items()) or "none takes them"
        raise NotRunnable(f"no node that takes such pods has {pair.high}: {others}")
    pair = replace(pair, runtime_class="" if runtime_class is None else runtime_class["metadata"]["name"])
    cluster = Cluster(kubectl, (good[0],))
    return _namespace.borrow(site, kubectl, lambda: _deploy_pods(cluster, spec, pair, site.facts["pod_image"]))


def _deploy_pods(cluster: Cluster, spec: DeploySpec, pair: Pair, image: str) -> Deployment:
    """Make the conductor and a first pod, and return them as a deployment once that pod was seen to be what it should.

    `NotRunnable` with the runtime's words, and all that is known as evidence, when a low-level runtime other than the
    usual one makes no pod.
    """
    kubectl, node = cluster.kubectl, cluster.nodes[0]
    token = {TOKEN: secrets.token_hex(16)}
    _namespace.remove(kubectl)
    manifests = [pods.namespace(spec.session)]
    if cluster.machines and pair.low != USUAL:
        manifests.append(pods.runtime_class(pair.low))
    conductor = pods.pod(CONDUCTOR, node, image, memory_bytes=spec.limits.memory_bytes, environment=token)
    kubectl.apply([*manifests, conductor])
    address = _namespace.running(kubectl)[CONDUCTOR]["status"]["podIP"]
    prefix = kubectl.exec_prefix(pods.NAMESPACE, CONDUCTOR)
    targets = {role: Target(role, kubectl.host, prefix, address) for role in (CONDUCTOR, "server")}
    if cluster.machines:
        host = cluster.workers[0].host
        # A real host's own CPU time is that of the machine; a lab node is told apart by its cgroup.
        used = hosts.counters(host) if cluster.machines.embedded else ()
        memory = {"memory": MEMORY} if host.run(MEMORY, timeout_s=20).ok else {}
        targets["worker1"] = Target("worker1", host, address=host.address, counters=used, lifecycle=memory)
    population = _population(cluster, spec, pair, image, token)
    free = Free.now(targets)
    first = kubectl.host.run((*population, "create", "1"), timeout_s=4 * WAIT_S)
    if not first.ok:
        refusal = first.stderr.decode("utf-8", "replace").strip()[-600:]
        if pair.low != USUAL:
            left = kubectl.host.run((*population, "evidence"), timeout_s=4 * WAIT_S)
            raise NotRunnable(f"{pair.low} makes no pod here: {refusal}", left.stdout.decode("utf-8", "replace"))
        raise ProvisionError(f"{pair.name}: {refusal}")
    status = kubectl.get("node", node)["status"]
    inside, emulated = inspect_pod(kubectl, spec.limits, pair.low, status["nodeInfo"])
    most, reason = fits(kubectl, node, free, Free.now(targets), spec.limits.memory_bytes)
    version = (*kubectl.prefix, "get", "node", node, "--output=jsonpath={.status.nodeInfo.containerRuntimeVersion}")
    lifecycle = {"population": population, "version": version, "pods_reason": (reason,)}
    if folder := os.environ.get(pods.YCRUNCHER):
        lifecycle["y-cruncher"] = (f"{folder}/y-cruncher",)
    targets["control"] = Target("control", kubectl.host, lifecycle=lifecycle, pods=most)
    facts = _facts(cluster, pair, spec, image, status, {**inside, "pods_that_fit": f"{most}: {reason}"}, emulated)
    return Deployment(pair.name, targets, facts, programs=list_programs(cluster))


def _population(
    cluster: Cluster, spec: DeploySpec, pair: Pair, image: str, token: Mapping[str, str]
) -> tuple[str, ...]:  # fmt: skip
    """Return the beginning of every command on the population; a verb follows (see `_population`)."""
    command = ("ib-pods", "serve", "--port", str(PORT))
    pod = pods.pod(
        "pod", cluster.nodes[0], image, memory_bytes=spec.limits.memory_bytes, runtime_class=pair.runtime_class,
        command=command, environment=token, folder=os.environ.get(pods.YCRUNCHER, ""),
    )  # fmt: skip
    config = {
        "kubectl": list(cluster.kubectl.prefix), "namespace": pods.NAMESPACE, "node": cluster.nodes[0], "pod": pod,
        "conductor": CONDUCTOR, "list": LIST, "wait_s": WAIT_S, "wait_s_per_pod": WAIT_S_PER_POD,
        "logs": [f"infrabench/{cluster.workers[0].runtime.name}.log"] if cluster.workers else [],
    }  # fmt: skip
    return (*script_command(pods.POPULATION), json.dumps(config))


def _facts(
    cluster: Cluster, pair: Pair, spec: DeploySpec, image: str, status: Mapping[str, Any],
    inside: Mapping[str, str], emulated: bool,
) -> dict[str, Any]:  # fmt: skip
    versions = dict(cluster.machines.facts["versions"]) if cluster.machines else {}
    worker = cluster.workers[0] if cluster.workers else None
    node_info = {key: status["nodeInfo"][key] for key in NODE}
    layers, emulates = _layers(worker, pair) if worker else ({}, False)
    low = worker.handlers[pair.low] if worker else "as the cluster has it"
    return {
        "runs_on": OWN if cluster.machines else "one node of a cluster as it was found",
        "version": f"{node_info['containerRuntimeVersion']}, {pair.low}: {low}",
        "versions": versions,
        "image": image,
        "nodes": {cluster.nodes[0]: node_info},
        "network": "the reference bridge plugin on one node, no Multus" if worker else "as the cluster has it",
        "limits": {"memory_bytes": spec.limits.memory_bytes},
        "emulated": emulated or emulates,
        "not_controlled": [] if worker else [
            "other pods and tenants of the node", "kernel, sysctl and kubelet settings", "versions and options",
            "freezing the cluster while another is measured", "the low-level runtime of pods without a runtime class",
        ],
        "capabilities": {
            "runtime_class": pair.runtime_class or "none", **inside, **layers,
        },
        "cgroups": [],
    }  # fmt: skip


def _layers(worker: workers.Worker, pair: Pair) -> tuple[dict[str, str], bool]:
    """Return what stands between the layers, what runs virtual machines of Kata's pods, and whether that emulates.

    On some machines a script of ours stands before a program, which costs a start milliseconds.
    """
    scripted = worker.restricted and (pair.low == "runsc" or (pair.high == "crio" and pair.low != "kata"))
    layers = {"called_through": SCRIPTED if scripted else "nothing"}
    if worker.kata is None or pair.low != "kata":
        return layers, False
    fast = kata.is_accelerated(worker.host, worker.kata)
    how = {True: "KVM", False: "emulation", None: "not told"}[fast]
    program = worker.kata.program or "part of the shim"
    return {"hypervisor": f"{worker.kata.hypervisor} ({program}), by its processes: {how}", **layers}, fast is False


def inspect_pod(kubectl: Kubectl, limits: Limits, low: str, node: Mapping[str, str]) -> tuple[dict[str, str], bool]:
    """Return what the first pod says, as capabilities, and whether its processor is emulated.

    `node` is the node's ``nodeInfo``.

    Raises `ProvisionError` when it contradicts what makes its pods: a kernel of the node where there should be another
    one, another kernel where it should be the node's, another memory limit than was asked for.
    """
    argv = (*kubectl.exec_prefix(pods.NAMESPACE, FIRST_POD), "ib-pods", "facts")
    result = kubectl.host.run(argv, timeout_s=60)
    if not result.ok:
        said = result.stderr.decode("utf-8", "replace").strip()[-300:]
        raise NotRunnable(f"nothing can be run in its pods: {said}")
    facts = json.loads(result.stdout)
    kernel, mine = facts["kernel"], node["kernelVersion"]
    if (kernel != mine) is not (low in OWN_KERNEL):
        how = "the node's own" if kernel == mine else "not the node's"
        raise ProvisionError(f"{low} does not make the pods: their kernel {kernel} is {how} ({mine})")
    limit = facts["memory_limit_B"]
    if limit is not None and limit != limits.memory_bytes and low in SHOWS_LIMIT:
        raise ProvisionError(f"the pods' memory limit is {limit}, not {limits.memory_bytes} bytes")
    signature = facts["hypervisor"]
    isolation = ISOLATION[low]
    if low == "kata":
        isolation += f": {HYPERVISORS.get(signature or '', signature or 'its processor does not say which')}"
    shown = {
        "isolation": isolation,
        "kernel": kernel if low in OWN_KERNEL else f"{kernel} (the node's)",
        "cpus": str(facts["cpus"]),
        "memory_limit": f"{limit // 2**20} MiB" if limit is not None else "not told inside",
    }
    return shown, low == "kata" and signature == EMULATED


@dataclass(frozen=True, slots=True)
class Free:
    """Memory of a node in bytes: what is available, and what its cgroup uses where that can be read."""

    available_bytes: int
    used_bytes: int | None

    @staticmethod
    def now(targets: Mapping[str, Target]) -> Free:
        """Return what the conductor sees of the node, whose memory is the node's, and what the node says itself."""
        shown = targets["conductor"].check(("cat", "/proc/meminfo"), timeout_s=30).decode()
        available = next(line.split()[1] for line in shown.splitlines() if line.startswith("MemAvailable:"))
        command = targets["worker1"].lifecycle.get("memory") if "worker1" in targets else None
        used = None
        if command:
            used = json.loads(targets["worker1"].check(command, timeout_s=30))["used_B"]
        return Free(int(available) * 1024, used)


def fits(kubectl: Kubectl, node: str, before: Free, after: Free, limit_bytes: int) -> tuple[int, str]:
    """Return how many pods the node holds at once, and what bounds that.

    Parameters
    ----------
    before, after
        Memory before and after the first pod was made.
    limit_bytes
        Memory limit of a pod: each may use all of it.
    """
    found = kubectl.get("node", node)
    others = [
        pod
        for pod in kubectl.get("pods", "--all-namespaces", f"--field-selector=spec.nodeName={node}")["items"]
        if pod["status"].get("phase") in ("Pending", "Running") and LABEL not in pod["metadata"].get("labels", {})
    ]
    most = int(found["status"]["allocatable"]["pods"])
    bounds = {f"the kubelet takes {most}, and {len(others)} others are there": most - len(others)}
    if found["spec"].get("podCIDR"):
        network = ip_network(found["spec"]["podCIDR"])
        used = sum(not pod["spec"].get("hostNetwork") for pod in others)
        bounds[f"addresses of {network}"] = network.num_addresses - 3 - used  # network, gateway, broadcast
    cost = before.available_bytes - after.available_bytes
    if before.used_bytes is not None and after.used_bytes is not None:
        cost = after.used_bytes - before.used_bytes
    each = limit_bytes + COST_STEP * max(1, math.ceil(cost / COST_STEP))
    free = (before.available_bytes - RESERVED_B) // FREE_STEP * FREE_STEP
    words = f"memory: {free / 2**30:.0f} GiB free for them, {math.ceil(each / MIB)} MiB each"
    bounds[words] = free // each
    reason, count = min(bounds.items(), key=lambda bound: bound[1])
    if count < 1:
        raise ProvisionError(f"{node} has no room for a pod: {reason}")
    return count, reason


FAMILY = {
    "containerd-runc": Pair("containerd", "runc"),
    "containerd-crun": Pair("containerd", "crun"),
    "containerd-runsc": Pair("containerd", "runsc"),  # gVisor
    "containerd-kata": Pair("containerd", "kata"),  # Kata Containers
    "crio-runc": Pair("crio", "runc"),
    "crio-crun": Pair("crio", "crun"),
    "crio-runsc": Pair("crio", "runsc"),
    "crio-kata": Pair("crio", "kata"),
}
