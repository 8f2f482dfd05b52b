"""LXD: a system container made through pylxd and entered by ``lxc exec``; systemd is its init.

Life cycle goes through the API on LXD's unix socket, commands through LXD's own client: the API's exec over web sockets
cuts long output.
"""

from __future__ import annotations

import io
import logging
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pylxd
from pylxd.exceptions import LXDAPIException, NotFound
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from infrabench.core import Deployment, DeploySpec, Host, ProvisionError, Site, Target, wait
from infrabench_platforms import containers, guest_bridge

NAME = "infrabench-lxd"
SPARE = "infrabench-spare-lxd"
POOL = "infrabench"
IMAGE = "infrabench-guest-"  # then its hash
OURS = "made by infrabench"
SOCKETS = ("/var/lib/lxd/unix.socket", "/var/snap/lxd/common/lxd/unix.socket")
READY_S = 30.0
RAW = f"lxc.init.cmd = {containers.BOOT}"
NEEDS = {"server": {"lxc": "lxd-client", "ip": "iproute2", "lxd": "lxd", "newuidmap": "uidmap"}}

log = logging.getLogger(__name__)

_SPARE = """
set -eu
lxc init "$1" "$2" --no-profiles --storage "$3" --config "limits.cpu=$4" --config "limits.memory=$5" \
  --config "limits.kernel.nofile=$6" --config "raw.lxc=${11}" --config user.infrabench=spare >/dev/null
lxc config device add "$2" eth0 nic nictype=bridged "parent=$7" "hwaddr=${10}" name=eth0 >/dev/null
lxc start "$2"
exec lxc exec "$2" -T -n -- sh -c "ip link set eth0 up && ip addr add $8 dev eth0 && ip route add default via $9"
"""

_ADDRESS = "ip link set eth0 up && ip addr replace $0 dev eth0 && ip route replace default via $1"

_REMOVE = 'lxc info "$1" >/dev/null 2>&1 || exit 0; exec lxc delete --force "$1"'


def supported(site: Site) -> str | None:
    """Return None, or why LXD cannot run on the site's server host."""
    host = site.hosts["server"]
    if reason := containers.explain_no_image(site) or containers.explain_missing(host, "lxc", "ip"):
        return reason
    return None if _socket(host) else f"LXD does not run on {host.name}"


@contextmanager
def deploy(site: Site, spec: DeploySpec) -> Iterator[Deployment]:
    """Yield a running instance; it and its throw-away instances are removed at the end."""
    host = site.hosts["server"]
    tar, image = containers.find_guest_image(site)
    alias = f"{IMAGE}{image}"
    remote = _socket(host)
    if remote is None:
        raise ProvisionError(f"LXD's socket is gone on {host.name}; looked for {' and '.join(SOCKETS)}")
    cgroups = guest_bridge.list_lxc_cgroups(NAME, SPARE)
    with host.forward(remote) as socket, guest_bridge.hold_bridge(host, site, cgroups):
        client = _client(socket, host)
        try:
            _remove(client)
            _image(client, host, tar, image, alias)
            try:
                client.storage_pools.get(POOL)
            except NotFound:
                client.storage_pools.create({"name": POOL, "driver": "dir", "description": OURS})
            cpus = containers.choose_cpus(host, spec.limits)
            # LXD reads a bare number as a count of CPUs, a range as a set.
            cpus = cpus if "-" in cpus or "," in cpus else f"{cpus}-{cpus}"
            instance = _start(client, site, spec, alias, cpus)
            folders = containers.find_cgroups(host, instance.state().pid, NAME)
            target = Target("server", host, _enter(NAME), spec.address, _lifecycle(site, spec, alias, cpus))
            network = guest_bridge.guest_network(site)
            target.check(("sh", "-c", _ADDRESS, f"{spec.address}/{network.prefixlen}", str(network[1])), timeout_s=20)
            limits = containers.verify_limits(target, spec.limits, "lxd")
            pause, resume = containers.make_freezer(host, folders)
            yield Deployment("lxd", {"server": target}, _facts(client, host, limits, folders, image), pause, resume)
        except LXDAPIException as error:
            raise ProvisionError(f"lxd on {host.name}: {error}") from error
        finally:
            _remove(client)
            if not containers.keeps_image(site):
                _remove_images(client)


def remove(host: Host) -> None:
    """Remove what deployments have made on the host, and what a killed one has left; images too."""
    remote = _socket(host)
    if remote is None:
        return  # without its daemon, nothing of it runs
    with host.forward(remote) as socket:
        client = _client(socket, host)
        try:
            _remove(client)
        except LXDAPIException as error:
            raise ProvisionError(f"lxd on {host.name}: {error}") from error
        _remove_images(client)


def _socket(host: Host) -> str | None:
    test = 'for s; do [ -S "$s" ] && { echo "$s"; exit 0; }; done; exit 1'
    result = host.run(("sh", "-c", test, "sh", *SOCKETS), timeout_s=10)
    return result.stdout.decode().strip() if result.ok else None


