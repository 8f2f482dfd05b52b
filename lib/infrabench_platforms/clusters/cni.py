"""A CNI as data: how it comes onto a cluster, and what tells that it is there; and Multus (thin) on top of it.

Multus is the node's CNI that delegates to the cluster's own, and adds second interfaces.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infrabench.core import Machines, NotRunnable
from infrabench.machines.hosts import parallel
from infrabench_platforms.clusters import workers
from infrabench_platforms.clusters.cluster import Cluster, bring_up, wait_ready
from infrabench_platforms.clusters.hosts import CNI_DEVICES, PREFIX, push, script
from infrabench_platforms.clusters.runtimes import CNI_BIN, CNI_CONFIG, PLAIN_CONFIG
from infrabench_platforms.clusters.workers import Worker

NEEDS_VXLAN = (
    "unshare -n ip link add name probe type vxlan id 1 dstport 0",
    "the kernel has no VXLAN devices; load the module vxlan, or take a kernel with CONFIG_VXLAN",
)
MULTUS = {
    "cniVersion": "0.3.1", "name": "multus-cni-network", "type": "multus", "clusterNetwork": "",
    "kubeconfig": "/etc/kubernetes/network.conf", "capabilities": {"portMappings": True}, "logLevel": "error",
    "logFile": "/var/log/infrabench/multus.log",
}  # fmt: skip
# What a CNI's own clean-up removes of it on a node: its program, configuration ($1), devices (of $2, those that are
# there) and what hangs on others. Rules of packet filters and settings stay, as they do there. $3 ..: units
_REMOVE = """
set -eu
file=$1 devices=$2; shift 2
for unit in "$@"; do systemctl stop "$unit"; rm "/etc/systemd/system/$unit.service"; done
systemctl daemon-reload
rm -rf "$file" /sys/fs/bpf/cilium /sys/fs/bpf/tc/globals/cilium_*
for link in $devices; do
  [ ! -e "/sys/class/net/$link" ] || ip link del "$link"
done
for link in /sys/class/net/*; do
  case $(tc filter show dev "${link##*/}" ingress 2>/dev/null) in *cil_*) tc qdisc del dev "${link##*/}" clsact;; esac
done
"""
MULTUS_CONFIG = f"{CNI_CONFIG}/00-multus.conf"  # runtimes take the first file of the folder


@dataclass(frozen=True, slots=True)
class CNI:
    """A CNI: what it is called, what it needs, and how it comes onto a cluster."""

    name: str
    parts: tuple[str, ...]  # that its machines have to have (see `Site.machines`)
    config: str  # the file that `install` leaves in `PLAIN_CONFIG` on every worker
    install: Callable[[Cluster], None]
    # Of a cluster that was found: None where this CNI joins it, or what says that it does not.
    installed: Callable[[Cluster], str | None]
    overlay: str = ""  # the device that encapsulates on a node (empty: none)
    encapsulation: str = "none"
    mtu_bytes: int = 0  # that the nodes' network is taken to carry (0: what it does)
    joins_nodes: bool = True
    enforces: bool = False  # network policies
    proxy: str = workers.IPTABLES  # kube-proxy's mode; empty: there is none, and the CNI leads to services itself
    idle_services: int = 0  # that a cluster of its own has beside the one that is measured
    idle_policies: int = 0  # that select the pod behind a policy beside the one that lets clients in
    programs: tuple[tuple[str, str], ...] = ()  # that its workers need beside every CNI's, each with its Debian package
    needs: tuple[tuple[str, str], ...] = ()  # shell tests that must hold on a worker, each with what to do else
    # Its unit on a worker, and the Go module whose version is the CNI's (none: it is no program of its own).
    program: tuple[str, str] | None = None
    operator: str = ""  # its unit on the control node
    before: CNI | None = None  # that the same nodes had first

    @property
    def agents(self) -> tuple[str, ...]:
        """Units on a worker that join its pods and lead to services."""
        own = [self.program[0]] if self.program else []
        return tuple(f"{PREFIX}{name}" for name in (*own, *(["kube-proxy"] if self.proxy else [])))


# Of a CNI that differs from another by what others have on its cluster, or by kube-proxy's mode.
WITH_SERVICES: Mapping[str, Any] = {"idle_services": 1000}
BY_NFTABLES: Mapping[str, Any] = {"proxy": workers.NFTABLES, "programs": (("nft", "nftables"),)}


def make_cluster(
    machines: Machines, cni: CNI, runtime: str = "containerd", handlers: Sequence[str] = ("runc",), *,
    multus: bool = True,
) -> Cluster:  # fmt: skip
    """Return a new cluster on `machines` with this CNI and, where it is wanted, Multus on top; every node is Ready.

    `runtime` and `handlers`: see `bring_up`. With Multus, pods of the runtime class whose handler is ``plain`` have
    the CNI's network alone.
    Raises `NotRunnable` when a worker lacks what the CNI needs, `ProvisionError` with the reason when one fails.
    """
    wanted = tuple(dict.fromkeys((*handlers, "plain"))) if multus else tuple(handlers)
    cluster = bring_up(machines, runtime, wanted, cni.proxy)
    _install(cluster, cni)
    if multus:
        install_multus(cluster, machines.tools["multus"], cni.config)
    else:  # shown to the runtime in place: containerd misses a file that is moved in
        paths = f"{PLAIN_CONFIG}/{cni.config}", f"{CNI_CONFIG}/{cni.config}"
        parallel.run_all(lambda worker: script(worker.host, 'cat "$1" >"$2"', *paths), cluster.workers)
    wait_ready(cluster)
    return cluster


def migrate(cluster: Cluster, before: CNI, cni: CNI) -> None:
    """Put a CNI in the place of the one that a cluster had `before`, on the same nodes and under the same Multus.

    The cluster has no pods. Raises as `make_cluster`.
    """
    assert cluster.machines is not None
    if before.operator:
        script(cluster.kubectl.host, _REMOVE, "", "", f"{PREFIX}{before.operator}")
    own = [f"{PREFIX}{before.program[0]}"] if before.program else []
    config = f"{PLAIN_CONFIG}/{before.config}"
    parallel.run_all(lambda worker: script(worker.host, _REMOVE, config, CNI_DEVICES, *own), cluster.workers)
    _install(cluster, cni)
    install_multus(cluster, cluster.machines.tools["multus"], cni.config)
    wait_ready(cluster)


def _install(cluster: Cluster, cni: CNI) -> None:
    for worker in cluster.workers:
        for test, remedy in cni.needs:
            if not worker.host.run(("sh", "-c", test), timeout_s=20).ok:
                raise NotRunnable(f"{cni.name} on {worker.host.name}: {remedy}")
    cni.install(cluster)


def install_multus(cluster: Cluster, multus: str, config: str) -> None:
    """Make Multus, of the folder `multus`, the CNI of every worker; it delegates to that of the file `config`.

    Pods of the plain runtime class are made by that CNI alone: its configuration stays in their folder.
    """
    text = json.dumps({**MULTUS, "clusterNetwork": f"{PLAIN_CONFIG}/{config}"})

    def install(worker: Worker) -> None:
        script(worker.host, 'cp "$1/multus" "$2/multus"', multus, CNI_BIN)
        push(worker.host, {MULTUS_CONFIG: text})

    cluster.kubectl.check("apply", f"--filename={multus}/multus-crd.yaml")
    parallel.run_all(install, cluster.workers)
