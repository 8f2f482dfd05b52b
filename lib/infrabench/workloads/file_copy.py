"""file-copy: many large files are written to a file system on the store's volume and read back cold, with fio.

As a copy does it, one file after the other, by one thread, in pieces of 1 MiB through the page cache; writing ends with
fsync of every file, which its time includes, and before reading all caches are dropped, those of the storage system
too. Files are of equal size, ``total_bytes`` / ``files`` rounded down to whole MiB. Data are incompressible, and every
MiB carries a checksum of its own (CRC-32C), which fio computes while it writes: it is part of the client's CPU time, as
are the data. After the timed part all is read again, now from the page cache into which the cold reading brought it,
and the checksums are compared: a trial with a wrong one failed.

Metrics, each for ``write_`` and ``read_``: ``B_per_s``; ``storage_cpu_s_per_B`` and ``client_cpu_s_per_B``, CPU seconds
for each byte of a file (not of its copies) by the storage daemons and by all others on the machine; ``cpu_percent`` of
the machine. See `_volume`.
"""

from __future__ import annotations

from collections.abc import Sequence

from infrabench.core import Capture, DesignError, Measurements, NotAsClaimed, Param, Params, Roles, Step, Steps
from infrabench.workloads import _fio_report, _volume, fio
from infrabench.workloads._parse import MIB, equal, higher, lower

VERSION = fio.VERSION
PARAMS = {
    "files": Param(44, least=1, meaning="number of files"),
    "total_bytes": Param(4_000_000_000, least=MIB, unit="B", meaning="size of all files together"),
    "mode": _volume.MODE,
    "placement": _volume.PLACEMENT,
}
TOOL = "fio"
READS = fio.READS
PIECE = MIB
SUMS = ("--verify=crc32c", f"--verify_interval={PIECE}")
supported = _volume.needing(TOOL)
METRICS = {
    **{f"{way}_B_per_s": "fixed-work rate" for way in fio.WAYS},
    **{f"{way}_{who}_cpu_s_per_B": "quantity" for way in fio.WAYS for who in ("storage", "client")},
    **{f"{way}_cpu_percent": "quantity" for way in fio.WAYS},
}


def plan(params: Params, roles: Roles) -> Steps:
    """Return writing, dropping, reading and comparing, on a file system that is made for it."""
    size = _file_bytes(params) * params["files"]
    _volume.check(roles)
    client = _volume.place_client(params, roles)
    (folder,) = client.lifecycle("mount", "no file system can be made on it")
    area = _volume.area_bytes(size)
    return (
        *client.mount(params["mode"], area),
        *client.drop(),
        *client.read("before-write"),
        _step(
            "write", params, client, folder, ("--rw=write", "--end_fsync=1", "--refill_buffers", "--do_verify=0", *SUMS)
        ),
        *client.read("after-write"),
        *client.drop("measure", "drop-before-read"),
        *client.read("before-read"),
        _step("read", params, client, folder, ("--rw=read", "--invalidate=0")),
        *client.read("after-read"),
        _step("compare", params, client, folder, ("--rw=read", "--invalidate=0", "--verify_fatal=1", *SUMS)),
        *client.rescue(),
        client.unmount(size),
    )


def parse(capture: Capture) -> Measurements:
    """Return rates and CPU time for each byte; `NotAsClaimed` when less was read or written than all files hold."""
    _done(capture, "compare")
    found: Measurements = ()
    for way in fio.WAYS:
        report, spent = _done(capture, way), _volume.used(capture, f"before-{way}", f"after-{way}")
        moved = {"received_bytes" if way == "read" else "sent_bytes": report.bytes}
        _volume.check_link(capture, f"before-{way}", f"after-{way}", **moved)
        used = {"storage": spent.storage_s, "client": spent.client_s}
        rate = higher("B/s", **{f"{way}_B_per_s": report.bytes_per_s})
        costs = lower("s/B", **{f"{way}_{who}_cpu_s_per_B": each / report.bytes for who, each in used.items()})
        found = (*found, *rate, *costs, *lower("%", **{f"{way}_cpu_percent": spent.percent}))
    return found


def _file_bytes(params: Params) -> int:
    each: int = params["total_bytes"] // params["files"] // PIECE * PIECE
    if not each:
        raise DesignError(f"file-copy: {params['files']} files of 1 MiB are more than {params['total_bytes']} bytes")
    return each


def _step(name: str, params: Params, client: _volume.Client, folder: str, options: Sequence[str]) -> Step:
    each = _file_bytes(params)
    argv = (
        TOOL, f"--name={name}", f"--directory={folder}", "--filename_format=file.$filenum",
        f"--nrfiles={params['files']}", f"--filesize={each}", "--file_service_type=sequential", "--openfiles=1",
        "--ioengine=psync", f"--bs={PIECE}", "--fallocate=none", *options, "--output-format=json",
    )  # fmt: skip
    timeout_s = _volume.COMMAND_S + each * params["files"] / _volume.SLOWEST_B_PER_S
    return Step(name, client.role, client.command(argv), timeout_s=timeout_s)


def _done(capture: Capture, name: str) -> _fio_report.Side:
    """Return what a pass over all files says; it has to be over all of them."""
    params = capture.params
    each = _file_bytes(params)
    way: _fio_report.WAY = "write" if name == "write" else "read"
    expected = {"rw": way, "nrfiles": params["files"], "filesize": each, "bs": PIECE, "ioengine": "psync"}
    expected |= {"end_fsync": 1} if way == "write" else {"invalidate": 0}
    job = _fio_report.checked(_fio_report.whole(capture[name]), name, expected)
    report = _fio_report.side(job, way)
    equal(TOOL, f"bytes of {name} in pieces", report.bytes, float(report.requests * PIECE))
    if report.bytes != each * params["files"]:
        raise NotAsClaimed(f"{name} went over {report.bytes:.0f} bytes, all files hold {each * params['files']}")
    return report
