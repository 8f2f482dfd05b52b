"""LXD and Incus, its fork: a system container made through pylxd and entered by the client; systemd is its init.

Both have one API and one command line. Life cycle goes through the API on the daemon's unix socket, commands through
its own client: the API's exec over web sockets cuts long output.
"""

from __future__ import annotations

import io
import json
import logging
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pylxd
from pylxd.exceptions import LXDAPIException, NotFound
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from infrabench.core import Deployment, DeploySpec, Host, ProvisionError, Site, Target, wait
from infrabench_platforms import containers, guest_bridge

POOL = "infrabench"
IMAGE = "infrabench-guest-"  # then its hash
OURS = "made by infrabench"
READY_S = 30.0

log = logging.getLogger(__name__)

# $0: the client, which reads what the instance is to be from its input: YAML, and so JSON.
_SPARE = 'printf %s "$3" | "$0" launch "$1" "$2" --no-profiles >/dev/null'

# The removal is timed: whether there is something to remove is asked only where it failed.
_REMOVE = """
"$0" delete --force "$1" && exit
every=$("$0" list --format csv --columns n) || exit 1
! printf '%s\\n' "$every" | grep -qxF -- "$1"
"""


@dataclass(frozen=True, slots=True)
class ContainerManager:
    """A daemon with LXD's API, and how it is found on a host."""

    name: str
    title: str
    client: str  # its program
    sockets: tuple[str, ...]  # where the daemon may listen
    NEEDS: Mapping[str, Mapping[str, str]]
    parts: tuple[str, ...]  # programs and libraries that it consists of

    @property
    def instance(self) -> str:
        """Name of the instance that is measured."""
        return f"infrabench-{self.name}"

    @property
    def spare(self) -> str:
        """Name of the throw-away instances."""
        return f"infrabench-spare-{self.name}"

    def supported(self, site: Site) -> str | None:
        """Return None, or why it cannot run on the site's server host."""
        host = site.hosts["server"]
        if reason := containers.explain_no_image(site) or containers.explain_missing(host, self.client, "ip"):
            return reason
        return None if self.find_socket(host) else f"{self.title} does not run on {host.name}"

    @contextmanager
    def deploy(self, site: Site, spec: DeploySpec) -> Iterator[Deployment]:
        """Yield a running instance; it and its throw-away instances are removed at the end."""
        host = site.hosts["server"]
        tar, image = containers.find_guest_image(site)
        alias = f"{IMAGE}{image}"
        remote = self.find_socket(host)
        if remote is None:
            where = " and ".join(self.sockets)
            raise ProvisionError(f"{self.title}'s socket is gone on {host.name}; looked for {where}")
        cgroups = guest_bridge.list_lxc_cgroups(self.instance, self.spare)
        with host.forward(remote) as socket, guest_bridge.hold_bridge(host, site, cgroups):
            client = self.connect(socket, host)
            try:
                _remove(client)
                _image(self, client, host, tar, image, alias)
                try:
                    client.storage_pools.get(POOL)
                except NotFound:
                    client.storage_pools.create({"name": POOL, "driver": "dir", "description": OURS})
                cpus = containers.choose_cpus(host, spec.limits)
                # A bare number is read as a count of CPUs, a range as a set.
                cpus = cpus if "-" in cpus or "," in cpus else f"{cpus}-{cpus}"
                instance = client.instances.create(
                    {
                        "name": self.instance,
                        "type": "container",
                        "source": {"type": "image", "alias": alias},
                        "profiles": [],
                        **_describe_instance(site, spec, spec.address, cpus),
                    },
                    wait=True,
                )
                instance.start(wait=True)
                folders = containers.find_cgroups(host, instance.state().pid, self.instance)
                lifecycle = _lifecycle(self, site, spec, alias, cpus)
                target = Target("server", host, _enter(self, self.instance), spec.address, lifecycle)
                limits = containers.verify_limits(target, spec.limits, self.name)
                pause, resume = containers.make_freezer(host, folders)
                facts = _facts(self, client, host, limits, folders, image)
                yield Deployment(self.name, {"server": target}, facts, pause, resume, [(host, self.parts)])
            except LXDAPIException as error:
                raise ProvisionError(f"{self.name} on {host.name}: {error}") from error
            finally:
                _remove(client)
                if not containers.keeps_image(site):
                    _remove_images(self, client)

    def remove(self, host: Host) -> None:
        """Remove what deployments have made on the host, and what a killed one has left; images too."""
        remote = self.find_socket(host)
        if remote is None:
            return  # without its daemon, nothing of it runs
        with host.forward(remote) as socket:
            client = self.connect(socket, host)
            try:
                _remove(client)
            except LXDAPIException as error:
                raise ProvisionError(f"{self.name} on {host.name}: {error}") from error
            _remove_images(self, client)

    def find_socket(self, host: Host) -> str | None:
        """Return where the daemon listens on the host; None where it does not run."""
        test = 'for s; do [ -S "$s" ] && { echo "$s"; exit 0; }; done; exit 1'
        result = host.run(("sh", "-c", test, "sh", *self.sockets), timeout_s=10)
        return result.stdout.decode().strip() if result.ok else None

    def connect(self, socket: str, host: Host) -> pylxd.Client:
        """Return a client of the daemon's API; `ProvisionError` when it does not answer."""
        refused = pylxd.exceptions.ClientConnectionFailed
        try:
            client = wait.retry(lambda: pylxd.Client(endpoint=socket), refused, READY_S, pause_s=0.5)
        except refused as error:
            raise ProvisionError(f"{self.name} on {host.name} does not answer: {error}") from error
        client.api.session.headers["Connection"] = "close"  # else each address it was asked for keeps an SSH session
        return client


