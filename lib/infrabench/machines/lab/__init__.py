"""The embedded lab: a server and a client node on this machine, made from nothing and removed without trace."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from infrabench.core import Machines, SiteError, wait
from infrabench.machines.hosts.claims import Holder
from infrabench.machines.hosts.host import LocalHost, SSHHost
from infrabench.machines.lab import (
    go_tools,
    images,
    kernel_limits,
    network,
    node_groups,
    nodes,
    prebuild,
    slurm_cluster,
)
from infrabench.machines.lab.nodes import GUEST_DIR, NODES
from infrabench.machines.lab.shell import in_use, locked, remove_tree, require, sh, state_dir
from infrabench.machines.sites import local_leftovers

ANSWER_S = 20.0

log = logging.getLogger(__name__)
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Status:
    """What there is of the lab now."""

    up: bool
    nodes: dict[str, str]  # role -> address and state, in words
    images: dict[str, str]  # kind -> hash, and whether it is in the cache
    tools: dict[str, str]  # part of the Go tools -> the same, or why it cannot be made here
    leftovers: tuple[str, ...]  # of a lab that was killed; `up` repairs, `down` removes


def lab_dir() -> Path:
    """Return the folder of the running lab (keys, nodes)."""
    return state_dir() / "lab"


def up(say: Say = log.info, *, keep: bool = True, holder: Holder | None = None) -> dict[str, Any]:
    """Bring the lab up, or find it up already, and return its facts (see `facts`).

    Images are made once and cached by content hash. A lab that was killed half-way is removed and made again, and what
    a killed session on site `local` left is removed. `keep`: it stays up until `down`; else it lasts as long as its
    user (see `use`), who may have claimed this machine as `holder`.
    """
    require()
    network.check_owner()
    guest, node = images.make("guest", say), images.make("node", say)
    with locked(say=say):
        if _matches(guest, node) and _answers():
            if keep:
                _kept_marker().touch()
            return facts()
        _remove(holder, say)
        say("Starting the lab's nodes")
        try:
            _start(guest, node)
        except BaseException:
            _remove(holder, say)
            raise
        if keep:
            _kept_marker().touch()
        LocalHost().put(json.dumps(_facts(guest, node), indent=1).encode(), str(lab_dir() / "lab.json"))
        return facts()


@contextmanager
def use(say: Say = log.info, holder: Holder | None = None) -> Iterator[dict[str, Any]]:
    """Yield the facts of a lab that is up and nobody else's; it is taken down after unless `up` was asked to keep it.

    A lab that a killed user left behind is taken over, and taken down at the end like any other. `holder`: who has
    claimed this machine, if somebody has.
    """
    require()
    with in_use():
        try:
            found = up(say, keep=False, holder=holder)
            node_groups.remove_others(lab_dir())
            with _freeze_while(node_groups.kept_nodes(lab_dir())):
                yield found
        finally:
            if not _kept_marker().exists():
                with locked(say=say):
                    _remove(holder, say)


@contextmanager
def keep_cluster(name: str, tools: tuple[str, ...], say: Say = log.info) -> Iterator[Machines]:
    """Yield a set of machines of the lab that stays until `down`, unless what is done with it here fails.

    What there was of that name is replaced. While a session uses the lab, kept machines are frozen.
    """
    with in_use():
        up(say)
        kubeconfig(name).unlink(missing_ok=True)  # its presence says that the cluster is whole
        made = node_groups.make(lab_dir(), node_groups.KEPT + name, tools, host, say)
        try:
            yield made
        except BaseException:
            node_groups.remove(lab_dir(), node_groups.KEPT + name)
            raise
        finally:
            for each in made.hosts.values():
                each.close()


def find_kept_cluster(name: str) -> Path | None:
    """Return where the kubeconfig of the kept cluster `name` is; None when there is no such cluster, or not whole."""
    file = kubeconfig(name)
    known = node_groups.slots(lab_dir())
    if not file.exists() or node_groups.KEPT + name not in known:
        return None
    alive = all(
        nodes.is_running(node) for node in node_groups.members(node_groups.KEPT + name, known[node_groups.KEPT + name])
    )
    return file if alive else None


def keep_hosts(name: str, say: Say = log.info) -> tuple[Path, bool]:
    """Return the inventory of a pair of hosts that stays until `down`, and whether it was made now.

    One that stands already is left as it is. While a session uses the lab's own two nodes, kept ones are frozen.
    """
    of = node_groups.KEPT + node_groups.pair_group(name)
    with in_use():
        up(say)
        file, known = node_groups.pair_inventory(lab_dir(), name), node_groups.slots(lab_dir())
        if file.exists() and of in known and all(nodes.is_running(node) for node in node_groups.pair(of, known[of])):
            return file, False
        return node_groups.make_pair(lab_dir(), name, of, host, say), True


@contextmanager
def hosts(name: str, say: Say = log.info) -> Iterator[Path]:
    """Yield the inventory of a pair of hosts of the running lab; it is removed at the end."""
    try:
        yield node_groups.make_pair(lab_dir(), name, node_groups.pair_group(name), host, say)
    finally:
        node_groups.pair_inventory(lab_dir(), name).unlink(missing_ok=True)
        node_groups.remove(lab_dir(), node_groups.pair_group(name))


def kubeconfig(name: str) -> Path:
    """Return where the kubeconfig of the kept cluster `name` belongs."""
    return lab_dir() / f"{name}.kubeconfig"


def sweep(say: Say = log.info, wait_s: float = 20.0) -> None:
    """Remove a lab whose user is gone without taking it down, unless it is kept; waits for a user that is ending."""

    def is_left() -> bool:
        return lab_dir().exists() and not _kept_marker().exists()

    def take_down() -> None:
        if is_left():
            with in_use(), locked(say=say):
                if is_left():
                    say("Taking down the lab that was left behind")
                    _remove(say=say)

    wait.retry(take_down, SiteError, wait_s, pause_s=0.5)


def down(say: Say = log.info) -> None:
    """Remove the running lab: processes, mounts, bridge, cgroups, routes. Cached images and node data stay.

    What a killed session on site `local` left goes too. Raises `SiteError` while a session uses the lab.
    """
    require()
    with in_use(), locked(say=say):
        _remove(say=say)
        say("The lab is down")


def purge(say: Say = log.info) -> None:
    """Remove the running lab and everything that it keeps on disk (images, node data, Go tools and Go's caches).

    Raises `SiteError` while a session uses the lab, or somebody makes what would go.
    """
    down(say)
    with in_use(), locked(say=say):
        go_tools.purge()
        images.purge()


def status() -> Status:
    """Return what there is of the lab, changing nothing."""
    every = [
        *NODES,
        *(n for name, slot in node_groups.slots(lab_dir()).items() for n in node_groups.existing_nodes(name, slot)),
    ]
    prefix = nodes.container_prefix()
    alive = {
        node.container.removeprefix(prefix): f"{node.address} {'' if nodes.is_running(node) else 'not '}running"
        for node in every
    }
    is_up = (lab_dir() / "lab.json").exists() and all(nodes.is_running(node) for node in NODES)
    return Status(is_up, alive, prebuild.image_states(), prebuild.tool_states(), () if is_up else tuple(_leftovers()))


def machines(
    name: str, tools: tuple[str, ...], workers: int = 2, say: Say = log.info
) -> AbstractContextManager[Machines]:
    """Return a context with a set of machines of the running lab for a system called `name`."""
    return node_groups.open_group(lab_dir(), name, tools, host, say, workers)


def store(
    name: str, need_bytes: int, guest: bool = False, say: Say = log.info
) -> AbstractContextManager[Machines]:  # fmt: skip
    """Return a context with a node of the running lab that carries the storage system `name`."""
    return node_groups.open_store(lab_dir(), name, need_bytes, host, say, guest)


def slurm(size: int, shared: Sequence[Path], say: Say = log.info) -> AbstractContextManager[Machines]:
    """Return a context with a Slurm cluster of `size` nodes that see the folders `shared` (`slurm_cluster`)."""
    return slurm_cluster.open_cluster(lab_dir(), size, shared, host, say)


def facts() -> dict[str, Any]:
    """Return the facts of the running lab; `SiteError` when it is not up."""
    try:
        return json.loads((lab_dir() / "lab.json").read_text())
    except FileNotFoundError:
        raise SiteError("the lab is not up. Try `infrabench lab up`") from None


def _kept_marker() -> Path:
    return lab_dir() / "kept"


@contextmanager
def _freeze_while(kept: list[nodes.Node]) -> Iterator[None]:
    """Freeze kept machines for as long as others are measured."""
    alive = [node for node in kept if nodes.is_running(node)]
    try:
        nodes.freeze(alive, frozen=True)
        yield
    finally:
        nodes.freeze([node for node in alive if nodes.is_running(node)], frozen=False)


def host(node: nodes.Node) -> SSHHost:
    """Return the (not yet connected) host of a node."""
    name = f"{node.cluster}-{node.role}" if node.cluster else node.role
    return SSHHost(name, node.address, key=lab_dir() / "ssh/id_ed25519", known_hosts=lab_dir() / "ssh/known_hosts")


def _facts(guest: images.Image, node: images.Image) -> dict[str, Any]:
    return {
        "guest_image": {"hash": guest.hash, "tar": f"{GUEST_DIR}/rootfs.tar"},
        "node_image": {"hash": node.hash},
        "guest_network": str(network.GUESTS_NET),
        "nodes": {each.role: each.address for each in NODES},
    }


def _start(guest: images.Image, node: images.Image) -> None:
    lab_dir().mkdir(mode=0o700, parents=True)  # keys of the nodes, and of their clusters
    nodes.nodes_dir().mkdir()
    kernel_limits.remember_controllers(lab_dir() / "controllers.json")
    ssh = lab_dir() / "ssh"
    ssh.mkdir(mode=0o700)
    sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "infrabench-lab", "-f", ssh / "id_ed25519")
    network.up()
    kernel_limits.raise_limits(lab_dir() / "limits.json")
    public = (ssh / "id_ed25519.pub").read_text()
    for each in NODES:
        nodes.start(each, node, public, {GUEST_DIR: guest.folder})
    (ssh / "known_hosts").write_text("".join(nodes.host_key(each) for each in NODES))
    for each in NODES:
        with closing(host(each)) as machine:
            node_groups.wait_until_ready(machine, each)


def _matches(guest: images.Image, node: images.Image) -> bool:
    path = lab_dir() / "lab.json"
    return path.exists() and json.loads(path.read_text()) == _facts(guest, node) and network.is_up()


def _answers() -> bool:
    """Tell whether both nodes answer; a busy machine is given time before all that the lab carries is removed."""

    def answers(node: nodes.Node) -> bool:
        machine = host(node)
        try:
            return bool(machine.run(("systemctl", "is-system-running"), timeout_s=5).stdout)
        except SiteError:
            return False
        finally:
            machine.close()

    return all(nodes.is_running(node) and wait.until(partial(answers, node), ANSWER_S, pause_s=0.5) for node in NODES)


def _leftovers() -> list[str]:
    return nodes.leftovers() + ([f"bridge {network.BRIDGE}"] if network.is_up() and network.is_ours() else [])


def _remove(holder: Holder | None = None, say: Say = log.info) -> None:
    network.check_owner()  # loop devices of another folder's stores could not be told from ours
    nodes.remove_all()
    network.down()
    kernel_limits.restore_controllers(lab_dir() / "controllers.json")
    kernel_limits.restore_limits(lab_dir() / "limits.json")
    remove_tree(lab_dir())
    local_leftovers.remove(holder, say)
