"""The network between a store and its client on another node: address and devices, how fast it is, what both know.

Nodes of the lab are joined by a bridge of one kernel, which is as fast as memory. There the link is shaped to what
`RATE` says, each way, by a token bucket (tc-tbf(8)) on the device of either node, where the kernel has that.
"""

from __future__ import annotations

import base64
import logging
import secrets
import struct
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace

from infrabench.core import Host, Machines, NotRunnable
from infrabench_platforms.clusters.hosts import UPLINK
from infrabench_platforms.stores.node.ceph import FSID, KEY
from infrabench_platforms.stores.node.config import Config, client_name

RATE = "1gbit"
# Room for the largest packet that a network card is asked to cut up (64 KiB); the queue holds 50 ms, as a switch may.
BUCKET = ("tbf", "rate", RATE, "burst", "128kb", "latency", "50ms")
CHECK_S = 20.0

log = logging.getLogger(__name__)

# Prints the store's address, as the client knows it, and the client's own address and device on the way to it.
_WAY = """
PATH=$PATH:/sbin:/usr/sbin
address=$(getent ahostsv4 "$1" | awk 'NR == 1 { print $1 }')
[ -n "$address" ] || { echo "it knows no IPv4 address of $1" >&2; exit 1; }
set -- $(ip -o route get "$address") || exit 1
while [ $# -gt 1 ]; do case $1 in dev) device=$2 ;; esac; shift; done
echo "$address $device"
"""


@dataclass(frozen=True, slots=True)
class ClientLink:
    """The store's `address` as its client reaches it, the device of either end, and in words how fast it is."""

    address: str
    devices: Mapping[str, str]  # of the ``store`` and its ``client``
    speed: str


def find_link(machines: Machines) -> ClientLink | None:
    """Return the link between store and client, shaped where it is the lab's; None where there is no client.

    Raises `NotRunnable` where both are one host, or the store does not have the address that its client knows.
    """
    if "client" not in machines.hosts:
        return None
    store, client = machines.hosts["store"], machines.hosts["client"]
    way = client.run(("sh", "-c", _WAY, "sh", store.address), timeout_s=CHECK_S)
    if not way.ok:
        said = way.stderr.decode("utf-8", "replace").strip()
        raise NotRunnable(f"{client.name} has no way to {store.name}: {said or 'no reason given'}")
    address, device = way.stdout.decode().split()
    found = store.run(("sh", "-c", UPLINK, "sh", address), timeout_s=CHECK_S).stdout.decode().split()
    if device == "lo":
        raise NotRunnable(f"{client.name} and {store.name} are one host: name another client in the inventory")
    if len(found) != 1:
        raise NotRunnable(
            f"{store.name}: {len(found)} devices have the address by which {client.name} knows it: in the inventory, "
            "give the store's own IPv4 address, or a name that means it to the client"
        )
    devices = {"store": found[0], "client": device}
    return ClientLink(address, devices, shape(machines, devices) if machines.embedded else _read_speed(client, device))


def shape(machines: Machines, devices: Mapping[str, str]) -> str:
    """Shape what either end sends, and return in words what came of it: the rate, or why there is none."""
    for role, device in devices.items():
        argv = ("tc", "qdisc", "replace", "dev", device, "root", *BUCKET)
        done = machines.hosts[role].run(argv, timeout_s=CHECK_S)
        if not done.ok:
            said = " ".join(done.stderr.decode("utf-8", "replace").split())[-200:]
            log.warning("the link between store and client is not shaped: %s", said or done.ending)
            return f"not shaped: {said or done.ending}"
    return f"{RATE} each way (a token bucket on either end)"


def _read_speed(client: Host, device: str) -> str:
    mbit = client.run(("cat", f"/sys/class/net/{device}/speed"), timeout_s=CHECK_S).stdout.decode().strip()
    speed = f"{mbit} Mbit/s by its driver" if mbit.isdecimal() else "its driver does not tell its speed"
    return f"not shaped: the hosts' own, {speed}"


def place(config: Config, link: ClientLink | None) -> tuple[Config, Config, Config | None]:
    """Return what the store is told, what it is told where its client is on the other node, and what the client is.

    Of a cluster the first two are one: it is reached as it is. Client and cluster know its secrets before it is made.
    """
    if link is None:
        return config, config, None
    secret = {FSID: str(uuid.uuid4()), KEY: make_key()} if config.engine == "ceph" else {}
    store = replace(config, options={**config.options, **secret}, address=link.address)
    client = replace(
        store, engine="client", name=client_name(config.name), disk_bytes=0, options=secret, listens=not secret
    )
    return store, store if secret else replace(store, listens=True), client


def make_key() -> str:
    """Return a secret of Ceph's authentication: kind, time, length and 16 bytes (see Ceph's manual deployment)."""
    key = secrets.token_bytes(16)
    return base64.b64encode(struct.pack("<HIIH", 1, int(time.time()), 0, len(key)) + key).decode()
