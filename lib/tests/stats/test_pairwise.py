from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pingouin
import pytest
import scikit_posthocs
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from infrabench.stats.pairwise import critical_distance, dunn, games_howell, nemenyi, paired_t, variance, welch_t
from tests.analysis_fixtures import DATA_A

NAMES = ("native", "docker", "lxc", "lxd")
X = np.array([DATA_A[name] for name in NAMES])
OTHERS, BASE = X[1:], np.broadcast_to(X[0], (3, 10))


def test_reference_welch() -> None:
    found = welch_t(OTHERS, BASE)
    assert found.statistic == pytest.approx([-1.374008643, -0.9102865705, 0.6293425377], rel=1e-6)
    assert found.df == pytest.approx([13.7430243, 14.97283236, 16.40773842], rel=1e-6)
    assert found.p == pytest.approx([0.1914349086, 0.377092942, 0.5377897974], abs=1e-6)
    assert found.estimate == pytest.approx([-1.209, -0.443, 0.322], rel=1e-6)
    assert found.interval.low == pytest.approx([-3.099529093, -1.480455041, -0.7604525914], rel=1e-6)
    assert found.interval.high == pytest.approx([0.6815290934, 0.5944550414, 1.404452591], rel=1e-6)
    assert found.p == pytest.approx(stats.ttest_ind(OTHERS, BASE, axis=1, equal_var=False).pvalue)


def test_reference_paired() -> None:
    found = paired_t(OTHERS, BASE)
    assert found.statistic == pytest.approx([-1.960853099, -2.023881596, 1.105451305], rel=1e-6)
    assert found.p == pytest.approx([0.08153253, 0.0736588528, 0.2976378009], abs=1e-6)
    assert found.df == 9
    assert found.interval.low == pytest.approx([-2.603774556, -0.9381552625, -0.3369296184], rel=1e-6)
    assert found.interval.high == pytest.approx([0.1857745558, 0.05215526251, 0.9809296184], rel=1e-6)
    logs = paired_t(np.log(OTHERS), np.log(BASE))
    assert logs.p == pytest.approx([0.074655983, 0.0763602057, 0.2933022324], abs=1e-6)
    assert found.p == pytest.approx(stats.ttest_rel(OTHERS, BASE, axis=1).pvalue)


def test_reference_games_howell() -> None:
    found = games_howell(X)
    assert found.pairs == tuple(combinations(range(4), 2))
    assert found.difference == pytest.approx([-1.209, -0.443, 0.322, 0.766, 1.531, 0.765], rel=1e-6)
    t = [1.374008643, 0.9102865705, 0.6293425377, 0.9373971481, 1.839528846, 1.941295778]
    df = [13.7430243, 14.97283236, 16.40773842, 10.92433155, 11.63304262, 17.54728929]
    assert found.statistic == pytest.approx(t, rel=1e-6)
    assert found.df == pytest.approx(df, rel=1e-6)
    assert found.p == pytest.approx([0.534855, 0.799728, 0.921120, 0.785969, 0.304347, 0.247366], abs=1e-6)
    low = [-3.772581, -1.845926, -1.137826, -1.696060, -0.951618, -0.351552]
    high = [1.354581, 0.959926, 1.781826, 3.228060, 4.013618, 1.881552]
    assert found.interval.low == pytest.approx(low, abs=1e-6)
    assert found.interval.high == pytest.approx(high, abs=1e-6)


def test_games_howell_as_scipy_and_pingouin_with_unequal_sizes() -> None:
    groups = [np.random.default_rng(i).normal(i / 2, i + 1, 6 + 3 * i) for i in range(3)]
    found = games_howell(groups)
    by_scipy = stats.tukey_hsd(*groups, equal_var=False)
    interval = by_scipy.confidence_interval()
    for index, (a, b) in enumerate(found.pairs):
        assert found.p[index] == pytest.approx(by_scipy.pvalue[b, a], abs=1e-8)
        assert found.interval.low[index] == pytest.approx(interval.low[b, a], rel=1e-6)
    long = pd.DataFrame({"y": np.concatenate(groups), "g": np.repeat([0, 1, 2], [g.size for g in groups])})
    assert found.p == pytest.approx(pingouin.pairwise_gameshowell(long, dv="y", between="g")["pval"], abs=1e-6)


