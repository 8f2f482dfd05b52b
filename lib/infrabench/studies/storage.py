"""storage: what does Ceph in place of ZFS do to block storage of two copies, from single requests to a lost disk?

After one paper that set Ceph's RBD beside ZFS below virtual machines. It does not say what a write had reached when it
was confirmed, and its results follow from that more than from anything else. So durability is a factor here: in
`default` each system does as it does by itself (Ceph's client and ZFS's memory may hold what was written), in `strict`
nothing is confirmed before both disks have it, on either. Recovery is one too: `default` has each system's own brakes,
`open` as few as it can have. Added to the paper: latency percentiles, CPU time by byte, a load beside the rebuild, and
damage that no disk reports, in one copy and in both.

Every ratio is Ceph over ZFS. A pool is made anew for each deployment, which is the unit of analysis.

Both systems take one path, NBD; what also has a path of its own (librbd) is measured on that as well, and the scenario
says so. The paper's client was another machine than its store, over 1 Gbit/s. Here it is on the store's node, and in
the profile `network` also on a node of its own: there a scenario ends with ``two-nodes``.

Sizes are of one copy. Files, and what a rebuild filled, are freed again; the raw area that single requests go to stays
filled: the space that a trial needs is its own and that area. `seconds` is what one trial takes, on average over both
systems, on two cores of a virtual machine; it only serves the estimate of the plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from infrabench.core import Case, Guards, Limits, Profile, Study

KB, MB, GB = 10**3, 10**6, 10**9
MIB, GIB = 2**20, 2**30
FILES = 44  # as in the paper
PATTERNS = {
    "read": "sequential read", "write": "sequential write", "randread": "random read", "randwrite": "random write",
}  # fmt: skip
TESTS = {"oltp_read_write": "read-write", "oltp_read_only": "read-only"}
DAMAGE = {"none": "a disk lost", "one": "one copy damaged", "both": "both copies damaged"}
ROW_BYTES = 500  # of sysbench's table with its index, with room
DATABASE_BYTES = 500 * MB  # logs and system tables of MariaDB
# For the estimate, of both systems on average: what single steps took, and rates.
SERVE_S, MOUNT_S, DATABASE_S, POOL_S, LOST_S = 2.0, 5.0, 5.0, 8.0, 8.0
SCRUBS_S = 20.0  # three passes and a repair: Ceph begins one placement group a second and primary, ZFS is done at once
FILL_B_PER_S, COPY_B_PER_S = 160 * MB, 58 * MB  # written, read cold, and compared
REBUILD_B_PER_S = {"open": 220 * MB, "default": 100 * MB}  # Ceph 18's own brakes let 95 MB/s through (16: 21 MB/s)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large a profile's trials are, and which of them it has."""

    area_bytes: int  # that 4 KiB requests go to
    run_s: int
    ramp_s: int
    requests: tuple[tuple[str, str, str], ...]  # pattern, mode, path
    copy_bytes: int
    copy_modes: tuple[str, ...]
    rows: int
    oltp_s: int
    tests: tuple[tuple[str, str], ...]  # test, mode
    rebuilds: tuple[tuple[int, str], ...]  # bytes in use, throttle
    around_s: tuple[float, float]  # of the load, before a disk is lost and after all is clean
    damage_files: int
    damage_bytes: int
    damages: tuple[str, ...]
    placements: tuple[str, ...] = ("same-node",)  # of the client: that of the store, or a node of its own
    depths: tuple[int, ...] = ()  # requests that are outstanding at once, where that is swept


