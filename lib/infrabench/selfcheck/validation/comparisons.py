"""Tests that must not reject more often than they say when nothing differs, and must find what is there."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infrabench.selfcheck.validation.bands import at_most, between, near
from infrabench.selfcheck.validation.check import Check, ExpectedShare, SimulatedCase
from infrabench.selfcheck.validation.generators import Array, PairedSamples, Rng, blocked, pair
from infrabench.stats import multiplicity, pairwise
from infrabench.stats.omnibus import friedman

ALPHA = 0.05
MARGIN = 0.02
PAIRS = tuple(combinations(range(4), 2))


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
)  # fmt: skip
