"""A worker node: a container runtime, kubelet and kube-proxy as units of one host, with the images that pods need."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from infrabench.core import Machines, NotRunnable, unknown_name
from infrabench.machines.hosts.host import run_checked
from infrabench_platforms.clusters import kata
from infrabench_platforms.clusters.control import POD_NET, ControlPlane
from infrabench_platforms.clusters.hosts import PREFIX, push, script, start, unit
from infrabench_platforms.clusters.runtimes import (
    CNI_BIN,
    CNI_CONFIG,
    HANDLERS,
    HOME,
    PLAIN_CONFIG,
    RUNTIMES,
    Runtime,
    Worker,
    read_versions,
)

KUBELET_CONFIG = "/etc/kubernetes/kubelet.yaml"
IPTABLES, NFTABLES = "iptables", "nftables"  # kube-proxy's modes
PROXY_ASK = ("curl", "--silent", "--show-error", "--fail", "http://127.0.0.1:10249/proxyMode")
MAX_PODS = 110  # on a worker: kubelet's own default
# Brings the folders in order: $1 of the CNI's programs, then others.
_NET = """
set -eu
mkdir -p "$@" /var/lib/kubelet
cp /usr/lib/cni/* "$1/"
sysctl -qw net.ipv4.ip_forward=1
# The kernel hands packets of a bridge to iptables only where this is on; kube-proxy's rules for services need it.
[ ! -e /proc/sys/net/bridge/bridge-nf-call-iptables ] || sysctl -qw net.bridge.bridge-nf-call-iptables=1
# A process without CAP_SYS_RESOURCE cannot lower its out-of-memory score, and a runtime that tries to fails.
if (echo -1 >/proc/self/oom_score_adj) 2>/dev/null; then echo free; else echo restricted; fi
"""


def parts(runtime: str, names: Sequence[str] = ("runc",)) -> tuple[str, ...]:
    """Return the parts that machines need for workers with this high-level runtime and these handlers.

    Raises `NotRunnable` where the two do not go together, `DesignError` for a name that nobody knows.
    """
    for what, known, each in (
        ("high-level runtime", RUNTIMES, (runtime,)), ("low-level runtime", HANDLERS, names),
    ):  # fmt: skip
        for name in each:
            if name not in known:
                raise unknown_name(what, name, known)
    for name in names:
        if reason := HANDLERS[name].refused.get(runtime):
            raise NotRunnable(reason)
    return tuple(dict.fromkeys((runtime, *(part for name in names for part in HANDLERS[name].parts))))


def prepare(name: str, machines: Machines, runtime: str = "containerd", names: Sequence[str] = ("runc",)) -> Worker:
    """Start the container runtime of the machine `name` with these handlers, and import the images.

    The first handler is that of pods without a runtime class. Raises `NotRunnable` when the machine lacks what one of
    them needs, `ProvisionError` when something does not start.
    """
    parts(runtime, names)  # what does not go together is refused before the machine is touched
    host = machines.hosts[name]
    restricted = script(host, _NET, CNI_BIN, CNI_CONFIG, PLAIN_CONFIG, HOME).strip() == "restricted"
    found = kata.find(host, machines.facts.get("kata")) if "kata" in names else None
    worker = Worker(name, host, machines, RUNTIMES[runtime], dict.fromkeys(names, ""), found, restricted)
    for each in names:
        if reason := HANDLERS[each].lacks(worker):
            raise NotRunnable(reason)
    push(host, {path: text for each in names for path, text in HANDLERS[each].files(worker).items()})
    worker.runtime.start(worker)
    return replace(worker, handlers=read_versions(worker))


def join(worker: Worker, plane: ControlPlane, proxy: str = IPTABLES) -> None:
    """Start kubelet and kube-proxy: the node then registers itself, and is Ready once it has a CNI.

    `proxy` is kube-proxy's mode; empty: none is started, and whoever leads to services is another.
    """
    kubernetes, name, home = worker.machines.tools["kubernetes"], worker.name, "/etc/kubernetes"
    files = {
        f"{home}/kubelet.conf": plane.kubeconfigs[f"kubelet-{name}"],
        f"{home}/network.conf": plane.kubeconfigs["network"],
        f"{home}/ca.crt": plane.ca,
        KUBELET_CONFIG: json.dumps(_kubelet(worker.runtime)),
        **unit("kubelet", (
            f"{kubernetes}/kubelet", f"--config={KUBELET_CONFIG}", f"--kubeconfig={home}/kubelet.conf",
            f"--node-ip={worker.host.address}", f"--hostname-override={name}", "--v=1",
        )),
    }  # fmt: skip
    if proxy:
        files |= {
            f"{home}/kube-proxy.conf": plane.kubeconfigs["kube-proxy"],
            f"{home}/kube-proxy.yaml": json.dumps(_proxy(name, proxy)),
            **unit("kube-proxy", (f"{kubernetes}/kube-proxy", f"--config={home}/kube-proxy.yaml")),
        }
    push(worker.host, files)
    start(worker.host, "kubelet", *(["kube-proxy"] if proxy else []))


def read_proxy(worker: Worker) -> str:
    """Return the mode that kube-proxy says it is in on a node; empty where none is running."""
    if not worker.host.run(("systemctl", "is-active", "--quiet", f"{PREFIX}kube-proxy"), timeout_s=20).ok:
        return ""
    return run_checked(worker.host, PROXY_ASK, timeout_s=20).strip()


def _kubelet(runtime: Runtime) -> dict[str, object]:
    """Return kubelet's configuration: where its runtime is, and nothing else that differs between runtimes."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{runtime.socket}", "maxPods": MAX_PODS, "cgroupDriver": "cgroupfs",
        # After a freeze of over 30 s a kubelet may find that its runtime has not answered for too long, and say once
        # that its node is not Ready: it looks again a second later, and tells the API only what has changed.
        "nodeStatusUpdateFrequency": "1s", "nodeStatusReportFrequency": "5m0s",
        "failCgroupV1": False, "failSwapOn": False, "clusterDomain": "cluster.local", "resolvConf": "/dev/null",
        "authentication": {
            "anonymous": {"enabled": False}, "webhook": {"enabled": True},
            "x509": {"clientCAFile": "/etc/kubernetes/ca.crt"},
        },
        "authorization": {"mode": "Webhook"}, "protectKernelDefaults": False, "serializeImagePulls": False,
        "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99, "localStorageCapacityIsolation": False,
        "evictionHard": {
            "memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%", "nodefs.inodesFree": "1%",
        },
    }  # fmt: skip


def _proxy(name: str, mode: str) -> dict[str, object]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": mode,
        "clientConnection": {"kubeconfig": "/etc/kubernetes/kube-proxy.conf"}, "clusterCIDR": POD_NET,
        "hostnameOverride": name, "oomScoreAdj": 0, "metricsBindAddress": "127.0.0.1:10249",
        # Sizes of the connection table belong to the whole machine: 0 leaves them as they are.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }  # fmt: skip
