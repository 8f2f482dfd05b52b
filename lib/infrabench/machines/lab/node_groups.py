"""Sets of nodes beside the lab's two, on its bridge, booted, frozen, thawed and removed together.

A cluster is a control node and one or two workers. A store is one node, which carries a storage system with its
daemons, its clients and its disks. A pair is a server and a client that are reached as hosts of one's own are: what
names them is an inventory like anybody else's, so that what is tried on a pair works the same on real hosts.

A set has a name; that of a cluster or store is that of the system it is for. It is made from nothing every time: two
sets share the images and nothing else. `slots` tells which addresses each set has.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from infrabench.core import DesignError, Machines, NotRunnable, ProvisionError
from infrabench.machines.clusters import kata
from infrabench.machines.clusters.pods import YCRUNCHER
from infrabench.machines.hosts import parallel
from infrabench.machines.hosts.host import LocalHost, SSHHost, run_checked
from infrabench.machines.lab import go_parts, go_tools, images, nodes, pod_images
from infrabench.machines.lab.nodes import GUEST_DIR, Node
from infrabench.machines.lab.shell import free_bytes, locked, state_dir
from infrabench.machines.stores.node import guest

KEPT = "kept-"  # begins the names of sets that stay until the lab goes down
ROLES = ("control", "worker1", "worker2")
FIRST, STEP, SLOTS = 21, 4, 32  # last part of the first address, addresses a set, how many sets fit
TOOLS_DIR = "/opt/infrabench"
IMAGES_DIR = "/opt/infrabench/images"
TOOLS = ("kubernetes", "etcd", "containerd", "multus")  # what every cluster needs
PAIR_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,19}")  # a part of the names of containers, as `ps` and cgroups show them
INVENTORY = """\
# Two nodes of the lab on this machine, as hosts of one's own. They go with `infrabench lab down`.
name: {name}
hosts:
  server: {{address: {server}, user: root, key: {ssh}/id_ed25519}}
  client: {{address: {client}, user: root, key: {ssh}/id_ed25519}}
