"""What the interval of a contrast rules out: how much a system costs, and how much it gains, against its baseline.

These are the two ends of one 95 % interval, by the metric's better direction, as words: both hold together with 95 %
confidence. So every contrast answers, whether its verdict decides something or not. An end is rounded away from what
the words claim: "at most" up, "at least" down.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from infrabench.stats.verdicts import EQUIVALENT, NOT_COMPARABLE, WITHIN

DIGITS = 2  # significant ones
ROUNDING = 1e-9
NOTHING = "nothing is ruled out: no interval"
NO_INTERVAL = "no interval"
CONFIDENCE = "(95 %)"
PERCENT = " %"


class Cost(NamedTuple):
    """What a system costs at least and at most, in the unit of its words; a gain is a negative cost."""

    low: float
    high: float


def find_cost(low: float, high: float, better: str) -> Cost:
    """Return the cost in percent of the baseline that the ends of an interval of the ratio stand for."""
    return _turn(100 * (low - 1), 100 * (high - 1), better)


def ruled_out(row: Any) -> str:
    """Return what a contrast rules out; empty where nothing could be compared.

    `row`: a row of `stats.contrasts`, or over sites, of which ``verdict``, ``better`` and the interval of the ratio are
    read; and that of the difference, where it is there, for contrasts without an interval of the ratio (shares). By the
    metric's better direction: *costs* for the side that is worse, *gains* for the other. ``costs at most 5.1 %, gains
    at most 1.2 % (95 %)`` where the interval holds no effect, ``costs 3.1 to 5.2 % (95 %)`` where it does not.
    """
    if row.verdict == NOT_COMPARABLE:
        return ""
    names = (("ratio_low", "ratio_high"), ("difference_low", "difference_high"))
    ratio, difference = (tuple(float(getattr(row, name, math.nan)) for name in pair) for pair in names)
    if not any(map(math.isnan, ratio)):
        return f"{_in_words(find_cost(*ratio, row.better), PERCENT)} {CONFIDENCE}"
    if not any(map(math.isnan, difference)):
        unit = {"1": "", "%": " percentage points"}.get(row.unit, f" {row.unit}")
        return f"as a difference, {_in_words(_turn(*difference, row.better), unit)} {CONFIDENCE}"
    return NOTHING


def ruled_out_label(row: Any) -> str:
    """Return the same as short as a figure needs it, of the ratio alone: ``costs ≤ 5.1 %, gains ≤ 1.2 %``.

    What was shown to be smaller than the margin says so: ``costs 0.3 to 0.9 %, within the margin``, ``equivalent: costs
    ≤ 0.9 %, gains ≤ 0.4 %``.
    """
    kind = _kind(row)
    if kind in (NOT_COMPARABLE, NO_INTERVAL):
        return kind
    cost = find_cost(row.ratio_low, row.ratio_high, row.better)
    if _is_decided(cost):
        text = _in_words(cost, PERCENT)
    else:
        text = ", ".join(f"{verb} {_short(most)}" for verb, most in (("costs", cost.high), ("gains", -cost.low)))
    before, after = {EQUIVALENT: ("equivalent: ", ""), WITHIN: ("", ", within the margin")}.get(row.verdict, ("", ""))
    return f"{before}{text}{after}"


def state_bounds(rows: Sequence[Any]) -> str:
    """Return what contrasts of one system and metric rule out, over their scenarios, as one clause of a sentence.

    `rows`: as for `ruled_out_label`, with ``scenario`` and ``margin`` (a share). Scenarios of one kind of answer stand
    together: *costs 2.1 to 8.4 %* reaches from the lowest end of their intervals to the highest, *costs at most 1.5 to
    6.5 %* from the smallest of their bounds to the largest. Each interval is one of 95 % by itself.

    >>> state_bounds(rows)  # doctest: +SKIP
    'costs 2.1 to 8.4 % (users=2000); costs at most 5.1 %, gains at most 1.2 % (users=1000)'
    """
    kinds = ("costs", "gains", EQUIVALENT, "open", NO_INTERVAL, NOT_COMPARABLE)
    groups = [(kind, [row for row in rows if _kind(row) == kind]) for kind in kinds]
    return "; ".join(_state(kind, some) + _settings(some, len(rows)) for kind, some in groups if some)


def _kind(row: Any) -> str:
    if row.verdict == NOT_COMPARABLE:
        return NOT_COMPARABLE
    if math.isnan(row.ratio_low) or math.isnan(row.ratio_high):
        return NO_INTERVAL
    if row.verdict == EQUIVALENT:
        return EQUIVALENT
    cost = find_cost(row.ratio_low, row.ratio_high, row.better)
    return "costs" if cost.low > 0 else "gains" if cost.high < 0 else "open"


def _state(kind: str, rows: Sequence[Any]) -> str:
    """Return the answer of scenarios that are of one kind."""
    if kind == NOT_COMPARABLE:
        return NOT_COMPARABLE
    if kind == NO_INTERVAL:
        return " or ".join(dict.fromkeys(f"{row.verdict}, {ruled_out(row)}" for row in rows))
    costs = [find_cost(row.ratio_low, row.ratio_high, row.better) for row in rows]
    if kind in ("costs", "gains"):
        text = _in_words(Cost(min(cost.low for cost in costs), max(cost.high for cost in costs)), PERCENT)
        return text + (", within the margin" if all(row.verdict == WITHIN for row in rows) else "")
    text = f"{_most('costs', [cost.high for cost in costs])}, {_most('gains', [-cost.low for cost in costs])}"
    if kind == EQUIVALENT:
        margins = " and ".join(dict.fromkeys(f"{100 * row.margin:g}" for row in rows))
        return f"is the same within {margins} % ({text})"
    return text


def _settings(rows: Sequence[Any], of: int) -> str:
    """Return which scenarios a clause is of; nothing where a metric has one alone."""
    if of == 1:
        return ""
    if len(rows) == of:
        return f" (each of {of} settings)"
    return f" ({rows[0].scenario})" if len(rows) == 1 else f" ({len(rows)} of {of} settings)"


def _turn(low: float, high: float, better: str) -> Cost:
    return Cost(low, high) if better == "lower" else Cost(-high, -low)


def _is_decided(cost: Cost) -> bool:
    return cost.low > 0 or cost.high < 0


def _in_words(cost: Cost, unit: str) -> str:
    if not _is_decided(cost):
        return f"{_most('costs', [cost.high], unit)}, {_most('gains', [-cost.low], unit)}"
    verb = "costs" if cost.low > 0 else "gains"
    least, most = sorted(map(abs, cost))
    if math.isinf(most):
        return f"{verb} at least {_round(least, math.floor)}{unit}"
    return f"{verb} {_round(least, math.floor)} to {_round(most, math.ceil)}{unit}"


def _most(verb: str, ends: Sequence[float], unit: str = PERCENT) -> str:
    """Return what is the most on one side: of one interval, or the smallest and largest of several."""
    smallest, largest = min(ends), max(ends)
    if math.isinf(largest):
        return f"may {verb.removesuffix('s')} any amount"
    if largest <= 0:
        return f"{verb} nothing"
    bounds = dict.fromkeys(_round(end, math.ceil) if end > 0 else "0" for end in (smallest, largest))
    return f"{verb} at most {' to '.join(bounds)}{unit}"


def _short(most: float) -> str:
    return "unbounded" if math.isinf(most) else f"≤ {_round(most, math.ceil)} %" if most > 0 else "nothing"


def _round(value: float, to: Callable[[float], int]) -> str:
    """Return a value above 0 with two significant digits, rounded up (``math.ceil``) or down (``math.floor``)."""
    slack = ROUNDING if to is math.floor else -ROUNDING  # a value of two digits is not moved by its binary rest
    places = DIGITS - 1 - math.floor(math.log10(value * (1 + ROUNDING)))
    rounded = to(value * 10.0**places * (1 + slack))
    if rounded == 10**DIGITS:
        rounded, places = rounded // 10, places - 1
    return f"{rounded / 10.0**places:.{max(places, 0)}f}"
