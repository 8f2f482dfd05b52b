"""gVisor as a low-level runtime: its program (runsc), its shim, and what they are told.

gVisor's platform is systrap, its own default: it needs nothing of the machine. Pods' cgroups are made and limited as
those of other runtimes are.
"""

from __future__ import annotations

from collections.abc import Mapping

from infrabench.clusters.runtimes import HOME, Place, Values, toml

PART = "gvisor"
SHIM = "containerd-shim-runsc-v1"
CONFIG = f"{HOME}/runsc.toml"
USER_MAP = f"{HOME}/runsc-uid-map"
WRAPPER = f"{HOME}/{SHIM}"
NOT_BY_CRIO = "CRI-O 1.34 takes only shims that are called -v2 and answer with an address: gVisor's does neither"
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


def containerd(place: Place) -> tuple[Values, Values]:
    """Return the handler's table for containerd, and that of its options."""
    shim = {"runtime_path": WRAPPER} if place.restricted else {}
    return {"runtime_type": "io.containerd.runsc.v1", **shim}, {
        "TypeUrl": "io.containerd.runsc.v1.options", "ConfigPath": CONFIG,
    }  # fmt: skip


def files(place: Place) -> Mapping[str, str]:
    """Return what the shim reads, and on a restricted machine what stands before it."""
    own = {"platform": "systrap", "net-raw": "true"}  # pods have that right under the other runtimes
    runsc = f'binary_name = "{place.machines.tools[PART]}/runsc"\n{toml("runsc_config", own)}'
    if not place.restricted:
        return {CONFIG: runsc}
    wrapper = _WRAPPER.format(shim=f"{place.machines.tools[PART]}/{SHIM}")
    return {CONFIG: runsc, WRAPPER: wrapper, USER_MAP: "         0          0 4294967294\n"}


def lacks(place: Place) -> str | None:
    """Return None: gVisor runs on every kernel that the other runtimes run on."""
    return None


def version(place: Place) -> tuple[str, ...]:
    """Return the command that prints gVisor's version."""
    return (f"{place.machines.tools[PART]}/runsc", "--version")


def crio(place: Place) -> Values:
    """Return the handler's table for CRI-O."""
    shim = WRAPPER if place.restricted else f"{place.machines.tools[PART]}/{SHIM}"
    return {"runtime_type": "vm", "runtime_path": shim, "runtime_config_path": CONFIG, "runtime_root": "/run/vc"}
