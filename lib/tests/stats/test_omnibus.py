from __future__ import annotations

import numpy as np
import pandas as pd
import pingouin
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.oneway import anova_oneway

from infrabench.stats.omnibus import brown_forsythe, friedman, interaction, kruskal, quade, welch_anova
from tests.analysis_fixtures import DATA_A

X = np.array([DATA_A[name] for name in ("native", "docker", "lxc", "lxd")])


def test_reference_independent_groups() -> None:
    welch = welch_anova(X)
    assert (welch.statistic, welch.df1, welch.df2) == pytest.approx((1.801913317, 3, 19.20266956), rel=1e-6)
    assert welch.p == pytest.approx(0.1806559708, abs=1e-6)
    spread = brown_forsythe(X)
    assert (spread.statistic, spread.p) == pytest.approx((2.182276835, 0.1070067175), rel=1e-6)
    ranks = kruskal(X)
    assert (ranks.statistic, ranks.p) == pytest.approx((7.854146341, 0.04912422591), rel=1e-6)


def test_reference_blocked() -> None:
    found = friedman(X)
    assert (found.statistic, found.p) == pytest.approx((14.28, 0.002547770093), rel=1e-6)
    assert (found.iman_davenport_f, found.df1, found.df2) == pytest.approx((8.175572519, 3, 27), rel=1e-6)
    assert found.iman_davenport_p == pytest.approx(0.0004952643697, rel=1e-6)
    assert found.mean_ranks == pytest.approx([3.2, 1.5, 2.0, 3.3])
    weighed = quade(X)
    assert (weighed.statistic, weighed.p) == pytest.approx((4.367024149, 0.01245819723), rel=1e-6)


def test_as_statsmodels_scipy_and_pingouin() -> None:
    groups = [np.random.default_rng(i).normal(0, i + 1, 5 + 4 * i) for i in range(4)]
    expected = anova_oneway(groups, use_var="unequal")
    assert welch_anova(groups)[:4] == pytest.approx((expected.statistic, *expected.df, expected.pvalue))
    assert brown_forsythe(groups).p == pytest.approx(stats.levene(*groups, center="median").pvalue)
    tied = np.random.default_rng(9).integers(0, 4, (4, 12)).astype(float)
    assert friedman(tied).statistic == pytest.approx(stats.friedmanchisquare(*tied).statistic)
    assert friedman(tied).p == pytest.approx(stats.friedmanchisquare(*tied).pvalue)
    f = pingouin.friedman(pd.DataFrame(X.T), method="f")
    assert friedman(X).iman_davenport_f == pytest.approx(f["F"].iloc[0])


def test_blocks_that_all_agree_cannot_give_a_p_below_what_they_can() -> None:
    agreed = np.arange(3.0)[:, None] + np.linspace(0, 1, 4)
    found = friedman(agreed)
    assert np.isinf(found.iman_davenport_f)
    assert found.iman_davenport_p == pytest.approx(1 / 6**3)
    pair = friedman(np.array([[1.0, 2, 3], [2.0, 3, 4]]))
    assert pair.iman_davenport_p == pytest.approx(0.25)  # 3 blocks of two: the sign test


def test_interaction_is_the_repeated_measures_test() -> None:
    rng = np.random.default_rng(8)
    values = rng.normal(size=(2, 4, 12)) + np.arange(4)[:, None] * np.array([0, 0.4])[:, None, None]
    found = interaction(values)
    # two systems: one-way repeated measures of the difference over the levels
    change = values[1] - values[0]
    cells = [(level, b, change[level, b]) for level, b in np.ndindex(change.shape)]
    long = pd.DataFrame(cells, columns=["level", "block", "y"])
    expected = pingouin.rm_anova(long, dv="y", within="level", subject="block", correction=True).iloc[0]
    assert found.statistic == pytest.approx(expected["F"])
    assert found.epsilon == pytest.approx(expected["eps"], abs=1e-6)
    assert found.p == pytest.approx(expected["p_GG_corr"], abs=1e-6)
    three = rng.normal(size=(3, 4, 12))
    cells = [(s, level, b, three[s, level, b]) for s, level, b in np.ndindex(three.shape)]
    long = pd.DataFrame(cells, columns=["system", "level", "block", "y"])
    table = pingouin.rm_anova(long, dv="y", within=["system", "level"], subject="block").set_index("Source")
    assert interaction(three).statistic == pytest.approx(table.loc["system * level", "F"])


def test_interaction_does_not_see_blocks_systems_or_levels_by_themselves() -> None:
    rng = np.random.default_rng(4)
    noise = rng.normal(size=(3, 4, 10))
    moved = noise + 9 * rng.normal(size=10) + 5 * rng.normal(size=(3, 1, 1)) + 7 * rng.normal(size=(4, 1))
    assert interaction(moved).statistic == pytest.approx(interaction(noise).statistic)
    assert interaction(moved).p == pytest.approx(interaction(noise).p)
    crossing = noise + np.array([-1.0, 0, 1])[:, None, None] * np.array([-3.0, -1, 1, 3])[:, None]
    assert interaction(crossing).p < 1e-4


@pytest.mark.parametrize("shape", [(1, 4, 9), (3, 1, 9), (3, 4, 1)])
def test_no_interaction_without_two_of_each(shape: tuple[int, ...]) -> None:
    assert np.isnan(interaction(np.zeros(shape)).p)
    assert np.isnan(interaction(np.ones((2, 2, 5))).p)


def test_too_little_says_nothing_and_does_not_warn() -> None:
    with np.errstate(all="raise"):
        for x in (np.empty((3, 0)), np.ones((3, 1)), np.ones((1, 8)), np.ones((3, 8))):
            assert np.isnan(friedman(x).iman_davenport_p)
            assert np.isnan(friedman(x).p)
            assert np.isnan(quade(x).p)
        for groups in ([[1.0], [2.0, 3.0]], [[1.0, 1.0], [2.0, 2.0]]):
            assert np.isnan(welch_anova(groups).p)
            assert np.isnan(brown_forsythe(groups).p)
        assert np.isnan(kruskal([[1.0, 1.0], [1.0, 1.0]]).p)
    with pytest.raises(ValueError, match="empty"):
        kruskal([[1.0], []])


@settings(deadline=None, max_examples=40)
@given(st.floats(1e-6, 1e9), st.permutations(range(10)))
def test_neither_the_unit_nor_the_order_of_blocks_matters(scale: float, order: list[int]) -> None:
    moved = scale * X[:, order]
    assert friedman(moved).iman_davenport_p == pytest.approx(friedman(X).iman_davenport_p)
    assert quade(moved).p == pytest.approx(quade(X).p)
    assert welch_anova(moved).p == pytest.approx(welch_anova(X).p, rel=1e-6)


def test_leading_axes_are_cells() -> None:
    stack = np.random.default_rng(3).normal(size=(5, 2, 3, 8))
    assert friedman(stack).iman_davenport_p[4, 1] == pytest.approx(friedman(stack[4, 1]).iman_davenport_p)
    assert quade(stack).p[4, 1] == pytest.approx(quade(stack[4, 1]).p)
    groups = [stack[..., i, :] for i in range(3)]
    for test in (welch_anova, brown_forsythe, kruskal):
        assert test(groups).p[4, 1] == pytest.approx(test(stack[4, 1]).p)
    levels = np.random.default_rng(3).normal(size=(5, 2, 3, 8))
    assert interaction(levels).p.shape == (5,)
    assert interaction(levels).p[3] == pytest.approx(interaction(levels[3]).p)
