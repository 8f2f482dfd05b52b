"""The lab's network: one bridge in the range reserved for benchmarking (RFC 2544), with no way out.

The host gets an unreachable route for the whole range below the bridge's own, so that nothing meant for the lab can
leave the machine; nodes get no default route.
"""

from __future__ import annotations

import json
from ipaddress import ip_network
from pathlib import Path

from infrabench.core import Host, ProvisionError, SiteError
from infrabench_platforms.lab.shell import sh, state_dir

RANGE = ip_network("198.18.0.0/15")
BRIDGE = "infrabench0"
LINKS = Path("/sys/class/net")
# Without an address of its own a bridge takes one from its ports and changes it as they come, and neighbours go on
# sending to the old one for most of a minute.
BRIDGE_MAC = "02:49:42:00:00:01"
HOST_ADDRESS = "198.18.0.1"
NODES_NET = ip_network("198.18.0.0/24")
# Guests of the systems under test live behind the server node, which routes to them.
GUESTS_NET = ip_network("198.18.64.0/24")
_KNOCK = '</dev/tcp/"$1"/22'
METRIC = "4096"  # ranks our guard route below every other
PROTOCOL = "198"  # of our guard route, in `ip route`: tells it from an administrator's


def check_owner() -> None:
    """Raise `SiteError` when the bridge is not of this state folder's lab: there is one lab on a machine at a time."""
    if not is_ours():
        owner = _owner()
        if not owner:
            raise SiteError(f"this machine has a bridge {BRIDGE} that no lab has made: rename it, and try again")
        raise SiteError(
            f"another lab stands on this machine, of the state folder {owner}. Take it down first: "
            f"INFRABENCH_STATE={owner} infrabench lab down"
        )


def up() -> None:
    """Make the bridge and the guard route; refuses when the range is in use on this machine."""
    check_owner()
    foreign = [route for route in _routes() if route.get("dev") != BRIDGE and not _refuses_all(route)]
    if foreign:
        raise ProvisionError(f"{RANGE} is in use on this machine: {foreign[0]}. The lab cannot start beside it.")
    sh("ip", "link", "add", BRIDGE, "address", BRIDGE_MAC, "type", "bridge", "stp_state", "0", "forward_delay", "0")
    sh("ip", "link", "set", "dev", BRIDGE, "alias", str(state_dir()))
    # Nothing here speaks IPv6, and a guest's router advertisement would become this machine's default route.
    settings = Path("/proc/sys/net/ipv6/conf") / BRIDGE
    if settings.exists():
        (settings / "disable_ipv6").write_text("1")
    sh("ip", "addr", "add", f"{HOST_ADDRESS}/{NODES_NET.prefixlen}", "dev", BRIDGE)
    sh("ip", "link", "set", BRIDGE, "up")
    if not any(_is_guard(route) for route in _routes()):
        sh("ip", "route", "prepend", "unreachable", str(RANGE), "metric", METRIC, "proto", PROTOCOL)


def check_path(node: Host, address: str) -> None:
    """Raise `ProvisionError` where a node does not reach another at `address`: what passes a bridge may be filtered."""
    if not node.run(("timeout", "5", "bash", "-c", _KNOCK, "bash", address), timeout_s=10).ok:
        raise ProvisionError(
            f"{node.name} of the lab cannot reach another node: this machine's packet filter drops what passes the "
            "lab's bridge, as Docker's does where net.bridge.bridge-nf-call-iptables is 1 and FORWARD has the policy "
            "DROP. As root: sysctl -w net.bridge.bridge-nf-call-iptables=0, or "
            f"iptables -I FORWARD -i {BRIDGE} -o {BRIDGE} -j ACCEPT"
        )


def down() -> None:
    """Remove what `up` made, whatever of it is there."""
    check_owner()
    if is_up():
        sh("ip", "link", "del", BRIDGE)
    for route in _routes():
        if _is_guard(route):
            sh("ip", "route", "del", "unreachable", str(RANGE), "metric", METRIC, "proto", PROTOCOL)


def is_up() -> bool:
    """Tell whether the bridge is there."""
    return sh("ip", "link", "show", "dev", BRIDGE, ok=(0, 1)).status == 0


def is_ours() -> bool:
    """Tell whether there is no bridge, or one of this state folder's lab, or of one killed before it had signed it."""
    address = LINKS / BRIDGE / "address"
    owner = _owner()
    return owner == str(state_dir()) or (
        not owner and (not address.exists() or address.read_text().strip() == BRIDGE_MAC)
    )


def _owner() -> str:
    """Return the state folder whose lab made the bridge; empty where there is none, or none is written on it."""
    alias = LINKS / BRIDGE / "ifalias"
    return alias.read_text().strip() if alias.exists() else ""


def _is_guard(route: dict[str, object]) -> bool:
    return _refuses_all(route) and str(route.get("protocol")) == PROTOCOL


def _routes() -> list[dict[str, object]]:
    routes = json.loads(sh("ip", "-j", "-4", "route", "show", "root", str(RANGE)).stdout or b"[]")
    return [route for route in routes if route.get("dst") != "default"]


def _refuses_all(route: dict[str, object]) -> bool:
    """Tell whether a route sends nothing of the whole range anywhere: our guard, or one of an administrator's."""
    return route.get("type") in ("unreachable", "blackhole", "prohibit") and route.get("dst") == str(RANGE)
