"""LXD and Incus, its fork: a system container made and entered by the client; systemd is its init.

Both have one API and one command line, which tells as JSON what there is.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from infrabench.core import Deployment, DeploySpec, Host, ProvisionError, Site, Target, wait
from infrabench_platforms import containers, guest_bridge

POOL = "infrabench"
IMAGE = "infrabench-guest-"  # then its hash
SPARE_IMAGE = f"{IMAGE}spare"
OURS = "made by infrabench"
LABEL = f"user.{containers.LABEL}"
READY_S = 30.0
REMOVE_S = 20.0

log = logging.getLogger(__name__)

# $0: the client, which reads what the instance is to be from its input: YAML, and so JSON.
_CREATE = 'printf %s "$3" | "$0" launch "$1" "$2" --no-profiles >/dev/null'

# An image comes with a tar that tells what kind it is.
_IMPORT = """
set -eu
folder=$(mktemp -d /var/tmp/infrabench-metadata.XXXXXX)
trap 'rm -rf "$folder"' EXIT
echo '{architecture: x86_64, creation_date: 1700000000, properties: {description: guest}, templates: {}}' \
  >"$folder/metadata.yaml"
tar -C "$folder" -cf "$folder/metadata.tar" metadata.yaml
"$0" image import "$folder/metadata.tar" "$1" --alias "$2" >/dev/null
"""

_REMOVE_IMAGE = """
"$0" image delete "$1" 2>/dev/null && exit
every=$("$0" image list --format csv --columns l) || exit 1
! printf '%s\n' "$every" | grep -qxF -- "$1"
"""

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
        return self.explain_elsewhere(host) if self.is_running(host) else f"{self.title} does not run on {host.name}"

    @contextmanager
    def deploy(self, site: Site, spec: DeploySpec) -> Iterator[Deployment]:
        """Yield a running instance; it and its throw-away instances are removed at the end."""
        host = site.hosts["server"]
        tar, image = containers.find_guest_image(site)
        alias = f"{IMAGE}{image}"
        cgroups = guest_bridge.list_lxc_cgroups(self.instance, self.spare)
        with guest_bridge.hold_bridge(host, site, cgroups):
            server = self.wait_for_answer(host)
            try:
                _remove(self, host)
                _import(self, host, tar, alias)
                cpus = containers.choose_cpus(host, spec.limits)
                # A bare number is read as a count of CPUs, a range as a set.
                cpus = cpus if "-" in cpus or "," in cpus else f"{cpus}-{cpus}"
                create = _create(self, site, spec, self.instance, spec.address, alias, cpus)
                containers.check_output(host, create, timeout_s=containers.PROVISION_S)
                state = _ask(self, host, "query", f"/1.0/instances/{self.instance}/state")
                folders = containers.find_cgroups(host, state["pid"], self.instance)
                lifecycle = _lifecycle(self, site, spec, alias, cpus, tar)
                target = Target("server", host, _enter(self, self.instance), spec.address, lifecycle)
                limits = containers.verify_limits(target, spec.limits, self.name)
                pause, resume = containers.make_freezer(host, folders)
                facts = _facts(self, server["environment"], host, limits, folders, image)
                yield Deployment(self.name, {"server": target}, facts, pause, resume, [(host, self.parts)])
            finally:
                _remove(self, host)
                if not containers.keeps_image(site):
                    _remove_images(self, host)

    def remove(self, host: Host) -> None:
        """Remove what deployments have made on the host, and what a killed one has left; images too."""
        if not self.is_running(host) or self.explain_elsewhere(host):
            return  # without its daemon, nothing of it runs
        self.wait_for_answer(host)
        _remove(self, host)
        _remove_images(self, host)

    def is_running(self, host: Host) -> bool:
        """Tell whether the daemon listens on the host."""
        test = 'for s; do [ ! -S "$s" ] || exit 0; done; exit 1'
        return host.run(("sh", "-c", test, "sh", *self.sockets), timeout_s=10).ok

    def explain_elsewhere(self, host: Host) -> str | None:
        """Return None, or that the client on the host asks another server than the host's own."""
        if host.run((self.client, "remote", "get-default"), timeout_s=20).stdout.decode().strip() == "local":
            return None
        return f"{self.client} on {host.name} asks another server. Try: {self.client} remote switch local"

    def wait_for_answer(self, host: Host) -> Any:
        """Return what the daemon tells of itself; `ProvisionError` when it does not answer."""
        return wait.retry(lambda: _ask(self, host, "query", "/1.0"), ProvisionError, READY_S, pause_s=0.5)


