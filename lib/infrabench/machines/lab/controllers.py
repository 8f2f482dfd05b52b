"""The cgroup v2 controllers that this machine's root hands down: LXC switches all of them on and leaves them so.

That changes how the whole machine shares its CPUs among slices, so the lab puts it back. With cgroup v1 there is
nothing to do.
"""

from __future__ import annotations

import errno
import json
import logging
from pathlib import Path

from infrabench.machines.hosts.host import LocalHost

ROOT = Path("/sys/fs/cgroup")

log = logging.getLogger(__name__)


def remember(file: Path, root: Path = ROOT) -> None:
    """Write to `file` which controllers are on, and which cgroups there are, before the lab's own come."""
    if (root / "cgroup.subtree_control").exists():
        known = {"on": _on(root), "cgroups": _populated(root)}
        # Whole or not at all: from half of it too much would be switched off.
        LocalHost().put(json.dumps(known).encode(), str(file))


def restore(file: Path, root: Path = ROOT) -> None:
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


def _on(root: Path) -> list[str]:
    return (root / "cgroup.subtree_control").read_text().split()


def _populated(root: Path) -> list[str]:
    events = root.glob("*/cgroup.events")
    return sorted(path.parent.name for path in events if "populated 1" in path.read_text())
