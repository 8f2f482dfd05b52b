"""Limits of this machine's kernel that the lab raises while it is up, and puts back: nodes share them with all else.

Nodes set nothing that the whole machine shares: `systemd-sysctl` is masked in their images.
"""

from __future__ import annotations

import json
from pathlib import Path

from infrabench.machines.hosts.host import LocalHost

ROOT = Path("/proc/sys")
# Setting -> the least that the lab works with. A systemd holds about a dozen inotify instances, all of one user, and
# the kernel's default of 128 is used up by ten nodes and guests. The number of open files is set by every systemd that
# boots, without being asked.
LEAST = {"fs/inotify/max_user_instances": 1024, "fs/file-max": 2**63 - 1}


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
