"""Commands on the machine that carries the lab, and where the lab keeps its files."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from infrabench.core import CommandFailed, NotRunnable, ProvisionError, Result, SiteError
from infrabench.host import LocalHost

# Program -> the Debian package it is in: what `require` names when one is missing.
PROGRAMS = {
    "mmdebstrap": "mmdebstrap",
    "lxc-start": "lxc",
    "ip": "iproute2",
    "ssh-keygen": "openssh-client",
    "tar": "tar",
}


def state_dir() -> Path:
    """Return the folder of images and of the lab; ``INFRABENCH_STATE`` moves it (disk: about 3 GB)."""
    own = "/var/lib/infrabench" if os.geteuid() == 0 else Path.home() / ".local/share/infrabench"
    return Path(os.environ.get("INFRABENCH_STATE", own))


def sh(*argv: str | Path, timeout_s: float = 60, ok: Sequence[int] = (0,)) -> Result:
    """Return the `Result` of a local command that has to end with a status in `ok`; else `ProvisionError`."""
    result = LocalHost(environment=os.environ).run([str(arg) for arg in argv], timeout_s=timeout_s)
    if result.timed_out or result.status not in ok:
        raise ProvisionError(str(CommandFailed(result, "this machine")))
    return result


def mounts_below(folder: Path) -> list[str]:
    """Return the mount points below a folder."""
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [point for line in lines if (point := line.split()[1]).startswith(f"{folder}/")]


def remove_tree(folder: Path) -> None:
    """Remove a folder, if it is there; what is mounted below it is unmounted first and never gone into."""
    for point in reversed(mounts_below(folder)):
        sh("umount", "-l", point)
    if folder.exists():
        sh("rm", "-rf", "--one-file-system", folder, timeout_s=300)


def require() -> None:
    """Raise `NotRunnable` with a list of what is missing for a lab on this machine."""
    missing = sorted({package for program, package in PROGRAMS.items() if not shutil.which(program)})
    if os.geteuid() != 0:
        raise NotRunnable("the lab needs root (network bridge, mounts, cgroups)")
    if missing:
        raise NotRunnable(f"the lab needs Debian packages that are not installed: apt-get install {' '.join(missing)}")


def contained() -> list[str]:
    """Return a prefix that makes a long command, all its children and all its mounts end with this process."""
    prefix = ["setpriv", "--pdeathsig", "KILL"]
    if os.geteuid() == 0:
        prefix += ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    return prefix


@contextmanager
def locked(name: str = "lock", *, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold one of the lab's locks, waiting for it: two `up` or `down` at once follow each other.

    `waiting` is called first where the wait may be long.
    """
    state_dir().mkdir(parents=True, exist_ok=True)
    with open(state_dir() / name, "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting:
                waiting()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def in_use() -> Iterator[None]:
    """Hold the lab for one user alone: two sessions at once would disturb each other. `SiteError` when it is taken."""
    state_dir().mkdir(parents=True, exist_ok=True)
    with open(state_dir() / "use.lock", "a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            raise SiteError(f"the lab is in use by process {holder}. Wait for it, or stop that process") from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield
