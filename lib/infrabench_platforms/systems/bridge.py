"""Bridge: the reference CNI plugins alone (bridge, host-local). They join the pods of one node and no two nodes."""

from __future__ import annotations

import json

from infrabench_platforms.clusters import cni
from infrabench_platforms.clusters.cluster import Cluster
from infrabench_platforms.clusters.hosts import push
from infrabench_platforms.clusters.runtimes import PLAIN_CONFIG
from infrabench_platforms.systems import _cni

# One plugin, not a list of one: of a list Multus keeps the kinds of plugins but not their address ranges, and then
# cannot remove a pod.
CONFIG = "10-bridge.conf"


def install(cluster: Cluster) -> None:
    """Give every worker its configuration: a bridge with addresses from the node's own range."""
    ranges = {
        node["metadata"]["name"]: node["spec"]["podCIDR"] for node in cluster.kubectl.get("nodes")["items"]
    }  # fmt: skip
    for worker in cluster.workers:
        ipam = {"type": "host-local", "subnet": ranges[worker.name]}
        text = {
            "name": "bridge", "cniVersion": "0.3.1", "type": "bridge", "bridge": "cni0", "isDefaultGateway": True,
            "hairpinMode": True, "ipam": ipam,
        }  # fmt: skip
        push(worker.host, {f"{PLAIN_CONFIG}/{CONFIG}": json.dumps(text)})


def installed(cluster: Cluster) -> str | None:
    """Return why it cannot be told that a cluster which was found has this CNI."""
    return "the reference bridge plugin leaves no mark that the API shows"


CNI = cni.CNI(
    name="bridge", parts=(), config=CONFIG, install=install, installed=installed, joins_nodes=False,
)  # fmt: skip
FAMILY = {"bridge": _cni.System(CNI)}
