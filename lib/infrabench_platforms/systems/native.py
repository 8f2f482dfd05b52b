"""Native: the server host itself, no engine, inside the same limits and on the same bridge as the guests.

In the lab the host is a lab node (a system container on the same kernel); elsewhere it is the machine.
Without root no cgroup and no network namespace can be made: then only the limits that a user can set hold, and the
facts say so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from infrabench.core import Deployment, DeploySpec, Host, Limits, Site, Target
from infrabench_platforms import containers, guest_bridge

NAME = "infrabench-native"
HOME = "/run/infrabench/native"
IMAGE = "/var/tmp/infrabench-native"  # where the guest image is unpacked, for which native has no use
FILES = "/srv/infrabench/ftp"  # what the workload ftp serves is made here once, for all its trials
NEEDS = {"server": {"ip": "iproute2", "nsenter": "util-linux", "sysctl": "procps"}}
ON_HOST = True
PLAIN = {"storage": "the host's file system", "security": "none"}
LAB = {
    "runs_on": "the lab's server node (a system container on this kernel)",
    "storage": "the node's overlay; in /var/tmp the machine's file system",
}

_UP = r"""
set -eu
name=$1 home=$2 bridge=$3 address=$4 gateway=$5 cpus=$6 memory=$7 nofile=$8
mkdir -p "$home"
ip netns add "$name"
ip link add ib-native type veth peer name eth0 netns "$name"
ip link set ib-native master "$bridge" up
ip -n "$name" link set lo up
ip -n "$name" addr add "$address" dev eth0
ip -n "$name" link set eth0 up
ip -n "$name" route add default via "$gateway"
nsenter --net="/run/netns/$name" sysctl -qw "net.core.somaxconn=$9"
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  for controller in cpuset cpu memory; do echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control; done
  group=/sys/fs/cgroup/$name
  mkdir -p "$group"
  echo "$cpus" >"$group/cpuset.cpus"
  echo "$memory" >"$group/memory.max"
  groups=$group
else
  groups=
  for controller in cpuset memory cpu cpuacct; do
    group=/sys/fs/cgroup/$controller/$name
    [ -d "/sys/fs/cgroup/$controller" ] || continue
    mkdir -p "$group"
    groups="$groups $group"
  done
  cat /sys/fs/cgroup/cpuset/cpuset.mems >"/sys/fs/cgroup/cpuset/$name/cpuset.mems"
  echo "$cpus" >"/sys/fs/cgroup/cpuset/$name/cpuset.cpus"
  echo "$memory" >"/sys/fs/cgroup/memory/$name/memory.limit_in_bytes"
fi
{
  echo '#!/bin/sh'
  for group in $groups; do echo "echo 0 >$group/cgroup.procs"; done
  echo "ulimit -n $nofile"
  echo "exec nsenter --net=/run/netns/$name -- \"\$@\""
} >"$home/enter.part"
chmod 755 "$home/enter.part"
mv "$home/enter.part" "$home/enter"
"""

# A process that waits for a disk dies only after that: 20 s.
_DOWN = rf"""
{containers.TELL_PROCESSES}
name=$1 home=$2 image=$3
tries=0
while :; do
  left=
  for group in /sys/fs/cgroup/"$name" /sys/fs/cgroup/*/"$name"; do
    [ -d "$group" ] || continue
    while read -r pid; do kill -9 "$pid"; done <"$group/cgroup.procs" 2>/dev/null
    rmdir "$group" 2>/dev/null || left=1
  done
  [ -n "$left" ] || break
  tries=$((tries + 1))
  [ "$tries" -lt 200 ] || {{
    echo "processes of $name do not end, or its cgroups cannot be removed" >&2
    tell_processes /sys/fs/cgroup/"$name" /sys/fs/cgroup/*/"$name"
    exit 1
  }}
  sleep 0.1
done
[ -e "/run/netns/$name" ] && ip netns del "$name"
ip link del ib-native 2>/dev/null
rm -rf "$home" "$image"
exit 0
"""
# Where its user may not remove a file, that user has made none.
_REMOVE_FILES = '[ ! -w "$1" ] || rm -f "$1"/[0-9]*.bin "$1"/[0-9]*.bin.part'
_GROUPS = """\
for g in /sys/fs/cgroup/cpu/"$1" /sys/fs/cgroup/memory/"$1" /sys/fs/cgroup/"$1"; do [ -d "$g" ] && echo "$g"; done; :"""


def supported(site: Site) -> str | None:
    """Return None: a host can always run its own programs."""
    return None


@contextmanager
def deploy(site: Site, spec: DeploySpec) -> Iterator[Deployment]:
    """Yield the host as a deployment; its cgroup, network namespace, helper script and files go at the end."""
    host = site.hosts["server"]
    if not containers.is_root(host):
        _remove_files(host)
        try:
            yield _as_user(site, host, spec.limits)
        finally:
            _remove_files(host)
        return
    remove(host)
    with guest_bridge.hold_bridge(host, site):
        try:
            net = guest_bridge.guest_network(site)
            containers.run_script(
                host, _UP, NAME, HOME, guest_bridge.BRIDGE, f"{spec.address}/{net.prefixlen}", str(net[1]),
                containers.choose_cpus(host, spec.limits), str(spec.limits.memory_bytes), str(spec.limits.nofile),
                str(guest_bridge.listen_queue(host)),
            )  # fmt: skip
            enter = ("sh", f"{HOME}/enter")  # named to sh: many hosts mount /run noexec
            lifecycle = {
                # A process needs no making: the baseline of start-up is one program through the same wrapper.
                "create": (*enter, "true"),
                "exec": enter,
                "remove": ("true",),
                "address": (spec.address,),
            }
            if image := site.facts.get("guest_image"):  # one is not made for native alone
                imports = containers.unpack_command(containers.SPARE_TAR, f"{IMAGE}/rootfs")
                lifecycle |= containers.import_steps(image["tar"], imports, lifecycle["create"], ("rm", "-rf", IMAGE))
            target = Target("server", host, enter, spec.address, lifecycle)
            limits = containers.verify_limits(target, spec.limits, "native")
            groups = containers.run_script(host, _GROUPS, NAME).split()
            network = f"veth on bridge {guest_bridge.BRIDGE}, routed, own network namespace"
            facts = {"runs_on": "the host itself", "network": network, **PLAIN, "limits": limits, "cgroups": groups}
            yield Deployment("native", {"server": target}, facts | (LAB if site.kind == "lab" else {}))
        finally:
            remove(host)


def remove(host: Host) -> None:
    """Remove what deployments have made on the host, and what a killed one has left."""
    containers.run_script(host, _DOWN, NAME, HOME, IMAGE, timeout_s=60)
    _remove_files(host)


def _remove_files(host: Host) -> None:
    containers.run_script(host, _REMOVE_FILES, FILES)


def _as_user(site: Site, host: Host, limits: Limits) -> Deployment:
    prefix = ("prlimit", f"--nofile={limits.nofile}")
    if not host.run((*prefix, "true"), timeout_s=10).ok:
        prefix = ()
    if limits.cpus:
        prefix = (*prefix, "taskset", "-c", limits.cpus)
    create = {"create": ("true",), "exec": prefix or ("env",), "remove": ("true",), "address": (host.address,)}
    target = Target("server", host, prefix, host.address, create)
    facts = {
        "runs_on": "the host itself, as an ordinary user", "network": "the host's own", **PLAIN,
        "limits": {**containers.read_limits(target), "note": "memory not limited: that needs root"},
        "cgroups": [],
    }  # fmt: skip
    return Deployment("native", {"server": target}, facts)
