"""The mean of counts and shares: exact where events are independent, wider where they cluster, and never below 0."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from infrabench.analysis.tables import estimates_table
from infrabench.stats import diagnostics, estimates, interim
from infrabench.stats.estimates import CLOPPER_PEARSON, EFFECTIVE, GARWOOD, Means, event_means, largest
from infrabench.stats.events import clopper_pearson
from infrabench.stats.intervals import t_interval
from tests.support.analysis_fixtures import table_of

FAILED = {"workload": "web", "metric": "failed_requests", "unit": "1", "better": "lower"}
LOSS = {"workload": "iperf3", "metric": "loss_percent", "unit": "%", "better": "lower"}
REPAIRED = {"workload": "integrity", "metric": "repaired", "unit": "1", "better": "higher"}
COUNT, SHARE, PERCENT = np.inf, 1.0, 100.0


def cells(values: np.ndarray, top: float) -> Means:
    """Rows of `values` as cells, each of their trials a unit."""
    made = np.asarray(values, dtype=float)
    return event_means(
        made.ravel(), np.repeat(np.arange(len(made)), made.shape[1]), np.arange(made.size), np.full(len(made), top)
    )


def one(values: object, kind: dict[str, str], **how: int) -> pd.Series:
    return estimates(table_of({"native": [float(v) for v in values]}, **kind, **how)).iloc[0]  # type: ignore[attr-defined]


@pytest.mark.parametrize("counts", [[2, 3, 1, 2, 4, 1], [0, 1, 0, 0, 1, 0], [40, 37, 44, 41, 39, 45]])
def test_independent_counts_have_the_exact_interval_of_poisson(counts: list[int]) -> None:
    row, x, n = one(counts, FAILED), sum(counts), len(counts)
    assert row["mean_method"] == GARWOOD
    # at each end the counts that were seen, or rarer ones, have a chance of 2.5 %
    assert stats.poisson.sf(x - 1, n * row["mean_low"]) == pytest.approx(0.025)
    assert stats.poisson.cdf(x, n * row["mean_high"]) == pytest.approx(0.025)
    assert row["mean"] == pytest.approx(x / n)


@pytest.mark.parametrize("repaired", [0, 1, 7, 11, 12])
def test_shares_of_trials_have_the_exact_interval_of_the_binomial(repaired: int) -> None:
    row = one([1] * repaired + [0] * (12 - repaired), REPAIRED)
    exact = stats.binomtest(repaired, 12).proportion_ci(0.95, "exact")
    assert tuple(row[["mean_low", "mean_high"]]) == pytest.approx((exact.low, exact.high))
    assert row["mean_method"] == CLOPPER_PEARSON
    assert clopper_pearson(repaired, 12)[:2] == pytest.approx((exact.low, exact.high))


def test_no_event_gives_0_and_an_upper_end() -> None:
    row = one([0] * 30, FAILED)
    assert (row["mean"], row["mean_low"], row["deterministic"]) == (0, 0, True)
    assert row["mean_high"] == pytest.approx(3.688879 / 30)
    lossless = one([0] * 30, LOSS)
    assert (lossless["mean_low"], lossless["mean_high"]) == pytest.approx((0, 100 * (1 - 0.025 ** (1 / 30))))
    # it is shown, where a deterministic metric of another kind has no interval
    shown = estimates_table(estimates(table_of({"native": [0.0] * 30}, **FAILED))).iloc[0]
    assert (shown["mean"], shown["mean 95 % CI"], shown["method"]) == ("0.000", "[0.000, 0.123]", GARWOOD)
    other = estimates_table(estimates(table_of({"native": [0.0] * 30}))).iloc[0]
    assert other["mean 95 % CI"] == "deterministic"
    assert "method" not in other


def test_fifty_failures_at_once_are_one_event() -> None:
    row = one([50, *[0] * 29], FAILED)
    assert row["mean_method"] == EFFECTIVE.format(method=GARWOOD, unit="trials")
    low, high = (50 * end / 30 for end in (stats.gamma.ppf(0.025, 1), stats.gamma.ppf(0.975, 2)))
    assert 0 < row["mean_low"] < low
    assert high < row["mean_high"] < 1.1 * high


def test_clustered_counts_far_from_0_have_about_the_interval_of_student() -> None:
    x = 100 + 20 * np.random.default_rng(2).standard_normal((1, 30)).round(1)
    found, student = cells(x, COUNT), t_interval(x)
    assert (found.low[0], found.high[0]) == pytest.approx((student.low[0], student.high[0]), rel=0.01)


def test_shares_inside_trials_rest_on_the_spread_between_them() -> None:
    x = np.random.default_rng(3).gamma(2, 0.2, 20)
    row = one(x, LOSS)
    assert row["mean_method"] == EFFECTIVE.format(method=CLOPPER_PEARSON, unit="trials")
    assert 0 < row["mean_low"] < x.mean() < row["mean_high"]
    assert row["mean_high"] - row["mean_low"] == pytest.approx(np.ptp(t_interval(x)[:2]), rel=0.15)
    alike = one([0.5] * 8, LOSS)
    assert np.isnan(alike["mean_low"])
    assert alike["mean_method"] == ""


def test_deployments_that_differ_are_the_units() -> None:
    row = one([*[6] * 4, *[0] * 20], FAILED, blocks_per_deployment=4)
    assert row["mean_method"] == EFFECTIVE.format(method=GARWOOD, unit="deployments")
    assert row["mean_high"] > 5
    steady = one(np.random.default_rng(1).poisson(2, 24), FAILED, blocks_per_deployment=4)
    assert (steady["mean_method"], steady["deployments"]) == (GARWOOD, 6)


def test_what_cannot_be_said_has_no_interval() -> None:
    assert np.isnan(one([3], FAILED)["mean_high"])
    few = one([9, 8], FAILED)
    assert few["mean_method"] == EFFECTIVE.format(method=GARWOOD, unit="trials")
    assert few["mean_low"] < 4
    assert few["mean_high"] > 17


@pytest.mark.parametrize("kind", [FAILED, LOSS, REPAIRED], ids=lambda kind: kind["metric"])
def test_no_end_is_where_a_count_or_a_share_cannot_be(kind: dict[str, str]) -> None:
    rng = np.random.default_rng(5)
    top = {"failed_requests": np.inf, "loss_percent": 100.0, "repaired": 1.0}[kind["metric"]]
    for _ in range(10):
        rare = rng.random(12) < 0.15
        values = {"repaired": ~rare, "loss_percent": rare * 100, "failed_requests": rare * rng.poisson(9, 12)}
        table = table_of({"native": [float(v) for v in values[kind["metric"]]]}, **kind)
        row = estimates(table).iloc[0]
        said = row[["mean_low", "mean_high", "boot_t_low", "boot_t_high"]].astype(float).dropna()
        said = pd.concat([said, diagnostics(table).iloc[0][["mean_low_eff", "mean_high_eff"]].astype(float).dropna()])
        assert said.between(0, top).all()
        assert row["mean_low"] <= row["mean"] <= row["mean_high"]


def test_a_session_that_runs_says_the_same() -> None:
    table = table_of({"native": [0.0, 1, 0, 0, 2], "docker": [0.0, 9, 0, 0, 30]}, blocks_per_deployment=2, **FAILED)
    now = interim(table, "native", [("web", "failed_requests")]).set_index("system")
    then = estimates(table).set_index("system")
    for name in ("mean", "mean_low", "mean_high"):
        assert now[name].to_dict() == pytest.approx(then[name].to_dict())


def test_what_it_can_be_at_the_most() -> None:
    kinds = np.array(["count", "share", "share", "time"], dtype=object)
    assert largest(kinds, ["1", "1", "%", "s"]) == pytest.approx([np.inf, 1, 100, np.nan], nan_ok=True)


@pytest.mark.parametrize(
    ("mean", "spread", "least"), [(0.05, 1, 0.95), (1, 1, 0.95), (5, 1, 0.94), (1, 3, 0.92), (5, 3, 0.92)]
)
def test_the_interval_of_counts_covers(mean: float, spread: float, least: float) -> None:
    """Student's t covers 39 % of the rarest and 88 % of the clustered ones."""
    rng = np.random.default_rng(11)
    drawn = rng.poisson(mean, (1000, 10))
    if spread > 1:
        drawn = rng.negative_binomial(mean / (spread - 1), 1 / spread, (1000, 10))
    found = cells(drawn, COUNT)
    assert np.mean((found.low <= mean) & (mean <= found.high)) >= least
