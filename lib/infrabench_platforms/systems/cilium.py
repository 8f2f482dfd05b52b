"""Cilium: a CNI of BPF programs on each pod's device, nodes joined by VXLAN; it enforces network policies.

Services stay with kube-proxy, as they are with every other CNI here. Factors of their own: ``cilium-direct`` routes
between nodes and encapsulates nothing, ``cilium-nftables`` differs from ``cilium`` by kube-proxy's mode, and
``cilium-kpr`` has no kube-proxy at all (Cilium's "kube-proxy replacement"): there a BPF program at a cgroup's sockets
chooses a service's pod when a client connects, and no packet is translated afterwards. ``cilium-1000-services`` has
that many services of others, ``cilium-1000-policies`` that many policies that select one of the measured pods.
``cilium-mtu1280`` takes the nodes' network for one that carries no longer packets.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from infrabench.machines.hosts import parallel
from infrabench_platforms.clusters import cni, workers
from infrabench_platforms.clusters.cluster import Cluster
from infrabench_platforms.clusters.control import POD_NET, PORT
from infrabench_platforms.clusters.hosts import push, script, start, unit, uplink
from infrabench_platforms.clusters.runtimes import CNI_BIN, PLAIN_CONFIG
from infrabench_platforms.clusters.workers import Worker
from infrabench_platforms.systems import _cni

CONFIG = "05-cilium.conflist"
NAMESPACE = "kube-system"
CLANG = 17  # the oldest that compiles its programs
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# $1 the built part, $2 the folder of CNI plugins. The agent compiles its programs from a copy that it may write to.
_PREPARE = """
set -eu
mkdir -p /var/lib/cilium /run/cilium
rm -rf /var/lib/cilium/bpf
cp -r "$1/bpf" /var/lib/cilium/bpf
cp "$1/cilium-cni" "$2/cilium-cni"
mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf
"""
# A runtime that watches the folder may miss a file that is renamed into it, so the agent writes elsewhere.
_WRITTEN = """
tries=0
until [ -s "$1" ]; do
  tries=$((tries + 1)); [ $tries -lt 900 ] || { tail -n 5 /var/log/infrabench/cilium-agent.log >&2; exit 1; }
  sleep 0.1
