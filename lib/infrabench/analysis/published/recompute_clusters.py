"""Recomputations for studies B, C and D: networks, block storage, container runtimes. One function per finding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any

import numpy as np
from scipy import stats

from infrabench.analysis.published.printed_numbers import RESULTS, Numbers, RoundingSpan

Result = Mapping[str, Any]
PLACES = {"same": "same-node", "two": "two-nodes"}
FS = ("ceph", "zfs")
# the cells of study D: throughput, latency, utilisation, efficiency, copy and scale, of each runtime at each count
RUNTIME_METRICS, RUNTIMES, COUNTS = 6, ("containerd", "cri-o", "kata"), (10, 20, 40)
CELLS = ("throughput", "latency", "cpu_utilization", "memory_bandwidth")


def cni_cpu(n: Numbers) -> Result:
    """B1, B2: Cilium's CPU use over Flannel's in points, in percent, and in percent for each Gbit/s."""
    result: dict[str, Any] = {}
    for short, place in PLACES.items():
        cpu = {cni: n(f"B.iperf3.{place}.cpu.{cni}.001") for cni in ("flannel", "cilium")}
        each = {cni: cpu[cni] / n(f"B.iperf3.{place}.rate.{cni}.001") for cni in cpu}
        result[f"{short}_points"] = cpu["cilium"] - cpu["flannel"]
        result[f"{short}_percent"] = 100 * (cpu["cilium"] / cpu["flannel"] - 1)
        result[f"{short}_each"] = 100 * (each["cilium"] / each["flannel"] - 1)
        result |= {f"{short}_{cni}": each[cni] for cni in each}
    return result


def jitter_step(n: Numbers) -> Result:
    """B4: the ratios that the printed digits allow, and the step."""
    spans = [n.span(f"B.iperf3.same-node.jitter.{cni}.001") for cni in ("cilium", "flannel")]
    ratio = spans[0] / spans[1]
    return {"low": ratio.low, "high": ratio.high, "step": spans[0].high - spans[0].low}


def loss_ratios(n: Numbers) -> Result:
    """B5: loss on one node over loss between nodes."""
    return {
        cni: n(f"B.iperf3.same-node.loss.{cni}.001") / n(f"B.iperf3.two-nodes.loss.{cni}.001")
        for cni in ("flannel", "cilium")
    }


def throughput_gain(n: Numbers) -> Result:
    """B6: Cilium's throughput over Flannel's (%), and how far the two are apart between nodes (Gbit/s)."""
    gains = {}
    for short, place in PLACES.items():
        cilium, flannel = (n(f"B.iperf3.{place}.rate.{cni}.001") for cni in ("cilium", "flannel"))
        gains |= {short: 100 * (cilium / flannel - 1), f"{short}_apart": cilium - flannel}
    return gains


def zfs_minimum(n: Numbers) -> Result:
    """C1: where the smallest of the three ZFS runs must lie, given mean and maximum as rounded."""
    total, largest = 3 * n.span("C.oltp.rate.zfs.002"), n.span("C.oltp.rate.max.zfs.002")
    return {
        "low": total.low - 2 * largest.high,  # the middle run is at most the largest
        "high": (total.high - largest.low) / 2,  # the smallest run is at most the middle one
        "mean": n("C.oltp.rate.zfs.002"),
    }


def ceph_runs(n: Numbers) -> Result:
    """C2: the third Ceph run, and spread and 95 % interval (Student's t) of the three."""
    total, largest, smallest = (n.span(f"C.oltp.rate{name}.ceph.002") for name in ("", ".max", ".min"))
    third: RoundingSpan = 3 * total - largest - smallest
    values = [n("C.oltp.rate.max.ceph.002"), n("C.oltp.rate.min.ceph.002")]
    runs = [*values, 3 * n("C.oltp.rate.ceph.002") - sum(values)]
    low, high = t_interval(runs)
    sd = float(np.std(runs, ddof=1))
    return {
        "third": runs[2],
        "third_low": max(third.low, smallest.low),
        "third_high": third.high,
        "sd": sd,
        "cov": 100 * sd / np.mean(runs),
        "low": low,
        "high": high,
        "ratio": n("C.oltp.rate.zfs.002") / n("C.oltp.rate.ceph.002"),
    }


def t_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return Student's 95 % interval of the mean (Student 1908)."""
    half = stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return float(np.mean(values) - half), float(np.mean(values) + half)


def hashes(n: Numbers) -> Result:
    """C3: length of the printed hashes, their common end, and the letters that are no hexadecimal digits."""
    before, after = n.printed("C.sha256.before.hash.002"), n.printed("C.sha256.after.hash.002")
    pairs = zip(reversed(before), reversed(after), strict=False)
    return {
        "before": len(before),
        "after": len(after),
        "digits": int(n("C.sha256.sha256-digest-length.002") / n.facts["bits_per_digit"]),
        "common": sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)),
        "foreign": ", ".join(sorted(set(before + after) - set("0123456789abcdef"))),
        "lacking": len(before) - len(after),
    }


