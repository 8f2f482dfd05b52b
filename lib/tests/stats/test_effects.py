from __future__ import annotations

import numpy as np
import pingouin
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from infrabench.stats.effects import (
    cliffs_delta,
    cliffs_delta_interval,
    cliffs_own_interval,
    cohens_d,
    delta_label,
    hedges_correction,
    hedges_g,
)
from tests.analysis_fixtures import DATA_A

A = {name: np.array(values) for name, values in DATA_A.items()}
OTHERS = np.array([A[name] for name in ("docker", "lxc", "lxd")])


def test_reference_cliffs_delta() -> None:
    delta = cliffs_delta(OTHERS, A["native"][None])
    assert delta == pytest.approx([-0.48, -0.44, 0.02], rel=1e-6)
    low, high, level = cliffs_delta_interval(delta, 10, 10)
    assert low == pytest.approx([-0.782202, -0.757906, -0.437523], abs=1e-6)
    assert high == pytest.approx([0.038109, 0.076738, 0.468274], abs=1e-6)
    assert level == 0.95


def test_reference_cliffs_own_interval() -> None:
    low, high, _ = cliffs_own_interval(OTHERS, A["native"][None])
    assert low == pytest.approx([-0.803311, -0.788909, -0.465794], abs=1e-6)
    assert high == pytest.approx([0.061831, 0.123443, 0.496531], abs=1e-6)


def test_cliffs_own_interval_by_sums_over_pairs_at_unequal_sizes() -> None:
    x, y = np.random.default_rng(70).normal(size=7), np.random.default_rng(71).normal(0.5, 2, 11)
    d = np.array([[np.sign(a - b) for b in y] for a in x])
    total = d.mean()
    squares = 121 * ((d.mean(axis=1) - total) ** 2).sum() + 49 * ((d.mean(axis=0) - total) ** 2).sum()
    s = np.sqrt((squares - ((d - total) ** 2).sum()) / (77 * 6 * 10))
    z = stats.norm.ppf(0.975)
    ends = [
        (total - total**3 + side * z * s * np.sqrt((1 - total**2) ** 2 + z**2 * s**2)) / (1 - total**2 + z**2 * s**2)
        for side in (-1, 1)
    ]
    assert cliffs_own_interval(x, y)[:2] == pytest.approx(ends, rel=1e-12)
    assert cliffs_own_interval(y, x)[:2] == pytest.approx((-ends[1], -ends[0]), rel=1e-12)


def test_cliffs_own_interval_covers_too_little_at_large_effects() -> None:
    """Which is why Newcombe's is reported: shift of two standard deviations, ten values, delta 0.843."""
    x, y = np.random.default_rng(72).normal(size=(2, 5000, 10)) + np.array([2.0, 0])[:, None, None]
    truth = 2 * stats.norm.cdf(np.sqrt(2)) - 1
    own, newcombe = cliffs_own_interval(x, y), cliffs_delta_interval(cliffs_delta(x, y), 10, 10)
    assert ((own.low <= truth) & (own.high >= truth)).mean() < 0.87
    assert ((newcombe.low <= truth) & (newcombe.high >= truth)).mean() > 0.94


def test_reference_cohen_and_hedges() -> None:
    d = cohens_d(OTHERS, A["native"])
    assert d.estimate == pytest.approx([-0.6144753454, -0.4070925301, 0.2814505391], rel=1e-6)
    assert d.interval.low == pytest.approx([-1.505305, -1.288013, -0.603651], abs=1e-6)
    assert d.interval.high == pytest.approx([0.292480, 0.484808, 1.158874], abs=1e-6)
    assert hedges_correction(18) == pytest.approx(0.957646427, rel=1e-6)
    g = hedges_g(OTHERS, A["native"])
    assert g.estimate == pytest.approx([-0.588450119, -0.3898507069, 0.2695301031], rel=1e-6)
    assert g.interval.low == pytest.approx(0.957646427 * d.interval.low, rel=1e-6)


