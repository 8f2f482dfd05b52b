from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.weightstats import ttost_ind, ttost_paired

from infrabench.stats.equivalence import log_margin, tost_log_ratio, tost_paired, tost_welch
from tests.analysis_fixtures import DATA_A

NATIVE = np.array(DATA_A["native"])
OTHERS = np.array([DATA_A[name] for name in ("docker", "lxc", "lxd")])
BASE = np.broadcast_to(NATIVE, OTHERS.shape)


@pytest.mark.parametrize(
    ("margin", "welch", "paired"),
    [
        (1, (0.5921230502, 0.135184302, 0.1016419521), (0.6287975122, 0.01573359685, 0.02246065859)),
        (2, (0.1920775864, 0.002991541997, 0.002295387972), (0.1157879443, 2.792662e-05, 0.0001362987415)),
    ],
)
def test_reference_differences(margin: float, welch: tuple[float, ...], paired: tuple[float, ...]) -> None:
    assert tost_welch(OTHERS, BASE, margin).p == pytest.approx(welch, rel=1e-6)
    assert tost_paired(OTHERS, BASE, margin).p == pytest.approx(paired, rel=1e-6)
    for x, w, p in zip(OTHERS, welch, paired, strict=True):
        assert ttost_ind(x, NATIVE, -margin, margin, usevar="unequal")[0] == pytest.approx(w, rel=1e-6)
        assert ttost_paired(x, NATIVE, -margin, margin)[0] == pytest.approx(p, rel=1e-6)


def test_reference_log_ratios() -> None:
    two, one = tost_log_ratio(OTHERS, BASE, 0.02), tost_log_ratio(OTHERS, BASE, [0.01, 0.01, 0.01])
    assert two.p == pytest.approx([0.1095344672, 2.234676e-05, 0.0001140107578], rel=1e-6)
    assert one.p == pytest.approx([0.634853249, 0.01355562682, 0.0207463513], rel=1e-6)
    assert two.interval.low == pytest.approx([0.9769665693, 0.9917232674, 0.997938503], rel=1e-6)
    assert two.interval.high == pytest.approx([0.9988959722, 0.9996349734, 1.008523784], rel=1e-6)
    assert two.interval.level == pytest.approx(0.9)
    assert two.estimate == pytest.approx([0.9878704222, 0.995671262, 1.003217183], rel=1e-6)
    assert np.exp(-log_margin(0.02)) == pytest.approx(0.98)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32), st.floats(0.001, 0.2), st.integers(2, 40))
def test_passes_exactly_when_the_narrow_interval_lies_inside(seed: int, margin: float, n: int) -> None:
    x, y = 100 * np.exp(np.random.default_rng(seed).normal(0, 0.03, (2, n)))
    found = tost_log_ratio(x, y, margin)
    inside = 1 - margin < found.interval.low and found.interval.high < 1 / (1 - margin)
    assert (found.p < 0.05) == inside
    swapped = tost_log_ratio(y, x, margin)  # the margin is symmetric
    assert swapped.p == pytest.approx(found.p, rel=1e-9)
    assert tost_log_ratio(7 * x, 7 * y, margin).p == pytest.approx(found.p, rel=1e-6, abs=1e-12)


def test_no_spread_one_pair_or_values_not_positive_give_no_test() -> None:
    assert np.isnan(tost_log_ratio([1.0], [1.0], 0.02).p)
    assert np.isnan(tost_log_ratio([2.0, 0.0, 1.0], [1.0, 1.0, 1.0], 0.02).p)
    assert np.isnan(tost_log_ratio(NATIVE, 1.1 * NATIVE, 0.02).p)  # equal up to rounding is equal
    assert np.isnan(tost_paired(NATIVE, NATIVE + 0.1, 1).p)
    assert np.isnan(tost_welch([3.0, 3.0], [3.0, 3.0], 1).p)
