"""Low-level runtimes, which pods name as the handler of their runtime class: who takes them, and how.

gVisor's program (runsc) is called through its shim. Its platform is systrap, its own default: it needs nothing of the
machine. Pods' cgroups are made and limited as those of other runtimes are. Each container has a shim of its own, the
pod's own (pause) included; CRI-O lets that one run on until kubelet clears the pod away, up to a minute after its end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from infrabench.core import NotRunnable, ProvisionError
from infrabench.machines.clusters import kata
from infrabench.machines.clusters.runtimes import HOME, PLAIN_CONFIG, RAISE, RuntimeSetup, Values, toml

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


@dataclass(frozen=True, slots=True)
class Handler:
    """A low-level runtime, by functions of the worker that is to have it."""

    name: str
    parts: tuple[str, ...]  # what a set of machines has to have for it (see `Site.machines`)
    containerd: Callable[[RuntimeSetup], tuple[Values, Values]]  # its table for containerd, and its shim's options
    crio: Callable[[RuntimeSetup], Values]  # its table in CRI-O's configuration
    lacks: Callable[[RuntimeSetup], str | None]  # why the worker cannot run it, or None
    version: Callable[[RuntimeSetup], tuple[str, ...]]  # the command that prints its version
    # What has to lie on the worker: path -> text. What begins with ``#!`` is a program.
    files: Callable[[RuntimeSetup], Mapping[str, str]] = lambda place: {}
    refused: Mapping[str, str] = field(default_factory=dict)  # high-level runtime -> why it does not take this one


def versions(place: RuntimeSetup) -> dict[str, str]:
    """Return what each handler's program says of its version, by handler: the first line."""
    found = {}
    for name in place.handlers:
        argv = HANDLERS[name].version(place)
        result = place.host.run(argv, timeout_s=STEP_S)
        if not result.ok:
            told = result.stderr.decode("utf-8", "replace").strip()[-300:]
            raise ProvisionError(f"{place.host.name}: {' '.join(argv)} does not tell its version: {told}")
        found[name] = result.stdout.decode("utf-8", "replace").strip().partition("\n")[0]
    return found


def _find_absent(place: RuntimeSetup, name: str) -> str | None:
    """Return that a program is not on the worker's search path, and its package; None when it is."""
    there = place.host.run(("sh", "-c", 'command -v "$1"', "sh", name), timeout_s=STEP_S).ok
    return None if there else f"{name} is not installed on {place.host.name}: apt-get install {PROGRAMS[name][name]}"


def _refuse_crun(place: RuntimeSetup) -> str | None:
    """Return why crun is not there, or refuses what the high-level runtime writes: older ones know fewer versions."""
    if reason := _find_absent(place, "crun"):
        return reason
    spec, writer = place.runtime.spec, place.runtime.name
    result = place.host.run(("sh", "-s", "crun", spec), timeout_s=STEP_S, stdin=_PROBE.encode())
    version, _, told = result.stdout.decode("utf-8", "replace").strip().partition("\n")
    refuses = f"{version} refuses containers of specification {spec}, which {writer} writes: {told}"
    return refuses if "unknown version" in told else None


def _gvisor(place: RuntimeSetup, program: str) -> str:
    return f"{place.machines.tools['gvisor']}/{program}"


def _refuse_gvisor(place: RuntimeSetup) -> str | None:
    if not place.restricted or place.host.run(("sh", "-c", _CAN_SHOW), timeout_s=STEP_S).ok:
        return None
    return "the gVisor shim needs CAP_SYS_RESOURCE, which this machine does not grant"


def _gvisor_containerd(place: RuntimeSetup) -> tuple[Values, Values]:
    shim = {"runtime_path": GVISOR_WRAPPER} if place.restricted else {}
    options = {"TypeUrl": "io.containerd.runsc.v1.options", "ConfigPath": GVISOR_CONFIG}
    return {"runtime_type": "io.containerd.runsc.v1", **shim}, options


