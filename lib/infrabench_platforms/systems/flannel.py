"""Flannel: a CNI that joins a bridge on each node by VXLAN; it knows no network policies."""

from __future__ import annotations

import json

from infrabench.machines.hosts import parallel
from infrabench_platforms.clusters import cni
from infrabench_platforms.clusters.cluster import Cluster
from infrabench_platforms.clusters.control import POD_NET
from infrabench_platforms.clusters.hosts import push, script, start, unit, uplink
from infrabench_platforms.clusters.runtimes import CNI_BIN, PLAIN_CONFIG
from infrabench_platforms.clusters.workers import Worker
from infrabench_platforms.systems import _cni

CONFIG = "10-flannel.conflist"
_NETWORK = {"Network": POD_NET, "EnableNFTables": False, "Backend": {"Type": "vxlan", "VNI": 1, "Port": 8472}}
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


def install(cluster: Cluster) -> None:
    """Start flanneld on every worker and give the node its configuration once it has joined."""
    parallel.run_all(lambda worker: _on(cluster, worker), cluster.workers)


def installed(cluster: Cluster) -> str | None:
    """Return None when Flannel is what joins the nodes of a cluster that was found, else what says that it is not."""
    kind = "flannel.alpha.coreos.com/backend-type"
    for node in cluster.kubectl.get("nodes", *cluster.nodes)["items"]:
        backend = node["metadata"].get("annotations", {}).get(kind)
        if backend != "vxlan":
            return f"node {node['metadata']['name']} has {kind}={backend or 'none'}, not vxlan"
    return None


def _on(cluster: Cluster, worker: Worker) -> None:
    assert cluster.machines is not None
    tools, host = cluster.machines.tools, worker.host
    command = (
        f"{tools['flannel']}/flanneld", "--kube-subnet-mgr", "--kubeconfig-file=/etc/kubernetes/network.conf",
        "--net-config-path=/etc/kubernetes/flannel.json", f"--iface={uplink(host)}", "--ip-masq",
    )  # fmt: skip
    files = {"/etc/kubernetes/flannel.json": json.dumps(_NETWORK)}
    push(host, {**files, **unit("flanneld", command, {"NODE_NAME": worker.name})})
    script(host, 'cp "$1/flannel-cni" "$2/flannel"', tools["flannel-cni"], CNI_BIN)
    start(host, "flanneld")
    script(host, _JOINED)
    push(host, {f"{PLAIN_CONFIG}/{CONFIG}": json.dumps(_DELEGATE)})


CNI = cni.CNI(
    name="flannel", parts=("flannel", "flannel-cni"), config=CONFIG, overlay="flannel.1", encapsulation="vxlan",
    service="kube-proxy (iptables)", install=install, installed=installed,
    needs=((cni.HAS_VXLAN, cni.NO_VXLAN),), program=("flanneld", "github.com/flannel-io/flannel"),
)  # fmt: skip
supported, deploy = _cni.system(CNI)
NEEDS = _cni.needs(CNI)
