"""LXC: a system container made and entered by LXC's own tools; systemd is its init.

The guest's root is a plain folder (LXC's default back end), and so is that of a throw-away instance: a copy of a never
started one, which is unpacked once a session (in the lab once an image). LXD and Incus unpack theirs into a folder too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from infrabench.core import Deployment, DeploySpec, Host, Site, Target
from infrabench_platforms import containers, guest_bridge

HOME = "/var/lib/lxc"
NAME = "infrabench-lxc"
BASE = "infrabench-base"
SPARE = "infrabench-spare-lxc"
SPARE_BASE = "infrabench-spare-base"
NEEDS = {"server": {"lxc-start": "lxc", "lxc-attach": "lxc", "tar": "tar", "ip": "iproute2"}}
PARTS = ("lxc-start", "lxc-attach", "lxc-copy", "/usr/lib/*/liblxc.so.1")  # the engine is the library

_UNPACK = """
set -eu
home=$1 base=$2 tar=$3 hash=$4
[ "$(cat "$home/$base/hash" 2>/dev/null)" = "$hash" ] && exit 0
rm -rf "$home/$base"
mkdir -p "$home/$base/rootfs"
chmod 700 "$home/$base"  # it has programs with setuid root
tar -C "$home/$base/rootfs" --numeric-owner --xattrs -xf "$tar"
echo "$hash" >"$home/$base/hash"
"""

# Ends what runs in containers of these names, by their cgroups: one whose monitor was killed counts as stopped, and
# frozen processes die once thawed. LXC adds a number to the name of a cgroup that is there already. One that waits
# for a disk dies only after that: 20 s.
_END = f"""
{containers.TELL_PROCESSES}
list() {{
  for top in /sys/fs/cgroup /sys/fs/cgroup/*; do
    [ ! -L "$top" ] || continue
    for part in payload monitor; do ls -d "$top/lxc.$part.$1" "$top/lxc.$part.$1"-[0-9] 2>/dev/null; done
  done
}}
for name; do
  tries=0
  while groups=$(list "$name"); [ -n "$groups" ]; do
    [ $((tries += 1)) -lt 200 ] || {{
      echo "processes of $name do not end, or its cgroups cannot be removed:" $groups >&2
      tell_processes $groups
      exit 1
    }}
    for group in $groups; do
      find "$group" -name cgroup.procs -exec cat {{}} + | while read -r pid; do [ "$pid" = 0 ] || kill -9 "$pid"; done
      [ ! -e "$group/freezer.state" ] || echo THAWED >"$group/freezer.state"
      [ ! -e "$group/cgroup.freeze" ] || echo 0 >"$group/cgroup.freeze"
      find "$group" -depth -type d -exec rmdir {{}} +
    done 2>/dev/null
    sleep 0.1
  done
done
"""

# A container that still runs keeps its folder: what is below it is in use, and its name is how it is found.
_REMOVE = """
home=$1; shift
for name; do
  if lxc-info -P "$home" -n "$name" -sH 2>/dev/null | grep -qvx STOPPED; then
    lxc-unfreeze -P "$home" -n "$name" 2>/dev/null
    timeout 20 lxc-stop -P "$home" -n "$name" -k || { echo "$name does not stop" >&2; exit 1; }
  fi
  rm -rf "${home:?}/$name"
done
"""

# The removal is timed: whether there is something to remove is asked only where it failed.
_REMOVE_SPARE = f'timeout 20 lxc-stop -P "$1" -n "$2" -k && exec rm -rf "$1/$2"\n{_REMOVE}'

_COPY = 'set -eu; mkdir -p "$1/$3"; chmod 700 "$1/$3"; cp -a "$1/$2/rootfs" "$1/$3/rootfs"'

_SPARE = f'{_COPY}; cp "$4" "$1/$3/config"; exec lxc-start -P "$1" -n "$3" -d'


def supported(site: Site) -> str | None:
    """Return None, or why LXC cannot run on the site's server host."""
    return containers.explain_no_image(site) or containers.explain_missing(site.hosts["server"], *NEEDS["server"])


@contextmanager
def deploy(site: Site, spec: DeploySpec) -> Iterator[Deployment]:
    """Yield a running system container; it and its throw-away instances are removed at the end."""
    host = site.hosts["server"]
    tar, image = containers.find_guest_image(site)
    _end(host)
    with guest_bridge.hold_bridge(host, site, guest_bridge.list_lxc_cgroups(NAME, SPARE)):
        try:
            containers.run_script(host, _UNPACK, HOME, BASE, tar, image, timeout_s=containers.PROVISION_S)
            containers.run_script(host, _COPY, HOME, BASE, NAME, timeout_s=containers.PROVISION_S)
            cpus = containers.choose_cpus(host, spec.limits)
            host.put(_config(site, spec, NAME, spec.address, cpus).encode(), f"{HOME}/{NAME}/config")
            spare, spare_config = guest_bridge.spare_address(site), f"{HOME}/{NAME}/spare.config"
            host.put(_config(site, spec, SPARE, spare, cpus).encode(), spare_config)
            containers.check_output(host, ("lxc-start", "-P", HOME, "-n", NAME, "-d"))
            containers.check_output(host, ("lxc-wait", "-P", HOME, "-n", NAME, "-s", "RUNNING", "-t", "20"))
            pid = int(containers.check_output(host, ("lxc-info", "-P", HOME, "-n", NAME, "-pH")))
            folders = containers.find_cgroups(host, pid, NAME)
            create, imported = (
                ("sh", "-c", _SPARE, "sh", HOME, base, SPARE, spare_config) for base in (BASE, SPARE_BASE)
            )
            imports = containers.unpack_command(containers.SPARE_TAR, f"{HOME}/{SPARE_BASE}/rootfs")
            lifecycle = {
                **containers.import_steps(tar, imports, imported, ("rm", "-rf", f"{HOME}/{SPARE_BASE}")),
                "create": create,
                "exec": _enter(SPARE),
                "remove": ("sh", "-c", _REMOVE_SPARE, "sh", HOME, SPARE),
                "address": (spare,),
            }
            target = Target("server", host, _enter(NAME), spec.address, lifecycle)
            limits = containers.verify_limits(target, spec.limits, "lxc")
            pause, resume = containers.make_freezer(host, folders)
            facts = _facts(host, limits, folders, image)
            yield Deployment("lxc", {"server": target}, facts, pause, resume, [(host, PARTS)])
        finally:
            unpacked = () if containers.keeps_image(site) else (BASE,)
            containers.run_script(host, _REMOVE, HOME, NAME, SPARE, SPARE_BASE, *unpacked, timeout_s=60)


def remove(host: Host) -> None:
    """Remove what deployments have made on the host, and what a killed one has left; the unpacked image too."""
    _end(host)
    containers.run_script(host, _REMOVE, HOME, BASE, timeout_s=60)


def _end(host: Host) -> None:
    containers.run_script(host, _END, NAME, SPARE, timeout_s=60)
    containers.run_script(host, _REMOVE, HOME, NAME, SPARE, SPARE_BASE, timeout_s=60)


def _enter(name: str) -> tuple[str, ...]:
    return ("lxc-attach", "-P", HOME, "-n", name, "--clear-env", "--set-var", f"PATH={containers.PATH}", "--")


def _config(site: Site, spec: DeploySpec, name: str, address: str, cpus: str) -> str:
    network = guest_bridge.guest_network(site)
    memory = spec.limits.memory_bytes
    return f"""\
lxc.include = /usr/share/lxc/config/common.conf
lxc.uts.name = {name}
lxc.rootfs.path = dir:{HOME}/{name}/rootfs
lxc.init.cmd = {containers.BOOT}
lxc.apparmor.profile = unconfined
lxc.cgroup.cpuset.cpus = {cpus}
lxc.cgroup.memory.limit_in_bytes = {memory}
lxc.cgroup2.cpuset.cpus = {cpus}
lxc.cgroup2.memory.max = {memory}
lxc.sysctl.net.core.somaxconn = {guest_bridge.listen_queue(site.hosts["server"])}
lxc.prlimit.nofile = {spec.limits.nofile}
lxc.net.0.type = veth
lxc.net.0.link = {guest_bridge.BRIDGE}
lxc.net.0.name = eth0
lxc.net.0.hwaddr = {guest_bridge.derive_mac(address)}
lxc.net.0.flags = up
lxc.net.0.ipv4.address = {address}/{network.prefixlen}
lxc.net.0.ipv4.gateway = {network[1]}
"""


def _facts(host: Host, limits: dict[str, Any], folders: dict[str, str], image: str) -> dict[str, Any]:
    return {
        "runs_on": f"LXC on {host.name}",
        "version": containers.first_line(host.run(("lxc-start", "--version"), timeout_s=10)),
        "image": image,
        "storage": "dir (a folder of the host's file system)",
        "network": guest_bridge.NETWORK,
        "security": "privileged container, LXC's default capability drops and seccomp profile, no AppArmor",
        "limits": limits,
        "cgroups": containers.list_cgroups(folders),
    }
