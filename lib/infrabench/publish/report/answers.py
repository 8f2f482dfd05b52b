"""What a session answers, on the first screen: a sentence for each system, a small forest, and what kind of run it was.

All of it is of the abstract that the notebook computed (`infrabench.notebook.session_tables`); only the places of the
forest's marks are worked out here. Contrasts of one case of a session have one anchor, the same on every page.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from infrabench.analysis.tables import ruled_out_label
from infrabench.analysis.tables.bounds import find_cost
from infrabench.notebook import session_tables
from infrabench.stats.verdicts import NOT_COMPARABLE, VERDICTS

SMOKE = "smoke"
# Below it no test of pairs without assumptions reaches 5 %: two signs of five differences are 2 / 2 ** 5 = 6 %.
FEW = 6
UNIT = re.compile(r" \([^()]*\)$")  # behind a metric's name in a table
DECIDES = re.compile(r" \(n = (\d+) decides\)$")  # behind a verdict in a table
TICKS = (-90, -50, -20, -10, -5, -2, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000)
LINEAR = 5.0  # percent around no effect up to which the forest's steps are about even; logarithmic beyond
FARTHEST = 1e4  # percent: an interval without an end goes to the edge
APART = 0.12  # of the width: ticks that are closer would cover each other


@dataclass(frozen=True)
class Contrast:
    """One contrast of an abstract: its words as they stand in the table, the ends of its interval as numbers.

    `ratio_low` and `ratio_high` are NaN without an interval, or in the abstract of an older notebook; `margin` is a
    share; `needed` the n that would decide, as text, empty where none is named; `session`: of several, the first.
    """

    session: str
    workload: str
    scenario: str
    metric: str
    better: str
    system: str
    n: str
    ratio: str
    interval: str
    ratio_low: float
    ratio_high: float
    ruled_out: str
    verdict: str
    margin: float
    needed: str
    p: tuple[str, str]
    without_flagged: str
    reason: str

    @property
    def measured(self) -> str:
        """Workload and metric in words, without its unit."""
        return f"{self.workload} {UNIT.sub('', self.metric)}"

    @property
    def case(self) -> str:
        """The case in words: workload, metric, and the scenario where it has a name."""
        return self.measured + ("" if self.scenario == "default" else f", {self.scenario}")

    @property
    def anchor(self) -> str:
        """The name of its case in addresses."""
        return make_anchor(self.session, self.workload, self.scenario)

    @property
    def remark(self) -> str:
        """What qualifies it: lost trials, dependence, families of tests, values flagged as outliers."""
        other = f"without the values flagged as outliers: {self.without_flagged}" if self.without_flagged else ""
        return "; ".join(filter(None, (self.reason, other)))

    @property
    def label(self) -> str:
        """What it rules out, in short."""
        return ruled_out_label(self)

    @property
    def kind(self) -> str:
        """Its verdict as the name of a style."""
        return re.sub(r"[ ,]+", "-", self.verdict)


class ForestRow(NamedTuple):
    """A contrast in the small forest, its places in percent of the width; None where there is no interval."""

    contrast: Contrast
    margin: tuple[float, float] | None
    ends: tuple[float, float] | None
    estimate: float | None


def make_anchor(session: str, workload: str, scenario: str) -> str:
    """Return the name of a case of a session in addresses: letters, digits and dashes."""
    return "-".join(re.findall(r"[A-Za-z0-9]+", f"case {session} {workload} {scenario}"))


def read_contrasts(abstract: Mapping[str, Any]) -> list[Contrast]:
    """Return the contrasts of the primary metrics that an abstract holds, in its order."""
    contrasts = []
    for row in (dict(zip(abstract["verdicts"]["columns"], row, strict=True)) for row in abstract["verdicts"]["rows"]):
        low, high = (float(row.get(name) or math.nan) for name in session_tables.ENDS)
        needed = DECIDES.search(row["verdict"])
        contrasts.append(Contrast(
            abstract["sessions"][0], row["workload"], row["scenario"], row["metric"], row["better"], row["system"],
            row["n"], row["ratio"], row["ratio 95 % CI"], low, high, row.get(session_tables.RULED_OUT, ""),
            DECIDES.sub("", row["verdict"]), float(row["margin %"] or math.nan) / 100, needed[1] if needed else "",
            (row["p adjusted"], row["p equivalence adjusted"]), row["verdict without flagged"], row["reason"],
        ))  # fmt: skip
    return contrasts


def group_contrasts(contrasts: Sequence[Contrast], systems: Iterable[str]) -> dict[str, dict[str, list[Contrast]]]:
    """Return the contrasts of each system that was compared, by what was measured: a clause of its sentence each."""
    sentences: dict[str, dict[str, list[Contrast]]] = {}
    for system in systems:
        for each in (each for each in contrasts if each.system == system):
            sentences.setdefault(system, {}).setdefault(each.measured, []).append(each)
    return sentences


def draw_forest(contrasts: Sequence[Contrast]) -> tuple[list[ForestRow], list[tuple[float, str]], float]:
    """Return the rows of the small forest, its ticks as place and text, and the place of no effect.

    A row's cost in percent of the baseline goes to the right, its gain to the left, whatever direction is better: so
    one axis serves all metrics. No rows where no contrast has an interval.
    """
    costs = [
        None if each.verdict == NOT_COMPARABLE or math.isnan(each.ratio_low) or math.isnan(each.ratio_high)
        else find_cost(each.ratio_low, each.ratio_high, each.better)
        for each in contrasts
    ]  # fmt: skip
    ends = [end for cost in costs if cost for end in cost if math.isfinite(end)]
    if not ends:
        return [], [], 0.0
    margins = [100 * each.margin for each in contrasts if math.isfinite(each.margin)]
    least, most = (_step(1.15 * pick([*ends, *margins, *(-m for m in margins)])) for pick in (min, max))

    def place(percent: float) -> float:
        inside = min(max(_step(max(min(percent, FARTHEST), -FARTHEST)), least), most)
        return round(100 * (inside - least) / (most - least), 2)

    rows = []
    for each, cost in zip(contrasts, costs, strict=True):
        m, ratio = 100 * each.margin, float(each.ratio.replace("∞", "inf").replace("n/a", "nan"))
        band = (place(-m), place(m)) if cost and math.isfinite(m) else None
        point = place(find_cost(ratio, ratio, each.better).low) if cost and math.isfinite(ratio) else None
        rows.append(ForestRow(each, band, (place(cost.low), place(cost.high)) if cost else None, point))
    shown = [0]
    for tick in sorted(TICKS, key=abs):  # from no effect outwards
        apart = min(abs(place(tick) - place(other)) for other in shown)
        if least <= _step(tick) <= most and apart >= 100 * APART:
            shown.append(tick)
    ticks = [(place(tick), f"{tick:+g}".replace("-", "−") if tick else "0") for tick in sorted(shown)]
    return rows, ticks, place(0)


def _step(percent: float) -> float:
    return math.asinh(percent / LINEAR)


def span_n(contrasts: Sequence[Contrast]) -> str:
    """Return over how many pairs contrasts were made: ``n = 30 blocks``, or ``n = 5 to 6 deployments``."""
    counted = {(int(number), unit) for number, unit in (each.n.split(" ", 1) for each in contrasts if each.n)}
    numbers = [str(number) for number, _ in sorted(counted) if number] or ["0"]
    units = " or ".join(dict.fromkeys(unit for _, unit in sorted(counted)))
    return f"n = {' to '.join(dict.fromkeys((numbers[0], numbers[-1])))} {units}".rstrip()


def grade_run(abstract: Mapping[str, Any], contrasts: Sequence[Contrast]) -> tuple[str, str]:
    """Return what a session is as evidence: ``smoke``, ``few`` or ``measurement``, and the words that say so."""
    if abstract["profile"] == SMOKE:
        return SMOKE, "smoke run: shows that it works, decides nothing"
    judged = [each.n.split(" ", 1) for each in contrasts if each.verdict != NOT_COMPARABLE]
    smallest, unit = min(((int(n), unit) for n, unit in judged), default=(0, ""))
    if 0 < smallest < FEW:
        return "few", f"measurement with few {unit}: at n = {smallest} intervals rest on a normal distribution"
    return "measurement", "measurement"


def count_verdicts(contrasts: Sequence[Contrast]) -> dict[str, int]:
    """Return how many contrasts have which verdict, in the order of `stats.verdicts`, those that occur."""
    found = [each.verdict for each in contrasts]
    return {verdict: found.count(verdict) for verdict in VERDICTS if verdict in found}
