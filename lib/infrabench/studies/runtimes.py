"""runtimes: what do CRI-O in place of containerd, and another runtime below it in place of runc, do to many pods?

After one paper that set containerd, CRI-O and Kata Containers side by side as if they were three of a kind. They are
two layers, so a system here is a pair: the runtime that the kubelet speaks to, and the one that this calls for each
pod. Two contrasts answer apart: another high-level runtime above runc (`crio-runc`), and another low-level one below
containerd (`containerd-crun`, `containerd-runsc`, `containerd-kata`); the rest of the pairs say whether the two add up.
Added to the paper: start-up at the runtime's interface and end to end, tear-down, memory of an idle pod, latency
percentiles, reads and writes of a file in memory, single pods, and neighbours that are idle (`first`) beside neighbours
that do the same (`pairs`).

A scenario ends in the number of equal pods that stand on the node: all of them do the work at once, behind a barrier.
What needs the same number of pods stands together in a block, because making them costs more than measuring them.
`seconds` of a case is what one trial takes on two cores of a virtual machine; it only serves the estimate of the plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from infrabench.core import Case, Guards, Limits, Profile, Study

MIB = 2**20
START_S, POD_S = 5.0, 0.5  # making a population anew: always, and for each pod
AROUND_S = 0.6  # commands, barrier and readings around a tool
CPUS = 2  # that the pods share, in the estimate
DIGITS_PER_S = 1.5e6  # of pi, one pod alone; the time grows a little faster than the digits


@dataclass(frozen=True, slots=True)
class Length:
    """How long the tools of a profile work, and on how much."""

    seconds: int  # netperf, one test
    stream_s: int
    array_bytes: int  # three of them in each pod
    sysbench_s: int
    fileio_s: int
    fileio_pods: int  # with more pods it is left out
    digits: int
    loads: tuple[str, ...]  # which pairs of pods talk: all of them, or the first alone


TINY = Length(
    seconds=1, stream_s=3, array_bytes=16 * MIB, sysbench_s=1, fileio_s=1, fileio_pods=10, digits=250_000,
    loads=("pairs",),
)  # fmt: skip
# A tool of an isolated runtime takes a second to begin where 20 do at once, and that counts. Requests to files are made
# with 10 pods only: so `quick` grows by one case, and what a system call costs is seen with few pods already.
SHORT = replace(TINY, seconds=3, sysbench_s=4, fileio_s=3)
LONG = Length(
    seconds=10, stream_s=20, array_bytes=32 * MIB, sysbench_s=10, fileio_s=10, fileio_pods=80, digits=1_000_000,
    loads=("pairs", "first"),
)  # fmt: skip


def _cases(pods: int, of: Length) -> tuple[Case, ...]:
    """Return what is measured with so many pods: one group, which shares the time that making the pods takes."""
    cases = [
        _case("startup", pods, "", START_S + POD_S * pods - AROUND_S),
        *(_netperf(pods, of) if pods > 1 else ()),
        _case("stream", pods, "", of.stream_s, array_bytes=of.array_bytes, seconds=of.stream_s),
        _case("sysbench-cpu", pods, "", of.sysbench_s, seconds=of.sysbench_s),
        *(_fileio(pods, of) if pods <= of.fileio_pods else ()),
        _case("pi", pods, "", max(1, pods / CPUS) * of.digits / DIGITS_PER_S, digits=of.digits),
    ]
    return tuple(replace(case, seconds=round(case.seconds + POD_S * pods / len(cases), 1)) for case in cases)


def _netperf(pods: int, of: Length) -> Iterator[Case]:
    for test in ("tcp_stream", "tcp_rr"):
        for load in of.loads:
            name = test if load == "pairs" else f"{test} {load}"
            yield _case("netperf", pods, name, of.seconds, test=test.upper(), seconds=of.seconds, load=load)


def _fileio(pods: int, of: Length) -> Iterator[Case]:
    # all pods make their files before, and remove them after: each is a round of commands too
    yield _case("sysbench-fileio", pods, "", of.fileio_s + 2 * AROUND_S, seconds=of.fileio_s)


def _case(workload: str, pods: int, name: str, took: float, **given: Any) -> Case:
    count = "1 pod" if pods == 1 else f"{pods} pods"
    return Case(
        f"pods-{workload}", f"{name} {count}".strip(), {"pods": pods, **given}, seconds=took + AROUND_S,
        # what differs in more than the number of pods is a line of its own over that number
        factor=f"pods ({name})" if name else "pods", level=pods, group=count,
    )  # fmt: skip


def _profile(blocks: int, deployments: int, counts: tuple[int, ...], of: Length, systems: tuple[str, ...]) -> Profile:
    cases = tuple(case for pods in counts for case in _cases(pods, of))
    return Profile(blocks, cases, deployments, systems)


SYSTEMS = (
    *("containerd-runc", "crio-runc", "containerd-crun", "crio-crun", "containerd-runsc", "crio-runsc"),
    *("containerd-kata", "crio-kata"),
)
# What the paper compares, taken apart, and an isolated runtime that needs no virtual machine, below both: what it costs
# below the one may be another thing below the other. Kata takes no time where it is not installed.
FEW = ("containerd-runc", "crio-runc", "containerd-runsc", "crio-runsc", "containerd-kata", "crio-kata")

STUDY = Study(
    name="runtimes",
    title="What do the two layers of a container runtime cost many pods?",
    baseline="containerd-runc",
    systems=SYSTEMS,
    profiles={
        "smoke": _profile(2, 1, (10,), TINY, FEW),
        # Each block is a deployment of its own: more blocks on the same clusters say little more about runtimes.
        "quick": _profile(6, 6, (10, 20), SHORT, FEW),
        "forty": _profile(6, 6, (10, 20, 40), SHORT, FEW),
        "paper": _profile(30, 6, (1, 10, 20, 40, 80), LONG, SYSTEMS),
    },
    # Of one pod. No CPU list: pods share the node's processors, and how they do is part of the question.
    limits=Limits(memory_bytes=256 * MIB),
    primary=(
        ("pods-netperf", "throughput_bit_per_s"), ("pods-stream", "copy_B_per_s"), ("pods-startup", "all_ready_s"),
    ),
    margins={
        "": 0.05,  # throughput, bandwidth, CPU, mean and median of the latency, memory
        "latency_p99_s": 0.10,
        # a kubelet looks at its pods in steps of its own, which are long beside a runtime's part of a start
        **dict.fromkeys(("all_ready_s", "ready_s", "ready_p50_s", "ready_p90_s", "first_instruction_s"), 0.10),
        **dict.fromkeys(("runtime_s", "sandbox_s", "create_s", "start_s", "stop_s"), 0.10),
        **dict.fromkeys(("gone_p50_s", "gone_p90_s", "teardown_s"), 0.10),
        "lowest_share": 0.10,
    },
    # How many tasks are ready to run is read just before a trial. Then the pods that the trial before it started or
    # stopped may still occupy their kubelet, the shims and a thawed cluster's timers: threads of the system itself, by
    # the dozen, gone within the second. A limit below that would call those very systems invalid that do more for a
    # pod. Above it a neighbour's load is still seen. Pods have no CPU quota that could throttle them.
    guards=Guards(runnable_per_cpu=16.0, throttled_periods=None),
    deploy_s=19.0,  # a cluster of two nodes
)  # fmt: skip
