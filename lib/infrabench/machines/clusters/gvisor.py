"""gVisor as a low-level runtime: its program (runsc), its shim, and what they are told.

gVisor's platform is systrap, its own default: it needs nothing of the machine. Pods' cgroups are made and limited as
those of other runtimes are. Each container has a shim of its own, the pod's own (pause) included; CRI-O lets that one
run on until kubelet clears the pod away, up to a minute after its end.
"""

from __future__ import annotations

from collections.abc import Mapping

from infrabench.machines.clusters.runtimes import HOME, RAISE, RuntimeSetup, Values, toml

PART = "gvisor"
SHIM = "containerd-shim-runsc-v1"
CONFIG = f"{HOME}/runsc.toml"
USER_MAP = f"{HOME}/runsc-uid-map"
WRAPPER = f"{HOME}/{SHIM}"
FOR_CRIO = f"{HOME}/containerd-shim-runsc-v2"
# The shim gives itself an out-of-memory score of -999 and fails where root may not do that, unless it is in a user
# namespace, where root is known to have fewer rights. So that one process is shown the user map of such a namespace;
# it makes the shim that stays, whose own map is as it is.
_WRAPPER = f"""\
#!/bin/sh
# Written by infrabench: gVisor's shim on a machine where out-of-memory scores cannot be lowered.
for verb in "$@"; do :; done
[ "$verb" = start ] || exec {{shim}} "$@"
exec unshare --mount --propagation unchanged sh -c '
  mount --make-private /proc && mount --bind {USER_MAP} /proc/$$/uid_map && exec "$@"
' sh {{shim}} "$@"
"""
_CAN_SHOW = """
unshare --mount sh -c '
  mount --make-private /proc && mount --bind /dev/null /proc/$$/uid_map && ! grep -q . /proc/$$/uid_map
'
"""
# CRI-O takes shims that are called ...-v2 and print their address; gVisor's is a -v1 that prints a document with it in.
# Nothing else of what the two say to each other differs.
_FOR_CRIO = """\
#!/bin/sh
# Written by infrabench: gVisor's shim as CRI-O asks for it.
for verb in "$@"; do :; done
[ "$verb" = start ] || exec {shim} "$@"
{before}said=$({starter} "$@") || {{ echo "$said"; exit 1; }}
echo "$said" | sed -n 's/.*"address": *"\\([^"]*\\)".*/\\1/p'
"""


def containerd(place: RuntimeSetup) -> tuple[Values, Values]:
    """Return the handler's table for containerd, and that of its options."""
    shim = {"runtime_path": WRAPPER} if place.restricted else {}
    return {"runtime_type": "io.containerd.runsc.v1", **shim}, {
        "TypeUrl": "io.containerd.runsc.v1.options", "ConfigPath": CONFIG,
    }  # fmt: skip


def files(place: RuntimeSetup) -> Mapping[str, str]:
    """Return what the shim reads, and what stands before it for CRI-O and on a restricted machine."""
    own = {"platform": "systrap", "net-raw": "true"}  # pods have that right under the other runtimes
    runsc = f'binary_name = "{place.machines.tools[PART]}/runsc"\n{toml("runsc_config", own)}'
    shim = f"{place.machines.tools[PART]}/{SHIM}"
    if not place.restricted:
        return {CONFIG: runsc, FOR_CRIO: _FOR_CRIO.format(shim=shim, before="", starter=shim)}
    return {
        CONFIG: runsc, WRAPPER: _WRAPPER.format(shim=shim), USER_MAP: "         0          0 4294967294\n",
        FOR_CRIO: _FOR_CRIO.format(shim=shim, before=f"{RAISE.format(file='config.json')}\n", starter=WRAPPER),
    }  # fmt: skip


def lacks(place: RuntimeSetup) -> str | None:
    """Return why gVisor's shim cannot start on the worker, or None."""
    if not place.restricted or place.host.run(("sh", "-c", _CAN_SHOW), timeout_s=20).ok:
        return None
    return "the gVisor shim needs CAP_SYS_RESOURCE, which this machine does not grant"


def version(place: RuntimeSetup) -> tuple[str, ...]:
    """Return the command that prints gVisor's version."""
    return (f"{place.machines.tools[PART]}/runsc", "--version")


def crio(place: RuntimeSetup) -> Values:
    """Return the handler's table for CRI-O."""
    return {
        "runtime_type": "vm", "runtime_path": FOR_CRIO, "runtime_root": "/run/vc", "runtime_config_path": CONFIG,
    }  # fmt: skip
