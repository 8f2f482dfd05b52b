"""What an interval rules out, for a verdict that decides nothing: how much a system costs and gains at most.

The ends of one 95 % interval, as sentences: both hold together with 95 % confidence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

DIGITS = 2  # significant ones; an end is rounded away from no effect, so that "at most" stays true
ROUNDING = 1e-9
UNDECIDED = "inconclusive"
NOTHING = "nothing is ruled out: no interval"
CONFIDENCE = "(95 %)"


def ruled_out(row: Any) -> str:
    """Return what a contrast that is not decided rules out; empty for any other verdict.

    `row`: a row of `stats.contrasts`, or over sites, of which ``verdict``, ``better`` and the interval of the ratio are
    read; and that of the difference, where it is there, for contrasts without an interval of the ratio (shares). By the
    metric's better direction: *costs* for the side that is worse, *gains* for the other.
    """
    if row.verdict != UNDECIDED:
        return ""
    names = (("ratio_low", "ratio_high"), ("difference_low", "difference_high"))
    ends = [tuple(float(getattr(row, name, math.nan)) for name in pair) for pair in names]
    ratio, difference = ends
    if not any(math.isnan(end) for end in ratio):
        return _render_bounds([100 * (end - 1) for end in ratio], row.better, " %")
    if not any(math.isnan(end) for end in difference):
        unit = {"1": "", "%": " percentage points"}.get(row.unit, f" {row.unit}")
        return f"as a difference, {_render_bounds(difference, row.better, unit)}"
    return NOTHING


def ruled_out_label(row: Any) -> str:
    """Return what a contrast that is not decided rules out, as short as a figure needs it; else its verdict.

    Read of `row` as by `ruled_out`, but only the interval of the ratio: ``costs ≤ 5.1 %, gains ≤ 1.2 %``.
    """
    if row.verdict != UNDECIDED or math.isnan(row.ratio_low) or math.isnan(row.ratio_high):
        return str(row.verdict)
    sides = zip(("costs", "gains"), _worse_and_gain([row.ratio_low - 1, row.ratio_high - 1], row.better), strict=True)
    return ", ".join(f"{verb} {_bound(100 * most)}" for verb, most in sides)


def _bound(most: float) -> str:
    return "unbounded" if math.isinf(most) else f"≤ {_up(most)} %" if most > 0 else "nothing"


def _worse_and_gain(ends: Sequence[float], better: str) -> tuple[float, float]:
    low, high = ends
    return (high, -low) if better == "lower" else (-low, high)


def _render_bounds(ends: Sequence[float], better: str, unit: str) -> str:
    """Both sides of no effect, of an interval that holds it."""
    worse, gain = _worse_and_gain(ends, better)
    return f"{_most('costs', worse, unit)}, {_most('gains', gain, unit)} {CONFIDENCE}"


def _most(verb: str, most: float, unit: str) -> str:
    if math.isinf(most):
        return f"may {verb.removesuffix('s')} any amount"
    return f"{verb} at most {_up(most)}{unit}" if most > 0 else f"{verb} nothing"


def _up(value: float) -> str:
    """Two significant digits, rounded up: what is ruled out has to be."""
    places = DIGITS - 1 - math.floor(math.log10(value * (1 + ROUNDING)))
    # a value that has two digits is not moved by the rounding error of what it was computed from
    up = math.ceil(value * 10.0**places * (1 - ROUNDING))
    if up == 10**DIGITS:
        up, places = up // 10, places - 1
    return f"{up / 10.0**places:.{max(places, 0)}f}"
