"""Container runtimes of a worker: high-level ones, which kubelet speaks to, and low-level ones, which pods name.

A high-level runtime is containerd or CRI-O, each configured here for the same handlers. A low-level runtime is the
handler of a pod's runtime class.

gVisor's program (runsc) is called through its shim. Its platform is systrap, its own default: it needs nothing of the
machine. Pods' cgroups are made and limited as those of other runtimes are. Each container has a shim of its own, the
pod's own (pause) included; CRI-O lets that one run on until kubelet clears the pod away, up to a minute after its end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from infrabench.core import Host, Machines, NotRunnable, ProvisionError
from infrabench_platforms.clusters import kata
from infrabench_platforms.clusters.hosts import push, script, start, unit, wait_for
from infrabench_platforms.clusters.kata import Kata

CNI_CONFIG = "/etc/cni/net.d"
CNI_BIN = "/opt/cni/bin"
PLAIN_CONFIG = "/etc/cni/plain.d"  # holds the cluster's CNI without Multus, for pods of the plain runtime class
HOME = "/etc/infrabench"  # our own files on a worker
METRICS = "127.0.0.1:10260"  # where a runtime tells its own figures
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Raises to 0 what a container's description asks for as out-of-memory score: a process without CAP_SYS_RESOURCE may not
# have less, and CRI-O has no setting that keeps it from asking.
RAISE = 'sed -i \'s/"oomScoreAdj": *-[0-9]*/"oomScoreAdj":0/\' {file}'
Values = Mapping[str, Any]  # of a TOML table: text, truth values, whole numbers, and lists of text
STEP_S = 20.0
# Low-level runtime -> program -> Debian package; the others are built here, or installed by whoever wants them.
PROGRAMS = {"runc": {"runc": "runc"}, "crun": {"crun": "crun"}}
RUNC_SHIM = "io.containerd.runc.v2"
# $1: a low-level runtime. $2: version of the specification. Prints its version, and what it says of a container that it
# cannot make, since there is nothing in it; one that does not know the specification says that instead.
_PROBE = """
"$1" --version | head -n 1
home=$(mktemp -d) || exit
spec='{"ociVersion": "%s", "root": {"path": "none"}, "process": {"cwd": "/", "args": ["none"]}}'
printf "$spec" "$2" >"$home/config.json"
"$1" --root "$home/run" create --bundle "$home" infrabench-probe 2>&1
"$1" --root "$home/run" delete --force infrabench-probe >/dev/null 2>&1
rm -rf "$home"
"""
GVISOR_SHIM = "containerd-shim-runsc-v1"
GVISOR_CONFIG = f"{HOME}/runsc.toml"
GVISOR_USER_MAP = f"{HOME}/runsc-uid-map"
GVISOR_WRAPPER = f"{HOME}/{GVISOR_SHIM}"
GVISOR_FOR_CRIO = f"{HOME}/containerd-shim-runsc-v2"
# The shim gives itself an out-of-memory score of -999 and fails where root may not do that, unless it is in a user
# namespace, where root is known to have fewer rights. So that one process is shown the user map of such a namespace;
# it makes the shim that stays, whose own map is as it is.
_SHIM_WRAPPER = f"""\
#!/bin/sh
# Written by infrabench: gVisor's shim on a machine where out-of-memory scores cannot be lowered.
for verb in "$@"; do :; done
[ "$verb" = start ] || exec {{shim}} "$@"
exec unshare --mount --propagation unchanged sh -c '
  mount --make-private /proc && mount --bind {GVISOR_USER_MAP} /proc/$$/uid_map && exec "$@"
' sh {{shim}} "$@"
"""
_CAN_SHOW = """
unshare --mount sh -c '
  mount --make-private /proc && mount --bind /dev/null /proc/$$/uid_map && ! grep -q . /proc/$$/uid_map