def _ask(of: ContainerManager, host: Host, *words: str) -> Any:
    return containers.read_json(host, (of.client, *words))


def _list(of: ContainerManager, host: Host, *words: str) -> Any:
    """Return what a command lists: without anything it may be null, for which ``query`` prints nothing at all."""
    return _ask(of, host, *words, "--format", "json") or []


def _list_images(of: ContainerManager, host: Host) -> dict[str, str]:
    """Return alias -> fingerprint of the images that were imported, now or by a run that was killed."""
    every = _list(of, host, "image", "list")
    aliases = {alias["name"]: image["fingerprint"] for image in every for alias in image["aliases"]}
    return {alias: fingerprint for alias, fingerprint in aliases.items() if alias.startswith(IMAGE)}


def _find_pool(of: ContainerManager, host: Host) -> Any:
    """Return what the daemon tells of the storage pool; None where there is none."""
    every = _list(of, host, "storage", "list")
    return next((pool for pool in every if pool["name"] == POOL), None)


def _remove(of: ContainerManager, host: Host) -> None:
    """Remove every instance that carries our label, and nothing else.

    The daemon refuses while an earlier operation on the instance goes on, a start that failed for example: ask again
    then.
    """

    def remove_every() -> None:
        # One column, for others make the client ask for the state of every instance.
        for instance in _list(of, host, "list", "--columns", "n"):
            if LABEL in instance["config"]:
                if instance["status"] == "Frozen":
                    containers.check_output(host, (of.client, "start", instance["name"]))  # thaws it
                containers.check_output(host, (of.client, "delete", "--force", instance["name"]), timeout_s=60)

    wait.retry(remove_every, ProvisionError, REMOVE_S, pause_s=0.3)


def _remove_images(of: ContainerManager, host: Host) -> None:
    """Remove what was imported, and the storage pool, unless others use that."""
    try:
        for fingerprint in {*_list_images(of, host).values()}:
            containers.check_output(host, (of.client, "image", "delete", fingerprint), timeout_s=60)
        pool = _find_pool(of, host)
        if pool and pool["description"] == OURS and not pool["used_by"]:
            containers.check_output(host, (of.client, "storage", "delete", POOL), timeout_s=60)
    except ProvisionError as error:  # what was measured is as good as before
        log.warning(
            "%s keeps what was imported: %s. Try: %s image list; %s storage delete %s",
            of.title, error, of.client, of.client, POOL,
        )  # fmt: skip


def _import(of: ContainerManager, host: Host, tar: str, alias: str) -> None:
    """Import the image, and make the storage pool, where they are not there."""
    if not _find_pool(of, host):
        pool = json.dumps({"name": POOL, "driver": "dir", "description": OURS})
        create = (of.client, "query", "--wait", "--request", "POST", "--data", pool, "/1.0/storage-pools")
        containers.check_output(host, create, timeout_s=60)
    if alias not in _list_images(of, host):
        imports = ("sh", "-c", _IMPORT, of.client, tar, alias)
        containers.check_output(host, imports, timeout_s=containers.PROVISION_S)


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
            LABEL: spec.session,
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


def _create(
    of: ContainerManager, site: Site, spec: DeploySpec, name: str, address: str, alias: str, cpus: str
) -> tuple[str, ...]:  # fmt: skip
    """Return the command that makes and starts an instance of this name at this address."""
    return ("sh", "-c", _CREATE, of.client, alias, name, json.dumps(_describe_instance(site, spec, address, cpus)))


def _lifecycle(
    of: ContainerManager, site: Site, spec: DeploySpec, alias: str, cpus: str, tar: str
) -> dict[str, tuple[str, ...]]:  # fmt: skip
    address = guest_bridge.spare_address(site)
    create, imported = (_create(of, site, spec, of.spare, address, each, cpus) for each in (alias, SPARE_IMAGE))
    imports = ("sh", "-c", _IMPORT, of.client, containers.SPARE_TAR, SPARE_IMAGE)
    remove_image = ("sh", "-c", _REMOVE_IMAGE, of.client, SPARE_IMAGE)
    return {
        **containers.import_steps(tar, imports, imported, remove_image),
        "create": create,
        "exec": _enter(of, of.spare),
        "remove": ("sh", "-c", _REMOVE, of.client, of.spare),
        "address": (address,),
    }


def _facts(
    of: ContainerManager, environment: dict[str, Any], host: Host, limits: dict[str, Any], folders: dict[str, str],
    image: str,
) -> dict[str, Any]:  # fmt: skip
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
