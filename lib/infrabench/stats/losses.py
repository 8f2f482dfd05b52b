"""What a contrast may say where trials ended without a value: only what holds whatever they would have been.

The slowest trials are those that time out, so the rest of a system says too much good of it. A lost block therefore
stands for the smallest ratio and for the largest, and a verdict has to hold for both: worst ranks (Lachin 1999,
Controlled Clinical Trials 20:408-422) in the signed-rank test and its interval (Hodges and Lehmann 1963), whose size is
kept under any kind of loss. Lost shares are 0 or 1, lost counts 0 or the largest of the contrast. An invalid trial is
the machine's doing and taken as missing by chance; but where one of two systems loses, or has to repeat, markedly more
trials than the other (McNemar 1947, exact), or where a bound is infinite, there is no verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from infrabench.core import STATES
from infrabench.stats.intervals import ALPHA, LEVEL, NAN, Array, signed_rank_cdf, tail_rank

NARROW = 0.9
FAR = 100.0  # log ratio of a lost block: beyond every other, and so is its mean with any of them
UNLIKE = "no verdict on the rest"
BOUNDED = "bounds of a typical block, whatever they would have been"
LOST = "lost trials"
METHOD = "{method}; lost blocks at both ends"
INVALID = STATES.index("invalid")
WORDS = {"timeout": "timed out", "failed": "failed", "aborted": "aborted", "ok": "repeated"}
ENDS = ("ratio", "difference", "equivalence")


def is_lost(fates: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Return which trials ended without a value and were not invalid, shape of `fates` (of `table.Blocked`)."""
    return (fates > 0) & (fates != INVALID)


class WorstRanks(NamedTuple):
    """Means of all pairs of log ratios, ascending, with every lost block at the lower end, and at the upper one."""

    lowest: Array
    highest: Array
    cdf: Array  # of the signed-rank sum

    def ends(self, level: float) -> tuple[float, float]:
        """Return the interval of the ratio that holds for both; 0 and infinite where an end is that of a lost block."""
        k, _ = tail_rank(self.cdf, level)
        low, high = (self.lowest[k - 1], self.highest[-k]) if k else (-FAR, FAR)
        return (0.0 if low < -FAR / 4 else float(np.exp(low))), (np.inf if high > FAR / 4 else float(np.exp(high)))

    def p_above(self, ratio: float) -> float:
        """Return the one-sided p of "the ratio is at most `ratio`"."""
        return float(self.cdf[np.count_nonzero(self.lowest <= np.log(ratio))])

    def p_below(self, ratio: float) -> float:
        """Return the one-sided p of "the ratio is at least `ratio`"."""
        return float(self.cdf[np.count_nonzero(self.highest >= np.log(ratio))])


def worst_ranks(values: Array, lost: NDArray[np.bool_], deployment: NDArray[np.intp] | None) -> WorstRanks:
    """Return the `WorstRanks` of one contrast: `values` and `lost` (2, blocks), system and baseline.

    `deployment`: (blocks,), where deployments are the units: each has the median of its blocks. A block with a value
    that has no logarithm counts as a lost one, so that there is no NaN. Lachin 1999.
    """
    complete = np.isfinite(values).all(axis=0)
    gone = lost.any(axis=0) | (complete & (values <= 0).any(axis=0))
    used = complete | gone
    logs = np.log(np.where(gone | ~complete, 1.0, values))

    def pair_means(end: float) -> Array:
        units = np.where(gone, end, logs[0] - logs[1])[used]
        if deployment is not None:
            of = deployment[used]
            units = np.array([np.median(units[of == each]) for each in np.unique(of)])
        i, j = np.triu_indices(units.size)
        return np.sort((units[i] + units[j]) / 2)

    lowest, highest = pair_means(-FAR), pair_means(FAR)
    return WorstRanks(lowest, highest, signed_rank_cdf(int(np.sqrt(2 * lowest.size))))


def unequal_p(one: NDArray[np.bool_], other: NDArray[np.bool_]) -> float:
    """Return the exact two-sided p of equal chances, of what happened in blocks (blocks,) to one of two systems alone.

    McNemar 1947, from the binomial distribution of the blocks in which it happened to one alone. 1, never NaN, without.
    """
    a, b = int((one & ~other).sum()), int((other & ~one).sum())
    return min(1.0, 2 * float(stats.binom.cdf(min(a, b), a + b, 0.5)))


