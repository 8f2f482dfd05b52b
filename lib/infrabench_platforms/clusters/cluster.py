"""A cluster: brought up on machines from nothing, or found through a kubeconfig; its API, and how it is thawed.

Its API is reached by kubectl, on whatever host has it: the one way, for the lab's own clusters and for any other.
A frozen cluster is measured when its nodes are Ready again and its timers have caught up.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from infrabench.core import Host, Machines, ProvisionError, Result, wait
from infrabench.machines.hosts import parallel
from infrabench.machines.hosts.host import run_checked
from infrabench_platforms.clusters import control, workers
from infrabench_platforms.clusters.hosts import last_words
from infrabench_platforms.clusters.runtimes import CNI_BIN, PROGRAMS
from infrabench_platforms.clusters.workers import Worker

ASK_S = 30.0
CREATE_S = 240.0  # kubectl makes about fifty objects a second
NODES = ("worker1", "worker2")
PLANE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
REGISTER_S = 40.0
READY_S = 120.0
NOT_READY = "node.kubernetes.io/not-ready"
# Arguments: how many nodes, their names, and the beginning of every kubectl command.
_IS_READY = """
count=$1 names=; shift
while [ "$count" -gt 0 ]; do names="$names $1"; shift; count=$((count - 1)); done
one='{range .status.conditions[?(@.type=="Ready")]}{.status} {end}'
state="$one{range .items[*]}$one{end}"  # of a single name kubectl gives the node itself, and no list
"$@" get nodes $names --output=jsonpath="$state" >/tmp/infrabench-ready.$$ & query=$!
healthy=1
for name in $names; do "$@" get --raw "/api/v1/nodes/$name/proxy/healthz" >/dev/null 2>&1 || healthy=; done
wait $query; said=$(cat /tmp/infrabench-ready.$$); rm -f /tmp/infrabench-ready.$$
[ -n "$healthy" ] && [ -n "$said" ] && case $said in *False*|*Unknown*) exit 1;; esac
"""
THAW_S = 30.0
SETTLE_S = 0.4  # a thawed cluster catches up on its timers: two processors for 0.1 to 0.2 s, as measured

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Kubectl:
    """A host and the argv that begins every kubectl command on it."""

    host: Host
    prefix: tuple[str, ...]

    def run(self, *argv: str, timeout_s: float = ASK_S, stdin: bytes = b"") -> Result:
        """Return what ``kubectl ARGV`` did."""
        return self.host.run((*self.prefix, *argv), timeout_s=timeout_s, stdin=stdin)

    def check(self, *argv: str, timeout_s: float = ASK_S, stdin: bytes = b"") -> str:
        """Return what ``kubectl ARGV`` printed; `ProvisionError` when it fails."""
        return run_checked(self.host, (*self.prefix, *argv), timeout_s=timeout_s, stdin=stdin)

    def get(self, *argv: str) -> Any:
        """Return what ``kubectl get ARGV -o json`` says, parsed."""
        return json.loads(self.check("get", *argv, "--output=json"))

    def apply(self, manifests: Sequence[Mapping[str, Any]]) -> None:
        """Apply manifests: what is there already is changed, what is not is made."""
        items = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        self.check("apply", "--filename=-", stdin=json.dumps(items).encode())

    def create(self, manifests: Sequence[Mapping[str, Any]]) -> None:
        """Make what is not there yet, and ask for nothing before: many objects in a third of the time of `apply`."""
        items = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        argv = ("create", "--validate=false", "--filename=-")
        self.check(*argv, timeout_s=CREATE_S, stdin=json.dumps(items).encode())

    def exec_prefix(self, namespace: str, pod: str) -> tuple[str, ...]:
        """Return the argv prefix that runs a command inside a pod."""
        return (*self.prefix, "exec", f"--namespace={namespace}", "--stdin", pod, "--")


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster's API, the names of the nodes that pods are put on, and their hosts where those can be reached."""

    kubectl: Kubectl
    nodes: tuple[str, ...]
    workers: tuple[Worker, ...] = ()
    machines: Machines | None = None


