"""The published numbers that can be compared with a measurement: study A against native, B to D between two systems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from infrabench.analysis.published.data import Numbers, numbers
from infrabench.analysis.published.targets import Grade, ReproductionTarget

RAM = "published: RAMspeed's average of copy, scale, add and triad; here one kernel"
FTP = (
    "printed times (-{A.ftp.time-reduction.lxd.000} % for LXD) and rates (+{A.ftp.rate-increase.lxd.000} %) contradict "
    "each other (A9), and gains over native of this size point at an uncontrolled factor (A10)"
)
WEB = (
    "lowest and highest over {A.web.users.1000.003} to {A.web.users.8000.003} users, the level of each end is not "
    "printed; rate and total time, which ab computes from each other, do not fit (A13)"
)
MAIL = (
    "'below {A.mail.decrease.bound.containers.000.abstract} %' (abstract) and 'spread below "
    "{A.mail.spread.bound.containers.000} %' do not fit {A.mail.decrease.docker.000} and "
    "{A.mail.decrease.lxc.000} % (A16, A17); the largest load that is described is more than the link carries "
    "(A19)"
)
CPU = (
    "the composite tables print {A.overall.cpu.score.docker.000}, {A.overall.cpu.score.lxc.000}, "
    "{A.overall.cpu.score.lxd.000}: the percentage was used as a fraction (A1); the text's value is used"
)
RANGE_GRADE: Mapping[str, Grade] = {"docker": "fair", "": "poor"}
CONTAINER_TARGETS = (
    ReproductionTarget(
        *("A.cpu1.overhead", "rate from time increase", ("A.cpu.increase.{}.000",)),
        workload="sysbench-cpu",
        metric="events_per_s",
        scenario="threads=1",
        grade={"": "good"},
        notes={"": CPU},
    ),
    ReproductionTarget(
        *("A.iozone.read.ratio", "share", ("A.iozone.read.percent.{}.000",)),
        workload="iozone",
        metric="read_B_per_s",
        grade={"docker": "poor", "": "fair"},
        notes={
            "": "{A.iozone.file-size.003} GB file on a host with {A.setup.ram.server.003} GB memory (A21)",
            "docker": (
                "{A.iozone.read.percent.docker.000} % in the text, another value from the printed rates, "
                "{A.overall.iozone-read.score.docker.000} in the table (A2)"
            ),
        },
    ),
    ReproductionTarget(
        *("A.iozone.write.ratio", "share", ("A.iozone.write.percent.{}.000",)),
        workload="iozone",
        metric="write_B_per_s",
        grade={"": "good"},
        notes={
            "docker": (
                "the table prints {A.overall.iozone-write.score.docker.000}; text and rates give "
                "{A.iozone.write.percent.docker.000} % (A3)"
            ),
            "lxd": "the table prints {A.overall.iozone-write.score.lxd.000} for {A.iozone.write.percent.lxd.000} %",
        },
    ),
    *(
        ReproductionTarget(
            *("A.ram.ratio", "share", ("A.ram.percent.{}.000",)),
            workload="stream",
            metric=f"{kernel}_B_per_s",
            grade={"": "good"},
            notes={"": RAM},
        )
        for kernel in ("copy", "scale", "add", "triad")
    ),
    ReproductionTarget(
        *("A.web.time.range", "increase", ("A.web.time-increase.low.{}.000", "A.web.time-increase.high.{}.000")),
        workload="web",
        metric="total_s",
        scenario="users=",
        grade=RANGE_GRADE,
        notes={"": WEB},
    ),
    ReproductionTarget(
        *("A.web.rps.range", "decrease", ("A.web.rate-decrease.low.{}.000", "A.web.rate-decrease.high.{}.000")),
        workload="web",
        metric="requests_per_s",
        scenario="users=",
        grade=RANGE_GRADE,
        notes={"": WEB},
    ),
    ReproductionTarget(
        *("A.ftp.time", "decrease", ("A.ftp.time-reduction.{}.000",)),
        workload="ftp",
        metric="total_s",
        grade={"": "unusable"},
        notes={"": FTP},
    ),
    ReproductionTarget(
        *("A.ftp.rate", "increase", ("A.ftp.rate-increase.{}.000",)),
        workload="ftp",
        metric="transfer_B_per_s",
        grade={"": "unusable"},
        notes={"": FTP},
    ),
    ReproductionTarget(
        *("A.mail.overhead", "decrease", ("A.mail.decrease.{}.000",)),
        workload="mail",
        metric="messages_per_min",
        notes={
            "": MAIL,
            "lxd": f"{MAIL}; the text of 003 calls LXD the lowest ({{A.mail.overhead.lxd.003}} %), its table LXC (A18)",
        },
    ),
)

SAME, ACROSS = "same-node", "two-nodes"
CNI = {"systems": ("cilium",), "baseline": "flannel"}
BLOCK = {"systems": ("ceph",), "baseline": "zfs"}


def _two(key: str, above: str, below: str, grade: Grade, note: str, **who: tuple[str, ...] | str) -> ReproductionTarget:
    """Return a target that is the ratio of two printed numbers."""
    return ReproductionTarget(key, "ratio", (above, below), grade={"": grade}, notes={"": note}, **who)  # type: ignore[arg-type]


def _cni(metric: str, place: str, grade: Grade, note: str, *, comparable: bool = True) -> ReproductionTarget:
    name, (ours, tests) = f"B.iperf3.{place}.{metric}.{{}}.001", MEASURED[metric]
    target = _two(f"B.{metric}.{place}", name.format("cilium"), name.format("flannel"), grade, note, **CNI)
    scenario = tuple(f"{test} {place}" for test in tests)
    return replace(target, workload="iperf3", metric=ours, scenario=scenario, comparable=comparable)


def _block(
    name: str, grade: Grade, note: str, workload: str, metric: str, scenario: str | tuple[str, ...]
) -> ReproductionTarget:
    target = _two(f"C.{name}", f"C.{name}.ceph.002", f"C.{name}.zfs.002", grade, f"{note}; {PATH}", **BLOCK)
    return replace(target, workload=workload, metric=metric, scenario=scenario)


def _iops(name: str, pattern: str, grade: Grade, note: str) -> ReproductionTarget:
    """Return a target that stands beside both of our durability modes: which one it was is not stated."""
    modes = tuple(f"{pattern} {mode}" for mode in ("default", "strict"))
    return _block(f"iometer.{name}.iops", grade, note, "fio-4k", "iops", modes)


def _rebuild(size: str, ours: tuple[str, ...]) -> ReproductionTarget:
    return _block(f"rebuild.{size}-GB.time", "fair", RECOVERY, "rebuild", "rebuild_s", ours)


RUNS = "number of runs not stated (C13)"
PATH = "how ZFS reached the compute node is not stated (C12)"
DURABILITY = "what a write had reached when it was confirmed is not stated, and decides (C8)"
COPIES = "{C.copy.repetitions.002} runs"
OLTP = (
    "{C.oltp.repetitions.002} runs; the printed minimum of ZFS cannot be right (C1), its mean can; transactions or "
    "queries is not stated; it writes too, for which the durability decides (C8)"
)
RECOVERY = (
    "recovery settings and load are not stated, and Ceph was held back by something (C9); number of runs not stated"
)
UDP = ("udp-100M", "udp-1G", "udp-max")
MEASURED = {
    "rate": ("throughput_bit_per_s", ("tcp",)),
    "cpu": ("cpu_percent", ("tcp",)),
    "jitter": ("jitter_s", UDP),
    "loss": ("loss_percent", UDP),
}
JITTER = "printed as latency, is jitter (B3); the offered rate is not stated (B5)"
LOSS = "the offered rate, on which loss depends, is not stated (B5)"
USED = "which node, over what time and what is whole is not stated (B12)"
CLUSTER_TARGETS = (
    _cni("rate", SAME, "fair", "versions, protocol, number of runs not stated (B6)"),
    _cni("rate", ACROSS, "fair", "versions, protocol, number of runs not stated (B6)"),
    _cni("cpu", SAME, "poor", USED, comparable=False),
    _cni("cpu", ACROSS, "poor", USED, comparable=False),
    _cni("jitter", SAME, "unusable", f"{JITTER}; within the printed step (B4)"),
    _cni("jitter", ACROSS, "unusable", JITTER),
    _cni("loss", SAME, "unusable", LOSS, comparable=False),
    _cni("loss", ACROSS, "unusable", LOSS, comparable=False),
    _iops("seq-read", "sequential read", "fair", RUNS),
    _iops("seq-write", "sequential write", "poor", f"{RUNS}; {DURABILITY}"),
    _iops("random-read", "random read", "fair", RUNS),
    _iops("random-write", "random write", "poor", f"{RUNS}; {DURABILITY}"),
    _block("copy.read.rate", "fair", COPIES, "file-copy", "read_B_per_s", ""),
    _block("copy.write.rate", "poor", f"{COPIES}; {DURABILITY}", "file-copy", "write_B_per_s", ""),
    _block("oltp.rate", "fair", OLTP, "oltp", "transactions_per_s", "read-write"),
    _rebuild("20", ("2 GB", "20 GB")),  # a tenth of it, where the profile has no more
    _rebuild("40", ("4 GB", "40 GB")),
    _two(
        *("D.throughput", "D.netperf.40.rate.kata.004", "D.netperf.10.rate.containerd.004", "fair"),
        "runtime and number of containers change together; the unit, in doubt (D4), cancels",
        systems=("kata",),
        baseline="containerd",
        workload="pods-netperf",
        metric="throughput_bit_per_s",
    ),
    _two(
        *("D.memory.copy", "D.stream.copy.10.rate.cri-o.004", "D.stream.copy.10.rate.kata.004", "fair"),
        "highest and lowest of nine cells",
        systems=("crio",),
        baseline="kata",
        workload="pods-stream",
        metric="copy_B_per_s",
    ),
)
TARGETS = (*CONTAINER_TARGETS, *CLUSTER_TARGETS)


def usable(known: Numbers | None = None) -> pd.DataFrame:
    """Return the published ratios that a measurement may be compared with, one row per target and system.

    ``ratio_low`` and ``ratio_high`` are equal unless a range over levels is printed; ``rounded_low`` and
    ``rounded_high`` are what the printed digits allow; ``grade`` is good, fair, poor or unusable; ``workload`` and
    ``metric`` (joined by commas where there are more) are ours, empty where no study measures it yet. None of the
    numbers has a spread of its own.
    """
    known = numbers() if known is None else known
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for target in TARGETS:
        for system in target.systems:
            low, high = target.ratios(system, known)
            rounded = target.rounded(system, known)
            if (target.key, system) in rows:
                rows[target.key, system]["metric"] += f", {target.metric}"
                continue
            rows[target.key, system] = {
                "key": target.key,
                "system": system,
                "baseline": target.baseline,
                "ratio_low": low,
                "ratio_high": high,
                "rounded_low": rounded.low,
                "rounded_high": rounded.high,
                "grade": target.graded(system),
                "note": target.note(system, known),
                "workload": target.workload,
                "metric": target.metric,
                "ids": "; ".join(target.ids(system)),
            }
    return pd.DataFrame(rows.values())
