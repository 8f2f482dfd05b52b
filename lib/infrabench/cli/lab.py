"""The commands of `infrabench lab`: the lab up, down, built and purged, how it is, and a cluster or hosts that stay."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator

from infrabench import registry
from infrabench.cli.subcommands import Subparsers, add_command, add_group
from infrabench.core import DesignError


def add_parsers(subparsers: Subparsers) -> None:
    """Add the group `lab`."""
    group = add_group(subparsers, "lab", "bring the embedded lab up or down, or ask how it is", "status")
    text = "bring the lab up, or make a cluster or hosts in it that stay"
    parser = add_command(group, "up", up, text, "--kubernetes flannel")
    text = "a cluster with this CNI (flannel, cilium, bridge) that stays"
    parser.add_argument("--kubernetes", metavar="CNI", help=text)
    text = "for each name a server and a client as hosts of one's own, with an inventory, that stay"
    parser.add_argument("--hosts", nargs="+", metavar="NAME", default=[], help=text)
    add_command(group, "status", status, "say what there is of the lab, and change nothing")
    add_command(group, "down", remove, "take the lab down, with what a killed one left")
    parser = add_command(group, "build", build, "make images and Go tools ahead of time", "--only guest")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these images and tools")
    add_command(group, "trim", trim, "remove what only a next build needs")
    add_command(group, "purge", remove, "take the lab down and remove all that it keeps")


def up(arguments: Namespace) -> Iterator[str]:
    """Bring the lab up, or make a cluster or hosts that stay, and yield how to use them."""
    from infrabench_platforms import lab as embedded  # its tools are needed by these commands alone
    from infrabench_platforms.lab import node_groups

    for name in arguments.hosts:
        node_groups.pair_group(name)  # a name that cannot be is told before anything is made
    if arguments.kubernetes:
        yield from _cluster(arguments.kubernetes)
    for name in dict.fromkeys(arguments.hosts):  # those that stand are left as they are
        begin = time.monotonic()
        file, is_new = embedded.keep_hosts(name)
        state = f"made in {time.monotonic() - begin:.0f} s" if is_new else "stands already"
        yield f"{name}: {state}; inventory: {file}"
    if not arguments.kubernetes and not arguments.hosts:
        embedded.up()


def status(arguments: Namespace) -> Iterator[str]:
    """Yield how the lab is: nodes, images, programs, and what a killed one left."""
    from infrabench_platforms import lab as embedded
    from infrabench_platforms.lab import go_tools, prebuild

    found = embedded.status()
    yield "the lab is up" if found.up else "the lab is down"
    yield from (f"node {name}: {state}" for name, state in found.nodes.items())
    for name in prebuild.names():
        yield f"{'Go tools' if name in go_tools.PARTS else 'image'} {name}: {prebuild.describe(name)}"
    yield from (f"left over: {each}" for each in found.leftovers)


def remove(arguments: Namespace) -> Iterator[str]:
    """Take the lab down; with `purge` remove all that it keeps, too; yields nothing."""
    from infrabench_platforms import lab as embedded

    (embedded.purge if arguments.action == "purge" else embedded.down)()
    yield from ()


def build(arguments: Namespace) -> Iterator[str]:
    """Make what the lab is made from, and yield what was made."""
    from infrabench_platforms.lab import prebuild

    yield from prebuild.build(arguments.only)


def trim(arguments: Namespace) -> Iterator[str]:
    """Remove what only a next build needs, and yield how much it was."""
    from infrabench_platforms.lab import go_tools

    yield f"{go_tools.forget_caches() / 1e9:.1f} GB removed"


def _cluster(name: str) -> Iterator[str]:
    """Make a cluster that stays, and yield how to use it; one that stands already is left as it is."""
    from infrabench.machines.hosts.host import LocalHost
    from infrabench_platforms import lab as embedded
    from infrabench_platforms.clusters import control
    from infrabench_platforms.clusters.cni import CNI, make_cluster

    cni = getattr(registry.system(name), "CNI", None)
    if not isinstance(cni, CNI):
        known = [each for each in registry.names("systems") if hasattr(registry.system(each), "CNI")]
        raise DesignError(f"{name} is no CNI: known are {', '.join(known)}")
    if embedded.find_kept_cluster(name) is None:
        begin = time.monotonic()
        with embedded.keep_cluster(name, cni.parts) as machines:
            cluster = make_cluster(machines, cni)
            # Whoever reads it is the cluster's administrator.
            LocalHost().put(cluster.kubectl.host.get(control.ADMIN), str(embedded.kubeconfig(name)), 0o600)
        yield f"{name}: three nodes Ready, with Multus, after {time.monotonic() - begin:.0f} s"
    file = embedded.kubeconfig(name)
    yield f"Its kubeconfig is {file}; a study on it: make run STUDY=cnis SITE={file} SYSTEMS={name}"