known_hosts: {ssh}/known_hosts
"""
STORE_DEVICES = ("/dev/loop-control",)
STORE_NEEDS = {"/dev/fuse": "FUSE", "/dev/loop-control": "loop devices"}

log = logging.getLogger(__name__)
Say = Callable[[str], None]


def place_nodes(name: str, slot: int, roles: Sequence[str]) -> tuple[Node, ...]:
    """Return nodes of the set `name` with these roles, and the addresses of `slot` (0, 1, ...)."""
    first = FIRST + STEP * slot
    return tuple(Node(role, f"198.18.0.{first + number}", name) for number, role in enumerate(roles))


def members(name: str, slot: int, workers: int = 2) -> tuple[Node, ...]:
    """Return the nodes of the set `name` if that is a cluster."""
    return place_nodes(name, slot, ROLES[: 1 + workers])


def existing_nodes(name: str, slot: int) -> tuple[Node, ...]:
    """Return the nodes of the set `name` that were made: it may have one worker or two, or be something else."""
    return tuple(node for node in all_nodes(name, slot) if nodes.exists(node))


def all_nodes(name: str, slot: int) -> tuple[Node, ...]:
    """Return every node that a set of this name can have: a cluster, a store, a Slurm cluster, or a pair."""
    return (*members(name, slot), store(name, slot), *queue(name, slot, STEP - 1), *pair(name, slot))


def pair(name: str, slot: int) -> tuple[Node, Node]:
    """Return the server and the client of the set `name` if that is a pair of hosts."""
    server, client = place_nodes(name, slot, nodes.PAIR)
    return server, client


def queue(name: str, slot: int, size: int) -> tuple[Node, ...]:
    """Return the controller of the set `name` if that is a Slurm cluster, and as many nodes as `size` says (1 to 3)."""
    return place_nodes(name, slot, nodes.QUEUE[: 1 + size])


def store(name: str, slot: int) -> Node:
    """Return the one node of the set `name` if that is a store and no cluster."""
    return place_nodes(name, slot, (nodes.STORE,))[0]


def slots(lab: Path) -> dict[str, int]:
    """Return the slot of every set that there is now, or that a killed lab left behind."""
    file = lab / "machines.json"
    return json.loads(file.read_text()) if file.exists() else {}


def make(
    lab: Path, name: str, tools: tuple[str, ...], connect: Callable[[Node], SSHHost], say: Say, workers: int = 2
) -> Machines:  # fmt: skip
    """Return the set `name`, booted and reachable; what is left of an earlier set of that name is removed first.

    Raises `NotRunnable` when Kata is asked for and is not installed on this machine.

    Parameters
    ----------
    lab
        The folder of the running lab.
    tools
        Go tools (`go_parts.PARTS`) that the nodes need beside `TOOLS`; `kata.PART`: the Kata of this machine.
    connect
        Gives the (not yet connected) host of a node; raises nothing.
    workers
        How many workers the set has: one or two.
    """
    wanted = parts(tools)
    lent, devices, known = find_local_kata() if kata.PART in tools else ({}, (), {})
    lent |= _ycruncher()
    built = go_tools.make(wanted, say)
    pods = {kind: pod_images.make(kind, say) for kind in pod_images.KINDS}
    image = images.make("cluster", say)
    shown = lent | {f"{TOOLS_DIR}/{part}": folder for part, folder in built.items()}
    shown |= {f"{IMAGES_DIR}/{kind}": each.tar.parent for kind, each in pods.items()}
    team, hosts = boot(lab, name, lambda slot: members(name, slot, workers), image, connect, shown, devices)
    facts = {
        "cluster_image": image.hash,
        "builds": {part: folder.name for part, folder in built.items()},
        "versions": {part: version(part) for part in built},
        **known,
    }
    programs = {part: f"{TOOLS_DIR}/{part}" for part in built}
    archives = {kind: (each.tag, f"{IMAGES_DIR}/{kind}/{each.tar.name}") for kind, each in pods.items()}
    return as_machines(team, hosts, facts, programs, archives)


def as_machines(
    team: Sequence[Node], hosts: Mapping[str, SSHHost], facts: Mapping[str, Any],
    tools: Mapping[str, str], archives: Mapping[str, tuple[str, str]],
) -> Machines:  # fmt: skip
    """Return booted nodes as machines that are paused and resumed by freezing and thawing them."""
    return Machines(
        hosts, tools, archives, embedded=True, pause=lambda: nodes.freeze(team, frozen=True),
        resume=lambda: nodes.freeze(team, frozen=False), facts=facts,
    )  # fmt: skip


def boot(
    lab: Path, name: str, team_at: Callable[[int], tuple[Node, ...]], image: images.Image,
    connect: Callable[[Node], SSHHost], shown: Mapping[str, Path], devices: Sequence[str] = (),
    shared: Sequence[Path] = (),
) -> tuple[tuple[Node, ...], dict[str, SSHHost]]:  # fmt: skip
    """Boot the set `name` in the place of an earlier one; return its nodes, and their hosts by role, reachable.

    `team_at` gives the nodes that the set has in a slot; the rest is as in `nodes.start`. Nothing stays when it fails.
    """
    remove(lab, name)
    team = team_at(allocate_slot(lab, name))
    public = (lab / "ssh/id_ed25519.pub").read_text()
    hosts: dict[str, SSHHost] = {}
    try:
        for node in team:
            nodes.start(node, image, public, shown, devices, shared)
        register_hosts(lab, team)
        hosts |= {node.role: connect(node) for node in team}  # they read the known keys now
        parallel.run_all(lambda node: wait_until_ready(hosts[node.role], node), team)
    except BaseException:
        close_group(lab, name, hosts)
        raise
    return team, hosts


def close_group(lab: Path, name: str, hosts: Mapping[str, SSHHost]) -> None:
    """Close the connections to the nodes of a set, and remove it."""
    for host in hosts.values():
        host.close()
    remove(lab, name)


def parts(tools: tuple[str, ...]) -> tuple[str, ...]:
    """Return the Go tools that a set's nodes need for `tools`."""
    return tuple(part for part in dict.fromkeys((*TOOLS, *tools)) if part != kata.PART)


