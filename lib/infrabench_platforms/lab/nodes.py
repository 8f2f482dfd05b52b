"""Lab nodes: privileged LXC system containers on the lab's bridge, reached over SSH like any other host.

A node's root is an overlay over the node image, thrown away with the node. Its data folders (`DATA`) lie on the host's
own file system, so that engines and disk workloads meet a real disk and not an overlay; imported images stay there
from one lab to the next.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from infrabench.core import Host, ProvisionError, SiteError, wait
from infrabench.machines.hosts.host import SSHHost, run_checked
from infrabench_platforms.containers import BOOT
from infrabench_platforms.lab import processes
from infrabench_platforms.lab.images import Image
from infrabench_platforms.lab.network import BRIDGE, GUESTS_NET, NODES_NET, RANGE
from infrabench_platforms.lab.shell import lab_dir, lab_label, mounts_below, remove_tree, sh, state_dir
from infrabench_platforms.stores.node import disks
from infrabench_platforms.stores.node.config import HOMES, StoreError, client_name

STOP_S = 20.0  # a task that waits in the kernel for a disk dies only after that
MOST_TOLD = 5  # processes that do not die
READY_S = 180.0  # an emulated or busy machine takes minutes to boot a node
FREEZE_S = 10.0
DETACH_S, PAUSE_S = 20.0, 0.3  # one that lies over another is free only after it, and processes take their time to die
LINKS = Path("/sys/class/net")
V1_DEVICES = Path(
    "/sys/fs/cgroup/devices"
)  # LXC 7 knows no cgroup v1 and refuses its keys, which older ones need there
# Folder in the node -> name below the node's data folder.
DATA = {
    "/var/lib/docker": "docker", "/var/lib/lxd": "lxd", "/var/lib/incus": "incus", "/var/lib/lxc": "lxc",
    "/var/lib/containers": "podman", "/var/tmp": "tmp",
}  # fmt: skip
# The same of a node of a cluster; what is in them does not outlive the node.
CLUSTER_DATA = {
    "/var/lib/containerd": "containerd", "/var/lib/containers": "containers", "/var/lib/kubelet": "kubelet",
    "/var/lib/etcd": "etcd", "/var/tmp": "tmp",
}  # fmt: skip
# The same of a store: backing files of its disks, and what its daemons write.
STORE = "store"
STORE_PAIR = (STORE, "client")
STORE_DATA = {str(HOMES): "store", "/var/tmp": "tmp"}
# The controller of a Slurm cluster and its nodes, whose jobs measure them as sites of their own.
QUEUE = ("queue", "node1", "node2", "node3")
PAIR = ("server", "client")
SERVICES = ("docker.service", "lxd.service", "incus.socket")  # of a server, where its release has them
_START = 'exec systemctl start $(cd /usr/lib/systemd/system && ls -d -- "$@" 2>/dev/null)'
GUEST_DIR = "/var/cache/infrabench/guest"


@dataclass(frozen=True, slots=True)
class Node:
    """A node by its role, which is also its name, and its address on the lab's bridge.

    `cluster` is the name of the set that the node belongs to (a cluster, say, or a store alone), empty for the two
    nodes that are always there; their data folders stay from one lab to the next.
    """

    role: str
    address: str
    cluster: str = ""

    @property
    def mac(self) -> str:
        # Fixed: udev in the node replaces a random one, and the host goes on sending to the old one.
        return f"02:49:42:00:01:{int(self.address.split('.')[-1]):02x}"

    @property
    def container(self) -> str:
        return container_prefix() + (f"{self.cluster}-{self.role}" if self.cluster else self.role)

    @property
    def home(self) -> Path:
        """The folder of a node that is made: its LXC configuration, its own layer of the root, its console."""
        return nodes_dir() / self.container

    @property
    def data(self) -> dict[str, str]:
        if self.role == STORE:
            return STORE_DATA
        return DATA if self.role in (*PAIR, *QUEUE) else CLUSTER_DATA


SERVER = Node("server", "198.18.0.11")
CLIENT = Node("client", "198.18.0.12")
NODES = (SERVER, CLIENT)


def container_prefix() -> str:
    """Return how the names of this lab's containers, and with them their cgroups, begin."""
    return f"infrabench-{lab_label()}-"


