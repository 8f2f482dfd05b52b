"""Variance components: published worked examples, one-way analysis of variance, and properties."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from infrabench.core import DesignError
from infrabench.stats.components import by_deployment, components, hierarchical_ratio, levels, one_way, repetitions
from infrabench.stats.estimates import estimates
from infrabench.stats.intervals import t_interval
from tests.analysis_fixtures import DATA_A, table_of

# the worked example of Kalibera and Jones 2013: 3 x 2 x 2
F = np.array([[[9, 5], [8, 3]], [[10, 6], [7, 11]], [[1, 12], [2, 4]]], dtype=float)
# an example of their software's own tests: 2 x 2 x 3
G = np.array([[[3, 4, 3], [1.2, 3.1, 3]], [[0.2, 1, 1.5], [1, 2, 3]]])


def test_reference_of_three_levels() -> None:
    found = levels(F)
    assert found.mean == 6.5
    assert found.s2 == pytest.approx((16.5, 2.583333, 3.5625), rel=1e-6)
    assert found.t2 == pytest.approx((16.5, -5.666667, 2.270833), rel=1e-6)
    assert found.interval == pytest.approx((6.5 - 4.688707, 6.5 + 4.688707, 0.95), rel=1e-6)


def test_reference_of_two_levels_and_of_pooling() -> None:
    found = levels(F.reshape(3, 4))
    assert found.s2 == pytest.approx((12.722222, 3.5625), rel=1e-6)
    assert found.t2[1] == pytest.approx(0.381944, abs=5e-7)  # as printed
    pooled = levels(F.ravel())
    assert pooled.interval.high - 6.5 == pytest.approx(2.290858, rel=1e-6)
    assert pooled.interval == pytest.approx(t_interval(F.ravel()))


def test_reference_of_the_optimum() -> None:
    found = levels(G)
    assert found.t2 == pytest.approx((0.7266667, 0.2627778, 0.7747222), rel=1e-6)
    assert repetitions(found.t2, (3, 20, 100)) == pytest.approx((4.293660, 1.302286), rel=1e-6)
    assert [int(np.ceil(r)) for r in repetitions(found.t2, (3, 20, 100))] == [5, 2]


def test_levels_without_variance() -> None:
    assert repetitions((16.5, -5.7, 2.3), (1, 1, 1)) == (float("inf"), 1.0)
    for costs in ((1, 1), (1, 0, 1)):
        with pytest.raises(DesignError, match="one positive cost"):
            repetitions((1.0, 1.0, 1.0), costs)


@given(arrays(float, (3, 2, 4), elements=st.integers(-20, 20)), st.sampled_from([0.5, 4.0]), st.integers(-9, 9))
@settings(deadline=None)
def test_shift_and_scale(x: np.ndarray, scale: float, shift: int) -> None:
    first, other = levels(x), levels(scale * x + shift)
    assert other.t2 == pytest.approx([scale**2 * t for t in first.t2], abs=1e-9)
    assert other.mean == pytest.approx(scale * first.mean + shift)
    assert np.isnan(first.interval.low) == (first.s2[-1] == 0)


def test_a_level_with_one_repetition_says_nothing_of_it() -> None:
    found = levels(np.array([[1.0], [2], [4]]))
    assert np.isnan(found.s2[0])
    assert found.interval[:2] == pytest.approx(t_interval(np.array([1.0, 2, 4]))[:2])
    assert np.isnan(levels(np.array([[1.0, 2, 4]])).interval.low)


def test_one_way_of_balanced_groups_is_that_of_two_levels() -> None:
    found, known = one_way(F.ravel(), np.repeat([0, 1, 2], 4)), levels(F.reshape(3, 4))
    assert (found.within, found.between, found.size) == pytest.approx((*known.t2, 4))
    assert found.share == pytest.approx(known.t2[1] / sum(known.t2))


def test_one_way_of_unequal_groups() -> None:
    x = np.random.default_rng(51).normal(10, 1, 14)
    group = np.repeat([7, 3, 9], [2, 5, 7])
    found = one_way(x, group)
    parts = [x[group == label] for label in (7, 3, 9)]
    assert found.size == pytest.approx((14 - (4 + 25 + 49) / 14) / 2)
    assert found.within == pytest.approx(sum(p.var() * p.size for p in parts) / 11)
    # the F of an analysis of variance is the ratio of the mean squares
    f = stats.f_oneway(*parts).statistic
    assert (found.between * found.size + found.within) / found.within == pytest.approx(f)


def test_one_way_is_unbiased() -> None:
    rng = np.random.default_rng(52)
    group = np.repeat(np.arange(5), [2, 3, 5, 8, 2])
    x = rng.normal(0, 2, (4000, 20)) + rng.normal(0, 3, (4000, 5))[:, group]
    found = np.array([one_way(row, group)[:2] for row in x])
    assert found.mean(axis=0) == pytest.approx((4, 9), rel=0.05)


def test_one_way_is_near_restricted_likelihood() -> None:
    import statsmodels.formula.api as smf

    rng = np.random.default_rng(53)
    group = np.repeat(np.arange(12), 6)
    y = rng.normal(0, 1, 72) + rng.normal(0, 2, 12)[group]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = smf.mixedlm("y ~ 1", pd.DataFrame({"y": y, "g": group}), groups="g").fit()
    found = one_way(y, group)  # balanced, and the variance is positive: both have the same solution
    assert (found.within, found.between) == pytest.approx((fitted.scale, float(fitted.cov_re.iloc[0, 0])), rel=1e-3)


def test_one_way_without_groups_or_within() -> None:
    assert np.isnan(one_way(np.arange(4.0), np.zeros(4, dtype=np.int64))).all()
    assert np.isnan(one_way(np.arange(4.0), np.arange(4))).all()
    assert np.isnan(one_way(np.full(4, 2.0), np.array([0, 0, 1, 1])).share)
    assert one_way(np.array([1.0, 3, 1, 3]), np.array([0, 0, 1, 1])).share == 0


def test_frames_by_deployment() -> None:
    table = table_of(DATA_A, blocks_per_deployment=4)
    found = by_deployment(table)
    assert found.columns.tolist() == [
        "workload", "scenario", "metric", "system", "session", "deployment", "n", "mean"
    ]  # fmt: skip
    native = found[found["system"] == "native"]
    assert native["n"].tolist() == [4, 4, 2]
    assert native["mean"].iloc[2] == pytest.approx(np.mean(DATA_A["native"][8:]))
    variances = components(table).set_index("system")
    known = one_way(np.array(DATA_A["native"]), np.arange(10) // 4)
    assert variances.loc["native", ["n", "deployments"]].tolist() == [10, 3]
    assert variances.loc["native", "sd_within"] == pytest.approx(np.sqrt(known.within))
    assert variances.loc["native", "between_share"] == pytest.approx(known.share)
    shown = estimates(table).set_index("system")["between_share"]
    assert variances["between_share"].to_dict() == pytest.approx(shown.to_dict())
    plain = components(table_of(DATA_A))
    assert plain[["sd_within", "sd_between", "between_share"]].isna().all(axis=None)
    assert components(table_of({"native": [None]})).empty


def test_hierarchical_ratio_of_one_block_each_is_a_plain_bootstrap() -> None:
    x, y = np.array(DATA_A["docker"]), np.array(DATA_A["native"])
    found = hierarchical_ratio(x, y, np.arange(10), resamples=100_000)
    assert found.value == pytest.approx(0.9880586696, rel=1e-9)
    assert found.interval[:2] == pytest.approx((0.978214, 1.000572), abs=3e-4)  # exact, by enumeration


def test_hierarchical_ratio_covers_where_pooled_blocks_do_not() -> None:
    rng = np.random.default_rng(54)
    group = np.repeat(np.arange(12), 5)
    x, y = (100 + rng.normal(0, 1, (300, 60)) + rng.normal(0, 2, (300, 12))[:, group] for _ in range(2))
    covered = {"by deployment": 0, "pooled": 0}
    for one, other in zip(x, y, strict=True):
        for name, labels in (("by deployment", group), ("pooled", np.arange(60))):
            low, high, _ = hierarchical_ratio(one, other, labels, resamples=400).interval
            covered[name] += low <= 1 <= high
    assert covered["by deployment"] / 300 > 0.88
    assert covered["pooled"] / 300 < 0.75


def test_hierarchical_ratio_keeps_its_seed_and_scale() -> None:
    rng = np.random.default_rng(55)
    x, y, group = rng.normal(10, 1, 12), rng.normal(9, 1, 12), np.repeat([4, 2, 8], [5, 4, 3])
    first, again = (hierarchical_ratio(x, y, group, resamples=500) for _ in range(2))
    assert first == again
    assert first.value == pytest.approx(
        np.mean([x[group == g].mean() for g in (4, 2, 8)]) / np.mean([y[group == g].mean() for g in (4, 2, 8)])
    )
    scaled = hierarchical_ratio(4 * x, 2 * y, group, resamples=500)
    assert scaled.interval.low == pytest.approx(2 * first.interval.low)


def test_hierarchical_ratio_without_an_interval() -> None:
    x = np.arange(1.0, 7)
    one = hierarchical_ratio(x, 2 * x, np.zeros(6, dtype=np.int64))
    assert one.value == 0.5
    assert np.isnan(one.interval).all()
    assert np.isnan(hierarchical_ratio(x, 2 * x, np.arange(6) // 2).interval.low)  # without spread
    assert np.isnan(hierarchical_ratio(x, x - 3.5 + 0.1, np.arange(6) // 2).interval.low)  # a baseline about 0
