"""Loop devices of the lab's stores: the kernel keeps them when the node that made them is gone.

One is the lab's when it was made over a file of a store and that file, as this machine sees it, is another or none: a
store on this machine itself has its files where the name says.
"""

from __future__ import annotations

import time
from pathlib import Path

from infrabench.core import ProvisionError
from infrabench.machines.stores.node import disks
from infrabench.machines.stores.node.config import HOMES as FOLDER
from infrabench.machines.stores.node.config import StoreError

HOMES = str(FOLDER)
DETACH_S, PAUSE_S = 20.0, 0.3  # one that lies over another is free only after it, and processes take their time to die


def detach(name: str = "") -> None:
    """Detach the loop devices of the store `name`, or of all; `ProvisionError` when one stays."""
    deadline = time.monotonic() + DETACH_S
    while (left := _find_devices(name)) and time.monotonic() < deadline:
        for device in left:
            try:
                disks.detach(device)
            except (StoreError, OSError):  # held by what goes away now, or gone itself
                time.sleep(PAUSE_S)
    if left:
        raise ProvisionError(f"loop devices of a store cannot be detached: {', '.join(map(str, left))}")


def list_devices() -> list[str]:
    """Return the loop devices that stores of the lab have, or had."""
    return [str(device) for device in _find_devices("")]


def _find_devices(name: str) -> list[Path]:
    begin = f"{HOMES}/{name}/" if name else f"{HOMES}/"
    return [device for device, path, inode in disks.named_devices(begin) if not disks.is_here(path, inode)]
