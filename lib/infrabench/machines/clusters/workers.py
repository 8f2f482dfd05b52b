"""A worker node: a container runtime, kubelet and kube-proxy as units of one host, with the images that pods need.

Its runtime is containerd or CRI-O, each configured here for the same handlers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from infrabench.core import Host, Machines, NotRunnable, unknown_name
from infrabench.machines.clusters import handlers
from infrabench.machines.clusters.control import POD_NET, ControlPlane
from infrabench.machines.clusters.hosts import push, script, start, unit, wait_for
from infrabench.machines.clusters.kata import Kata, find
from infrabench.machines.clusters.runtimes import (
    CNI_BIN,
    CNI_CONFIG,
    HOME,
    METRICS,
    PATH,
    PLAIN_CONFIG,
    RAISE,
    Runtime,
    RuntimeSetup,
    toml,
)

KUBELET_CONFIG = "/etc/kubernetes/kubelet.yaml"
MAX_PODS = 110  # on a worker: kubelet's own default
CONTAINERD_CONFIG = "/etc/containerd/config.toml"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
_CRI = 'plugins."io.containerd.cri.v1.runtime"'
_CONTAINERD_BASE = """\
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.blockfile", "io.containerd.nri.v1.nri"]
"""
# $1: ctr. Then: archives of images.
_CONTAINERD_IMPORT = """
set -eu
ctr=$1; shift
for archive in "$@"; do "$ctr" --namespace k8s.io images import "$archive" >/dev/null; done
"""
CRIO_CONFIG = "/etc/crio/crio.conf"
CRIO_POLICY = f"{HOME}/crio-policy.json"
CRIO_SOCKET = "/run/crio/crio.sock"
STORE, STORE_NOW = "/var/lib/containers/storage", "/run/containers/storage"
# What containerd gives a container: CRI-O's own default has no MKNOD, NET_RAW, SETFCAP, SYS_CHROOT and AUDIT_WRITE.
CAPABILITIES = (
    "CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP",
    "NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE",
)  # fmt: skip
CRIO_WRAPPER = f"{HOME}/crio-{{}}"  # of a low-level runtime
_OCI_WRAPPER = """\
#!/bin/sh
# Written by infrabench: {name} on a machine where out-of-memory scores cannot be lowered.
previous=
for word in "$@"; do
  case $previous in
    -b|--bundle) file=$word/config.json ;;
    -p|--process) file=$word ;;
    *) file= ;;
  esac
  [ ! -f "$file" ] || {raise_}
  previous=$word