EVERY = tuple((pattern, mode, "nbd") for mode in ("default", "strict") for pattern in PATTERNS)
# What the common path costs a system that has another one; strict, because there no cache stands before it.
OWN = (("randread", "strict", "rbd"), ("randwrite", "strict", "rbd"))
KERNEL = tuple((pattern, mode, "kernel") for pattern, mode, _ in EVERY)  # where the kernel has a device of its own
SMOKE = Sizes(
    # Without damage: a scrub of Ceph's takes longer than all else here.
    area_bytes=256 * MIB, run_s=1, ramp_s=1, requests=(("randwrite", "strict", "nbd"),),
    copy_bytes=FILES * 2 * MIB, copy_modes=("default",), rows=10_000, oltp_s=2, tests=(("oltp_read_write", "default"),),
    rebuilds=((128 * MB, "open"),), around_s=(3.0, 1.0), damage_files=4, damage_bytes=32 * MB, damages=("none",),
)  # fmt: skip
QUICK = Sizes(
    # A copy of files ends in one flush, which both modes wait for: what `strict` adds is seen in `fio-4k` and `oltp`.
    area_bytes=GIB, run_s=3, ramp_s=1, requests=EVERY + OWN, copy_bytes=4 * GB, copy_modes=("default",),
    rows=100_000, oltp_s=6, tests=(("oltp_read_write", "default"), ("oltp_read_write", "strict")),
    # Larger sizes, and reading alone from a database, are `paper`'s.
    rebuilds=((GB, "default"), (GB, "open")), around_s=(3.0, 2.0),
    damage_files=16, damage_bytes=256 * MB, damages=("none", "one", "both"),
)  # fmt: skip
# What takes longer than a first answer may: the rebuild of twice the data, and a database as large as the paper's.
LONG = replace(
    QUICK, requests=(), copy_modes=(), rows=1_000_000, oltp_s=30, damages=(),
    rebuilds=tuple((used * GB, throttle) for throttle in ("default", "open") for used in (2, 4)),
)  # fmt: skip
PAPER = Sizes(
    area_bytes=51_200 * MB, run_s=60, ramp_s=10, requests=EVERY + OWN + KERNEL, copy_bytes=25_350 * MB,
    copy_modes=("default", "strict"), rows=1_000_000, oltp_s=60,
    tests=tuple((test, mode) for test in TESTS for mode in ("default", "strict")),
    rebuilds=tuple((used * GB, throttle) for throttle in ("default", "open") for used in (20, 40)),
    around_s=(60.0, 10.0), damage_files=FILES, damage_bytes=GB, damages=("none", "one", "both"),
)  # fmt: skip


# Where the client is, and nothing else, tells a case from its neighbour. What happens to disks is the store's alone.
NETWORK = replace(QUICK, rebuilds=(), damages=(), placements=("same-node", "two-nodes"))
# Load to the knee: with more requests outstanding more are done in a second, until each only waits longer.
LOAD = replace(
    QUICK, requests=(), copy_modes=(), tests=(), rebuilds=(), damages=(), depths=(1, 2, 4, 8, 16, 32, 64, 128)
)  # fmt: skip


def _cases(of: Sizes) -> tuple[Case, ...]:
    """Return what a profile measures. What needs the raw area filled alike stands together: filling costs most."""
    return (*_requests(of), *_depths(of), *_copies(of), *_databases(of), *_rebuilds(of), *_damages(of))


def _requests(of: Sizes) -> Iterator[Case]:
    every = tuple(product(of.placements, of.requests))
    fill_s = of.area_bytes / FILL_B_PER_S / max(1, len(every))  # once, for all of them
    for placement, (pattern, mode, path) in every:
        name = f"{PATTERNS[pattern]} {mode}" + ("" if path == "nbd" else f" {path}")
        params = {"pattern": pattern, "mode": mode, "path": path, "area_bytes": of.area_bytes}
        params |= {"seconds": of.run_s, "ramp_s": of.ramp_s}
        took = SERVE_S + fill_s + of.ramp_s + of.run_s
        yield _case("fio-4k", name, params, took, of.area_bytes, placement, group="single requests")


def _depths(of: Sizes) -> Iterator[Case]:
    """Return random requests in `strict`, where no cache answers before the store: more and more of them at once."""
    fill_s = of.area_bytes / FILL_B_PER_S / max(1, 2 * len(of.depths))  # once, for all of them
    for pattern, depth in product(("randread", "randwrite"), of.depths):
        params = {"pattern": pattern, "mode": "strict", "path": "nbd", "depth": depth, "area_bytes": of.area_bytes}
        params |= {"seconds": of.run_s, "ramp_s": of.ramp_s}
        took = SERVE_S + fill_s + of.ramp_s + of.run_s
        yield _case(
            "fio-4k", f"{PATTERNS[pattern]} strict depth={depth}", params, took, of.area_bytes, group="single requests",
            factor=f"outstanding ({PATTERNS[pattern]})", level=depth,
        )  # fmt: skip


def _copies(of: Sizes) -> Iterator[Case]:
    for placement, mode in product(of.placements, of.copy_modes):
        params = {"files": FILES, "total_bytes": of.copy_bytes, "mode": mode}
        took = MOUNT_S + of.copy_bytes / COPY_B_PER_S
        size = of.area_bytes + _on_files(of.copy_bytes)
        yield _case("file-copy", f"{FILES} files {mode}", params, took, size, placement)


