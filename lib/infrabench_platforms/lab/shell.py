"""Commands on the machine that carries the lab, and where the lab keeps its files."""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from infrabench.core import CommandFailed, NotRunnable, ProvisionError, Result, SiteError, locks
from infrabench.machines.hosts.host import LocalHost
from infrabench_platforms.lab import processes

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
LABEL = re.compile(r"[0-9a-f]{4}")
MOUNTED = re.compile(r"[\w.+@/-]{1,200}")  # paths in LXC's configuration and in options of overlay, which quote nothing
USE = "use.lock"
# Lock -> what its holder does, and how long another one waits for it at most: longer than that takes where all is well.
LOCKS = {
    "lock": ("brings the lab up or down", 300.0),
    "images.lock": ("makes an image", 3600.0),
    "pods.lock": ("makes an image for pods", 600.0),
    "go.lock": ("builds Go tools", 7200.0),
    "machines.lock": ("notes which machines the lab has", 30.0),
}
SILENT_S = 2.0  # a wait of so long is not worth a word

log = logging.getLogger(__name__)
Say = Callable[[str], None]  # is told what takes long


def state_dir() -> Path:
    """Return the folder of images and of the lab; ``INFRABENCH_STATE`` moves it (disk: about 3 GB).

    Its path is absolute and without links: it is written on the lab's bridge and compared with mount points, where a
    relative one would stand for another folder by each process.
    """
    moved = os.environ.get("INFRABENCH_STATE")
    try:
        return (Path(moved).expanduser() if moved else _default_state_dir()).resolve()
    except (OSError, RuntimeError) as error:  # links in a circle; nobody's home
        raise SiteError(f"INFRABENCH_STATE={moved or ''} is no path of a folder: {error}") from error


def lab_dir() -> Path:
    """Return the folder of the running lab (keys, nodes)."""
    return state_dir() / "lab"


def open_state_dir() -> Path:
    """Return the state folder, marked as ours; it is made first where it is missing, for its owner alone.

    `SiteError` for a folder that has other things in it and no marker: what is removed later would be somebody's. The
    default folder bears our name and is marked whatever it has. So is one of another user refused, who could put
    programs into images that run as root.
    """
    folder = state_dir()
    try:
        if (folder / MARKER).exists():
            _keep_others_out(folder)
            lab_label()
            return folder
        foreign = (MARKER not in path.name for path in folder.iterdir()) if folder.is_dir() else ()
        if folder != _default_state_dir().resolve() and any(foreign):
            raise SiteError(
                f"{folder} has other things in it and was not made by infrabench. Set INFRABENCH_STATE to a folder "
                f"that is empty or does not exist yet, such as {folder / 'infrabench'}"
            )
        folder.mkdir(parents=True, exist_ok=True)
        _keep_others_out(folder)
        _mark(folder)
    except OSError as error:
        raise SiteError(
            f"{folder} cannot hold images and the lab: {error.strerror}. Set INFRABENCH_STATE to another"
        ) from error
    return folder


def _keep_others_out(folder: Path) -> None:
    """Let nobody but its owner enter the state folder: images have programs that run as root whoever starts them."""
    about = folder.stat()
    if about.st_uid != os.geteuid():
        raise SiteError(
            f"{folder} belongs to user {about.st_uid}, who could change what is run from there: set INFRABENCH_STATE "
            "to a folder of your own"
        )
    if about.st_mode & 0o077:
        folder.chmod(0o700)


def _mark(folder: Path) -> None:
    whole = folder / f".{MARKER}-{secrets.token_hex(8)}"  # of this maker alone
    with whole.open("w") as file:
        file.write(json.dumps({"label": secrets.token_hex(2)}) + "\n")
        file.flush()
        os.fsync(file.fileno())  # after a power cut an empty marker would stand for a folder of nobody's
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


def lab_label() -> str:
    """Return what tells the things of this state folder's lab from those of others: four digits, drawn once.

    ``none`` where there is no state folder yet, and so nothing of ours. `SiteError` for a marker that holds no label:
    names are made of it, and what bears them is ended.
    """
    marker = state_dir() / MARKER
    try:
        label = json.loads(marker.read_text())["label"]
        if LABEL.fullmatch(label):
            return label
    except FileNotFoundError:
        return "none"
    except (OSError, ValueError, LookupError, TypeError):
        pass
    raise SiteError(
        f"{marker} is damaged: it holds no label of a lab. Restart the machine, so that nothing of that lab runs, "
        f"remove {marker.name} and what else is in {marker.parent}, and try again"
    )


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


def explain_full_disk(needed_bytes: float, what: str) -> str | None:
    """Return None, or that the state folder's disk has not `needed_bytes` free, which `what` says the use of."""
    free = free_bytes(state_dir())
    if free >= needed_bytes:
        return None
    return (
        f"{state_dir()}: {free / 2**30:.1f} GiB free, {what} {needed_bytes / 2**30:.0f}. Free some space or set "
        "INFRABENCH_STATE to a larger disk"
    )


