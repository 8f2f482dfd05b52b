"""Storage systems: a node of its own, two disks on it, a pool with two copies, and a volume that is reached over NBD.

What all do alike: the program that `stores` brings does all that happens on the node; a system is its engine. All get
disks of one size and one memory limit for all processes together, Ceph and ZFS one amount of cache.

* ``ceph``: a pool of two copies on two OSDs, and an RBD image in it. fio may also speak with the cluster itself. Where
  the kernel of a host of one's own has RBD, the image is a device of that kernel too.
* ``zfs``: OpenZFS, a mirror with one zvol, by the kernel's module where there is one, else in user space. The lab's
  nodes have no module of their own: there the engine is Debian's libzpool with a plugin of ours for nbdkit, built into
  the image. A host of one's own without the module gets the plugin built when the system is made ready.
* ``raw``: one disk without a storage system, served over NBD as the others are: what they cost is seen beside it. It
  has no second copy, and so no rebuild.

Where a case of the session asks for ``two-nodes``, there is a second node, for the client (see `stores.link`). What
crosses the network is the system's own protocol: Ceph's, or NBD.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from infrabench.core import Deployment, DeploySpec, Host, InfrabenchError, Machines, NotRunnable, Site, Target, wait
from infrabench_platforms.clusters.hosts import counters, push
from infrabench_platforms.stores import link, on_host, upload
from infrabench_platforms.stores.node import krbd, zfs, zfs_kernel
from infrabench_platforms.stores.node.ceph_cluster import IMAGE, POOL
from infrabench_platforms.stores.node.config import Config
from infrabench_platforms.stores.node.main import WATCH

CREATE_S = 180.0
THAW_S = 30.0  # for a pool that was frozen to be whole again, before it is made anew
POLL_S = 0.2
CHECK_S, BUILD_S = 20.0, 120.0
OWN = "a node of its own: daemons, disks and clients"
USER_SPACE = "user space"  # where OpenZFS runs
SOURCES = f"{upload.FOLDER}/zvol"
PLUGIN = f"{SOURCES}/plugin.so"
PACKAGES = {"zpool": "zfsutils-linux", "zfs": "zfsutils-linux", "qemu-nbd": "qemu-utils"}
TO_BUILD = {
    "nbdkit": "nbdkit", "/usr/include/nbdkit-plugin.h": "nbdkit-plugin-dev", "/usr/include/libzfs": "libzfslinux-dev",
    "gcc": "gcc", "/usr/include/stdio.h": "libc6-dev",
}  # fmt: skip
_RBD = "PATH=$PATH:/sbin:/usr/sbin; [ -d /sys/bus/rbd ] || modprobe --dry-run --quiet rbd"
_ZFS = "PATH=$PATH:/sbin:/usr/sbin; [ -d /sys/module/zfs ] || modprobe --dry-run --quiet zfs"
_MISSING = 'PATH=$PATH:/sbin:/usr/sbin; for each in "$@"; do command -v "$each" >/dev/null || echo "$each"; done'
Paths = Callable[[Config], Mapping[str, tuple[str, ...]]]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Engine:
    """What makes the pool, what it is told, and how its system must be called."""

    module: str  # of `stores.node`
    qualifier: str = ""  # what a reader has to know of this engine, next to its name
    options: Mapping[str, str] = field(default_factory=dict)
    paths: Paths = lambda config: {}  # ways to the volume of its own, beside NBD (see `Target.lifecycle`)


@dataclass(frozen=True, slots=True)
class StorageSystem:
    """A storage system."""

    name: str
    pick: Callable[[Site, Host], Engine]  # chooses its engine by what its host has
    NEEDS: Mapping[str, Mapping[str, str]]  # as a module of a system has it
    MODULES: Mapping[str, str] = field(default_factory=lambda: on_host.MODULES)

    def supported(self, site: Site) -> str | None:
        """Return None, or why the site has no place for it."""
        if site.kind == "kubeconfig":
            return "a storage system needs a host of its own: take site lab or an inventory"
        if site.kind == "local":
            return on_host.find_obstacle(site.hosts["server"], self.name, 0)
        return None

    @contextmanager
    def deploy(self, site: Site, spec: DeploySpec) -> Iterator[Deployment]:
        """Yield a pool on a node of its own; all of it is removed at the end.

        Raises `NotRunnable`, before anything is made, where the space is short for all stores that are still to come.
        """
        need = upload.need_bytes(spec.disk_bytes, 2, spec.to_make)
        with site.store(self.name, need, spec.two_nodes) as machines, ExitStack() as stack:
            host = machines.hosts["store"]
            engine = self.pick(site, host)
            config = upload.config(self.name, engine.module, spec.disk_bytes, spec.limits.memory_bytes, engine.options)
            way = link.find_link(machines)
            config, listener, client = link.place(config, way)
            if not machines.embedded:  # a node of the lab goes away whole
                stack.callback(upload.take_away, host, config, listener)
            upload.bring(host, config, listener)
            if not machines.embedded:
                stack.callback(upload.ask, host, config, "destroy")
            upload.ask(host, config, "create", timeout_s=CREATE_S)
            store_facts = upload.ask(host, config, "facts")
            lifecycle = {
                "store": upload.command(config), "mount": (str(config.mount),), "uri": (config.uri,),
                "copies": (str(store_facts["pool"].get("copies", config.copies)),), **engine.paths(config),
                **({"store-listens": upload.command(listener)} if way else {}),
            }  # fmt: skip
            used = counters(host) if machines.embedded else ()
            devices = {"uplink": way.devices["store"]} if way else {}
            targets = {"server": Target(
                "server", host, address=host.address, lifecycle=lifecycle, devices=devices, counters=used
            )}  # fmt: skip
            names = list(on_host.programs(self.name))
            if engine.module == "zfs":
                names += [zfs.SERVER, engine.options.get("plugin", zfs.PLUGIN), "/usr/lib/*/libzpool.so.?"]
            programs, ends = [(host, names)], [(host, config)]
            if way is not None and client is not None:
                there = machines.hosts["client"]
                ends.insert(0, (there, client))  # it gives space back to a store that still answers
                stack.enter_context(_client(there, client, machines.embedded))
                targets["client"] = _client_target(there, client, way)
                programs.append((there, list(on_host.programs(self.name, on_host.CLIENT_OF))))
            facts = _facts(spec, machines, engine, store_facts, way)
            deployment = Deployment(self.name, targets, facts, programs=programs)
            deployment.pause, deployment.resume = _switches(ends, machines)
            yield deployment


@contextmanager
def _client(host: Host, config: Config, embedded: bool) -> Iterator[None]:
    """Make the client of a store ready on a node of its own; all of it is removed at the end."""
    with ExitStack() as stack:
        if not embedded:
            stack.callback(upload.take_away, host, config)
        upload.bring(host, config)
        if not embedded:
            stack.callback(upload.ask, host, config, "destroy")
        upload.ask(host, config, "create")
        yield


def _client_target(host: Host, config: Config, way: link.ClientLink) -> Target:
    own = {
        "store": upload.command(config), "watch": (*upload.command(config), WATCH), "mount": (str(config.mount),),
        "uri": (config.uri,),
        **({} if config.listens else {"uri-rbd": (str(config.home / "client.conf"), POOL, IMAGE)}),
    }  # fmt: skip
    return Target("client", host, address=host.address, lifecycle=own, devices={"uplink": way.devices["client"]})


def _switches(ends: Sequence[tuple[Host, Config]], machines: Machines) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return what pauses the store (the last of `ends`) and its client while another is measured, and what resumes."""
    host, config = ends[-1]

    def is_clean() -> bool:
        try:
            return bool(upload.ask(host, config, "state")["clean"])
        except InfrabenchError as error:
            log.debug("%s", error)
            return False

    def pause() -> None:
        # What is mounted on a frozen server would hold up whoever writes back the machine's page cache.
        for each in ends:
            upload.ask(*each, "unmount")
        if machines.pause is None:
            for each in ends:
                upload.ask(*each, "pause")
        else:
            machines.pause()

    def resume() -> None:
        if machines.resume is None:
            for each in reversed(ends):
                upload.ask(*each, "resume")
        else:
            machines.resume()
        if not wait.until(is_clean, THAW_S, POLL_S):
            log.warning("%s was not whole %.0f s after it was thawed: it is made anew", config.name, THAW_S)
            upload.ask(host, config, "remake", timeout_s=CREATE_S)

    return pause, resume


