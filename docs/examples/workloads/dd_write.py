"""dd-write: how fast `dd` writes one file and syncs it, once.

Metric: ``write_B_per_s``, bytes over the time that `dd` itself took, the sync included (higher is better).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from infrabench.core import (
    Capture,
    Measurement,
    MetricKind,
    Param,
    ParseError,
    Step,
    Target,
)

PARAMS = {
    "size_bytes": Param(32 * 2**20, least=2**20, unit="B", meaning="size of the file"),
    "directory": Param("/var/tmp", meaning="folder of the file"),
}
PROGRAMS = {"server": {"dd": "coreutils"}}
VERSION = ("dd", "--version"), r"^(dd \(coreutils\) \S+)$"
METRICS: Mapping[str, MetricKind] = {"write_B_per_s": "fixed-work rate"}
BLOCK = 2**20
# What dd says last, on stderr: 33554432 bytes (34 MB, 32 MiB) copied, 0.0212 s, 1.6 GB/s
LAST = re.compile(r"^(\d+) bytes .*copied, ([0-9.e-]+) s, ", re.MULTILINE)


def plan(params: Mapping[str, Any], roles: Mapping[str, Target]) -> Sequence[Step]:
    """Return one measured step, and one that removes its file whatever happened."""
    file = f"{params['directory']}/infrabench-dd"
    write = (
        "dd",
        "if=/dev/zero",
        f"of={file}",
        f"bs={BLOCK}",
        f"count={params['size_bytes'] // BLOCK}",
        "conv=fsync",
    )
    return [
        Step("dd", "server", write, timeout_s=300.0),
        Step("remove", "server", ("rm", "-f", file), phase="cleanup"),
    ]


def parse(capture: Capture) -> Sequence[Measurement]:
    """Return the one number; `ParseError` unless `dd` reported exactly one copy, of the size that was asked for."""
    said = capture["dd"].stderr.decode("utf-8", "replace")
    found = LAST.findall(said)
    if (
        len(found) != 1
        or int(found[0][0]) != capture.params["size_bytes"]
        or float(found[0][1]) <= 0
    ):
        raise ParseError(
            "dd", f"expected one copy of {capture.params['size_bytes']} bytes", said
        )
    size, seconds = found[0]
    return [Measurement("write_B_per_s", int(size) / float(seconds), "B/s", "higher")]
