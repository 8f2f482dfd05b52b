"""Tests that must not reject more often than they say when nothing differs, and must find what is there."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from infrabench.stats import adjust, equivalence, pairwise
from infrabench.stats.omnibus import friedman, welch_anova
from infrabench.validation.bands import at_most, between, near
from infrabench.validation.check import Case, Check, Expectation
from infrabench.validation.generators import Array, Pair, Rng, blocked, groups, normal, pair

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
    return any_rejected(adjust.holm(p))


def _effects(nulls: int, others: int, n: int = 30) -> Any:
    """Return pairs (replicates, contrasts, blocks): `nulls` contrasts without a difference, then some of 1 sd."""

    def generate(rng: Rng, replicates: int) -> Pair:
        x, y = rng.normal(size=(2, replicates, nulls + others, n))
        return Pair(x + (np.arange(nulls + others) >= nulls)[:, None], y)

    return generate


def _familywise(data: Pair, nulls: int) -> NDArray[np.bool_]:
    p = adjust.holm(pairwise.paired_t(*data).p)
    return any_rejected(p[:, :nulls])


def _false_share(data: Pair, nulls: int) -> Array:
    """Share of false among all rejections by Benjamini-Hochberg; its mean is the false discovery rate."""
    found = adjust.benjamini_hochberg(pairwise.paired_t(*data).p) < ALPHA
    return found[:, :nulls].sum(axis=1) / np.maximum(found.sum(axis=1), 1)


def _all_null(data: Pair) -> NDArray[np.bool_]:
    return _familywise(data, 10)


_UNEQUAL = groups(normal(100), (30, 30, 30, 10), (1, 1, 1, 4))

CHECKS = (
    Check(
        "V6", "independent groups of unequal spread and size",
        (
            Case(
                "normal, sd 1, 1, 1, 4, n = 30, 30, 30, 10", _UNEQUAL,
                (
                    Expectation("Welch ANOVA", lambda g: rejects(welch_anova(g).p), at_most(0.055)),
                    Expectation("Games-Howell, any pair", lambda g: any_rejected(pairwise.games_howell(g).p),
                                at_most(0.055)),
                    Expectation("classical ANOVA, which has to fail here",
                                lambda g: rejects(stats.f_oneway(*g, axis=-1).pvalue), between(0.20, 1.0)),
                ),
            ),
        ),
    ),
    Check(
        "V7", "blocked data, four systems",
        (
            Case(
                "blocked normal, block sd 3, 30 blocks", blocked(4, 30, 3.0),
                (
                    Expectation("Friedman, chi2", lambda x: rejects(friedman(x).p), at_most(0.05)),
                    Expectation("Friedman, Iman-Davenport F", lambda x: rejects(friedman(x).iman_davenport_p),
                                at_most(0.05)),
                    Expectation("Nemenyi, any pair", lambda x: any_rejected(pairwise.nemenyi(x).p), at_most(0.05)),
                    Expectation("paired t with Holm, any pair", _holm_paired, at_most(0.05)),
                ),
            ),
        ),
    ),
    Check(
        "V8", "adjusted p-values",
        (
            Case(
                "10 true nulls", _effects(10, 0),
                (
                    Expectation("Holm, familywise error", _all_null, at_most(0.05)),
                    Expectation("Benjamini-Hochberg, false discoveries", lambda d: _false_share(d, 10), at_most(0.05)),
                ),
            ),
            Case(
                "5 nulls and 5 effects", _effects(5, 5),
                (
                    Expectation("Holm, familywise error", lambda d: _familywise(d, 5), at_most(0.05)),
                    Expectation("Benjamini-Hochberg, false discoveries", lambda d: _false_share(d, 5), at_most(0.05)),
                ),
            ),
        ),
    ),
    Check(
        "V9", "equivalence by two one-sided tests, margin 2 %",
        (
            Case(
                "true ratio 0.98, CoV 2 %, n = 30", pair(1 - MARGIN, (0.02, 0.02), 30),
                (Expectation("declared at the boundary", lambda d: rejects(equivalence.tost_log_ratio(*d, MARGIN).p),
                             near(0.05)),),
            ),
            Case(
                "true ratio 1, CoV 2 %, n = 30", pair(1.0, (0.02, 0.02), 30),
                (Expectation("declared", lambda d: rejects(equivalence.tost_log_ratio(*d, MARGIN).p),
                             between(0.95, 1.0)),),
            ),
        ),
    ),
)  # fmt: skip