@contextmanager
def fill_folder(folder: Path, keep: int) -> Iterator[Path]:
    """Yield a folder to fill that is called `folder` at the end, so that this is there whole or not at all.

    It is one of a cache, KIND-HASH. What was left half filled of its kind goes before, older ones go after (`prune`).
    """
    open_state_dir()  # else it would be made with the first folder in it: open to all users, and without its marker
    kind = folder.name.rpartition("-")[0]
    for leftover in folder.parent.glob(f"{kind}-*.part"):
        remove_tree(leftover)
    part = folder.with_name(f"{folder.name}.part")
    part.mkdir(parents=True)
    part.chmod(0o755)
    yield part
    os.sync()
    part.rename(folder)
    prune(folder, keep)


def prune(newest: Path, keep: int) -> None:
    """Remove all but the newest `keep` folders of the same kind in a cache, with the data of nodes made from them.

    Those of a lab that still runs stay; half filled ones go.
    """
    kind = re.escape(newest.name.rpartition("-")[0])  # flannel, not flannel-cni
    there = [path for path in newest.parent.iterdir() if re.fullmatch(rf"{kind}-[0-9a-f]{{16}}(\.part)?", path.name)]
    whole = sorted((path for path in there if path.suffix != ".part"), key=lambda path: path.stat().st_mtime)
    mounts = Path("/proc/self/mounts").read_text()
    for old in {*there} - {*whole[-keep:]}:
        if str(old) not in mounts:
            remove_tree(old)
            remove_tree(state_dir() / "data" / old.name.rpartition("-")[2])


def missing_packages(programs: Mapping[str, str]) -> list[str]:
    """Return the Debian packages of those `programs` (program -> package) that are not on the search path here."""
    return [package for program, package in programs.items() if not shutil.which(program)]


def require() -> None:
    """Raise `NotRunnable` with a list of what is missing for a lab on this machine."""
    missing = sorted(set(missing_packages(PROGRAMS)))
    if os.geteuid() != 0:
        raise NotRunnable("the lab needs root (network bridge, mounts, cgroups)")
    if MOUNTED.fullmatch(str(state_dir())) is None:
        raise NotRunnable(
            f"the lab needs a folder whose path has letters, digits and ._+@/- alone, not {str(state_dir())!r}: it "
            "becomes options of mounts. Set INFRABENCH_STATE to another"
        )
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
def locked(name: str = "lock", *, say: Say = log.info, wait_s: float | None = None) -> Iterator[None]:
    """Hold one of the lab's locks (`LOCKS`), waiting for it: two `up` or `down` at once follow each other.

    A wait of more than a moment is told with who holds the lock. `SiteError` after `wait_s`, or what `LOCKS` says.
    """
    doing, limit_s = LOCKS[name]
    limit_s = limit_s if wait_s is None else wait_s
    try:
        descriptor = _take(name, min(SILENT_S, limit_s))
    except BlockingIOError:
        say(f"Waiting for {_holder(name)}, which {doing}: at most {limit_s:.0f} s")
        try:
            descriptor = _take(name, max(limit_s - SILENT_S, 0.0))
        except BlockingIOError as error:
            raise SiteError(
                f"{_holder(name)} {doing}, and this has to wait for its end; waited {limit_s:.0f} s. Try again later, "
                f"or stop that process (`fuser {state_dir() / name}` names all that hold the lock)"
            ) from error
    with _name_holder(descriptor):
        yield


@contextmanager
def in_use() -> Iterator[None]:
    """Hold the lab for one user alone: two sessions at once would disturb each other. `SiteError` when it is taken."""
    try:
        descriptor = _take(USE, 0.0)
    except BlockingIOError as error:
        raise SiteError(f"the lab is in use by {_holder(USE)}. Wait for it, or stop that process") from error
    with _name_holder(descriptor):
        yield


def _take(name: str, wait_s: float) -> int:
    return locks.take(state_dir() / name, wait_s=wait_s, create=True, make=open_state_dir)


@contextmanager
def _name_holder(descriptor: int) -> Iterator[None]:
    """Let the lock's file say who holds it; it is empty again, and free, at the end."""
    try:
        os.ftruncate(descriptor, 0)
        with suppress(OSError):  # a full disk: what frees it must not end here
            os.pwrite(descriptor, json.dumps(asdict(processes.this_process())).encode(), 0)
        yield
    finally:
        os.ftruncate(descriptor, 0)
        os.close(descriptor)


def _holder(name: str) -> str:
    """Return in words who holds a lock: what its file says, unless that was left by one that has ended."""
    try:
        said = processes.Process(**json.loads((state_dir() / name).read_text()))
    except (OSError, ValueError, TypeError):  # it has only just begun, or ends
        return "a process that does not say who it is"
    if processes.is_alive(said):
        return processes.describe(said)
    return f"a process that does not say who it is (the last one that did, {said.pid}, `{said.command}`, has ended)"
