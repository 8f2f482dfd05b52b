"""Ratios of means: reference values, an independent solution, properties."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from infrabench.stats.pairwise import paired_fieller, paired_log_ratio, paired_t
from tests.support.analysis_fixtures import DATA_A

A = {name: np.array(values) for name, values in DATA_A.items()}
SYSTEMS = ("docker", "lxc", "lxd")


def test_unbounded_when_the_baseline_is_too_noisy() -> None:
    y = np.array([-1.0, 3.0, -2.0, 4.0, 0.5, 1.0])
    assert np.isnan(paired_fieller(np.arange(1.0, 7), y)).all()


def test_nothing_to_infer_from_is_not_a_number() -> None:
    same = np.full(8, 0.1)
    samples = ((same, 2 * same), (np.ones(1), np.ones(1)), (np.empty(0), np.empty(0)), (np.zeros(4), np.zeros(4)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x, y in samples:
            assert np.isnan(paired_fieller(x, y)).all()
            assert np.isnan(paired_log_ratio(x, y).interval).all()
        noisy = np.arange(5.0)
        assert np.isnan(paired_log_ratio(noisy, noisy + 1).value)  # a zero has no logarithm
        assert np.isnan(paired_fieller(noisy, np.zeros(5))).all()
    assert paired_log_ratio(2 * same, same).value == pytest.approx(2)


@given(st.lists(st.floats(50, 150), min_size=3, max_size=40), st.floats(1e-3, 1e3))
def test_a_system_in_proportion_to_its_baseline_has_that_ratio(values: list[float], c: float) -> None:
    y = np.array(values)
    found, logs = paired_fieller(c * y, y), paired_log_ratio(c * y, y)
    assert logs.value == pytest.approx(c, rel=1e-12)
    if not np.isnan(found.low):
        assert found[:2] == pytest.approx((c, c), rel=1e-12)
        assert logs.interval[:2] == pytest.approx((c, c), rel=1e-12)


OTHERS = np.array([A[name] for name in SYSTEMS])
BASE = np.broadcast_to(A["native"], OTHERS.shape)


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


def test_too_little_has_no_t() -> None:
    with np.errstate(all="raise"):
        assert np.isnan(paired_t([1.0], [2.0]).p)
        assert np.isnan(paired_t([0.1, 0.1, 0.1], [0.3, 0.3, 0.3]).p)
        assert np.isnan(paired_t(A["native"], A["native"] + 0.1).p)  # equal up to rounding is equal
