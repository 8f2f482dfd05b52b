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

from infrabench.stats import events, multiplicity, pairwise
from infrabench.stats.omnibus import friedman
from infrabench.stats.table import PER_BLOCK
from infrabench.stats.verdicts import EQUIVALENT, INCONCLUSIVE, WITHIN, Pairs, decide, judge, n_to_decide
from infrabench_selfcheck.validation import check
from infrabench_selfcheck.validation import generators as draw
from infrabench_selfcheck.validation.check import Check, Expected, at_least, at_most, between, case, near
from infrabench_selfcheck.validation.estimation import covers
from infrabench_selfcheck.validation.generators import Array, Generate, PairedSamples, Rng, generator

ALPHA = 0.05
MARGIN, SKEWED_MARGIN = 0.02, 0.1
BLOCKS = 30
SYSTEMS = 3
OUTSIDE = float(np.exp(0.5**2 / 2))  # 1.133, while the ratio of geometric means is 1


def rejects(p: Any) -> NDArray[np.bool_]:
    """Return whether each p is below 5 %."""
    return np.asarray(p) < ALPHA


def any_pair_rejected(
    x: Array, p: Callable[[Array, Array], Any], adjust: Callable[[Array], Array] = np.asarray
) -> NDArray[np.bool_]:
    """Return whether any two of four systems (replicates, system, n) are told apart by the adjusted p of a test."""
    every = np.stack([p(x[:, a], x[:, b]) for a, b in combinations(range(4), 2)], axis=-1)
    return rejects(adjust(every)).any(axis=-1)


@generator
def effects(rng: Rng, replicates: int, nulls: int, others: int, n: int = 30) -> PairedSamples:
    """Return pairs (replicates, contrasts, blocks): `nulls` contrasts without a difference, then some of 1 sd."""
    x, y = rng.normal(size=(2, replicates, nulls + others, n))
    return PairedSamples(x + (np.arange(nulls + others) >= nulls)[:, None], y)


def _adjusted(data: str, nulls: int, others: int) -> check.SimulatedCase:
    def by_rate(data: PairedSamples) -> NDArray[np.bool_]:
        return rejects(multiplicity.benjamini_hochberg(pairwise.paired_t(*data).p))

    def false_share(data: PairedSamples) -> Array:
        """Share of false among all rejections; its mean is the false discovery rate."""
        found = by_rate(data)
        return found[:, :nulls].sum(axis=1) / np.maximum(found.sum(axis=1), 1)

    # by Student's t without a center, at the level of about 2.4 % that a real effect meets among five: 92.5 %
    effects_found: tuple[Expected, ...] = (
        ("Benjamini-Hochberg, real effects found", lambda d: by_rate(d)[:, nulls:].mean(axis=1), at_least(0.91)),
    )
    return case(
        data, effects(nulls, others),
        ("Holm, familywise error",
         lambda d: rejects(multiplicity.holm(pairwise.paired_t(*d).p))[:, :nulls].any(axis=-1), at_most(0.05)),
        ("Benjamini-Hochberg, false discoveries", false_share, at_most(0.05)),
        *(effects_found if others else ()),
    )  # fmt: skip


@generator
def counted(rng: Rng, replicates: int, mean: float, ratio: float = 1.0, spread: float = 1.0) -> Array:
    """Return (replicates, 2, blocks): events of a system, `ratio` times as many as the baseline's `mean` of a block.

    `spread`: variance over mean, 1 for independent events (Poisson), above for clustered ones (negative binomial).
    """
    means, shape = np.array([ratio * mean, mean])[None, :, None], (replicates, 2, BLOCKS)
    if spread == 1:
        return rng.poisson(means, shape).astype(float)
    return rng.negative_binomial(np.broadcast_to(means / (spread - 1), shape), 1 / spread).astype(float)


@generator
def zero_baseline(rng: Rng, replicates: int, mean: float) -> Array:
    """Return (replicates, 2, blocks): independent events of a system, `mean` in a block, and none of the baseline."""
    events_of = rng.poisson(mean, (replicates, BLOCKS))
    return np.stack([events_of, np.zeros_like(events_of)], axis=1).astype(float)


@generator
def shares(rng: Rng, replicates: int, p: float, q: float) -> NDArray[np.int64]:
    """Return (replicates, 2): how many of a system's and of the baseline's blocks had the event."""
    return rng.binomial(BLOCKS, (p, q), (replicates, 2))


def rates_differ(data: Array) -> NDArray[np.bool_]:
    """Return, by campaign, whether its verdict is that the rates of events differ."""
    rows = (events.judge_events(events.COUNT, each, None, MARGIN, percent=False) for each in data)
    return np.array([row["inferred"] and row["apart"] for row in rows])


def _of_events(data: str, generate: Generate[Any], expected: Expected) -> check.SimulatedCase:
    return case(f"{data}, {BLOCKS} blocks", generate, expected, fast=400, full=4_000)


def _ratio_covered(data: Array, ratio: float) -> NDArray[np.bool_]:
    x, y = data.sum(axis=-1).T
    # without any event every ratio is left open
    return covers(events.poisson_ratio(x, y).interval, ratio) | (x + y == 0)


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


@generator
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


