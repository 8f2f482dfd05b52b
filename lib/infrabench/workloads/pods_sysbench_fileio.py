"""pods-sysbench-fileio: random reads and writes of a file in memory in many pods at once, by sysbench, for ``seconds``.

Each pod has one file of ``file_bytes`` in its /dev/shm, made before the run and removed after it. One thread reads and
writes ``block_bytes`` of it in turn, at places that are drawn evenly, and nothing is flushed. No disk is measured: what
remains is what a pod's system calls and its file system cost. Metrics: ``requests_per_s`` (those of all pods over the
time from the common instant until the last of them ended), ``pod_requests_per_s`` (mean of a pod) and ``lowest_share``,
as in `pods_sysbench_cpu`. `_pods` describes the pods and ``cpu_percent``. Latencies are left out: sysbench prints
hundredths of a millisecond, and most requests take less than one.
"""

from __future__ import annotations

import re

from infrabench.core import Capture, DesignError, Measurements, Param, Params, Roles, Steps
from infrabench.workloads import _pods, sysbench_cpu
from infrabench.workloads._parse import MIB, Field, check_rate, equal, number, one, positive, read_fields, within
from infrabench.workloads.pods_sysbench_cpu import LATE_S, TOLERANCE

VERSION = sysbench_cpu.VERSION
PARAMS = {
    **_pods.PODS,
    "seconds": Param(5, least=1, unit="s", meaning="length of the run"),
    "file_bytes": Param(16 * MIB, least=4096, unit="B", meaning="size of a pod's file; mostly 64 MiB have room"),
    "block_bytes": Param(4096, least=512, most=16 * MIB, unit="B", meaning="size of a request"),
}
TOOL = "sysbench"
READS = sysbench_cpu.READS
IN_MEMORY = 'cd /dev/shm && exec "$0" "$@"'
# sysbench would go on with a file that an interrupted trial left, and say that it wrote nothing.
ANEW = 'cd /dev/shm && rm -f test_file.0 && exec "$0" "$@"'
# All that it says of its options; with any flushing there would be more lines.
OPTIONS = """
Extra file open flags: (none)
1 files, {file} each
{file} total file size
Block size {block}
Number of IO requests: 0
Read/Write ratio for combined random IO test: 1.00
Using synchronous I/O mode
Doing random r/w test
Initializing worker threads...
"""
WAYS = {"reads/s": "read, MiB/s", "writes/s": "written, MiB/s"}
REPORT = {
    "number of threads": Field(r"^Number of threads: NUM$", equals=1),
    **{name: Field(rf"^ +{name}: +NUM$") for pair in WAYS.items() for name in pair},
    "fsyncs/s": Field(r"^ +fsyncs/s: +NUM$", equals=0),
    **sysbench_cpu.TOTALS,
}
ROUNDED = sysbench_cpu.HALF_HUNDREDTH
supported = _pods.needing(TOOL)
METRICS = {
    **dict.fromkeys(("requests_per_s", "pod_requests_per_s"), "fixed-time rate"),
    **dict.fromkeys(("lowest_share", "cpu_percent"), "quantity"),
}


def plan(params: Params, roles: Roles) -> Steps:
    """Return the steps that make the files, run sysbench in all pods, and remove the files."""
    if params["file_bytes"] % params["block_bytes"]:
        raise DesignError("pods-sysbench-fileio: file_bytes must be whole blocks, requests at its end would be shorter")
    options = (
        "--file-num=1", f"--file-total-size={params['file_bytes']}", f"--file-block-size={params['block_bytes']}",
        "--file-test-mode=rndrw", "--file-rw-ratio=1", "--file-io-mode=sync", "--file-fsync-freq=0",
        "--file-fsync-end=off", "--threads=1", f"--time={params['seconds']}", "--events=0",
    )  # fmt: skip
    files, run = (
        ("sh", "-c", script, TOOL, "fileio", *options, verb) for script, verb in ((ANEW, "prepare"), (IN_MEMORY, "run"))
    )
    after = ("rm", "/dev/shm/test_file.0")
    return _pods.conducted(params, roles, run, 2 * params["seconds"] + LATE_S, before=files, after=after)


def parse(capture: Capture) -> Measurements:
    """Return the rates of all pods, of a pod, and the slowest one's share; each pod made and removed its file."""
    files, run, _ = (_pods.read(capture, step=step) for step in ("before", "run", "after"))
    for pod in files.pods:
        size = number(TOOL, "bytes written", r"^([0-9]+) bytes written in ", pod.output)
        equal(TOOL, f"bytes written of {pod.name}", size, capture.params["file_bytes"])
    done = [read(pod.output, capture.params) for pod in run.pods]
    return (*_pods.shares("requests_per_s", "1/s", done, run.span_s), *_pods.cpu(capture))


def read(output: str, params: Params) -> float:
    """Return how many requests one run of sysbench made; `ParseError` when it is another run, or not whole."""
    one(TOOL, "the end of the report", sysbench_cpu.END, output)
    options = OPTIONS.format(file=_size(params["file_bytes"]), block=_size(params["block_bytes"]))
    one(TOOL, f"the options{options}", re.escape(options), output)
    report = read_fields(TOOL, REPORT, output, params)
    total_s, requests = (positive(TOOL, name, report[name]) for name in sysbench_cpu.TOTALS)
    reads, writes = (positive(TOOL, name, report[name]) for name in WAYS)
    slack_s = max(TOLERANCE * requests / (reads + writes), sysbench_cpu.LEAST_START_STOP_S)
    check_rate(TOOL, "requests", requests, total_s, reads + writes, 2 * ROUNDED, slack_s, output)
    # It begins with a write and goes on in turn.
    within(TOOL, "writes/s", writes, reads - 2 * ROUNDED, reads + (reads + writes) / requests + 2 * ROUNDED)
    for way, throughput in WAYS.items():
        lowest, highest = ((report[way] + off) * params["block_bytes"] / MIB + off for off in (-ROUNDED, ROUNDED))
        within(TOOL, throughput, report[throughput], lowest, highest)
    _, longest_s, _ = sysbench_cpu.latencies_s(output, requests)
    sysbench_cpu.check_time(total_s, params["seconds"], longest_s, TOLERANCE * params["seconds"])
    return requests


def _size(count: int) -> str:
    """Return a number of bytes as sysbench prints it: ``16MiB``."""
    power = (count.bit_length() - 1) // 10
    return f"{count / 1024**power:.5g}{('', 'Ki', 'Mi', 'Gi', 'Ti')[power]}B"