@retry(retry=retry_if_exception_type(LXDAPIException), stop=stop_after_delay(20), wait=wait_fixed(0.3), reraise=True)
def _remove(client: pylxd.Client) -> None:
    """Remove every instance that carries our label, and nothing else.

    The daemon refuses while an earlier operation on the instance goes on, a start that failed for example: ask again
    then.
    """
    for instance in client.instances.all(recursion=1):
        if "user.infrabench" not in instance.config:
            continue
        if instance.status != "Stopped":
            if instance.status == "Frozen":
                instance.unfreeze(wait=True)
            instance.stop(force=True, wait=True)
        instance.delete(wait=True)


def _remove_images(of: ContainerManager, client: pylxd.Client) -> None:
    """Remove what was imported, now or by a run that was killed, and the storage pool, unless others use that."""
    try:
        for image in client.images.all():
            if any(alias["name"].startswith(IMAGE) for alias in image.aliases):
                image.delete(wait=True)
        pool = client.storage_pools.get(POOL)
        if pool.description == OURS and not pool.used_by:
            pool.delete()
    except NotFound:  # it came to nothing so early
        return
    except LXDAPIException as error:  # what was measured is as good as before
        log.warning(
            "%s keeps what was imported: %s. Try: %s image list; %s storage delete %s",
            of.title, error, of.client, of.client, POOL,
        )  # fmt: skip


def _image(of: ContainerManager, client: pylxd.Client, host: Host, tar: str, image: str, alias: str) -> None:
    if client.images.exists(alias, alias=True):
        return
    # A tar that tells what kind of image the guest is.
    text = b"architecture: x86_64\ncreation_date: 1700000000\nproperties: {description: guest}\ntemplates: {}\n"
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        entry = tarfile.TarInfo("metadata.yaml")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))
    metadata = f"/var/tmp/infrabench-metadata-{image}.tar"
    host.put(out.getvalue(), metadata)
    try:
        argv = (of.client, "image", "import", metadata, tar, "--alias", alias)
        containers.check_output(host, argv, timeout_s=containers.PROVISION_S)
    finally:
        host.run(("rm", "-f", metadata), timeout_s=10)