'
"""
# CRI-O takes shims that are called ...-v2 and print their address; gVisor's is a -v1 that prints a document with it in.
# Nothing else of what the two say to each other differs.
_SHIM_FOR_CRIO = """\
#!/bin/sh
# Written by infrabench: gVisor's shim as CRI-O asks for it.
for verb in "$@"; do :; done
[ "$verb" = start ] || exec {shim} "$@"
{before}said=$({starter} "$@") || {{ echo "$said"; exit 1; }}
echo "$said" | sed -n 's/.*"address": *"\\([^"]*\\)".*/\\1/p'
"""


# What a runtime is


@dataclass(frozen=True, slots=True)
class Runtime:
    """A high-level runtime: the one that kubelet speaks to."""

    name: str  # also of its unit, of its log (`hosts.LOGS`), and of its part of the Go tools
    socket: str  # where kubelet reaches it
    metrics: str  # where its own figures are, as a URL on the worker
    spec: str  # version of the Open Container Initiative's specification that it writes for low-level runtimes
    # Configures and starts it and imports the images of the machines; returns when it answers, else raises
    # `ProvisionError` with the end of its log.
    start: Callable[[Worker], None]


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker of a cluster: what configurations depend on, and what is known of it once its runtime runs."""

    name: str  # in the cluster
    host: Host
    machines: Machines
    runtime: Runtime = field(default_factory=lambda: CONTAINERD)
    # Low-level runtime (`HANDLERS`) -> its version, empty until it runs; the first is that of pods without a class.
    handlers: Mapping[str, str] = field(default_factory=dict)
    kata: Kata | None = None  # what the handler of that name is; None where it is not installed or not asked for
    # Its processes may not lower their out-of-memory score (no CAP_SYS_RESOURCE): CRI-O's low-level runtimes and
    # gVisor's shim are called through scripts.
    restricted: bool = False


def toml(name: str, values: Values) -> str:
    """Return a TOML table called `name`, which is quoted already where it has to be."""
    # TOML writes these kinds of values as JSON does.
    return "\n".join((f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items()), ""))


@dataclass(frozen=True, slots=True)
class Handler:
    """A low-level runtime, by functions of the worker that is to have it."""

    name: str
    parts: tuple[str, ...]  # what a set of machines has to have for it (see `Site.machines`)
    containerd: Callable[[Worker], tuple[Values, Values]]  # its table for containerd, and its shim's options
    crio: Callable[[Worker], Values]  # its table in CRI-O's configuration
    lacks: Callable[[Worker], str | None]  # why the worker cannot run it, or None
    version: Callable[[Worker], tuple[str, ...]]  # the command that prints its version
    # What has to lie on the worker: path -> text. What begins with ``#!`` is a program.
    files: Callable[[Worker], Mapping[str, str]] = lambda worker: {}
    refused: Mapping[str, str] = field(default_factory=dict)  # high-level runtime -> why it does not take this one


def read_versions(worker: Worker) -> dict[str, str]:
    """Return what each handler's program says of its version, by handler: the first line."""
    found = {}
    for name in worker.handlers:
        argv = HANDLERS[name].version(worker)
        result = worker.host.run(argv, timeout_s=STEP_S)
        if not result.ok:
            reason = result.stderr.decode("utf-8", "replace").strip()[-300:]
            raise ProvisionError(f"{worker.host.name}: {' '.join(argv)} does not tell its version: {reason}")
        found[name] = result.stdout.decode("utf-8", "replace").strip().partition("\n")[0]
    return found


def _find_absent(worker: Worker, name: str) -> str | None:
    """Return that a program is not on the worker's search path, and its package; None when it is."""
    there = worker.host.run(("sh", "-c", 'command -v "$1"', "sh", name), timeout_s=STEP_S).ok
    return None if there else f"{name} is not installed on {worker.host.name}: apt-get install {PROGRAMS[name][name]}"


def _refuse_crun(worker: Worker) -> str | None:
    """Return why crun is not there, or refuses what the high-level runtime writes: older ones know fewer versions."""
    if reason := _find_absent(worker, "crun"):
        return reason
    spec, writer = "1.2.1" if is_containerd_2_1(worker) else worker.runtime.spec, worker.runtime.name
    result = worker.host.run(("sh", "-s", "crun", spec), timeout_s=STEP_S, stdin=_PROBE.encode())
    version, _, told = result.stdout.decode("utf-8", "replace").strip().partition("\n")
    refuses = f"{version} refuses containers of specification {spec}, which {writer} writes: {told}"
    return refuses if "unknown version" in told else None


