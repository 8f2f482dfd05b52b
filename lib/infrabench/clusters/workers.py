"""A worker node: a container runtime, kubelet and kube-proxy as units of one host, with the images that pods need."""

from __future__ import annotations

import json
from dataclasses import dataclass

from infrabench.clusters.control import POD_NET, ControlPlane
from infrabench.clusters.hosts import push, script, start, unit
from infrabench.core import Host, Machines

CNI_CONFIG = "/etc/cni/net.d"
CNI_BIN = "/opt/cni/bin"
PLAIN_CONFIG = "/etc/cni/plain.d"  # holds the cluster's CNI without Multus, for pods of the plain runtime class
KUBELET_CONFIG = "/etc/kubernetes/kubelet.yaml"
KUBELET_S = 60.0
METRICS = "127.0.0.1:10260"  # where a runtime tells its own figures

_CONTAINERD = """\
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.blockfile", "io.containerd.nri.v1.nri"]
[grpc]
  address = "/run/containerd/containerd.sock"
[metrics]
  address = "{metrics}"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{pause}"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = {restricted}
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dir = "{cni_bin}"
    conf_dir = "{cni_config}"
  [plugins."io.containerd.cri.v1.runtime".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.plain]
      runtime_type = "io.containerd.runc.v2"
      cni_conf_dir = "{plain}"
"""

# Brings the CNI's folders in order, starts the runtime and imports the images: none of it needs the control plane.
_RUNTIME = """
set -eu
ctr=$1 bin=$2; shift 2
mkdir -p "$bin" /var/lib/kubelet
cp /usr/lib/cni/* "$bin/"
tries=0
until [ -S /run/containerd/containerd.sock ] && "$ctr" version >/dev/null 2>&1; do
  tries=$((tries + 1)); [ $tries -lt 200 ] || { tail -n 5 /var/log/infrabench/containerd.log >&2; exit 1; }
  sleep 0.1
done
for archive in "$@"; do "$ctr" --namespace k8s.io images import "$archive" >/dev/null; done
"""

_NET = """
set -eu
mkdir -p "$@"
sysctl -qw net.ipv4.ip_forward=1
# The kernel hands packets of a bridge to iptables only where this is on; kube-proxy's rules for services need it.
[ ! -e /proc/sys/net/bridge/bridge-nf-call-iptables ] || sysctl -qw net.bridge.bridge-nf-call-iptables=1
# A process without CAP_SYS_RESOURCE cannot lower its out-of-memory score, and a runtime that tries to fails.
if (echo -1 >/proc/self/oom_score_adj) 2>/dev/null; then echo free; else echo restricted; fi
"""


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker by its name in the cluster and its host."""

    name: str
    host: Host


def prepare(worker: Worker, machines: Machines) -> None:
    """Start the container runtime and import the images."""
    host, containerd = worker.host, machines.tools["containerd"]
    restricted = script(host, _NET, CNI_CONFIG, PLAIN_CONFIG, "/etc/containerd").strip() == "restricted"
    config = _CONTAINERD.format(
        pause=machines.images["pause"][0], restricted=str(restricted).lower(), cni_bin=CNI_BIN, cni_config=CNI_CONFIG,
        plain=PLAIN_CONFIG, metrics=METRICS,
    )  # fmt: skip
    path = f"{containerd}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    command = (f"{containerd}/containerd", "--config", "/etc/containerd/config.toml")
    push(host, {"/etc/containerd/config.toml": config, **unit("containerd", command, {"PATH": path}, children=True)})
    start(host, "containerd")
    archives = [path for _, path in machines.images.values()]
    script(host, _RUNTIME, f"{containerd}/ctr", CNI_BIN, *archives, timeout_s=120)


def join(worker: Worker, plane: ControlPlane, machines: Machines) -> None:
    """Start kubelet and kube-proxy: the node then registers itself, and is Ready once it has a CNI."""
    kubernetes, name, home = machines.tools["kubernetes"], worker.name, "/etc/kubernetes"
    files = {
        f"{home}/kubelet.conf": plane.kubeconfigs[f"kubelet-{name}"],
        f"{home}/kube-proxy.conf": plane.kubeconfigs["kube-proxy"],
        f"{home}/network.conf": plane.kubeconfigs["network"],
        f"{home}/ca.crt": plane.ca,
        KUBELET_CONFIG: json.dumps(_kubelet()),
        f"{home}/kube-proxy.yaml": json.dumps(_proxy(name)),
        **unit("kubelet", (
            f"{kubernetes}/kubelet", f"--config={KUBELET_CONFIG}", f"--kubeconfig={home}/kubelet.conf",
            f"--node-ip={worker.host.address}", f"--hostname-override={name}", "--v=1",
        )),
        **unit("kube-proxy", (f"{kubernetes}/kube-proxy", f"--config={home}/kube-proxy.yaml")),
    }  # fmt: skip
    push(worker.host, files)
    start(worker.host, "kubelet", "kube-proxy")


def _kubelet() -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock", "cgroupDriver": "cgroupfs",
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


def _proxy(name: str) -> dict[str, object]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "iptables",
        "clientConnection": {"kubeconfig": "/etc/kubernetes/kube-proxy.conf"}, "clusterCIDR": POD_NET,
        "hostnameOverride": name, "oomScoreAdj": 0, "metricsBindAddress": "127.0.0.1:10249",
        # Sizes of the connection table belong to the whole machine: 0 leaves them as they are.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }  # fmt: skip
