"""The dip and its p against the package diptest, and its table against a simulation."""

from __future__ import annotations

import diptest
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrabench.stats.diagnostics import MIN_DIP_VALUES, QUANTILES, SIZES, dip, dip_p
from tests.unit.stats.null_tables import dip_quantiles


def samples(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    two = np.where(rng.random(n) < 0.3, rng.normal(6, 1, n), rng.normal(0, 1, n))
    smooth = [rng.normal(size=n), rng.random(n), rng.exponential(size=n), two]
    return smooth + [np.round(x, digits) for x in smooth for digits in (0, 1)]


@pytest.mark.parametrize("n", [4, 5, 6, 7, 10, 11, 30, 50, 100, 300])
def test_dip_is_that_of_diptest(n: int) -> None:
    rng = np.random.default_rng([85, n])
    for _ in range(25):
        for x in samples(rng, n):
            if np.ptp(x) > 0:
                assert dip(x) == pytest.approx(diptest.dipstat(x), abs=1e-12)


@pytest.mark.parametrize("n", [4, 5, 8, 10, 13, 30, 42, 50, 150, 1000])
def test_p_is_near_that_of_diptest(n: int) -> None:
    rng = np.random.default_rng([9, n])
    for x in [rng.random(n) for _ in range(20)] + [np.concatenate([rng.random(n // 2), 2 + rng.random(n - n // 2)])]:
        statistic, known = diptest.diptest(x)
        p = dip_p(statistic, n)
        # its own table is simulated too, knows other sizes, and puts the smallest dip of a small sample below p = 1
        error = 0.01 if known < 0.1 else 0.035
        assert p == pytest.approx(known, abs=error) or (p == 1 and statistic == pytest.approx(1 / (2 * n)))


@pytest.mark.parametrize("n", [4, 5, 6, 7, 10, 30])
def test_p_counts_all_samples_with_the_smallest_dip(n: int) -> None:
    assert dip_p(1 / (2 * n), n) == 1
    drawn = dip(np.random.default_rng(n).random((4000, n)))
    above = (drawn > 1 / (2 * n) + 1e-9).mean()  # the share that has more
    assert dip_p(1 / (2 * n) + 1e-9, n) == pytest.approx(above, abs=0.07)  # the levels are 0.1 apart


@pytest.mark.parametrize("n", [5, 10, 30, 50])
def test_the_table_can_be_simulated_again(n: int) -> None:
    again = dip_quantiles(n, 20_000, seed=2)
    np.testing.assert_allclose(again[:9], QUANTILES[n == SIZES][0, :9], rtol=0.02)


@pytest.mark.parametrize("n", [11, 13, 40])
def test_p_of_uniform_samples_is_uniform_also_between_the_sizes_of_the_table(n: int) -> None:
    p = dip_p(dip(np.random.default_rng([4, n]).random((4000, n))), n)
    assert [(p < a).mean() for a in (0.05, 0.2, 0.6)] == pytest.approx([0.05, 0.2, 0.6], abs=0.025)
    assert (p < 0.05).mean() == pytest.approx(0.05, abs=0.012)


def test_p_of_normal_samples_is_larger() -> None:
    assert np.mean(dip_p(dip(np.random.default_rng(4).normal(size=(2000, 40))), 40) < 0.05) < 0.02


def test_p_falls_as_the_dip_grows_and_stops_at_a_thousandth() -> None:
    p = dip_p(np.linspace(0.01, 0.25, 200), 30)
    assert (np.diff(p) <= 0).all()
    assert p[0] == 1
    assert p[-1] == pytest.approx(0.001)


@given(st.lists(st.integers(-50, 50), min_size=4, max_size=25), st.sampled_from([0.5, 4.0]), st.integers(-9, 9))
def test_neither_shift_scale_nor_mirror_matters(values: list[int], scale: float, shift: int) -> None:
    x = np.array(values, dtype=float)
    for other in (scale * x + shift, -x, x[::-1]):
        np.testing.assert_allclose(dip(other), dip(x), atol=1e-12)


@given(st.lists(st.floats(-1e6, 1e6), min_size=4, max_size=25))
def test_dip_lies_within_its_bounds(values: list[float]) -> None:
    x = np.array(values)
    found = dip(x)
    assert np.isnan(found) if np.ptp(x) == 0 else 1 / (2 * x.size) <= found <= 0.25


def test_no_dip_of_few_or_equal_values() -> None:
    assert np.isnan(dip(np.arange(MIN_DIP_VALUES - 1.0)))
    assert np.isnan(dip(np.full(9, 2.0)))
    assert np.isnan(dip_p(np.nan, 9))
    assert dip(np.zeros((2, 3, 9))).shape == (2, 3)
