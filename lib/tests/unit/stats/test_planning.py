"""Planning: statsmodels, a published power, a quadrature, a simulation, and that n is the least that does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from infrabench.stats.intervals import t_interval
from infrabench.stats.planning import (
    _probability,
    blocks_to_decide,
    detectable,
    equivalence_margin,
    half_width,
    n_for_precision,
    spread_limit,
    t_power,
    tost_power,
)


@pytest.mark.parametrize("n", [2, 3, 10, 30, 400])
@pytest.mark.parametrize("effect", [0.0, 0.1, 0.5, 1.3, 4.0])
def test_power_is_that_of_statsmodels(n: int, effect: float) -> None:
    from statsmodels.stats.power import TTestPower

    power = TTestPower().power(effect, n, 0.05)
    if np.isfinite(power):  # scipy's noncentral t has no answer for some large n
        assert t_power(effect, 1.0, n) == pytest.approx(power, abs=1e-9)
    else:
        assert n == 400


def quadrature(sd: float, n: int, margin: float) -> float:
    """Power of both one-sided tests, by adaptive quadrature over the chi-square distribution of the variance."""
    df, error = n - 1, sd / np.sqrt(n)
    critical = stats.t.ppf(0.95, df)

    def passes(v: float) -> float:
        room = margin - critical * error * np.sqrt(v / df)
        return stats.chi2.pdf(v, df) * max(2 * stats.norm.cdf(room / error) - 1, 0)

    most = min(df * (margin / error / critical) ** 2, stats.chi2.isf(1e-15, df))
    return integrate.quad(passes, 0, most, epsabs=1e-11, epsrel=1e-11, limit=500)[0]


@pytest.mark.parametrize("n", [2, 3, 6, 30, 200])
def test_power_of_equivalence_by_another_quadrature(n: int) -> None:
    for margin in (0.2, 0.6, 2.0, 9.0):
        assert tost_power(1.0, n, margin) == pytest.approx(quadrature(1.0, n, margin), abs=1e-8)


def test_published_power_of_a_bioequivalence_trial() -> None:
    # two-period crossover of 40, CoV 30 %, limits 0.8 .. 1.25, true ratio 0.95: 0.815845 (R package PowerTOST)
    error = np.sqrt(np.log1p(0.3**2)) * np.sqrt(2 / 40)
    room, shift, df = np.log(1.25) / error, np.log(0.95) / error, np.array(38.0)
    assert _probability(room, np.array(-stats.t.ppf(0.95, 38)), shift, df) == pytest.approx(0.815845, abs=1e-6)


def test_half_width_is_that_of_students_interval() -> None:
    x = np.random.default_rng(20).normal(100, 3, (4, 12))
    low, high, _ = t_interval(x)
    assert half_width(x.std(axis=-1, ddof=1), 12) == pytest.approx((high - low) / 2)


@given(st.floats(0.001, 3), st.floats(0.05, 3))
def test_n_is_the_least_that_does(sd: float, wanted: float) -> None:
    n = n_for_precision(sd, wanted)
    assert half_width(sd, n) <= wanted
    assert n == 2 or half_width(sd, n - 1) > wanted


@given(st.floats(0.001, 50), st.integers(2, 90))
def test_what_is_detectable_is_detected_and_scales(sd: float, n: int) -> None:
    found = detectable(sd, n)
    assert t_power(found, sd, n) == pytest.approx(0.8, abs=1e-6)
    assert found == pytest.approx(sd * detectable(1.0, n))
    margin = equivalence_margin(sd, n)
    assert tost_power(sd, n, margin) == pytest.approx(0.8, abs=1e-6)


def test_arrays_are_answered_element_by_element() -> None:
    sd, n = np.array([[0.01, 0.02], [0.0, np.nan]]), np.array([10, 30])
    for solve in (detectable, equivalence_margin, half_width, spread_limit):
        found = solve(sd, n)
        assert found.shape == (2, 2)
        assert found[0, 1] == pytest.approx(solve(0.02, 30))
    found = n_for_precision(sd, 0.01)
    assert found[0].tolist() == [n_for_precision(0.01, 0.01), n_for_precision(0.02, 0.01)]
    assert np.isnan(found[1]).all()
    assert np.isnan(t_power(1.0, sd, n)[1]).all()
    assert np.isnan(tost_power(sd, n, 1.0)[1]).all()


@pytest.mark.parametrize("n", [0, 1, np.nan])
def test_one_trial_shows_nothing(n: float) -> None:
    assert np.isnan([f(1.0, n) for f in (half_width, spread_limit, detectable, equivalence_margin)]).all()
    assert np.isnan([t_power(1.0, 1.0, n), tost_power(1.0, n, 1.0)]).all()


def test_out_of_reach_is_said() -> None:
    assert np.isnan(n_for_precision(1.0, 1e-6))
    assert np.isnan(n_for_precision(1.0, 0.0))
    assert n_for_precision(1.0, 0.003) == pytest.approx((stats.norm.ppf(0.975) / 0.003) ** 2, rel=1e-4)


def test_spread_limit_covers() -> None:
    x = np.random.default_rng(22).normal(size=(20_000, 8)).std(axis=1, ddof=1)
    assert (spread_limit(x, 8) < 1).mean() == pytest.approx(0.025, abs=0.004)


@pytest.mark.parametrize("sd", [0.004, 0.02, 0.1])
def test_blocks_to_decide_leaves_no_outcome_inconclusive_and_one_block_less_may(sd: float) -> None:
    n = int(blocks_to_decide(sd, 0.02))

    def undecided(blocks: int) -> bool:
        """Some observed difference, at this spread, has 0 in its 95 % interval and leaves the margin at 90 %."""
        wide, narrow = stats.t.ppf([0.975, 0.95], blocks - 1) * sd / np.sqrt(blocks)
        shifts = np.append(np.linspace(0, 0.1, 20_001), wide)
        return bool(((shifts <= wide) & (shifts + narrow > 0.02 + 1e-12)).any())

    assert not undecided(n)
    assert undecided(n - 1)


def test_blocks_to_decide_holds_for_the_first_step_of_holm_and_leaves_room_for_rounding() -> None:
    for tests, off in ((1, 0.005), (3, 0.0), (12, 0.004)):
        n = int(blocks_to_decide(0.02, 0.02, tests, off))
        for blocks, enough in ((n, True), (n - 1, False)):
            both = stats.t.ppf([0.975, 1 - 0.05 / tests], blocks - 1).sum() * 0.02 / np.sqrt(blocks)
            assert (both + 2 * off <= 0.02) == enough
    assert np.isnan(blocks_to_decide(0.02, 0.02, 1, [0.01, 0.02])).all()


def test_blocks_to_decide_without_spread_or_out_of_reach() -> None:
    found = blocks_to_decide([0.0, np.nan, 80.0, 1e-9], [0.02, 0.02, 1e-4, 0.02])
    assert np.isnan(found[:3]).all()
    assert found[3] == 2