def test_reference_nemenyi() -> None:
    found = nemenyi(X)
    q = [2.944486373, 2.078460969, 0.1732050808, 0.8660254038, 3.117691454, 2.25166605]
    p = [0.01705614365, 0.1601258765, 0.9981545293, 0.8224006632, 0.009856376197, 0.109611353]
    assert found.statistic == pytest.approx(q, rel=1e-6)
    assert found.p == pytest.approx(p, abs=1e-6)
    assert critical_distance(4, 10) == pytest.approx(1.483231188, rel=1e-6)
    assert (found.interval.high - found.difference) == pytest.approx(np.full(6, 1.483231188))
    table = scikit_posthocs.posthoc_nemenyi_friedman(X.T).to_numpy()
    assert found.p == pytest.approx([table[pair] for pair in found.pairs], abs=1e-8)
    # the published critical values at 5 % for k = 2 .. 6 (Demsar 2006, table 5), cut at three digits
    values = [critical_distance(k, 1) / np.sqrt(k * (k + 1) / 6) for k in range(2, 7)]
    assert values == pytest.approx([1.960, 2.343, 2.569, 2.728, 2.850], abs=1e-3)


def test_reference_dunn() -> None:
    found = dunn(X)
    z = [-2.276148866, -1.300656495, 0.1338911097, 0.975492371, 2.410039975, 1.434547604]
    alone = [0.02283710121, 0.19337606, 0.8934886804, 0.3293160841, 0.01595077269, 0.1514160544]
    adjusted = [0.114185506, 0.6056642177, 0.8934886804, 0.6586321683, 0.09570463616, 0.6056642177]
    assert found.statistic == pytest.approx(z, rel=1e-6)
    assert found.p_alone == pytest.approx(alone, abs=1e-6)
    assert found.p == pytest.approx(adjusted, abs=1e-6)
    with pytest.raises(ValueError, match="empty"):
        dunn([[1.0], []])


def test_leading_axes_are_cells() -> None:
    stack = np.random.default_rng(3).normal(size=(5, 2, 3, 8))
    several, groups = nemenyi(stack), games_howell([stack[..., i, :] for i in range(3)])
    assert several.p.shape == groups.p.shape == (5, 2, 3)
    assert several.p[4, 1] == pytest.approx(nemenyi(stack[4, 1]).p)
    assert groups.p[4, 1] == pytest.approx(games_howell(stack[4, 1]).p)
    assert paired_t(stack[..., 0, :], stack[..., 1, :]).p.shape == (5, 2)


def test_too_little_says_nothing_and_does_not_warn() -> None:
    with np.errstate(all="raise"):
        for test in (paired_t, welch_t):
            assert np.isnan(test([1.0], [2.0]).p)
            assert np.isnan(test([0.1, 0.1, 0.1], [0.3, 0.3, 0.3]).p)
        assert np.isnan(paired_t(X[0], X[0] + 0.1).p)  # equal up to rounding is equal
        assert np.isnan(games_howell([[1.0, 1.0], [2.0, 2.0], [3.0, 4.0]]).p[0])
        assert np.isnan(nemenyi(np.empty((3, 0))).p).all()
    assert variance(np.full(7, 0.1)) == 0


@settings(deadline=None, max_examples=40)
@given(st.floats(1e-6, 1e9), st.permutations(range(10)))
def test_neither_the_unit_nor_the_order_of_blocks_matters(scale: float, order: list[int]) -> None:
    found = paired_t(scale * OTHERS[:, order], scale * BASE[:, order])
    assert found.p == pytest.approx(paired_t(OTHERS, BASE).p, rel=1e-6)
    assert found.interval.low == pytest.approx(scale * paired_t(OTHERS, BASE).interval.low, rel=1e-6)
    assert nemenyi(scale * X[:, order]).p == pytest.approx(nemenyi(X).p)