def nodes_dir() -> Path:
    """Return the LXC path of the running lab's nodes."""
    return lab_dir() / "nodes"


def host(node: Node) -> SSHHost:
    """Return the (not yet connected) host of a node."""
    name, ssh = f"{node.cluster}-{node.role}" if node.cluster else node.role, lab_dir() / "ssh"
    return SSHHost(name, node.address, key=ssh / "id_ed25519", known_hosts=ssh / "known_hosts")


def start(
    node: Node, image: Image, read_only: Mapping[str, Path], devices: Sequence[str] = (), shared: Sequence[Path] = ()
) -> None:
    """Make and boot a node; returns when its init has been started (see `wait_until_ready`).

    `read_only` names folders of this machine by where the node shall see them, `devices` those of its devices that the
    node shall have too, `shared` folders that it sees where they are and may write to.
    """
    upper = node.home / "upper"
    ssh = upper / "etc/ssh"
    ssh.mkdir(parents=True)
    (upper / "root/.ssh").mkdir(parents=True, mode=0o700)
    (upper / "root/.ssh/authorized_keys").write_text((lab_dir() / "ssh/id_ed25519.pub").read_text())
    os.chmod(upper / "root", 0o700)
    (upper / "etc/hostname").write_text(node.role + "\n")
    hosts = "" if node.cluster else "".join(f"{other.address} {other.role}\n" for other in NODES)
    (upper / "etc/hosts").write_text(f"127.0.0.1 localhost\n{hosts}")
    (upper / "etc/resolv.conf").write_text("")
    for path in (upper, upper / "etc", ssh, *(upper / "etc").glob("host*"), upper / "etc/resolv.conf"):
        path.chmod(0o755 if path.is_dir() else 0o644)  # whatever the umask is: this is what the node's root gets
    sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", node.role, "-f", ssh / "ssh_host_ed25519_key")
    data = node.home / "data" if node.cluster else state_dir() / "data" / image.hash / node.role
    for name in node.data.values():
        (data / name).mkdir(parents=True, exist_ok=True)
    os.chmod(data / "tmp", 0o1777)
    (node.home / "config").write_text(_config(node, image, data, read_only, ("/dev/fuse", *devices), shared))
    sh(
        "lxc-start", "-P", nodes_dir(), "-n", node.container, "-d",
        "-o", node.home / "lxc.log", "-l", "WARN", "-L", node.home / "console.log", timeout_s=30,
    )  # fmt: skip


def host_key(node: Node) -> str:
    """Return a node's known-hosts line."""
    key = (node.home / "upper/etc/ssh/ssh_host_ed25519_key.pub").read_text().split()
    return f"{node.address} {key[0]} {key[1]}\n"


def is_running(node: Node) -> bool:
    """Tell whether the node's container runs."""
    if not (node.home / "config").exists() or not shutil.which("lxc-info"):
        return False
    info = sh("lxc-info", "-P", nodes_dir(), "-n", node.container, "-sH", ok=(0, 1))
    return info.stdout.strip() == b"RUNNING"


def remove_all() -> None:
    """Stop every node that this state folder's lab ever had, by its cgroup, and remove its files."""
    _kill_cgroups(f"{container_prefix()}*")
    detach_loops()
    _unplug(list(LINKS.glob(f"ib-{lab_label()}-*")))
    _remove_pivots()
    remove_tree(nodes_dir())


def remove(nodes: Iterable[Node]) -> None:
    """Stop these nodes at once and remove their files."""
    for node in nodes:
        _kill_cgroups(node.container)
        if node.role in STORE_PAIR:
            detach_loops(node.cluster if node.role == STORE else client_name(node.cluster))
    _unplug([LINKS / _veth(node) for node in nodes])
    _remove_pivots()
    for node in nodes:
        remove_tree(node.home)


def freeze(nodes: Iterable[Node], *, frozen: bool) -> None:
    """Freeze every process of these nodes, or thaw them, and return when it is so; else `ProvisionError`."""
    deadline = time.monotonic() + FREEZE_S
    wanted = {"freezer.state": "FROZEN" if frozen else "THAWED", "cgroup.freeze": "1" if frozen else "0"}
    for node in nodes:
        for file in _freezers(node):
            file.write_text(wanted[file.name])
            while not _has_state(file, frozen):
                if time.monotonic() > deadline:
                    raise ProvisionError(f"{node.container} cannot be {'frozen' if frozen else 'thawed'}: {file}")
                time.sleep(0.005)
                file.write_text(wanted[file.name])  # v1: a task that was forked meanwhile needs another request


