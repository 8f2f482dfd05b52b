"""The client's route to the guests: through the server, at an address of it that the client can hand packets to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from infrabench.core import Host, SiteError

PROTOCOL = "198"  # of our routes, in `ip route`: tells one that a killed run left from an administrator's
LIMIT_S = 20.0

# Status 3: no route is needed, 4: not root, so none can be made. A name means to the client what its own resolver says;
# guests have IPv4 alone, and so the route leads through an IPv4 address.
_ADD = r"""
network=$1 server=$2 protocol=$3
addresses=$(getent ahosts "$server" | awk '!known[$1]++ { print $1 }')
for address in $addresses; do
  case $(ip route get "$address" 2>/dev/null) in local*) exit 3 ;; esac
done
[ "$(id -u)" != 0 ] || ip route del "$network" proto "$protocol" 2>/dev/null
[ -z "$(ip route show "$network")" ] || exit 3
[ "$(id -u)" = 0 ] || exit 4
why="it knows no IPv4 address of the server"
for address in $addresses; do
  case $address in *:*) continue ;; esac
  why=$(ip route add "$network" via "$address" proto "$protocol" 2>&1) && exit 0
done
echo "${why##*Error: }"
exit 1
"""


@contextmanager
def open_route(client: Host, server: Host, network: str, say: Callable[[str], None]) -> Iterator[None]:
    """Give the client a route to the guests while the site is open, unless it has one of its own.

    Without root no route can be made, and `say` is told. Raises `SiteError` when root cannot make one either: every
    connection to a guest would fail.
    """
    by_hand = f"ip route add {network} via ADDRESS, an IPv4 address of {server.name} in a network of {client.name}"
    added = client.run(("sh", "-c", _ADD, "sh", network, server.address, PROTOCOL), timeout_s=LIMIT_S)
    if added.status == 4:
        say(f"{client.name} has no route to guests on {server.name}, and no root to make one. As root there: {by_hand}")
    elif added.status not in (0, 3):
        why = (
            (added.stdout or added.stderr).decode("utf-8", "replace").replace(server.address, server.name).strip(" .\n")
        )
        raise SiteError(
            f"{client.name} cannot reach the guests ({network}) through {server.name}: {why or added.ending}. Give the "
            f"server's IPv4 address in the inventory, or make the route by hand: {by_hand}"
        )
    try:
        yield
    finally:
        if added.ok:
            client.run(("ip", "route", "del", network, "proto", PROTOCOL), timeout_s=LIMIT_S)
