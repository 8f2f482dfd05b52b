"""fio: sequential write and then read of one file in small blocks with fio, IOzone's modern twin.

One job writes ``size_bytes`` and ends with fsync, which its time includes; a second one reads the file. Metrics of
each: ``write_B_per_s``, ``write_iops``, ``write_latency_p99_s`` (completion latency of single requests), and the same
for ``read_``. With ``direct`` off, the reading job first drops the file's pages from the page cache (fio's
``invalidate``), so it reads what the device or a cache below the system delivers. fio rounds times to 1 ms: sizes
should keep each job above a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Mapping

from infrabench.core import Capture, DesignError, Measurement, Measurements, Param, Params, Roles, Step, Steps
from infrabench.workloads import _fio_report
from infrabench.workloads._parse import KIB, MIB, at_least, equal, higher, lower, positive, value

PARAMS = {
    "size_bytes": Param(64 * MIB, least=512, unit="B", meaning="size of the file"),
    "block_bytes": Param(4 * KIB, least=512, unit="B", meaning="size of a request"),
    "directory": Param("/var/tmp", meaning="folder of the file in the target"),
    "direct": Param(False, meaning="open the file with O_DIRECT, past the page cache"),
}
PROGRAMS = {"server": {"fio": "fio"}}
VERSION = ("fio", "--version"), r"^fio-(\S+)$"
TOOL = "fio"
READS = ("3.33", "3.39")
FILE = "infrabench-fio.bin"
WAYS: tuple[_fio_report.WAY, _fio_report.WAY] = ("write", "read")  # one job after the other
SLOWEST_B_PER_S = 1 * MIB  # slower than this is a hang
METRICS = {
    **{f"{way}_{rate}": "fixed-work rate" for way in WAYS for rate in ("B_per_s", "iops")},
    **{f"{way}_latency_p99_s": "time" for way in WAYS},
}


def plan(params: Params, roles: Roles) -> Steps:
    """Return the run with its two jobs, and the removal of the file."""
    at_least("size_bytes", params["size_bytes"], params["block_bytes"])
    if params["size_bytes"] % params["block_bytes"]:
        raise DesignError("fio: size_bytes must be whole blocks")
    write, read = ([f"--{name}={given}" for name, given in _options(params, way).items()] for way in WAYS)
    argv = (TOOL, "--output-format=json", "--name=write", *write, "--name=read", "--stonewall", *read)
    timeout_s = 60.0 + 2 * params["size_bytes"] / SLOWEST_B_PER_S
    return (
        Step("fio", "server", argv, timeout_s=timeout_s),
        Step("remove", "server", ("rm", "-f", f"{params['directory']}/{FILE}"), phase="cleanup"),
    )


def parse(capture: Capture) -> Measurements:
    """Return rate, requests per second and 99th percentile of latency for writing and for reading."""
    report, params = _fio_report.whole(capture["fio"]), capture.params
    found: list[Measurement] = []
    for place, name in enumerate(WAYS):
        job = _fio_report.checked(report, name, _options(params, name), place, len(WAYS))
        side = _fio_report.side(job, name)
        equal(TOOL, f"bytes of job {name}", side.bytes, float(params["size_bytes"]))
        equal(TOOL, f"requests of job {name}", side.requests, params["size_bytes"] // params["block_bytes"])
        p99_s = value(TOOL, _fio_report.latencies(job, name, "clat_ns"), "99.000000")
        found += higher("B/s", **{f"{name}_B_per_s": positive(TOOL, name, value(TOOL, job, name, "bw_bytes"))})
        found += higher("1/s", **{f"{name}_iops": positive(TOOL, name, value(TOOL, job, name, "iops"))})
        found += lower("s", **{f"{name}_latency_p99_s": positive(TOOL, f"{name} latency", p99_s)})
    return tuple(found)


def _options(params: Params, way: _fio_report.WAY) -> Mapping[str, object]:
    """Return the options of a job; fio repeats them in its report."""
    own = {"end_fsync": 1} if way == "write" else {"invalidate": 1}
    return {
        "rw": way, **own, "filename": f"{params['directory']}/{FILE}", "size": params["size_bytes"],
        "bs": params["block_bytes"], "ioengine": "psync", "direct": int(params["direct"]),
    }  # fmt: skip
