"""Our contrasts beside the published ratios.

Published ratios have no variance of their own, so only direction and size are compared, never significance. Where the
papers contradict themselves, the note says so and the number counts for its direction at most. Which published number
is a ratio of what, and how far it can be trusted, is data: ``targets.toml``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal

import numpy as np
import pandas as pd

from infrabench.analysis.published.formulas import filled
from infrabench.analysis.published.printed_numbers import ENGINES, Numbers, RoundingSpan, join_notes, numbers, read_toml
from infrabench.stats.table import PER_DEPLOYMENT

AGREES_SIZE, AGREES_DIRECTION = "agrees in size", "agrees in direction"
DISAGREES, NOT_COMPARABLE = "disagrees", "not comparable"
WORDS = (AGREES_SIZE, AGREES_DIRECTION, DISAGREES, NOT_COMPARABLE)
ONE_RUN = (
    "by our interval the ratio lies on the other side of 1, and how far the published one may be off cannot be told: "
    "its paper states no number of runs, or one, or measured one deployment"
)
EMULATED = "(emulated"  # begins what the label of a system adds whose speed is an emulator's
KEPT = ("workload", "scenario", "metric", "system", "n_pairs", "ratio", "ratio_low", "ratio_high")
COMPARED = (
    *("published_low", "published_high", "published_n", "predicted_low", "predicted_high"),
    *("agreement", "grade", "where", "note", "reason"),
)
CONTRAST = ("baseline", "better", "level", "margin", "pair_unit", "p_method")  # what a figure needs beside them
Use = Literal["size", "direction"]
USE: Mapping[str, Use] = {"good": "size", "fair": "size", "poor": "direction", "unusable": "direction"}  # by grade
# how printed numbers become a ratio to the baseline; the printed formula |Pm - Pb| / Pb lost the sign, words keep it
CHANGES: Mapping[str, Callable[..., Any]] = {
    "increase": lambda v: 1 + v / 100,
    "decrease": lambda v: 1 - v / 100,
    "share": lambda v: v / 100,
    "rate from time increase": lambda v: 1 / (1 + v / 100),
    "ratio": lambda system, baseline: system / baseline,
}


@dataclass(frozen=True, slots=True)
class PublishedRatio:
    """The published ratio of a system to the baseline in a metric, and the metric of ours that stands for it."""

    key: str
    ids: tuple[str, ...]  # of the printed numbers
    system: str
    baseline: str
    workload: str  # ours
    metric: str
    scenarios: str | tuple[str, ...]  # beginning of our scenario's label, or several
    comparable: bool  # False: stands beside ours and is never compared; the note says why
    scenario: str  # the paper's
    rounded: RoundingSpan  # what the printed digits leave open: a printed 77 % may be 76.5 or 77.5 %
    columns: Mapping[str, Any]  # those of `COMPARED` that say what is printed; a ratio without a range has equal ends


@cache
def targets() -> tuple[Mapping[str, PublishedRatio], ...]:
    """Return the published numbers that can be compared with a measurement, in the order of ``targets.toml``.

    Each by the systems that it is printed of.
    """
    data, known = read_toml("targets.toml"), numbers()
    return tuple(
        {system: _read_target(each, system, data["notes"], known) for system in each.get("systems", ENGINES)}
        for each in data["target"]
    )


def _read_target(target: Mapping[str, Any], system: str, notes: Mapping[str, str], known: Numbers) -> PublishedRatio:
    def of_system(name: str) -> Any:
        every = target[name]
        return every.get(system, every.get("", ())) if isinstance(every, Mapping) else every

    def ratios(read: Callable[[str], Any]) -> list[Any]:
        change, values = CHANGES[target["change"]], [read(each) for each in ids]
        return [change(*values)] if target["change"] == "ratio" else [change(value) for value in values]

    ids = tuple(each.format(system) for each in target["printed"])
    rows, values, spans = [known.row(each) for each in ids], ratios(known), ratios(known.span)
    scenarios = target.get("scenario", "")
    return PublishedRatio(
        target["key"], ids, system, target.get("baseline", "native"), target["workload"], target["metric"],
        scenarios if isinstance(scenarios, str) else tuple(scenarios), target.get("comparable", True),
        rows[0].scenario, RoundingSpan(min(each.low for each in spans), max(each.high for each in spans)),
        {
            "published_low": min(values), "published_high": max(values),
            "published_n": rows[0].n_text or "not stated" if pd.isna(rows[0].n) else int(rows[0].n),
            "grade": of_system("grade"),
            "where": "; ".join(dict.fromkeys(f"{each.section}: '{each.quote}'" for each in rows)),
            "note": filled(join_notes(of_system("note"), notes), known),
        },
    )  # fmt: skip


def against(contrasts: pd.DataFrame) -> pd.DataFrame:
    """Return our contrasts to the baseline (`infrabench.stats.contrasts`) beside the published ratios.

    One row per contrast with a published counterpart. ``published_low``, ``published_high``: the published ratio (equal
    ends) or its range over levels; ``published_n``: runs, or what the paper says instead; ``predicted_low``,
    ``predicted_high``: where a second campaign of that many blocks, or of one deployment where ours are the pairs,
    would put its ratio with 95 % probability, on this site; ``agreement``: a word by the rule of `agreement`;
    ``grade``: how far the published number can be trusted; ``where``: place in the text; ``note``: what the papers
    contradict; ``reason``: of what is not comparable, why.
    """
    rows = list[dict[str, Any]]()
    for by_system in targets():
        first = next(iter(by_system.values()))
        ours = contrasts[(contrasts["workload"] == first.workload) & (contrasts["metric"] == first.metric)]
        there = ours["scenario"].map(partial(begins, starts=first.scenarios)).astype("bool")
        ours = ours[there & ours["system"].map(plain).isin(list(by_system))]
        rows += [
            {name: getattr(row, name) for name in (*KEPT, *CONTRAST)} | _compared(row, by_system[plain(row.system)])
            for row in ours.itertuples(index=False)
        ]
    return pd.DataFrame(rows, columns=[*KEPT, *COMPARED, *CONTRAST]).astype({"level": "float64", "margin": "float64"})


def begins(scenario: str, starts: str | tuple[str, ...]) -> bool:
    """Tell whether a scenario begins with one of several words; ``threads=16`` does not begin with ``threads=1``."""
    every = (starts,) if isinstance(starts, str) else starts
    return any(
        scenario.startswith(each) and not (each[-1:].isdigit() and scenario[len(each) : len(each) + 1].isdigit())
        for each in every
    )


def plain(label: str) -> str:
    """Return the name of a system without what its label adds in brackets."""
    return label.partition(" (")[0]


def count_published(pair_unit: str, runs: int) -> int:
    """Return of how many units like our pairs a published number of so many runs is.

    No paper says that it set a system up anew: where our pairs are deployments, theirs is one, however often it ran.
    """
    return 1 if pair_unit == PER_DEPLOYMENT else runs


def prediction(ratio: float, low: float, high: float, n: int, published_n: int) -> tuple[float, float]:
    """Return the 95 % prediction interval of a second campaign's ratio, from ours and its interval.

    The spread of a mean of `published_n` pairs is added to that of our mean of `n`, on the log scale. Differences
    between sites are not in it, so it is the narrowest that can be justified.
    """
    widen = np.sqrt(1 + n / published_n)
    return float(ratio * (low / ratio) ** widen), float(ratio * (high / ratio) ** widen)


def agreement(
    row: Any, theirs: tuple[float, float], predicted: tuple[float, float], use: Use, n: int
) -> tuple[str, str]:
    """Return the word for a comparison with a number of `n` runs or deployments (1: not stated), and why it has none.

    *agrees in size*: the published ratio (or part of its range) lies in our prediction interval. *agrees in direction*:
    our interval excludes 1 on the published side. *disagrees*: neither. A number that the papers contradict themselves
    is compared by direction only, and is *not comparable* while our interval holds 1. Nor is one of a single run that
    lies in the prediction interval, but on the other side of 1 than our interval: see `ONE_RUN`. One without a
    definition that we could measure by is never compared.
    """
    low, high = theirs
    if use == "size" and low <= predicted[1] and high >= predicted[0]:
        opposite = row.ratio_high < 1 < low or row.ratio_low > 1 > high
        return (NOT_COMPARABLE, ONE_RUN) if opposite and n == 1 else (AGREES_SIZE, "")
    if (row.ratio_high < 1 and high < 1) or (row.ratio_low > 1 and low > 1):
        return AGREES_DIRECTION, ""
    if use == "direction" and row.ratio_low <= 1 <= row.ratio_high:
        return NOT_COMPARABLE, "our interval includes 1"
    return DISAGREES, ""


def unmeasured(measured: pd.DataFrame, letter: str, systems: Iterable[str]) -> pd.DataFrame:
    """Return the published ratios of an experiment that no contrast of ours stands beside, in the columns of `against`.

    `measured`: what `against` returned; `letter`: of the experiment (A to D); `systems`: ours, as they are labelled.
    ``scenario`` is the paper's, ``scenarios`` how ours begin that would be it, ``baseline`` the published one. Why they
    are not measured is for the caller to say: ``reason`` is empty.
    """
    rows = list[dict[str, Any]]()
    there = set(zip(measured["workload"], measured["metric"], measured["where"], measured["system"], strict=True))
    for by_system in targets():
        for label in systems:
            target = by_system.get(plain(label))
            if target is None or not target.key.startswith(f"{letter}."):
                continue
            if (target.workload, target.metric, target.columns["where"], label) not in there:
                rows.append({
                    "workload": target.workload, "metric": target.metric, "system": label,
                    "baseline": target.baseline, "scenario": target.scenario, "scenarios": target.scenarios,
                    **target.columns,
                })  # fmt: skip
    return pd.DataFrame(rows, columns=[*KEPT, *COMPARED, "baseline", "scenarios"]).assign(
        agreement=NOT_COMPARABLE, n_pairs=0, reason=""
    )


def _compared(row: Any, target: PublishedRatio) -> dict[str, Any]:
    theirs, why = target.columns, _why_not(row, target)
    labelled = [name for name in (row.system, row.baseline) if plain(name) != name]  # not the one that was published
    other = f"ours is {' and '.join(labelled)}: by direction alone" if labelled else ""
    predicted, word = (np.nan, np.nan), NOT_COMPARABLE
    if not why and target.comparable:
        # one run, the widest interval, where the paper does not say how many
        runs = theirs["published_n"] if isinstance(theirs["published_n"], int) else 1
        stated = count_published(row.pair_unit, runs)
        predicted = prediction(row.ratio, row.ratio_low, row.ratio_high, row.n_pairs, stated)
        use: Use = "direction" if other else USE[theirs["grade"]]
        word, why = agreement(row, (target.rounded.low, target.rounded.high), predicted, use, stated)
        if why and use == "direction":
            why = f"{other or 'compared by direction alone, for its paper contradicts it'}, and {why}"
    return {
        **theirs, "predicted_low": predicted[0], "predicted_high": predicted[1], "agreement": word,
        "note": "; ".join(filter(None, ("" if other and other in why else why, other, theirs["note"]))),
        "reason": "; ".join(filter(None, (why, theirs["note"]))) if word == NOT_COMPARABLE else "",
    }  # fmt: skip


def _why_not(row: Any, target: PublishedRatio) -> str:
    """Return why a contrast cannot be compared at all; nothing if it can."""
    if plain(row.baseline) != target.baseline:
        return f"our baseline is {row.baseline}, the published one {target.baseline}"
    if not np.isfinite(row.ratio_low) or row.ratio_low <= 0:
        return row.reason or "no interval of ours"
    emulated = [name for name in (row.system, row.baseline) if EMULATED in name]
    return f"{' and '.join(emulated)}: an emulator's speed" if emulated else ""
