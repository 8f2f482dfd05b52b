"""Machines of one's own, borrowed for a cluster: programs and images are brought, and all that was made goes again.

A machine is borrowed only if nothing of it would get in the way of others: root, systemd, the Debian packages that a
node needs, and no Kubernetes, container runtime or etcd. What it was like is noted on it first (`NOTE`). By that note
the next run recognises a machine that was not given back (kill -9, power), gives it back and borrows it anew.

Programs and images stay on the machine in `STORE`, by content hash, so that they are brought once.
"""

from __future__ import annotations

import logging
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from infrabench.core import CommandFailed, Host, InfrabenchError, Machines, NotRunnable, ProvisionError
from infrabench.machines import host_cache
from infrabench.machines.hosts import parallel
from infrabench.machines.hosts.host import SSHHost, run_checked
from infrabench_platforms.clusters.control import POD_NET, SERVICE_NET
from infrabench_platforms.clusters.hosts import CNI_DEVICES, script

STORE = host_cache.FOLDER
NOTE = "/var/lib/infrabench-borrowed"
STEP_S = 120.0
CLOCKS_S = 30.0
SPARE_BYTES = 2**30  # for logs, container roots and etcd
# Program (or file) -> Debian package, of every node of a cluster.
PROGRAMS = {
    "runc": "runc", "/usr/lib/cni/bridge": "containernetworking-plugins", "iptables": "iptables",
    "conntrack": "conntrack", "socat": "socat", "ethtool": "ethtool", "curl": "curl", "ip": "iproute2",
    "sysctl": "procps", "modprobe": "kmod", "mount": "mount",
}  # fmt: skip
# The same of nodes that have a part of the tools.
PROGRAMS_OF: Mapping[str, Mapping[str, str]] = {"crio": {"conmon": "conmon", "skopeo": "skopeo"}}
# Folders that are ours while we are there: they have to be empty before, and are so after.
FOLDERS = (
    "/etc/kubernetes", "/etc/infrabench", "/etc/cni/net.d", "/etc/cni/plain.d", "/etc/containerd", "/opt/cni/bin",
    "/opt/containerd", "/run/cilium", "/run/containerd", "/run/flannel", "/usr/libexec/kubernetes", "/var/lib/cilium",
    "/var/lib/cni", "/var/lib/containerd", "/var/lib/etcd", "/var/lib/kubelet", "/var/log/containers",
    "/var/log/infrabench", "/var/log/pods",
)  # fmt: skip
FOLDERS_OF: Mapping[str, tuple[str, ...]] = {
    "crio": ("/etc/crio", "/run/containers", "/run/crio", "/run/runc", "/var/lib/containers", "/var/log/crio"),
    "gvisor": ("/run/containerd/runsc",),
    "kata": ("/run/kata", "/run/kata-containers", "/run/vc"),
}
NOT_ON = {
    "control": ("containerd", "crio", "gvisor", "pause", "tools"), "worker1": ("etcd",), "worker2": ("etcd",),
}  # fmt: skip
_BORROWED = resources.files("infrabench_platforms.clusters").joinpath("borrowed")
_CLAIM = _BORROWED.joinpath("claim.sh").read_text()
_UNPACK = _BORROWED.joinpath("unpack.sh").read_text()
_GIVE_BACK = _BORROWED.joinpath("give-back.sh").read_text()

log = logging.getLogger(__name__)
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Parcels:
    """What is brought to the machines: folders here, named by content hash, and what is in them."""

    tools: Mapping[str, Path]  # part -> folder of programs
    images: Mapping[str, tuple[str, Path]]  # kind -> name of the image, archive in a folder of its own
    versions: Mapping[str, str]  # part -> version
    own: tuple[str, ...] = ()  # parts that the machines have themselves, and that leave something behind

    def folders(self, role: str) -> dict[str, Path]:
        """Return the folders that the machine of `role` needs."""
        every = {**self.tools, **{kind: archive.parent for kind, (_, archive) in self.images.items()}}
        return {name: folder for name, folder in every.items() if name not in NOT_ON[role]}


@contextmanager
def machines(hosts: Mapping[str, SSHHost], parcels: Parcels, say: Say = log.info) -> Iterator[Machines]:
    """Yield the hosts (``control``, ``worker1`` and, if there is one, ``worker2``), borrowed until the end.

    Raises `NotRunnable` with what to do when one cannot be borrowed, `SiteError` when one does not answer.
    """

    def give_back_or_warn(host: Host) -> None:
        """Give a host back at the end: what goes wrong is told, and mended when the host is borrowed next."""
        try:
            if left := give_back(host):
                log.warning("%s is not as it was found: %s", host.name, "; ".join(left))
        except InfrabenchError as error:
            log.warning("%s was not given back: %s. The next run with it does that first", host.name, error)

    check_clocks(hosts)
    try:
        parallel.run_all(lambda host: borrow(host, (*parcels.tools, *parcels.own)), hosts.values())
        parallel.run_all(lambda role: bring(hosts[role], parcels.folders(role), say), hosts)
        yield Machines(
            hosts=hosts,
            tools={part: f"{STORE}/{folder.name}" for part, folder in parcels.tools.items()},
            images={
                kind: (tag, f"{STORE}/{archive.parent.name}/{archive.name}")
                for kind, (tag, archive) in parcels.images.items()
            },
            embedded=False,
            facts={
                "builds": {part: folder.name for part, folder in parcels.tools.items()},
                "versions": dict(parcels.versions),
            },
        )
    finally:
        parallel.run_all(give_back_or_warn, hosts.values())


