"""The platforms as the harness asks for them; see `infrabench.machines.sites.platforms`."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from infrabench.core import InfrabenchError, Machines, NotRunnable
from infrabench.machines.hosts.claims import Holder
from infrabench.machines.hosts.host import SSHHost
from infrabench.machines.sites.platforms import Say
from infrabench.machines.sites.site import OpenSite
from infrabench_platforms import lab, local_leftovers
from infrabench_platforms.availability import check_systems
from infrabench_platforms.clusters import kata, remote
from infrabench_platforms.lab import go_parts, go_tools, images, node_groups, nodes, pod_images, releases
from infrabench_platforms.lab.prebuild import seconds
from infrabench_platforms.lab.shell import require as require_lab
from infrabench_platforms.stores.on_host import store as open_store

__all__ = [
    "check_systems", "find_kubectl", "guest_image", "make_pod_image", "open_cluster", "open_lab", "open_store",
    "remove_leftovers", "require_lab", "seconds", "sweep_lab",
]  # fmt: skip

log = logging.getLogger(__name__)
sweep_lab = lab.sweep
remove_leftovers = local_leftovers.remove


@contextmanager
def open_lab(say: Say, holder: Holder | None) -> Iterator[OpenSite]:
    """Yield the lab with its nodes connected; `NotRunnable` says what it needs, and which sites need less."""
    try:
        require_lab()
    except NotRunnable as error:
        raise NotRunnable(f"{error}. Site local runs what this user can run; an inventory names other hosts") from error
    with lab.use(say, holder) as facts, ExitStack() as stack:
        hosts = {node.role: nodes.host(node) for node in nodes.NODES}
        for host in hosts.values():
            stack.callback(host.close)
            host.run(("true",), timeout_s=5)
        clusters, stores = partial(node_groups.open_group, say=say), partial(node_groups.open_store, say=say)
        yield OpenSite("lab", "lab", hosts, facts, clusters, stores, versioner=releases.ReleaseServers(say).open)


def guest_image(say: Say, make: bool = True) -> dict[str, Any]:
    """Return the guest image of this machine as a site fact, or why there is none."""
    image = images.cached("guest")
    if image is None and not shutil.which("mmdebstrap"):
        return {"guest_image": None, "guest_image_reason": "mmdebstrap is not installed (apt-get install mmdebstrap)"}
    if image is None and not make:
        return {"guest_image": {"hash": "", "tar": ""}}
    try:
        image = image or images.make("guest", say)
    except InfrabenchError as error:
        log.debug("the guest image cannot be made: %s", error)
        last = str(error).strip().splitlines()[-1]
        return {"guest_image": None, "guest_image_reason": f"it cannot be made by this user here: {last}"}
    return {"guest_image": {"hash": image.hash, "tar": str(image.tar)}}


def open_cluster(hosts: Mapping[str, SSHHost], tools: tuple[str, ...], say: Say) -> AbstractContextManager[Machines]:
    """Return a context with hosts of one's own as a cluster's machines: what they need is built here, and brought."""
    built = go_tools.make(node_groups.parts(tools), say)
    images = {kind: pod_images.make(kind, say) for kind in pod_images.KINDS}
    parcels = remote.Parcels(
        tools=built,
        images={kind: (each.tag, each.tar) for kind, each in images.items()},
        versions={part: go_parts.version(go_parts.PARTS[part]) for part in built},
        own=tuple(part for part in tools if part == kata.PART),
    )
    return remote.machines(hosts, parcels, say)


def make_pod_image(say: Say) -> tuple[str, Path]:
    """Return the name of the image of pods and its archive, made where it is not in the cache."""
    image = pod_images.make("tools", say)
    return image.tag, image.tar


def find_kubectl() -> Path | None:
    """Return the kubectl that was built for the lab; None where it is not in the cache."""
    built = go_tools.cached("kubernetes")
    return None if built is None else built / "kubectl"
