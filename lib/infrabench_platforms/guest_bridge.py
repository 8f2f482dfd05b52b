"""The bridge of the guests' network on a host: who holds it, what the host was like before, and what is put back.

Every system that runs the guest image has the same network path: a veth on the bridge `BRIDGE` of the server host,
routed, no NAT. The first system to come notes on the host what it finds (``/run/infrabench``), and the last one to
leave puts that back, also after sessions that were killed in between. What was there before stays, whatever its name.

That goes for the cgroup controllers too: LXC and native switch those of cgroup v2 on for the whole host, and nobody off
again, which changes how the host shares its CPUs among slices. With cgroup v1 there is nothing to do about them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ipaddress import ip_network
from typing import Any

from infrabench.core import Host, Site
from infrabench_platforms.containers import SPARE_TAR, run_script

BRIDGE = "infrabench1"
GUEST_NETWORK = "198.18.64.0/24"
NETWORK = f"veth on bridge {BRIDGE}, routed, no NAT"  # the fact that describes the path
PIVOT = "lxc.pivot"  # the cgroup through which LXC leaves those of its containers

# Cgroups that systems make (`hold_bridge`): the note has the folders that were there before as paths, and the names.
# LXC adds a number to the name of a cgroup that is there already.
_PLACES = """
note=/run/infrabench/cgroups
places() {
  for root in /sys/fs/cgroup /sys/fs/cgroup/*; do
    [ ! -L "$root" ] || continue
    for group in "$root/$1" "$root/$1"-[0-9]*; do [ ! -d "$group" ] || echo "$group"; done
  done
}
"""

_BRIDGE_UP = f"""
set -eu
bridge=$1 gateway=$2
shift 2
# Of every bridge that we make there is a note before it.
if [ -d "/sys/class/net/$bridge" ] && [ ! -e /run/infrabench/ip_forward ]; then
  echo "this host has a bridge $bridge that infrabench has not made: rename it, and try again" >&2
  exit 1
fi
mkdir -p /run/infrabench
{_PLACES}
for name; do
  grep -qxF "$name" "$note" 2>/dev/null || {{ places "$name"; echo "$name"; }} >>"$note"
done
if [ ! -d "/sys/class/net/$bridge" ]; then
  # What a killed session has noted is how the host was before, unless it was killed before it had written that.
  [ -s /run/infrabench/ip_forward ] || cat /proc/sys/net/ipv4/ip_forward >/run/infrabench/ip_forward
  # The first network namespace with a name makes this folder, and mounts it on itself.
  [ -e /run/infrabench/netns ] || {{ ls -d /run/netns; grep -o ' /run/netns ' /proc/self/mountinfo; }} \
    >/run/infrabench/netns 2>/dev/null || :
  ip link add "$bridge" address 02:49:42:00:00:02 type bridge stp_state 0 forward_delay 0
  # A guest's router advertisement would give this host a route.
  [ ! -e "/proc/sys/net/ipv6/conf/$bridge/disable_ipv6" ] || echo 1 >"/proc/sys/net/ipv6/conf/$bridge/disable_ipv6"
fi
ip addr replace "$gateway" dev "$bridge"
ip link set "$bridge" up
sysctl -qw net.ipv4.ip_forward=1
# Docker's packet filter, where it is on, drops what is routed to or from a bridge that it did not make.
if command -v iptables >/dev/null && iptables -nL DOCKER-USER >/dev/null 2>&1; then
  for way in -i -o; do
    iptables -C DOCKER-USER $way "$bridge" -j ACCEPT -m comment --comment infrabench 2>/dev/null ||
      iptables -I DOCKER-USER $way "$bridge" -j ACCEPT -m comment --comment infrabench
  done
fi
"""

# The bridge has a fixed address: else it takes one from its ports, and neighbours keep sending to the old one.
# The last system to leave takes the bridge with it, and the host forwards packets only if it did before. An engine may
# have removed the bridge with the last of its own ports (netavark does).
#
# Empty cgroups stay behind of LXC and Podman. Of the names that systems gave, those go that were not there before: not
# while a process is in any of that name (somebody else's, or LXC on its way through its pivot, which takes a moment),
# and the pivot not while LXC runs anything else.
_BRIDGE_DOWN = f"""
bridge=$1
if [ -d "/sys/class/net/$bridge" ]; then
  [ -e /run/infrabench/ip_forward ] || exit 0  # somebody else's
  [ -z "$(ls "/sys/class/net/$bridge/brif")" ] || exit 0
  ip link del "$bridge" || [ ! -d "/sys/class/net/$bridge" ] || exit 1  # then the note has to stay
fi
if [ -e /run/infrabench/ip_forward ]; then
  cat /run/infrabench/ip_forward >/proc/sys/net/ipv4/ip_forward
  rm -f /run/infrabench/ip_forward
fi
if [ -e /run/infrabench/netns ]; then
  if [ -d /run/netns ] && [ -z "$(ls -A /run/netns)" ]; then
    grep -q ' /run/netns ' /run/infrabench/netns || umount /run/netns 2>/dev/null
    [ -s /run/infrabench/netns ] || rmdir /run/netns 2>/dev/null
  fi
  rm -f /run/infrabench/netns
fi
if command -v iptables >/dev/null; then
  for way in -i -o; do
    iptables -D DOCKER-USER $way "$bridge" -j ACCEPT -m comment --comment infrabench 2>/dev/null || true
  done
fi
{_PLACES}
IFS='
'
others() {{
  for part in payload monitor; do ls -d /sys/fs/cgroup/lxc.$part.* /sys/fs/cgroup/*/lxc.$part.* 2>/dev/null; done
}}
vacate() {{
  found=$(places "$1" | grep -vxFf "$note") || return 0
  [ "$1" != {PIVOT} ] || [ -z "$(others)" ] || return 0
  [ -z "$(find $(places "${{1%%/*}}") -name cgroup.procs -exec cat {{}} + 2>/dev/null)" ] || return 1
  find $found -depth -type d -exec rmdir {{}} + 2>/dev/null
}}
if [ -e "$note" ]; then
  tries=0
  while :; do
    left=
    for name in $(grep -v ^/ "$note"); do vacate "$name" || left=1; done
    [ -n "$left" ] && [ $((tries += 1)) -lt 20 ] || break
    sleep 0.1
  done
  rm -f "$note"
fi
"""
# Length of a listening socket's queue, alike in every target: with the default of 4096, thousands of clients that
# connect at once lose first packets, and the retransmission timer is measured instead of the server.
SOMAXCONN = 16384
# First line: the controllers that were on; then the cgroups that there were. The first system to come notes it.
CONTROLLERS = "/run/infrabench/controllers"
_REMEMBER = """
cd /sys/fs/cgroup && [ -e cgroup.subtree_control ] && [ ! -e "$1" ] || exit 0
mkdir -p "${1%/*}"
{ cat cgroup.subtree_control; grep -l 'populated 1' */cgroup.events; } >"$1.part"
mv "$1.part" "$1"
"""
# Switches off what was not on, if no system is left: the bridge tells. The kernel refuses to switch off what is in use
# further down. A cgroup that came since may rely on a controller without that: then all stay on. Ours need a moment to
# go. Nothing else of a session is noted in that folder by then.
_RESTORE = """
[ ! -d "/sys/class/net/$2" ] || exit 0
newcomers() { grep -l 'populated 1' */cgroup.events | grep -vxFf "$1"; }
if [ -e "$1" ] && cd /sys/fs/cgroup; then
  tries=0
  while [ $((tries += 1)) -lt 20 ] && newcomers "$1"; do sleep 0.1; done
  newcomers "$1" || for controller in $(cat cgroup.subtree_control); do
    head -n 1 "$1" | grep -qw "$controller" || echo "-$controller" >cgroup.subtree_control
  done
  rm -f "$1"
fi
rmdir "${1%/*}/empty" "${1%/*}" 2>/dev/null
:
"""
_LISTEN_QUEUE = """
file=/proc/sys/net/core/somaxconn
if unshare -Urn test -e "$file" 2>/dev/null; then echo "$1"; else unshare -n cat "$file" 2>/dev/null || cat "$file"; fi
"""


def guest_network(site: Site) -> Any:
    """Return the guest network of a site (`ipaddress.IPv4Network`); its first address is the bridge's.

    ::

        network = guest_bridge.guest_network(site)
        gateway, subnet = str(network[1]), str(network)
    """
    return ip_network(site.facts.get("guest_network", GUEST_NETWORK))


def spare_address(site: Site) -> str:
    """Return the address for a throw-away instance (one at a time): the last of the guest network.

    ::

        create = ("podman", "run", "--ip", guest_bridge.spare_address(site), ...)
    """
    return str(guest_network(site)[-2])


def derive_mac(address: str) -> str:
    """Return the hardware address that belongs to a guest address.

    Throw-away instances of all systems follow each other at one address: with a new hardware address each time, what
    talks to them would send to the one before for up to half a minute.

    >>> derive_mac("198.18.64.254")
    '02:49:42:00:02:fe'
    """
    return f"02:49:42:00:02:{int(address.rsplit('.', 1)[1]):02x}"


def list_lxc_cgroups(*names: str) -> tuple[str, ...]:
    """Return the cgroups that LXC makes for containers of these names, as `hold_bridge` takes them.

    >>> list_lxc_cgroups("infrabench-x")
    ('lxc.payload.infrabench-x', 'lxc.monitor.infrabench-x', 'lxc.pivot')
    """
    return (*(f"lxc.{part}.{name}" for name in names for part in ("payload", "monitor")), PIVOT)


@contextmanager
def hold_bridge(host: Host, site: Site, cgroups: Sequence[str] = ()) -> Iterator[None]:
    """Hold the bridge of the guest network on the host; the last user removes it.

    `cgroups` names those that the system's engine makes below the root of a hierarchy and may leave behind, empty,
    inner ones first. The last user removes them, except where there was one of that name before::

        with guest_bridge.hold_bridge(host, site, cgroups=("libpod_parent/conmon", "libpod_parent")):
            ...  # start the container with a port on guest_bridge.BRIDGE, yield, remove it
    """
    host.run(("sh", "-c", _REMEMBER, "sh", CONTROLLERS), timeout_s=10)
    network = guest_network(site)
    try:
        run_script(host, _BRIDGE_UP, BRIDGE, f"{network[1]}/{network.prefixlen}", *cgroups)
        yield
    finally:
        release_bridge(host)


def release_bridge(host: Host) -> None:
    """Remove the bridge, and put back what was noted when it was made, unless a system is still on it."""
    host.run(("sh", "-c", _BRIDGE_DOWN, "sh", BRIDGE), timeout_s=20)
    host.run(("sh", "-c", _RESTORE, "sh", CONTROLLERS, BRIDGE), timeout_s=20)
    host.run(("rm", "-f", SPARE_TAR, f"{SPARE_TAR}.mark"), timeout_s=20)


def listen_queue(host: Host) -> int:
    """Return the length of a listening socket's queue to set: one that every system can have on this kernel.

    Some kernels show it to no network of mapped user ids (LXD's); such a network has what every new one has.
    """
    return int(run_script(host, _LISTEN_QUEUE, str(SOMAXCONN), timeout_s=10))
