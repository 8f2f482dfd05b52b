"""What a killed session has left on a host: instances, their network, stores, and what they set.

The next session that has claimed the host removes it, whichever systems it names: a guest that was left would answer at
an address that another system is given. The lab removes it from this machine, where its addresses and those of guests
are of one range.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from infrabench import registry
from infrabench.core import Host, InfrabenchError, ProvisionError, SiteError
from infrabench.machines.hosts import claims, marks
from infrabench.machines.hosts.host import LocalHost
from infrabench_platforms import containers, guest_bridge
from infrabench_platforms.stores import upload

NOTES = Path("/run/infrabench")
NOTED = ("cgroups", "controllers", "ip_forward", "native", "netns")  # what systems keep there; others may keep more
LINKS = Path("/sys/class/net")
LOOK_S = 20.0
_LOOK = """
notes=$1 stores=$2
shift 2
for name; do [ ! -e "$notes/$name" ] || echo "$notes/$name"; done
ls "$stores"/*.json 2>/dev/null
"""

log = logging.getLogger(__name__)


def find() -> list[str]:
    """Return what there is on this machine of sessions on site `local`, whether they live or not."""
    ours = (LINKS / guest_bridge.BRIDGE).exists() and (NOTES / "ip_forward").exists()
    bridge = [f"bridge {guest_bridge.BRIDGE}"] if ours else []  # without the note it is somebody else's
    stores = sorted(map(str, Path(upload.FOLDER).glob("*.json")))
    return bridge + [str(NOTES / name) for name in NOTED if (NOTES / name).exists()] + stores


def remove(host: Host, say: Callable[[str], None] = log.info) -> None:
    """Remove what killed sessions have left on a host that the caller has claimed.

    Raises `ProvisionError` with what cannot be removed. Where nothing was left it costs one look. All of it is root's:
    for another user it stays, who measures on the host itself and at no address of guests.
    """
    if not _look(host):
        return
    if not containers.is_root(host):
        say(f"What a killed session has left on {host.name} stays: removing it takes root")
        return
    say(f"Removing what a killed session has left on {host.name}")
    if left := [*_remove_systems(host), *_look(host)]:
        raise ProvisionError(f"a killed session has left on {host.name} what cannot be removed: {', '.join(left)}")


def _look(host: Host) -> list[str]:
    """Return what there is on a host of sessions, whether they live or not."""
    argv = ("sh", "-c", _LOOK, "sh", str(NOTES), upload.FOLDER, *NOTED)
    return host.run(argv, timeout_s=LOOK_S).stdout.decode().splitlines()


def _remove_systems(host: Host) -> list[str]:
    """Remove instances and stores, then their bridge; return what failed, which keeps nothing else from going."""
    left = []
    removals: dict[str, Callable[[Host], None]] = {"stores": upload.remove}
    for name in registry.names("systems"):
        if remove_system := getattr(registry.system(name), "remove", None):
            removals[name] = remove_system
    for name, remove_system in removals.items():
        try:
            remove_system(host)
        except InfrabenchError as error:
            left.append(f"{name}: {error}")
    guest_bridge.release_bridge(host)
    return left


def remove_local(holder: claims.Holder | None = None, say: Callable[[str], None] = log.info) -> None:
    """Remove what killed sessions on site `local` have left; what belongs to one that lives stays.

    `holder` has claimed this machine already, where there is one. Raises `ProvisionError` when something cannot be
    removed.
    """
    if not find():
        return
    here = LocalHost("this machine")
    try:
        with claims.claim_hosts([here], holder or claims.make_holder("lab")):
            say("Removing what a killed session on site local has left on this machine")
            with marks.sweeping() as sweeper:
                left = sweeper.end_orphans([here])
            if left := [*left, *_remove_systems(here), *find()]:
                raise ProvisionError(
                    f"a killed session on site local has left what cannot be removed: {', '.join(left)}"
                )
    except SiteError as error:
        say(f"What is on this machine of site local stays: {error}")
