"""The engine `zfs_vm`: OpenZFS's kernel module in a virtual machine that has the two disks as its own.

The guest runs the same program with the engine `zfs_kernel`; verbs are handed on to it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from . import daemons, disks, guest, zfs_kernel
from .config import HOMES, Config, StoreError

FOLDER = Path("/opt/infrabench/store")  # of the program, in the guest as on the node
MAKE_S = 180.0


def create(config: Config) -> None:
    """Boot the guest with both disks, bring it the program, and let it make the pool."""
    drives = [
        guest.Drive(f"disk{disk}", f"file={disks.device(config, disk)},format=raw,cache=none,aio=native,discard=unmap")
        for disk in range(config.copies)
    ]
    guest.start(config, drives)
    here = Path(__file__).parent
    files = {str(FOLDER / "node" / each.name): each.read_text() for each in here.glob("*.py")}
    files[str(FOLDER / "main.py")] = (here.parent / "main.py").read_text()
    files[_path(config)] = json.dumps(asdict(inner(config, drives)))
    guest.bring(config, files)
    _ask(config, "create", timeout_s=MAKE_S)


def inner(config: Config, drives: list[guest.Drive]) -> Config:
    """Return what the guest's own store is told: the same sizes, the guest's memory, its disks."""
    devices, memory = " ".join(drive.device for drive in drives), guest.MEMORY_MIB * 2**20
    return replace(
        config, engine="zfs_kernel", memory_bytes=memory, options={"devices": devices}, homes=str(HOMES)
    )  # fmt: skip


def destroy(config: Config) -> None:
    """End the guest, and with it the pool."""
    daemons.stop(config, guest.LINE, guest.NAME, wait_s=2)


def serve(config: Config, mode: str) -> None:
    """Set the volume's mode; its device is in the guest in any case."""
    _ask(config, "serve", mode)


def unserve(config: Config) -> None:
    """Nothing: the device stays."""


def device(config: Config) -> str:
    """Return the volume's device file in the guest."""
    return str(zfs_kernel.device(config))


def pids(config: Config) -> dict[str, dict[str, int]]:
    """Return the emulator, in which storage system and client are one."""
    return daemons.pids(config, (guest.NAME,))


def used(config: Config) -> int:
    """Return the bytes that the mirror has allocated, which is one copy, metadata included."""
    return int(guest.run(config, ("zpool", "list", "-Hpo", "allocated", zfs_kernel.pool(config))))


def drop(config: Config) -> None:
    """Empty the ARC of the guest."""
    _ask(config, "drop")


def state(config: Config) -> dict[str, Any]:
    """Return whether both disks have everything, as the guest's store says."""
    answer = _ask(config, "state")
    return {key: answer[key] for key in ("clean", "copied_B", "left_B", "detail")}


def facts(config: Config) -> dict[str, Any]:
    """Return what the guest's store says of itself, and what the guest is."""
    answer = _ask(config, "facts")
    return {**{key: answer[key] for key in ("engine", "version", "pool")}, "guest": guest.facts(config)}


def evidence(config: Config) -> str:
    """Return what the guest's store says, if it answers, and the guest's console."""
    try:
        state = str(_ask(config, "evidence")["evidence"])
    except StoreError as error:
        state = str(error)
    return f"{state}\n{guest.evidence(config)}"


def _ask(config: Config, *words: str, timeout_s: float = guest.COMMAND_S) -> dict[str, Any]:
    command = ("python3", str(FOLDER / "main.py"), _path(config), *words)
    answer: dict[str, Any] = json.loads(guest.run(config, command, timeout_s=timeout_s))
    return answer


def _path(config: Config) -> str:
    return str(FOLDER / f"{config.name}.json")


VERBS = guest.verbs(serve, device)
