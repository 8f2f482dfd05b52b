"""containers: what do container engines cost, compared with native, in CPU, memory, disk, network services, start-up?

After two papers on Docker, LXC and LXD, which are one experiment. `paper` has their sizes, and where they used a tool
that is gone its successor. `seconds` of a case is what one trial took on two cores of a virtual machine: it only
serves the estimate of the plan.

A profile runs the systems of the papers unless others are named; Podman and Incus are run where `systems` names them.
`brief` has the primary metrics alone, and answers in minutes. In `brief` and `quick` trials are cut into rounds, of
lengths that were chosen by measuring one system under two labels (docs/threats.md).
"""

from __future__ import annotations

from infrabench.core import Case, Limits, Profile, Study

MIB = 2**20
GIB = 2**30
MB = 10**6
KIB = 2**10
OF_THE_PAPERS = ("native", "docker", "lxc", "lxd")  # what a profile runs where no systems are named


def _cpu(threads: int, took: float, rounds: int = 1, **params: object) -> Case:
    given = {"threads": threads, **params}
    return Case("sysbench-cpu", f"threads={threads}", given, "threads", threads, took, rounds=rounds)


def _stream(array_mib: int, repetitions: int, took: float, rounds: int = 1) -> Case:
    # Three arrays must fit the memory limit, so their size is given and not taken from the last-level cache.
    params = {"array_bytes": array_mib * MIB, "repetitions": repetitions}
    return Case("stream", f"array={array_mib}MiB", params, seconds=took, rounds=rounds)


def _file(workload: str, size_bytes: int, label: str, took: float) -> Case:
    return Case(workload, f"size={label}", {"size_bytes": size_bytes}, seconds=took, disk_bytes=size_bytes)


def _web(users: int, requests: int, took: float, rounds: int = 1) -> Case:
    return Case("web", f"users={users}", {"users": users, "requests": requests}, "users", users, took, rounds=rounds)


def _mail(seconds: float, size_bytes: int, label: str, took: float) -> Case:
    # All messages of one size, and as many as go: the paper's limit of 500 a minute would be what it measures.
    params = {"threads": 10, "seconds": seconds, "min_kib": size_bytes // KIB, "max_kib": size_bytes // KIB}
    return Case("mail", f"size={label}", params, seconds=took, disk_bytes=10 * size_bytes)


def _web_rate(rate: int) -> Case:
    return Case("web-rate", f"rate={rate}", {"rate": rate, "seconds": 1.0, "timeout_s": 0.5}, "rate", rate, 1.3)


def _redis(test: str, requests: int, took: float) -> Case:
    return Case("redis", f"test={test}", {"test": test, "requests": requests}, seconds=took)


SMOKE = Profile(
    blocks=5,
    systems=OF_THE_PAPERS,
    cases=(
        _cpu(1, 1.05, seconds=1),
        _stream(64, 3, 0.3),
        _file("iozone", 16 * MIB, "16MiB", 0.3),
        _file("fio", 16 * MIB, "16MiB", 0.7),
        _web(100, 2000, 0.5),
        _file("ftp", 16 * MIB, "16MiB", 0.4),
        _web_rate(500),
        _mail(1.0, 64 * KIB, "64KiB", 1.6),
        _redis("SET", 10000, 0.6),
        _redis("GET", 10000, 0.6),
        Case("startup", "default", seconds=1.2),
    ),
)
BRIEF = Profile(
    blocks=30,
    systems=OF_THE_PAPERS,
    cases=(
        _cpu(1, 0.35, 2, events=800),
        _cpu(2, 0.7, 5, events=4000),
        _stream(64, 15, 0.65, 5),
        _web(100, 4000, 1.2, 4),
    ),
)
QUICK = Profile(
    blocks=30,
    systems=OF_THE_PAPERS,
    cases=(
        _cpu(1, 0.45, 3, events=1200),
        _cpu(2, 0.7, 5, events=4000),
        _cpu(4, 0.7, 5, events=4000),
        _stream(64, 15, 0.7, 5),
        _file("iozone", 64 * MIB, "64MiB", 0.4),
        _web(1000, 8000, 2.1, 4),
        _web(2000, 6000, 1.6, 3),
        _file("ftp", 64 * MIB, "64MiB", 0.5),
        _mail(1.5, MIB, "1MiB", 2.2),
        Case("startup", "default", seconds=1.8),
    ),
)
# Requests that come whatever the server makes of them, up to more than it can: where does it cease to follow?
LOAD = Profile(
    blocks=30,
    systems=OF_THE_PAPERS,
    cases=tuple(_web_rate(rate) for rate in (250, 1000, 2000, 4000, 6000, 8000, 10000, 12000)),
)
PAPER = Profile(
    blocks=30,
    systems=OF_THE_PAPERS,
    cases=(
        *(_cpu(threads, 4.0 / min(threads, 2), events=10000) for threads in (1, 2, 4, 6, 8)),
        _stream(512, 10, 6.0),
        _file("iozone", 4 * GIB, "4GiB", 90.0),
        _file("fio", 4 * GIB, "4GiB", 90.0),
        *(_web(users, 10000, 4.0) for users in range(1000, 9000, 1000)),
        *LOAD.cases,
        _file("ftp", 500 * MB, "500MB", 4.0),
        _mail(60.0, 25 * MB, "25MB", 65.0),
        _redis("SET", 10**6, 25.0),
        _redis("GET", 10**6, 25.0),
        Case("startup", "default", seconds=1.5),
        Case("startup", "image=imported", {"image": "imported"}, seconds=15.0),
    ),
)

STUDY = Study(
    name="containers",
    title="What do Docker, LXC and LXD cost, compared with native?",
    baseline="native",
    systems=(*OF_THE_PAPERS, "podman", "incus"),
    profiles={"smoke": SMOKE, "brief": BRIEF, "quick": QUICK, "load": LOAD, "paper": PAPER},
    limits=Limits(),
    primary=(("sysbench-cpu", "events_per_s"), ("stream", "triad_B_per_s"), ("web", "requests_per_s")),
    margins={
        "": 0.02,  # throughput, time, CPU
        **dict.fromkeys(("copy_B_per_s", "scale_B_per_s", "add_B_per_s", "triad_B_per_s"), 0.01),
        **dict.fromkeys(("latency_avg_s", "latency_mean_s", "latency_p50_s", "first_byte_s"), 0.05),
        **dict.fromkeys(("latency_p95_s", "latency_p99_s", "write_latency_p99_s", "read_latency_p99_s"), 0.10),
        "sustained_per_s": 0.05,
    },
)
