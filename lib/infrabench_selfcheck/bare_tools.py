"""Tools as a person types them: a plain command line, and its number read as an eye finds it.

`selfcheck.fidelity` compares these with infrabench's own trials, so no line here is shared with a workload's command
or parser.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from infrabench.core import Case, CommandFailed, ParseError, Target, wait

LIMIT_S = 60.0
POLL_S = 0.02
LISTENS_S = 0.5  # a person takes longer to type the client's line
AREA_BYTES = 256 * 2**20  # of a store's volume
WRITE_IOPS = 48  # of fio's terse line, version 3: requests written a second (fio's manual, TERSE OUTPUT)
Roles = Mapping[str, Target]
Values = dict[str, float]


@dataclass(frozen=True, slots=True)
class Tool:
    """What infrabench is asked to do, and how a person does the same; both give `metrics`.

    `by_hand` raises `CommandFailed` or `ParseError` when it gives no number. `study` says which systems it is for.
    """

    case: Case
    metrics: tuple[str, ...]
    by_hand: Callable[[Roles], Values]
    study: str = "containers"


def run_command(target: Target, line: str) -> str:
    """Return what a command line, split at its spaces, prints inside the target; `CommandFailed` when it fails."""
    result = target.host.run((*target.prefix, *line.split()), timeout_s=LIMIT_S)
    if not result.ok:
        raise CommandFailed(result, target.host.name)
    return result.stdout.decode("utf-8", "replace")


def find_number(output: str, begins: str, word: int) -> float:
    """Return the number that is word `word` of the first line that begins like this; `ParseError` when none is.

    >>> find_number("speed\\n  events per second:   12.5\\n", "events per second:", -1)
    12.5
    """
    for line in output.splitlines():
        words = line.split()
        if " ".join(words).startswith(begins):
            try:
                return float(words[word])
            except (IndexError, ValueError) as error:
                raise ParseError("eye", f"word {word} is no number", line) from error
    raise ParseError("eye", f"no line begins with {begins!r}", output)


def _sysbench(roles: Roles) -> Values:
    out = run_command(roles["server"], "sysbench cpu --threads=1 --time=1 --cpu-max-prime=10000 run")
    return {"events_per_s": find_number(out, "events per second:", -1)}


def _iozone(roles: Roles) -> Values:
    out = run_command(roles["server"], "iozone -i 0 -i 1 -r 4k -s 32m -e -c -f /var/tmp/by-hand.bin")
    return {
        "write_B_per_s": find_number(out, "32768 4 ", 2) * 1024,
        "read_B_per_s": find_number(out, "32768 4 ", 4) * 1024,
    }


def _ab(roles: Roles) -> Values:
    server, client = roles["server"], roles["client"]
    url = f"http://{server.address}:18080/index.html"
    run_command(server, "ib-service start web")
    try:
        wait.retry(lambda: run_command(client, f"curl -sf -o /dev/null {url}"), CommandFailed, LIMIT_S, POLL_S)
        out = run_command(client, f"ab -n 1000 -c 100 {url}")
    finally:
        run_command(server, "ib-service stop web")
    return {"requests_per_s": find_number(out, "Requests per second:", 3)}


def _iperf3(roles: Roles) -> Values:
    server, client = roles["server"], roles["far"]
    with _in_background(server, "iperf3 -s -1 -p 5201"):
        out = run_command(client, f"iperf3 -c {server.address} -p 5201 -t 2 -O 0 -P 1 -A 1,0 -f k")
    line = next((line for line in out.splitlines() if line.endswith("receiver")), "")
    return {"throughput_bit_per_s": find_number(line, "[", -3) * 1000}


def _netperf(roles: Roles) -> Values:
    server, client = roles["server"], roles["far"]
    wanted = "THROUGHPUT,MEAN_LATENCY,P50_LATENCY,P90_LATENCY,P99_LATENCY"
    with _in_background(server, "netserver -D -f -N -p 12865"):
        command = f"netperf -H {server.address} -p 12865 -t TCP_RR -l 2 -T 1,0 -- -P ,12866 -r 1,1 -o {wanted}"
        out = run_command(client, command)
    numbers = out.strip().rpartition("\n")[2].replace(",", " ")
    per_s, mean, p50, _, p99 = (find_number(numbers, "", word) for word in range(5))
    return {
        "transactions_per_s": per_s, "latency_mean_s": mean / 1e6, "latency_p50_s": p50 / 1e6,
        "latency_p99_s": p99 / 1e6,
    }  # fmt: skip


def _fio(roles: Roles) -> Values:
    server = roles["server"]
    store, (uri,) = " ".join(server.lifecycle["store"]), server.lifecycle["uri"]
    for words in ("serve strict", f"fill {AREA_BYTES}", "drop"):
        run_command(server, f"{store} {words}")
    options = f"--rw=randwrite --bs=4k --iodepth=32 --size={AREA_BYTES} --randrepeat=0 --refill_buffers --end_fsync=1"
    out = run_command(
        server, f"fio --name=x --ioengine=nbd --uri={uri} {options} --time_based --runtime=4 --ramp_time=1 --minimal"
    )
    line = next((line for line in out.splitlines() if line.startswith("3;")), "")
    return {"iops": find_number(line.replace(";", " "), "3", WRITE_IOPS)}


@contextmanager
def _in_background(target: Target, line: str) -> Iterator[None]:
    """Let a server run while something else is typed."""
    shell = (*target.prefix, "sh", "-c", '"$@" </dev/null >/dev/null 2>&1 & echo $!', "sh", *line.split())
    begun = target.host.run(shell, timeout_s=LIMIT_S)
    if not begun.ok:
        raise CommandFailed(begun, target.host.name)
    time.sleep(LISTENS_S)
    try:
        yield
    finally:
        with suppress(CommandFailed):  # a server for one client has ended with it
            run_command(target, f"kill {begun.stdout.decode().strip()}")


TOOLS: Mapping[str, Tool] = {
    "sysbench-cpu": Tool(
        Case("sysbench-cpu", "threads=1", {"threads": 1, "seconds": 1}, seconds=2.2), ("events_per_s",), _sysbench
    ),
    "iozone": Tool(
        Case("iozone", "size=32MiB", {"size_bytes": 32 * 2**20}, seconds=1.0),
        ("write_B_per_s", "read_B_per_s"), _iozone,
    ),
    "web": Tool(
        Case("web", "users=100", {"users": 100, "requests": 1000}, seconds=1.6), ("requests_per_s",), _ab
    ),
    "iperf3": Tool(
        Case("iperf3", "tcp two-nodes", {"seconds": 2, "cpus": "apart"}, seconds=3.2),
        ("throughput_bit_per_s",), _iperf3, "cnis",
    ),
    "netperf": Tool(
        Case("netperf", "tcp_rr two-nodes", {"seconds": 2, "cpus": "apart"}, seconds=3.2),
        ("transactions_per_s", "latency_mean_s", "latency_p50_s", "latency_p99_s"), _netperf, "cnis",
    ),
    "fio-4k": Tool(
        Case(
            "fio-4k", "random write strict",
            {"pattern": "randwrite", "mode": "strict", "area_bytes": AREA_BYTES, "seconds": 4.0, "ramp_s": 1.0},
            seconds=14.0, disk_bytes=2 * AREA_BYTES,
        ), ("iops",), _fio, "storage",
    ),
}  # fmt: skip
