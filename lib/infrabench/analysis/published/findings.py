"""What does not add up in the papers: every claim beside what its own numbers give, computed when it is asked for.

Sentences and the formulas of what they name are data (``audit.toml``). What no formula can say (orders, words, counts)
is a function of `RECOMPUTE`: it takes the numbers and returns what it computed, by name.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from itertools import groupby, takewhile
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from scipy.optimize import brentq

from infrabench.analysis.published import score
from infrabench.analysis.published.printed_numbers import FOLDER, RESULTS, Numbers, filled, numbers, read_toml
from infrabench.analysis.published.score import ENGINES, READ, WRITE, implied_native, order
from infrabench.core import SchemaError

TOML = FOLDER / "audit.toml"
SYSTEM = "SYSTEM"  # stands in a formula and in its name for every system of the study
SYSTEMS = {"A": tuple(ENGINES), "B": ("flannel", "cilium"), "C": ("ceph", "zfs")}
OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}  # fmt: skip
COMPARED: Mapping[type, Callable[[Any, Any], bool]] = {ast.Eq: operator.eq, ast.Gt: operator.gt}
OF_SPAN = ("low", "high", "sign")


def detectable_effect(runs: int, power: float, level: float) -> float:
    """Return the difference of two means, in standard deviations, found by a t-test of `runs` each, less than 2.

    Noncentral t distribution, both tails (Cohen 1988, chapter 2).
    """
    critical = stats.t.ppf(1 - level / 2, 2 * runs - 2)

    def lack(effect: float) -> float:
        shift = effect * np.sqrt(runs / 2)
        return stats.nct.sf(critical, 2 * runs - 2, shift) + stats.nct.cdf(-critical, 2 * runs - 2, shift) - power

    return float(brentq(lack, 0, 2))


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": abs, "floor": math.floor, "max": max, "min": min, "round": round, "detectable_effect": detectable_effect,
    "t": stats.t.ppf, "mean": lambda *values: np.mean(values), "sd": lambda *values: np.std(values, ddof=1),
}  # fmt: skip
KINDS = {
    "C": "changes a conclusion",
    "N": "changes a number",
    "M": "information is missing",
    "E": "editorial",
}
VERDICTS = ("confirmed", "cannot be decided", "editorial")
OUTCOMES = {"survives": "survives", "falls": "does not survive", "undecided": "cannot be decided"}
BOTH = "E"  # the letter of findings that set 000 beside 003; their study is A
PLACE = re.compile(r"(Abstra[a-z]+|(sec|Tabel|Table) [A-Z\d.]+)(, item \d)?")  # as far as a table names it


def audit(study: str = "", known: Numbers | None = None) -> pd.DataFrame:
    """Return every inconsistency of the papers, or of the experiment with the letter `study` (A to D), one row each.

    ``id``; ``study``; ``kind`` (of `KINDS`); ``verdict`` (of `VERDICTS`); ``basis``: *arithmetic* where a function
    computed ``recomputed`` from the inputs, else *text*; ``claim``: what is printed; ``recomputed``; ``consequence``;
    ``where``: places of the inputs and of the evidence; ``evidence``: quoted words; ``inputs``: ids of all published
    numbers that were read. `SchemaError` where a sentence names what nothing has. `known`: published numbers with the
    facts of `facts`; those of the repository by default.
    """
    known = numbers(facts=facts()) if known is None else known
    rows = [_row(each, known.fresh()) for each in read_toml(TOML.name)["finding"]]
    table = pd.DataFrame(rows)
    chosen = table[table["study"].str.startswith(study)].reset_index(drop=True)
    if chosen.empty:
        raise SchemaError(f"no findings on study {study!r}; there are {', '.join(sorted(set(table['study'])))}")
    return chosen


def outcomes(study: str) -> dict[str, list[str]]:
    """Return what is left of an experiment: sentences by ``survives``, ``falls`` and ``undecided``."""
    known = numbers(facts=facts())
    names = [each["id"] for each in read_toml(TOML.name)["finding"]]
    computed = {f"{name}.{key}": value for name in names for key, value in recompute(name, known).items()}
    for each in read_toml(TOML.name)["outcome"]:
        if each["study"] == study:
            return {kind: [filled(text, known, computed) for text in each[kind]] for kind in OUTCOMES}
    raise SchemaError(f"no outcome of study {study!r}")


def tally(table: pd.DataFrame) -> pd.DataFrame:
    """Return how many findings there are by study, kind and verdict, from `audit`."""
    named = table.assign(kind=pd.Categorical(table["kind"].map(KINDS), list(KINDS.values())))
    counts = pd.crosstab([named["study"], named["kind"]], named["verdict"])
    return counts.reindex(columns=list(VERDICTS), fill_value=0).reset_index().rename_axis(None, axis=1)


def facts() -> Mapping[str, float]:
    """Return the numbers of the audit that are not the papers', by name; their sources stand in ``audit.toml``."""
    return {name: each["value"] for name, each in read_toml(TOML.name)["facts"].items()}


