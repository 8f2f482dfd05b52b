"""The split against an exhaustive search, its critical values against a simulation, and the flag's size and power."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrabench.stats.diagnostics import CRITICAL, bimodal, critical_split, mode_by_deployment, split, split_log
from tests.unit.stats.null_tables import split_quantile


def exhaustive(x: np.ndarray) -> tuple[float, float, float, float]:
    """d, means and share of the split with the least squares, by trying all of them."""
    x = np.sort(x)
    tries = []
    for k in range(3, x.size - 2):
        a, b = x[:k], x[k:]
        within = ((a - a.mean()) ** 2).sum() + ((b - b.mean()) ** 2).sum()
        tries.append((within, (b.mean() - a.mean()) / np.sqrt(within / (x.size - 2)), a.mean(), b.mean(), k / x.size))
    return min(tries)[1:]


@pytest.mark.parametrize("n", [6, 7, 10, 31, 50])
def test_split_is_the_best_of_all(n: int) -> None:
    x = np.random.default_rng(n).normal(10, 1, size=(40, n))
    x[20:, : n // 3] += 6
    found = np.array(split(x)[:4]).T
    np.testing.assert_allclose(found, [exhaustive(row) for row in x], rtol=1e-9)


def test_split_by_hand() -> None:
    found = split(np.array([1.0, 2, 3, 11, 12, 13]))
    assert found == pytest.approx((10.0, 2.0, 12.0, 0.5, 7.0))  # both groups have variance 1


def test_two_far_values_are_no_mode() -> None:
    found = split(np.array([1.0, 2, 3, 4, 5, 6, 99, 99]))
    assert found.share == pytest.approx(5 / 8)


def test_groups_of_one_value_are_infinitely_far_apart() -> None:
    x = np.array([0.1] * 6 + [0.3] * 7)  # sums that rounding leaves beside six and seven times the value
    assert split(x)[:4] == (np.inf, 0.1, 0.3, 6 / 13)
    assert bimodal(x)


@given(
    st.lists(st.integers(1, 40), min_size=0, max_size=14),
    st.sampled_from([0.5, 8.0]),
    st.sampled_from([0, 64, -32]),
)
def test_neither_shift_nor_scale_matters(values: list[int], scale: float, shift: int) -> None:
    x = np.array(values, dtype=float)
    if x.size < 6 or np.ptp(x) == 0:
        assert np.isnan(split(x)).all()
        assert not bimodal(x)
        return
    np.testing.assert_allclose(split(scale * x + shift).d, split(x).d, rtol=1e-7)
    np.testing.assert_allclose(split_log(scale * x), split_log(x), rtol=1e-7)


def test_logarithms_need_positive_values() -> None:
    x = np.array([[0.0, 1, 2, 3, 4, 5, 6], [1.0, 2, 3, 4, 5, 6, 7]])
    assert np.isnan(split_log(x)).tolist() == [True, False]
    assert split_log(x)[1] == pytest.approx(split(np.log(x[1])).d)


@pytest.mark.parametrize("n", [8, 16, 24, 35, 64, 150])
def test_critical_values_between_the_table(n: int) -> None:
    assert critical_split(n) == pytest.approx(split_quantile(n, 20_000, seed=3), rel=0.035)


def test_critical_values_fall_to_their_limit() -> None:
    values = [critical_split(n) for n in range(6, 5000)]
    assert (np.diff(values) <= 0).all()
    assert np.isnan(critical_split(5))
    # an endless normal sample cut at its mean: groups 2 sqrt(2 / pi) apart, of variance 1 - 2 / pi
    assert critical_split(10**9) == pytest.approx(2 * np.sqrt(2 / np.pi) / np.sqrt(1 - 2 / np.pi), rel=1e-4)
    assert min(CRITICAL) == 6


NOISE = np.random.default_rng(15).normal(size=(3000, 30))
SHARE = np.random.default_rng(16).random((3000, 30))


@pytest.mark.parametrize(
    ("x", "rate", "tolerance"),
    [
        (100 + NOISE, 0.009, 0.007),
        (np.exp(0.25 * NOISE), 0.006, 0.006),
        (np.exp(0.5 * NOISE), 0.005, 0.005),
        (-np.log(SHARE), 0.025, 0.010),  # exponential
        (100 + NOISE + 10 * (SHARE < 0.2), 0.99, 0.010),
        (100 + NOISE + 5 * (SHARE < 0.2), 0.885, 0.025),
        (100 + NOISE + 5 * (SHARE < 0.1), 0.60, 0.035),
        (100 + NOISE + 5 * (SHARE < 0.5), 0.96, 0.020),
    ],
)
def test_rates_of_the_flag_at_thirty_values(x: np.ndarray, rate: float, tolerance: float) -> None:
    assert bimodal(x).mean() == pytest.approx(rate, abs=tolerance)


def test_whether_a_deployment_keeps_to_one_mode() -> None:
    values = np.array([1.0, 1.1, 9.0, 9.1])
    assert mode_by_deployment(values, np.array([0, 0, 1, 1]), 5.0) == "constant"
    assert mode_by_deployment(values, np.array([0, 1, 0, 1]), 5.0) == "varies"
    assert mode_by_deployment(values, np.zeros(4, dtype=np.int64), 5.0) == ""
