"""May two sessions, the recorded one and one measured elsewhere, both be right? The rule of re-measurement.

A recorded verdict makes one of two statements about a ratio: that it lies on one side of 1 (*different*), or within
the margin about 1 (*equivalent*; *different, within the margin*). *Inconclusive* makes none, and nothing is claimed.

pass          the new session, by itself, makes the same statement
fail          the two contradict each other: both exclude 1, on opposite sides; or one says that the ratio is within the
              margin, by its equivalence test, and the other's whole interval is outside
inconclusive  neither

Only the paired 95 % intervals and the equivalence test are read, which `selfcheck.validation` checks. If both machines
have one true ratio, each kind of failure needs one of the two sessions to be wrong in a way that has a chance of 5 % at
most. Machines differ, so a failure says that the claim does not carry over, not that a session is wrong.

How far the size is from the recorded one is told beside it, by the 95 % prediction interval for a session of that many
blocks (Patil, Peng and Leek 2016), and decides nothing: differences between machines are not in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from infrabench.analysis.published import prediction
from infrabench.analysis.tables import notation
from infrabench.selfcheck.claims.claim import FAIL, INCONCLUSIVE, PASS, Judged
from infrabench.stats.pairwise import margin_ends
from infrabench.stats.verdicts import DIFFERENT, EQUIVALENT, WITHIN

STATED = "no contradiction of verdicts, by the 95 % intervals and the equivalence test at the study's margin"
ALIKE = (EQUIVALENT, WITHIN)


def claims_something(contrast: Mapping[str, Any]) -> bool:
    """Tell whether a recorded contrast makes a statement that another session can make, or contradict."""
    return contrast["verdict"] in (DIFFERENT, *ALIKE) and contrast["ratio_low"] is not None


def statement(contrast: Mapping[str, Any]) -> str:
    """Return what a recorded contrast claims of any machine: a side of 1, or the margin about it."""
    who, base, contrast = contrast["system"], contrast["baseline"], _open(contrast)
    if contrast["verdict"] in ALIKE:
        return f"{who} and {base} are the same within {100 * contrast['margin']:g} %"
    return f"{who} is {'above' if _side(contrast) > 0 else 'below'} {base} ({notation.direction(contrast['better'])})"


def judge(then: Mapping[str, Any], now: Mapping[str, Any]) -> Judged:
    """Return what the contrast `now` of a new session makes of the recorded one, `then`."""
    if now["ratio_low"] is None:
        return Judged(INCONCLUSIVE, f"here no interval: {now['reason'] or now['verdict']}")
    then, now = _open(then), _open(now)
    return Judged(_outcome(then, now), f"here {_describe_ratio(now)}; {_size(then, now)}")


def _open(contrast: Mapping[str, Any]) -> Mapping[str, Any]:
    """An interval of counts may have no upper end; JSON, which has no infinity, says null."""
    ends = {name: math.inf for name in ("ratio", "ratio_high") if contrast[name] is None}
    return {**contrast, **ends} if contrast["ratio_low"] is not None else contrast


def _outcome(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    if then["verdict"] in ALIKE:
        if now["verdict"] in ALIKE:
            return PASS
        return FAIL if _outside(now, then["margin"]) else INCONCLUSIVE
    if _side(now) == _side(then):
        return PASS
    opposite = _side(now) == -_side(then)
    return FAIL if opposite or (now["verdict"] in ALIKE and _outside(then, then["margin"])) else INCONCLUSIVE


def _side(contrast: Mapping[str, Any]) -> int:
    """1 or -1: the side of 1 on which the whole interval lies; 0 when it holds 1."""
    return int(contrast["ratio_low"] > 1) - int(contrast["ratio_high"] < 1)


def _outside(contrast: Mapping[str, Any], margin: float) -> bool:
    least, most = margin_ends(margin)
    return bool(contrast["ratio_high"] < least or contrast["ratio_low"] > most)


def _describe_ratio(contrast: Mapping[str, Any]) -> str:
    low, high = contrast["ratio_low"], contrast["ratio_high"]
    ratio = notation.number(contrast["ratio"], notation.decimals(low, high, null=1))
    interval = notation.interval(low, high, null=1)
    return f"{ratio} {interval}, n = {contrast['n_pairs']} {contrast['pair_unit']}: {contrast['verdict']}"


def _size(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    if then["ratio_low"] <= 0 or then["ratio_high"] == math.inf:  # no such interval on the scale of logarithms
        return "no prediction interval"
    low, high = prediction(then["ratio"], then["ratio_low"], then["ratio_high"], then["n_pairs"], now["n_pairs"])
    inside = "inside" if low <= now["ratio"] <= high else "outside"
    return f"{inside} the prediction interval {notation.interval(low, high, null=1)}"
