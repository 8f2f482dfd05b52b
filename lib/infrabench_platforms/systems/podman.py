"""Podman: an application container made and entered by Podman's own command line, rootful, without a daemon.

The runtime is crun, Podman's default, or runc where crun refuses the host: one with cgroup v1 and controllers in v2 as
well. The cgroup manager is cgroupfs, as Docker's, the storage Podman's own (``/var/lib/containers``). netavark 1.4
cannot make a bridge network without address translation, so the container gets a network namespace that was made
beforehand (``--network ns:PATH``): a veth on the bridge that every system has.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from infrabench.core import Deployment, DeploySpec, Host, ProvisionError, Site, Target
from infrabench_platforms import containers, guest_bridge

NAME = "infrabench-podman"
SPARE = "infrabench-spare-podman"
CGROUPS = ("libpod_parent/conmon", "libpod_parent")  # of every container with this cgroup manager
LINKS = {NAME: "ib-podman", SPARE: "ib-podman-spare"}  # network namespace -> the host's end of its veth
IMAGE = "localhost/infrabench/guest"
SPARE_IMAGE = f"{IMAGE}:spare"
PODMAN = ("podman", "--cgroup-manager=cgroupfs")
# A shell collects the processes that are orphaned, as Docker's --init does; catatonit need not be installed.
INIT = ("sh", "-c", "sleep infinity & while :; do wait; done")
NEEDS = {
    "server": {
        "podman": "podman", "crun": "crun", "ip": "iproute2", "nsenter": "util-linux", "prlimit": "util-linux",
        "sysctl": "procps",
    },
}  # fmt: skip

_RUNTIME = "if grep -qs . /sys/fs/cgroup/unified/cgroup.controllers; then echo runc; else echo crun; fi"

# Makes a network namespace on the bridge, then runs the command that follows.
_NETWORK = """
set -eu
name=$1 link=$2 bridge=$3 address=$4 mac=$5 gateway=$6 queue=$7
shift 7
ip netns add "$name"
ip link add "$link" type veth peer name eth0 address "$mac" netns "$name"
ip link set "$link" master "$bridge" up
ip -n "$name" link set lo up
ip -n "$name" addr add "$address" dev eth0
ip -n "$name" link set eth0 up
ip -n "$name" route add default via "$gateway"
nsenter --net="/run/netns/$name" sysctl -qw "net.core.somaxconn=$queue"
exec "$@"
"""

# Removes every container with our label, and the namespaces of these names. What a killed session left frozen does not
# die before it is thawed, and Podman does not know that it is frozen.
_REMOVE = """
label=$1; shift
for id in $(podman ps --all --quiet --no-trunc --filter "label=$label"); do
  for file in $(find /sys/fs/cgroup -path "*/libpod-$id*/freezer.state"); do echo THAWED >"$file"; done
  for file in $(find /sys/fs/cgroup -path "*/libpod-$id*/cgroup.freeze"); do echo 0 >"$file"; done
  podman --cgroup-manager=cgroupfs rm --force --time 0 --volumes "$id" >/dev/null || exit 1
done
for name; do
  [ ! -e "/run/netns/$name" ] || ip netns del "$name" || exit 1
done
"""

_REMOVE_SPARE = """
podman --cgroup-manager=cgroupfs rm --force --ignore --time 0 --volumes "$1" >/dev/null || exit 1
[ ! -e "/run/netns/$1" ] || exec ip netns del "$1"
"""

_REMOVE_IMAGE = '! podman image exists "$1" || exec podman image rm "$1" >/dev/null'

# What somebody runs a container of stays. With its first command Podman mounts the folder of its overlays on itself:
# that goes when nothing is left in it that could be in use. Where Podman does not answer, others may use the folder.
_REMOVE_IMAGES = """
for name in $(podman images --format '{{.Repository}}:{{.Tag}}'); do
  case $name in "$1":*) podman image rm "$name" >/dev/null 2>&1 ;; esac
done
left=$(podman ps --all --quiet && podman images --all --quiet) && [ -z "$left" ] &&
  umount /var/lib/containers/storage/overlay 2>/dev/null
:
"""


def supported(site: Site) -> str | None:
    """Return None, or why Podman cannot run on the site's server host."""
    if reason := containers.explain_no_image(site):
        return reason
    host = site.hosts["server"]
    programs = {*NEEDS["server"]} - {"crun"} | {_choose_runtime(host)}
    version = (*PODMAN, "info", "--format", "{{.Version.Version}}")
    return containers.explain_missing(host, *sorted(programs)) or containers.explain_failure(
        host, "Podman does not work", version
    )