def check_clocks(hosts: Mapping[str, Host]) -> None:
    """Raise `NotRunnable` when clocks of the hosts differ by more than `CLOCKS_S`, whatever this machine's own says.

    The certificates of a cluster would not be valid yet, or no more, on one of them: each component would only wait.
    """

    def read(host: Host) -> float:
        started_s = time.monotonic()
        return float(run_checked(host, ("date", "+%s.%N"), timeout_s=STEP_S)) - started_s

    ahead_s = dict(zip(hosts, parallel.run_all(read, hosts.values()), strict=True))
    first, last = (hosts[find(ahead_s, key=ahead_s.__getitem__)].name for find in (min, max))
    if (apart_s := max(ahead_s.values()) - min(ahead_s.values())) > CLOCKS_S:
        raise NotRunnable(
            f"the clock of {last} is {apart_s:.0f} s ahead of that of {first}, and certificates of a cluster are valid "
            "by the clock: set both right, by timedatectl set-ntp true, say"
        )


def programs(tools: Iterable[str]) -> dict[str, str]:
    """Return the programs (or files) that a machine with these parts of the tools has to have -> Debian package."""
    return {**PROGRAMS, **{name: deb for part in tools for name, deb in PROGRAMS_OF.get(part, {}).items()}}


def borrow(host: Host, tools: tuple[str, ...] = ()) -> None:
    """Note on `host` what it is like, and that it is ours until `give_back`; `NotRunnable` with what stands against it.

    `tools` are the parts that it shall have. A machine that an earlier run did not give back is given back first.
    """
    if left := [each for each in give_back(host) if not each.startswith("setting ")]:
        raise NotRunnable(f"{host.name} still has of an earlier run: {'; '.join(left)}. Remove it, or restart it")
    folders = (*FOLDERS, *(folder for part in tools for folder in FOLDERS_OF.get(part, ())))
    needed = [f"{program}={package}" for program, package in programs(tools).items()]
    words = (NOTE, CNI_DEVICES, f"{POD_NET} {SERVICE_NET}", *needed, "--", *folders)
    result = host.run(("sh", "-s", *words), timeout_s=STEP_S, stdin=_CLAIM.encode())
    if result.status == 3:
        raise NotRunnable(f"{host.name}: {result.stdout.decode('utf-8', 'replace').strip()}")
    if not result.ok:
        raise ProvisionError(str(CommandFailed(result, host.name)))


def give_back(host: Host) -> list[str]:
    """Remove all that a node of a cluster has made on `host`, and put its settings back; return what is left.

    Does nothing on a machine that is not borrowed.
    """
    return script(host, _GIVE_BACK, NOTE, STORE, POD_NET, CNI_DEVICES, *FOLDERS, timeout_s=STEP_S).splitlines()


def bring(host: SSHHost, folders: Mapping[str, Path], say: Say = log.info) -> None:
    """Copy to `STORE` of `host` those folders that are not there as they are here; older ones of the same name go."""
    absent = {name: each for name, each in folders.items() if not host_cache.verify_copy(host, each, each.name)}
    need = sum(file.stat().st_size for folder in absent.values() for file in folder.rglob("*") if file.is_file())
    if not absent:
        return
    argv = ("sh", "-c", 'mkdir -p "$1" && df -P -B1 "$1"', "sh", STORE)
    free, space = int(run_checked(host, argv, timeout_s=STEP_S).splitlines()[-1].split()[3]), 2 * need + SPARE_BYTES
    if free < space:
        raise NotRunnable(f"{host.name}: {free / 2**30:.1f} GiB free in {STORE}, {space / 2**30:.1f} are needed")
    say(f"Copying {', '.join(sorted(absent))} to {host.name}: {need / 1e6:.0f} MB, once")
    for name, folder in absent.items():
        with tempfile.TemporaryDirectory() as scratch:
            packed = Path(scratch) / "packed.tar"
            with tarfile.open(packed, "w") as tar:
                tar.add(folder, ".", filter=_root)
            host_cache.copy(host, packed, f"{folder.name}.tar")
        script(host, _UNPACK, STORE, name, folder.name, timeout_s=STEP_S)


def _root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    member.mode &= ~0o022  # what others may write to is not trusted when it is found again
    return member
