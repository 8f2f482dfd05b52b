"""Flannel: a CNI that joins a bridge on each node by VXLAN, or by routes alone; it knows no network policies.

``flannel-direct`` is its backend ``host-gw``: every node has a route to each other node's pods, and nothing is
encapsulated, which asks for nodes on one network. ``flannel-nftables`` differs from ``flannel`` by kube-proxy's mode,
``flannel-1000-services`` by that many services of others, ``flannel-mtu1280`` by taking the nodes' network for one that
carries no longer packets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from infrabench.machines.hosts import parallel
from infrabench_platforms.clusters import cni
from infrabench_platforms.clusters.cluster import Cluster
from infrabench_platforms.clusters.control import POD_NET
from infrabench_platforms.clusters.hosts import push, script, start, unit, uplink
from infrabench_platforms.clusters.runtimes import CNI_BIN, PLAIN_CONFIG
from infrabench_platforms.clusters.workers import Worker
from infrabench_platforms.systems import _cni

CONFIG = "10-flannel.conflist"
VXLAN = {"Type": "vxlan", "VNI": 1, "Port": 8472}
HOST_GW = {"Type": "host-gw"}
_DELEGATE = {
    "name": "cbr0", "cniVersion": "0.3.1",
    "plugins": [
        {"type": "flannel", "delegate": {"hairpinMode": True, "isDefaultGateway": True}},
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ],
}  # fmt: skip
# flanneld writes what its plugin needs into this file once it has joined.
_JOINED = """
tries=0
until [ -s /run/flannel/subnet.env ]; do
  tries=$((tries + 1)); [ $tries -lt 300 ] || { tail -n 5 /var/log/infrabench/flanneld.log >&2; exit 1; }
  sleep 0.1
done
"""


def install(cluster: Cluster, backend: Mapping[str, Any]) -> None:
    """Start flanneld with a backend on every worker and give the node its configuration once it has joined."""
    parallel.run_all(lambda worker: _on(cluster, worker, backend), cluster.workers)


def installed(cluster: Cluster, wanted: str) -> str | None:
    """Return None when Flannel with this type of backend joins the nodes of a cluster that was found, else what not."""
    kind = "flannel.alpha.coreos.com/backend-type"
    for node in cluster.kubectl.get("nodes", *cluster.nodes)["items"]:
        backend = node["metadata"].get("annotations", {}).get(kind)
        if backend != wanted:
            return f"node {node['metadata']['name']} has {kind}={backend or 'none'}, not {wanted}"
    return None


def _on(cluster: Cluster, worker: Worker, backend: Mapping[str, Any]) -> None:
    assert cluster.machines is not None
    tools, host = cluster.machines.tools, worker.host
    command = (
        f"{tools['flannel']}/flanneld", "--kube-subnet-mgr", "--kubeconfig-file=/etc/kubernetes/network.conf",
        "--net-config-path=/etc/kubernetes/flannel.json", f"--iface={uplink(host)}", "--ip-masq",
    )  # fmt: skip
    network = {"Network": POD_NET, "EnableNFTables": False, "Backend": backend}
    files = {"/etc/kubernetes/flannel.json": json.dumps(network)}
    push(host, {**files, **unit("flanneld", command, {"NODE_NAME": worker.name})})
    script(host, 'cp "$1/flannel-cni" "$2/flannel"', tools["flannel-cni"], CNI_BIN)
    start(host, "flanneld")
    script(host, _JOINED)
    push(host, {f"{PLAIN_CONFIG}/{CONFIG}": json.dumps(_DELEGATE)})


def _system(name: str, backend: Mapping[str, Any], **more: Any) -> _cni.System:
    return _cni.System(cni.CNI(
        name=name, parts=("flannel", "flannel-cni"), config=CONFIG,
        install=partial(install, backend=backend), installed=partial(installed, wanted=backend["Type"]),
        mtu_bytes=backend.get("MTU", 0),
        program=("flanneld", "github.com/flannel-io/flannel"), **more,
    ))  # fmt: skip


_TUNNEL = {"overlay": "flannel.1", "encapsulation": "vxlan", "needs": (cni.NEEDS_VXLAN,)}
FAMILY = {
    "flannel": _system("flannel", VXLAN, **_TUNNEL),
    "flannel-direct": _system("flannel-direct", HOST_GW),
    "flannel-mtu1280": _system("flannel-mtu1280", {**VXLAN, "MTU": 1280}, **_TUNNEL),
    "flannel-nftables": _system("flannel-nftables", VXLAN, **_TUNNEL, **cni.BY_NFTABLES),
    "flannel-1000-services": _system("flannel-1000-services", VXLAN, **_TUNNEL, **cni.WITH_SERVICES),
    "flannel-nftables-1000-services": _system(
        "flannel-nftables-1000-services", VXLAN, **_TUNNEL, **cni.BY_NFTABLES, **cni.WITH_SERVICES
    ),
}