@contextmanager
def deploy(site: Site, spec: DeploySpec) -> Iterator[Deployment]:
    """Yield a running container; it, its throw-away instances and their networks are removed at the end."""
    host = site.hosts["server"]
    tar, image = containers.find_guest_image(site)
    tag = f"{IMAGE}:{image}"
    _remove(host)
    with guest_bridge.hold_bridge(host, site, CGROUPS):
        try:
            if not host.run((*PODMAN, "image", "exists", tag), timeout_s=20).ok:
                importing = (*PODMAN, "import", "--quiet", tar, tag)
                containers.check_output(host, importing, timeout_s=containers.PROVISION_S)
            runtime = _choose_runtime(host)
            create = _create(site, spec, NAME, spec.address, tag, runtime)
            container = containers.check_output(host, create, timeout_s=60).decode().split()[-1]
            inspect = (*PODMAN, "inspect", "--format", "{{.State.Pid}}", container)
            folders = containers.find_cgroups(host, int(containers.check_output(host, inspect)), container)
            spare = guest_bridge.spare_address(site)
            create, imported = (_create(site, spec, SPARE, spare, each, runtime) for each in (tag, SPARE_IMAGE))
            importing = (*PODMAN, "import", "--quiet", containers.SPARE_TAR, SPARE_IMAGE)
            lifecycle = {
                **containers.import_steps(tar, importing, imported, ("sh", "-c", _REMOVE_IMAGE, "sh", SPARE_IMAGE)),
                "create": create,
                "exec": (*PODMAN, "exec", SPARE),
                "remove": ("sh", "-c", _REMOVE_SPARE, "sh", SPARE),
                "address": (spare,),
            }
            target = Target("server", host, (*PODMAN, "exec", NAME), spec.address, lifecycle)
            limits = containers.verify_limits(target, spec.limits, "podman")
            pause, resume = containers.make_freezer(host, folders)
            facts, programs = _facts(host, limits, folders, image, runtime), ("podman", "conmon", runtime)
            yield Deployment("podman", {"server": target}, facts, pause, resume, [(host, programs)])
        finally:
            _remove(host)
            if not containers.keeps_image(site):
                containers.run_script(host, _REMOVE_IMAGES, IMAGE, timeout_s=60)


def _choose_runtime(host: Host) -> str:
    return host.run(("sh", "-c", _RUNTIME), timeout_s=10).stdout.decode().strip() or "crun"


def remove(host: Host) -> None:
    """Remove what deployments have made on the host, and what a killed one has left; images too."""
    _remove(host)
    containers.run_script(host, _REMOVE_IMAGES, IMAGE, timeout_s=60)


def _remove(host: Host) -> None:
    containers.run_script(host, _REMOVE, containers.LABEL, *LINKS, timeout_s=60)


def _create(site: Site, spec: DeploySpec, name: str, address: str, tag: str, runtime: str) -> tuple[str, ...]:
    """Return the command that makes and starts a container of this name at this address."""
    host, limits, network = site.hosts["server"], spec.limits, guest_bridge.guest_network(site)
    queue, cpus = guest_bridge.listen_queue(host), containers.choose_cpus(host, limits)
    # Podman alone would set limits of its own on the number of processes: these are those of commands of the host.
    shown = containers.check_output(host, ("prlimit", "--nproc", "--output=SOFT,HARD", "--noheadings")).decode()
    processes = ":".join("-1" if each == "unlimited" else each for each in shown.split())
    return (
        "sh", "-c", _NETWORK, "sh", name, LINKS[name], guest_bridge.BRIDGE, f"{address}/{network.prefixlen}",
        guest_bridge.derive_mac(address), str(network[1]), str(queue),
        *PODMAN, f"--runtime={runtime}", "run", "--detach", "--name", name, "--hostname", name,
        "--label", f"{containers.LABEL}={spec.session}",
        "--network", f"ns:/run/netns/{name}", "--cpuset-cpus", cpus,
        "--memory", str(limits.memory_bytes), "--ulimit", f"nofile={limits.nofile}:{limits.nofile}",
        "--pids-limit=-1", "--ulimit", f"nproc={processes}",
        "--env", f"PATH={containers.PATH}", tag, *INIT,
    )  # fmt: skip


def _facts(host: Host, limits: dict[str, Any], folders: dict[str, str], image: str, runtime: str) -> dict[str, Any]:
    info = containers.read_json(host, (*PODMAN, "info", "--format", "json"))
    try:
        return {
            "runs_on": f"Podman on {host.name}",
            "version": info["version"]["Version"],
            "components": {
                "conmon": info["host"]["conmon"]["version"],
                runtime: containers.first_line(host.run((runtime, "--version"), timeout_s=10)),
            },
            "image": image,
            "storage": info["store"]["graphDriverName"],
            "cgroup_driver": info["host"]["cgroupManager"],
            "cgroup_version": info["host"]["cgroupVersion"],
            "runtime": runtime,
            "network": guest_bridge.NETWORK,
            # The names of what is on: seccompEnabled is seccomp, say.
            "security": sorted(
                name.removesuffix("Enabled")
                for name, on in info["host"]["security"].items()
                if name.endswith("Enabled") and on
            ),
            "limits": limits,
            "cgroups": containers.list_cgroups(folders),
        }
    except KeyError as error:
        raise ProvisionError(f"podman on {host.name}: its description of itself lacks {error}") from error
