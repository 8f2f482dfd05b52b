"""What `infrabench lab` does: the lab up, down, built and purged, how it is, and a cluster or hosts that stay."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator, Sequence

from infrabench import registry
from infrabench.core import DesignError


def lab(arguments: Namespace) -> Iterator[str]:
    """Bring the lab up or down, make what it is made from or remove it, or yield how it is."""
    from infrabench import lab as embedded  # its tools are needed by this command alone
    from infrabench.lab import ahead, gotools

    if arguments.verb_of_lab != "up" and (arguments.kubernetes or arguments.hosts):
        raise DesignError(f"{'--kubernetes' if arguments.kubernetes else '--hosts'} is for `infrabench lab up`")
    if arguments.verb_of_lab == "status":
        found = embedded.status()
        yield "the lab is up" if found.up else "the lab is down"
        for kind, rows in (("node", found.nodes), ("image", found.images), ("Go tools", found.tools)):
            yield from (f"{kind} {name}: {told}" for name, told in rows.items())
        yield from (f"left over: {each}" for each in found.leftovers)
        return
    if arguments.verb_of_lab == "build":
        yield from ahead.build(arguments.only)
        return
    if arguments.verb_of_lab == "trim":
        yield f"{gotools.forget_caches() / 1e9:.1f} GB removed"
        return
    if arguments.kubernetes:
        yield from _cluster(arguments.kubernetes)
    if arguments.hosts:
        yield from _hosts(arguments.hosts)
    if arguments.kubernetes or arguments.hosts:
        return
    {"up": embedded.up, "down": embedded.down, "purge": embedded.purge}[arguments.verb_of_lab]()


def _hosts(names: Sequence[str]) -> Iterator[str]:
    """Make pairs of hosts that stay, and yield where their inventories are; those that stand are left as they are."""
    from infrabench import lab as embedded
    from infrabench.lab import pairs

    for name in names:
        pairs.called(name)  # a name that cannot be is told before anything is made
    for name in dict.fromkeys(names):
        begin = time.monotonic()
        file, made = embedded.keeping_hosts(name)
        yield f"{name}: {f'made in {time.monotonic() - begin:.0f} s' if made else 'stands already'}; inventory: {file}"


def _cluster(name: str) -> Iterator[str]:
    """Make a cluster that stays, and yield how to use it; one that stands already is left as it is."""
    from infrabench import lab as embedded
    from infrabench.clusters import control
    from infrabench.clusters.cni import CNI, standing
    from infrabench.host import LocalHost

    cni = getattr(registry.system(name), "CNI", None)
    if not isinstance(cni, CNI):
        known = [each for each in registry.names("systems") if hasattr(registry.system(each), "CNI")]
        raise DesignError(f"{name} is no CNI: known are {', '.join(known)}")
    if embedded.kept(name) is None:
        begin = time.monotonic()
        with embedded.keeping(name, cni.parts) as machines:
            cluster = standing(machines, cni)
            # Whoever reads it is the cluster's administrator.
            LocalHost().put(cluster.kubectl.host.get(control.ADMIN), str(embedded.kubeconfig(name)), 0o600)
        yield f"{name}: three nodes Ready, with Multus, after {time.monotonic() - begin:.0f} s"
    file = embedded.kubeconfig(name)
    yield f"Its kubeconfig is {file}; a study on it: make run STUDY=cnis SITE={file} SYSTEMS={name}"