def _gvisor_files(place: RuntimeSetup) -> Mapping[str, str]:
    """Return what the shim reads, and what stands before it for CRI-O and on a restricted machine."""
    own = {"platform": "systrap", "net-raw": "true"}  # pods have that right under the other runtimes
    config = f'binary_name = "{_gvisor(place, "runsc")}"\n{toml("runsc_config", own)}'
    shim = _gvisor(place, GVISOR_SHIM)
    if not place.restricted:
        return {GVISOR_CONFIG: config, GVISOR_FOR_CRIO: _SHIM_FOR_CRIO.format(shim=shim, before="", starter=shim)}
    raised = f"{RAISE.format(file='config.json')}\n"
    return {
        GVISOR_CONFIG: config, GVISOR_WRAPPER: _SHIM_WRAPPER.format(shim=shim),
        GVISOR_USER_MAP: "         0          0 4294967294\n",
        GVISOR_FOR_CRIO: _SHIM_FOR_CRIO.format(shim=shim, before=raised, starter=GVISOR_WRAPPER),
    }  # fmt: skip


def _kata(place: RuntimeSetup) -> kata.Kata:
    if place.kata is None:
        raise NotRunnable(kata.not_installed(place.host))
    return place.kata


def _kata_containerd(place: RuntimeSetup) -> tuple[Values, Values]:
    # Without the last, a privileged pod would get the devices of the host into its guest.
    table = {
        "runtime_type": "io.containerd.kata.v2", "runtime_path": _kata(place).shim,
        "privileged_without_host_devices": True,
    }  # fmt: skip
    return table, {"ConfigPath": _kata(place).configuration}


def _crio_shim(path: str, config: str) -> dict[str, object]:
    """Return CRI-O's table of a low-level runtime that it calls through a shim."""
    return {
        "runtime_type": "vm", "runtime_path": path, "runtime_root": "/run/vc", "runtime_config_path": config,
    }  # fmt: skip


RUNC = Handler(
    "runc", (),
    containerd=lambda place: ({"runtime_type": RUNC_SHIM}, {}),
    crio=lambda place: {"runtime_root": "/run/runc"},
    lacks=lambda place: _find_absent(place, "runc"), version=lambda place: ("runc", "--version"),
)  # fmt: skip
# runc again, for pods whose network the cluster's CNI makes without Multus.
PLAIN = Handler(
    "plain", (),
    containerd=lambda place: ({"runtime_type": RUNC_SHIM, "cni_conf_dir": PLAIN_CONFIG}, {}),
    crio=RUNC.crio, lacks=RUNC.lacks, version=RUNC.version,
    refused={"crio": "CRI-O gives the pods of all handlers the same network"},
)  # fmt: skip
CRUN = Handler(
    "crun", (),
    containerd=lambda place: ({"runtime_type": RUNC_SHIM}, {"BinaryName": "crun"}),
    crio=lambda place: {"runtime_root": "/run/crun"},
    lacks=_refuse_crun, version=lambda place: ("crun", "--version"),
)  # fmt: skip
RUNSC = Handler(
    "runsc", ("gvisor",), containerd=_gvisor_containerd,
    crio=lambda place: _crio_shim(GVISOR_FOR_CRIO, GVISOR_CONFIG),
    lacks=_refuse_gvisor, version=lambda place: (_gvisor(place, "runsc"), "--version"), files=_gvisor_files,
)  # fmt: skip
KATA = Handler(
    "kata", (kata.PART,), containerd=_kata_containerd,
    crio=lambda place: {
        **_crio_shim(_kata(place).shim, _kata(place).configuration), "privileged_without_host_devices": True,
    },
    lacks=lambda place: kata.lacks(place.host, place.kata) if place.kata else kata.not_installed(place.host),
    version=lambda place: (_kata(place).shim, "--version"),
)  # fmt: skip
HANDLERS = {each.name: each for each in (RUNC, PLAIN, CRUN, RUNSC, KATA)}
