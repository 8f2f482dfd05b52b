"""Recomputations that no formula of ``audit.toml`` can say: rounding, order, words, several versions. One a finding.

Every function takes the numbers and returns what it computed, by name; the sentences are in ``audit.toml``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any

import numpy as np
from scipy import stats

from infrabench.analysis.published import score
from infrabench.analysis.published.printed_numbers import RESULTS, Numbers, RoundingSpan
from infrabench.analysis.published.score import ENGINES, READ, WRITE, implied_native, order

Result = Mapping[str, Any]
FS = ("ceph", "zfs")
# the cells of study D: throughput, latency, utilisation, efficiency, copy and scale, of each runtime at each count
RUNTIME_METRICS, RUNTIMES, COUNTS = 6, ("containerd", "cri-o", "kata"), (10, 20, 40)
CELLS = ("throughput", "latency", "cpu_utilization", "memory_bandwidth")


def read_of_docker(n: Numbers) -> Result:
    """A2: the native read rates that the engines imply, and Docker's share and rate from the others' native."""
    native = {engine: implied_native(n, "iozone.read", engine) for engine in ENGINES}
    share = 100 * n("A.iozone.read.rate.docker.000") / native["lxd"]
    others = n("A.iozone.read.percent.lxc.000") + n("A.iozone.read.percent.lxd.000")
    table = np.mean([score.table_rows(n, engine)[READ] for engine in ENGINES])
    writes = [n(f"A.iozone.write.percent.{engine}.000") for engine in ENGINES]
    reads = [share, n("A.iozone.read.percent.lxc.000"), n("A.iozone.read.percent.lxd.000")]
    return {
        **native,
        "least": 100 - max(reads + writes),
        "most": 100 - min(reads + writes),
        "share": share,
        "rate": n("A.iozone.read.percent.docker.000") / 100 * native["lxd"],
        "loss_table": 100 - 100 * table,
        "loss_rate": 100 - (share + others) / 3,
        "loss_text": 100 - (n("A.iozone.read.percent.docker.000") + others) / 3,
    }


def overall(n: Numbers) -> Result:
    """A5: the corrected scores, the leads of LXD and the order of the other two."""
    table = score.composite(n).set_index(["version", "engine"])["score"]
    lead = score.orders(n).set_index(["version", "ahead", "behind"])["points"]
    corrected = ("cpu", "text", "rates")
    over_lxc = [lead[name, "lxd", "lxc"] for name in corrected]
    over_docker = [lead[name, "lxd", "docker"] for name in corrected]
    relative = [100 * (table[name, "lxd"] / table[name, "lxc"] - 1) for name in corrected]
    result = {f"{name}_{engine}": table[name, engine] for name in ("published", *corrected) for engine in ENGINES}
    return result | {
        **{f"order_{name}": order(name, n) for name in ("published", *corrected)},
        "published_over_lxc": lead["published", "lxd", "lxc"],
        "published_over_docker": lead["published", "lxd", "docker"],
        "over_lxc_low": min(over_lxc),
        "over_lxc_high": max(over_lxc),
        "over_docker_low": min(over_docker),
        "over_docker_high": max(over_docker),
        "relative_low": min(relative),
        "relative_high": max(relative),
    }


def other_means(n: Numbers) -> Result:
    """A7: the disk's weight, the score with the disk counted once, and geometric means."""
    table = score.composite(n).set_index(["version", "engine"])["score"]
    rows = score.table_rows(n, "lxd")
    weight = 100 * sum(name in (READ, WRITE) for name in rows) / len(rows)
    names = {"three": "three", "geometric": "geometric-cpu"}
    return {"weight": weight} | {
        f"{short}_{engine}": table[name, engine] for short, name in names.items() for engine in ENGINES
    }


def detectable(n: Numbers) -> Result:
    """A24: the largest standard deviation of a run (% of the mean) at which the CPU differences can be found.

    Two means of as many runs as are stated, two-sided t-test, power and level as in the facts.
    """
    runs = int(n("A.all.repetitions-per-test.000"))
    effect = detectable_effect(runs, n.facts["power_percent"] / 100, n.facts["level_percent"] / 100)
    engines = ("lxd", "docker")
    return {engine: n(f"A.cpu.increase.{engine}.000") / effect for engine in engines} | {"runs": runs, "effect": effect}


def detectable_effect(runs: int, power: float, level: float) -> float:
    """Return the difference of two means, in standard deviations, that a t-test of `runs` each finds with `power`.

    Noncentral t distribution, both tails (Cohen 1988, chapter 2), by bisection.
    """
    df, critical = 2 * runs - 2, stats.t.ppf(1 - level / 2, 2 * runs - 2)
    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        shift = middle * np.sqrt(runs / 2)
        found = stats.nct.sf(critical, df, shift) + stats.nct.cdf(-critical, df, shift)
        low, high = (middle, high) if found < power else (low, middle)
    return float(middle)