done
cat "$1" >"$2"
"""
_READY = "/run/cilium/ready.conflist"
_CLUSTER = (
    "--cluster-name=lab", "--cluster-id=0", "--identity-allocation-mode=crd", "--enable-ipv6=false",
)  # fmt: skip
TUNNEL = ("--routing-mode=tunnel", "--tunnel-protocol=vxlan")
DIRECT = ("--routing-mode=native", "--auto-direct-node-routes=true", f"--ipv4-native-routing-cidr={POD_NET}")


def install(cluster: Cluster, routing: Sequence[str], kpr: bool) -> None:
    """Start the operator, then an agent on every worker; each writes the node's configuration when it is ready.

    `routing` are the agents' options of how nodes are joined; `kpr`: they lead to services as well.
    """
    assert cluster.machines is not None
    control, folder = cluster.kubectl.host, cluster.machines.tools["cilium"]
    command = (
        f"{folder}/cilium-operator-generic", "--k8s-kubeconfig-path=/etc/kubernetes/admin.conf", "--ipam=kubernetes",
        *_CLUSTER, f"--kube-proxy-replacement={str(kpr).lower()}",
    )  # fmt: skip
    push(control, unit("cilium-operator", command, {"K8S_NODE_NAME": "control", "CILIUM_K8S_NAMESPACE": NAMESPACE}))
    start(control, "cilium-operator")
    options = (*routing, f"--kube-proxy-replacement={str(kpr).lower()}")
    parallel.run_all(lambda worker: _run_agent(worker, folder, control.address, options), cluster.workers)


def installed(cluster: Cluster) -> str | None:
    """Return None when Cilium is what joins the nodes of a cluster that was found, else what says that it is not."""
    found = cluster.kubectl.run("get", "ciliumnodes.cilium.io", "--output=name")
    if not found.ok:
        return "the cluster has no CiliumNode resources"
    known = {line.split("/")[-1] for line in found.stdout.decode().split()}
    absent = [name for name in cluster.nodes if name not in known]
    return f"no CiliumNode of {', '.join(absent)}" if absent else None


def _run_agent(worker: Worker, folder: str, api: str, options: Sequence[str]) -> None:
    host = worker.host
    environment = {
        "PATH": f"{folder}:{_PATH}", "K8S_NODE_NAME": worker.name, "CILIUM_K8S_NAMESPACE": NAMESPACE,
        "KUBERNETES_SERVICE_HOST": api, "KUBERNETES_SERVICE_PORT": str(PORT),
    }  # fmt: skip
    command = (
        f"{folder}/cilium-agent", "--k8s-kubeconfig-path=/etc/kubernetes/network.conf", "--ipam=kubernetes",
        "--enable-ipv4=true", "--enable-l7-proxy=false", "--enable-hubble=false", f"--devices={uplink(host)}",
        "--bpf-root=/sys/fs/bpf",
        "--cgroup-root=/run/cilium/cgroupv2", "--state-dir=/run/cilium", "--lib-dir=/var/lib/cilium",
        "--enable-health-checking=false", "--enable-bpf-masquerade=false", "--enable-ipv4-masquerade=true",
        f"--write-cni-conf-when-ready={_READY}", "--cni-exclusive=false", "--cni-chaining-mode=none",
        "--k8s-require-ipv4-pod-cidr=true", *_CLUSTER, *options,
    )  # fmt: skip
    push(host, unit("cilium-agent", command, environment))
    script(host, _PREPARE, folder, CNI_BIN)
    start(host, "cilium-agent")
    script(host, _WRITTEN, _READY, f"{PLAIN_CONFIG}/{CONFIG}", timeout_s=120)


def _system(
    name: str, *, direct: bool = False, mtu_bytes: int = 0, proxy: str = workers.IPTABLES, **more: Any
) -> _cni.System:  # fmt: skip
    joined: dict[str, Any] = {} if direct else {"overlay": "cilium_vxlan", "encapsulation": "vxlan"}
    mtu = (f"--mtu={mtu_bytes}",) if mtu_bytes else ()
    of_proxy: dict[str, Any] = dict(cni.BY_NFTABLES) if proxy == workers.NFTABLES else {"proxy": proxy}
    programs = (*_COMPILER, *of_proxy.pop("programs", ()))
    return _cni.System(cni.CNI(
        name=name, parts=("cilium",), config=CONFIG, enforces=True, mtu_bytes=mtu_bytes, programs=programs,
        **joined, **of_proxy,
        install=partial(install, routing=(*(DIRECT if direct else TUNNEL), *mtu), kpr=not proxy),
        installed=installed,
        needs=(*_NEEDS, *(() if direct else (cni.NEEDS_VXLAN,))), program=("cilium-agent", "github.com/cilium/cilium"),
        operator="cilium-operator", **more,
    ))  # fmt: skip


_COMPILER = (("clang", f"clang>=1:{CLANG}~"), ("llc", f"llvm>=1:{CLANG}~"))
_NEEDS = (
    ("command -v clang && command -v llc", f"clang and llc are missing: install clang and llvm, {CLANG} or later"),
    ("grep -qw bpf /proc/filesystems", "the kernel has no BPF file system; take one with CONFIG_BPF_SYSCALL"),
)
FAMILY = {
    "cilium": _system("cilium"),
    "cilium-direct": _system("cilium-direct", direct=True),
    "cilium-mtu1280": _system("cilium-mtu1280", mtu_bytes=1280),
    "cilium-nftables": _system("cilium-nftables", proxy=workers.NFTABLES),
    "cilium-kpr": _system("cilium-kpr", proxy=""),
    "cilium-1000-services": _system("cilium-1000-services", **cni.WITH_SERVICES),
    "cilium-kpr-1000-services": _system("cilium-kpr-1000-services", proxy="", **cni.WITH_SERVICES),
    "cilium-1000-policies": _system("cilium-1000-policies", idle_policies=1000),
}
