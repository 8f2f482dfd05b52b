"""Adjusted p-values: a family in, the same family out.

The family lies on the last axis; a NaN is a test that could not be made and does not count as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
HOLM, EXPLORATORY = "Holm", "Benjamini-Hochberg, exploratory"


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
    family = frame.groupby(["workload", "metric"]).ngroup()
    adjusted = np.where(first, by_family(p, family, holm), by_family(p, family, benjamini_hochberg))
    return adjusted, np.where(first, HOLM, EXPLORATORY)


def _sorted(p: ArrayLike) -> tuple[Array, NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """p, the order that sorts it, the order that undoes that, and the number of tests in each family."""
    p = np.asarray(p, dtype=float)
    order = np.argsort(p, axis=-1, kind="stable")
    return p, order, np.argsort(order, axis=-1, kind="stable"), np.isfinite(p).sum(axis=-1, keepdims=True)
