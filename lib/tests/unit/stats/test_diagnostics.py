"""Diagnostics: the frame, its residuals and flags; the split against searches and simulations."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from infrabench.stats import diagnostics
from infrabench.stats.diagnostics import (
    CRITICAL,
    TYPES,
    bimodal,
    critical_split,
    modified_z,
    outlier_mask,
    residuals,
    shapiro,
    skewness,
    split,
    split_log,
)
from infrabench.stats.intervals import t_interval
from tests.support.analysis_fixtures import DATA_A, table_of
from tests.unit.stats.null_tables import split_quantile

RNG = np.random.default_rng(72)


def row_of(values: np.ndarray | list[float], **how: int) -> pd.Series:
    return diagnostics(table_of({"native": values}, **how)).iloc[0]


def test_columns_types_and_cells() -> None:
    found = diagnostics(table_of(DATA_A))
    assert list(found.columns) == list(TYPES)
    assert found["n"].tolist() == [10] * 4
    assert found["system"].tolist() == sorted(DATA_A)
    assert {name: str(kind) for name, kind in found.dtypes.items()} == TYPES
    nothing = diagnostics(table_of({"native": [None, None]}))
    assert list(nothing.columns) == list(TYPES)
    assert nothing.empty


def test_executed_order_is_what_counts() -> None:
    table = table_of({"native": np.arange(1.0, 9)})
    pd.testing.assert_frame_equal(diagnostics(table.sample(frac=1, random_state=1)), diagnostics(table))
    assert "dependent" in diagnostics(table)["flags"].iloc[0]
    later = pd.concat([table.assign(session="z", value=table["value"] + 8), table.assign(session="a")])
    assert diagnostics(later)["trend_tau"].iloc[0] == 1


def test_cells_of_unequal_size_are_each_their_own() -> None:
    values = {"docker": RNG.normal(100, 1, 12), "native": RNG.normal(100, 1, 9), "lxc": RNG.normal(100, 1, 12)}
    together = diagnostics(table_of(values)).set_index("system")
    raw = [name for name in list(TYPES)[4:] if name not in ("shapiro_p", "skewness_residual", "flags")]
    for system, x in values.items():
        alone = diagnostics(table_of({system: x})).set_index("system")
        pd.testing.assert_series_equal(together.loc[system, raw], alone.loc[system, raw])


def test_a_cell_says_what_the_kernels_say() -> None:
    x = RNG.normal(100, 1, 30)
    row = row_of(x)
    assert row["lag1"] == pytest.approx(np.corrcoef(x[1:], x[:-1])[0, 1], abs=0.05)
    assert row["trend_tau"] == pytest.approx(stats.kendalltau(np.arange(30), x).statistic)
    assert row["skewness"] == pytest.approx(stats.skew(x, bias=False))
    assert row["split_d"] == pytest.approx(split(x).d)
    assert np.isnan(row["step"])
    assert (row["mean_low_eff"], row["mean_high_eff"]) == pytest.approx(t_interval(x)[:2])
    assert row["n_eff"] == 30


def test_reference_shapiro() -> None:
    found = shapiro(np.array([DATA_A[name] for name in ("native", "docker", "lxc", "lxd")]))
    assert found.statistic == pytest.approx([0.857945502, 0.896925052, 0.871702108, 0.966956201], rel=1e-6)
    assert found.p == pytest.approx([0.072164132, 0.202640348, 0.10463324, 0.86127912], abs=1e-6)


@given(st.lists(st.integers(-60, 60), max_size=15), st.sampled_from([0.25, 64.0]), st.integers(-99, 99))
def test_shift_and_scale_change_neither_shape_nor_outliers(values: list[int], scale: float, shift: int) -> None:
    x = np.array(values, dtype=float)
    other = scale * x + shift
    np.testing.assert_array_equal(outlier_mask(other), outlier_mask(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(skewness(other), skewness(x), atol=1e-9)
        np.testing.assert_allclose(shapiro(other), shapiro(x), atol=1e-6)
        if x.size < 3 or np.ptp(x) == 0:
            assert np.isnan([skewness(x), *shapiro(x)]).all()
        else:
            assert skewness(-x) == pytest.approx(-skewness(x))
            assert skewness(x) == pytest.approx(stats.skew(x, bias=False))


def test_residuals_are_those_of_a_two_way_layout_on_logarithms() -> None:
    from statsmodels.formula.api import ols

    table = table_of(DATA_A)
    found = residuals(table)
    data = pd.DataFrame({"y": np.log(table["value"]), "block": table["block"], "system": table["system"]})
    fitted = ols("y ~ C(block) + C(system)", data=data).fit()
    np.testing.assert_allclose(found, fitted.resid, atol=1e-12)


def test_residuals_without_logarithms_and_without_company() -> None:
    apart = table_of({"a": [0.0, 2, 4], "b": [1.0, 2, 6]})
    np.testing.assert_allclose(residuals(apart), [0, 0.5, -0.5, 0, -0.5, 0.5], atol=1e-12)
    alone = table_of({"a": [-1.0, 0, 4]})
    np.testing.assert_allclose(residuals(alone), [-2, -1, 3])


def test_a_shift_between_blocks_or_deployments_is_not_in_the_residuals() -> None:
    x, y = np.exp(RNG.normal(0, 0.01, (2, 20)))
    weather = np.exp(np.random.default_rng(1).exponential(size=20))
    plain = diagnostics(table_of({"x": x, "y": y}))
    blocked = diagnostics(table_of({"x": x * weather, "y": y * weather}))
    np.testing.assert_allclose(blocked["shapiro_p"], plain["shapiro_p"], rtol=1e-6)
    assert (shapiro([x * weather, y * weather]).p < 0.01).all()
    step = np.repeat([1.0, 3.0], 10)
    moved = table_of({"x": x * step, "y": y}, blocks_per_deployment=10)
    np.testing.assert_allclose(residuals(moved), residuals(table_of({"x": x, "y": y}, blocks_per_deployment=10)))


def test_modified_z_and_its_flag() -> None:
    x = np.array([1.0, 2, 3, 4, 5, 100])
    # median 3.5, MAD 1.5: |z| of 100 is 0.6745 * 96.5 / 1.5 = 43.4, of 5 it is 0.67
    assert modified_z(x)[-1] == pytest.approx(43.392833)
    assert outlier_mask(x).tolist() == [False] * 5 + [True]
    same = np.array([1.0, 1, 1, 1, 9])
    assert np.isnan(modified_z(same)).all()  # MAD 0: the rule has no scale
    assert not outlier_mask(same).any()
    assert np.isnan(row_of(same)["outliers"])


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 40])
def test_constant_and_short_cells(n: int) -> None:
    same, short = row_of(np.full(n, 2.0)), row_of(np.arange(1.0, n + 1))
    assert same["flags"] == ("deterministic" if n > 1 else "few values")
    assert ("few values" in short["flags"]) == (n < 5)
    unknown = [name for name, kind in TYPES.items() if kind != "str" and name not in ("n", "n_eff", "step", "outliers")]
    assert same[unknown].isna().all()
    if n < 5:
        assert short[[name for name in unknown if not name.startswith("mean_")]].isna().all()
    assert np.isnan(row_of(np.full(n, 0.0))["step"])


def test_flags_by_their_rules() -> None:
    noise = np.random.default_rng(5).normal(100, 1, 30)
    assert row_of(noise)["flags"] == ""
    assert row_of(noise + np.arange(30))["flags"] == "dependent"
    assert row_of(np.concatenate([noise[:-1], [115.0]]))["flags"] == "outliers; skewed"
    low = row_of(np.concatenate([noise[:-1], [85.0]]))
    assert low["skewness"] < 0  # its Shapiro p is what flags it
    assert low["flags"] == "outliers; skewed"
    assert "resolution-limited" in row_of(np.round(noise / 3))["flags"]


def test_two_modes_are_told_with_their_places() -> None:
    values = np.random.default_rng(3).normal(100, 1, 30)
    values[np.arange(30) % 5 == 0] += 20
    mixed = row_of(values, blocks_per_deployment=15)
    found = split(values)
    assert "bimodal" in mixed["flags"]
    assert mixed["modes"] == f"low: {found.low:.4g}, 80 %; high: {found.high:.4g}, 20 %"
    assert mixed["mode_by_deployment"] == "varies"
    apart = row_of(np.sort(values), blocks_per_deployment=6)
    assert apart["mode_by_deployment"] == "constant"
    assert row_of(values)["mode_by_deployment"] == ""
    assert row_of(np.random.default_rng(3).normal(100, 1, 30))["modes"] == ""


def test_intervals_with_n_eff() -> None:
    x = 100 + np.cumsum(np.random.default_rng(6).normal(0, 1, 30)) * 0.3
    row = row_of(x)
    assert "dependent" in row["flags"]
    assert row["n_eff"] == pytest.approx(30 * (1 - row["lag1"]) / (1 + row["lag1"]))
    naive = t_interval(x)
    assert row["mean_high_eff"] - row["mean_low_eff"] > 2 * (naive.high - naive.low)
    several = row_of(x, blocks_per_deployment=15)
    assert np.isnan(several["mean_low_eff"])  # the means of deployments are the data then


@pytest.mark.parametrize(("sd", "half"), [(0.5, 1.5), (2.0, 0.0)])
def test_a_coarse_metric_widens_its_interval_where_rounding_does_not_average_out(sd: float, half: float) -> None:
    x = np.round(np.random.default_rng(3).normal(99.9, sd, 30) / 3) * 3
    row = row_of(x)
    assert row["step"] == 3
    assert "resolution-limited" in row["flags"]
    assert (x.std(ddof=1) < 1.5) == (half > 0)
    assert row["mean_low_eff"] == pytest.approx(t_interval(x).low - half)
    assert row["mean_high_eff"] == pytest.approx(t_interval(x).high + half)


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
    assert split(np.array([1.0, 2, 3, 4, 5, 6, 99, 99])).share == pytest.approx(5 / 8)  # two far values are no mode
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
