"""iozone: sequential write, rewrite, read and reread of one file in small records, by IOzone.

The file lies in ``directory`` of the target, so on the system's own root storage, and is removed by the tool. Times
of writing include fsync and close. Reading finds what the page cache kept of the file: with a file smaller than the
memory limit that is all of it (a warm cache, the same for every system), unless ``direct`` opens it with O_DIRECT.
Metrics ``write_``, ``rewrite_``, ``read_`` and ``reread_B_per_s``; IOzone's kB are 1024 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from infrabench.core import Capture, Deployment, DesignError, Measurement, Step, Target
from infrabench.workloads._reading import (
    KIB,
    MIB,
    at_least,
    equal,
    missing,
    one,
    positive,
    quantity,
    text,
    tool_version,
)

DEFAULTS: Mapping[str, Any] = {
    "size_bytes": 64 * MIB,
    "record_bytes": 4 * KIB,
    "directory": "/var/tmp",
    "direct": False,
}
NEEDS = {"server": {"iozone": "iozone3"}}
TOOL = "iozone"
FILE = "infrabench-iozone.bin"
SLOWEST_B_PER_S = 1 * MIB  # slower than this is a hang
# Two blocks of columns follow the two sizes; IOzone pads the rest of the line with spaces.
COLUMNS = r"^ +kB +reclen +write +rewrite +read +reread +read +write +read +rewrite +read +fwrite +frewrite .*\n"
ROW = r" +([0-9]+) +([0-9]+) +([0-9]+) +([0-9]+) +([0-9]+) +([0-9]+) *\n\niozone test complete\.\n\Z"


def plan(params: Mapping[str, Any], roles: Mapping[str, Target]) -> Sequence[Step]:
    """Return the run, and the removal of the file that a killed run leaves."""
    at_least("record_bytes", params["record_bytes"], KIB)
    at_least("size_bytes", params["size_bytes"], params["record_bytes"])
    if params["size_bytes"] % params["record_bytes"] or params["record_bytes"] % KIB:
        raise DesignError("iozone: size_bytes must be whole records, and record_bytes whole KiB")
    file = f"{params['directory']}/{FILE}"
    argv = (
        TOOL, "-i", "0", "-i", "1", "-r", f"{params['record_bytes'] // KIB}k", "-s", f"{params['size_bytes'] // KIB}k",
        "-e", "-c", *(("-I",) if params["direct"] else ()), "-f", file,
    )  # fmt: skip
    timeout_s = 60.0 + 4 * params["size_bytes"] / SLOWEST_B_PER_S
    return (
        Step("iozone", "server", argv, timeout_s=timeout_s),
        Step("remove", "server", ("rm", "-f", file), phase="cleanup"),
    )


def version(target: Target) -> str:
    """Return IOzone's version."""
    return tool_version(target, TOOL, r"Version \$Revision: (\S+) \$$", TOOL, "-v")


def supported(deployment: Deployment) -> str | None:
    """Return None, or that iozone is missing."""
    return missing(deployment, *NEEDS["server"])


def parse(capture: Capture) -> Sequence[Measurement]:
    """Return four rates in bytes per second."""
    output = text(capture["iozone"])
    one(TOOL, "its unit", r"^\tOutput is in kBytes/sec$", output)
    fields = one(TOOL, "one complete row of results", COLUMNS + ROW, output).groups()
    row = [quantity(TOOL, "a result", field) for field in fields]
    equal(TOOL, "file size in KiB", row[0], float(capture.params["size_bytes"] // KIB))
    equal(TOOL, "record size in KiB", row[1], float(capture.params["record_bytes"] // KIB))
    return tuple(
        Measurement(f"{name}_B_per_s", positive(TOOL, name, rate) * KIB, "B/s", "higher")
        for name, rate in zip(("write", "rewrite", "read", "reread"), row[2:], strict=True)
    )
