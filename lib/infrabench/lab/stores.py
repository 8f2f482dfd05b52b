"""Stores: sets of one node, which carries a storage system with its daemons, its clients and its disks."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from infrabench.core import Machines, NotRunnable
from infrabench.host import SSHHost
from infrabench.lab import images, nodes, sets
from infrabench.lab.shell import locked, state_dir
from infrabench.stores.node import guest

DEVICES = ("/dev/loop-control",)
NEEDED = {"/dev/fuse": "FUSE", "/dev/loop-control": "loop devices"}

log = logging.getLogger(__name__)
Say = Callable[[str], None]


def refused(need_bytes: int) -> str | None:
    """Return None, or why this machine can carry no store whose files take `need_bytes`."""
    absent = [what for device, what in NEEDED.items() if not Path(device).exists()]
    if absent:
        return f"the kernel of this machine has no {' and no '.join(absent)}"
    folder = state_dir()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if free < need_bytes:
        return (
            f"{folder} has {free / 2**30:.1f} GiB free and the stores need {need_bytes / 2**30:.1f} GiB: free some, "
            "take a smaller profile, or set INFRABENCH_STATE to a larger disk"
        )
    return None


@contextmanager
def made(
    lab: Path, name: str, need_bytes: int, connect: Callable[[nodes.Node], SSHHost], say: Say, has_guest: bool = False
) -> Iterator[Machines]:  # fmt: skip
    """Yield the set `name` of one node, ``store``; what is left of an earlier one of that name is removed first.

    Its disks' files lie on this machine's own file system. Raises `NotRunnable`, before anything is made, where there
    are no loop devices, no FUSE, or less than `need_bytes` of free space. With `has_guest` the node also sees the image
    of a virtual machine, which is made first where it is not there: minutes.
    """
    if reason := refused(need_bytes):
        raise NotRunnable(reason)
    with locked():  # a maker removes what other makers have half done
        image = images.make("storage", say)
    vm = _guest(say) if has_guest else None
    sets.remove(lab, name)
    node = sets.store(name, sets.take(lab, name))
    with ExitStack() as stack:
        stack.callback(sets.remove, lab, name)
        shown = {str(guest.IMAGE): vm.folder} if vm else {}
        nodes.start(node, image, (lab / "ssh/id_ed25519.pub").read_text(), shown, DEVICES)
        sets.know(lab, (node,))
        host = connect(node)  # it reads the known keys now
        stack.callback(host.close)
        sets.ready(host, node)
        yield Machines(
            hosts={nodes.STORE: host}, tools={"guest": str(guest.IMAGE)} if vm else {}, images={}, embedded=True,
            pause=lambda: nodes.freeze((node,), frozen=True),
            resume=lambda: nodes.freeze((node,), frozen=False),
            facts={"storage_image": image.hash, **({"guest_image": vm.hash} if vm else {})},
        )  # fmt: skip


def _guest(say: Say) -> images.Image:
    with locked(images.LOCKS["vm"]):
        return images.make("vm", say)
