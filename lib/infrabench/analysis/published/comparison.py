"""Our contrasts beside the published ratios.

Published ratios have no variance of their own, so only direction and size are compared, never significance. Where the
papers contradict themselves, the note says so and the number counts for its direction at most. Which published number
is a ratio of what, and how far it can be trusted, is data: ``targets.toml``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from typing import Any, Literal

import numpy as np
import pandas as pd

from infrabench.analysis.published.printed_numbers import (
    Numbers,
    RoundingSpan,
    Value,
    filled,
    join_notes,
    numbers,
    read_toml,
)

AGREES_SIZE, AGREES_DIRECTION = "agrees in size", "agrees in direction"
DISAGREES, NOT_COMPARABLE = "disagrees", "not comparable"
WORDS = (AGREES_SIZE, AGREES_DIRECTION, DISAGREES, NOT_COMPARABLE)
EMULATED = "(emulated"  # begins what the label of a system adds whose speed is an emulator's
KEPT = ("workload", "scenario", "metric", "system", "n_pairs", "ratio", "ratio_low", "ratio_high")
COMPARED = (
    *("published_low", "published_high", "published_n", "predicted_low", "predicted_high"),
    *("agreement", "grade", "where", "note", "reason"),
)
CONTRAST = ("baseline", "better", "level", "margin", "pair_unit")  # what a figure needs beside them
Grade = Literal["good", "fair", "poor", "unusable"]
Use = Literal["size", "direction"]
USE: Mapping[str, Use] = {"good": "size", "fair": "size", "poor": "direction", "unusable": "direction"}
SYSTEMS = ("docker", "lxc", "lxd")
# how printed numbers become a ratio to the baseline; the printed formula |Pm - Pb| / Pb lost the sign, words keep it
CHANGES: Mapping[str, Callable[..., Value]] = {
    "increase": lambda v: 1 + v / 100,
    "decrease": lambda v: 1 - v / 100,
    "share": lambda v: v / 100,
    "rate from time increase": lambda v: 1 / (1 + v / 100),
    "ratio": lambda system, baseline: system / baseline,
}


@dataclass(frozen=True, slots=True)
class ReproductionTarget:
    """One published metric and the metric of ours that stands for it.

    `printed`: ids by system, ``{}`` stands for the system. One id is the number; two are the ends of a range over
    levels, or system and baseline where `change` is ``ratio``. `grade` and `notes` are by system, "" for all others.
    Without `workload`, no study measures it yet. Notes are templates (see `printed_numbers`).
    """

    key: str
    change: str
    printed: tuple[str, ...]
    systems: tuple[str, ...] = SYSTEMS
    baseline: str = "native"
    workload: str = ""
    metric: str = ""
    scenario: str | tuple[str, ...] = ""  # beginning of our scenario's label, or several
    comparable: bool = True  # False: stands beside ours and is never compared; the note says why
    grade: Mapping[str, Grade] = field(default_factory=lambda: {"": "fair"})
    notes: Mapping[str, str] = field(default_factory=dict)

    def ids(self, system: str) -> tuple[str, ...]:
        """Return the ids of the numbers of a system."""
        return tuple(each.format(system) for each in self.printed)

    def ratios(self, system: str, known: Numbers) -> tuple[float, float]:
        """Return the lowest and the highest published ratio of a system to the baseline; equal without a range."""
        ends = self._ratios([known(each) for each in self.ids(system)])
        return min(ends), max(ends)

    def rounded(self, system: str, known: Numbers) -> RoundingSpan:
        """Return what the printed digits leave open of that ratio."""
        spans = self._ratios([known.span(each) for each in self.ids(system)])
        return RoundingSpan(min(each.low for each in spans), max(each.high for each in spans))

    def graded(self, system: str) -> Grade:
        """Return the grade of a system's number."""
        return self.grade.get(system, self.grade.get("", "fair"))

    def note(self, system: str, known: Numbers) -> str:
        """Return what there is to say on a system's number."""
        return filled(self.notes.get(system, self.notes.get("", "")), known)

    def _ratios(self, values: list[Value]) -> list[Value]:
        change = CHANGES[self.change]
        return [change(*values)] if self.change == "ratio" else [change(value) for value in values]