def find_local_kata() -> tuple[dict[str, Path], tuple[str, ...], dict[str, str]]:
    """Return what nodes are shown of this machine's Kata: folders, devices, and as a fact where they look for it.

    `NotRunnable` where there is none.
    """
    here = LocalHost()
    found = kata.find(here)
    if found is None:
        raise NotRunnable(kata.not_installed(here))
    folders = {there: Path(folder) for there, folder in kata.folders_for_node(found).items()}
    devices = tuple(device for device in kata.DEVICES if Path(device).exists())
    return folders, devices, {"kata": found.place if kata.named_folder() else ""}


def _ycruncher() -> dict[str, Path]:
    """Return where nodes see the folder of y-cruncher that the user names; nothing where none is named."""
    named = os.environ.get(YCRUNCHER)
    if named and not (Path(named) / "y-cruncher").is_file():
        raise ProvisionError(f"{YCRUNCHER}={named}: there is no program y-cruncher in that folder")
    return {named: Path(named)} if named else {}


@contextmanager
def open_group(
    lab: Path, name: str, tools: tuple[str, ...], connect: Callable[[Node], SSHHost], say: Say, workers: int = 2
) -> Iterator[Machines]:
    """Yield the set `name` (see `make`); it is removed at the end."""
    machines = make(lab, name, tools, connect, say, workers)
    try:
        yield machines
    finally:
        close_group(lab, name, machines.hosts)


def remove(lab: Path, name: str) -> None:
    """Remove the set `name`, running, frozen or half made; nothing when there is none."""
    known = slots(lab)
    if name in known:
        nodes.remove(all_nodes(name, known[name]))
        with locked("machines.lock"):
            _write(lab, {other: slot for other, slot in slots(lab).items() if other != name})


def remove_others(lab: Path) -> None:
    """Remove every set that a user which is gone left behind: all that are not kept."""
    for name in slots(lab):
        if not name.startswith(KEPT):
            remove(lab, name)


def kept_nodes(lab: Path) -> list[Node]:
    """Return the nodes of all sets that stay."""
    return [node for name, slot in slots(lab).items() if name.startswith(KEPT) for node in existing_nodes(name, slot)]


def allocate_slot(lab: Path, name: str) -> int:
    """Give the set `name` a slot that is free, and return it."""
    with locked("machines.lock"):
        known = slots(lab)
        free = next((slot for slot in range(SLOTS) if slot not in known.values()), None)
        if free is None:
            raise ProvisionError(f"the lab has {SLOTS} sets of machines already. Try `infrabench lab down`")
        _write(lab, {**known, name: free})
        return free


def _write(lab: Path, known: Mapping[str, int]) -> None:
    part = lab / "machines.json.part"
    part.write_text(json.dumps(known))
    part.rename(lab / "machines.json")


def register_hosts(lab: Path, team: tuple[Node, ...]) -> None:
    """Put the nodes' host keys in the place of those that earlier nodes had at their addresses."""
    with locked("machines.lock"):
        file, addresses = lab / "ssh/known_hosts", {node.address for node in team}
        kept = [line for line in file.read_text().splitlines() if line.split()[0] not in addresses]
        file.write_text("".join(f"{line}\n" for line in kept) + "".join(nodes.host_key(node) for node in team))


