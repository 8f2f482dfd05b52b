"""Sets of nodes beside the lab's two, on its bridge, booted, frozen, thawed and removed together.

A cluster is a control node and one or two workers. A store is one node, which carries a storage system with its
daemons, its clients and its disks, and, where that is asked for, another one for its clients. A pair is a server and a
client that are reached as hosts of one's own are: what names them is an inventory like anybody else's, so that what is
tried on a pair works the same on real hosts.

A set has a name; that of a cluster or store is that of the system it is for. It is made from nothing every time: two
sets share the images and nothing else. `slots` tells which addresses each set has.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from infrabench.core import DesignError, Host, Machines, NotRunnable, ProvisionError
from infrabench.machines.hosts import parallel
from infrabench.machines.hosts.host import LocalHost, SSHHost
from infrabench_platforms.clusters import kata
from infrabench_platforms.clusters.pods import YCRUNCHER
from infrabench_platforms.lab import go_parts, go_tools, images, kernel_limits, nodes, pod_images
from infrabench_platforms.lab.nodes import GUEST_DIR, Node
from infrabench_platforms.lab.shell import Say, free_bytes, lab_dir, locked, state_dir

KEPT = "kept-"  # begins the names of sets that stay until the lab goes down
ROLES = ("control", "worker1", "worker2")
EVERY_ROLE = (ROLES, nodes.QUEUE, nodes.PAIR, nodes.STORE_PAIR)  # of a cluster, a Slurm cluster, a pair, a store
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


# Which sets there are


def slots() -> dict[str, int]:
    """Return the slot of every set that there is now, or that a killed lab left behind."""
    file = lab_dir() / "machines.json"
    return json.loads(file.read_text()) if file.exists() else {}


def allocate_slot(name: str) -> int:
    """Give the set `name` a slot that is free, and return it."""
    with locked("machines.lock"):
        known = slots()
        free = next((slot for slot in range(SLOTS) if slot not in known.values()), None)
        if free is None:
            raise ProvisionError(f"the lab has {SLOTS} sets of machines already. Try `infrabench lab down`")
        _write({**known, name: free})
        return free


def _write(known: Mapping[str, int]) -> None:
    part = lab_dir() / "machines.json.part"
    part.write_text(json.dumps(known))
    part.rename(lab_dir() / "machines.json")


def place_nodes(name: str, slot: int, roles: Sequence[str]) -> tuple[Node, ...]:
    """Return nodes of the set `name` with these roles, and the addresses of `slot` (0, 1, ...)."""
    first = FIRST + STEP * slot
    return tuple(Node(role, f"198.18.0.{first + number}", name) for number, role in enumerate(roles))


def all_nodes(name: str, slot: int) -> tuple[Node, ...]:
    """Return every node that a set of this name can have, whatever it is."""
    return tuple(dict.fromkeys(node for roles in EVERY_ROLE for node in place_nodes(name, slot, roles)))


def existing_nodes(prefix: str = "") -> list[Node]:
    """Return the nodes that were made, running or not, of all sets whose names begin so."""
    known = {name: slot for name, slot in slots().items() if name.startswith(prefix)}
    return [node for name, slot in known.items() for node in all_nodes(name, slot) if node.home.exists()]


def is_whole(name: str, roles: Sequence[str]) -> bool:
    """Tell whether there is a set `name` with nodes of these roles, and all of them run."""
    slot = slots().get(name)
    return slot is not None and all(map(nodes.is_running, place_nodes(name, slot, roles)))


# Booted and removed


def boot(
    name: str, roles: Sequence[str], image: images.Image, read_only: Mapping[str, Path], devices: Sequence[str] = (),
    shared: Sequence[Path] = (),
) -> Machines:  # fmt: skip
    """Boot the set `name` in the place of an earlier one; return its nodes, reachable, as machines.

    These are paused and resumed by freezing and thawing them. The folders and devices are as in `nodes.start`. Nothing
    stays when it fails.
    """
    remove(name)
    team = place_nodes(name, allocate_slot(name), roles)
    hosts: dict[str, SSHHost] = {}
    try:
        for node in team:
            nodes.start(node, image, read_only, devices, shared)
        register_hosts(team)
        hosts |= {node.role: nodes.host(node) for node in team}  # they read the known keys now
        parallel.run_all(lambda node: nodes.wait_until_ready(hosts[node.role], node), team)
    except BaseException:
        close_group(name, hosts)
        raise
    return Machines(
        hosts, {}, {}, embedded=True,
        pause=lambda: nodes.freeze(team, frozen=True), resume=lambda: nodes.freeze(team, frozen=False),
    )  # fmt: skip


def register_hosts(team: Sequence[Node]) -> None:
    """Put the nodes' host keys in the place of those that earlier nodes had at their addresses."""
    with locked("machines.lock"):
        file, addresses = lab_dir() / "ssh/known_hosts", {node.address for node in team}
        kept = [line for line in file.read_text().splitlines() if line.split()[0] not in addresses]
        file.write_text("".join(f"{line}\n" for line in kept) + "".join(nodes.host_key(node) for node in team))


def close_group(name: str, hosts: Mapping[str, Host]) -> None:
    """Close the connections to the nodes of a set, and remove it."""
    for host in hosts.values():
        host.close()
    remove(name)


def remove(name: str) -> None:
    """Remove the set `name`, running, frozen or half made; nothing when there is none."""
    known = slots()
    if name in known:
        nodes.remove(all_nodes(name, known[name]))
        with locked("machines.lock"):
            _write({other: slot for other, slot in slots().items() if other != name})