def test_as_pingouin_which_approximates_the_correction() -> None:
    for name in ("docker", "lxc", "lxd"):
        assert cohens_d(A[name], A["native"]).estimate == pytest.approx(
            pingouin.compute_effsize(A[name], A["native"], eftype="cohen")
        )
        assert hedges_g(A[name], A["native"]).estimate == pytest.approx(
            pingouin.compute_effsize(A[name], A["native"], eftype="hedges"), rel=2e-4
        )


@pytest.mark.parametrize("t", [-40.0, -3.0, 0.0, 0.5, 7.0, 60.0])
def test_the_interval_inverts_the_noncentral_t(t: float) -> None:
    y = np.linspace(-1, 1, 12)
    x = y + t * np.sqrt(y.var(ddof=1) / 6)
    low, high, _ = cohens_d(x, y).interval
    tails = stats.nct.cdf(t, 22, np.array([low, high]) * np.sqrt(6))
    assert tails == pytest.approx([0.975, 0.025], abs=2e-6)


@pytest.mark.parametrize(("n", "end"), [(10, 0.8002), (30, 0.9330)])
def test_complete_separation_takes_the_smaller_root(n: int, end: float) -> None:
    low, high, _ = cliffs_delta_interval(1.0, n, n)
    assert (1 + low) / 2 == pytest.approx(end, abs=5e-5)  # the printed root is on the scale of P(x > y)
    assert high == 1
    assert cliffs_delta_interval(-1.0, n, n)[:2] == pytest.approx((-1, -low), abs=1e-9)


@settings(deadline=None, max_examples=50)
@given(st.floats(0.01, 0.99), st.integers(2, 60), st.integers(2, 60))
def test_both_ends_solve_newcombes_equation(area: float, m: int, n: int) -> None:
    def gap(th: float) -> float:
        star = (m + n) / 2 - 1
        variance = th * (1 - th) * (1 + star * ((1 - th) / (2 - th) + th / (1 + th))) / (m * n)
        return abs(area - th) - stats.norm.ppf(0.975) * np.sqrt(variance)

    low, high, _ = cliffs_delta_interval(2 * area - 1, m, n)
    assert (low + 1) / 2 == pytest.approx(optimize.brentq(gap, 1e-15, area), abs=1e-8)
    assert (high + 1) / 2 == pytest.approx(optimize.brentq(gap, area, 1 - 1e-15), abs=1e-8)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=9), st.lists(st.integers(0, 4), min_size=1, max_size=9))
def test_delta_is_the_share_of_pairs_above_less_those_below(x: list[int], y: list[int]) -> None:
    expected = np.sign(np.subtract.outer(np.array(x, float), np.array(y, float))).mean()
    assert cliffs_delta(x, y) == pytest.approx(expected, abs=1e-12)
    assert cliffs_delta(y, x) == pytest.approx(-expected, abs=1e-12)


def test_too_little_says_nothing() -> None:
    assert np.isnan(cliffs_delta([], [1.0]))
    assert np.isnan(cliffs_delta_interval(0.5, 1, 9).low)
    assert np.isnan(cliffs_delta_interval(np.nan, 9, 9).high)
    assert np.isnan(cliffs_own_interval([1.0], [2.0, 3.0])).all()
    assert np.isnan(cliffs_own_interval([5.0, 6, 7], [2.0, 3])).all()  # complete separation
    for x, y in (([1.0], [2.0, 3.0]), ([2.0, 2.0], [3.0, 3.0]), ([0.1, 0.1, 0.1], [0.2, 0.2, 0.2])):
        assert np.isnan(cohens_d(x, y).estimate)
        assert np.isnan(hedges_g(x, y).interval.low)


def test_delta_words() -> None:
    words = [delta_label(d) for d in (0.1, -0.2, 0.4, -0.9, float("nan"))]
    assert words == ["negligible", "small", "medium", "large", ""]
    assert list(delta_label([0.147, 0.33, 0.474])) == ["small", "medium", "large"]
