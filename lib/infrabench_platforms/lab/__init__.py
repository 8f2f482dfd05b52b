"""The embedded lab: a server and a client node on this machine, made from nothing and removed without trace."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from infrabench.core import Machines, SiteError, wait
from infrabench.machines.hosts.claims import Holder
from infrabench.machines.hosts.host import LocalHost
from infrabench_platforms import local_leftovers
from infrabench_platforms.lab import go_tools, images, kernel_limits, network, node_groups, nodes
from infrabench_platforms.lab.node_groups import KEPT, ROLES, pair_group, pair_inventory
from infrabench_platforms.lab.nodes import GUEST_DIR, NODES
from infrabench_platforms.lab.shell import Say, in_use, lab_dir, locked, remove_tree, require, sh

ANSWER_S = 20.0  # of a busy node, and of a user that is ending

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Status:
    """What there is of the lab now; `prebuild.describe` says what there is of what it is made from."""

    up: bool
    nodes: dict[str, str]  # role -> address and state, in words
    leftovers: tuple[str, ...]  # of a lab that was killed; `up` repairs, `down` removes


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
            _check_path()  # whoever has set this machine's packet filter since
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
            node_groups.remove_others()
            kept = list(filter(nodes.is_running, node_groups.existing_nodes(KEPT)))
            try:
                nodes.freeze(kept, frozen=True)  # for as long as others are measured
                yield found
            finally:
                nodes.freeze(filter(nodes.is_running, kept), frozen=False)
        finally:
            if not _kept_marker().exists():
                with locked(say=say):
                    _remove(holder, say)


@contextmanager
def keep_cluster(name: str, tools: tuple[str, ...]) -> Iterator[Machines]:
    """Yield a set of machines of the lab that stays until `down`, unless what is done with it here fails.

    What there was of that name is replaced. While a session uses the lab, kept machines are frozen.
    """
    with in_use():
        up()
        kubeconfig(name).unlink(missing_ok=True)  # its presence says that the cluster is whole
        machines = node_groups.make(KEPT + name, tools)
        try:
            yield machines
        except BaseException:
            node_groups.remove(KEPT + name)
            raise
        finally:
            for each in machines.hosts.values():
                each.close()


def find_kept_cluster(name: str) -> Path | None:
    """Return where the kubeconfig of the kept cluster `name` is; None when there is no such cluster, or not whole."""
    file = kubeconfig(name)
    return file if file.exists() and node_groups.is_whole(KEPT + name, ROLES) else None


def keep_hosts(name: str) -> tuple[Path, bool]:
    """Return the inventory of a pair of hosts that stays until `down`, and whether it was made now.

    One that stands already is left as it is. While a session uses the lab's own two nodes, kept ones are frozen.
    """
    group = KEPT + pair_group(name)
    with in_use():
        up()
        file = pair_inventory(name)
        if file.exists() and node_groups.is_whole(group, nodes.PAIR):
            return file, False
        return node_groups.make_pair(name, group), True


def kubeconfig(name: str) -> Path:
    """Return where the kubeconfig of the kept cluster `name` belongs."""
    return lab_dir() / f"{name}.kubeconfig"


def sweep() -> None:
    """Remove a lab whose user is gone without taking it down, unless it is kept; waits for a user that is ending."""

    def is_left() -> bool:
        return lab_dir().exists() and not _kept_marker().exists()

    def take_down() -> None:
        if is_left():
            with in_use(), locked():
                if is_left():
                    log.info("Taking down the lab that was left behind")
                    _remove()

    wait.retry(take_down, SiteError, ANSWER_S, pause_s=0.5)


def down() -> None:
    """Remove the running lab: processes, mounts, bridge, cgroups, routes. Cached images and node data stay.

    What a killed session on site `local` left goes too. Raises `SiteError` while a session uses the lab.
    """
    if os.geteuid() and not lab_dir().exists():
        log.info("This user has no lab")
        return
    require()
    with in_use(), locked():
        _remove()
        log.info("The lab is down")


def purge() -> None:
    """Remove the running lab and everything that it keeps on disk (images, node data, Go tools and Go's caches).

    Raises `SiteError` while a session uses the lab, or somebody makes what would go.
    """
    down()
    with in_use(), locked():
        go_tools.purge()
        images.purge()


def status() -> Status:
    """Return what there is of the lab, changing nothing."""
    prefix = nodes.container_prefix()
    alive = {
        node.container.removeprefix(prefix): f"{node.address} {'' if nodes.is_running(node) else 'not '}running"
        for node in (*NODES, *node_groups.existing_nodes())
    }
    is_up = (lab_dir() / "lab.json").exists() and all(map(nodes.is_running, NODES))
    return Status(is_up, alive, () if is_up else tuple(_leftovers()))


def facts() -> dict[str, Any]:
    """Return the facts of the running lab; `SiteError` when it is not up."""
    try:
        return json.loads((lab_dir() / "lab.json").read_text())
    except FileNotFoundError:
        raise SiteError("the lab is not up. Try `infrabench lab up`") from None


def _kept_marker() -> Path:
    return lab_dir() / "kept"


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
    for each in NODES:
        nodes.start(each, node, {GUEST_DIR: guest.folder})
    (ssh / "known_hosts").write_text("".join(map(nodes.host_key, NODES)))
    for each in NODES:
        with closing(nodes.host(each)) as machine:
            nodes.wait_until_ready(machine, each)
    _check_path()


def _check_path() -> None:
    with closing(nodes.host(nodes.CLIENT)) as client:
        network.check_path(client, nodes.SERVER.address)


def _matches(guest: images.Image, node: images.Image) -> bool:
    path = lab_dir() / "lab.json"
    return path.exists() and json.loads(path.read_text()) == _facts(guest, node) and network.is_up()


def _answers() -> bool:
    """Tell whether both nodes answer; a busy machine is given time before all that the lab carries is removed."""

    def answers(node: nodes.Node) -> bool:
        try:
            with closing(nodes.host(node)) as machine:
                return bool(machine.run(("systemctl", "is-system-running"), timeout_s=5).stdout)
        except SiteError:
            return False

    return all(nodes.is_running(node) and wait.until(partial(answers, node), ANSWER_S, pause_s=0.5) for node in NODES)


def _leftovers() -> list[str]:
    return nodes.leftovers() + ([f"bridge {network.BRIDGE}"] if network.is_up() and network.is_ours() else [])


def _remove(holder: Holder | None = None, say: Say = log.info) -> None:
    network.check_owner()  # loop devices of another folder's stores could not be told from ours
    nodes.remove_all()
    network.down()
    kernel_limits.unload_bridge_filter(lab_dir() / "br_netfilter")
    kernel_limits.restore_controllers(lab_dir() / "controllers.json")
    kernel_limits.restore_limits(lab_dir() / "limits.json")
    remove_tree(lab_dir())
    local_leftovers.remove_local(holder, say)
