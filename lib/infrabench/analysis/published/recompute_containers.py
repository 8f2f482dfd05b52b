"""Recomputations for study A: composite score, CPU, disk, memory, web, FTP, mail; and its two papers side by side (E).

One function per finding: it takes the numbers and returns what it computed, by name; the sentences are in
``audit.toml``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy import stats

from infrabench.analysis.published import score
from infrabench.analysis.published.printed_numbers import RESULTS, Numbers
from infrabench.analysis.published.score import CPU, ENGINES, READ, WRITE, implied_native, order

MB, MIB = 1e6, 2.0**20
Result = Mapping[str, Any]
ENDS = ("low", "high")


def cpu_scores(n: Numbers) -> Result:
    """A1: the scores when the percentage is taken for a fraction, as printed, and when it is not."""
    increase = {engine: n(f"A.cpu.increase.{engine}.000") for engine in ENGINES}
    slip = {f"{engine}_slip": 1 - value for engine, value in increase.items()}
    return (
        slip
        | {engine: 1 - value / 100 for engine, value in increase.items()}
        | {
            "factor": 100,
            "largest": max(increase.values()),
        }
    )


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


def write_of_docker(n: Numbers) -> Result:
    """A3: Docker's share of the native write rate, as the other two engines imply it."""
    native = implied_native(n, "iozone.write", "lxd")
    rate = n("A.iozone.write.rate.docker.000")
    return {"native": native, "share": 100 * rate / native, "score": rate / native}


def write_of_lxd(n: Numbers) -> Result:
    """A4: the text's percentage as a score with two decimals."""
    return {"score": n("A.iozone.write.percent.lxd.000") / 100}


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


def docker_total(n: Numbers) -> Result:
    """A6: the printed sum over four."""
    percent = 100 * n("A.overall.sum.docker.000") / 4
    return {"percent": percent, "rounded": np.floor(10 * percent + 0.5) / 10, "truncated": np.floor(10 * percent) / 10}


def other_means(n: Numbers) -> Result:
    """A7: the disk's weight, the score with the disk counted once, and geometric means."""
    table = score.composite(n).set_index(["version", "engine"])["score"]
    rows = score.table_rows(n, "lxd")
    weight = 100 * sum(name in (READ, WRITE) for name in rows) / len(rows)
    names = {"three": "three", "geometric": "geometric-cpu"}
    return {"weight": weight} | {
        f"{short}_{engine}": table[name, engine] for short, name in names.items() for engine in ENGINES
    }


def same_paper_two_scales(n: Numbers) -> Result:
    """A23: the mean of the three CPU differences, and what the score says they are."""
    differences = [n(f"A.cpu.increase.{engine}.000") for engine in ENGINES]
    return {"mean": np.mean(differences), "by_score": 100 - 100 * n(f"A.overall.{CPU}.score.docker.003")}


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


def megabits(n: Numbers) -> Result:
    """A20: the printed rates in MB/s if they were Mbit/s, beside what the same host moved by FTP."""
    ftp = n("A.ftp.file-size.000") / n("A.ftp.total-time.lxd.000")
    return {
        "read": n("A.iozone.read.rate.lxd.000") / 8,
        "ram": n("A.ram.rate.lxd.000") / 8 / 1000,
        "bus": n("A.setup.ram-speed.server.003") * n.facts["bus_bytes"] / 1000,
        "ftp": ftp,
        "factor": 8,
    }


def cached(n: Numbers) -> Result:
    """A21: the file over the memory."""
    return {"ratio": n("A.iozone.file-size.003") / n("A.setup.ram.server.003")}


def saturation(n: Numbers) -> Result:
    """A22: the threads at which saturation is seen, over those that the processor has."""
    first = n("A.cpu.saturation-at-threads.6.containers.003")
    return {"over": first / n.facts["cpu_threads"]}


def rows_of_the_score(n: Numbers) -> Result:
    """A34: how many rows the score has, and how many tests."""
    rows = score.table_rows(n, "lxd")
    return {"rows": len(rows), "tests": len({name.split("-")[0] for name in rows})}


def unsigned(n: Numbers) -> Result:
    """A8: what the printed formula makes of a time that is shorter than native."""
    change = -n("A.ftp.time-reduction.lxd.000")
    return {"overhead": abs(change), "change": change}


def ftp_rates(n: Numbers) -> Result:
    """A9: the rates that the times imply for one file, and the times that the rates imply (% of native)."""
    result: dict[str, Any] = {}
    for engine in ENGINES:
        reduction, gain = n(f"A.ftp.time-reduction.{engine}.000"), n(f"A.ftp.rate-increase.{engine}.000")
        result[f"{engine}_rate"] = 100 * (1 / (1 - reduction / 100) - 1)
        result[f"{engine}_time"] = -100 * (1 - 1 / (1 + gain / 100))
        result[f"{engine}_speedup"] = 1 + reduction / 100
        result[f"{engine}_printed"] = 1 + gain / 100
    return result


def ftp_times(n: Numbers) -> Result:
    """A10: the times (s) that LXD's time and the percentages imply, and the native rate (MB/s)."""
    native = n("A.ftp.total-time.lxd.000") / (1 - n("A.ftp.time-reduction.lxd.000") / 100)
    times = {engine: native * (1 - n(f"A.ftp.time-reduction.{engine}.000") / 100) for engine in ENGINES}
    return {**times, "native": native, "rate": n("A.ftp.file-size.000") / native}


