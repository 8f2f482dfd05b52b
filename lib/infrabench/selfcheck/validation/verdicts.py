"""Verdicts: how often equivalence is claimed that is none, and whether the number of blocks that is named decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from infrabench.selfcheck.validation.bands import Allowed, at_least, at_most, between
from infrabench.selfcheck.validation.check import Check, ExpectedShare, SimulatedCase
from infrabench.selfcheck.validation.generators import Array, PairedSamples, Rng, pair, skewed
from infrabench.stats import multiplicity
from infrabench.stats.table import PER_BLOCK
from infrabench.stats.verdicts import EQUIVALENT, INCONCLUSIVE, WITHIN, Pairs, decide, judge, n_to_decide

SKEWED_MARGIN, MARGIN = 0.1, 0.02
SYSTEMS = 3
OUTSIDE = float(np.exp(0.5**2 / 2))  # 1.133, while the ratio of geometric means is 1


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
