"""Commands for the engine in user space, over its control socket, and what its status says. See zvol/control.c."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from typing import Any

from .config import Config, StoreError

ANSWER_S = 120.0
ANSWER_BYTES = 1 << 20


def ask(config: Config, *words: str, timeout_s: float = ANSWER_S) -> dict[str, Any]:
    """Return the answer to one command; `StoreError` with the engine's reason when it refuses, or nothing answers."""
    path, command = config.run / "control.sock", " ".join(words)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            connection.connect(str(path))
            connection.sendall(command.encode() + b"\n")
            answer = b""
            while len(answer) < ANSWER_BYTES and (more := connection.recv(65536)):
                answer += more
        told: dict[str, Any] = json.loads(answer)
    except (OSError, ValueError) as error:
        raise StoreError(f"the engine does not answer {command!r}: {error}") from error
    if told.get("ok") is not True:
        raise StoreError(f"the engine refuses {command!r}: {told.get('reason')}")
    return told


def leaves(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the disks of the pool, without what they are grouped in."""
    return [vdev for vdev in _all(status["vdevs"]) if not vdev["children"]]


def is_replacing(status: Mapping[str, Any]) -> bool:
    """Tell whether a disk is being replaced: the old one and the new one stand side by side until the end."""
    return any(vdev["type"] == "replacing" for vdev in _all(status["vdevs"]))


def checksum_errors(status: Mapping[str, Any]) -> int:
    """Return how many copies with a wrong checksum the pool's disks have given so far."""
    return sum(int(leaf["checksum_errors"]) for leaf in leaves(status))


def progress(status: Mapping[str, Any], copies: int) -> dict[str, Any]:
    """Return {"clean", "copied_B", "left_B", "detail"} of a status.

    Clean is a pool whose disks are all online with none being replaced or resilvered. Bytes are those of the resilver
    that runs or ended last; None where there is none, or where the new one has not begun.
    """
    disks, scan, open_yet = leaves(status), status["scan"], is_replacing(status)
    resilver = scan is not None and scan["kind"] == "resilver"
    runs = resilver and scan["state"] == "scanning"
    known = resilver and (runs or not open_yet)
    online = len(disks) == copies and all(disk["state"] == "online" for disk in disks)
    errors = sum(_errors(disk, status["volume"]["block_B"]) for disk in disks)
    return {
        "clean": online and not open_yet and not runs and status["vdevs"]["state"] == "online",
        "copied_B": scan["processed_B"] if known else None,
        "left_B": (max(0, scan["all_B"] - scan["issued_B"]) if runs else 0) if known else None,
        "detail": {
            "errors": errors + status["errors"], "healed_B": sum(disk["healed_B"] for disk in disks),
            "pool": status["vdevs"]["state"], "scan": scan,
            "disks": {disk["path"]: disk["state"] for disk in disks},
        },
    }  # fmt: skip


def _errors(disk: Mapping[str, Any], block_bytes: int) -> int:
    """Return how many errors a disk had: what a read ahead met is mended as well, but only counted as mended bytes."""
    met = max(disk["checksum_errors"], -(-disk["healed_B"] // block_bytes))
    return int(met + disk["read_errors"] + disk["write_errors"])


def _all(vdev: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield vdev
    for child in vdev["children"]:
        yield from _all(child)