def _databases(of: Sizes) -> Iterator[Case]:
    size = _on_files(DATABASE_BYTES + of.rows * ROW_BYTES)
    for placement, (test, mode) in product(of.placements, of.tests):
        params = {"test": test, "mode": mode, "rows": of.rows, "seconds": of.oltp_s}
        took = MOUNT_S + DATABASE_S + of.rows / 50_000 + of.oltp_s
        yield _case("oltp", f"{TESTS[test]} {mode}", params, took, of.area_bytes + size, placement)


def _rebuilds(of: Sizes) -> Iterator[Case]:
    for used, throttle in of.rebuilds:
        took = POOL_S + SERVE_S + LOST_S + sum(of.around_s) + used / FILL_B_PER_S + used / REBUILD_B_PER_S[throttle]
        lead_s, tail_s = of.around_s
        params = {"used_bytes": used, "throttle": throttle, "lead_s": lead_s, "tail_s": tail_s}
        size = f"{used // GB} GB" if used >= GB else f"{used // MB} MB"
        yield _case(
            "rebuild", f"{size} {throttle}", params, took, used,
            # over the bytes in use, with the brakes and without them a line of its own
            factor=f"GB in use ({throttle})", level=used / GB, group="lost disk",
        )  # fmt: skip


def _damages(of: Sizes) -> Iterator[Case]:
    for damage in of.damages:
        params = {"files": of.damage_files, "total_bytes": of.damage_bytes, "damage": damage}
        took = MOUNT_S + of.damage_bytes / COPY_B_PER_S
        if damage == "none":
            took += 2 * LOST_S + max(of.area_bytes, *(used for used, _ in of.rebuilds)) / 2 / REBUILD_B_PER_S["open"]
        else:
            took += SCRUBS_S + POOL_S
        yield _case("integrity", DAMAGE[damage], params, took, of.area_bytes + _on_files(of.damage_bytes))


def _case(
    workload: str, scenario: str, params: dict[str, Any], took: float, disk_bytes: int, placement: str = "same-node",
    group: str = "", **more: Any,
) -> Case:  # fmt: skip
    if placement != "same-node":
        # Of one group with those on the store's node: the cache below the disk forgets in minutes what was filled.
        scenario, params, took = f"{scenario} {placement}", {**params, "placement": placement}, took + SERVE_S
    return Case(workload, scenario, params, seconds=round(took, 1), disk_bytes=disk_bytes, group=group, **more)


def _on_files(size: int) -> int:
    """Return what files of this size take with their file system."""
    return int(size * 1.1) + 64 * MIB


BOTH = ("zfs", "ceph")
RBD = {
    (case.workload, case.scenario)
    for sizes in (QUICK, NETWORK, PAPER)
    for case in _requests(sizes)
    if case.params["path"] == "rbd"
}
STUDY = Study(
    name="storage",
    title="Ceph in place of ZFS: what does it do to block storage of two copies?",
    baseline="zfs",
    systems=(*BOTH, "raw"),
    profiles={
        "smoke": Profile(2, _cases(SMOKE), 2, BOTH),
        # A pool is what was made independently: more blocks on the same pools say little more about the systems. Of
        # the same spread four pools give an interval of 1.6 standard deviations to each side, three one of 2.5.
        "quick": Profile(4, _cases(QUICK), 4, BOTH),
        "long": Profile(4, _cases(LONG), 4, BOTH),
        "load": Profile(6, _cases(LOAD), 6, BOTH),
        "network": Profile(4, _cases(NETWORK), 4, BOTH),
        "paper": Profile(30, _cases(PAPER), 6, BOTH),
    },
    # Of all daemons of a store together. No CPU list: what a system needs of the processors is part of the question.
    limits=Limits(memory_bytes=5 * GIB),
    primary=(("fio-4k", "iops"), ("oltp", "transactions_per_s"), ("rebuild", "rebuild_s")),
    margins={
        "": 0.05,  # rates, CPU time
        **{f"latency_{name}_s": 0.10 for name in ("mean", "p50", "p95", "p99", "p999")},
        **dict.fromkeys(("noticed_s", "rebuild_s", "rebuild_B_per_s"), 0.10),
    },
    # What is ready to run is read just before a trial. A store that was frozen a moment ago, or has just lost a disk,
    # then still does what it put off: tens of threads of the system itself, gone soon. Daemons have no CPU quota.
    guards=Guards(runnable_per_cpu=16.0, throttled_periods=None),
    placeless={"zfs": RBD},
    deploy_s=13.0,  # a node, and a pool on it
)