def _gvisor(worker: Worker, program: str) -> str:
    return f"{worker.machines.tools['gvisor']}/{program}"


def _refuse_gvisor(worker: Worker) -> str | None:
    if not worker.restricted or worker.host.run(("sh", "-c", _CAN_SHOW), timeout_s=STEP_S).ok:
        return None
    return "the gVisor shim needs CAP_SYS_RESOURCE, which this machine does not grant"


def _gvisor_containerd(worker: Worker) -> tuple[Values, Values]:
    shim = {"runtime_path": GVISOR_WRAPPER} if worker.restricted else {}
    options = {"TypeUrl": "io.containerd.runsc.v1.options", "ConfigPath": GVISOR_CONFIG}
    return {"runtime_type": "io.containerd.runsc.v1", **shim}, options


def _gvisor_files(worker: Worker) -> Mapping[str, str]:
    """Return what the shim reads, and what stands before it for CRI-O and on a restricted machine."""
    own = {"platform": "systrap", "net-raw": "true"}  # pods have that right under the other runtimes
    config = f'binary_name = "{_gvisor(worker, "runsc")}"\n{toml("runsc_config", own)}'
    shim = _gvisor(worker, GVISOR_SHIM)
    if not worker.restricted:
        return {GVISOR_CONFIG: config, GVISOR_FOR_CRIO: _SHIM_FOR_CRIO.format(shim=shim, before="", starter=shim)}
    raised = f"{RAISE.format(file='config.json')}\n"
    return {
        GVISOR_CONFIG: config, GVISOR_WRAPPER: _SHIM_WRAPPER.format(shim=shim),
        GVISOR_USER_MAP: "         0          0 4294967294\n",
        GVISOR_FOR_CRIO: _SHIM_FOR_CRIO.format(shim=shim, before=raised, starter=GVISOR_WRAPPER),
    }  # fmt: skip


def _kata(worker: Worker) -> Kata:
    if worker.kata is None:
        raise NotRunnable(kata.not_installed(worker.host))
    return worker.kata


def _kata_containerd(worker: Worker) -> tuple[Values, Values]:
    # Without the last, a privileged pod would get the devices of the host into its guest.
    table = {
        "runtime_type": "io.containerd.kata.v2", "runtime_path": _kata(worker).shim,
        "privileged_without_host_devices": True,
    }  # fmt: skip
    return table, {"ConfigPath": _kata(worker).configuration}


def _crio_shim(path: str, config: str) -> dict[str, object]:
    """Return CRI-O's table of a low-level runtime that it calls through a shim."""
    return {
        "runtime_type": "vm", "runtime_path": path, "runtime_root": "/run/vc", "runtime_config_path": config,
    }  # fmt: skip


RUNC = Handler(
    "runc", (),
    containerd=lambda worker: ({"runtime_type": RUNC_SHIM}, {}),
    crio=lambda worker: {"runtime_root": "/run/runc"},
    lacks=lambda worker: _find_absent(worker, "runc"), version=lambda worker: ("runc", "--version"),
)  # fmt: skip
# runc again, for pods whose network the cluster's CNI makes without Multus.
PLAIN = Handler(
    "plain", (),
    containerd=lambda worker: ({"runtime_type": RUNC_SHIM, "cni_conf_dir": PLAIN_CONFIG}, {}),
    crio=RUNC.crio, lacks=RUNC.lacks, version=RUNC.version,
    refused={"crio": "CRI-O gives the pods of all handlers the same network"},
)  # fmt: skip
CRUN = Handler(
    "crun", (),
    containerd=lambda worker: ({"runtime_type": RUNC_SHIM}, {"BinaryName": "crun"}),
    crio=lambda worker: {"runtime_root": "/run/crun"},
    lacks=_refuse_crun, version=lambda worker: ("crun", "--version"),
)  # fmt: skip
RUNSC = Handler(
    "runsc", ("gvisor",), containerd=_gvisor_containerd,
    crio=lambda worker: _crio_shim(GVISOR_FOR_CRIO, GVISOR_CONFIG),
    lacks=_refuse_gvisor, version=lambda worker: (_gvisor(worker, "runsc"), "--version"), files=_gvisor_files,
)  # fmt: skip
KATA = Handler(
    "kata", (kata.PART,), containerd=_kata_containerd,
    crio=lambda worker: {
        **_crio_shim(_kata(worker).shim, _kata(worker).configuration), "privileged_without_host_devices": True,
    },
    lacks=lambda worker: kata.lacks(worker.host, worker.kata) if worker.kata else kata.not_installed(worker.host),
    version=lambda worker: (_kata(worker).shim, "--version"),
)  # fmt: skip
HANDLERS = {each.name: each for each in (RUNC, PLAIN, CRUN, RUNSC, KATA)}


