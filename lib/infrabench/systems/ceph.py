"""Ceph: a pool of two copies on two OSDs, and an RBD image in it.

The block path is that of all storage systems, NBD; fio may also speak with the cluster itself. Where the kernel of a
host of one's own has RBD, the image is a device of that kernel too.
"""

from __future__ import annotations

from collections.abc import Mapping

from infrabench.core import Host, Site
from infrabench.machines.stores import on_host
from infrabench.machines.stores.node import krbd
from infrabench.machines.stores.node.ceph_cluster import IMAGE, POOL
from infrabench.machines.stores.node.config import Config
from infrabench.systems import _block_storage

CHECK_S = 20.0
_MODULE = "PATH=$PATH:/sbin:/usr/sbin; [ -d /sys/bus/rbd ] || modprobe --dry-run --quiet rbd"


def _paths(config: Config) -> Mapping[str, tuple[str, ...]]:
    device = {"device": (str(krbd.device(config)),)} if krbd.OPTION in config.options else {}
    return {"uri-rbd": (str(config.home / "client.conf"), POOL, IMAGE), **device}


def _engine(site: Site, host: Host) -> _block_storage.Engine:
    # The lab's nodes have the kernel of this machine: a device in it would outlive a node that is killed.
    if site.kind != "lab" and host.run(("sh", "-c", _MODULE), timeout_s=CHECK_S).ok:
        return _block_storage.Engine("ceph", options={krbd.OPTION: "yes"}, paths=_paths)
    return _block_storage.Engine("ceph", paths=_paths)


_SYSTEM = _block_storage.StorageSystem("ceph", _engine)
supported, deploy = _SYSTEM.supported, _SYSTEM.deploy
NEEDS, MODULES = {"server": on_host.programs("ceph")}, on_host.MODULES
