"""Docker: an application container made through the Docker SDK and entered by ``docker exec``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import docker
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.types import IPAMConfig, IPAMPool, Ulimit

from infrabench.core import Deployment, DeploySpec, Host, ProvisionError, Site, Target
from infrabench_platforms import containers, guest_bridge

NAME = "infrabench-docker"
SPARE = "infrabench-spare-docker"
NETWORK = "infrabench"
IMAGE = "infrabench/guest"
SOCKET = "/var/run/docker.sock"
CLIENT_S = 120
NO_ROUTING = 28  # from this version on, what others route to a container is dropped unless its network says otherwise
NEEDS = {"server": {"docker": "docker.io"}}
PARTS = ("docker", "dockerd", "containerd", "containerd-shim-runc-v2", "runc", "docker-init", "docker-proxy")


def supported(site: Site) -> str | None:
    """Return None, or why Docker cannot run on the site's server host."""
    version = ("docker", "version", "--format", "{{.Server.Version}}")
    return containers.explain_no_image(site) or containers.explain_failure(
        site.hosts["server"], "Docker does not answer", version
    )


@contextmanager
def deploy(site: Site, spec: DeploySpec) -> Iterator[Deployment]:
    """Yield a running container; it, its throw-away instances and its network are removed at the end."""
    host = site.hosts["server"]
    tar, image = containers.find_guest_image(site)
    tag = f"{IMAGE}:{image}"
    # A user of the docker group cannot make a bridge, but the daemon makes one of the same name for its network.
    with (
        host.forward(SOCKET) as socket,
        guest_bridge.hold_bridge(host, site) if containers.is_root(host) else nullcontext(),
    ):
        client = _connect(socket)
        try:
            _remove(client)
            try:
                client.images.get(tag)
            except ImageNotFound:
                # The tar lies on the host already; the SDK would send it through the forwarded socket.
                containers.check_output(host, ("docker", "import", tar, tag), timeout_s=containers.PROVISION_S)
            container = _start(client, host, site, spec, tag, containers.choose_cpus(host, spec.limits))
            folders = containers.find_cgroups(host, container.attrs["State"]["Pid"], container.id)
            target = Target("server", host, ("docker", "exec", NAME), spec.address, _lifecycle(site, spec, tag, host))
            limits = containers.verify_limits(target, spec.limits, "docker")
            switches = (container.pause, container.unpause)
            pause, resume = containers.make_freezer(host, folders) if containers.is_root(host) else switches
            facts = _facts(client, host, limits, folders, image)
            yield Deployment("docker", {"server": target}, facts, pause, resume, [(host, PARTS)])
        except DockerException as error:
            raise ProvisionError(f"docker on {host.name}: {error}") from error
        finally:
            _remove(client)
            if not containers.keeps_image(site):
                _remove_images(client)
            client.close()


def remove(host: Host) -> None:
    """Remove what deployments have made on the host, and what a killed one has left; images too."""
    if not host.run(("docker", "version"), timeout_s=20).ok:
        return  # without its daemon, nothing of it runs
    with host.forward(SOCKET) as socket:
        client = _connect(socket)
        try:
            _remove(client)
            _remove_images(client)
        except DockerException as error:
            raise ProvisionError(f"docker on {host.name}: {error}") from error
        finally:
            client.close()


def _connect(socket: str) -> docker.DockerClient:
    client = docker.DockerClient(base_url=f"unix://{socket}", timeout=CLIENT_S)
    client.api.headers["Connection"] = "close"  # else each address it was asked for keeps an SSH session open
    return client


def _remove(client: docker.DockerClient) -> None:
    """Remove every container and network that carries our label, and nothing else."""
    ours = {"label": containers.LABEL}
    for container in client.containers.list(all=True, filters=ours):
        try:
            if container.status == "paused":
                container.unpause()
            container.remove(force=True, v=True)
        except NotFound:  # gone between the list and here
            continue
    for network in client.networks.list(filters=ours):
        network.remove()


def _remove_images(client: docker.DockerClient) -> None:
    """Remove what was imported as `IMAGE`, now or by a run that was killed, except what somebody's container is of."""
    for tag in [tag for image in client.images.list(name=IMAGE) for tag in image.tags]:
        if tag.startswith(f"{IMAGE}:"):
            with suppress(APIError):
                client.images.remove(tag)


def _start(client: docker.DockerClient, host: Host, site: Site, spec: DeploySpec, tag: str, cpus: str) -> Any:
    network = guest_bridge.guest_network(site)
    pool = IPAMPool(subnet=str(network), gateway=str(network[1]))
    options = {
        "com.docker.network.bridge.name": guest_bridge.BRIDGE,
        "com.docker.network.bridge.enable_ip_masquerade": "false",
    }
    if int(client.version()["Version"].split(".")[0]) >= NO_ROUTING:
        options["com.docker.network.bridge.gateway_mode_ipv4"] = "nat-unprotected"
    client.networks.create(
        NETWORK, driver="bridge", ipam=IPAMConfig(pool_configs=[pool]), labels={containers.LABEL: spec.session},
        options=options,
    )  # fmt: skip
    limits = spec.limits
    container = client.containers.create(
        tag, ["sleep", "infinity"], name=NAME, hostname=NAME, init=True, labels={containers.LABEL: spec.session},
        sysctls={"net.core.somaxconn": str(guest_bridge.listen_queue(host))},
        cpuset_cpus=cpus, mem_limit=limits.memory_bytes, environment={"PATH": containers.PATH},
        ulimits=[Ulimit(name="nofile", soft=limits.nofile, hard=limits.nofile)], network=NETWORK,
        networking_config={NETWORK: client.api.create_endpoint_config(ipv4_address=spec.address)},
    )  # fmt: skip
    container.start()
    container.reload()
    if container.status != "running":
        raise ProvisionError(f"docker: the container is {container.status}: {container.logs(tail=5)!r}")
    return container


def _lifecycle(site: Site, spec: DeploySpec, tag: str, host: Host) -> dict[str, tuple[str, ...]]:
    limits = spec.limits
    address = guest_bridge.spare_address(site)
    create = (
        "docker", "run", "--detach", "--init", "--name", SPARE, "--label", f"{containers.LABEL}={spec.session}",
        "--cpuset-cpus", containers.choose_cpus(host, limits), "--memory", str(limits.memory_bytes),
        "--ulimit", f"nofile={limits.nofile}:{limits.nofile}", "--env", f"PATH={containers.PATH}",
        "--sysctl", f"net.core.somaxconn={guest_bridge.listen_queue(host)}", "--network", NETWORK, "--ip", address,
        "--mac-address", guest_bridge.derive_mac(address),
        tag, "sleep", "infinity",
    )  # fmt: skip
    return {
        "create": create,
        "exec": ("docker", "exec", SPARE),
        "remove": ("docker", "rm", "--force", "--volumes", SPARE),
        "address": (address,),
    }


def _facts(
    client: docker.DockerClient, host: Host, limits: dict[str, Any], folders: dict[str, str], image: str
) -> dict[str, Any]:
    version, info = client.version(), client.info()
    parts = {part["Name"]: part.get("Version") for part in version.get("Components", [])}
    return {
        "runs_on": f"Docker on {host.name}",
        "version": version.get("Version"),
        "components": parts,
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
