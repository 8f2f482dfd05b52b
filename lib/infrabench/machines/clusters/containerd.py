"""containerd as a worker's runtime."""

from __future__ import annotations

from infrabench.machines.clusters import handlers
from infrabench.machines.clusters.hosts import push, script, start, unit, wait_for
from infrabench.machines.clusters.runtimes import CNI_BIN, CNI_CONFIG, METRICS, PATH, Runtime, RuntimeSetup, toml

CONFIG = "/etc/containerd/config.toml"
SOCKET = "/run/containerd/containerd.sock"
_CRI = 'plugins."io.containerd.cri.v1.runtime"'
_BASE = """\
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.blockfile", "io.containerd.nri.v1.nri"]
"""
# $1: ctr. Then: archives of images.
_IMPORT = """
set -eu
ctr=$1; shift
for archive in "$@"; do "$ctr" --namespace k8s.io images import "$archive" >/dev/null; done
"""


def configuration(place: RuntimeSetup) -> str:
    """Return containerd's configuration for a worker."""
    tables = [
        _BASE,
        toml("grpc", {"address": SOCKET}),
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


def _start(place: RuntimeSetup) -> None:
    tools = [place.machines.tools[part] for part in ("containerd", "gvisor") if part in place.machines.tools]
    command = (f"{tools[0]}/containerd", "--config", CONFIG)
    # It finds shims, and the shims their programs, on the search path.
    environment = {"PATH": ":".join((*tools, PATH))}
    push(place.host, {CONFIG: configuration(place), **unit("containerd", command, environment, children=True)})
    start(place.host, "containerd")
    ctr = f"{tools[0]}/ctr"
    wait_for(place.host, "containerd", "sh", "-c", f'[ -S {SOCKET} ] && "$0" version', ctr)
    archives = [path for _, path in place.machines.images.values()]
    script(place.host, _IMPORT, ctr, *archives, timeout_s=120)


RUNTIME = Runtime("containerd", "containerd", SOCKET, f"http://{METRICS}/v1/metrics", "1.2.1", _start)
