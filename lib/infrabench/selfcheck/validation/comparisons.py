"""Tests that must not reject more often than they say when nothing differs, and must find what is there.

Paired and omnibus tests, adjusted p-values, equivalence; counts and shares, which are exact near zero, decide with a
zero baseline, and see clustered events; and verdicts: how often equivalence is claimed that is none, and whether the
number of blocks that is named decides.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from infrabench.selfcheck.validation.check import (
    Allowed,
    Check,
    ExpectedShare,
    SimulatedCase,
    at_least,
    at_most,
    between,
    near,
)
from infrabench.selfcheck.validation.estimation import covers
from infrabench.selfcheck.validation.generators import Array, PairedSamples, Rng, blocked, pair, skewed
from infrabench.stats import events, multiplicity, pairwise
from infrabench.stats.omnibus import friedman
from infrabench.stats.table import PER_BLOCK
from infrabench.stats.verdicts import EQUIVALENT, INCONCLUSIVE, WITHIN, Pairs, decide, judge, n_to_decide

ALPHA = 0.05
MARGIN, SKEWED_MARGIN = 0.02, 0.1
BLOCKS = 30
PAIRS = tuple(combinations(range(4), 2))
SYSTEMS = 3
OUTSIDE = float(np.exp(0.5**2 / 2))  # 1.133, while the ratio of geometric means is 1


def rejects(p: Any) -> NDArray[np.bool_]:
    """Return whether each p is below 5 %."""
    return np.asarray(p) < ALPHA


def any_rejected(p: Array) -> NDArray[np.bool_]:
    """Return whether any test of each family (last axis) is below 5 %: the familywise error when all are null."""
    return (np.asarray(p) < ALPHA).any(axis=-1)


def _holm_paired(x: Array) -> NDArray[np.bool_]:
    p = np.stack([pairwise.paired_t(x[:, a], x[:, b]).p for a, b in PAIRS], axis=-1)
    return any_rejected(multiplicity.holm(p))


def _effects(nulls: int, others: int, n: int = 30) -> Any:
    """Return pairs (replicates, contrasts, blocks): `nulls` contrasts without a difference, then some of 1 sd."""

    def generate(rng: Rng, replicates: int) -> PairedSamples:
        x, y = rng.normal(size=(2, replicates, nulls + others, n))
        return PairedSamples(x + (np.arange(nulls + others) >= nulls)[:, None], y)

    return generate


def _familywise(data: PairedSamples, nulls: int) -> NDArray[np.bool_]:
    p = multiplicity.holm(pairwise.paired_t(*data).p)
    return any_rejected(p[:, :nulls])


def _false_share(data: PairedSamples, nulls: int) -> Array:
    """Share of false among all rejections by Benjamini-Hochberg; its mean is the false discovery rate."""
    found = multiplicity.benjamini_hochberg(pairwise.paired_t(*data).p) < ALPHA
    return found[:, :nulls].sum(axis=1) / np.maximum(found.sum(axis=1), 1)


def _all_null(data: PairedSamples) -> NDArray[np.bool_]:
    return _familywise(data, 10)


def counted(mean: float, ratio: float = 1.0, spread: float = 1.0) -> Callable[[Rng, int], Array]:
    """Return (replicates, 2, blocks): events of a system, `ratio` times as many as the baseline's `mean` of a block.

    `spread`: variance over mean, 1 for independent events (Poisson), above for clustered ones (negative binomial).
    """

    def generate(rng: Rng, replicates: int) -> Array:
        means = np.array([ratio * mean, mean])[None, :, None]
        shape = (replicates, 2, BLOCKS)
        if spread == 1:
            return rng.poisson(means, shape).astype(float)
        return rng.negative_binomial(np.broadcast_to(means / (spread - 1), shape), 1 / spread).astype(float)

    return generate


def zero_baseline(mean: float) -> Callable[[Rng, int], Array]:
    """Return (replicates, 2, blocks): independent events of a system, `mean` in a block, and none of the baseline."""
    return lambda rng, replicates: np.stack(
        [rng.poisson(mean, (replicates, BLOCKS)), np.zeros((replicates, BLOCKS))], axis=1
    ).astype(float)


def rates_differ(data: Array) -> NDArray[np.bool_]:
    """Return, by campaign, whether its verdict is that the rates of events differ."""
    rows = (events.judge_events(events.COUNT, each, None, MARGIN, percent=False) for each in data)
    return np.array([row["inferred"] and row["apart"] for row in rows])


def _ratio_covered(data: Array, ratio: float) -> NDArray[np.bool_]:
    x, y = data.sum(axis=-1).T
    found = events.poisson_ratio(x, y).interval
    # without any event every ratio is left open
    return covers(found, ratio) | (x + y == 0)


def _shares(p: float, q: float) -> Callable[[Rng, int], Any]:
    return lambda rng, replicates: rng.binomial(BLOCKS, (p, q), (replicates, 2))


def _difference_covered(data: Any, truth: float) -> NDArray[np.bool_]:
    x, y = data.T
    return covers(events.newcombe_interval(x, BLOCKS, y, BLOCKS), truth)


def _events_case(data: str, generate: Callable[[Rng, int], Any], *expectations: ExpectedShare) -> SimulatedCase:
    return SimulatedCase(f"{data}, {BLOCKS} blocks", generate, expectations, fast=400, full=4_000)


def _same(mean: float, spread: float) -> SimulatedCase:
    data = f"{mean:g} events a block, variance {spread:g} times the mean"
    return _events_case(
        data, counted(mean, 1.0, spread), ExpectedShare("called different", rates_differ, at_most(0.05))
    )


class Open(NamedTuple):
    """Campaigns that decided nothing, and for each of them blocks of the same kind with which to try once more."""

    seen: PairedSamples
    fresh: PairedSamples  # (replicates, as many blocks as may be asked for)


def judged(x: Array, y: Array, margin: float) -> dict[str, NDArray[np.float64]]:
    """Return what `stats.verdicts` says of each campaign (replicates, n), at one margin, printed without a step."""
    none = np.full(len(x), np.nan)
    return judge(Pairs(x, y, np.full(len(x), margin), none, none, "baseline", PER_BLOCK))


def called_alike(data: PairedSamples, margin: float) -> NDArray[np.bool_]:
    """Return whether each campaign of a single contrast claims equivalence, also "different, within the margin"."""
    row = judged(*data, margin)
    return np.isin(decide(row, row["p_equivalence"]), [EQUIVALENT, WITHIN])


def three_at_the_margin(rng: Rng, replicates: int, n: int = 30) -> PairedSamples:
    """Return three systems, each just outside the margin of one baseline, all of CoV 2 %: (replicates, systems, n)."""
    x = (1 + MARGIN) * (1 + rng.normal(0, 0.02, (replicates, SYSTEMS, n)))
    y = 1 + rng.normal(0, 0.02, (replicates, 1, n))
    return PairedSamples(100 * x, np.broadcast_to(100 * y, x.shape))


def any_claimed(data: PairedSamples, adjusted: Callable[[Array], Array]) -> NDArray[np.bool_]:
    """Return whether a campaign claims equivalence of any of its systems, the p of their family being `adjusted`."""
    many, systems, n = data.x.shape
    row = judged(data.x.reshape(-1, n), data.y.reshape(-1, n), MARGIN)
    p = adjusted(row["p_equivalence"].reshape(many, systems)).ravel()
    return np.isin(decide(row, p), [EQUIVALENT, WITHIN]).reshape(many, systems).any(axis=-1)


def undecided(ratio: float, cov: float, n: int, most: int, margin: float = MARGIN) -> Callable[[Rng, int], Open]:
    """Return campaigns of `n` blocks that decided nothing at the margin, with `most` fresh blocks for each."""

    def generate(rng: Rng, replicates: int) -> Open:
        kept: list[PairedSamples] = []
        while sum(len(each.x) for each in kept) < replicates:
            drawn = pair(ratio, (cov, cov), n)(rng, replicates)
            row = judged(*drawn, margin)
            nothing = decide(row, row["p_equivalence"]) == INCONCLUSIVE
            kept.append(PairedSamples(drawn.x[nothing], drawn.y[nothing]))
        seen = PairedSamples(*(np.concatenate(each)[:replicates] for each in zip(*kept, strict=True)))
        return Open(seen, pair(ratio, (cov, cov), most)(rng, replicates))

    return generate


def named(data: Open, margin: float = MARGIN) -> Array:
    """Return the number of blocks that each campaign names."""
    row = judged(*data.seen, margin)
    return n_to_decide(row, margin, 1)


def decides(data: Open, margin: float = MARGIN) -> NDArray[np.bool_]:
    """Return whether a fresh campaign of the named number of blocks decides; one that names none does not."""
    wanted, found = named(data, margin), np.zeros(len(data.seen.x), dtype=bool)
    for n in np.unique(wanted[wanted <= data.fresh.x.shape[-1]]).astype(int):
        here = wanted == n
        row = judged(data.fresh.x[here, :n], data.fresh.y[here, :n], margin)
        found[here] = decide(row, row["p_equivalence"]) != INCONCLUSIVE
    return found


def reached(data: Open) -> NDArray[np.bool_]:
    """Return whether the number that a campaign names is none that would be new to it."""
    return ~(named(data) > data.seen.x.shape[-1])


def _false(ratio: float, sigma: float, allowed: Allowed) -> SimulatedCase:
    return SimulatedCase(
        f"lognormal sigma {sigma:g}, true ratio of means {ratio:.4g}, n = 100", skewed(ratio, sigma, 100),
        (ExpectedShare("called equivalent", lambda d: called_alike(d, SKEWED_MARGIN), allowed),),
    )  # fmt: skip


CHECKS = (
    Check(
        "V7", "blocked data, four systems",
        (
            SimulatedCase(
                "blocked normal, block sd 3, 30 blocks", blocked(4, 30, 3.0),
                (
                    ExpectedShare("Friedman, chi2", lambda x: rejects(friedman(x).p), at_most(0.05)),
                    ExpectedShare("Friedman, Iman-Davenport F", lambda x: rejects(friedman(x).iman_davenport_p),
                                at_most(0.05)),
                    ExpectedShare("paired t with Holm, any pair", _holm_paired, at_most(0.05)),
                ),
            ),
        ),
    ),
    Check(
        "V8", "adjusted p-values",
        (
            SimulatedCase(
                "10 true nulls", _effects(10, 0),
                (
                    ExpectedShare("Holm, familywise error", _all_null, at_most(0.05)),
                    ExpectedShare("Benjamini-Hochberg, false discoveries", lambda d: _false_share(d, 10),
                                  at_most(0.05)),
                ),
            ),
            SimulatedCase(
                "5 nulls and 5 effects", _effects(5, 5),
                (
                    ExpectedShare("Holm, familywise error", lambda d: _familywise(d, 5), at_most(0.05)),
                    ExpectedShare("Benjamini-Hochberg, false discoveries", lambda d: _false_share(d, 5), at_most(0.05)),
                ),
            ),
        ),
    ),
    Check(
        "V9", "equivalence by two one-sided tests, margin 2 %",
        (
            SimulatedCase(
                "true ratio 0.98, CoV 2 %, n = 30", pair(1 - MARGIN, (0.02, 0.02), 30),
                (ExpectedShare("declared at the boundary",
                               lambda d: rejects(pairwise.ratio_equivalence(*d, MARGIN).p), near(0.05)),),
            ),
            SimulatedCase(
                "true ratio 1, CoV 2 %, n = 30", pair(1.0, (0.02, 0.02), 30),
                (ExpectedShare("declared", lambda d: rejects(pairwise.ratio_equivalence(*d, MARGIN).p),
                             between(0.95, 1.0)),),
            ),
        ),
    ),
    Check(
        "V20", "counts: nothing differs",
        (*(_same(mean, 1.0) for mean in (0.1, 1.0)), *(_same(mean, 3.0) for mean in (0.1, 1.0, 5.0))),
    ),
    Check(
        "V21", "counts and shares: a zero baseline, and intervals",
        (
            _events_case(
                "5 events a block against none", zero_baseline(5.0),
                ExpectedShare("called different", rates_differ, at_least(0.99)),
            ),
            *(
                _events_case(
                    f"{mean:g} events a block, ratio 2", counted(mean, 2.0),
                    ExpectedShare("exact ratio", lambda data: _ratio_covered(data, 2.0), at_least(0.94)),
                )
                for mean in (0.1, 1.0)
            ),
            *(
                _events_case(
                    f"shares of {p:g} and {q:g}", _shares(p, q),
                    ExpectedShare("Newcombe", lambda data, d=p - q: _difference_covered(data, d), at_least(0.93)),
                )
                for p, q in ((0.5, 0.3), (0.2, 0.02), (0.1, 0.1))
            ),
        ),
    ),
    Check(
        "V22", "equivalence of a skewed system, margin 10 %",
        (
            _false(OUTSIDE, 0.5, at_most(0.05)),
            _false(1 + SKEWED_MARGIN, 0.5, at_most(0.055)),
            # where the interval is narrow, Student's t leans towards the side on which the long tail lies: 6.3 %
            _false(1 + SKEWED_MARGIN, 0.25, at_most(0.063)),
            _false(1 - SKEWED_MARGIN, 0.25, at_most(0.05)),
        ),
    ),
    Check(
        "V23", "equivalence in a family, margin 2 %",
        (
            SimulatedCase(
                "three systems at the margin, CoV 2 %, n = 30", three_at_the_margin,
                (
                    ExpectedShare("Holm, any claimed", lambda d: any_claimed(d, multiplicity.holm), at_most(0.05)),
                    ExpectedShare("not adjusted, which has to fail here", lambda d: any_claimed(d, np.asarray),
                                between(0.10, 0.14)),
                ),
            ),
        ),
    ),
    Check(
        "V24", "number of blocks that would decide, margin 2 %",
        tuple(
            SimulatedCase(
                f"true ratio {ratio:g}, CoV {100 * cov:g} %, {n} blocks undecided", undecided(ratio, cov, n, most),
                (
                    ExpectedShare("so many decide", decides, at_least(0.80)),
                    ExpectedShare("names none, or one that was reached", reached, between(0.0, 0.0)),
                ),
                fast=500, full=5_000, batch=500,
            )
            for ratio, cov, n, most in ((1.01, 0.04, 30, 400), (1.005, 0.02, 10, 300))
        ),
    ),
)  # fmt: skip
