"""fio: sequential write and then read of one file in small blocks with fio, IOzone's modern twin.

One job writes ``size_bytes`` and ends with fsync, which its time includes; a second one reads the file. Metrics of
each: ``write_B_per_s``, ``write_iops``, ``write_latency_p99_s`` (completion latency of single requests), and the same
for ``read_``. With ``direct`` off, the reading job first drops the file's pages from the page cache (fio's
``invalidate``), so it reads what the device or a cache below the system delivers. fio rounds times to 1 ms: sizes
should keep each job above a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from infrabench.core import Capture, Deployment, DesignError, Measurement, Step, Target
from infrabench.workloads._reading import (
    KIB,
    MIB,
    at,
    at_least,
    equal,
    json_object,
    missing,
    positive,
    text,
    tool_version,
    value,
)

DEFAULTS: Mapping[str, Any] = {
    "size_bytes": 64 * MIB,
    "block_bytes": 4 * KIB,
    "directory": "/var/tmp",
    "direct": False,
}
NEEDS = {"server": {"fio": "fio"}}
TOOL = "fio"
FILE = "infrabench-fio.bin"
SLOWEST_B_PER_S = 1 * MIB  # slower than this is a hang


def plan(params: Mapping[str, Any], roles: Mapping[str, Target]) -> Sequence[Step]:
    """Return the run with its two jobs, and the removal of the file."""
    at_least("block_bytes", params["block_bytes"], 512)
    at_least("size_bytes", params["size_bytes"], params["block_bytes"])
    if params["size_bytes"] % params["block_bytes"]:
        raise DesignError("fio: size_bytes must be whole blocks")
    file = f"{params['directory']}/{FILE}"
    job = (
        f"--filename={file}", f"--size={params['size_bytes']}", f"--bs={params['block_bytes']}",
        "--ioengine=psync", f"--direct={int(params['direct'])}",
    )  # fmt: skip
    argv = (
        TOOL, "--output-format=json", "--name=write", "--rw=write", "--end_fsync=1", *job,
        "--name=read", "--stonewall", "--rw=read", "--invalidate=1", *job,
    )  # fmt: skip
    timeout_s = 60.0 + 2 * params["size_bytes"] / SLOWEST_B_PER_S
    return (
        Step("fio", "server", argv, timeout_s=timeout_s),
        Step("remove", "server", ("rm", "-f", file), phase="cleanup"),
    )


def version(target: Target) -> str:
    """Return fio's version."""
    return tool_version(target, TOOL, r"^fio-(\S+)$", TOOL, "--version")


def supported(deployment: Deployment) -> str | None:
    """Return None, or that fio is missing."""
    return missing(deployment, *NEEDS["server"])


def parse(capture: Capture) -> Sequence[Measurement]:
    """Return rate, requests per second and 99th percentile of latency for writing and for reading."""
    report = json_object(TOOL, text(capture["fio"]))
    jobs = at(TOOL, report, "jobs")
    equal(TOOL, "number of jobs", len(jobs) if isinstance(jobs, list) else jobs, 2)
    found: list[Measurement] = []
    for index, name in enumerate(("write", "read")):
        equal(TOOL, "name of the job", at(TOOL, jobs, index, "jobname"), name)
        equal(TOOL, f"error of job {name}", at(TOOL, jobs, index, "error"), 0)
        done = value(TOOL, jobs, index, name, "io_bytes")
        equal(TOOL, f"bytes of job {name}", done, float(capture.params["size_bytes"]))
        p99_ns = value(TOOL, jobs, index, name, "clat_ns", "percentile", "99.000000")
        found += [
            Measurement(f"{name}_B_per_s", _above_0(jobs, index, name, "bw_bytes"), "B/s", "higher"),
            Measurement(f"{name}_iops", _above_0(jobs, index, name, "iops"), "1/s", "higher"),
            Measurement(f"{name}_latency_p99_s", positive(TOOL, f"{name} latency", p99_ns) * 1e-9, "s", "lower"),
        ]
    return tuple(found)


def _above_0(jobs: Any, index: int, name: str, key: str) -> float:
    return positive(TOOL, f"{name} {key}", value(TOOL, jobs, index, name, key))