def version(part: str) -> str:
    """Return the version of the module that the part's first program comes from."""
    first = go_parts.PARTS[part].programs[0].package
    text = (go_parts.PARTS[part].folder / "go.mod").read_text()
    required = re.findall(r"^\s*(?:require\s+)?(\S+) (v\S+)(?: // indirect)?$", text, re.MULTILINE)
    (found,) = {version for module, version in required if first == module or first.startswith(f"{module}/")}
    return found


def wait_until_ready(host: SSHHost, node: Node) -> None:
    """Return when the node answers, has its routes and, if it is a server, its engines run."""
    nodes.wait_for_ssh(host, node)
    engines = [("systemctl", "start", *nodes.SERVICES)] if node.role == nodes.SERVER.role else []
    for argv in (*nodes.routes(node), *engines):
        run_checked(host, argv, timeout_s=nodes.READY_S)


def pair_group(name: str) -> str:
    """Return what the set of machines of the pair `name` is called; `DesignError` for what cannot be a name."""
    if not PAIR_NAME.fullmatch(name):
        raise DesignError(f"a pair of hosts cannot be called {name[:40]!r}: small letters, digits and -, at most 20")
    return f"hosts-{name}"


def pair_inventory(lab: Path, name: str) -> Path:
    """Return where the inventory of the pair `name` belongs."""
    return lab / f"{pair_group(name)}.yml"


def make_pair(lab: Path, name: str, of: str, connect: Callable[[Node], SSHHost], say: Say = log.info) -> Path:
    """Make the pair `name` as the set of machines `of`, and return the file that is its inventory.

    What is left of an earlier set of that name is removed first. Nothing stays when it fails.
    """
    file = pair_inventory(lab, name)
    image, node = images.make("guest", say), images.make("node", say)
    file.unlink(missing_ok=True)  # its presence says that the pair is whole
    shown = {GUEST_DIR: image.folder}
    (server, client), hosts = boot(lab, of, lambda slot: pair(of, slot), node, connect, shown)
    for host in hosts.values():
        host.close()
    file.write_text(INVENTORY.format(name=name, server=server.address, client=client.address, ssh=lab / "ssh"))
    return file


def find_store_obstacle(need_bytes: int) -> str | None:
    """Return None, or why this machine can carry no store whose files take `need_bytes`."""
    absent = [what for device, what in STORE_NEEDS.items() if not Path(device).exists()]
    if absent:
        return f"the kernel of this machine has no {' and no '.join(absent)}"
    folder = state_dir()
    free = free_bytes(folder)
    if free < need_bytes:
        return (
            f"{folder} has {free / 2**30:.1f} GiB free and the stores need {need_bytes / 2**30:.1f} GiB: free some, "
            "take a smaller profile, or set INFRABENCH_STATE to a larger disk"
        )
    return None


@contextmanager
def open_store(
    lab: Path, name: str, need_bytes: int, connect: Callable[[Node], SSHHost], say: Say, has_guest: bool = False
) -> Iterator[Machines]:  # fmt: skip
    """Yield the set `name` of one node, ``store``; what is left of an earlier one of that name is removed first.

    Its disks' files lie on this machine's own file system. Raises `NotRunnable`, before anything is made, where there
    are no loop devices, no FUSE, or less than `need_bytes` of free space. With `has_guest` the node also sees the image
    of a virtual machine, which is made first where it is not there: minutes.
    """
    if reason := find_store_obstacle(need_bytes):
        raise NotRunnable(reason)
    image = images.make("storage", say)
    vm = images.make("vm", say) if has_guest else None
    shown = {str(guest.IMAGE): vm.folder} if vm else {}
    team, hosts = boot(lab, name, lambda slot: (store(name, slot),), image, connect, shown, STORE_DEVICES)
    try:
        facts = {"storage_image": image.hash, **({"guest_image": vm.hash} if vm else {})}
        yield as_machines(team, hosts, facts, {"guest": str(guest.IMAGE)} if vm else {}, {})
    finally:
        close_group(lab, name, hosts)
