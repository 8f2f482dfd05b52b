"""integrity: do files come back as they were written, when a disk is lost or what is on it has silently changed?

Files of random bytes are written and flushed; their SHA-256 is of the bytes in memory. Every reading is cold: all
caches were dropped, those of the storage system too.

``damage`` = ``none``: all files are read, one disk is lost, they are read without it, it is replaced, and once the pool
is clean they are read again. ``one``: after the first reading, data are changed on one disk behind the system's back;
``both``: the same data on both disks. With one copy damaged the first half of the files is read then, which may find
and mend what it meets. The light scrub, the deep scrub and the repair of the system follow, where it has them, a deep
scrub to see what is left, and all files are read; one that gives no answer for a minute and more cannot be read. The
pool is made anew afterwards.

Metrics: ``intact_before``, ``intact_degraded``, ``intact_after``: share of files that can be read and have the right
hash; ``found_by_read``, ``found_by_light_scrub``, ``found_by_deep_scrub``: 1 when each of these reported damage, to
who reads or asks, else 0 (the scrubs of what reading left; with both copies damaged, reading is the last one; none for
a scrub that the system does not have); ``repaired``: 1 when damage was found and the last scrub found none any more;
``lost_files``: how many cannot be read in the end, which may be more than were damaged (a system may give up more than
one block, and with it records of the file system); ``silently_wrong_files``: how many were read at any time without an
error and with another hash. A trial in which both copies were damaged and no file suffered is invalid: the damage met
none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from infrabench.core import Capture, Measurements, NotAsClaimed, Param, Params, ParseError, Roles, Step, Steps
from infrabench.core.workloads import script_command
from infrabench.workloads import _volume
from infrabench.workloads._parse import KIB, at, at_least, equal, higher, json_object, lower, positive, text, value

VERSION = ("python3", "--version"), r"^Python (\S+)$"
TOOL = "integrity"
SCRIPT = Path(__file__).with_name("_integrity_script.py")
# Each damage, and what is read between the first reading and the last.
BETWEEN: Mapping[str, tuple[str, ...]] = {"none": ("read-degraded",), "one": ("read-some",), "both": ()}
DATA = "data"
MOST_FILES = 256
PARAMS = {
    "files": Param(16, least=1, most=MOST_FILES, meaning="number of files, which are all read at once"),
    "total_bytes": Param(256_000_000, least=64 * KIB, unit="B", meaning="size of all files together"),
    "damage": Param(
        "one",
        choices=tuple(BETWEEN),
        meaning="copies of the data that are changed; none: a disk is lost instead",
        words={"none": "a disk lost", "one": "one copy damaged", "both": "both copies damaged"},
    ),
    "mode": _volume.MODE,
    "disk": Param(1, choices=(0, 1), meaning="disk that is lost, with damage none"),
}
REBUILD_S = 3600.0  # the pool may hold more than these files
SCRUB_S = 1800.0
ANSWER_S = 60.0  # for a file, beside the time that reading takes
SETTLE_S = 3.0  # until what a read has met is counted
supported = _volume.needing("python3")
METRICS = {
    **{f"intact_{when}": "share" for when in ("before", "degraded", "after")},
    **{f"found_by_{what}": "share" for what in ("read", "light_scrub", "deep_scrub")},
    "repaired": "share",
    **dict.fromkeys(("lost_files", "silently_wrong_files"), "count"),
}


def plan(params: Params, roles: Roles) -> Steps:
    """Return writing, what happens to the disks, and every reading."""
    at_least("total_bytes", params["total_bytes"], 64 * KIB * params["files"])
    _volume.check(roles, copies=2)
    (mounted,) = _volume.lifecycle(roles, "mount", "no file system can be made on it")
    size, each = params["total_bytes"], params["total_bytes"] // params["files"]
    area = _volume.area_bytes(size)
    folder = f"{mounted}/{DATA}"
    happens = _lost(params, roles, folder) if params["damage"] == "none" else _damaged(params, roles, folder)
    made_anew = () if params["damage"] == "none" else (_volume.verb(roles, ("remake",), "cleanup"),)
    return (
        # Here is asked what comes back, not when.
        _volume.verb(roles, ("throttle", "open"), "prepare"),
        _volume.verb(roles, ("mount", params["mode"], area), "prepare", moved_bytes=area),
        Step("folder", "server", ("mkdir", folder), phase="prepare"),
        _files("write", params, "write", folder, params["files"], each),
        _volume.verb(roles, ("drop",), "measure", "drop-written"),
        _read("before", params, folder),
        *happens,
        _volume.verb(roles, ("drop",), "measure", "drop-after"),
        _read("after", params, folder),
        *_volume.rescue(roles),
        _volume.verb(roles, ("unmount",), "cleanup", moved_bytes=size),
        *made_anew,
        _volume.verb(roles, ("throttle", "default"), "cleanup", "unthrottle"),
    )


def parse(capture: Capture) -> Measurements:
    """Return shares of intact files, what found the damage, and what became of it."""
    lost_disk = capture.params["damage"] == "none"
    written = _hashes(capture, "write", "write", {})
    if len(written) != capture.params["files"]:
        raise ParseError(TOOL, f"{capture.params['files']} files were to be written", str(written))
    names = ("read-before", *BETWEEN[capture.params["damage"]], "read-after")
    readings = {name: _hashes(capture, name, "read", written) for name in names}
    wrong = {name for found in readings.values() for name, told in found.items() if told != written.get(name)}
    after = readings["read-after"]
    lost = len(written) - len(after.keys() & written.keys())
    intact = {
        f"intact_{name.removeprefix('read-')}": len(written.items() & found.items()) / len(written)
        for name, found in readings.items()
        if name != "read-some"
    }
    if lost_disk:
        for verb in ("fail", "replace"):
            _volume.said(capture, verb, verb)
        state = at(TOOL, json_object(TOOL, text(capture["wait"])), "state")
        equal(TOOL, "clean after the rebuild", at(TOOL, state, "clean"), True)
        found: Measurements = ()
    else:
        found = _detections(capture)
    if capture.params["damage"] == "both" and not lost and not wrong:
        raise NotAsClaimed("said that both copies of data are damaged, but every file came back as it was written")
    files = lower("1", lost_files=float(lost), silently_wrong_files=float(len(wrong)))
    return (*higher("1", **intact), *found, *files)


def _lost(params: Params, roles: Roles, folder: str) -> Steps:
    """Return the steps in which a disk is lost and replaced."""
    wait = _run_script("wait", f"{REBUILD_S:g}", *roles["server"].lifecycle["store"])
    return (
        _volume.verb(roles, ("fail", params["disk"]), "measure"),
        _volume.verb(roles, ("drop",), "measure", "drop-degraded"),
        _read("degraded", params, folder),
        _volume.verb(roles, ("replace", params["disk"]), "measure"),
        Step("wait", "server", wait, timeout_s=REBUILD_S + 2 * _volume.COMMAND_S),
    )


def _damaged(params: Params, roles: Roles, folder: str) -> Steps:
    """Return the steps in which data are damaged, and found and repaired by what the system has for that."""
    moved = SCRUB_S * _volume.SLOWEST_B_PER_S
    some = (
        # The others keep their damage for the scrubs.
        _read("some", params, folder, 2),
        Step("settle", "server", ("sleep", f"{SETTLE_S:g}")),
    )  # fmt: skip
    return (
        _volume.verb(roles, ("corrupt", params["damage"]), "measure"),
        _volume.verb(roles, ("drop",), "measure", "drop-damaged"),
        _volume.verb(roles, ("state",), "measure", "state-before"),
        # Where no copy is left, a pool may wait for ever for what a reader asked for, and cannot be scrubbed then.
        *(some if params["damage"] == "one" else ()),
        _volume.verb(roles, ("state",), "measure", "state-read"),
        _volume.verb(roles, ("scrub", "light"), "measure", "scrub-light", moved_bytes=moved),
        _volume.verb(roles, ("scrub", "deep"), "measure", "scrub-deep", moved_bytes=moved),
        _volume.verb(roles, ("repair",), "measure", moved_bytes=moved),
        _volume.verb(roles, ("scrub", "deep"), "measure", "scrub-again", moved_bytes=moved),
    )


def _run_script(*words: object) -> tuple[str, ...]:
    return (*script_command(SCRIPT), *map(str, words))


def _files(step: str, params: Params, *words: object, limit_s: float = 0.0) -> Step:
    timeout_s = limit_s + _volume.COMMAND_S + params["total_bytes"] / _volume.SLOWEST_B_PER_S
    return Step(step, "server", _run_script(*words), timeout_s=timeout_s)


def _read(when: str, params: Params, folder: str, part: int = 1) -> Step:
    """Return the step in which the first `part`-th of the files is read."""
    limit_s = ANSWER_S + params["total_bytes"] / _volume.SLOWEST_B_PER_S
    return _files(f"read-{when}", params, "read", folder, part, f"{limit_s:g}", limit_s=limit_s)


def _hashes(capture: Capture, step: str, verb: str, written: Mapping[str, str]) -> Mapping[str, str]:
    """Return the hash of each file that a step wrote, or read to its end; one with the hash of `written` is whole."""
    answer = json_object(TOOL, text(capture[step]))
    equal(TOOL, f"verb of {step}", at(TOOL, answer, "verb"), verb)
    files, unreadable = at(TOOL, answer, "files"), at(TOOL, answer, "unreadable")
    if not isinstance(files, dict) or not isinstance(unreadable, dict) or files.keys() & unreadable.keys():
        raise ParseError(TOOL, f"{step} does not say which files it read", str(answer))
    for name, digest in files.items():
        if not re.fullmatch(r"file-[0-9]{4,}", name) or not re.fullmatch(r"[0-9a-f]{64}", str(digest)):
            raise ParseError(TOOL, f"{step} has no hash of a file", f"{name} {digest}")
    each, size = capture.params["total_bytes"] // capture.params["files"], value(TOOL, answer, "bytes")
    if verb == "write":
        equal(TOOL, "bytes written", size, float(each * capture.params["files"]))
    whole_files = len(files.items() & written.items())
    if verb == "read" and size < each * whole_files:
        less = f"{step} tells of {whole_files} whole files, and of {size:g} bytes, which are less"
        raise ParseError(TOOL, less, str(answer))
    if verb == "read" and size > each * (len(files) + len(unreadable)):
        more = f"{step} tells of {len(files)} files, and of {size:g} bytes, which are more"
        raise ParseError(TOOL, more, str(answer))
    return dict(files)


def _detections(capture: Capture) -> Measurements:
    """Return what reported damage, and whether the last scrub found none any more."""
    damage = _volume.said(capture, "corrupt", "corrupt")
    positive(TOOL, "places of the damage", value(TOOL, damage, "places"))
    disks = at(TOOL, damage, "disks")
    hit = len(disks) if isinstance(disks, list) else None
    equal(TOOL, "disks with damage", hit, {"one": 1, "both": 2}[capture.params["damage"]])
    # Reading reports damage to the reader, or to whoever asks the pool how it is.
    reading = "read-some" if capture.params["damage"] == "one" else "read-after"
    unreadable = at(TOOL, json_object(TOOL, text(capture[reading])), "unreadable")
    before, after = (
        value(TOOL, _volume.said(capture, f"state-{when}", "state"), "detail", "errors") for when in ("before", "read")
    )
    by = {"found_by_read": float(bool(unreadable) or after > before)}
    for step, name in (("scrub-light", "found_by_light_scrub"), ("scrub-deep", "found_by_deep_scrub")):
        errors = _errors(capture, step)
        if errors is not None:
            by[name] = float(errors > 0)
    left = _errors(capture, "scrub-again")
    if left is None:
        output = text(capture["scrub-again"])
        raise ParseError(TOOL, "a system without a deep scrub cannot tell what it repaired", output)
    return higher("1", **by, repaired=float(any(by.values()) and not left))


def _errors(capture: Capture, step: str) -> float | None:
    """Return how many errors a scrub found; None where the system has no such scrub."""
    report = _volume.said(capture, step, "scrub")
    if report.get("supported") is False:
        return None
    errors, unrecoverable = (value(TOOL, report, key) for key in ("errors", "unrecoverable"))
    return max(errors, unrecoverable)