done
exec {name} "$@"
"""
# $1: the store, as containers-storage names one. Then pairs: an archive, its image's name.
_CRIO_IMPORT = """
set -eu
store=$1; shift
while [ $# -gt 0 ]; do
  skopeo --insecure-policy copy --quiet "docker-archive:$1" "containers-storage:[$store]$2"
  shift 2
done
"""
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


def configure_containerd(place: RuntimeSetup) -> str:
    """Return containerd's configuration for a worker."""
    tables = [
        _CONTAINERD_BASE,
        toml("grpc", {"address": CONTAINERD_SOCKET}),
        toml("metrics", {"address": METRICS}),
        toml('plugins."io.containerd.cri.v1.images".pinned_images', {"sandbox": place.machines.images["pause"][0]}),
        # Where the machine does not let it, containerd is told to lower no out-of-memory score.
        toml(_CRI, {"restrict_oom_score_adj": place.restricted}),
        toml(f"{_CRI}.cni", {"bin_dir": CNI_BIN, "conf_dir": CNI_CONFIG}),
        toml(f"{_CRI}.containerd", {"default_runtime_name": place.handlers[0]}),
    ]
    for name in place.handlers:
        values, options = handlers.HANDLERS[name].containerd(place)
        tables.append(toml(f"{_CRI}.containerd.runtimes.{name}", values))
        if options:
            tables.append(toml(f"{_CRI}.containerd.runtimes.{name}.options", options))
    return "".join(tables)


def _start_containerd(place: RuntimeSetup) -> None:
    tools = [place.machines.tools[part] for part in ("containerd", "gvisor") if part in place.machines.tools]
    command = (f"{tools[0]}/containerd", "--config", CONTAINERD_CONFIG)
    # It finds shims, and the shims their programs, on the search path.
    environment = {"PATH": ":".join((*tools, PATH))}
    files = {CONTAINERD_CONFIG: configure_containerd(place)}
    push(place.host, {**files, **unit("containerd", command, environment, children=True)})
    start(place.host, "containerd")
    ctr = f"{tools[0]}/ctr"
    wait_for(place.host, "containerd", "sh", "-c", f'[ -S {CONTAINERD_SOCKET} ] && "$0" version', ctr)
    archives = [path for _, path in place.machines.images.values()]
    script(place.host, _CONTAINERD_IMPORT, ctr, *archives, timeout_s=120)


def configure_crio(place: RuntimeSetup) -> str:
    """Return CRI-O's configuration for a worker."""
    host, port = METRICS.split(":")
    tables = [
        toml("crio", {
            "root": STORE, "runroot": STORE_NOW, "storage_driver": "overlay", "log_dir": "/var/log/crio/pods",
            "version_file": "/run/crio/version", "version_file_persist": "", "clean_shutdown_file": "",
            **({"storage_option": options} if (options := _options(place)) else {}),
        }),
        toml("crio.api", {"listen": CRIO_SOCKET}),
        toml("crio.metrics", {"enable_metrics": True, "metrics_host": host, "metrics_port": int(port)}),
        toml("crio.nri", {"enable_nri": False}),
        toml("crio.image", {
            "pause_image": place.machines.images["pause"][0], "pause_command": "/pause",
            "signature_policy": CRIO_POLICY,
        }),
        toml("crio.network", {"network_dir": CNI_CONFIG, "plugin_dirs": [CNI_BIN]}),
        toml("crio.runtime", {
            "cgroup_manager": "cgroupfs", "conmon_cgroup": "pod", "default_runtime": place.handlers[0],
            "pinns_path": f"{place.machines.tools['crio']}/pinns", "namespaces_dir": "/run/crio/namespaces",
            "apparmor_profile": "unconfined", "default_capabilities": list(CAPABILITIES), "pids_limit": -1,
            "log_level": "info",  # which tells when each sandbox and container was begun and done
        }),
    ]  # fmt: skip
    for name in place.handlers:
        values = dict(handlers.HANDLERS[name].crio(place))
        if "runtime_type" not in values:  # CRI-O runs it itself, and no shim
            values["monitor_cgroup"] = "pod"
            if place.restricted:
                values["runtime_path"] = CRIO_WRAPPER.format(name)
        tables.append(toml(f"crio.runtime.runtimes.{name}", values))
    return "".join(tables)


def wrappers(place: RuntimeSetup) -> dict[str, str]:
    """Return the programs that stand before low-level runtimes on a worker, by path; none where none is needed."""
    if not place.restricted:
        return {}
    oci = [name for name in place.handlers if "runtime_type" not in handlers.HANDLERS[name].crio(place)]
    raised = RAISE.format(file='"$file"')
    return {CRIO_WRAPPER.format(name): _OCI_WRAPPER.format(name=name, raise_=raised) for name in oci}


def _options(place: RuntimeSetup) -> list[str]:
    """Return the options of the store, for all that open it.

    Kata shares a container's files with its guest from the store's folder, and its shim has a mount namespace of its
    own: a private bind mount on that folder, which the first that opens the store leaves there, hides them from it.
    """
    return ["overlay.skip_mount_home=true"] if "kata" in place.handlers else []


def _start_crio(place: RuntimeSetup) -> None:
    command = (f"{place.machines.tools['crio']}/crio", "--config", CRIO_CONFIG, "--config-dir", f"{HOME}/none")
    files = {
        CRIO_CONFIG: configure_crio(place), CRIO_POLICY: '{"default": [{"type": "insecureAcceptAnything"}]}',
        **wrappers(place), **unit("crio", command, {"PATH": PATH}, children=True),
    }  # fmt: skip
    push(place.host, files)
    # As containers-storage names a store: DRIVER@ROOT+RUNROOT:OPTION,...
    store = ":".join([f"overlay@{STORE}+{STORE_NOW}", *filter(None, [",".join(_options(place))])])
    pairs = [word for name, archive in place.machines.images.values() for word in (archive, name)]
    script(place.host, _CRIO_IMPORT, store, *pairs, timeout_s=120)
    start(place.host, "crio")
    wait_for(place.host, "crio", "curl", "--silent", "--fail", "--unix-socket", CRIO_SOCKET, "http://crio/info")


CONTAINERD = Runtime("containerd", CONTAINERD_SOCKET, f"http://{METRICS}/v1/metrics", "1.2.1", _start_containerd)
CRIO = Runtime("crio", CRIO_SOCKET, f"http://{METRICS}/metrics", "1.2.1", _start_crio)
RUNTIMES = {each.name: each for each in (CONTAINERD, CRIO)}


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker, ready to join a cluster."""

    name: str  # in the cluster
    host: Host
    runtime: Runtime = CONTAINERD
    handlers: Mapping[str, str] = field(default_factory=dict)  # low-level runtime -> its version
    kata: Kata | None = None  # what the handler of that name is
    # Out-of-memory scores cannot be lowered: CRI-O's low-level runtimes and gVisor's shim are called through scripts.
    restricted: bool = False


def parts(runtime: str, names: Sequence[str] = ("runc",)) -> tuple[str, ...]:
    """Return the parts that machines need for workers with this high-level runtime and these handlers.

    Raises `NotRunnable` where the two do not go together, `DesignError` for a name that nobody knows.
    """
    _check(runtime, names)
    needed = [part for name in names for part in handlers.HANDLERS[name].parts]
    return tuple(dict.fromkeys((runtime, *needed)))


def prepare(
    name: str, machines: Machines, runtime: str = "containerd", names: Sequence[str] = ("runc",)
) -> Worker:  # fmt: skip
    """Start the container runtime of the machine `name` with these handlers, and import the images.

    The first handler is that of pods without a runtime class. Raises `NotRunnable` when the machine lacks what one of
    them needs, `ProvisionError` when something does not start.
    """
    _check(runtime, names)
    host = machines.hosts[name]
    restricted = script(host, _NET, CNI_BIN, CNI_CONFIG, PLAIN_CONFIG, HOME).strip() == "restricted"
    found = find(host, machines.facts.get("kata")) if "kata" in names else None
    place = RuntimeSetup(host, machines, RUNTIMES[runtime], restricted, tuple(names), found)
    wanted = [handlers.HANDLERS[each] for each in names]
    for each in wanted:
        if reason := each.lacks(place):
            raise NotRunnable(reason)
    push(host, {path: text for each in wanted for path, text in each.files(place).items()})
    place.runtime.start(place)
    return Worker(name, host, place.runtime, handlers.versions(place), found, restricted)


def join(worker: Worker, plane: ControlPlane, machines: Machines) -> None:
    """Start kubelet and kube-proxy: the node then registers itself, and is Ready once it has a CNI."""
    kubernetes, name, home = machines.tools["kubernetes"], worker.name, "/etc/kubernetes"
    files = {
        f"{home}/kubelet.conf": plane.kubeconfigs[f"kubelet-{name}"],
        f"{home}/kube-proxy.conf": plane.kubeconfigs["kube-proxy"],
        f"{home}/network.conf": plane.kubeconfigs["network"],
        f"{home}/ca.crt": plane.ca,
        KUBELET_CONFIG: json.dumps(_kubelet(worker.runtime)),
        f"{home}/kube-proxy.yaml": json.dumps(_proxy(name)),
        **unit("kubelet", (
            f"{kubernetes}/kubelet", f"--config={KUBELET_CONFIG}", f"--kubeconfig={home}/kubelet.conf",
            f"--node-ip={worker.host.address}", f"--hostname-override={name}", "--v=1",
        )),
        **unit("kube-proxy", (f"{kubernetes}/kube-proxy", f"--config={home}/kube-proxy.yaml")),
    }  # fmt: skip
    push(worker.host, files)
    start(worker.host, "kubelet", "kube-proxy")


def _check(runtime: str, names: Sequence[str]) -> None:
    """Raise `NotRunnable` when a high-level runtime does not take a handler, `DesignError` for an unknown name."""
    for what, known, each in (
        ("high-level runtime", RUNTIMES, (runtime,)), ("low-level runtime", handlers.HANDLERS, names),
    ):  # fmt: skip
        for name in each:
            if name not in known:
                raise unknown_name(what, name, known)
    for name in names:
        if reason := handlers.HANDLERS[name].refused.get(runtime):
            raise NotRunnable(reason)


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


def _proxy(name: str) -> dict[str, object]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "iptables",
        "clientConnection": {"kubeconfig": "/etc/kubernetes/kube-proxy.conf"}, "clusterCIDR": POD_NET,
        "hostnameOverride": name, "oomScoreAdj": 0, "metricsBindAddress": "127.0.0.1:10249",
        # Sizes of the connection table belong to the whole machine: 0 leaves them as they are.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }  # fmt: skip