def leftovers() -> list[str]:
    """Return what is still there of nodes: cgroups, mounts and loop devices, by path."""
    cgroups = [str(folder) for folder in _cgroups(f"{container_prefix()}*")]
    return cgroups + mounts_below(nodes_dir()) + [str(device) for device in find_loops()]


def wait_until_ready(machine: Host, node: Node) -> None:
    """Return when the node answers, has its routes and, if it is a server, its engines run.

    Else it raises `ProvisionError`, for a node that does not answer with the end of its console.
    """
    try:
        wait.retry(lambda: machine.run(("true",), timeout_s=5), SiteError, READY_S, pause_s=0.2)
    except SiteError as error:
        console = node.home / "console.log"
        tail = console.read_text(errors="replace")[-600:] if console.exists() else "no console output"
        reason = f"node {node.role} did not answer within {READY_S:.0f} s: {error}\n{tail}"
        raise ProvisionError(reason) from error
    commands: list[tuple[str, ...]] = [("ip", "route", "replace", "unreachable", str(RANGE), "metric", "4096")]
    if node.role == SERVER.role:
        commands += [("sysctl", "-qw", "net.ipv4.ip_forward=1"), ("sh", "-c", _START, "sh", *SERVICES)]
    if node == CLIENT:  # that of a pair is given its route by who measures it, as every inventory's is
        commands += [("ip", "route", "replace", str(GUESTS_NET), "via", SERVER.address)]
    for argv in commands:
        run_checked(machine, argv, timeout_s=READY_S)


def _freezers(node: Node) -> list[Path]:
    found = [
        top / name
        for top in _cgroups(node.container)
        if ".payload." in top.name
        for name in ("freezer.state", "cgroup.freeze")
        if (top / name).exists()
    ]
    if not found:
        raise ProvisionError(f"{node.container} has no cgroup that can be frozen; is it running?")
    return found


def _has_state(file: Path, frozen: bool) -> bool:
    if file.name == "freezer.state":
        return file.read_text().strip() == ("FROZEN" if frozen else "THAWED")
    return f"frozen {int(frozen)}" in (file.parent / "cgroup.events").read_text()


def _config(
    node: Node, image: Image, data: Path, read_only: Mapping[str, Path], devices: Sequence[str], shared: Sequence[Path]
) -> str:
    mounts = [(data / name, folder, "bind,create=dir") for folder, name in node.data.items()]
    mounts += [(folder, there, "bind,ro,create=dir") for there, folder in read_only.items()]
    mounts += [(Path(device), device, "bind,create=file,optional") for device in devices]
    mounts += [(folder, str(folder), "bind,create=dir") for folder in shared]
    first = "lxc.cgroup.devices.allow = a" if V1_DEVICES.is_dir() else "# cgroup v2 alone"
    binds = "".join(
        f"lxc.mount.entry = {source} {there.lstrip('/')} none {options} 0 0\n" for source, there, options in mounts
    )
    return f"""\
lxc.include = /usr/share/lxc/config/common.conf
lxc.include = /usr/share/lxc/config/nesting.conf
lxc.uts.name = {node.role}
lxc.rootfs.path = overlay:{image.rootfs}:{node.home}/upper
lxc.cap.drop =
lxc.apparmor.profile = unconfined
lxc.init.cmd = {BOOT}
{first}
lxc.cgroup2.devices.allow = a
lxc.mount.auto = proc:rw sys:rw cgroup:rw
{binds}lxc.net.0.type = veth
lxc.net.0.link = {BRIDGE}
lxc.net.0.veth.pair = {_veth(node)}
lxc.net.0.name = eth0
lxc.net.0.hwaddr = {node.mac}
lxc.net.0.flags = up
lxc.net.0.ipv4.address = {node.address}/{NODES_NET.prefixlen}
lxc.log.level = WARN
"""


def _unplug(links: Iterable[Path]) -> None:
    """Remove this machine's ends of the nodes' links.

    A connection that a killed node had with another one that is gone too keeps its network namespace, and with it the
    link, for as long as the kernel goes on sending: minutes.
    """
    for link in links:
        if link.exists():
            sh("ip", "link", "del", link.name, ok=(0, 1))  # 1: it went by itself meanwhile