def _facts(
    spec: DeploySpec, machines: Machines, engine: Engine, store_facts: Mapping[str, Any], way: link.ClientLink | None
) -> dict[str, Any]:
    return {
        "runs_on": OWN if machines.embedded else "the server host, with its daemons, disks and clients",
        "version": store_facts["version"],
        "engine": store_facts["engine"],
        "image": machines.facts.get("storage_image", ""),
        "storage": f"{store_facts['pool'].get('copies', 2)} sparse files of one disk, as loop devices with direct I/O",
        "network": "loopback",
        "limits": {
            "memory_bytes": spec.limits.memory_bytes,
            "what": "all daemons and the server of the volume together",
        },
        "disk_bytes": store_facts["disk_bytes"],
        "cache_bytes": store_facts["cache_bytes"],
        "capabilities": store_facts["pool"],
        "cgroups": [],
        **({"qualifier": engine.qualifier} if engine.qualifier else {}),
        **({} if way is None else {"client": {"two-nodes": "a node of its own", "link": way.speed}}),
    }


def choose_ceph(site: Site, host: Host) -> Engine:
    """Return Ceph's engine; with a device of the kernel where that has RBD and is not this machine's own."""
    # The lab's nodes have the kernel of this machine: a device in it would outlive a node that is killed.
    mapped = site.kind != "lab" and host.run(("sh", "-c", _RBD), timeout_s=CHECK_S).ok

    def paths(config: Config) -> Mapping[str, tuple[str, ...]]:
        device = {"device": (str(krbd.device(config)),)} if krbd.OPTION in config.options else {}
        return {"uri-rbd": (str(config.home / "client.conf"), POOL, IMAGE), **device}

    return Engine("ceph", options={krbd.OPTION: "yes"} if mapped else {}, paths=paths)