@generator
def undecided(rng: Rng, replicates: int, ratio: float, cov: float, n: int, most: int) -> Open:
    """Return campaigns of `n` blocks that decided nothing at the margin, with `most` fresh blocks for each."""
    kept: list[PairedSamples] = []
    while sum(len(each.x) for each in kept) < replicates:
        drawn = draw.pair(ratio, (cov, cov), n)(rng, replicates)
        row = judged(*drawn, MARGIN)
        nothing = decide(row, row["p_equivalence"]) == INCONCLUSIVE
        kept.append(PairedSamples(drawn.x[nothing], drawn.y[nothing]))
    seen = PairedSamples(*(np.concatenate(each)[:replicates] for each in zip(*kept, strict=True)))
    return Open(seen, draw.pair(ratio, (cov, cov), most)(rng, replicates))


def named(data: Open) -> Array:
    """Return the number of blocks that each campaign names."""
    return n_to_decide(judged(*data.seen, MARGIN), MARGIN, 1)


def decides(data: Open) -> NDArray[np.bool_]:
    """Return whether a fresh campaign of the named number of blocks decides; one that names none does not."""
    wanted, found = named(data), np.zeros(len(data.seen.x), dtype=bool)
    for n in np.unique(wanted[wanted <= data.fresh.x.shape[-1]]).astype(int):
        here = wanted == n
        row = judged(data.fresh.x[here, :n], data.fresh.y[here, :n], MARGIN)
        found[here] = decide(row, row["p_equivalence"]) != INCONCLUSIVE
    return found


CHECKS = (
    Check("V7", "blocked data, four systems", (
        case("blocked normal, block sd 3, 30 blocks", draw.blocked(4, 30, 3.0),
             ("Friedman, chi2", lambda x: rejects(friedman(x).p), at_most(0.05)),
             # an approximation: 5.2 % in 800 000 campaigns
             ("Friedman, Iman-Davenport F", lambda x: rejects(friedman(x).iman_davenport_p),
              near(0.052, rounded=0.0005)),
             ("paired t with Holm, any pair",
              lambda x: any_pair_rejected(x, lambda a, b: pairwise.paired_t(a, b).p, multiplicity.holm),
              at_most(0.05))),
    )),
    Check("V8", "adjusted p-values", (_adjusted("10 true nulls", 10, 0), _adjusted("5 nulls and 5 effects", 5, 5))),
    Check("V9", "equivalence by two one-sided tests, margin 2 %", tuple(
        case(f"true ratio {ratio:g}, CoV 2 %, n = 30", draw.pair(ratio, (0.02, 0.02), 30),
             (what, lambda d: rejects(pairwise.ratio_equivalence(*d, MARGIN).p), allowed))
        for ratio, what, allowed in (
            (1 - MARGIN, "declared at the boundary", near(0.05)), (1.0, "declared", between(0.95, 1.0)),
        )
    )),
    Check("V20", "counts: nothing differs", tuple(
        _of_events(f"{mean:g} events a block, variance {spread:g} times the mean", counted(mean, 1.0, spread),
                   ("called different", rates_differ, at_most(0.05)))
        for mean, spread in ((0.1, 1.0), (1.0, 1.0), (0.1, 3.0), (1.0, 3.0), (5.0, 3.0))
    )),
    Check("V21", "counts and shares: a zero baseline, and intervals", (
        _of_events("5 events a block against none", zero_baseline(5.0),
                   ("called different", rates_differ, at_least(0.99))),
        *(
            _of_events(f"{mean:g} events a block, ratio 2", counted(mean, 2.0),
                       ("exact ratio", lambda data: _ratio_covered(data, 2.0), at_least(0.94)))
            for mean in (0.1, 1.0)
        ),
        *(
            _of_events(f"shares of {p:g} and {q:g}", shares(p, q),
                       ("Newcombe", lambda data, p=p, q=q: covers(
                           events.newcombe_interval(data[:, 0], BLOCKS, data[:, 1], BLOCKS), p - q), at_least(0.93)))
            for p, q in ((0.5, 0.3), (0.2, 0.02), (0.1, 0.1))
        ),
    )),
    Check("V22", "equivalence of a skewed system, margin 10 %", tuple(
        case(f"lognormal sigma {sigma:g}, true ratio of means {ratio:.4g}, n = 100", draw.skewed(ratio, sigma, 100),
             ("called equivalent", lambda d: called_alike(d, SKEWED_MARGIN), at_most(most)))
        for ratio, sigma, most in (
            (OUTSIDE, 0.5, 0.05),
            (1 + SKEWED_MARGIN, 0.5, 0.055),
            # where the interval is narrow, Student's t leans towards the side on which the long tail lies: 6.3 %
            (1 + SKEWED_MARGIN, 0.25, 0.063),
            (1 - SKEWED_MARGIN, 0.25, 0.05),
        )
    )),
    Check("V23", "equivalence in a family, margin 2 %", (
        case("three systems at the margin, CoV 2 %, n = 30", three_at_the_margin(),
             ("Holm, any claimed", lambda d: any_claimed(d, multiplicity.holm), at_most(0.05)),
             ("not adjusted, which has to fail here", lambda d: any_claimed(d, np.asarray), between(0.10, 0.14))),
    )),
    Check("V24", "number of blocks that would decide, margin 2 %", tuple(
        case(f"true ratio {ratio:g}, CoV {100 * cov:g} %, {n} blocks undecided", undecided(ratio, cov, n, most),
             ("so many decide", decides, at_least(0.80)),
             ("names none, or one that was reached", lambda d: ~(named(d) > d.seen.x.shape[-1]), between(0.0, 0.0)),
             fast=500, full=5_000, batch=500)
        for ratio, cov, n, most in ((1.01, 0.04, 30, 400), (1.005, 0.02, 10, 300))
    )),
)  # fmt: skip