def _describe_instance(site: Site, spec: DeploySpec, address: str, cpus: str) -> dict[str, Any]:
    """Return configuration and devices of an instance at this address, as the API and the client take them."""
    limits, network = spec.limits, guest_bridge.guest_network(site)
    # Where the kernel does not show it inside, setting it would keep the instance from starting.
    settable = guest_bridge.listen_queue(site.hosts["server"]) == guest_bridge.SOMAXCONN
    sysctl = {"linux.sysctl.net.core.somaxconn": str(guest_bridge.SOMAXCONN)} if settable else {}
    raw = (
        f"lxc.init.cmd = {containers.BOOT}",
        f"lxc.net.0.ipv4.address = {address}/{network.prefixlen}",
        f"lxc.net.0.ipv4.gateway = {network[1]}",
    )
    return {
        "config": {
            "limits.cpu": cpus,
            "limits.memory": f"{limits.memory_bytes}B",
            "limits.kernel.nofile": str(limits.nofile),
            **sysctl,
            "raw.lxc": "\n".join(raw),
            "user.infrabench": spec.session,
            "boot.autostart": "false",
        },
        "devices": {
            "root": {"type": "disk", "path": "/", "pool": POOL},
            "eth0": {
                "type": "nic", "nictype": "bridged", "parent": guest_bridge.BRIDGE, "name": "eth0",
                "hwaddr": guest_bridge.derive_mac(address),
            },
        },
    }  # fmt: skip


def _enter(of: ContainerManager, name: str) -> tuple[str, ...]:
    return (of.client, "exec", name, "-T", "-n", "--env", f"PATH={containers.PATH}", "--")


def _lifecycle(
    of: ContainerManager, site: Site, spec: DeploySpec, alias: str, cpus: str
) -> dict[str, tuple[str, ...]]:  # fmt: skip
    address = guest_bridge.spare_address(site)
    instance = json.dumps(_describe_instance(site, spec, address, cpus))
    return {
        "create": ("sh", "-c", _SPARE, of.client, alias, of.spare, instance),
        "exec": _enter(of, of.spare),
        "remove": ("sh", "-c", _REMOVE, of.client, of.spare),
        "address": (address,),
    }


def _facts(
    of: ContainerManager, client: pylxd.Client, host: Host, limits: dict[str, Any], folders: dict[str, str], image: str
) -> dict[str, Any]:
    environment = client.host_info["environment"]
    return {
        "runs_on": f"{of.title} on {host.name}",
        "version": environment.get("server_version"),
        "driver": f"{environment.get('driver')} {environment.get('driver_version')}",
        "image": image,
        "storage": "dir (a folder of the host's file system)",
        "network": guest_bridge.NETWORK,
        "security": f"unprivileged container (mapped user ids), {of.title}'s default seccomp",
        "limits": limits,
        "cgroups": containers.list_cgroups(folders),
    }


FAMILY = {
    "lxd": ContainerManager(
        "lxd", "LXD", "lxc", ("/var/lib/lxd/unix.socket", "/var/snap/lxd/common/lxd/unix.socket"),
        {"server": {"lxc": "lxd-client", "ip": "iproute2", "lxd": "lxd", "newuidmap": "uidmap"}},
        ("lxc", "lxd", "/usr/lib/*/liblxc.so.1"),
    ),
    "incus": ContainerManager(
        "incus", "Incus", "incus", ("/var/lib/incus/unix.socket",),
        {
            "server": {
                "incus": "incus-client", "ip": "iproute2", "/usr/libexec/incus/incusd": "incus-base",
                "newuidmap": "uidmap",
            },
        },
        ("incus", "/usr/libexec/incus/incusd", "/usr/lib/*/liblxc.so.1"),
    ),
}  # fmt: skip