def explain_unequal(values: Array, fates: NDArray[np.int8], names: Sequence[str]) -> str:
    """Return which of several samples lose markedly more trials than another, in words, never NaN; empty without any.

    `values`, `fates`: of `table.Blocked`, shape (samples, blocks); `names`: one for each sample. Every two are
    compared by `unequal_p` (McNemar 1947)::

        explain_unequal(values, fates, ["docker", "native"])
        # 'docker: 9 of 30 timed out (native: 0 of 30 lost): no verdict on the rest'
    """
    fallen = fates != 0
    pairs = [
        sorted(pair, key=lambda i: fallen[i].sum())
        for pair in combinations(range(len(names)), 2)
        if unequal_p(*fallen[list(pair)]) < ALPHA
    ]
    if not pairs:
        return ""
    lines = [f"{name}: {each}" for name, each in zip(names, _render_fates(values, fates), strict=True)]
    worse = "; ".join(lines[i] for i in sorted({pair[1] for pair in pairs}))
    least = min((pair[0] for pair in pairs), key=lambda i: fallen[i].sum())
    return f"{worse} ({lines[least]}): {UNLIKE}"


def explain_lost(values: Array, fates: NDArray[np.int8], names: Sequence[str]) -> str:
    """Return which of several samples lose trials, in words, never NaN; empty without any.

    `values`, `fates`: shape (samples, blocks), and `names`, as of `explain_unequal`.
    """
    lost = is_lost(fates).any(axis=-1)
    words = zip(names, _render_fates(values, fates), lost, strict=True)
    return "; ".join(f"{name}: {each}" for name, each, some in words if some)


def worst_p(values: Array, fates: NDArray[np.int8], deployment: NDArray[np.intp] | None) -> float:
    """Return the two-sided p of a ratio of 1 that holds whatever the lost trials were; NaN where losses are unequal.

    `values`, `fates`: (2, blocks), and `deployment`, as in `account_losses`; the answer is one number, shape (), and 0
    where no trial is lost. Lachin 1999.
    """
    if unequal_p(*(fates != 0)) < ALPHA:
        return NAN
    if not is_lost(fates).any():
        return 0.0
    ranks = worst_ranks(values, is_lost(fates), deployment)
    return min(1.0, 2 * min(ranks.p_above(1.0), ranks.p_below(1.0)))


def is_bounded(values: Array, fates: NDArray[np.int8], deployment: NDArray[np.intp] | None) -> bool:
    """Return whether a ratio has two ends whatever the lost trials were; so it has without any.

    `values`, `fates`: (2, blocks), and `deployment`, as in `account_losses`; the answer has the shape (). False where
    losses are unequal. Lachin 1999.
    """
    if unequal_p(*(fates != 0)) < ALPHA:
        return False
    if not is_lost(fates).any():
        return True
    low, high = worst_ranks(values, is_lost(fates), deployment).ends(LEVEL)
    return low > 0 and np.isfinite(high)


def account_losses(
    row: Mapping[str, Any],
    values: Array,
    fates: NDArray[np.int8],
    deployment: NDArray[np.intp] | None,
    judge: Callable[[Array], Mapping[str, Any]] | None = None,
    top: float = np.inf,
) -> dict[str, Any]:
    """Return the columns of a contrast that its losses change, as scalars by name, shape (); empty without losses.

    `row`: its columns of `verdicts.judge` and ``margin``, ``baseline``; `values`, `fates`: (2, blocks), system and
    baseline, of `table.Blocked`; `deployment` as in `worst_ranks`. Of counts and shares `judge` is what judges values,
    and `top` the largest that a lost one may have been (infinite: the largest of the contrast). ``withheld``: there is
    no verdict; ``bound_low``, ``bound_high``: the ratio that holds for both ends. NaN where there is no number.
    """
    lost = is_lost(fates)
    unequal = unequal_p(*(fates != 0)) < ALPHA
    if not (lost.any() or unequal):
        return {}
    own, base = _render_fates(values, fates)
    said = f"{own} ({row['baseline']}: {base})"
    if not row["inferred"] and not unequal and (judge or is_bounded(values, fates, deployment)):
        return {"reason": "; ".join(filter(None, (row["reason"], said)))}  # nothing is inferred, with or without them
    found: Mapping[str, Any] = {}
    if row["inferred"] and not unequal:
        found = _events(judge, row, values, lost, top) if judge else _ranked(row, values, lost, deployment)
    if not found:
        numbers = (*ENDS[:2], *(f"{name}_{end}" for name in ENDS for end in ("low", "high")), "p", "p_equivalence")
        blank = dict.fromkeys((*numbers, "spread"), NAN)
        also = "" if row["inferred"] or judge else row["reason"]  # one lost trial may not be why there is no ratio
        reason = "; ".join(filter(None, (also, f"{said}: {UNLIKE}")))
        return blank | {"inferred": False, "apart": False, "withheld": True, "p_method": None, "reason": reason}
    method = METHOD.format(method=row["p_method"])
    reason = "; ".join(filter(None, (row["reason"], f"{said}: {BOUNDED}")))
    return {**found, "spread": NAN, "p_method": method, "reason": reason}


