"""Stores: sets of one node, which carries a storage system with its daemons, its clients and its disks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from infrabench.core import Machines, NotRunnable
from infrabench.machines.hosts.host import SSHHost
from infrabench.machines.lab import images, node_groups, nodes
from infrabench.machines.lab.shell import free_bytes, state_dir
from infrabench.machines.stores.node import guest

DEVICES = ("/dev/loop-control",)
NEEDED = {"/dev/fuse": "FUSE", "/dev/loop-control": "loop devices"}

Say = Callable[[str], None]


def find_obstacle(need_bytes: int) -> str | None:
    """Return None, or why this machine can carry no store whose files take `need_bytes`."""
    absent = [what for device, what in NEEDED.items() if not Path(device).exists()]
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
    lab: Path, name: str, need_bytes: int, connect: Callable[[nodes.Node], SSHHost], say: Say, has_guest: bool = False
) -> Iterator[Machines]:  # fmt: skip
    """Yield the set `name` of one node, ``store``; what is left of an earlier one of that name is removed first.

    Its disks' files lie on this machine's own file system. Raises `NotRunnable`, before anything is made, where there
    are no loop devices, no FUSE, or less than `need_bytes` of free space. With `has_guest` the node also sees the image
    of a virtual machine, which is made first where it is not there: minutes.
    """
    if reason := find_obstacle(need_bytes):
        raise NotRunnable(reason)
    image = images.make("storage", say)
    vm = images.make("vm", say) if has_guest else None
    shown = {str(guest.IMAGE): vm.folder} if vm else {}
    team, hosts = node_groups.boot(
        lab, name, lambda slot: (node_groups.store(name, slot),), image, connect, shown, DEVICES
    )
    try:
        yield Machines(
            hosts=hosts, tools={"guest": str(guest.IMAGE)} if vm else {}, images={}, embedded=True,
            pause=lambda: nodes.freeze(team, frozen=True),
            resume=lambda: nodes.freeze(team, frozen=False),
            facts={"storage_image": image.hash, **({"guest_image": vm.hash} if vm else {})},
        )  # fmt: skip
    finally:
        node_groups.close_group(lab, name, hosts)