def rows_of_the_score(n: Numbers) -> Result:
    """A34: how many rows the score has, and how many tests."""
    rows = score.table_rows(n, "lxd")
    return {"rows": len(rows), "tests": len({name.split("-")[0] for name in rows})}


def ftp_wins(n: Numbers) -> Result:
    """A12: in how many FTP metrics LXC is ahead of LXD."""
    ahead = [
        n("A.ftp.time-reduction.lxc.000") > n("A.ftp.time-reduction.lxd.000"),
        n("A.ftp.rate-increase.lxc.000") > n("A.ftp.rate-increase.lxd.000"),
        n("A.ftp.latency-advantage.lxc.000") > 0,
    ]
    return {"wins": sum(ahead), "metrics": len(ahead)}


def web_mixed(n: Numbers) -> Result:
    """A14: the metric whose end each end of the summary is, as rounded there."""
    ends = {}
    for end in ("low", "high"):
        span = n.span(f"A.web.above-2000.difference-vs-native.{end}.lxc.000")
        metrics = {"rate": n(f"A.web.rate-decrease.{end}.lxc.000"), "time": n(f"A.web.time-increase.{end}.lxc.000")}
        ends[end] = " and ".join(name for name, value in metrics.items() if span.low <= value <= span.high) or "neither"
    return ends


def web_thresholds(n: Numbers) -> Result:
    """A15: the thresholds from which LXC is said to be best."""
    places = ("A.web.lxc-best-from.lxc.003", "A.web.fast-total-time-from-users.lxc.003")
    return {"count": len({n(place) for place in places})}


def mail_lowest(n: Numbers) -> Result:
    """A18: the engine with the lowest overhead in 003."""
    values = {engine: n(f"A.mail.overhead.{engine}.003") for engine in ENGINES}
    return {"lowest": ENGINES[min(values, key=lambda engine: values[engine])], "value": min(values.values())}


def rounded_ftp(n: Numbers) -> Result:
    """E6: the percentages of 000 with one decimal."""
    engines = ("lxc", "lxd")
    same = [round(n(f"A.ftp.time-reduction.{e}.000"), 1) == n(f"A.ftp.time-reduction.{e}.003") for e in engines]
    return {"rounding": "rounding explains both" if all(same) else "rounding does not explain them"}


def rounded_ram(n: Numbers) -> Result:
    """E7: the rate of 000 with two decimals."""
    same = round(n("A.ram.rate.lxd.000"), 2) == n("A.ram.rate.lxd.003")
    return {"rounding": "rounding explains it" if same else "rounding does not explain it"}


def printed_once(n: Numbers) -> Result:
    """E8: how many results each of the two papers prints."""
    results = [row for row in n.rows.values() if row.statistic in RESULTS]
    return {source: sum(row.source == source for row in results) for source in ("000", "003")}


def jitter_step(n: Numbers) -> Result:
    """B4: the ratios that the printed digits allow, and the step."""
    spans = [n.span(f"B.iperf3.same-node.jitter.{cni}.001") for cni in ("cilium", "flannel")]
    ratio = spans[0] / spans[1]
    return {"low": ratio.low, "high": ratio.high, "step": spans[0].high - spans[0].low}


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


def same_digits(n: Numbers) -> Result:
    """D6: whether the two cells have the same printed digits; the range of the printed utilisations."""
    cells = [n.printed("D.ycruncher.40.utilisation.containerd.004"), n.printed("D.ycruncher.10.utilisation.cri-o.004")]
    highest = n("D.ycruncher.40.utilisation.cri-o.004")
    return {"same": "the same digits" if len(set(cells)) == 1 else "other digits", "range": highest - float(cells[0])}


def cells_printed(n: Numbers) -> Result:
    """D14: cells of the design with a printed mean, and how many values they are; the fall of the throughput (%)."""
    highest = n("D.netperf.10.rate.containerd.004")
    rows = [row for row in n.rows.values() if row.source == "004" and row.statistic in RESULTS and row.metric in CELLS]
    return {
        "cells": len(RUNTIMES) * len(COUNTS) * RUNTIME_METRICS,
        "printed": len({(row.platform, row.workload, row.metric, row.printed) for row in rows}),
        "values": len({row.printed for row in rows}),
        "fall": 100 * (1 - n("D.netperf.40.rate.kata.004") / highest),
    }


RECOMPUTE: dict[str, Callable[[Numbers], Result]] = {
    "A2": read_of_docker,
    "A5": overall,
    "A7": other_means,
    "A24": detectable,
    "A34": rows_of_the_score,
    "A12": ftp_wins,
    "A14": web_mixed,
    "A15": web_thresholds,
    "A18": mail_lowest,
    "E1": mail_lowest,
    "E6": rounded_ftp,
    "E7": rounded_ram,
    "E8": printed_once,
    "B4": jitter_step,
    "C1": zfs_minimum,
    "C2": ceph_runs,
    "C3": hashes,
    "C6": cpu_differences,
    "C9": rebuild,
    "C13": half_width,
    "D6": same_digits,
    "D14": cells_printed,
}
