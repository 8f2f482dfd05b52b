"""A host of one's own as the node of a storage system: refused unless everything that is needed is there.

Nothing is installed, and what the store makes lies in its own folder, with our label, until it is destroyed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from infrabench.core import Host, Machines, NotRunnable, SiteError
from infrabench.machines.hosts.host import run_checked

# Program -> Debian package, of every store; what an engine needs besides it asks for itself.
PROGRAMS = {
    "fio": "fio", "nbdfuse": "libnbd-bin", "nbdinfo": "libnbd-bin", "fusermount3": "fuse3", "mkfs.ext4": "e2fsprogs",
    "mount": "mount", "sysbench": "sysbench", "mariadbd": "mariadb-server",
}  # fmt: skip
_RBD = {  # the server of an image's volume, and its driver, which qemu-utils only recommends
    "rbd": "ceph-common", "qemu-nbd": "qemu-utils", "/usr/lib/*/qemu/block-rbd.so": "qemu-block-extra",
}  # fmt: skip
PROGRAMS_OF = {
    "ceph": {
        "ceph-mon": "ceph-mon", "ceph-mgr": "ceph-mgr", "ceph-osd": "ceph-osd", "ceph": "ceph-common", **_RBD,
    },
    "raw": {"nbdkit": "nbdkit", "blockdev": "util-linux"},
}  # fmt: skip
# The same of a client on another host.
CLIENT_OF = {"ceph": _RBD}
DEVICES = {"/dev/fuse": "FUSE", "/dev/loop-control": "loop devices"}
MODULES = {"/dev/fuse": "fuse", "/dev/loop-control": "loop"}  # whose devices they are
FOLDER = "/var/lib"
CHECK_S = 30.0
# Prints what is missing: packages and devices as words of their own; then the free bytes of the folder.
_CHECK = """
folder=$1; shift
[ "$(id -u)" = 0 ] || echo root
PATH=$PATH:/usr/sbin:/sbin
for each in "$@"; do
  case $each in
    /*) ls -d ${each%%=*} >/dev/null 2>&1 || echo "$each" ;;  # a pattern, perhaps
    *) command -v "${each%%=*}" >/dev/null || echo "$each" ;;
  esac
done
df -P -B1 "$folder" | tail -n 1 | { read -r _ _ _ free _; echo "free=$free"; }
"""


@contextmanager
def store(host: Host, other: Host | None, name: str, need_bytes: int, client: bool = False) -> Iterator[Machines]:
    """Yield `host` as the node of the storage system `name`; `NotRunnable` with all that is missing there.

    With `client`, the `other` host is that of its client, which needs the same but the space.
    """
    if reason := find_obstacle(host, name, need_bytes):
        raise NotRunnable(reason)
    hosts = {"store": host}
    if client and other is not None:
        if reason := find_obstacle(other, name, 0, CLIENT_OF):
            raise NotRunnable(reason)
        hosts["client"] = other
    yield Machines(hosts, {}, {}, embedded=False)


def programs(name: str, own: Mapping[str, Mapping[str, str]] = PROGRAMS_OF) -> dict[str, str]:
    """Return the programs that a host of the storage system `name` has to have -> Debian package.

    `own`: what each system needs beside the programs of all; `CLIENT_OF` for its client.
    """
    return {**PROGRAMS, **own.get(name, {})}


def find_obstacle(
    host: Host, name: str, need_bytes: int, own: Mapping[str, Mapping[str, str]] = PROGRAMS_OF
) -> str | None:
    """Return None, or why the host cannot carry the storage system: root, devices, packages, free space.

    `own` is as in `programs`.
    """
    needed = programs(name, own)
    words = [f"{key}={value}" for key, value in {**needed, **DEVICES}.items()]
    argv = ("sh", "-c", _CHECK, "sh", FOLDER, *words)
    *absent, free = run_checked(host, argv, timeout_s=CHECK_S, error=SiteError).split()
    where = host.name
    if "root" in absent:
        return f"{where}: a storage system is made as root: take a root login"
    keys = {each.split("=")[0] for each in absent}
    if devices := [what for device, what in DEVICES.items() if device in keys]:
        return f"{where}: its kernel has no {' and no '.join(devices)}"
    if packages := sorted({package for program, package in needed.items() if program in keys}):
        return f"{where}: programs are missing: apt-get install {' '.join(packages)}"
    left = int(free.removeprefix("free="))
    if left < need_bytes:
        return f"{where}: {left / 2**30:.1f} GiB free in {FOLDER}, {need_bytes / 2**30:.1f} are needed"
    return None
