"""known-effects: does a study find an effect of known size, and nothing where nothing was changed?

One deployment of native is measured under several labels. Two are the same (an A/A comparison); the others each carry
one effect whose true ratio follows from how it is made, not from a measurement:

* ``quota-95``: the kernel gives the cgroup 19 ms of processor time in every 20 ms; a single busy thread runs at 0.95.
* ``busy-2``, ``busy-5``: the workload `spin` waits busily for 2 or 5 % of each piece of work: 1 / 1.02 and 1 / 1.05.
* ``rate-95``: a token bucket on the link to the client lets 380 Mbit/s through where all others have 400: 0.95.
"""

from __future__ import annotations

from infrabench.core import Case, Guards, Limits, Profile, Study, Variant

MIB = 2**20
NETWORK = "infrabench-native"  # native's own network namespace: the host's link to the world is never touched
RATE_MBIT = 400
PERIOD_US, QUOTA_US = 20_000, 19_000  # a short period: what a run gains by starting inside one is small

_QUOTA = """
found=
quota=$1 period=$2; shift 2
for group in "$@"; do
  if [ -e "$group/cpu.max" ]; then echo "$quota $period" >"$group/cpu.max"; found=1; fi
  if [ -e "$group/cpu.cfs_quota_us" ]; then
    [ "$quota" = max ] && quota=-1
    echo "$period" >"$group/cpu.cfs_period_us"
    echo "$quota" >"$group/cpu.cfs_quota_us"
    found=1
  fi
done
[ -n "$found" ] || { echo 'the system has no cgroup of its own with a CPU quota' >&2; exit 1; }
"""


def _rate(mbit: float) -> tuple[str, tuple[str, ...]]:
    bucket = ("tbf", "rate", f"{mbit:g}mbit", "burst", "256kb", "latency", "100ms")
    return "server", ("ip", "netns", "exec", NETWORK, "tc", "qdisc", "replace", "dev", "eth0", "root", *bucket)


def _quota(amount: str) -> tuple[str, tuple[str, ...]]:
    return "server", ("sh", "-euc", _QUOTA, "sh", amount, str(PERIOD_US), "{cgroups}")


SAME = _rate(RATE_MBIT)
UNCHANGED = Variant("native", enter=(SAME,))


def _cases(seconds: int, chunks: int, size_mib: int) -> tuple[Case, ...]:
    size = size_mib * MIB
    return (
        Case("sysbench-cpu", "threads=1", {"threads": 1, "seconds": seconds}, seconds=seconds + 0.1),
        Case("spin", f"chunks={chunks}", {"chunks": chunks}, seconds=chunks * 0.001 + 0.1),
        Case(
            "ftp", f"size={size_mib}MiB", {"size_bytes": size}, seconds=size * 8 / (RATE_MBIT * 1e6) + 0.5,
            disk_bytes=size,
        ),
    )  # fmt: skip


STUDY = Study(
    name="known-effects",
    title="Are effects of known size found, and nothing where nothing was changed?",
    baseline="unchanged",
    systems=("unchanged", "unchanged-again", "quota-95", "busy-2", "busy-5", "rate-95"),
    profiles={
        "smoke": Profile(5, _cases(1, 300, 16)),
        "quick": Profile(30, _cases(2, 1200, 64)),
        "paper": Profile(30, _cases(10, 10000, 500)),
    },
    limits=Limits(),
    primary=(("sysbench-cpu", "events_per_s"), ("spin", "chunks_per_s"), ("ftp", "transfer_B_per_s")),
    margins={"": 0.02},
    known=(
        ("quota-95", "sysbench-cpu", "events_per_s", 0.95),
        ("busy-2", "spin", "chunks_per_s", 1 / 1.02),
        ("busy-5", "spin", "chunks_per_s", 1 / 1.05),
        ("rate-95", "ftp", "transfer_B_per_s", 0.95),
    ),
    # throttled periods are the effect itself here
    guards=Guards(throttled_periods=None),
    variants={
        "unchanged": UNCHANGED,
        "unchanged-again": UNCHANGED,
        "quota-95": Variant("native", enter=(SAME, _quota(str(QUOTA_US))), leave=(_quota("max"),)),
        "busy-2": Variant("native", prefix=("env", "INFRABENCH_BUSY_SHARE=0.02"), enter=(SAME,)),
        "busy-5": Variant("native", prefix=("env", "INFRABENCH_BUSY_SHARE=0.05"), enter=(SAME,)),
        "rate-95": Variant("native", enter=(_rate(0.95 * RATE_MBIT),)),
    },
)
