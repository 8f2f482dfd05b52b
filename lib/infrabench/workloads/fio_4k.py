"""fio-4k: small requests on a volume, 32 of them outstanding, sequential or random, reading or writing, with fio.

They go to the raw area of the store's volume, ``area_bytes`` of it, which was filled with incompressible data before;
what is written is incompressible too (fio makes each buffer anew). Every trial begins cold: all caches were dropped.
It runs ``ramp_s``, which does not count, then ``seconds``; writing ends with a flush that its time includes. Random
offsets are drawn anew in each trial and cover the area without repeating one.

``path``: ``nbd`` is the one that every system has; ``rbd`` is librbd in fio itself (Ceph); ``kernel`` is a block device
of the kernel (krbd, zvol), by libaio, past the page cache. The last two are there where the store names them.
``placement``: whether fio is on the store's node, see `_volume`; from another one the paths are ``nbd`` and ``rbd``.

Several ``clients`` are as many jobs of fio on one node, each with a connection, a part of the area and ``depth``
requests of its own; by librbd each has a cache of its own too. The metrics are then those of all their requests.

Metrics: ``iops``; ``latency_mean_s`` and the percentiles ``latency_p50_s``, ``_p99_s``, ``_p999_s`` from submission to
completion of single requests (fio's buckets are good to 1 %); ``cpu_percent``, see `_volume`, over ramp, run and flush;
``steady``: 1 when the rate stayed as it was over the run, by `_fio_report.steady` from a log of how many requests were
completed in each quarter of a second, else 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from infrabench.core import Capture, DesignError, Measurements, Param, Params, ParseError, Roles, Step, Steps
from infrabench.workloads import _fio_report, _volume, fio
from infrabench.workloads._parse import GIB, KIB, at_least, equal, higher, lower, positive, text, value

VERSION = fio.VERSION
TOOL = "fio"
READS = fio.READS
PATTERNS = {
    "read": "sequential read", "write": "sequential write", "randread": "random read", "randwrite": "random write",
}  # fmt: skip
ENGINES = {"nbd": "nbd", "rbd": "rbd", "kernel": "libaio"}  # of each path
PARAMS = {
    "pattern": Param(
        "randread", choices=tuple(PATTERNS), meaning="order and direction of the requests", words=PATTERNS
    ),
    "mode": _volume.MODE,
    "placement": _volume.PLACEMENT,
    "path": Param("nbd", choices=tuple(ENGINES), meaning="how fio reaches the volume"),
    "area_bytes": Param(2 * GIB, least=512, unit="B", meaning="size of the area that requests go to"),
    "depth": Param(32, least=1, meaning="requests that each client has outstanding"),
    "clients": Param(1, least=1, most=16, meaning="jobs of fio that ask at once, each on a connection of its own"),
    "seconds": Param(10.0, least=1, most=86399, unit="s", meaning="length of the run"),
    "ramp_s": Param(2.0, least=0, most=86399, unit="s", meaning="time before the run, which does not count"),
    "block_bytes": Param(4 * KIB, least=512, unit="B", meaning="size of a request"),
}
NAME = "requests"
FOLDER = "/var/tmp/infrabench-fio-4k"
LOG = f"{FOLDER}/load_clat_hist.log"
WINDOW_S = 0.25
POINTS = {"latency_p50_s": "50.000000", "latency_p99_s": "99.000000", "latency_p999_s": "99.900000"}
supported = _volume.needing(TOOL)
METRICS = {
    "iops": "fixed-time rate",
    "latency_mean_s": "time",
    **dict.fromkeys(POINTS, "time"),
    "steady": "share",
    "cpu_percent": "quantity",
}


def plan(params: Params, roles: Roles) -> Steps:
    """Return the volume's preparation, the run between two readings of usage, and fio's log of rates."""
    at_least("area_bytes", params["area_bytes"], params["block_bytes"])
    if params["area_bytes"] % (params["block_bytes"] * params["clients"]) or params["block_bytes"] % 512:
        raise DesignError(
            "fio-4k: area_bytes must be whole blocks for each client, and block_bytes whole sectors of 512 bytes"
        )
    _volume.check(roles)
    timeout_s = params["seconds"] + params["ramp_s"] + 2 * _volume.COMMAND_S  # a flush of much takes its time
    client = _volume.place_client(params, roles)
    role = client.role
    return (
        *client.serve(params["mode"]),
        client.fill(params["area_bytes"]),
        # fio appends to a log that a killed run has left.
        Step("folder", role, ("sh", "-c", f"rm -rf {FOLDER} && mkdir -p {FOLDER}"), phase="prepare"),
        *client.drop(),
        *client.read("before"),
        Step("fio", role, client.command((*_way(params, client), *_options(params))), timeout_s=timeout_s),
        *client.read("after"),
        Step("log", role, ("cat", LOG)),
        # What was cut off would look like a run that stood still.
        Step("log-size", role, ("wc", "-c", LOG)),
        *client.rescue(),
        Step("remove", role, ("rm", "-rf", FOLDER), phase="cleanup"),
    )


def parse(capture: Capture) -> Measurements:
    """Return rate, latencies, steadiness and use of CPU; `ParseError` when report and log tell of two runs."""
    params, clients = capture.params, _clients(capture.params)
    size = params["area_bytes"] // clients
    expected = {
        "rw": params["pattern"], "bs": params["block_bytes"], "iodepth": params["depth"], "size": size,
        "ioengine": ENGINES[params["path"]], "runtime": f"{params['seconds']:g}", "ramp_time": f"{params['ramp_s']:g}",
        "randrepeat": 0, **({"numjobs": clients, "offset_increment": size} if clients > 1 else {}),
    }  # fmt: skip
    way: _fio_report.WAY = "read" if params["pattern"].endswith("read") else "write"
    expected |= {"direct": 1} if params["path"] == "kernel" else {}
    expected |= {"end_fsync": 1} if way == "write" else {}
    report = _fio_report.side(_fio_report.checked(_fio_report.whole(capture["fio"]), NAME, expected), way)
    # Those that were under way when the ramp ended are among the bytes, and not among the requests.
    for what, count in (("bytes", report.bytes / params["block_bytes"]), ("latencies", float(report.measured))):
        if not 0 <= count - report.requests <= params["depth"] * clients or count % 1:
            raise ParseError(TOOL, f"{what} are of {count:g} requests, not of {report.requests}", text(capture["fio"]))
    if report.runtime_s < 0.99 * params["seconds"]:
        raise ParseError(TOOL, f"it ran {report.runtime_s:g} s of {params['seconds']:g} s", text(capture["fio"]))
    _volume.check_link(
        capture, "before", "after", **{"received_bytes" if way == "read" else "sent_bytes": report.bytes}
    )
    parts = _rates(capture, report, way)
    points = {
        name: positive(TOOL, f"percentile {point}", value(TOOL, report.percentiles_s, point))
        for name, point in POINTS.items()
    }
    return (
        # All that were completed in its time: as many were under way when the ramp ended as are waited for at the end.
        *higher("1/s", iops=report.measured / report.runtime_s),
        *lower("s", latency_mean_s=report.latency_mean_s, **points),
        *higher("1", steady=float(_fio_report.steady(parts))),
        *lower("%", cpu_percent=_volume.used(capture, "before", "after").percent),
    )


def _way(params: Params, client: _volume.Client) -> tuple[str, ...]:
    """Return fio's command and how it reaches the volume; `NotRunnable` where the store has no such path."""
    path = params["path"]
    engine = f"--ioengine={ENGINES[path]}"
    if path == "nbd":
        (uri,) = client.lifecycle("uri", "it serves no volume over NBD")
        return (TOOL, f"--name={NAME}", engine, f"--uri={uri}")
    if path == "rbd":
        conf, pool, image = client.lifecycle("uri-rbd", "it has no RBD image")
        way = (engine, "--clientname=admin", f"--pool={pool}", f"--rbdname={image}")
        return ("env", f"CEPH_CONF={conf}", TOOL, f"--name={NAME}", *way)
    (device,) = client.lifecycle("device", "its volume is no block device of the kernel")
    return (TOOL, f"--name={NAME}", engine, "--direct=1", f"--filename={device}")