def _client(socket: str, host: Host) -> pylxd.Client:
    refused = pylxd.exceptions.ClientConnectionFailed
    try:
        return wait.retry(lambda: pylxd.Client(endpoint=socket), refused, READY_S, pause_s=0.5)
    except refused as error:
        raise ProvisionError(f"lxd on {host.name} does not answer: {error}") from error


@retry(retry=retry_if_exception_type(LXDAPIException), stop=stop_after_delay(20), wait=wait_fixed(0.3), reraise=True)
def _remove(client: pylxd.Client) -> None:
    """Remove every instance that carries our label, and nothing else.

    LXD refuses while an earlier operation on the instance goes on, a start that failed for example: ask again then.
    """
    for instance in client.instances.all(recursion=1):
        if "user.infrabench" not in instance.config:
            continue
        if instance.status != "Stopped":
            if instance.status == "Frozen":
                instance.unfreeze(wait=True)
            instance.stop(force=True, wait=True)
        instance.delete(wait=True)


def _remove_images(client: pylxd.Client) -> None:
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
        log.warning("LXD keeps what was imported: %s. Try: lxc image list; lxc storage delete %s", error, POOL)


def _image(client: pylxd.Client, host: Host, tar: str, image: str, alias: str) -> None:
    if client.images.exists(alias, alias=True):
        return
    # A tar that tells LXD what kind of image the guest is.
    text = b"architecture: x86_64\ncreation_date: 1700000000\nproperties: {description: guest}\ntemplates: {}\n"
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        entry = tarfile.TarInfo("metadata.yaml")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))
    metadata = f"/var/tmp/infrabench-metadata-{image}.tar"
    host.put(out.getvalue(), metadata)
    try:
        argv = ("lxc", "image", "import", metadata, tar, "--alias", alias)
        containers.check_output(host, argv, timeout_s=containers.PROVISION_S)
    finally:
        host.run(("rm", "-f", metadata), timeout_s=10)


def _start(client: pylxd.Client, site: Site, spec: DeploySpec, alias: str, cpus: str) -> Any:
    limits = spec.limits
    # Where the kernel does not show it inside, setting it would keep the instance from starting.
    settable = guest_bridge.listen_queue(site.hosts["server"]) == guest_bridge.SOMAXCONN
    sysctl = {"linux.sysctl.net.core.somaxconn": str(guest_bridge.SOMAXCONN)} if settable else {}
    instance = client.instances.create(
        {
            "name": NAME,
            "type": "container",
            "source": {"type": "image", "alias": alias},
            "profiles": [],
            "config": {
                "limits.cpu": cpus,
                "limits.memory": f"{limits.memory_bytes}B",
                "limits.kernel.nofile": str(limits.nofile),
                **sysctl,
                "raw.lxc": RAW,
                "user.infrabench": spec.session,
                "boot.autostart": "false",
            },
            "devices": {
                "root": {"type": "disk", "path": "/", "pool": POOL},
                "eth0": {"type": "nic", "nictype": "bridged", "parent": guest_bridge.BRIDGE, "name": "eth0"},
            },
        },
        wait=True,
    )
    instance.start(wait=True)
    return instance


def _enter(name: str) -> tuple[str, ...]:
    return ("lxc", "exec", name, "-T", "-n", "--env", f"PATH={containers.PATH}", "--")


def _lifecycle(site: Site, spec: DeploySpec, alias: str, cpus: str) -> dict[str, tuple[str, ...]]:
    network, address = guest_bridge.guest_network(site), guest_bridge.spare_address(site)
    limits = spec.limits
    arguments = (
        alias, SPARE, POOL, cpus, f"{limits.memory_bytes}B", str(limits.nofile), guest_bridge.BRIDGE,
        f"{address}/{network.prefixlen}", str(network[1]), guest_bridge.derive_mac(address), RAW,
    )  # fmt: skip
    return {
        "create": ("sh", "-c", _SPARE, "sh", *arguments),
        "exec": _enter(SPARE),
        "remove": ("sh", "-c", _REMOVE, "sh", SPARE),
        "address": (address,),
    }


def _facts(
    client: pylxd.Client, host: Host, limits: dict[str, Any], folders: dict[str, str], image: str
) -> dict[str, Any]:
    environment = client.host_info["environment"]
    return {
        "runs_on": f"LXD on {host.name}",
        "version": environment.get("server_version"),
        "driver": f"{environment.get('driver')} {environment.get('driver_version')}",
        "image": image,
        "storage": "dir (a folder of the host's file system)",
        "network": guest_bridge.NETWORK,
        "security": "unprivileged container (mapped user ids), LXD's default seccomp",
        "limits": limits,
        "cgroups": containers.list_cgroups(folders),
    }
