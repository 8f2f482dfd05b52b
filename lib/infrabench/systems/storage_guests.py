"""Storage systems whose volume is a disk of a virtual machine, emulated by its store's node.

``ceph-vm`` is the cluster of `ceph`, its RBD image a disk of the guest by librbd in the emulator. ``zfs-vm`` is
OpenZFS's kernel module in the guest, on two virtual disks, and the zvol as a device: the cross-check of `zfs` in user
space, other code below the same pool, and a block device instead of NBD. The two are to be compared with each other.
The cluster and librbd run on the node itself, and are not emulated, while all that ZFS does is: so ZFS is handicapped,
by how much is not known.
"""

from __future__ import annotations

from infrabench.machines.stores.node import ceph_vm, zfs_vm
from infrabench.systems._block_storage import StorageSystem, make_guest_engine

_CEPH = make_guest_engine("ceph_vm", "client alone", ceph_vm.device)
_ZFS = make_guest_engine("zfs_vm", "its engine too", zfs_vm.device)
FAMILY = {
    "ceph-vm": StorageSystem("ceph-vm", lambda site, host: _CEPH, guest=True),
    "zfs-vm": StorageSystem("zfs-vm", lambda site, host: _ZFS, guest=True),
}
