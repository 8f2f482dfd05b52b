"""CRI-O as a worker's runtime."""

from __future__ import annotations

from infrabench.machines.clusters import handlers
from infrabench.machines.clusters.hosts import push, script, start, unit, wait_for
from infrabench.machines.clusters.runtimes import (
    CNI_BIN,
    CNI_CONFIG,
    HOME,
    METRICS,
    PATH,
    RAISE,
    Runtime,
    RuntimeSetup,
    toml,
)

CONFIG = "/etc/crio/crio.conf"
POLICY = f"{HOME}/crio-policy.json"
SOCKET = "/run/crio/crio.sock"
STORE, STORE_NOW = "/var/lib/containers/storage", "/run/containers/storage"
# What containerd gives a container: CRI-O's own default has no MKNOD, NET_RAW, SETFCAP, SYS_CHROOT and AUDIT_WRITE.
CAPABILITIES = (
    "CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP",
    "NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE",
)  # fmt: skip
_WRAPPER = """\
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
_IMPORT = """
set -eu
store=$1; shift
while [ $# -gt 0 ]; do
  skopeo --insecure-policy copy --quiet "docker-archive:$1" "containers-storage:[$store]$2"
  shift 2
done
"""


def configuration(place: RuntimeSetup) -> str:
    """Return CRI-O's configuration for a worker."""
    host, port = METRICS.split(":")
    tables = [
        toml("crio", {
            "root": STORE, "runroot": STORE_NOW, "storage_driver": "overlay", "log_dir": "/var/log/crio/pods",
            "version_file": "/run/crio/version", "version_file_persist": "", "clean_shutdown_file": "",
            **({"storage_option": options} if (options := _options(place)) else {}),
        }),
        toml("crio.api", {"listen": SOCKET}),
        toml("crio.metrics", {"enable_metrics": True, "metrics_host": host, "metrics_port": int(port)}),
        toml("crio.nri", {"enable_nri": False}),
        toml("crio.image", {
            "pause_image": place.machines.images["pause"][0], "pause_command": "/pause", "signature_policy": POLICY,
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
        if _is_oci(values):
            values["monitor_cgroup"] = "pod"
            if place.restricted:
                values["runtime_path"] = _wrapper(name)
        tables.append(toml(f"crio.runtime.runtimes.{name}", values))
    return "".join(tables)


def wrappers(place: RuntimeSetup) -> dict[str, str]:
    """Return the programs that stand before low-level runtimes on a worker, by path; none where none is needed."""
    if not place.restricted:
        return {}
    oci = [name for name in place.handlers if _is_oci(handlers.HANDLERS[name].crio(place))]
    return {_wrapper(name): _WRAPPER.format(name=name, raise_=RAISE.format(file='"$file"')) for name in oci}


def _options(place: RuntimeSetup) -> list[str]:
    """Return the options of the store, for all that open it.

    Kata shares a container's files with its guest from the store's folder, and its shim has a mount namespace of its
    own: a private bind mount on that folder, which the first that opens the store leaves there, hides them from it.
    """
    return ["overlay.skip_mount_home=true"] if "kata" in place.handlers else []


def _is_oci(values: handlers.Values) -> bool:
    """Tell whether CRI-O runs the low-level runtime itself, and not a shim."""
    return values.get("runtime_type", "oci") == "oci"


def _wrapper(name: str) -> str:
    return f"{HOME}/crio-{name}"


def _start(place: RuntimeSetup) -> None:
    command = (f"{place.machines.tools['crio']}/crio", "--config", CONFIG, "--config-dir", f"{HOME}/none")
    files = {
        CONFIG: configuration(place), POLICY: '{"default": [{"type": "insecureAcceptAnything"}]}', **wrappers(place),
        **unit("crio", command, {"PATH": PATH}, children=True),
    }  # fmt: skip
    push(place.host, files)
    # As containers-storage names a store: DRIVER@ROOT+RUNROOT:OPTION,...
    store = ":".join([f"overlay@{STORE}+{STORE_NOW}", *filter(None, [",".join(_options(place))])])
    pairs = [word for name, archive in place.machines.images.values() for word in (archive, name)]
    script(place.host, _IMPORT, store, *pairs, timeout_s=120)
    start(place.host, "crio")
    wait_for(place.host, "crio", "curl", "--silent", "--fail", "--unix-socket", SOCKET, "http://crio/info")


RUNTIME = Runtime("crio", "crio", SOCKET, f"http://{METRICS}/metrics", "1.2.1", _start)
