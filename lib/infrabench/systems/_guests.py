"""What every system does alike: one bridge, one freezer, one check of the limits from inside.

A system gets the same network path as every other: a veth on the bridge `BRIDGE` of the server host, routed, no NAT.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from ipaddress import ip_network
from typing import Any

from infrabench.core import CommandFailed, Host, Limits, NotRunnable, ProvisionError, Result, Site, Target
from infrabench.systems import _kernel

BRIDGE = "infrabench1"
GUEST_NETWORK = "198.18.64.0/24"
LABEL = "infrabench"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# The last address of the guest network belongs to throw-away instances.
PROVISION_S = 180.0

_BRIDGE_UP = """
set -eu
if [ ! -d "/sys/class/net/$1" ]; then
  mkdir -p /run/infrabench
  cat /proc/sys/net/ipv4/ip_forward >/run/infrabench/ip_forward
  ip link add "$1" address 02:49:42:00:00:02 type bridge stp_state 0 forward_delay 0
fi
ip addr replace "$2" dev "$1"
ip link set "$1" up
sysctl -qw net.ipv4.ip_forward=1
# Docker's packet filter, where it is on, drops what is routed to a bridge that it did not make.
if command -v iptables >/dev/null && iptables -nL DOCKER-USER >/dev/null 2>&1; then
  iptables -C DOCKER-USER -o "$1" -j ACCEPT -m comment --comment infrabench 2>/dev/null ||
    iptables -I DOCKER-USER -o "$1" -j ACCEPT -m comment --comment infrabench
fi
"""

# The bridge has a fixed address: else it takes one from its ports, and neighbours keep sending to the old one.
# The last system to leave takes the bridge with it, and the host forwards packets only if it did before.
_BRIDGE_DOWN = """
[ -d "/sys/class/net/$1" ] || exit 0
[ -z "$(ls "/sys/class/net/$1/brif")" ] || exit 0
ip link del "$1"
if [ -e /run/infrabench/ip_forward ]; then
  cat /run/infrabench/ip_forward >/proc/sys/net/ipv4/ip_forward
  rm -f /run/infrabench/ip_forward
fi
if command -v iptables >/dev/null; then
  iptables -D DOCKER-USER -o "$1" -j ACCEPT -m comment --comment infrabench 2>/dev/null || true
