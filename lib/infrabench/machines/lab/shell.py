"""Commands on the machine that carries the lab, and where the lab keeps its files."""

from __future__ import annotations

import json
import math
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from infrabench.core import CommandFailed, NotRunnable, ProvisionError, Result, SiteError, locks
from infrabench.machines.hosts.host import LocalHost

# Program -> the Debian package it is in: what `require` names when one is missing.
PROGRAMS = {
    "mmdebstrap": "mmdebstrap",
    "lxc-start": "lxc",
    "ip": "iproute2",
    "ssh-keygen": "openssh-client",
    "tar": "tar",
}
# In the state folder: says that the folder is ours, and holds the label of what its lab starts.
MARKER = "infrabench-state.json"
USE = "use.lock"


def state_dir() -> Path:
    """Return the folder of images and of the lab; ``INFRABENCH_STATE`` moves it (disk: about 3 GB)."""
    return Path(os.environ.get("INFRABENCH_STATE", _default_state_dir()))


def open_state_dir() -> Path:
    """Return the state folder, marked as ours; it is made first where it is missing, for its owner alone.

    `SiteError` for a folder that has other things in it and no marker: what is removed later would be somebody's. The
    default folder bears our name and is marked whatever it has.
    """
    folder = state_dir()
    if (folder / MARKER).exists():
        return folder
    foreign = (MARKER not in path.name for path in folder.iterdir()) if folder.is_dir() else ()
    if folder != _default_state_dir() and any(foreign):
        raise SiteError(
            f"{folder} has other things in it and was not made by infrabench. Set INFRABENCH_STATE to a folder that is "
            f"empty or does not exist yet, such as {folder / 'infrabench'}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)  # images have programs that run as root whoever starts them
    whole = folder / f".{MARKER}-{secrets.token_hex(8)}"  # of this maker alone
    whole.write_text(json.dumps({"label": secrets.token_hex(2)}) + "\n")
    try:
        os.link(whole, folder / MARKER)  # the first of two makers draws the label
    except FileExistsError:
        pass
    except OSError as error:
        raise SiteError(
            f"{folder} takes no hard link: {error.strerror}. Set INFRABENCH_STATE to a folder on a local disk, not a "
            "network's"
        ) from error
    finally:
        whole.unlink()
    return folder


def lab_label() -> str:
    """Return what tells the things of this state folder's lab from those of others: four digits, drawn once.

    ``none`` where there is no state folder yet, and so nothing of ours.
    """
    try:
        return json.loads((state_dir() / MARKER).read_text())["label"]
    except FileNotFoundError:
        return "none"


def _default_state_dir() -> Path:
    return Path("/var/lib/infrabench") if os.geteuid() == 0 else Path.home() / ".local/share/infrabench"


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


def free_bytes(folder: Path) -> int:
    """Return the free bytes of the file system that has the folder, or will have it once it is made."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def require() -> None:
    """Raise `NotRunnable` with a list of what is missing for a lab on this machine."""
    missing = sorted({package for program, package in PROGRAMS.items() if not shutil.which(program)})
    if os.geteuid() != 0:
        raise NotRunnable("the lab needs root (network bridge, mounts, cgroups)")
    if missing:
        raise NotRunnable(f"the lab needs Debian packages that are not installed: apt-get install {' '.join(missing)}")


def contained(scratch: Path | None = None) -> list[str]:
    """Return a prefix that makes a long command, all its children and all its mounts end with this process.

    `scratch` is where its temporary files lie. Those of root have programs with setuid root, which nobody else may
    reach. Those of an ordinary user have none, and lie where the user's mapped ids can go.
    """
    prefix = ["setpriv", "--pdeathsig", "KILL"]
    if os.geteuid() == 0:
        prefix += ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        prefix += ["env", f"TMPDIR={scratch}"] if scratch else []
    return prefix


@contextmanager
def locked(name: str = "lock", *, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold one of the lab's locks, waiting for it: two `up` or `down` at once follow each other.

    `waiting` is called first where the wait may be long.
    """
    try:
        descriptor = _take(name, wait_s=0.0)
    except BlockingIOError:
        if waiting:
            waiting()
        descriptor = _take(name)
    try:
        yield
    finally:
        os.close(descriptor)


@contextmanager
def in_use() -> Iterator[None]:
    """Hold the lab for one user alone: two sessions at once would disturb each other. `SiteError` when it is taken."""
    try:
        descriptor = _take(USE, wait_s=0.0)
    except BlockingIOError as error:
        holder = (state_dir() / USE).read_text().strip() or "unknown"
        raise SiteError(f"the lab is in use by process {holder}. Wait for it, or stop that process") from error
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _take(name: str, wait_s: float = math.inf) -> int:
    return locks.take(state_dir() / name, wait_s=wait_s, create=True, make=open_state_dir)
