"""Recomputations for study A, services: web, FTP and mail, and the two papers side by side.

One function per finding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from infrabench.analysis.published.data import RESULTS, Numbers
from infrabench.analysis.published.recompute_system import MB, MIB
from infrabench.analysis.published.score import ENGINES

Result = Mapping[str, Any]
ENDS = ("low", "high")


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
