from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from infrabench.stats.omnibus import critical_distance
from infrabench.stats.pairwise import paired_t
from tests.support.analysis_fixtures import DATA_A

NAMES = ("native", "docker", "lxc", "lxd")
X = np.array([DATA_A[name] for name in NAMES])
OTHERS, BASE = X[1:], np.broadcast_to(X[0], (3, 10))


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


def test_critical_distance_of_mean_ranks() -> None:
    assert critical_distance(4, 10) == pytest.approx(1.483231188, rel=1e-6)
    # the published critical values at 5 % for k = 2 .. 6 (Demsar 2006, table 5), cut at three digits
    values = [critical_distance(k, 1) / np.sqrt(k * (k + 1) / 6) for k in range(2, 7)]
    assert values == pytest.approx([1.960, 2.343, 2.569, 2.728, 2.850], abs=1e-3)


def test_too_little_says_nothing_and_does_not_warn() -> None:
    with np.errstate(all="raise"):
        assert np.isnan(paired_t([1.0], [2.0]).p)
        assert np.isnan(paired_t([0.1, 0.1, 0.1], [0.3, 0.3, 0.3]).p)
        assert np.isnan(paired_t(X[0], X[0] + 0.1).p)  # equal up to rounding is equal
