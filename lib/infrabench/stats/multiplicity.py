"""Several tests at once: p-values adjusted in their family, and the tiers of systems that they tell apart.

A family lies on the last axis; a NaN is a test that could not be made and does not count as one. Tiers are letters,
best first; systems that share a letter cannot be separated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import combinations
from string import ascii_letters

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from infrabench.stats.intervals import ALPHA, Array
from infrabench.stats.losses import worst_p
from infrabench.stats.pairwise import paired_moments, t_p
from infrabench.stats.table import FAMILY, ORDER, Blocked, blocked, columns, kinds, stacks
from infrabench.stats.verdicts import WORK

HOLM, EXPLORATORY = "Holm", "Benjamini-Hochberg, exploratory"
TYPES = columns("""
    str: workload scenario factor; float64: level; str: metric better system; float64: mean; str: letters
""")


def holm(p: ArrayLike) -> Array:
    """Return Holm's adjusted p-values, shape of `p`: (..., tests). They hold the familywise error whatever depends.

    NaN stays NaN and does not count. Step-down: the i-th smallest of m is multiplied by m - i + 1, then made
    ascending and cut at 1 (Holm 1979).
    """
    p, order, rank, tests = _sorted(p)
    steps = np.take_along_axis(p, order, -1) * (tests - np.arange(p.shape[-1]))
    return np.take_along_axis(np.minimum(np.maximum.accumulate(steps, axis=-1), 1.0), rank, -1)


def benjamini_hochberg(p: ArrayLike) -> Array:
    """Return Benjamini-Hochberg adjusted p-values, shape of `p`: (..., tests). They hold the false discovery rate.

    NaN stays NaN and does not count. Step-up: the i-th smallest of m is multiplied by m / i, then made ascending from
    the largest down and cut at 1 (Benjamini and Hochberg 1995).
    """
    p, order, rank, tests = _sorted(p)
    steps = np.take_along_axis(p, order, -1) * tests / np.arange(1, p.shape[-1] + 1)
    # NaN sorts last, so the walk from the end starts on them: fmin lets them pass
    least = np.fmin.accumulate(steps[..., ::-1], axis=-1)[..., ::-1]
    return np.take_along_axis(np.minimum(least, 1.0), rank, -1)


def by_family(p: ArrayLike, family: ArrayLike, adjust: Callable[[ArrayLike], Array]) -> Array:
    """Return the p-values of a flat list adjusted within their families, shape of `p`: (tests,).

    `family` is one label per test (numbers or text), `adjust` is `holm` or `benjamini_hochberg`. All families are
    adjusted in one call, as rows of a matrix padded with NaN; NaN stays NaN.
    """
    p = np.asarray(p, dtype=float)
    _, row = np.unique(np.asarray(family), return_inverse=True)
    order = np.argsort(row, kind="stable")
    sizes = np.bincount(row)
    column = np.empty_like(row)
    column[order] = np.arange(p.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    table = np.full((sizes.size, sizes.max(initial=0)), np.nan)
    table[row, column] = p
    return adjust(table)[row, column]


def by_metric(frame: pd.DataFrame, p: ArrayLike, primary: Iterable[tuple[str, str]]) -> tuple[Array, NDArray[np.str_]]:
    """Return the p-values adjusted within each (workload, metric) of `frame`, and the name of the adjustment.

    `p` and both results have the shape (rows,). Holm (1979) for the pairs in `primary`, which the study declared before
    the first trial; all others by Benjamini and Hochberg (1995), labelled exploratory. NaN stays NaN.
    """
    declared = set(primary)
    first = np.array([key in declared for key in zip(frame["workload"], frame["metric"], strict=True)], dtype=bool)
    family = frame.groupby(FAMILY).ngroup()
    adjusted = np.where(first, by_family(p, family, holm), by_family(p, family, benjamini_hochberg))
    return adjusted, np.where(first, HOLM, EXPLORATORY)


def _sorted(p: ArrayLike) -> tuple[Array, NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """p, the order that sorts it, the order that undoes that, and the number of tests in each family."""
    p = np.asarray(p, dtype=float)
    order = np.argsort(p, axis=-1, kind="stable")
    return p, order, np.argsort(order, axis=-1, kind="stable"), np.isfinite(p).sum(axis=-1, keepdims=True)


def tiers(table: pd.DataFrame, cube: Blocked | None = None) -> pd.DataFrame:
    """Return one row per (workload, scenario, metric, system): its mean and the letters of the tiers it is in.

    All pairs of the systems of a case are compared by the paired t test, which asks whether their ratio of means is 1
    as the contrasts do (of rates of fixed work that of their times), over blocks complete for the pair (over deployment
    means where systems were deployed more than once), adjusted by Holm over the pairs of the case. Letter a is the tier
    of the best system. Systems that share a letter cannot be separated; a system may be in two tiers (compact letters,
    Piepho 2004). A pair without a test, such as two constant ones or one of unequal losses, is not separated; one with
    lost trials where that holds whatever they would have been (`losses.worst_p`). A system without an ok trial has no
    letter.
    """
    cube = blocked(table) if cube is None else cube
    means, letters = of_cases(cube)
    rows = cube.cases.loc[cube.cases.index.repeat(len(cube.systems))].drop(columns=["unit", "pair_unit"])
    frame = rows.assign(system=np.tile(cube.systems, len(cube.cases)), mean=means.ravel(), letters=letters.ravel())
    return frame[list(TYPES)].astype(TYPES).sort_values(ORDER, ignore_index=True)


def of_cases(cube: Blocked) -> tuple[Array, NDArray[np.object_]]:
    """Return the mean and the letters of every system in every case, both (cases, systems)."""
    # rates of fixed work by their times, as in the contrasts
    work = (kinds(cube.cases) == WORK) & ~(cube.numbers <= 0).any(axis=(1, 2))
    numbers = cube.numbers.copy()
    numbers[work] = 1 / numbers[work]
    cube = cube._replace(numbers=numbers)
    there = np.isfinite(cube.numbers)
    counts = there.sum(axis=-1)
    # one after the other, so that blocks which a system lacks change no digit
    sums = np.where(there, cube.numbers, 0.0).cumsum(axis=-1)[..., -1:].sum(axis=-1)
    means = np.where(counts, sums / np.maximum(counts, 1), np.nan)
    means[work] = 1 / means[work]
    pairs = list(combinations(range(len(cube.systems)), 2))
    p = np.stack([_pair_p(cube, a, b) for a, b in pairs], axis=-1) if pairs else np.empty((len(means), 0))
    apart = holm(p) < ALPHA
    sign = np.where(cube.cases["better"] == "lower", 1, -1)[:, None]
    order = np.argsort(sign * means, axis=-1, kind="stable")  # NaN last
    letters = np.full(means.shape, "", dtype=object)
    for case, ranking in enumerate(order):
        present = [int(s) for s in ranking if counts[case, s]]
        place = {system: i for i, system in enumerate(present)}
        separated = frozenset((place[a], place[b]) for i, (a, b) in enumerate(pairs) if apart[case, i])
        letters[case, present] = compact_letters(len(present), separated)
    return means, letters


@lru_cache(maxsize=4096)
def compact_letters(k: int, separated: frozenset[tuple[int, int]]) -> tuple[str, ...]:
    """Return the letters of `k` systems, numbered best first, of which the pairs `separated` differ.

    Every largest group without a separated pair gets one letter (insert and absorb, Piepho 2004).
    """
    groups = [frozenset(range(k))] if k else []
    for a, b in sorted(separated):
        split = [part for g in groups for part in ((g - {a}, g - {b}) if {a, b} <= g else (g,))]
        groups = [g for g in dict.fromkeys(split) if not any(g < other for other in split)]
    groups.sort(key=sorted)
    return tuple("".join(ascii_letters[i] for i, g in enumerate(groups) if system in g) for system in range(k))


def _pair_p(cube: Blocked, a: int, b: int) -> Array:
    """p of the paired t test of two systems in every case."""
    found = np.full(len(cube.cases), np.nan)
    for cells, values in stacks(cube.numbers[:, [a, b]], cube.deployment, cube.by_deployment):
        x, y = values[:, 0], values[:, 1]
        found[cells] = t_p(paired_moments(x, y))
    fates = cube.fates[:, [a, b]]
    for case in np.flatnonzero((fates != 0).any(axis=(1, 2)) & np.isfinite(found)):
        units, values = cube.deployment if cube.by_deployment[case] else None, cube.numbers[case, [a, b]]
        found[case] = np.maximum(found[case], worst_p(values, fates[case], units))
    return found
