"""What a session on site `local` that was killed has left on this machine: instances, their network, what they set.

The next session there removes it; the lab has to, since its addresses and those of the guests on this machine are of
one range.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from infrabench import registry
from infrabench.core import InfrabenchError, ProvisionError, SiteError
from infrabench.machines.hosts import claims, marks
from infrabench.machines.hosts.host import LocalHost
from infrabench_platforms import guest_bridge

NOTES = Path("/run/infrabench")
NOTED = ("cgroups", "controllers", "ip_forward", "native", "netns")  # what systems keep there; others may keep more
LINKS = Path("/sys/class/net")

log = logging.getLogger(__name__)


def find() -> list[str]:
    """Return what there is on this machine of sessions on site `local`, whether they live or not."""
    ours = (LINKS / guest_bridge.BRIDGE).exists() and (NOTES / "ip_forward").exists()
    bridge = [f"bridge {guest_bridge.BRIDGE}"] if ours else []  # without the note it is somebody else's
    return bridge + [str(NOTES / name) for name in NOTED if (NOTES / name).exists()]


def remove(holder: claims.Holder | None = None, say: Callable[[str], None] = log.info) -> None:
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
            for name in registry.names("systems"):
                if remove_system := getattr(registry.system(name), "remove", None):
                    try:
                        remove_system(here)
                    except InfrabenchError as error:  # what the others have left goes all the same
                        left.append(f"{name}: {error}")
            guest_bridge.release_bridge(here)
            if left := [*left, *find()]:
                raise ProvisionError(
                    f"a killed session on site local has left what cannot be removed: {', '.join(left)}"
                )
    except SiteError as error:
        say(f"What is on this machine of site local stays: {error}")
