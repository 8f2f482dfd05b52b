"""Verdicts: what a coarse step leaves of an interval, and rates of fixed work, compared by their times."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrabench.analysis.tables import estimates_table
from infrabench.stats import contrasts, estimates
from infrabench.stats.estimates import FAILED_WORK, T_OF_TIMES
from infrabench.stats.intervals import t_interval
from infrabench.stats.pairwise import difference_p, paired_fieller
from infrabench.stats.table import select_metric
from infrabench.stats.verdicts import resolution_limited, resolution_step, undithered
from tests.support.analysis_fixtures import table_of


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ([100.54, 99.39, 101.35], 0.01),
        ([941.37e6, 940.99e6, 941.4e6], 1e4),  # Mbit/s with two decimals, stored in bit/s
        ([3 * 1024.0, 5 * 1024.0, 4096.0], 1024.0),
        ([10.0, 20.0, 40.0], 10.0),
        ([0.1 + 0.2, 0.7, 1.1], 0.1),  # 0.30000000000000004 is a 0.3 that was added up
        ([0.000123, 0.000125, 0.000124], 1e-6),
        ([0.0, 0.5, -1.5], 0.5),
        ([1e-9, 5e-9, 7e-9], 1e-9),
        ([12345678.25, 12345679.5, 1.0], 0.25),
    ],
)
def test_step_of_printed_values(values: list[float], step: float) -> None:
    assert resolution_step(np.array(values)) == pytest.approx(step, rel=1e-12)


def test_computed_values_have_no_printing_step() -> None:
    assert np.isnan(resolution_step(np.random.default_rng(3).normal(100, 1, size=(20, 8)))).all()
    assert np.isnan(resolution_step(np.array([1 / 3, 2 / 3, 1.0])))


@pytest.mark.parametrize("values", [[], [0.0, 0.0], [np.inf, 1.0], [np.nan, 1.0]])
def test_no_step_without_values(values: list[float]) -> None:
    assert np.isnan(resolution_step(np.array(values)))


@given(
    st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=12).filter(any),
    st.integers(-9, 5),
    st.sampled_from([1.0, 1e3, 1e6]),
)
def test_all_values_are_whole_multiples_of_the_step(whole: list[int], places: int, factor: float) -> None:
    values = np.array([float(f"{w}e{places}") * factor for w in whole])
    step = resolution_step(values)
    assert step == pytest.approx(np.gcd.reduce(whole) * 10.0**places * factor, rel=1e-9)


def test_a_quarter_is_the_limit() -> None:
    assert not resolution_limited(0.25, 1.0)
    assert resolution_limited(0.26, 1.0)
    assert resolution_limited(0.1, 1.0, -0.39)
    assert not resolution_limited(0.1, 1.0, -0.41)
    assert not resolution_limited(np.nan, 1.0, 1.0)
    np.testing.assert_array_equal(resolution_limited(np.array([1.0, 1.0]), np.array([2.0, 9.0])), [True, False])


def test_rounding_averages_out_from_half_a_step_of_spread_on() -> None:
    found = undithered(np.array([1.0, 1.0, np.nan]), np.array([0.49, 0.5, 0.1]))
    np.testing.assert_array_equal(found, [True, False, False])


RNG = np.random.default_rng(12)
NATIVE = np.exp(RNG.normal(0, 0.5, 12)) * 100
DOCKER = NATIVE * np.exp(RNG.normal(-0.2, 0.3, 12))
FTP = {"workload": "ftp", "metric": "transfer_B_per_s", "unit": "B/s", "better": "higher"}
MAIL = {"workload": "mail", "metric": "messages_per_min", "unit": "1/min", "better": "higher"}


def test_rule_3_of_hoefler_and_belli() -> None:
    """100 Gflop in 10, 100 and 40 s: 2.0 Gflop/s, and not 4.5."""
    rates = [100 / 10, 100 / 100, 100 / 40]
    row = estimates(table_of({"native": rates}, **FTP)).iloc[0]
    assert row["mean"] == pytest.approx(2.0)
    assert (row["mean_low"], row["mean_high"]) == pytest.approx((np.nan, np.nan), nan_ok=True)  # the time's reaches 0
    assert (row["median"], row["min"], row["max"]) == (2.5, 1.0, 10.0)
    assert estimates(table_of({"native": rates}, **MAIL)).iloc[0]["mean"] == pytest.approx(4.5)


def test_the_interval_of_the_mean_is_that_of_the_time() -> None:
    row = estimates(table_of({"native": list(NATIVE)}, **FTP)).iloc[0]
    time = t_interval(1 / NATIVE)
    assert row["mean"] == pytest.approx(1 / (1 / NATIVE).mean())
    assert (row["mean_low"], row["mean_high"]) == pytest.approx((1 / time.high, 1 / time.low))
    assert row["boot_t_low"] < row["mean"] < row["boot_t_high"]
    assert row["sd"] == pytest.approx(NATIVE.std(ddof=1))


def test_the_mean_over_deployments_is_of_their_mean_times() -> None:
    row = estimates(table_of({"native": list(NATIVE)}, blocks_per_deployment=4, **FTP)).iloc[0]
    times = (1 / NATIVE).reshape(3, 4).mean(axis=1)
    assert (row["unit_n"], row["mean"]) == (3, pytest.approx(1 / times.mean()))


def test_the_ratio_is_the_inverse_ratio_of_the_mean_times() -> None:
    row = contrasts(table_of({"native": list(NATIVE), "docker": list(DOCKER)}, **FTP), "native", {"": 0.02}).iloc[0]
    times = paired_fieller(1 / DOCKER, 1 / NATIVE)
    assert row["ratio"] == pytest.approx((1 / NATIVE).mean() / (1 / DOCKER).mean())
    assert (row["ratio_low"], row["ratio_high"]) == pytest.approx((1 / times.high, 1 / times.low))
    assert row["p"] == pytest.approx(difference_p(1 / DOCKER, 1 / NATIVE))
    assert row["ratio"] == pytest.approx(row["mean"] / row["baseline_mean"])
    assert row["difference"] == pytest.approx(row["mean"] - row["baseline_mean"])
    assert row["difference_low"] < row["difference"] < row["difference_high"]
    assert row["ratio"] != pytest.approx(DOCKER.mean() / NATIVE.mean(), rel=0.01)
    other = contrasts(table_of({"native": list(NATIVE), "docker": list(DOCKER)}, **MAIL), "native", {"": 0.02}).iloc[0]
    assert other["ratio"] == pytest.approx(DOCKER.mean() / NATIVE.mean())


def test_a_rate_and_its_time_say_the_same() -> None:
    """`total_s` of a download is its bytes over its rate: both have one verdict and inverse ratios."""
    rates = {"native": list(NATIVE), "docker": list(DOCKER)}
    times = {name: list(1e6 / np.array(each)) for name, each in rates.items()}
    by_rate = contrasts(table_of(rates, **FTP), "native", {"": 0.02}).iloc[0]
    kind = {"workload": "ftp", "metric": "total_s", "unit": "s", "better": "lower"}
    by_time = contrasts(table_of(times, **kind), "native", {"": 0.02}).iloc[0]
    assert by_rate["ratio"] * by_time["ratio"] == pytest.approx(1)
    assert by_rate["ratio_low"] * by_time["ratio_high"] == pytest.approx(1)
    assert (by_rate["verdict"], by_rate["p"]) == (by_time["verdict"], pytest.approx(by_time["p"]))


def test_a_coarse_step_of_the_rate_widens_as_much_as_before() -> None:
    rng = np.random.default_rng(3)
    coarse = {"native": list(np.round(rng.normal(100, 0.4, 30))), "docker": list(np.round(rng.normal(100, 0.4, 30)))}
    by_work = contrasts(table_of(coarse, **FTP), "native", {"": 0.02}).iloc[0]
    by_time = contrasts(table_of(coarse, **MAIL), "native", {"": 0.02}).iloc[0]
    assert "resolution-limited" in by_work["flags"]
    names = ["ratio_low", "ratio_high", "difference_low", "difference_high"]
    assert by_work[names].astype(float).to_numpy() == pytest.approx(by_time[names].astype(float).to_numpy(), rel=1e-2)


def test_a_rate_of_zero_has_no_time_and_is_compared_as_it_is() -> None:
    values = {"native": [5.0, 6, 4, 5, 6, 5], "docker": [0.0, 1, 2, 0, 1, 2]}
    work, time = (contrasts(table_of(values, **kind), "native", {"": 0.02}).iloc[0] for kind in (FTP, MAIL))
    assert work["ratio"] == time["ratio"] == pytest.approx(1 / 5.1666667)
    assert estimates(table_of(values, **FTP)).set_index("system").loc["docker", "mean"] == 1.0


def served(failed: int) -> pd.DataFrame:
    """Return 12 trials a system of 1000 requests in about a second, of whose last on docker so many failed."""
    times_s = {"native": NATIVE / 100, "docker": DOCKER / 100}
    lost = {"native": np.zeros(12), "docker": np.append(np.zeros(11), failed)}
    rates = {name: (1000 - lost[name]) / times_s[name] for name in times_s}
    of_all = (("requests_per_s", "1/s", "higher", rates), ("total_s", "s", "lower", times_s),
              ("failed_requests", "1", "lower", lost))  # fmt: skip
    return pd.concat(
        [table_of(values, workload="web", metric=metric, unit=unit, better=better)
         for metric, unit, better, values in of_all], ignore_index=True,
    )  # fmt: skip


def test_where_work_failed_it_is_told_what_all_work_over_all_time_is() -> None:
    table = served(990)
    native, docker = (1000 * 12 - lost for lost in (0, 990))
    over_time = {"native": native / NATIVE.sum() * 100, "docker": docker / DOCKER.sum() * 100}
    rates = estimates(table).query("metric == 'requests_per_s'").set_index("system")
    factor = over_time["docker"] / rates.loc["docker", "mean"]
    assert factor > 5  # a trial of ten pages weighs as much as one of a thousand
    assert rates.loc["docker", "mean_method"].endswith(FAILED_WORK.format(factor=factor))
    assert rates.loc["native", "mean_method"] == T_OF_TIMES
    assert list(estimates_table(rates.reset_index())["method"]) == [rates.loc["docker", "mean_method"], ""]
    ratio = over_time["docker"] / over_time["native"]
    for each in (table, select_metric(table, "web", "requests_per_s")):
        (row,) = contrasts(each, "native", {"": 0.02}).query("metric == 'requests_per_s'").itertuples()
        assert f"all work over all time is {ratio:.3g} times native" in row.reason


def test_where_hardly_any_work_failed_nothing_is_told() -> None:
    rates = estimates(served(5)).query("metric == 'requests_per_s'")
    assert {*rates["mean_method"]} == {T_OF_TIMES}
    assert not contrasts(served(5), "native", {"": 0.02})["reason"].str.contains("all work").any()
