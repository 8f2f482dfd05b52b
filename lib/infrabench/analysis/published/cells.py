"""The few cells that the paper on container runtimes prints, and which cell of ours each of them stands beside.

The paper names containerd, CRI-O and Kata as if they were three of a kind. containerd and CRI-O ran what they run by
default, which is runc; which of the two ran Kata it does not say, so both of ours stand beside it. Whether a number is
of one pod or of all of them together is not said either: both of ours are shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

OURS: Mapping[str, tuple[str, ...]] = {
    "containerd": ("containerd-runc",), "cri-o": ("crio-runc",), "kata": ("containerd-kata", "crio-kata"),
}  # fmt: skip
# What a printed unit may mean: words, and the factor to the unit of our metric.
AS_PRINTED = "as printed"
MEGABYTES = {AS_PRINTED: 1e6}
MILLISECONDS = {AS_PRINTED: 1e-3}
PERCENT = {AS_PRINTED: 1.0}
THROUGHPUT = {AS_PRINTED: 8e6, "as netperf prints it, 10⁶ bit/s": 1e6}
SPINS = (
    "y-cruncher's utilisation is processor time over wall time, of which each processor makes 100 %; below 100 % it is "
    "that of one processor or means the efficiency, which is divided by their number. Ours is of all pods together"
)
UNIT = "the two readings of the unit are apart by a factor of 8 (D4)"
SIZE = "threads, array size and how many containers ran it at once are not printed"
KERNEL = f"the kernel is named in the conclusion alone (D1); {SIZE}"
LATENCY = "the number of containers is not printed, nor the tool's test"


@dataclass(frozen=True, slots=True)
class Cell:
    """One printed cell. `metrics` are ours; `scenario` begins the name of ours, `pods` ends it (0: not printed)."""

    printed: str  # id
    workload: str
    metrics: tuple[str, ...]
    readings: Mapping[str, float]
    scenario: str = ""
    pods: int = 0
    note: str = ""

    def is_at(self, scenario: str) -> bool:
        """Tell whether a scenario of ours is the one of this cell."""
        if not self.pods:
            return scenario.startswith(self.scenario)
        return scenario == f"{self.scenario} {self.pods} pods".strip()


def _rate(printed: str, pods: int) -> Cell:
    metrics = ("throughput_bit_per_s", "pair_throughput_bit_per_s")
    return Cell(printed, "pods-netperf", metrics, THROUGHPUT, "tcp_stream", pods, UNIT)


def _spin(printed: str, pods: int) -> Cell:
    # what y-cruncher tells of itself stands beside them where it is there
    metrics = tuple(f"{of}_percent" for of in ("cpu_utilisation", "efficiency", "told_utilisation", "told_efficiency"))
    return Cell(printed, "pods-pi", metrics, PERCENT, "", pods, SPINS)


def _memory(printed: str, kernel: str, pods: int) -> Cell:
    metrics = (f"{kernel}_B_per_s", f"{kernel}_pod_B_per_s")
    return Cell(printed, "pods-stream", metrics, MEGABYTES, "", pods, SIZE if kernel == "copy" else KERNEL)


CELLS = (
    _rate("D.netperf.10.rate.containerd.004", 10),
    _rate("D.netperf.40.rate.kata.004", 40),
    Cell(
        "D.netperf.latency.containerd.004.sec-4",
        "pods-netperf",
        ("latency_mean_s",),
        MILLISECONDS,
        "tcp_rr",
        0,
        LATENCY,
    ),
    _spin("D.ycruncher.40.utilisation.cri-o.004", 40),
    _spin("D.ycruncher.40.utilisation.containerd.004", 40),
    _spin("D.ycruncher.10.utilisation.cri-o.004", 10),
    _memory("D.stream.copy.10.rate.cri-o.004", "copy", 10),
    _memory("D.stream.copy.10.rate.kata.004", "copy", 10),
    _memory("D.stream.scale.rate.containerd.004.sec-4", "scale", 0),
)


@dataclass(frozen=True, slots=True)
class PublishedPair:
    """Two printed cells whose ratio can be used where neither value can: what is unknown of both cancels.

    Not `comparable`: it stands beside ours all the same, and the note says why no more.
    """

    above: str  # ids
    below: str
    note: str
    comparable: bool = True


PAIRS = (
    PublishedPair(
        CELLS[1].printed, CELLS[0].printed, "runtime and number of containers change together; the unit cancels"
    ),
    PublishedPair(CELLS[6].printed, CELLS[7].printed, "highest and lowest of nine cells; size and threads cancel"),
    PublishedPair(
        CELLS[3].printed,
        CELLS[4].printed,
        "two runtimes at one number of containers; how busy, not how fast (D7)",
        False,
    ),
    PublishedPair(
        CELLS[3].printed,
        CELLS[5].printed,
        "one runtime at two numbers of containers; how busy, not how fast (D7)",
        False,
    ),
)


def cell(printed: str) -> Cell:
    """Return the cell of an id; `KeyError` where it has none."""
    return {each.printed: each for each in CELLS}[printed]
