"""OpenZFS: a mirror of two disks with one zvol, by the kernel's module where there is one, else in user space.

The lab's nodes have no module of their own: there the engine is Debian's libzpool with a plugin of ours for nbdkit,
built into the image. A host of one's own without the module gets the plugin built when the system is made ready.
"""

from __future__ import annotations

from importlib import resources

from infrabench.core import Host, NotRunnable, Site
from infrabench.machines.clusters.hosts import push
from infrabench.machines.stores import on_host
from infrabench.machines.stores.node import zfs_kernel
from infrabench.machines.stores.upload import FOLDER
from infrabench.systems import _block_storage

QUALIFIER = "user space"
SOURCES = f"{FOLDER}/zvol"
PLUGIN = f"{SOURCES}/plugin.so"
CHECK_S, BUILD_S = 20.0, 120.0
_MODULE = "PATH=$PATH:/sbin:/usr/sbin; [ -d /sys/module/zfs ] || modprobe --dry-run --quiet zfs"
_MISSING = 'PATH=$PATH:/sbin:/usr/sbin; for each in "$@"; do command -v "$each" >/dev/null || echo "$each"; done'
PACKAGES = {"zpool": "zfsutils-linux", "zfs": "zfsutils-linux", "qemu-nbd": "qemu-utils"}
TO_BUILD = {
    "nbdkit": "nbdkit", "/usr/include/nbdkit-plugin.h": "nbdkit-plugin-dev", "/usr/include/libzfs": "libzfslinux-dev",
    "gcc": "gcc", "/usr/include/stdio.h": "libc6-dev",
}  # fmt: skip


def _engine(site: Site, host: Host) -> _block_storage.Engine:
    """Return the engine that the host can have; `NotRunnable`, with what is missing, where it can have none."""
    if site.kind == "lab":
        return _block_storage.Engine("zfs", QUALIFIER)
    if host.run(("sh", "-c", _MODULE), timeout_s=CHECK_S).ok:
        found = host.run(("sh", "-c", _MISSING, "sh", *PACKAGES), timeout_s=CHECK_S).stdout.decode().split()
        if found:
            raise NotRunnable(f"{host.name}: apt-get install {' '.join(sorted({PACKAGES[each] for each in found}))}")
        return _block_storage.Engine("zfs_kernel", paths=lambda config: {"device": (str(zfs_kernel.device(config)),)})
    # Built on a host that has what it takes; else the compiler says what is missing.
    sources = (resources.files("infrabench") / "machines/lab/storage/zvol").iterdir()
    push(host, {f"{SOURCES}/{each.name}": each.read_text(encoding="utf-8") for each in sources})
    built = host.run((f"{SOURCES}/build.sh", PLUGIN), timeout_s=BUILD_S)
    if not built.ok:
        host.run(("rm", "-rf", SOURCES), timeout_s=CHECK_S)
        said = built.stderr.decode("utf-8", "replace").strip()[-400:]
        raise NotRunnable(
            f"{host.name} has no ZFS module in its kernel, and the engine in user space cannot be built there; "
            f"that takes {', '.join(TO_BUILD.values())} (OpenZFS 2.1): {said}"
        )
    return _block_storage.Engine("zfs", QUALIFIER, options={"plugin": PLUGIN})


_SYSTEM = _block_storage.StorageSystem("zfs", _engine)
supported, deploy = _SYSTEM.supported, _SYSTEM.deploy
NEEDS, MODULES = {"server": {**on_host.programs("zfs"), **PACKAGES, **TO_BUILD}}, on_host.MODULES
