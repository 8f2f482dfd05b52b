"""ZFS in a virtual machine: OpenZFS's kernel module there, on two virtual disks, and the zvol as a device.

The machine is emulated, by its store's node. It is the cross-check of `zfs` in user space: other code below the same
pool, and a block device instead of NBD; compare it with `ceph-vm`, which is used from within the same guest. Here all
that ZFS does is emulated; there the cluster is not. So ZFS is handicapped, by how much is not known.
"""

from __future__ import annotations

from collections.abc import Mapping

from infrabench.core import Host, Site
from infrabench.machines.stores.node import guest, zfs_vm
from infrabench.machines.stores.node.config import Config
from infrabench.machines.stores.upload import FOLDER
from infrabench.systems import _block_storage


def _paths(config: Config) -> Mapping[str, tuple[str, ...]]:
    inside = ("python3", f"{FOLDER}/node/inside.py", str(guest.home(config)))
    return {"uri": (), "mount": (), "device": (zfs_vm.device(config),), "inside": inside}


def _engine(site: Site, host: Host) -> _block_storage.Engine:
    return _block_storage.Engine("zfs_vm", qualifier="its engine too", paths=_paths, emulated=True)


supported, deploy = _block_storage.system("zfs-vm", _engine, guest=True)