def _clients(params: Params) -> int:
    return int(params.get("clients", 1))  # older sessions had no other number


def _options(params: Params) -> tuple[str, ...]:
    size = params["area_bytes"] // params["clients"]
    several = (f"--numjobs={params['clients']}", f"--offset_increment={size}", "--group_reporting")
    return (
        f"--rw={params['pattern']}", f"--bs={params['block_bytes']}", f"--size={size}",
        *(several if params["clients"] > 1 else ()),
        f"--iodepth={params['depth']}", "--randrepeat=0", "--refill_buffers",
        *(("--end_fsync=1",) if params["pattern"].endswith("write") else ()),
        "--time_based", f"--runtime={params['seconds']:g}", f"--ramp_time={params['ramp_s']:g}",
        "--lat_percentiles=1", "--clat_percentiles=1", "--percentile_list=50:99:99.9",
        f"--write_hist_log={FOLDER}/load", "--per_job_logs=0", f"--log_hist_msec={1000 * WINDOW_S:.0f}",
        "--log_hist_coarseness=6",
        "--output-format=json",
    )  # fmt: skip


def _rates(capture: Capture, report: _fio_report.Side, way: _fio_report.WAY) -> Sequence[float]:
    """Return the rate in equal parts of the run; the log tells of no more requests than the report."""
    log = capture["log"].stdout
    equal(TOOL, "the log's size", text(capture["log-size"]), f"{len(log)} {LOG}\n")
    logs = _fio_report.split_log(text(capture["log"]), _clients(capture.params))
    every = [_fio_report.completed(each, way, capture.params["block_bytes"]) for each in logs]
    logged = sum(count for each in every for _, count in each)
    ends = [each[-1][0] for each in every]
    if logged > report.measured or max(ends) > report.runtime_s:
        raise ParseError(TOOL, f"the log tells of {logged} requests, the report of {report.measured}", str(max(ends)))
    rows = [row for row in _fio_report.add_up(every) if row[0] <= min(ends)]
    end_s = capture.params["seconds"]
    if len(every) == 1 and end_s > ends[0]:  # no window was over any more; of several nobody tells whose the rest is
        rows.append((end_s, report.measured - logged))
    # Parts that are narrower than the windows of a client would hang together.
    most = min(_fio_report.MOST_PARTS, *map(len, every)) if len(every) > 1 else _fio_report.MOST_PARTS
    return _fio_report.rates(rows, most)