# High-level runtimes

CONTAINERD_CONFIG = "/etc/containerd/config.toml"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
_CRI = 'plugins."io.containerd.cri.v1.runtime"'
_CONTAINERD_BASE = """\
version = {format}
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


def is_containerd_2_1(worker: Worker) -> bool:
    """Tell whether a worker's high-level runtime is containerd 2.1, which is configured, and writes, in older forms."""
    versions = worker.machines.facts.get("versions", {})
    return worker.runtime.name == "containerd" and versions.get("containerd", "").startswith("v2.1.")


def configure_containerd(worker: Worker) -> str:
    """Return containerd's configuration for a worker, in the form of its version; what it says is the same in each."""
    older = is_containerd_2_1(worker)
    server = "{}" if older else 'plugins."io.containerd.server.v1.{}"'
    folders = {"bin_dir": CNI_BIN} if older else {"bin_dirs": [CNI_BIN]}
    tables = [
        _CONTAINERD_BASE.format(format=3 if older else 4),
        toml(server.format("grpc"), {"address": CONTAINERD_SOCKET}),
        toml(server.format("metrics"), {"address": METRICS}),
        toml('plugins."io.containerd.cri.v1.images".pinned_images', {"sandbox": worker.machines.images["pause"][0]}),
        # Where the machine does not let it, containerd is told to lower no out-of-memory score. AppArmor confines no
        # container, as CRI-O is told.
        toml(_CRI, {"restrict_oom_score_adj": worker.restricted, "disable_apparmor": True}),
        toml(f"{_CRI}.cni", {**folders, "conf_dir": CNI_CONFIG}),
        toml(f"{_CRI}.containerd", {"default_runtime_name": next(iter(worker.handlers))}),
    ]
    for name in worker.handlers:
        values, options = HANDLERS[name].containerd(worker)
        tables.append(toml(f"{_CRI}.containerd.runtimes.{name}", values))
        if options:
            tables.append(toml(f"{_CRI}.containerd.runtimes.{name}.options", options))
    return "".join(tables)


def _start_containerd(worker: Worker) -> None:
    tools = [worker.machines.tools[part] for part in ("containerd", "gvisor") if part in worker.machines.tools]
    command = (f"{tools[0]}/containerd", "--config", CONTAINERD_CONFIG)
    # It finds shims, and the shims their programs, on the search path.
    environment = {"PATH": ":".join((*tools, PATH))}
    files = {CONTAINERD_CONFIG: configure_containerd(worker)}
    push(worker.host, {**files, **unit("containerd", command, environment, children=True)})
    start(worker.host, "containerd")
    ctr = f"{tools[0]}/ctr"
    wait_for(worker.host, "containerd", "sh", "-c", f'[ -S {CONTAINERD_SOCKET} ] && "$0" version', ctr)
    archives = [path for _, path in worker.machines.images.values()]
    script(worker.host, _CONTAINERD_IMPORT, ctr, *archives, timeout_s=120)