def cpu_for_work(n: Numbers) -> Result:
    """C5: CPU points of the storage node for each MB/s, and Ceph's over those of ZFS."""
    result: dict[str, Any] = {}
    for way in ("read", "write"):
        each = {fs: n(f"C.copy.{way}.cpu.{fs}.002") / n(f"C.copy.{way}.rate.{fs}.002") for fs in ("ceph", "zfs")}
        result |= {f"{way}_{fs}": value for fs, value in each.items()} | {f"{way}_times": each["ceph"] / each["zfs"]}
    speed = n("C.copy.write.rate.zfs.002") / n("C.copy.write.rate.ceph.002")
    return result | {
        "write_speed": speed,
        "write_points": n("C.copy.write.cpu.zfs.002") - n("C.copy.write.cpu.ceph.002"),
    }


def cpu_differences(n: Numbers) -> Result:
    """C6: the differences of the printed values, and what rounding leaves open of them."""
    result: dict[str, Any] = {}
    for way, high, low in (("read", "ceph", "zfs"), ("write", "zfs", "ceph")):
        names = [f"C.copy.{way}.cpu.{fs}.002" for fs in (high, low)]
        span = n.span(names[0]) - n.span(names[1])
        printed = n.span(f"C.copy.{way}.cpu-difference.002")
        result |= {way: n(names[0]) - n(names[1]), f"{way}_low": span.low, f"{way}_high": span.high}
        result[f"{way}_fits"] = "fits" if (span - printed).sign == 0 else "does not fit"
    return result


def write_over_read(n: Numbers) -> Result:
    """C8: writing over reading, for ZFS and Ceph."""
    return {
        **{f"{fs}_iops": n(f"C.iometer.seq-write.iops.{fs}.002") / n(f"C.iometer.seq-read.iops.{fs}.002") for fs in FS},
        **{f"{fs}_copy": n(f"C.copy.write.rate.{fs}.002") / n(f"C.copy.read.rate.{fs}.002") for fs in FS},
    }


def rebuild(n: Numbers) -> Result:
    """C9: Ceph's time over that of ZFS, rates in MB/s with what rounding to a minute leaves open, and the growth."""
    result: dict[str, Any] = {}
    for size in ("20", "40"):
        for fs in FS:
            seconds = 60 * n.span(f"C.rebuild.{size}-GB.time.{fs}.002")
            megabytes = 1000 * n(f"C.rebuild.used-capacity.{size}.002")
            rate = megabytes / (60 * n(f"C.rebuild.{size}-GB.time.{fs}.002"))
            result |= {f"{fs}_{size}": rate, f"{fs}_{size}_low": megabytes / seconds.high}
            result[f"{fs}_{size}_high"] = megabytes / seconds.low
        result[f"times_{size}"] = result[f"zfs_{size}"] / result[f"ceph_{size}"]
    growth = n.span("C.rebuild.40-GB.time.ceph.002") / n.span("C.rebuild.20-GB.time.ceph.002")
    point = n("C.rebuild.40-GB.time.ceph.002") / n("C.rebuild.20-GB.time.ceph.002")
    return result | {"growth": point, "growth_low": growth.low, "growth_high": growth.high}


