"""Docker: an application container made and entered by Docker's own command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

from infrabench.core import Deployment, DeploySpec, Host, ProvisionError, Site, Target
from infrabench_platforms import containers, guest_bridge

NAME = "infrabench-docker"
SPARE = "infrabench-spare-docker"
NETWORK = "infrabench"
IMAGE = "infrabench/guest"
SPARE_IMAGE = f"{IMAGE}:spare"
SOCKETS = ("unix:///var/run/docker.sock", "unix:///run/docker.sock")  # where a host's own daemon listens
ANSWER_S = 120.0
NO_ROUTING = 28  # from this version on, what others route to a container is dropped unless its network says otherwise
NEEDS = {"server": {"docker": "docker.io"}}
PARTS = ("docker", "dockerd", "containerd", "containerd-shim-runc-v2", "runc", "docker-init", "docker-proxy")

# Removes every container and network with our label, and nothing else.
_REMOVE = """
set -e
label=$1
list() { docker ps --all --no-trunc --filter "label=$label" "$@"; }
paused=$(list --quiet --filter status=paused)
[ -z "$paused" ] || docker unpause $paused >/dev/null || :
every=$(list --quiet)
[ -z "$every" ] || docker rm --force --volumes $every >/dev/null || {
  list --format '{{.Names}} is still there' >&2
  exit 1
}
docker image rm --force "$2" >/dev/null 2>&1 || :
networks=$(docker network ls --quiet --no-trunc --filter "label=$label")
[ -z "$networks" ] || docker network rm $networks >/dev/null
"""


def supported(site: Site) -> str | None:
    """Return None, or why Docker cannot run on the site's server host."""
    host, version = site.hosts["server"], ("docker", "version", "--format", "{{.Server.Version}}")
    return (
        containers.explain_no_image(site)
        or containers.explain_failure(host, "Docker does not answer", version)
        or _explain_elsewhere(host)
    )


@contextmanager
def deploy(site: Site, spec: DeploySpec) -> Iterator[Deployment]:
    """Yield a running container; it, its throw-away instances and its network are removed at the end."""
    host = site.hosts["server"]
    tar, image = containers.find_guest_image(site)
    tag = f"{IMAGE}:{image}"
    # A user of the docker group cannot make a bridge, but the daemon makes one of the same name for its network.
    with guest_bridge.hold_bridge(host, site) if containers.is_root(host) else nullcontext():
        try:
            _remove(host)
            if not host.run(("docker", "image", "inspect", tag), timeout_s=ANSWER_S).ok:
                containers.check_output(host, ("docker", "import", tar, tag), timeout_s=containers.PROVISION_S)
            server = _ask(host, "version")["Server"]
            _make_network(host, site, spec, server["Version"])
            container = _start(host, _create(site, spec, NAME, spec.address, tag, "--hostname", NAME))
            folders = containers.find_cgroups(host, container["State"]["Pid"], container["Id"])
            target = Target("server", host, ("docker", "exec", NAME), spec.address, _lifecycle(site, spec, tag, tar))
            limits = containers.verify_limits(target, spec.limits, "docker")
            switches = [partial(containers.check_output, host, ("docker", word, NAME)) for word in ("pause", "unpause")]
            pause, resume = containers.make_freezer(host, folders) if containers.is_root(host) else switches
            facts = _facts(host, server, limits, folders, image)
            yield Deployment("docker", {"server": target}, facts, pause, resume, [(host, PARTS)])
        finally:
            _remove(host)
            if not containers.keeps_image(site):
                _remove_images(host)


def remove(host: Host) -> None:
    """Remove what deployments have made on the host, and what a killed one has left; images too."""
    if not host.run(("docker", "version"), timeout_s=20).ok or _explain_elsewhere(host):
        return  # without its daemon, nothing of it runs
    _remove(host)
    _remove_images(host)


def _explain_elsewhere(host: Host) -> str | None:
    """Return None, or that Docker's client on the host asks another daemon than the host's own."""
    asked = host.run(("docker", "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"), timeout_s=20)
    if asked.stdout.decode().strip() in SOCKETS:
        return None
    return (
        f"docker on {host.name} asks another daemon than {SOCKETS[0]}. Try: docker context use default, and unset "
        "DOCKER_HOST"
    )


