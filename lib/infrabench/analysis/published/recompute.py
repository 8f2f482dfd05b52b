"""Recomputations that no formula of ``audit.toml`` can say: orders, words, counts of what is printed. One a finding.

Every function takes the numbers and returns what it computed, by name; the sentences are in ``audit.toml``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import Any

import numpy as np

from infrabench.analysis.published import score
from infrabench.analysis.published.printed_numbers import RESULTS, Numbers
from infrabench.analysis.published.score import ENGINES, READ, WRITE, implied_native, order

Result = Mapping[str, Any]
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


def rows_of_the_score(n: Numbers) -> Result:
    """A34: how many rows the score has, and how many tests."""
    rows = score.table_rows(n, "lxd")
    return {"rows": len(rows), "tests": len({name.split("-")[0] for name in rows})}


def web_mixed(n: Numbers) -> Result:
    """A14: the metric whose end each end of the summary is, as rounded there."""
    ends = {}
    for end in ("low", "high"):
        span = n.span(f"A.web.above-2000.difference-vs-native.{end}.lxc.000")
        metrics = {"rate": n(f"A.web.rate-decrease.{end}.lxc.000"), "time": n(f"A.web.time-increase.{end}.lxc.000")}
        ends[end] = " and ".join(name for name, value in metrics.items() if span.low <= value <= span.high) or "neither"
    return ends


def printed_once(n: Numbers) -> Result:
    """E8: how many results each of the two papers prints."""
    results = [row for row in n.rows.values() if row.statistic in RESULTS]
    return {source: sum(row.source == source for row in results) for source in ("000", "003")}


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
    "A34": rows_of_the_score,
    "A14": web_mixed,
    "E8": printed_once,
    "C3": hashes,
    "D14": cells_printed,
}