def bring_up(
    machines: Machines, runtime: str = "containerd", handlers: Sequence[str] = ("runc",),
    proxy: str = workers.IPTABLES,
) -> Cluster:  # fmt: skip
    """Return a new cluster on `machines`, its nodes registered and waiting for a CNI: a worker for each of their hosts.

    Every worker has the high-level runtime `runtime` (`runtimes.RUNTIMES`) with these handlers (`runtimes.HANDLERS`),
    the first of them for pods without a runtime class; `proxy`: see `workers.join`.
    Raises `NotRunnable` when a worker lacks what one of them needs, `ProvisionError` with the end of the log of what
    did not start.
    """
    begin = time.monotonic()
    kubernetes = machines.tools["kubernetes"]
    host = machines.hosts["control"]
    names = tuple(name for name in NODES if name in machines.hosts)

    def start_control_plane() -> control.ControlPlane:
        plane = control.identities(host, kubernetes, machines.facts["versions"]["kubernetes"], names)
        control.run(plane, kubernetes, machines.tools["etcd"], throw_away=machines.embedded)
        return plane

    with ThreadPoolExecutor(1 + len(names)) as pool:
        plane = pool.submit(start_control_plane)

        def join(name: str) -> Worker:
            worker = workers.prepare(name, machines, runtime, handlers)
            workers.join(worker, plane.result(), proxy)
            return worker

        members = tuple(parallel.collect_results([pool.submit(join, name) for name in names]))
    kubectl = Kubectl(host, (f"{kubernetes}/kubectl", "--kubeconfig", control.ADMIN))
    cluster = Cluster(kubectl, names, members, machines)
    ranges = ("get", "nodes", "--output=jsonpath={.items[*].spec.podCIDR}")
    what = "the nodes to register and get a range of addresses"
    try:
        until(what, lambda: len(kubectl.run(*ranges).stdout.split()) >= len(names), REGISTER_S)
    except ProvisionError as error:
        last_lines = "; ".join(f"{each.name}: {last_words(each.host, 'kubelet')}" for each in members)
        raise ProvisionError(f"{error}. Their kubelets said last: {last_lines}") from error
    log.debug("the cluster stands after %.1f s", time.monotonic() - begin)
    return cluster


def list_programs(cluster: Cluster) -> list[tuple[Host, tuple[str, ...]]]:
    """Return the hosts of a cluster of its own, with what runs there and the archives of its pods' images.

    See `Deployment.programs`. Nodes of the lab see the same folders, so that one worker tells of both.
    """
    machines = cluster.machines
    if machines is None:
        return []
    kubernetes = machines.tools["kubernetes"]
    others = [f"{folder}/*" for part, folder in machines.tools.items() if part not in ("kubernetes", "etcd")]
    images = [f"pod image {kind}={path}" for kind, (_, path) in machines.images.items()]
    low = [
        name for handler in PROGRAMS.values() for name in handler if any(name in w.handlers for w in cluster.workers)
    ]
    kata = [file for each in cluster.workers[:1] if each.kata for file in (each.kata.shim, *each.kata.files)]
    worker = (
        *(f"{kubernetes}/{name}" for name in ("kubelet", "kube-proxy")), *others, *low, *kata,
        *(f"{CNI_BIN}/{name}" for name in ("bridge", "host-local")), *images,
    )  # fmt: skip
    plane = (*(f"{kubernetes}/{name}" for name in PLANE), f"{machines.tools['etcd']}/*")
    workers = cluster.workers[:1] if machines.embedded else cluster.workers
    return [(cluster.kubectl.host, plane), *((each.host, worker) for each in workers)]


def wait_ready(cluster: Cluster) -> None:
    """Return when every node is Ready and takes pods; `ProvisionError` says what the others say of themselves."""
    names = [f"node/{name}" for name in cluster.nodes]
    result = cluster.kubectl.run(
        "wait", "--for=condition=Ready", *names, f"--timeout={READY_S:.0f}s", timeout_s=READY_S + 10
    )  # fmt: skip
    if not result.ok:
        reasons = [
            f"{node['metadata']['name']}: {condition['message']}"
            for node in _nodes(cluster)
            for condition in node["status"]["conditions"]
            if condition["type"] == "Ready" and condition["status"] != "True"
        ]
        raise ProvisionError(f"nodes are not Ready after {READY_S:.0f} s: {'; '.join(reasons)}")
    # The controller that lifts the taint of a new node looks at it some seconds later: until then it takes no pods.
    until("Ready nodes to take pods", lambda: not any(
        taint["key"] == NOT_READY for node in _nodes(cluster) for taint in node["spec"].get("taints", ())
    ))  # fmt: skip


def is_ready(cluster: Cluster) -> bool:
    """Tell whether every node is Ready and its kubelet answers through the API now: one round trip to the host."""
    argv = ("sh", "-c", _IS_READY, "sh", str(len(cluster.nodes)), *cluster.nodes, *cluster.kubectl.prefix)
    return cluster.kubectl.host.run(argv, timeout_s=20).ok


def until(what: str, true: Callable[[], bool], timeout_s: float = READY_S) -> None:
    """Return when `true()` is; `ProvisionError` saying `what` was awaited after `timeout_s`."""
    if not wait.until(true, timeout_s, pause_s=0.1):
        raise ProvisionError(f"waited {timeout_s:.0f} s for {what}")


def _nodes(cluster: Cluster) -> list[Mapping[str, Any]]:
    answer = cluster.kubectl.get("nodes", *cluster.nodes)
    return answer.get("items", [answer])  # of a single name kubectl gives the node itself, and no list


def make_resume(cluster: Cluster, resume: Callable[[], None] | None) -> Callable[[], None] | None:
    """Return what thaws the machines of `cluster` and waits until they can be measured; None where nothing freezes."""
    if resume is None:
        return None

    def thaw() -> None:
        begin = time.monotonic()
        resume()
        until("the thawed cluster's nodes to be Ready", lambda: is_ready(cluster), THAW_S)
        time.sleep(max(0.0, begin + SETTLE_S - time.monotonic()))

    return thaw