def _ask(host: Host, *words: str) -> Any:
    """Return what a command of Docker tells, all of it."""
    return containers.read_json(host, ("docker", *words, "--format", "{{json .}}"), timeout_s=ANSWER_S)


def _remove(host: Host) -> None:
    containers.run_script(host, _REMOVE, containers.LABEL, SPARE_IMAGE, timeout_s=ANSWER_S)


def _remove_images(host: Host) -> None:
    """Remove what was imported as `IMAGE`, now or by a run that was killed, except what somebody's container is of."""
    listing = ("docker", "image", "ls", "--format", "{{.Repository}}:{{.Tag}}", IMAGE)
    for tag in containers.check_output(host, listing, timeout_s=ANSWER_S).decode().split():
        host.run(("docker", "image", "rm", tag), timeout_s=ANSWER_S)


def _make_network(host: Host, site: Site, spec: DeploySpec, version: str) -> None:
    network = guest_bridge.guest_network(site)
    options = {"name": guest_bridge.BRIDGE, "enable_ip_masquerade": "false"}
    if int(version.split(".")[0]) >= NO_ROUTING:
        options["gateway_mode_ipv4"] = "nat-unprotected"
    create = (
        "docker", "network", "create", "--driver", "bridge", "--subnet", str(network), "--gateway", str(network[1]),
        "--label", f"{containers.LABEL}={spec.session}",
        *(f"--opt=com.docker.network.bridge.{key}={value}" for key, value in options.items()), NETWORK,
    )  # fmt: skip
    containers.check_output(host, create, timeout_s=ANSWER_S)


def _create(site: Site, spec: DeploySpec, name: str, address: str, tag: str, *options: str) -> tuple[str, ...]:
    """Return the command that makes and starts a container of this name at this address."""
    host, limits = site.hosts["server"], spec.limits
    return (
        "docker", "run", "--detach", "--init", "--name", name, "--label", f"{containers.LABEL}={spec.session}",
        "--cpuset-cpus", containers.choose_cpus(host, limits), "--memory", str(limits.memory_bytes),
        "--ulimit", f"nofile={limits.nofile}:{limits.nofile}", "--env", f"PATH={containers.PATH}",
        "--sysctl", f"net.core.somaxconn={guest_bridge.listen_queue(host)}", "--network", NETWORK, "--ip", address,
        *options, tag, "sleep", "infinity",
    )  # fmt: skip


def _start(host: Host, create: tuple[str, ...]) -> Any:
    """Make and start the container that is measured; return what Docker tells of it."""
    containers.check_output(host, create, timeout_s=ANSWER_S)
    container = _ask(host, "inspect", "--type", "container", NAME)
    if (status := container["State"]["Status"]) != "running":
        logs = host.run(("docker", "logs", "--tail", "5", NAME), timeout_s=20)
        raise ProvisionError(f"docker on {host.name}: the container is {status}: {logs.stdout + logs.stderr!r}")
    return container


def _lifecycle(site: Site, spec: DeploySpec, tag: str, tar: str) -> dict[str, tuple[str, ...]]:
    address = guest_bridge.spare_address(site)
    create, imported = (
        _create(site, spec, SPARE, address, each, "--mac-address", guest_bridge.derive_mac(address))
        for each in (tag, SPARE_IMAGE)
    )
    imports = ("docker", "import", containers.SPARE_TAR, SPARE_IMAGE)
    return {
        **containers.import_steps(tar, imports, imported, ("docker", "image", "rm", "--force", SPARE_IMAGE)),
        "create": create,
        "exec": ("docker", "exec", SPARE),
        "remove": ("docker", "rm", "--force", "--volumes", SPARE),
        "address": (address,),
    }


def _facts(
    host: Host, server: dict[str, Any], limits: dict[str, Any], folders: dict[str, str], image: str
) -> dict[str, Any]:
    info = _ask(host, "info")
    return {
        "runs_on": f"Docker on {host.name}",
        "version": server["Version"],
        "components": {part["Name"]: part.get("Version") for part in server.get("Components", [])},
        "image": image,
        "storage": info.get("Driver"),
        "cgroup_driver": info.get("CgroupDriver"),
        "cgroup_version": info.get("CgroupVersion"),
        "runtime": info.get("DefaultRuntime"),
        "network": guest_bridge.NETWORK,
        "security": info.get("SecurityOptions"),
        "limits": limits,
        "cgroups": containers.list_cgroups(folders),
    }
