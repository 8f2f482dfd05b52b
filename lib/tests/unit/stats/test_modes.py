"""The split and the dip: an exhaustive search, the package diptest, simulated tables, and the rates of the flag."""

from __future__ import annotations

import diptest
import numpy as np
import pytest

from infrabench.stats.diagnostics import (
    CRITICAL,
    MIN_DIP_VALUES,
    QUANTILES,
    SIZES,
    bimodal,
    critical_split,
    dip,
    dip_p,
    mode_by_deployment,
    split,
    split_log,
)
from tests.unit.stats.null_tables import dip_quantiles, split_quantile


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
    assert not bimodal(np.arange(5.0))
    assert critical_split(10**9) == pytest.approx(2 * np.sqrt(2 / np.pi) / np.sqrt(1 - 2 / np.pi), rel=1e-4)
    assert min(CRITICAL) == 6


NOISE = np.random.default_rng(15).normal(size=(3000, 30))
SHARE = np.random.default_rng(16).random((3000, 30))


@pytest.mark.parametrize(
    ("x", "rate", "tolerance"),
    [
        (100 + NOISE, 0.009, 0.007),
        (np.exp(0.5 * NOISE), 0.005, 0.005),
        (-np.log(SHARE), 0.025, 0.010),  # exponential
        (100 + NOISE + 5 * (SHARE < 0.2), 0.885, 0.025),
    ],
)
def test_rates_of_the_flag_at_thirty_values(x: np.ndarray, rate: float, tolerance: float) -> None:
    assert bimodal(x).mean() == pytest.approx(rate, abs=tolerance)


def test_whether_a_deployment_keeps_to_one_mode() -> None:
    values = np.array([1.0, 1.1, 9.0, 9.1])
    assert mode_by_deployment(values, np.array([0, 0, 1, 1]), 5.0) == "constant"
    assert mode_by_deployment(values, np.array([0, 1, 0, 1]), 5.0) == "varies"
    assert mode_by_deployment(values, np.zeros(4, dtype=np.int64), 5.0) == ""


def samples(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    two = np.where(rng.random(n) < 0.3, rng.normal(6, 1, n), rng.normal(0, 1, n))
    smooth = [rng.normal(size=n), rng.random(n), rng.exponential(size=n), two]
    return smooth + [np.round(x, digits) for x in smooth for digits in (0, 1)]


@pytest.mark.parametrize("n", [4, 5, 6, 11, 30, 100])
def test_dip_is_that_of_diptest(n: int) -> None:
    rng = np.random.default_rng([85, n])
    for _ in range(25):
        for x in samples(rng, n):
            if np.ptp(x) > 0:
                assert dip(x) == pytest.approx(diptest.dipstat(x), abs=1e-12)


@pytest.mark.parametrize("n", [4, 5, 13, 30, 42, 150, 1000])
def test_p_is_near_that_of_diptest(n: int) -> None:
    rng = np.random.default_rng([9, n])
    for x in [rng.random(n) for _ in range(20)] + [np.concatenate([rng.random(n // 2), 2 + rng.random(n - n // 2)])]:
        statistic, known = diptest.diptest(x)
        p = dip_p(statistic, n)
        # its own table is simulated too, knows other sizes, and puts the smallest dip of a small sample below p = 1
        error = 0.01 if known < 0.1 else 0.035
        assert p == pytest.approx(known, abs=error) or (p == 1 and statistic == pytest.approx(1 / (2 * n)))


@pytest.mark.parametrize("n", [4, 7, 30])
def test_p_counts_all_samples_with_the_smallest_dip(n: int) -> None:
    assert dip_p(1 / (2 * n), n) == 1
    drawn = dip(np.random.default_rng(n).random((4000, n)))
    above = (drawn > 1 / (2 * n) + 1e-9).mean()  # the share that has more
    assert dip_p(1 / (2 * n) + 1e-9, n) == pytest.approx(above, abs=0.07)  # the levels are 0.1 apart


@pytest.mark.parametrize("n", [5, 10, 30, 50])
def test_the_table_can_be_simulated_again(n: int) -> None:
    again = dip_quantiles(n, 20_000, seed=2)
    np.testing.assert_allclose(again[:9], QUANTILES[n == SIZES][0, :9], rtol=0.02)


def test_p_falls_as_the_dip_grows_and_stops_at_a_thousandth() -> None:
    p = dip_p(np.linspace(0.01, 0.25, 200), 30)
    assert (np.diff(p) <= 0).all()
    assert p[0] == 1
    assert p[-1] == pytest.approx(0.001)


def test_no_dip_of_few_or_equal_values() -> None:
    assert np.isnan(dip(np.arange(MIN_DIP_VALUES - 1.0)))
    assert np.isnan(dip(np.full(9, 2.0)))
    assert np.isnan(dip_p(np.nan, 9))
    assert dip(np.zeros((2, 3, 9))).shape == (2, 3)
