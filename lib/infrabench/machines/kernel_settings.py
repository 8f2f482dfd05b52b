"""What systems set in the kernel of a host besides their own limits: cgroup controllers and the listening queue.

LXC and native switch cgroup v2 controllers on for the whole host, and nobody off again. That changes how the host
shares its CPUs among slices, so the last system to leave puts back what the first one found. With cgroup v1 there is
nothing to do.
"""

from __future__ import annotations

from infrabench.core import Host
from infrabench.machines.containers import run_script

# Length of a listening socket's queue, alike in every target: with the default of 4096, thousands of clients that
# connect at once lose first packets, and the retransmission timer is measured instead of the server.
SOMAXCONN = 16384
KNOWN = "/run/infrabench/controllers"  # first line: what was on; then the cgroups that there were

_REMEMBER = """
cd /sys/fs/cgroup && [ -e cgroup.subtree_control ] && [ ! -e "$1" ] || exit 0
mkdir -p "${1%/*}"
{ cat cgroup.subtree_control; grep -l 'populated 1' */cgroup.events; } >"$1.part"
mv "$1.part" "$1"
"""

# The kernel refuses to switch off what is in use further down. A cgroup that came since may rely on a controller
# without that: then all stay on. Ours need a moment to go. Nothing else of a session is noted in that folder by then.
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


def listen_queue(host: Host) -> int:
    """Return the length of a listening socket's queue to set: one that every system can have on this kernel.

    Some kernels show it to no network of mapped user ids (LXD's); such a network has what every new one has.
    """
    return int(run_script(host, _LISTEN_QUEUE, str(SOMAXCONN), timeout_s=10))


def remember_controllers(host: Host) -> None:
    """Note on the host which controllers are on, unless a system that is there already did."""
    host.run(("sh", "-c", _REMEMBER, "sh", KNOWN), timeout_s=10)


def restore_controllers(host: Host, bridge: str) -> None:
    """Switch off what was not on before the first system came, if none is left: the systems' bridge tells."""
    host.run(("sh", "-c", _RESTORE, "sh", KNOWN, bridge), timeout_s=20)