def recompute(finding: str, known: Numbers | None = None) -> Mapping[str, Any]:
    """Return what is computed for a finding, by name; empty for one that is not arithmetic."""
    known = numbers(facts=facts()) if known is None else known
    if finding in RECOMPUTE:
        return RECOMPUTE[finding](known)
    formulas = next((each.get("compute", {}) for each in read_toml(TOML.name)["finding"] if each["id"] == finding), {})
    if isinstance(formulas, str):
        return recompute(formulas, known)
    computed: dict[str, Any] = {}
    for by_system, group in groupby(formulas, key=lambda name: SYSTEM in name):
        names = list(group)
        for system in SYSTEMS[finding[0]] if by_system else ("",):
            for name in names:
                formula = formulas[name].replace(SYSTEM, system)
                computed[name.replace(SYSTEM, system)] = evaluate(formula, known, computed)
    return computed


def evaluate(formula: str, known: Numbers, computed: Mapping[str, Any]) -> Any:
    """Return the value of a formula: arithmetic on numbers in braces (see ``audit.toml``) and on what was computed.

    Raises `SchemaError` for anything else in it.

    Examples
    --------
    >>> evaluate("100 * part / max(2, 4)", numbers(), {"part": 1.0})
    25.0
    """
    names = dict(computed)

    def name_of(found: re.Match[str]) -> str:
        name, what = f"printed_{len(names)}", found[1]
        kind, _, rest = what.partition(".")
        if kind == "fact" and rest not in known.facts:
            raise SchemaError(f"formula {formula!r}: there is no fact {rest!r}: there are {', '.join(known.facts)}")
        if kind.startswith("="):
            names[name] = recompute(kind[1:], known)[rest]
        elif kind == "fact":
            names[name] = known.facts[rest]
        else:
            names[name] = known.span(rest) if kind == "span" else known(what)
        return name

    def value(node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=int() | float() | str() as constant):
                return constant
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -value(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                return OPERATORS[type(op)](value(left), value(right))
            case ast.Attribute(value=span, attr=name) if name in OF_SPAN:
                return getattr(value(span), name)
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARED:
                return COMPARED[type(op)](value(left), value(right))
            case ast.IfExp(test=test, body=body, orelse=otherwise):
                return value(body) if value(test) else value(otherwise)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
                return FUNCTIONS[name](*map(value, arguments))
        raise SchemaError(f"formula {formula!r}: {ast.unparse(node)} is no arithmetic, and nothing has that name")

    return value(ast.parse(re.sub(r"\{([^}]+)\}", name_of, formula), mode="eval").body)


def _row(each: Mapping[str, Any], known: Numbers) -> dict[str, str]:
    computed = recompute(each["id"], known)
    texts = {name: filled(each[name], known, computed) for name in ("claim", "recomputed", "consequence")}
    evidence = [tuple(part) for part in each.get("evidence", [])]
    inputs = [known.rows[name] for name in known.used]
    places = [(row.source, row.section) for row in inputs] + [(source, section) for source, section, _ in evidence]
    letter = each["id"][0]
    return {
        "id": each["id"],
        "study": "A" if letter == BOTH else letter,
        "kind": each["kind"],
        "verdict": each["verdict"],
        "basis": "arithmetic" if computed else "text",
        **texts,
        "where": _places(places),
        "evidence": "; ".join(f"{source}: '{quote}'" for source, _, quote in evidence),
        "inputs": "; ".join(known.used),
    }


def _places(places: list[tuple[str, str]]) -> str:
    """Return the places by source, each once: ``000 sec 3.4.1, Tabel 3.1; 003 Table 2``."""
    by_source: dict[str, dict[str, None]] = {}
    for source, section in sorted(dict.fromkeys(places), key=lambda place: place[0]):
        by_source.setdefault(source, {})[PLACE.match(section).group()] = None  # type: ignore[union-attr]
    return "; ".join(f"{source} {', '.join(sections)}" for source, sections in by_source.items())


# -------------------------------------------------------------------------------------------- what no formula can say

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
