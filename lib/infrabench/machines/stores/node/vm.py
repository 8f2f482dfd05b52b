"""What engines do alike whose volume is used inside a virtual machine: there it is a disk, filled and measured by fio.

Only verbs that single requests need are there; the others are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import block, guest
from .config import MODES, Config, StoreError

MIB = 2**20
REFUSED = ("mount", "empty", "throttle", "fail", "replace", "corrupt", "scrub", "repair")
# A flush is what turns write-back caches of a disk on where they wait for one.
_FLUSH = "import os, sys; os.fsync(os.open(sys.argv[1], os.O_RDWR))"


def verbs(serve: Callable[[Config, str], None], device: Callable[[Config], str]) -> dict[str, Callable[..., Any]]:
    """Return the verbs that an engine of this kind does its own way, from how it serves and what the disk is called."""

    def served(config: Config, _made: Any, mode: str) -> dict[str, Any]:
        if mode not in MODES:
            raise StoreError(f"{mode!r}: take one of {', '.join(MODES)}")
        serve(config, mode)
        guest.run(config, ("python3", "-c", _FLUSH, device(config)))
        return {"device": device(config), "mode": mode}

    def filled(config: Config, _made: Any, size: str, offset: str = "0") -> dict[str, Any]:
        return fill(config, device(config), int(size), int(offset))

    def unmounted(_config: Config, _made: Any) -> dict[str, Any]:
        return {"given_back_B": 0}

    def refused(_config: Config, _made: Any, *_words: str) -> dict[str, Any]:
        raise StoreError("this is not done with a volume that a virtual machine has")

    return {"serve": served, "fill": filled, "unmount": unmounted, **dict.fromkeys(REFUSED, refused)}


def fill(config: Config, device: str, size: int, offset: int = 0) -> dict[str, Any]:
    """Write `size` bytes of the raw area with incompressible data from inside the guest, unless that was done."""
    way = ("--ioengine=libaio", "--direct=1", f"--filename={device}")
    return block.fill_area(config, size, offset, way, lambda argv: guest.run(config, argv, timeout_s=120 + size / MIB))