def half_width(n: Numbers) -> Result:
    """C13: half-width of a 95 % interval over the coefficient of variation, for three runs; at Ceph's, in percent."""
    runs = int(n("C.oltp.repetitions.002"))
    factor = float(stats.t.ppf(0.975, runs - 1) / np.sqrt(runs))
    return {"factor": factor, "runs": runs, "percent": factor * ceph_runs(n)["cov"]}


def memory_winners(n: Numbers) -> Result:
    """D1: the unnamed kernel's rate over the one that is called highest."""
    scale, copy = n("D.stream.scale.rate.containerd.004.abstract"), n("D.stream.copy.10.rate.cri-o.004")
    return {"ratio": scale / copy}


def throughput_units(n: Numbers) -> Result:
    """D4: the highest throughput in Gbit/s if it is MB/s, if it is Mbit/s (also in MB/s); the ratio of the ends."""
    value = n("D.netperf.10.rate.containerd.004")
    ratio = n("D.netperf.40.rate.kata.004") / value
    return {"bytes": value * 8 / 1000, "bits": value / 1000, "bits_mb": value / 8, "factor": 8, "ratio": ratio}


def grading(n: Numbers) -> Result:
    """D5: the printed throughputs over the top of the table's scale, in either unit."""
    top = n("D.tiphon.very-good.throughput-category-high.cited.004")
    high, low = n("D.netperf.10.rate.containerd.004"), n("D.netperf.40.rate.kata.004")
    return {
        "kbps": high * 8e3,
        "over_high": high * 8e3 / top,
        "over_low": low * 1e3 / top,
    }


def same_digits(n: Numbers) -> Result:
    """D6: whether the two cells have the same printed digits; the range of the printed utilisations."""
    cells = [n.printed("D.ycruncher.40.utilisation.containerd.004"), n.printed("D.ycruncher.10.utilisation.cri-o.004")]
    highest = n("D.ycruncher.40.utilisation.cri-o.004")
    return {"same": "the same digits" if len(set(cells)) == 1 else "other digits", "range": highest - float(cells[0])}


def copy_range(n: Numbers) -> Result:
    """D10: the range of the copy results in percent."""
    return {"percent": 100 * (n("D.stream.copy.10.rate.cri-o.004") / n("D.stream.copy.10.rate.kata.004") - 1)}


def cells_printed(n: Numbers) -> Result:
    """D14: cells of the design with a printed mean, and how many values they are; the fall of the throughput (%)."""
    rows = [row for row in n.rows.values() if row.source == "004" and row.statistic in RESULTS and row.metric in CELLS]
    return {
        "cells": len(RUNTIMES) * len(COUNTS) * RUNTIME_METRICS,
        "printed": len({(row.platform, row.workload, row.metric, row.printed) for row in rows}),
        "values": len({row.printed for row in rows}),
        "fall": 100 * (1 - throughput_units(n)["ratio"]),
    }


RECOMPUTE: dict[str, Callable[[Numbers], Result]] = {
    "B1": cni_cpu,
    "B2": cni_cpu,
    "B4": jitter_step,
    "B5": loss_ratios,
    "B6": throughput_gain,
    "B11": cni_cpu,
    "C1": zfs_minimum,
    "C2": ceph_runs,
    "C3": hashes,
    "C5": cpu_for_work,
    "C6": cpu_differences,
    "C8": write_over_read,
    "C9": rebuild,
    "C13": half_width,
    "D1": memory_winners,
    "D4": throughput_units,
    "D5": grading,
    "D6": same_digits,
    "D10": copy_range,
    "D14": cells_printed,
}
