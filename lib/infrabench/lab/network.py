"""The lab's network: one bridge in the range reserved for benchmarking (RFC 2544), with no way out.

The host gets an unreachable route for the whole range below the bridge's own, so that nothing meant for the lab can
leave the machine; nodes get no default route.
"""

from __future__ import annotations

import json
from ipaddress import ip_network

from infrabench.core import ProvisionError
from infrabench.lab.shell import sh

RANGE = ip_network("198.18.0.0/15")
BRIDGE = "infrabench0"
# Without an address of its own a bridge takes one from its ports and changes it as they come, and neighbours go on
# sending to the old one for most of a minute.
BRIDGE_MAC = "02:49:42:00:00:01"
HOST_ADDRESS = "198.18.0.1"
NODES_NET = ip_network("198.18.0.0/24")
# Guests of the systems under test live behind the server node, which routes to them.
GUESTS_NET = ip_network("198.18.64.0/24")
METRIC = "4096"  # marks our guard route and ranks it below every other


def up() -> None:
    """Make the bridge and the guard route; refuses when the range is in use on this machine."""
    foreign = [route for route in _routes() if route.get("dev") != BRIDGE and not _is_guard(route)]
    if foreign:
        raise ProvisionError(f"{RANGE} is in use on this machine: {foreign[0]}. The lab cannot start beside it.")
    sh("ip", "link", "add", BRIDGE, "address", BRIDGE_MAC, "type", "bridge", "stp_state", "0", "forward_delay", "0")
    sh("ip", "addr", "add", f"{HOST_ADDRESS}/{NODES_NET.prefixlen}", "dev", BRIDGE)
    sh("ip", "link", "set", BRIDGE, "up")
    sh("ip", "route", "replace", "unreachable", str(RANGE), "metric", METRIC)


def down() -> None:
    """Remove what `up` made, whatever of it is there."""
    if is_up():
        sh("ip", "link", "del", BRIDGE)
    for route in _routes():
        if _is_guard(route):
            sh("ip", "route", "del", "unreachable", str(RANGE), "metric", METRIC)


def is_up() -> bool:
    """Tell whether the bridge is there."""
    return sh("ip", "link", "show", "dev", BRIDGE, ok=(0, 1)).status == 0


def _routes() -> list[dict[str, object]]:
    routes = json.loads(sh("ip", "-j", "-4", "route", "show", "root", str(RANGE)).stdout or b"[]")
    return [route for route in routes if route.get("dst") != "default"]


def _is_guard(route: dict[str, object]) -> bool:
    return route.get("type") == "unreachable" and route.get("dst") == str(RANGE)
