from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrabench.stats.intervals import Interval
from infrabench.stats.verdicts import resolution_limited, resolution_step, undithered, widened


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ([100.54, 99.39, 101.35], 0.01),
        ([941.37e6, 940.99e6, 941.4e6], 1e4),  # Mbit/s with two decimals, stored in bit/s
        ([3 * 1024.0, 5 * 1024.0, 4096.0], 1024.0),
        ([10.0, 20.0, 40.0], 10.0),
        ([0.1 + 0.2, 0.7, 1.1], 0.1),  # 0.30000000000000004 is a 0.3 that was added up
        ([0.000123, 0.000125, 0.000124], 1e-6),
        ([0.0, 0.5, -1.5], 0.5),
        ([1e-9, 5e-9, 7e-9], 1e-9),
        ([12345678.25, 12345679.5, 1.0], 0.25),
    ],
)
def test_step_of_printed_values(values: list[float], step: float) -> None:
    assert resolution_step(np.array(values)) == pytest.approx(step, rel=1e-12)


def test_computed_values_have_no_printing_step() -> None:
    assert np.isnan(resolution_step(np.random.default_rng(3).normal(100, 1, size=(20, 8)))).all()
    assert np.isnan(resolution_step(np.array([1 / 3, 2 / 3, 1.0])))


@pytest.mark.parametrize("values", [[], [0.0, 0.0], [np.inf, 1.0], [np.nan, 1.0]])
def test_no_step_without_values(values: list[float]) -> None:
    assert np.isnan(resolution_step(np.array(values)))


@given(
    st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=12).filter(any),
    st.integers(-9, 5),
    st.sampled_from([1.0, 1e3, 1e6]),
)
def test_all_values_are_whole_multiples_of_the_step(whole: list[int], places: int, factor: float) -> None:
    values = np.array([float(f"{w}e{places}") * factor for w in whole])
    step = resolution_step(values)
    assert step == pytest.approx(np.gcd.reduce(whole) * 10.0**places * factor, rel=1e-9)


def test_a_quarter_is_the_limit() -> None:
    assert not resolution_limited(0.25, 1.0)
    assert resolution_limited(0.26, 1.0)
    assert resolution_limited(0.1, 1.0, -0.39)
    assert not resolution_limited(0.1, 1.0, -0.41)
    assert not resolution_limited(np.nan, 1.0, 1.0)
    np.testing.assert_array_equal(resolution_limited(np.array([1.0, 1.0]), np.array([2.0, 9.0])), [True, False])


def test_half_a_step_on_each_side() -> None:
    ends = Interval(np.array([1.0, 1.0, np.nan]), np.array([2.0, 2.0, np.nan]), 0.95)
    found = widened(ends, np.array([0.5, np.nan, 0.5]), np.array([True, False, True]))
    np.testing.assert_array_equal(found.low, [0.75, 1.0, np.nan])
    np.testing.assert_array_equal(found.high, [2.25, 2.0, np.nan])
    assert found.level == 0.95


def test_rounding_averages_out_from_half_a_step_of_spread_on() -> None:
    found = undithered(np.array([1.0, 1.0, np.nan]), np.array([0.49, 0.5, 0.1]))
    np.testing.assert_array_equal(found, [True, False, False])
