"""The cells that the paper on block storage prints, and which of ours each stands beside.

Which durability its two systems had is not stated, so each printed value stands beside both of our modes. Its disks
turned and its client was another machine; what stands beside it here shows where the numbers lie, no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from infrabench.analysis.published.cells import AS_PRINTED, MEGABYTES, PERCENT, Cell

OURS: Mapping[str, tuple[str, ...]] = {"ceph": ("ceph",), "zfs": ("zfs",)}
RATE = {AS_PRINTED: 1.0}
MINUTES = {AS_PRINTED: 60.0}
REQUESTS = {
    "seq-read": "sequential read", "seq-write": "sequential write", "random-read": "random read",
    "random-write": "random write",
}  # fmt: skip
DISKS = "over two disks of 7200 rpm and a network of 1 Gbit/s; how ZFS was reached is not stated (C12)"
WRITTEN = f"what a write had reached when it was confirmed is not stated (C8); {DISKS}"
BUSY = "of the storage node alone; ours is of the machine that is store and client. For the work done, see C5"
THROTTLES = "recovery settings are not stated (C9); the load beside it neither"


def _cells() -> Iterator[Cell]:
    for system in OURS:
        for name, pattern in REQUESTS.items():
            note = WRITTEN if "write" in pattern else DISKS
            yield Cell(f"C.iometer.{name}.iops.{system}.002", "fio-4k", ("iops",), RATE, pattern, note=note)
        for way, note in (("read", DISKS), ("write", WRITTEN)):
            printed = f"C.copy.{way}.rate.{system}.002"
            yield Cell(printed, "file-copy", (f"{way}_B_per_s",), MEGABYTES, note=note)
            printed = f"C.copy.{way}.cpu.{system}.002"
            yield Cell(printed, "file-copy", (f"{way}_cpu_percent",), PERCENT, note=BUSY)
        rates = ("transactions_per_s", "queries_per_s")  # which of the two is not stated
        yield Cell(f"C.oltp.rate.{system}.002", "oltp", rates, RATE, "read-write", note=WRITTEN)
        for size in ("20", "40"):
            printed = f"C.rebuild.{size}-GB.time.{system}.002"
            yield Cell(printed, "rebuild", ("rebuild_s",), MINUTES, f"{size} GB", note=THROTTLES)


CELLS = tuple(_cells())
