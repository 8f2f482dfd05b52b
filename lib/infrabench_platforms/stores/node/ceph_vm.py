"""The engine `ceph_vm`: the cluster of the engine `ceph` on the node, its image the disk of a virtual machine.

The emulator reaches the image through librbd. The mode of durability is how it opens the image, so the guest is started
anew for another mode.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import ceph, daemons, guest
from .ceph import state as state
from .ceph import used as used
from .ceph_cluster import IMAGE, POOL, daemon
from .config import Config

VOLUME = "volume"
unserve = guest.stop  # what librbd holds back is written first


def create(config: Config) -> None:
    """Make the cluster and its image, and boot the guest."""
    ceph.create(config)
    serve(config, "default")


def destroy(config: Config) -> None:
    """End the guest, then the cluster's daemons."""
    daemons.stop(config, guest.LINE, guest.NAME, wait_s=2)
    ceph.destroy(config)


def serve(config: Config, mode: str) -> None:
    """Let the guest have the image through librbd's write-back cache (``default``), or with none (``strict``)."""
    if daemons.serves(config, guest.NAME, mode):
        return
    guest.stop(config)
    guest.start(config, [guest.Drive(VOLUME, drive(config, mode))])
    config.mode.write_text(mode)


def drive(config: Config, mode: str) -> str:
    """Return the image as a drive of the emulator."""
    conf = config.home / f"client-{mode}.conf"
    image = f"rbd:{POOL}/{IMAGE}:conf={conf}:admin_socket={_admin(config)}"
    return f"file={image},format=raw,cache={ceph.CACHE[mode]},discard=unmap"


def device(config: Config) -> str:
    """Return the image's device file in the guest."""
    return guest.Drive(VOLUME, "").device


def pids(config: Config) -> dict[str, dict[str, int]]:
    """Return the cluster's daemons as the storage system; the emulator, with librbd in it, is the client."""
    return {"storage": ceph.pids(config)["storage"], "client": daemons.pids(config, (), (guest.NAME,))["client"]}


def drop(config: Config) -> None:
    """Empty the caches of the OSDs and of librbd in the emulator."""
    ceph.drop(config)
    if guest.alive(config):
        daemon(_admin(config), f"rbd cache invalidate {POOL}/{IMAGE}")


def facts(config: Config) -> dict[str, Any]:
    """Return what the cluster is, and what the guest is."""
    return {**ceph.facts(config), "guest": guest.facts(config)}


def evidence(config: Config) -> str:
    """Return what the cluster says, and the guest's console."""
    return f"{ceph.evidence(config)}\n{guest.evidence(config)}"


def _admin(config: Config) -> Path:
    return config.run / f"{guest.NAME}.asok"


VERBS = guest.verbs(serve, device)
