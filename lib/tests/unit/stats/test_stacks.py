"""Stacks of complete units: means over deployments, in memory that grows with the blocks alone."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from infrabench.stats.table import stacks

DEPLOYED = np.ones(1, dtype=bool)


def means(x: np.ndarray, deployment: np.ndarray) -> np.ndarray:
    """The same by hand: complete blocks of each deployment, one after the other."""
    there = np.isfinite(x).all(axis=0)
    found = [x[:, (deployment == each) & there] for each in np.unique(deployment)]
    return np.array([each.mean(axis=1) for each in found if each.size]).T


def test_units_are_means_over_the_complete_blocks_of_a_deployment() -> None:
    rng = np.random.default_rng(3)
    deployment = np.repeat(np.arange(40), rng.integers(1, 9, 40))
    x = rng.normal(100, 1, (3, deployment.size))
    x[rng.random(x.shape) < 0.2] = np.nan
    x[0, deployment == 7] = np.nan  # a deployment without one complete block is no unit
    (stack,) = (each for each in stacks(x[None], deployment, DEPLOYED) if len(each.cells))
    assert stack.numbers[0] == pytest.approx(means(x, deployment), rel=1e-14)


def test_equal_values_have_equal_means() -> None:
    deployment = np.repeat(np.arange(5), 7)
    (stack,) = (each for each in stacks(np.full((1, 2, 35), 0.1), deployment, DEPLOYED) if len(each.cells))
    assert (stack.numbers == 0.1).all()


def test_thousands_of_deployments_take_no_table_of_deployments_by_blocks() -> None:
    deployment = np.repeat(np.arange(2_000), 30)
    x = np.random.default_rng(5).normal(size=(1, 2, deployment.size))
    tracemalloc.start()
    try:
        (stack,) = (each for each in stacks(x, deployment, DEPLOYED) if len(each.cells))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert stack.numbers.shape == (1, 2, 2_000)
    assert peak < 20 * x.nbytes
