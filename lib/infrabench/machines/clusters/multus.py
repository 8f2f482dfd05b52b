"""Multus (thin): the node's CNI that delegates to the cluster's own, and adds second interfaces."""

from __future__ import annotations

import json

from infrabench.core import ProvisionError
from infrabench.machines.clusters.cluster import Cluster, at_once
from infrabench.machines.clusters.hosts import push, script
from infrabench.machines.clusters.runtimes import CNI_BIN, CNI_CONFIG, PLAIN_CONFIG
from infrabench.machines.clusters.workers import Worker

CONFIG = f"{CNI_CONFIG}/00-multus.conf"  # runtimes take the first file of the folder


def install(cluster: Cluster, config: str) -> None:
    """Make Multus the CNI of every worker, delegating to the CNI whose configuration is the file `config`.

    Pods of the plain runtime class are made by that CNI alone: its configuration stays in their folder.
    """
    if cluster.machines is None:
        raise ProvisionError("Multus is installed on hosts that can be reached only")
    multus = cluster.machines.tools["multus"]
    cluster.kubectl.check("apply", f"--filename={multus}/multus-crd.yaml")
    at_once(lambda worker: _on(worker, multus, f"{PLAIN_CONFIG}/{config}"), cluster.workers)


def _on(worker: Worker, multus: str, config: str) -> None:
    script(worker.host, 'cp "$1/multus" "$2/multus"', multus, CNI_BIN)
    text = {
        "cniVersion": "0.3.1", "name": "multus-cni-network", "type": "multus", "clusterNetwork": config,
        "kubeconfig": "/etc/kubernetes/network.conf", "capabilities": {"portMappings": True}, "logLevel": "error",
        "logFile": "/var/log/infrabench/multus.log",
    }  # fmt: skip
    push(worker.host, {CONFIG: json.dumps(text)})
