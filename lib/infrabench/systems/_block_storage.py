"""What every storage system does alike: a node of its own, two disks on it, a pool with two copies, and what it says.

The program that `stores` brings does all that happens on the node; a system is its engine. Both get disks of one size,
one memory limit for all processes together, and one amount of cache.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from infrabench.core import Deployment, DeploySpec, Host, InfrabenchError, Machines, Site, Target, wait
from infrabench.machines.clusters.hosts import counters
from infrabench.machines.stores import on_host, upload
from infrabench.machines.stores.node import guest
from infrabench.machines.stores.node.config import Config

CREATE_S, BOOT_S = 180.0, 240.0
THAW_S = 30.0  # for a pool that was frozen to be whole again, before it is made anew
POLL_S = 0.2
OWN = "a node of its own: daemons, disks and clients"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Engine:
    """What makes the pool, what it is told, and how its system must be called."""

    module: str  # of `stores.node`
    qualifier: str = ""  # what a reader has to know of this engine, next to its name
    emulated: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    # Ways to the volume of its own, beside NBD (see `Target.lifecycle`).
    paths: Callable[[Config], Mapping[str, tuple[str, ...]]] = lambda config: {}


@dataclass(frozen=True, slots=True)
class StorageSystem:
    """A storage system."""

    name: str
    pick: Callable[[Site, Host], Engine]  # chooses its engine by what its host has
    guest: bool = False  # its volume is used in a virtual machine, which a node of the lab alone can start

    def supported(self, site: Site) -> str | None:
        """Return None, or why the site has no place for it."""
        if self.guest and site.kind != "lab":
            return on_host.NO_GUEST
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
        with site.store(self.name, need, self.guest) as machines, ExitStack() as stack:
            host = machines.hosts["store"]
            engine = self.pick(site, host)
            config = upload.config(self.name, engine.module, spec.disk_bytes, spec.limits.memory_bytes, engine.options)
            if not machines.embedded:  # a node of the lab goes away whole
                stack.callback(upload.take_away, host, config)
            upload.bring(host, config)
            if not machines.embedded:
                stack.callback(upload.ask, host, config, "destroy")
            upload.ask(host, config, "create", timeout_s=CREATE_S + (BOOT_S if self.guest else 0))
            told = upload.ask(host, config, "facts")
            lifecycle = {
                "store": upload.command(config), "mount": (str(config.mount),), "uri": (config.uri,),
                **engine.paths(config),
            }  # fmt: skip
            used = counters(host) if machines.embedded else ()
            target = Target("server", host, address=host.address, lifecycle=lifecycle, counters=used)
            made = Deployment(self.name, {"server": target}, _facts(spec, machines, engine, told))
            made.pause, made.resume = _switches(host, config, machines)
            yield made


def make_guest_engine(module: str, qualifier: str, device: Callable[[Config], str]) -> Engine:
    """Return an engine whose volume is the file `device` in a virtual machine, where commands on it run."""

    def paths(config: Config) -> Mapping[str, tuple[str, ...]]:
        inside = ("python3", f"{upload.FOLDER}/node/inside.py", str(guest.home(config)))
        return {"uri": (), "mount": (), "device": (device(config),), "inside": inside}

    return Engine(module, qualifier, emulated=True, paths=paths)


def _switches(host: Host, config: Config, machines: Machines) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return what pauses the store while another is measured, and what resumes it."""

    def is_clean() -> bool:
        try:
            return bool(upload.ask(host, config, "state")["clean"])
        except InfrabenchError as error:
            log.debug("%s", error)
            return False

    def pause() -> None:
        # What is mounted on a frozen server would hold up whoever writes back the machine's page cache.
        upload.ask(host, config, "unmount")
        if machines.pause is None:
            upload.ask(host, config, "pause")
        else:
            machines.pause()

    def resume() -> None:
        if machines.resume is None:
            upload.ask(host, config, "resume")
        else:
            machines.resume()
        if not wait.until(is_clean, THAW_S, POLL_S):
            log.warning("%s was not whole %.0f s after it was thawed: it is made anew", config.name, THAW_S)
            upload.ask(host, config, "remake", timeout_s=CREATE_S)

    return pause, resume


def _facts(spec: DeploySpec, machines: Machines, engine: Engine, told: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "runs_on": OWN if machines.embedded else "the server host, with its daemons, disks and clients",
        "version": told["version"],
        "engine": told["engine"],
        "image": machines.facts.get("storage_image", ""),
        "storage": "two sparse files of one disk, as loop devices with direct I/O",
        "network": "loopback",
        "limits": {
            "memory_bytes": spec.limits.memory_bytes,
            "what": "all daemons and the server of the volume together",
        },
        "disk_bytes": told["disk_bytes"],
        "cache_bytes": told["cache_bytes"],
        "capabilities": told["pool"],
        "cgroups": [],
        **({"qualifier": engine.qualifier} if engine.qualifier else {}),
        **({"emulated": True} if engine.emulated else {}),
        **({"guest": told["guest"]} if "guest" in told else {}),
    }