def choose_zfs(site: Site, host: Host) -> Engine:
    """Return the engine of OpenZFS that the host can have; `NotRunnable`, with what is missing, where it has none."""
    if site.kind == "lab":
        return Engine("zfs", USER_SPACE)
    if host.run(("sh", "-c", _ZFS), timeout_s=CHECK_S).ok:
        found = host.run(("sh", "-c", _MISSING, "sh", *PACKAGES), timeout_s=CHECK_S).stdout.decode().split()
        if found:
            raise NotRunnable(f"{host.name}: apt-get install {' '.join(sorted({PACKAGES[each] for each in found}))}")
        return Engine("zfs_kernel", paths=lambda config: {"device": (str(zfs_kernel.device(config)),)})
    # Built on a host that has what it takes; else the compiler says what is missing.
    sources = (resources.files("infrabench_platforms") / "lab/storage/zvol").iterdir()
    push(host, {f"{SOURCES}/{each.name}": each.read_text(encoding="utf-8") for each in sources})
    built = host.run((f"{SOURCES}/build.sh", PLUGIN), timeout_s=BUILD_S)
    if not built.ok:
        host.run(("rm", "-rf", SOURCES), timeout_s=CHECK_S)
        said = built.stderr.decode("utf-8", "replace").strip()[-400:]
        raise NotRunnable(
            f"{host.name} has no ZFS module in its kernel, and the engine in user space cannot be built there; "
            f"that takes {', '.join(TO_BUILD.values())} (OpenZFS 2.3, as Debian 13 has it): {said}"
        )
    return Engine("zfs", USER_SPACE, options={"plugin": PLUGIN})


FAMILY = {
    "ceph": StorageSystem("ceph", choose_ceph, NEEDS={"server": on_host.programs("ceph")}),
    "zfs": StorageSystem("zfs", choose_zfs, NEEDS={"server": {**on_host.programs("zfs"), **PACKAGES, **TO_BUILD}}),
    "raw": StorageSystem("raw", lambda site, host: Engine("raw"), NEEDS={"server": on_host.programs("raw")}),
}