def configure_crio(worker: Worker) -> str:
    """Return CRI-O's configuration for a worker."""
    host, port = METRICS.split(":")
    tables = [
        toml("crio", {
            "root": STORE, "runroot": STORE_NOW, "storage_driver": "overlay", "log_dir": "/var/log/crio/pods",
            "version_file": "/run/crio/version", "version_file_persist": "", "clean_shutdown_file": "",
            **({"storage_option": options} if (options := _store_options(worker)) else {}),
        }),
        toml("crio.api", {"listen": CRIO_SOCKET}),
        toml("crio.metrics", {"enable_metrics": True, "metrics_host": host, "metrics_port": int(port)}),
        toml("crio.nri", {"enable_nri": False}),
        toml("crio.image", {
            "pause_image": worker.machines.images["pause"][0], "pause_command": "/pause",
            "signature_policy": CRIO_POLICY,
        }),
        toml("crio.network", {"network_dir": CNI_CONFIG, "plugin_dirs": [CNI_BIN]}),
        toml("crio.runtime", {
            "cgroup_manager": "cgroupfs", "conmon_cgroup": "pod", "default_runtime": next(iter(worker.handlers)),
            "pinns_path": f"{worker.machines.tools['crio']}/pinns", "namespaces_dir": "/run/crio/namespaces",
            "apparmor_profile": "unconfined", "default_capabilities": list(CAPABILITIES), "pids_limit": -1,
            "log_level": "info",  # which tells when each sandbox and container was begun and done
        }),
    ]  # fmt: skip
    for name in worker.handlers:
        values = dict(HANDLERS[name].crio(worker))
        if "runtime_type" not in values:  # CRI-O runs it itself, and no shim
            values["monitor_cgroup"] = "pod"
            if worker.restricted:
                values["runtime_path"] = CRIO_WRAPPER.format(name)
        tables.append(toml(f"crio.runtime.runtimes.{name}", values))
    return "".join(tables)


def wrappers(worker: Worker) -> dict[str, str]:
    """Return the programs that stand before low-level runtimes on a worker, by path; none where none is needed."""
    if not worker.restricted:
        return {}
    oci = [name for name in worker.handlers if "runtime_type" not in HANDLERS[name].crio(worker)]
    raised = RAISE.format(file='"$file"')
    return {CRIO_WRAPPER.format(name): _OCI_WRAPPER.format(name=name, raise_=raised) for name in oci}


def _store_options(worker: Worker) -> list[str]:
    """Return the options of the store, for all that open it.

    Kata shares a container's files with its guest from the store's folder, and its shim has a mount namespace of its
    own: a private bind mount on that folder, which the first that opens the store leaves there, hides them from it.
    """
    return ["overlay.skip_mount_home=true"] if "kata" in worker.handlers else []


def _start_crio(worker: Worker) -> None:
    command = (f"{worker.machines.tools['crio']}/crio", "--config", CRIO_CONFIG, "--config-dir", f"{HOME}/none")
    files = {
        CRIO_CONFIG: configure_crio(worker), CRIO_POLICY: '{"default": [{"type": "insecureAcceptAnything"}]}',
        **wrappers(worker), **unit("crio", command, {"PATH": PATH}, children=True),
    }  # fmt: skip
    push(worker.host, files)
    # As containers-storage names a store: DRIVER@ROOT+RUNROOT:OPTION
    store = ":".join((f"overlay@{STORE}+{STORE_NOW}", *_store_options(worker)))
    pairs = [word for name, archive in worker.machines.images.values() for word in (archive, name)]
    script(worker.host, _CRIO_IMPORT, store, *pairs, timeout_s=120)
    start(worker.host, "crio")
    wait_for(worker.host, "crio", "curl", "--silent", "--fail", "--unix-socket", CRIO_SOCKET, "http://crio/info")


CONTAINERD = Runtime("containerd", CONTAINERD_SOCKET, f"http://{METRICS}/v1/metrics", "1.3.0", _start_containerd)
CRIO = Runtime("crio", CRIO_SOCKET, f"http://{METRICS}/metrics", "1.3.0", _start_crio)
RUNTIMES = {each.name: each for each in (CONTAINERD, CRIO)}