fi
"""

# Prints the limits that hold for this very process. The smallest memory limit on the way up to the root counts.
_LIMITS = r"""
set -u
cpus=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
least=max
consider() {
  [ -r "$1" ] || return 0
  value=$(cat "$1")
  [ "$value" = max ] && return 0
  [ "$least" = max ] && { least=$value; return 0; }
  [ "$value" -lt "$least" ] && least=$value
  return 0
}
up() { # root, path, file
  path=$2
  while :; do
    consider "$1$path/$3"
    [ -n "$path" ] && [ "$path" != / ] || break
    path=${path%/*}
  done
}
while IFS=: read -r _ controllers path; do
  case ",$controllers," in
    *,memory,*) up /sys/fs/cgroup/memory "$path" memory.limit_in_bytes ;;
    ,,) up /sys/fs/cgroup "$path" memory.max ;;
  esac
done </proc/self/cgroup
printf '{"cpus": "%s", "memory_bytes": "%s", "nofile": "%s"}\n' "$cpus" "$least" "$(ulimit -n)"
"""

_FREEZE = """
set -eu
file=$1 word=$2
[ -e "$file" ] || { echo "no freezer at $file" >&2; exit 1; }
echo "$word" >"$file"
case $file in
  */freezer.state) check=$file want=$word ;;
  *) check=${file%/*}/cgroup.events want="frozen $word" ;;
esac
tries=0
until grep -qx "$want" "$check"; do
  tries=$((tries + 1))
  [ "$tries" -lt 2000 ] || { echo "$file did not become $word" >&2; exit 1; }
done
"""

_CGROUP = """
set -eu
while IFS=: read -r _ controllers path; do
  case ",$controllers," in
    *,freezer,*) echo "freezer /sys/fs/cgroup/freezer$path" ;;
    *,cpu,*) echo "cpu /sys/fs/cgroup/cpu$path" ;;
    *,memory,*) echo "memory /sys/fs/cgroup/memory$path" ;;
    ,,) if [ -e /sys/fs/cgroup/cgroup.controllers ]; then echo "unified /sys/fs/cgroup$path"; fi ;;
  esac
done <"/proc/$1/cgroup"
"""


def check(host: Host, argv: Sequence[str], *, timeout_s: float = 30, stdin: bytes = b"") -> bytes:
    """Return the stdout of a command on the host that has to succeed; raises `ProvisionError`."""
    result = host.run(argv, timeout_s=timeout_s, stdin=stdin)
    if not result.ok:
        raise ProvisionError(str(CommandFailed(result, host.name)))
    return result.stdout


def script(host: Host, text: str, *args: str, timeout_s: float = 30) -> str:
    """Return what a shell script prints on the host; raises `ProvisionError` when it fails."""
    return check(host, ("sh", "-c", text, "sh", *args), timeout_s=timeout_s).decode()


def is_root(host: Host) -> bool:
    """Tell whether commands on the host run as root."""
    return host.run(("id", "-u"), timeout_s=10).stdout.strip() == b"0"


def need(host: Host, *programs: str) -> str | None:
    """Return None, or the reason why a system that needs these programs (and root) cannot run on the host."""
    test = 'for p; do command -v "$p" >/dev/null || printf "%s " "$p"; done'
    missing = host.run(("sh", "-c", test, "sh", *programs), timeout_s=10).stdout.decode().strip()
    if missing:
        return f"not installed on {host.name}: {missing}"
    return None if is_root(host) else f"needs root on {host.name}"


def guest_network(site: Site) -> Any:
    """Return the guest network of a site (`ipaddress.IPv4Network`)."""
    return ip_network(site.facts.get("guest_network", GUEST_NETWORK))


def gateway(site: Site) -> str:
    """Return the bridge's own address, with its prefix length."""
    network = guest_network(site)
    return f"{network[1]}/{network.prefixlen}"


def spare_address(site: Site) -> str:
    """Return the address for a throw-away instance (one at a time)."""
    return str(guest_network(site)[-2])


def mac(address: str) -> str:
    """Return the hardware address that belongs to a guest address.

    Throw-away instances of all systems follow each other at one address: with a new hardware address each time, what
    talks to them would send to the one before for up to half a minute.
    """
    return f"02:49:42:00:02:{int(address.rsplit('.', 1)[1]):02x}"


def no_image(site: Site) -> str:
    """Return why a site has no guest image."""
    return f"no guest image: {site.facts.get('guest_image_reason', 'this site makes none')}"


def guest_tar(site: Site) -> tuple[str, str]:
    """Return path (on the server host) and hash of the guest image; `NotRunnable` when the site has none."""
    image = site.facts.get("guest_image")
    if not image:
        raise NotRunnable(no_image(site))
    return image["tar"], image["hash"]


@contextmanager
def bridge(host: Host, site: Site) -> Iterator[None]:
    """Hold the bridge of the guest network on the host; the last user removes it."""
    _kernel.remember_controllers(host)
    script(host, _BRIDGE_UP, BRIDGE, gateway(site))
    try:
        yield
    finally:
        host.run(("sh", "-c", _BRIDGE_DOWN, "sh", BRIDGE), timeout_s=20)
        _kernel.restore_controllers(host, BRIDGE)


def cgroups(host: Host, pid: int, mark: str) -> dict[str, str]:
    """Return controller -> cgroup folder of the guest whose init is `pid`: the part of its path up to `mark`."""
    folders = {}
    for line in script(host, _CGROUP, str(pid)).splitlines():
        controller, path = line.split(" ", 1)
        names = path.split("/")
        last = next((i for i, name in enumerate(names) if mark in name), None)
        if last is not None:
            folders[controller] = "/".join(names[: last + 1])
    return folders


def freezer(host: Host, folders: Mapping[str, str]) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return (pause, resume) through the guest's cgroup freezer: what the engines' own pause uses, in one exec."""
    if "freezer" in folders:
        file, frozen, thawed = f"{folders['freezer']}/freezer.state", "FROZEN", "THAWED"
    elif "unified" in folders:
        file, frozen, thawed = f"{folders['unified']}/cgroup.freeze", "1", "0"
    else:
        raise ProvisionError(f"{host.name}: the guest is in no cgroup with a freezer: {dict(folders)}")
    return (lambda: _set(host, file, frozen)), (lambda: _set(host, file, thawed))


def _set(host: Host, file: str, word: str) -> None:
    script(host, _FREEZE, file, word, timeout_s=10)


def effective_limits(target: Target) -> dict[str, Any]:
    """Return the limits that a process inside the target finds for itself."""
    printed = json.loads(target.check(("sh", "-c", _LIMITS), timeout_s=10))
    memory = printed["memory_bytes"]
    return {
        "cpus": printed["cpus"],
        "memory_bytes": int(memory) if memory.isdigit() else None,
        "nofile": int(printed["nofile"]) if printed["nofile"].isdigit() else None,
    }


def verify_limits(target: Target, limits: Limits, system: str) -> dict[str, Any]:
    """Return the effective limits; `ProvisionError` when one of them is not what was asked for."""
    found = effective_limits(target)
    wanted = {"memory_bytes": limits.memory_bytes, "nofile": limits.nofile}
    if limits.cpus:
        wanted["cpus"] = limits.cpus
    wrong = {key: (value, found[key]) for key, value in wanted.items() if found[key] != value}
    if wrong:
        told = "; ".join(f"{key}: asked for {asked}, found {is_}" for key, (asked, is_) in wrong.items())
        raise ProvisionError(f"{system}: limits inside the target differ from those set: {told}")
    return found


def cpu_list(host: Host, limits: Limits) -> str:
    """Return the CPU list to set: the one asked for, or all that the host itself may use."""
    if limits.cpus:
        return limits.cpus
    return script(host, "sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status").strip()


def first_line(result: Result) -> str | None:
    """Return the first line that a version command printed, or None when it failed."""
    lines = (result.stdout or result.stderr).decode("utf-8", "replace").strip().splitlines()
    return lines[0] if result.ok and lines else None