def remove_others() -> None:
    """Remove every set that a user which is gone left behind: all that are not kept."""
    for name in slots():
        if not name.startswith(KEPT):
            remove(name)


# Clusters


def make(name: str, tools: tuple[str, ...], workers: int = 2, say: Say = log.info) -> Machines:
    """Return the cluster `name`, booted and reachable; what is left of an earlier set of that name is removed first.

    `tools` are the Go tools (`go_parts.PARTS`) that its nodes need beside `TOOLS`, and `kata.PART`: the Kata of this
    machine. An older version of a part is found by the name of what it stands for. There are one or two workers. Raises
    `NotRunnable` when Kata is asked for and is not installed here.
    """
    folders, devices, known = find_local_kata() if kata.PART in tools else ({}, (), {})
    if named := os.environ.get(YCRUNCHER):
        if not (Path(named) / "y-cruncher").is_file():
            raise ProvisionError(f"{YCRUNCHER}={named}: there is no program y-cruncher in that folder")
        folders[named] = Path(named)
    built = go_tools.make(parts(tools), say)
    pods = {kind: pod_images.make(kind, say) for kind in pod_images.KINDS}
    image = images.make("cluster", say)
    folders |= {f"{TOOLS_DIR}/{part}": folder for part, folder in built.items()}
    folders |= {f"{IMAGES_DIR}/{kind}": each.tar.parent for kind, each in pods.items()}
    facts = {
        "cluster_image": image.hash,
        "builds": {go_parts.stands_for(part): folder.name for part, folder in built.items()},
        "versions": {go_parts.stands_for(part): go_parts.version(go_parts.PARTS[part]) for part in built},
        **known,
    }
    programs = {go_parts.stands_for(part): f"{TOOLS_DIR}/{part}" for part in built}
    archives = {kind: (each.tag, f"{IMAGES_DIR}/{kind}/{each.tar.name}") for kind, each in pods.items()}
    kernel_limits.load_bridge_filter(lab_dir() / "br_netfilter")
    booted = boot(name, ROLES[: 1 + workers], image, folders, devices)
    return replace(booted, tools=programs, images=archives, facts=facts)


@contextmanager
def open_group(name: str, tools: tuple[str, ...], workers: int = 2, say: Say = log.info) -> Iterator[Machines]:
    """Yield the cluster `name` (see `make`); it is removed at the end."""
    machines = make(name, tools, workers, say)
    try:
        yield machines
    finally:
        close_group(name, machines.hosts)


def parts(tools: tuple[str, ...]) -> tuple[str, ...]:
    """Return the Go tools that a cluster's nodes need for `tools`; of two versions of one, that which is named last."""
    wanted = {go_parts.stands_for(part): part for part in (*TOOLS, *tools) if part != kata.PART}
    return tuple(wanted.values())


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


# Pairs


def pair_group(name: str) -> str:
    """Return what the set of machines of the pair `name` is called; `DesignError` for what cannot be a name."""
    if not PAIR_NAME.fullmatch(name):
        raise DesignError(f"a pair of hosts cannot be called {name[:40]!r}: small letters, digits and -, at most 20")
    return f"hosts-{name}"


def pair_inventory(name: str) -> Path:
    """Return where the inventory of the pair `name` belongs."""
    return lab_dir() / f"{pair_group(name)}.yml"


def make_pair(name: str, group: str, say: Say = log.info) -> Path:
    """Make the pair `name` as the set of machines `group`, and return the file that is its inventory.

    What is left of an earlier set of that name is removed first. Nothing stays when it fails.
    """
    file = pair_inventory(name)
    image, node = images.make("guest", say), images.make("node", say)
    file.unlink(missing_ok=True)  # its presence says that the pair is whole
    machines = boot(group, nodes.PAIR, node, {GUEST_DIR: image.folder})
    for host in machines.hosts.values():
        host.close()
    addresses = {role: host.address for role, host in machines.hosts.items()}
    file.write_text(INVENTORY.format(name=name, ssh=lab_dir() / "ssh", **addresses))
    return file


# Stores


def find_store_obstacle(need_bytes: int) -> str | None:
    """Return None, or why this machine can carry no store whose files take `need_bytes`."""
    absent = [what for device, what in STORE_NEEDS.items() if not Path(device).exists()]
    if absent:
        return f"the kernel of this machine has no {' and no '.join(absent)}"
    free = free_bytes(state_dir())
    if free >= need_bytes:
        return None
    return (
        f"{state_dir()} has {free / 2**30:.1f} GiB free and the stores need {need_bytes / 2**30:.1f} GiB: free some, "
        "take a smaller profile, or set INFRABENCH_STATE to a larger disk"
    )


@contextmanager
def open_store(name: str, need_bytes: int, has_client: bool = False, say: Say = log.info) -> Iterator[Machines]:
    """Yield the set `name` of one node, ``store``; what is left of an earlier one of that name is removed first.

    With `has_client` there is a second one like it, ``client``. Files of its disks lie on this machine's own file
    system. Raises `NotRunnable`, before anything is made, where there are no loop devices, no FUSE, or less than
    `need_bytes` of free space.
    """
    if reason := find_store_obstacle(need_bytes):
        raise NotRunnable(reason)
    image = images.make("storage", say)
    roles = nodes.STORE_PAIR if has_client else (nodes.STORE,)
    machines = boot(name, roles, image, {}, STORE_DEVICES)
    try:
        yield replace(machines, facts={"storage_image": image.hash})
    finally:
        close_group(name, machines.hosts)
