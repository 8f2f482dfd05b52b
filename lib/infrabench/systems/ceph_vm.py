"""Ceph for a virtual machine: the cluster of `ceph`, its RBD image a disk of the guest by librbd in the emulator.

The machine is emulated, by its store's node, as that of `zfs-vm`, with which this is to be compared. The cluster and
librbd run on the node itself, and are not emulated: an advantage over `zfs-vm`, whose engine is in the guest.
"""

from __future__ import annotations

from collections.abc import Mapping

from infrabench.core import Host, Site
from infrabench.machines.stores.node import ceph_vm, guest
from infrabench.machines.stores.node.config import Config
from infrabench.machines.stores.upload import FOLDER
from infrabench.systems import _block_storage


def _paths(config: Config) -> Mapping[str, tuple[str, ...]]:
    inside = ("python3", f"{FOLDER}/node/inside.py", str(guest.home(config)))
    return {"uri": (), "mount": (), "device": (ceph_vm.device(config),), "inside": inside}


def _engine(site: Site, host: Host) -> _block_storage.Engine:
    return _block_storage.Engine("ceph_vm", qualifier="client alone", paths=_paths, emulated=True)


supported, deploy = _block_storage.system("ceph-vm", _engine, guest=True)
