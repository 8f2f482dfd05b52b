"""What is put on a cluster to be measured: pods, a service, a network policy, a second network. Manifests as data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

NAMESPACE = "infrabench"
LABEL = "infrabench"
CLIENT = "infrabench-client"  # label of pods that the network policy lets in
PEER = "infrabench-peer"  # label of pods that one of the idle policies lets in; no pod has it
SECOND = "infrabench-second"  # name of the second network
PLAIN = "plain"  # handler whose pods get the cluster's CNI without Multus
PORTS = (5201, 12865, 12866)  # iperf3; netperf's control and data connection
# A node that was frozen may look unreachable for a moment; none of its pods may be evicted for that.
_TOLERATIONS = [
    {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
]
YCRUNCHER = "INFRABENCH_YCRUNCHER"  # names the folder of y-cruncher on the nodes; the lab's nodes get it from here
POPULATION = Path(__file__).with_name("_population.py")
SLEEP = ("sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done")
# What a pod costs beside its containers, by handler: the kubelet adds it to the limit of the pod's cgroup, in which the
# hypervisor of Kata's shim in Rust runs. The number is that of Kata's own deployment, without the share of a processor
# that it reserves: ten pods would not fit on two processors.
OVERHEAD = {"kata": {"memory": "320Mi"}}
Manifest = dict[str, Any]


def namespace(session: str) -> Manifest:
    """Return the namespace that everything else lies in; removing it removes all. Its label says that it is ours."""
    return {
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {
            "name": NAMESPACE, "labels": {LABEL: "yes", "pod-security.kubernetes.io/enforce": "privileged"},
            "annotations": {f"{LABEL}/session": session},  # no label: a session may have any name
        },
    }  # fmt: skip


def pod(
    name: str, node: str, image: str, *, memory_bytes: int, client: bool = False, second: str = "",
    runtime_class: str = "", host_network: bool = False, command: Sequence[str] = SLEEP,
    environment: Mapping[str, str] | None = None, folder: str = "",
) -> Manifest:  # fmt: skip
    """Return a pod on `node` that runs `command`: by default it sleeps until commands are run in it.

    Parameters
    ----------
    memory_bytes
        Its memory limit; nothing is reserved.
    client
        Whether the network policy lets it in.
    second
        Address with prefix length on the second network; empty: it has no second interface.
    runtime_class
        Name of its runtime class; empty: what the node's runtime does where none is asked for.
    host_network
        Whether it has the node's own network: a witness.
    folder
        A folder of the node that it sees at the same place, read-only; empty: none.
    """
    annotations = {}
    if second:
        networks = [{"name": SECOND, "namespace": NAMESPACE, "ips": [second]}]
        annotations["k8s.v1.cni.cncf.io/networks"] = json.dumps(networks)
    spec: Manifest = {
        "nodeName": node, "hostNetwork": host_network, "dnsPolicy": "Default", "enableServiceLinks": False,
        "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 1, "tolerations": _TOLERATIONS,
        "restartPolicy": "Always",
        "containers": [{
            "name": "tools", "image": image, "imagePullPolicy": "IfNotPresent",
            "command": list(command),
            "env": [{"name": key, "value": value} for key, value in (environment or {}).items()],
            "resources": {"requests": {"memory": "16Mi"}, "limits": {"memory": str(memory_bytes)}},
        }],
    }  # fmt: skip
    if runtime_class:
        spec["runtimeClassName"] = runtime_class
    if folder:
        spec["volumes"] = [{"name": "folder", "hostPath": {"path": folder, "type": "Directory"}}]
        spec["containers"][0]["volumeMounts"] = [{"name": "folder", "mountPath": folder, "readOnly": True}]
    labels = {LABEL: name, **({CLIENT: "yes"} if client else {})}
    return {
        "apiVersion": "v1", "kind": "Pod", "spec": spec,
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels, "annotations": annotations},
    }  # fmt: skip


def service(pod: str) -> Manifest:
    """Return a service that leads to one pod, with each of `PORTS` over TCP and UDP."""
    listed = [
        {"name": f"{protocol.lower()}-{port}", "protocol": protocol, "port": port, "targetPort": port}
        for port in PORTS
        for protocol in ("TCP", "UDP")
    ]
    return {
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": pod, "namespace": NAMESPACE},
        "spec": {"selector": {LABEL: pod}, "ports": listed},
    }  # fmt: skip


def idle_services(count: int, address: str) -> list[Manifest]:
    """Return services that nobody asks for, each with an endpoint at `address`, on the first of `PORTS`.

    Endpoints are written out: made by the controller, a thousand take a minute.
    """
    manifests: list[Manifest] = []
    for number in range(count):
        name, port = f"idle-{number:04d}", {"name": "tcp", "protocol": "TCP", "port": PORTS[0]}
        manifests += [
            {
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {"ports": [port]},
            },
            {
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
                "metadata": {
                    "name": name, "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": name},
                },
                "endpoints": [{"addresses": [address], "conditions": {"ready": True}}], "ports": [port],
            },
        ]  # fmt: skip
    return manifests


def policy(pod: str) -> Manifest:
    """Return a network policy: into `pod` only from clients, only on `PORTS`."""
    return _allow(pod, pod, CLIENT, "yes")


def idle_policies(count: int, pod: str) -> list[Manifest]:
    """Return policies that let others into `pod`, each those with a value of `PEER` of its own: there are none."""
    return [_allow(f"idle-{number:04d}", pod, PEER, f"{number:04d}") for number in range(count)]


def _allow(name: str, pod: str, label: str, value: str) -> Manifest:
    listed = [{"protocol": protocol, "port": port} for port in PORTS for protocol in ("TCP", "UDP")]
    return {
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "podSelector": {"matchLabels": {LABEL: pod}}, "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": {"matchLabels": {label: value}}}], "ports": listed}],
        },
    }  # fmt: skip


def runtime_class(handler: str) -> Manifest:
    """Return the runtime class of a `handler` that a worker's runtime knows; its name is ours, `class_name`."""
    overhead = {"overhead": {"podFixed": OVERHEAD[handler]}} if handler in OVERHEAD else {}
    return {
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": class_name(handler)},
        "handler": handler, **overhead,
    }  # fmt: skip


def class_name(handler: str) -> str:
    """Return the name of our runtime class for a handler."""
    return f"infrabench-{handler}"


def second_network(uplink: str) -> Manifest:
    """Return the second network: macvlan on the nodes' uplink, addresses given by the pods themselves."""
    config: Mapping[str, Any] = {
        "cniVersion": "0.3.1", "name": SECOND, "type": "macvlan", "master": uplink, "mode": "bridge",
        "capabilities": {"ips": True}, "ipam": {"type": "static"},
    }  # fmt: skip
    return {
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": SECOND, "namespace": NAMESPACE}, "spec": {"config": json.dumps(config)},
    }  # fmt: skip
