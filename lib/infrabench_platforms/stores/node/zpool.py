"""A pool of OpenZFS: what is alike for both of its engines, and what `zpool status` says of one, read strictly.

Sizes of a running scan are as `zpool status` rounds them: to three digits. Source: zpool-status(8) of OpenZFS 2.1
and 2.3, and their answers.
"""

from __future__ import annotations

import re
from typing import Any

from . import daemons
from .config import StoreError

BLOCK_BYTES = 16 * 2**10  # of the volume: the default of OpenZFS since 2.2
DIRTY = 10  # per cent of the memory, as OpenZFS does by itself
SYNC = {"default": "standard", "strict": "always"}
SEEN_S, SCRUB_S = 30.0, 1800.0
POLL_S = 0.1
# What both engines say of their pools.
LAYOUT = "one mirror of two disks, sectors of 4 KiB (ashift 12)"
SYNC_EFFECT = "default: sync=standard, acknowledged from memory; strict: sync=always, from the intent log"
THROTTLE_EFFECT = {
    "throttle_default": "OpenZFS's own", "throttle_open": "scrub and resilver do not make way for others",
}  # fmt: skip

UNITS = {"B": 1, "": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
COUNTS = ("read_errors", "write_errors", "checksum_errors")  # of a disk
_SIZE = r"(\d+(?:\.\d+)?[BKMGTP]?)"
_RUNS = re.compile(r"(scrub|resilver) in progress since")
_ISSUED = re.compile(rf"{_SIZE} issued at \S+, {_SIZE} total")  # to 2.1.11
_ISSUED_OF = re.compile(rf"{_SIZE} / {_SIZE} issued")
_DONE = re.compile(rf"{_SIZE} (?:repaired|resilvered), ")
_ENDED = re.compile(rf"(?:(scrub) repaired|(resilver)ed) {_SIZE} in (?:\d+ days )?[\d:]+ with (\d+) errors on")
_VDEV = re.compile(r"^\t( *)(\S+) +([A-Z]+) +(\d+) +(\d+) +(\d+)(?: .*)?$")
_LOST = re.compile(r"^errors: (?:No known data errors|(\d+) data errors?, use)", re.MULTILINE)
_LISTED = "errors: Permanent errors have been detected"


def status(pool: str) -> dict[str, Any]:
    """Return `parse_status` for a pool; disks are named by their devices."""
    return parse_status(daemons.run(("zpool", "status", "-pP", pool)))


def find_lost_disks(pool: str) -> list[str]:
    """Return the disks that the pool misses, by guid: a new one may have the old one's name."""
    disks = parse_status(daemons.run(("zpool", "status", "-pg", pool)))["disks"]
    return [disk["name"] for disk in disks if disk["state"] != "ONLINE"]


def parse_status(text: str) -> dict[str, Any]:
    """Return {"state", "scan", "disks", "replacing", "errors", "raw"} of ``zpool status -p``; else `StoreError`.

    `scan` is None, or {"kind", "runs", "done_B", "left_B" (None when ended), "errors" (None while it runs)}; each disk
    has "name", "state", "read_errors", "write_errors", "checksum_errors". `errors`: of data that no copy has whole.
    """
    state = re.search(r"^ +state: ([A-Z]+)$", text, re.MULTILINE)
    lost = _LOST.search(text)
    rows = [found.groups() for line in text.splitlines() if (found := _VDEV.match(line))]
    if not state or len(rows) < 2 or (lost is None and _LISTED not in text):
        raise StoreError(f"zpool status says something else: {text[-400:]}")
    depths = [len(indent) for indent, *_ in rows]
    leaves = [row for row, depth, below in zip(rows, depths, [*depths[1:], 0], strict=True) if below <= depth]
    keys = ("name", "state", *COUNTS)
    return {
        "state": state[1],
        "scan": _scan(text),
        "disks": [dict(zip(keys, (*row[1:3], *map(int, row[3:])), strict=True)) for row in leaves],
        "replacing": any(row[1].startswith("replacing-") for row in rows),
        "errors": int(lost[1] or 0) if lost else text.partition(_LISTED)[2].count("\n        "),
        "raw": text,
    }


def progress(status: dict[str, Any], copies: int) -> dict[str, Any]:
    """Return `rebuild_progress` of a parsed status."""
    scan, disks = status["scan"], status["disks"]
    resilver = (scan["runs"], scan["done_B"], scan["left_B"] or 0) if scan and scan["kind"] == "resilver" else None
    whole = status["state"] == "ONLINE" and len(disks) == copies and all(disk["state"] == "ONLINE" for disk in disks)
    detail = {
        "errors": status["errors"] + checksum_errors(status), "pool": status["state"], "scan": scan,
        "disks": {disk["name"]: disk["state"] for disk in disks},
    }  # fmt: skip
    return rebuild_progress(whole, status["replacing"], resilver, detail)


def rebuild_progress(
    whole: bool, replacing: bool, resilver: tuple[bool, int, int] | None, detail: dict[str, Any]
) -> dict[str, Any]:
    """Return {"clean", "copied_B", "left_B", "detail"}.

    Clean is a pool that is whole, all of its disks online, with none being replaced or resilvered. `resilver`: whether
    it runs, and the bytes copied and left, of the one that runs or ended last. They are None where there is none, or
    where the new one has not begun.
    """
    runs, copied, left = resilver or (False, None, None)
    known = runs or not replacing
    return {
        "clean": whole and not replacing and not runs,
        "copied_B": copied if known else None, "left_B": left if known else None, "detail": detail,
    }  # fmt: skip


def checksum_errors(status: dict[str, Any]) -> int:
    """Return how many blocks of all disks had a wrong checksum, or could not be read or written."""
    return sum(disk[kind] for disk in status["disks"] for kind in COUNTS)


def size(text: str) -> int:
    """Return the bytes that a size like ``2.10M`` stands for."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([BKMGTP]?)", text)
    if not found:
        raise StoreError(f"{text!r} is no size")
    return round(float(found[1]) * UNITS[found[2]])


def _scan(text: str) -> dict[str, Any] | None:
    if runs := _RUNS.search(text):
        issued, done = _ISSUED.search(text) or _ISSUED_OF.search(text), _DONE.search(text)
        left = size(issued[2]) - size(issued[1]) if issued else None
        kept = size(done[1]) if done else 0
        return {"kind": runs[1], "runs": True, "done_B": kept, "left_B": left, "errors": None}
    if ended := _ENDED.search(text):
        kind = ended[1] or ended[2]
        return {"kind": kind, "runs": False, "done_B": size(ended[3]), "left_B": None, "errors": int(ended[4])}
    return None