@cache
def targets() -> tuple[ReproductionTarget, ...]:
    """Return the published numbers that can be compared with a measurement, in the order of ``targets.toml``."""
    data = read_toml("targets.toml")
    return tuple(target for each in data["target"] for target in _read_target(each, data["notes"]))


def _read_target(each: Mapping[str, Any], notes: Mapping[str, str]) -> Iterator[ReproductionTarget]:
    """Yield the targets of one table, one for each of its metrics."""
    grade, by_system = (table if isinstance(table, Mapping) else {"": table} for table in (each["grade"], each["note"]))
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in each.items()}
    del values["note"]
    metrics = [each["metric"]] if isinstance(each["metric"], str) else each["metric"]
    for metric in metrics:
        yield ReproductionTarget(
            **values | {"metric": metric, "grade": grade},
            notes={system: join_notes(names, notes) for system, names in by_system.items()},
        )


def usable() -> pd.DataFrame:
    """Return the published ratios that a measurement may be compared with, one row per target and system.

    ``ratio_low`` and ``ratio_high`` are equal unless a range over levels is printed; ``rounded_low`` and
    ``rounded_high`` are what the printed digits allow; ``grade`` is good, fair, poor or unusable; ``workload`` and
    ``metric`` (joined by commas where there are more) are ours, empty where no study measures it yet. None of the
    numbers has a spread of its own.
    """
    known, rows = numbers(), []
    for key, group in groupby(targets(), key=lambda target: target.key):
        first, *more = group
        for system in first.systems:
            low, high = first.ratios(system, known)
            rounded = first.rounded(system, known)
            rows.append(
                {
                    "key": key, "system": system, "baseline": first.baseline,
                    "ratio_low": low, "ratio_high": high, "rounded_low": rounded.low, "rounded_high": rounded.high,
                    "grade": first.graded(system), "note": first.note(system, known), "workload": first.workload,
                    "metric": ", ".join(each.metric for each in (first, *more)), "ids": "; ".join(first.ids(system)),
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def against(contrasts: pd.DataFrame) -> pd.DataFrame:
    """Return our contrasts to the baseline (`infrabench.stats.contrasts`) beside the published ratios.

    One row per contrast with a published counterpart. ``published_low``, ``published_high``: the published ratio (equal
    ends) or its range over levels; ``published_n``: runs, or what the paper says instead; ``predicted_low``,
    ``predicted_high``: where a second campaign of that many blocks would put its ratio with 95 % probability, on this
    site; ``agreement``: a word by the rule of `agreement`; ``grade``: how far the published number can be trusted;
    ``where``: place in the text; ``note``: what the papers contradict; ``reason``: of what is not comparable, why.
    """
    known, rows = numbers(), list[dict[str, Any]]()
    for target in targets():
        ours = contrasts[(contrasts["workload"] == target.workload) & (contrasts["metric"] == target.metric)]
        ours = ours[ours["scenario"].str.startswith(target.scenario) & ours["system"].map(plain).isin(target.systems)]
        rows += [
            {name: getattr(row, name) for name in (*KEPT, *CONTRAST)} | _compared(row, target, known)
            for row in ours.itertuples(index=False)
        ]
    return pd.DataFrame(rows, columns=[*KEPT, *COMPARED, *CONTRAST]).astype({"level": "float64", "margin": "float64"})


def plain(label: str) -> str:
    """Return the name of a system without what its label adds in brackets."""
    return label.partition(" (")[0]


def prediction(ratio: float, low: float, high: float, n: int, published_n: int) -> tuple[float, float]:
    """Return the 95 % prediction interval of a second campaign's ratio, from ours and its interval.

    The spread of a mean of `published_n` blocks is added to that of our mean of `n`, on the log scale. Differences
    between sites are not in it, so it is the narrowest that can be justified.
    """
    widen = np.sqrt(1 + n / published_n)
    return float(ratio * (low / ratio) ** widen), float(ratio * (high / ratio) ** widen)


def agreement(row: Any, theirs: tuple[float, float], predicted: tuple[float, float], use: Use) -> str:
    """Return the word for one comparison.

    *agrees in size*: the published ratio (or part of its range) lies in our prediction interval. *agrees in direction*:
    our interval excludes 1 on the published side. *disagrees*: neither. A number that the papers contradict themselves
    is compared by direction only, and is *not comparable* while our interval holds 1. One without a definition that we
    could measure by is never compared.
    """
    low, high = theirs
    if use == "size" and low <= predicted[1] and high >= predicted[0]:
        return AGREES_SIZE
    if (row.ratio_high < 1 and high < 1) or (row.ratio_low > 1 and low > 1):
        return AGREES_DIRECTION
    if use == "direction" and row.ratio_low <= 1 <= row.ratio_high:
        return NOT_COMPARABLE
    return DISAGREES


def unmeasured(measured: pd.DataFrame, letter: str, systems: Iterable[str]) -> pd.DataFrame:
    """Return the published ratios of an experiment that no contrast of ours stands beside, in the columns of `against`.

    `measured`: what `against` returned; `letter`: of the experiment (A to D); `systems`: ours, as they are labelled.
    ``scenario`` is the paper's, ``scenarios`` how ours begin that would be it, ``baseline`` the published one. Why they
    are not measured is for the caller to say: ``reason`` is empty.
    """
    known, rows = numbers(), list[dict[str, Any]]()
    there = set(zip(measured["workload"], measured["metric"], measured["where"], measured["system"], strict=True))
    for target in targets():
        for label in systems if target.key.startswith(f"{letter}.") and target.workload else ():
            row = {"workload": target.workload, "metric": target.metric, "system": label, "baseline": target.baseline}
            if plain(label) not in target.systems:
                continue
            theirs = _published(target, plain(label), known)
            if (target.workload, target.metric, theirs["where"], label) not in there:
                row |= {"scenario": known.row(target.ids(plain(label))[0]).scenario, "scenarios": target.scenario}
                rows.append(row | theirs)
    return pd.DataFrame(rows, columns=[*KEPT, *COMPARED, "baseline", "scenarios"]).assign(
        agreement=NOT_COMPARABLE, n_pairs=0, reason=""
    )


def _published(target: ReproductionTarget, system: str, known: Numbers) -> dict[str, Any]:
    """The columns that say what is printed of a system."""
    printed = [known.row(each) for each in target.ids(system)]
    low, high = target.ratios(system, known)
    return {
        "published_low": low,
        "published_high": high,
        "published_n": printed[0].n_text or "not stated" if pd.isna(printed[0].n) else int(printed[0].n),
        "grade": target.graded(system),
        "where": "; ".join(dict.fromkeys(f"{each.section}: '{each.quote}'" for each in printed)),
        "note": target.note(system, known),
    }


def _compared(row: Any, target: ReproductionTarget, known: Numbers) -> dict[str, Any]:
    system = plain(row.system)
    theirs, why = _published(target, system, known), _why_not(row, target)
    labelled = [name for name in (row.system, row.baseline) if plain(name) != name]  # not the one that was published
    other = f"ours is {' and '.join(labelled)}: by direction alone" if labelled else ""
    predicted, word = (np.nan, np.nan), NOT_COMPARABLE
    if not why and target.comparable:
        # one run, the widest interval, where the paper does not say how many
        stated = theirs["published_n"] if isinstance(theirs["published_n"], int) else 1
        predicted = prediction(row.ratio, row.ratio_low, row.ratio_high, row.n_pairs, stated)
        span = target.rounded(system, known)  # a printed 77 % may be 76.5 or 77.5 %
        word = agreement(row, (span.low, span.high), predicted, "direction" if other else USE[theirs["grade"]])
        if word == NOT_COMPARABLE:
            why = f"{other or 'compared by direction alone, for its paper contradicts it'}, and our interval includes 1"
    return theirs | {
        "predicted_low": predicted[0],
        "predicted_high": predicted[1],
        "agreement": word,
        "note": "; ".join(filter(None, ("" if other and other in why else why, other, theirs["note"]))),
        "reason": "; ".join(filter(None, (why, theirs["note"]))) if word == NOT_COMPARABLE else "",
    }


def _why_not(row: Any, target: ReproductionTarget) -> str:
    """Return why a contrast cannot be compared at all; nothing if it can."""
    if plain(row.baseline) != target.baseline:
        return f"our baseline is {row.baseline}, the published one {target.baseline}"
    if not np.isfinite(row.ratio_low) or row.ratio_low <= 0:
        return row.reason or "no interval of ours"
    emulated = [name for name in (row.system, row.baseline) if EMULATED in name]
    return f"{' and '.join(emulated)}: an emulator's speed" if emulated else ""