def _veth(node: Node) -> str:
    # At most 15 characters: the last part of the address tells the nodes of clusters apart.
    return f"ib-{lab_label()}-" + (f"n{node.address.split('.')[-1]}" if node.cluster else node.role)


def _cgroups(container: str) -> list[Path]:
    names = (f"lxc.payload.{container}", f"lxc.monitor.{container}")
    # LXC numbers a cgroup (-1, -2) when the name was still taken.
    return [path for top in _tops() for name in names for path in (*top.glob(name), *top.glob(f"{name}-[0-9]*"))]


def _tops() -> list[Path]:
    """Return the roots of the cgroup hierarchies (v1: one a controller; v2: one)."""
    root = Path("/sys/fs/cgroup")
    return [root, *(entry for entry in root.iterdir() if entry.is_dir() and not entry.is_symlink())]


def _kill_cgroups(container: str) -> None:
    """Kill by pid whatever lives in the cgroups of containers of that name (a glob), thaw it so that it can die."""
    deadline = time.monotonic() + STOP_S
    while (tops := _cgroups(container)) and time.monotonic() < deadline:
        for top in tops:
            folders = [Path(folder) for folder, _, _ in os.walk(top)]  # passes over what goes away meanwhile
            for folder in folders:
                with suppress(OSError):  # it went away meanwhile, here and below
                    (folder / "freezer.state").write_text("THAWED")
                for pid in map(int, _try_read(folder / "cgroup.procs").split()):
                    if pid > 0:  # 0: one that this process cannot see; to kill it would be to kill ourselves
                        with suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)
            for folder in reversed(folders):
                with suppress(OSError):  # still busy: tried again
                    folder.rmdir()
        time.sleep(0.1)
    if left := _cgroups(container):
        members = "; ".join(_describe_members(left)) or "no process is in it that this one can see"
        raise ProvisionError(f"cgroups of {container} cannot be removed after {STOP_S:.0f} s: {left[0]}: {members}")


def _describe_members(tops: Iterable[Path]) -> list[str]:
    """Return in words what processes are in these cgroups and below, at most `MOST_TOLD`."""
    every = {
        int(pid)
        for top in tops
        for folder, _, _ in os.walk(top)
        for pid in _try_read(Path(folder, "cgroup.procs")).split()
    }
    found = [processes.describe(process) for pid in sorted(every) if (process := processes.find(pid))]
    return found[:MOST_TOLD] + ([f"{len(found) - MOST_TOLD} more"] if len(found) > MOST_TOLD else [])


def _remove_pivots() -> None:
    """Remove the empty cgroups that LXC leaves behind, unless another container of this machine may use them."""
    if any(any(top.glob(f"lxc.{kind}.*")) for top in _tops() for kind in ("payload", "monitor")):
        return
    deadline = time.monotonic() + 2  # a monitor passes through its pivot cgroup on its way out
    while (left := [top / "lxc.pivot" for top in _tops() if (top / "lxc.pivot").is_dir()]) and (
        time.monotonic() < deadline
    ):
        for pivot in left:
            with suppress(OSError):
                pivot.rmdir()
        time.sleep(0.02)


def _try_read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the cgroup went away while we looked
        return ""


def detach_loops(name: str = "") -> None:
    """Detach the loop devices of the store `name`, or of all; `ProvisionError` when one stays."""
    deadline = time.monotonic() + DETACH_S
    while (left := find_loops(name)) and time.monotonic() < deadline:
        for device in left:
            try:
                disks.detach(device)
            except (StoreError, OSError):  # held by what goes away now, or gone itself
                time.sleep(PAUSE_S)
    if left:
        raise ProvisionError(f"loop devices of a store cannot be detached: {', '.join(map(str, left))}")


def find_loops(name: str = "") -> list[Path]:
    """Return the loop devices of the store `name`, or of all: the kernel keeps them when their node is gone.

    One is the lab's when it was made over a file of a store and that file, as this machine sees it, is another or none:
    a store on this machine itself has its files where the name says.
    """
    begin = f"{HOMES}/{name}/" if name else f"{HOMES}/"
    return [device for device, path, inode in disks.named_devices(begin) if not disks.is_here(path, inode)]
