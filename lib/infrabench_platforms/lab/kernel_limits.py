"""What the lab changes in this machine's kernel while it is up, and puts back: limits, controllers, one module.

Nodes share the limits with all else, so the lab raises them; nodes set nothing that the whole machine shares
(`systemd-sysctl` is masked in their images). Of the cgroup v2 controllers LXC switches on all that the machine's root
can hand down, and leaves them so, which changes how the whole machine shares its CPUs among slices. With cgroup v1
there is nothing to do about those. Clusters need the module `br_netfilter`, which hands packets of bridges to iptables,
and which no program makes the kernel load by itself.
"""

from __future__ import annotations

import errno
import json
import logging
from pathlib import Path

from infrabench.core import NotRunnable, ProvisionError
from infrabench.machines.hosts.host import LocalHost
from infrabench_platforms.lab.shell import sh

ROOT = Path("/proc/sys")
# Setting -> the least that the lab works with. A systemd holds about a dozen inotify instances, all of one user, and
# the kernel's default of 128 is used up by ten nodes and guests. The number of open files is set by every systemd that
# boots, without being asked.
LEAST = {"fs/inotify/max_user_instances": 1024, "fs/file-max": 2**63 - 1}
CGROUPS = Path("/sys/fs/cgroup")
BRIDGE_FILTER = Path("net/bridge")  # the settings that `br_netfilter` brings

log = logging.getLogger(__name__)


def raise_limits(file: Path, root: Path = ROOT) -> None:
    """Raise what is below `LEAST`, after writing to `file` what it was."""
    known = {name: int((root / name).read_text()) for name in LEAST}
    low = {name: value for name, value in known.items() if value < LEAST[name]}
    LocalHost().put(json.dumps(low).encode(), str(file))
    for name in low:
        (root / name).write_text(f"{LEAST[name]}\n")


def restore_limits(file: Path, root: Path = ROOT) -> None:
    """Put back what was raised when `file` was written, unless somebody has set it meanwhile."""
    for name, value in json.loads(file.read_text()).items() if file.exists() else ():
        if int((root / name).read_text()) == LEAST[name]:
            (root / name).write_text(f"{value}\n")


def remember_controllers(file: Path, root: Path = CGROUPS) -> None:
    """Write to `file` which controllers are on, and which cgroups there are, before the lab's own come."""
    if (root / "cgroup.subtree_control").exists():
        known = {"on": _on(root), "cgroups": _populated(root)}
        # Whole or not at all: from half of it too much would be switched off.
        LocalHost().put(json.dumps(known).encode(), str(file))


def restore_controllers(file: Path, root: Path = CGROUPS) -> None:
    """Switch off what was not on when `file` was written, unless cgroups that came since may rely on it."""
    if not file.exists():
        return
    known = json.loads(file.read_text())
    added = sorted(set(_on(root)) - set(known["on"]))
    if added and (newcomers := sorted(set(_populated(root)) - set(known["cgroups"]))):
        log.warning("cgroup controllers %s stay on: %s came while the lab was up", added, newcomers)
        return
    for controller in added:
        try:
            (root / "cgroup.subtree_control").write_text(f"-{controller}")
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            log.info("cgroup controller %s stays on: others use it by now", controller)


def load_bridge_filter(file: Path, root: Path = ROOT) -> None:
    """Load `br_netfilter` where it is missing, after noting in `file` that it was; `NotRunnable` where there is none.

    This machine's own bridges stay as they were: what the module switches on for them is switched off at once. Nodes
    have settings of their own.
    """
    if (root / BRIDGE_FILTER).exists():
        return
    file.touch()
    try:
        sh("modprobe", "br_netfilter")
    except ProvisionError as error:
        file.unlink()  # nothing to unload, and perhaps no program that would
        raise NotRunnable(
            f"this machine's kernel has not the module br_netfilter, without which no network of Kubernetes works: "
            f"{error}. Install the kernel's whole package of modules"
        ) from error
    for setting in (root / BRIDGE_FILTER).glob("bridge-nf-call-*"):
        setting.write_text("0\n")


def unload_bridge_filter(file: Path) -> None:
    """Unload `br_netfilter` if `file` notes that it was missing; it stays where others use it by now."""
    if file.exists():
        sh("modprobe", "--quiet", "--remove", "br_netfilter", ok=(0, 1))
        file.unlink()


def _on(root: Path) -> list[str]:
    return (root / "cgroup.subtree_control").read_text().split()


def _populated(root: Path) -> list[str]:
    events = root.glob("*/cgroup.events")
    return sorted(path.parent.name for path in events if "populated 1" in path.read_text())