def _ranked(
    row: Mapping[str, Any], values: Array, lost: NDArray[np.bool_], deployment: NDArray[np.intp] | None
) -> dict[str, Any]:
    """The wider of the interval over complete blocks and of that by worst ranks; empty where that has no end."""
    ranks = worst_ranks(values, lost, deployment)
    low, high = ranks.ends(LEVEL)
    if low == 0 or np.isinf(high):
        return {}
    narrow, margin = ranks.ends(NARROW), row["margin"]
    p = 2 * (ranks.p_above(1.0) if row["ratio"] > 1 else ranks.p_below(1.0))
    found = {"bound_low": low, "bound_high": high, "difference_low": NAN, "difference_high": NAN}
    for name, ends in (("ratio", (low, high)), ("equivalence", narrow)):
        found[f"{name}_low"] = np.minimum(row[f"{name}_low"], ends[0])
        found[f"{name}_high"] = np.maximum(row[f"{name}_high"], ends[1])
    outside = max(ranks.p_above(1 - margin), ranks.p_below(1 + margin))
    apart = bool(found["ratio_low"] > 1 or found["ratio_high"] < 1)
    ps = {"p": np.maximum(row["p"], min(p, 1.0)), "p_equivalence": np.maximum(row["p_equivalence"], outside)}
    return found | ps | {"apart": apart}


def _events(
    judge: Callable[[Array], Mapping[str, Any]],
    row: Mapping[str, Any],
    values: Array,
    lost: NDArray[np.bool_],
    top: float,
) -> dict[str, Any]:
    """What holds with the lost trials of either system at their least and the other's at their most, and without them.

    Empty where one of the former says nothing. The complete blocks alone are among them, since their ratio is the one
    that is told: beside a lost trial stands one of the other system, which is in no complete block.
    """
    most = top if np.isfinite(top) else np.nanmax(values, initial=1.0)
    both = [judge(np.where(lost, np.array(ends)[:, None], values)) for ends in ((0.0, most), (most, 0.0))]
    if not all(each.get("inferred") for each in both):
        return {}
    every = [*both, row]
    found: dict[str, Any] = {}
    for name in ENDS:
        found[f"{name}_low"] = np.min([each[f"{name}_low"] for each in every])
        found[f"{name}_high"] = np.max([each[f"{name}_high"] for each in every])
    ps = {name: np.max([each[name] for each in every]) for name in ("p", "p_equivalence")}
    if len({np.sign(each["difference"]) for each in every}) > 1:  # between them there is no difference at all
        return found | ps | {"p": 1.0, "apart": False}
    return found | ps | {"apart": all(each["apart"] for each in every)}


def _render_fates(values: Array, fates: NDArray[np.int8]) -> list[str]:
    """Return ``9 of 30 timed out, 1 of 30 failed`` for each row: what became of its trials that were not ok at once."""
    texts = []
    for own, tried in zip(fates, (np.isfinite(values) | (fates > 0)).sum(axis=-1), strict=True):
        words = [
            f"{(own == code).sum()} of {tried} {WORDS.get(state := STATES[max(code, 0)], state)}"
            for code in np.unique(own[own != 0])
        ]
        texts.append(", ".join(words) or f"0 of {tried} lost")
    return texts
