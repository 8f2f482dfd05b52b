"""Pairs: a server and a client of their own beside the lab's two, reached as hosts of one's own are.

What names them is an inventory like anybody else's, so that what is tried on a pair works the same on real hosts.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path

from infrabench.core import DesignError
from infrabench.machines.hosts.host import SSHHost
from infrabench.machines.lab import images, node_groups
from infrabench.machines.lab.nodes import GUEST_DIR, Node

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,19}")  # a part of the names of containers, as `ps` and cgroups show them
INVENTORY = """\
# Two nodes of the lab on this machine, as hosts of one's own. They go with `infrabench lab down`.
name: {name}
hosts:
  server: {{address: {server}, user: root, key: {ssh}/id_ed25519}}
  client: {{address: {client}, user: root, key: {ssh}/id_ed25519}}
known_hosts: {ssh}/known_hosts
"""

log = logging.getLogger(__name__)
Say = Callable[[str], None]


def group_name(name: str) -> str:
    """Return what the set of machines of the pair `name` is called; `DesignError` for what cannot be a name."""
    if not NAME.fullmatch(name):
        raise DesignError(f"a pair of hosts cannot be called {name[:40]!r}: small letters, digits and -, at most 20")
    return f"hosts-{name}"


def inventory(lab: Path, name: str) -> Path:
    """Return where the inventory of the pair `name` belongs."""
    return lab / f"{group_name(name)}.yml"


def make(lab: Path, name: str, of: str, connect: Callable[[Node], SSHHost], say: Say = log.info) -> Path:
    """Make the pair `name` as the set of machines `of`, and return the file that is its inventory.

    What is left of an earlier set of that name is removed first. Nothing stays when it fails.
    """
    file = inventory(lab, name)
    guest, node = images.make("guest", say), images.make("node", say)
    file.unlink(missing_ok=True)  # its presence says that the pair is whole
    shown = {GUEST_DIR: guest.folder}
    (server, client), hosts = node_groups.boot(lab, of, lambda slot: node_groups.pair(of, slot), node, connect, shown)
    for host in hosts.values():
        host.close()
    file.write_text(INVENTORY.format(name=name, server=server.address, client=client.address, ssh=lab / "ssh"))
    return file