def ftp_points(n: Numbers) -> Result:
    """A11: LXC's rate over LXD's (%), and the difference of their gains (percentage points)."""
    lxc, lxd = n("A.ftp.rate-increase.lxc.000"), n("A.ftp.rate-increase.lxd.000")
    return {"relative": 100 * ((1 + lxc / 100) / (1 + lxd / 100) - 1), "points": lxc - lxd}


def ftp_wins(n: Numbers) -> Result:
    """A12: in how many FTP metrics LXC is ahead of LXD."""
    ahead = [
        n("A.ftp.time-reduction.lxc.000") > n("A.ftp.time-reduction.lxd.000"),
        n("A.ftp.rate-increase.lxc.000") > n("A.ftp.rate-increase.lxd.000"),
        n("A.ftp.latency-advantage.lxc.000") > 0,
    ]
    return {"wins": sum(ahead), "metrics": len(ahead)}


def web_rates(n: Numbers) -> Result:
    """A13: the decrease in rate (%) that an increase in total time implies; ab computes one from the other."""
    result: dict[str, Any] = {}
    for engine in ENGINES:
        for end in ENDS:
            increase = n(f"A.web.time-increase.{end}.{engine}.000")
            result[f"{engine}_{end}"] = 100 * increase / (100 + increase)
    result["lxc_times"] = n("A.web.rate-decrease.low.lxc.000") / result["lxc_low"]
    result["lxd_times"] = result["lxd_low"] / n("A.web.rate-decrease.low.lxd.000")
    return result


def web_mixed(n: Numbers) -> Result:
    """A14: the metric whose end each end of the summary is, as rounded there."""
    ends = {}
    for end in ENDS:
        span = n.span(f"A.web.above-2000.difference-vs-native.{end}.lxc.000")
        metrics = {"rate": n(f"A.web.rate-decrease.{end}.lxc.000"), "time": n(f"A.web.time-increase.{end}.lxc.000")}
        ends[end] = " and ".join(name for name, value in metrics.items() if span.low <= value <= span.high) or "neither"
    return ends


def web_thresholds(n: Numbers) -> Result:
    """A15: the thresholds from which LXC is said to be best."""
    places = ("A.web.lxc-best-from.lxc.003", "A.web.fast-total-time-from-users.lxc.003")
    return {"count": len({n(place) for place in places})}


def mail_bounds(n: Numbers) -> Result:
    """A16: largest and smallest overhead (%)."""
    values = [n(f"A.mail.decrease.{engine}.000") for engine in ENGINES]
    return {"largest": max(values), "smallest": min(values)}


def mail_spread(n: Numbers) -> Result:
    """A17: the differences of the overheads (percentage points)."""
    docker, lxc, lxd = (n(f"A.mail.decrease.{engine}.000") for engine in ENGINES)
    return {"all": max(docker, lxc, lxd) - min(docker, lxc, lxd), "nearest": lxd - lxc}


def mail_lowest(n: Numbers) -> Result:
    """A18: the engine with the lowest overhead in 003."""
    values = {engine: n(f"A.mail.overhead.{engine}.003") for engine in ENGINES}
    return {"lowest": ENGINES[min(values, key=lambda engine: values[engine])], "value": min(values.values())}


def mail_load(n: Numbers) -> Result:
    """A19: the largest load that is described, in Gbit/s, for all threads together and for each of them."""
    size = n("A.mail.messages.000") * n("A.mail.message-size.000") * MB * 8
    seconds = 60 * n("A.mail.duration.000")
    threads = n("A.mail.concurrent-threads.000")
    return {
        "volume": n("A.mail.messages.000") * n("A.mail.message-size.000") / 1000,
        "total": size / seconds / 1e9,
        "each": threads * size / seconds / 1e9,
        "link": n("A.setup.nic.client.003"),
    }


def ftp_link(n: Numbers) -> Result:
    """A25: the rate of LXD's transfer in Mbit/s, for a file of MB and of MiB."""
    size, seconds = n("A.ftp.file-size.000"), n("A.ftp.total-time.lxd.000")
    return {"mb": size * MB * 8 / seconds / 1e6, "mib": size * MIB * 8 / seconds / 1e6}


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


RECOMPUTE: dict[str, Callable[[Numbers], Result]] = {
    "A1": cpu_scores,
    "A2": read_of_docker,
    "A3": write_of_docker,
    "A4": write_of_lxd,
    "A5": overall,
    "A6": docker_total,
    "A7": other_means,
    "A20": megabits,
    "A21": cached,
    "A22": saturation,
    "A23": same_paper_two_scales,
    "A24": detectable,
    "A34": rows_of_the_score,
    "A8": unsigned,
    "A9": ftp_rates,
    "A10": ftp_times,
    "A11": ftp_points,
    "A12": ftp_wins,
    "A13": web_rates,
    "A14": web_mixed,
    "A15": web_thresholds,
    "A16": mail_bounds,
    "A17": mail_spread,
    "A18": mail_lowest,
    "A19": mail_load,
    "A25": ftp_link,
    "E1": mail_lowest,
    "E6": rounded_ftp,
    "E7": rounded_ram,
    "E8": printed_once,
}
