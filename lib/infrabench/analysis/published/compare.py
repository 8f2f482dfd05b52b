"""Our contrasts beside the published ratios.

Published ratios have no variance of their own, so only direction and size are compared, never significance. Where the
papers contradict themselves, the note says so and the number counts for its direction at most.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from infrabench.analysis.published.data import Numbers, numbers
from infrabench.analysis.published.targets import USE, ReproductionTarget, Use
from infrabench.analysis.published.targets_list import TARGETS

AGREES_SIZE, AGREES_DIRECTION = "agrees in size", "agrees in direction"
DISAGREES, NOT_COMPARABLE = "disagrees", "not comparable"
EMULATED = "(emulated"  # begins what the label of a system adds whose speed is an emulator's
KEPT = ("workload", "scenario", "metric", "system", "n_pairs", "ratio", "ratio_low", "ratio_high")


def against(contrasts: pd.DataFrame, known: Numbers | None = None) -> pd.DataFrame:
    """Return our contrasts to the baseline beside the published ratios.

    Parameters
    ----------
    contrasts
        As made by `infrabench.stats.contrasts`.
    known
        Published numbers; those of the repository by default.

    Returns
    -------
    DataFrame
        One row per contrast with a published counterpart. ``published_low``, ``published_high``: the published ratio
        (equal ends) or its range over levels; ``published_n``: runs, or what the paper says instead;
        ``predicted_low``, ``predicted_high``: where a second campaign of that many blocks would put its ratio with
        95 % probability, on this site; ``agreement``: a word by the rule of `agreement`; ``grade``: how far the
        published number can be trusted; ``where``: place in the text; ``note``: what the papers contradict.
    """
    known = numbers() if known is None else known
    rows: list[dict[str, Any]] = []
    for target in TARGETS:
        ours = contrasts[(contrasts["workload"] == target.workload) & (contrasts["metric"] == target.metric)]
        ours = ours[ours["scenario"].str.startswith(target.scenario) & ours["system"].map(plain).isin(target.systems)]
        rows += [
            {name: getattr(row, name) for name in KEPT} | _compared(row, target, known)
            for row in ours.itertuples(index=False)
        ]
    extra = ("published_low", "published_high", "published_n", "predicted_low", "predicted_high")
    return pd.DataFrame(rows, columns=[*KEPT, *extra, "agreement", "grade", "where", "note"])


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


def _compared(row: Any, target: ReproductionTarget, known: Numbers) -> dict[str, Any]:
    system = plain(row.system)
    printed = [known.row(each) for each in target.ids(system)]
    theirs = target.ratios(system, known)
    stated = None if pd.isna(printed[0].n) else int(printed[0].n)
    grade, why, other = target.graded(system), _why_not(row, target), _another(row)
    predicted, word = (np.nan, np.nan), NOT_COMPARABLE
    if not why and target.comparable:
        # one run, the widest interval, where the paper does not say how many
        predicted = prediction(row.ratio, row.ratio_low, row.ratio_high, row.n_pairs, stated or 1)
        span = target.rounded(system, known)  # a printed 77 % may be 76.5 or 77.5 %
        word = agreement(row, (span.low, span.high), predicted, "direction" if other else USE[grade])
    return {
        "published_low": theirs[0],
        "published_high": theirs[1],
        "published_n": printed[0].n_text or "not stated" if stated is None else stated,
        "predicted_low": predicted[0],
        "predicted_high": predicted[1],
        "agreement": word,
        "grade": grade,
        "where": "; ".join(dict.fromkeys(f"{each.section}: '{each.quote}'" for each in printed)),
        "note": "; ".join(filter(None, (why, other, target.note(system, known)))),
    }


def _why_not(row: Any, target: ReproductionTarget) -> str:
    """Return why a contrast cannot be compared at all; nothing if it can."""
    if plain(row.baseline) != target.baseline:
        return f"our baseline is {row.baseline}, the published one {target.baseline}"
    if not np.isfinite(row.ratio_low) or row.ratio_low <= 0:
        return row.reason or "no interval of ours"
    emulated = [name for name in (row.system, row.baseline) if EMULATED in name]
    return f"{' and '.join(emulated)}: an emulator's speed" if emulated else ""


def _another(row: Any) -> str:
    """Return which of our systems is not the one that was published, by its label; nothing if both are."""
    labelled = [name for name in (row.system, row.baseline) if plain(name) != name]
    return f"ours is {' and '.join(labelled)}: by direction alone" if labelled else ""
