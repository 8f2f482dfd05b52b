"""Counts and shares: kernels against other implementations, verdicts that clusters do not make, exact intervals."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats import rates
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from infrabench.analysis.tables import estimates_table
from infrabench.stats import contrasts, diagnostics, estimates, events, interim
from infrabench.stats.estimates import CLOPPER_PEARSON, EFFECTIVE, GARWOOD, Means, event_means, largest
from infrabench.stats.intervals import t_interval
from infrabench.stats.verdicts import DIFFERENT, EQUIVALENT, INCONCLUSIVE, NOT_COMPARABLE
from tests.support.analysis_fixtures import table_of

COUNTS = st.integers(0, 60)


@settings(deadline=None, max_examples=60)
@given(COUNTS, COUNTS)
def test_ratio_follows_from_clopper_and_pearson(x: int, y: int) -> None:
    if x + y:
        ends = (share / (1 - share) if share < 1 else np.inf for share in proportion_confint(x, x + y, method="beta"))
        assert events.poisson_ratio(x, y).interval[:2] == pytest.approx(tuple(ends), rel=1e-9)
        exact = rates.test_poisson_2indep(x, 1, y, 1, method="exact-cond").pvalue
        assert events.poisson_p(x, y) == pytest.approx(exact, rel=1e-9)


@settings(deadline=None, max_examples=60)
@given(COUNTS, COUNTS)
def test_interval_and_p_never_contradict(x: int, y: int) -> None:
    if not x + y:
        return
    p, ends = events.poisson_p(x, y), events.poisson_ratio(x, y).interval
    assert (p < 0.05 - 1e-9) <= (not ends.low <= 1 <= ends.high) <= (p <= 0.05 + 1e-9)
    narrow, inside = events.poisson_ratio(x, y, 0.9).interval, events.poisson_equivalence(x, y, 0.8, 1.25)
    assert (inside < 0.05 - 1e-9) <= (narrow.low > 0.8 and narrow.high < 1.25) <= (inside <= 0.05 + 1e-9)


def test_no_event_at_all_says_nothing_of_a_ratio() -> None:
    found = events.poisson_ratio([0, 1], [0, 1])
    assert np.isnan([found.value[0], found.interval.low[0], found.interval.high[0]]).all()
    assert np.isfinite(found.interval.low[1])
    assert np.isnan(events.poisson_p(0, 0))
    assert np.isnan(events.poisson_equivalence(0, 0, 0.9, 1.1))
    assert events.poisson_difference(0, 0, 30)[:2] == pytest.approx((-3.688879 / 30, 3.688879 / 30))


def test_interval_of_one_rate_is_garwoods() -> None:
    for x in (0, 1, 7, 200):
        assert events.poisson_interval(x, 4.0)[:2] == pytest.approx(
            rates.confint_poisson(x, 4.0, method="exact-c"), rel=1e-9
        )
    assert np.isnan(events.poisson_interval(np.nan, 1.0).low)


@pytest.mark.parametrize(
    ("x", "m", "y", "n", "ends"),
    [  # Newcombe 1998, table II, method 10
        (56, 70, 48, 80, (0.0524, 0.3339)),
        (9, 10, 3, 10, (0.1705, 0.8090)),
        (6, 7, 2, 7, (0.0582, 0.8062)),
        (5, 56, 0, 29, (-0.0381, 0.1926)),
        (0, 10, 0, 20, (-0.1611, 0.2775)),
        (10, 10, 0, 20, (0.6791, 1.0000)),
        (10, 10, 0, 10, (0.6075, 1.0000)),
    ],
)
def test_reference_newcombe(x: int, m: int, y: int, n: int, ends: tuple[float, float]) -> None:
    found = events.newcombe_interval(x, m, y, n)[:2]
    assert found == pytest.approx(ends, abs=5e-5)
    assert found == pytest.approx(confint_proportions_2indep(x, m, y, n, method="newcomb"), abs=1e-9)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 30), st.integers(0, 30), st.floats(-0.3, 0.3))
def test_newcombes_p_is_that_of_its_interval(x: int, y: int, margin: float) -> None:
    p = events.newcombe_p(x, 30, y, 30, margin)
    if not 1e-6 < p < 1 - 1e-6:
        return
    low, high = events.newcombe_interval(x, 30, y, 30, 1 - p)[:2]
    assert min(abs(low - margin), abs(high - margin)) < 1e-5


def test_shares_without_trials_say_nothing() -> None:
    assert np.isnan(events.newcombe_interval(0, 0, 1, 3).low)
    assert np.isnan(events.newcombe_p(0, 0, 1, 3))
    assert events.newcombe_p(3, 3, 3, 3) == 1.0


def test_dispersion_is_fishers_index() -> None:
    counts = np.random.default_rng(1).poisson(3.0, 20)
    square = ((counts - counts.mean()) ** 2).sum() / counts.mean()
    assert events.dispersion_p(counts[None], 1.0) == pytest.approx(stats.chi2.sf(square, 19))
    trials, hits = np.array([10.0, 20, 30]), np.array([3.0, 9, 5])
    table = np.array([hits, trials - hits])
    expected = stats.chi2_contingency(table, correction=False).pvalue
    assert events.dispersion_p(hits[None], trials, of_trials=True) == pytest.approx(expected)
    assert events.dispersion_p([[6.0, 0, 0, 0, 0, 0], [0.0] * 6], 1.0) < 1e-4  # all in one block
    assert np.isnan(events.dispersion_p([[3.0], [1.0]], 1.0))
    assert np.isnan(events.dispersion_p([[0.0, 0.0]], 1.0))


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=10))
def test_typical_values_are_the_sign_flip_test_inverted(pairs: list[tuple[int, int]]) -> None:
    x, y = np.array(pairs, dtype=float).T
    sums = events.subset_sums(x, y, np.ones(x.size))
    found, p = events.typical_values(sums), events.typical_p(sums)
    signs = np.array(list(itertools.product((-1, 1), repeat=x.size)))
    flipped, own = signs @ (x - y), (x - y).sum()
    tail = min((flipped >= own).mean(), (flipped <= own).mean())
    assert p == pytest.approx(min(1.0, 2 * tail))
    if x.size < 6:
        assert np.isnan(found.ratio.low)
        return
    apart = p <= 0.05 + 1e-12
    assert apart == (not found.difference.low <= 0 <= found.difference.high)
    assert apart == (not found.ratio.low <= 1 <= found.ratio.high)


def test_typical_values_drawn_agree_with_the_test_that_counts() -> None:
    x, y = np.random.default_rng(2).poisson((3.0, 1.5), (30, 2)).T.astype(float)
    sums = events.subset_sums(x, y, np.ones(30))
    found = events.typical_values(sums)
    chances, apart = np.ones(1), x - y
    for each in np.abs(apart[apart != 0]).astype(int):  # every sign pattern, by the sums that they have
        chances = (np.pad(chances, (0, 2 * each)) + np.pad(chances, (2 * each, 0))) / 2
    reached = np.abs(np.arange(chances.size) - chances.size // 2) >= abs(apart.sum())
    assert events.typical_p(sums) == pytest.approx(chances[reached].sum(), abs=0.003)
    assert found.ratio.low < x.sum() / y.sum() < found.ratio.high
    turn = np.random.default_rng(3).permutation(30)
    assert events.typical_values(events.subset_sums(x[turn], y[turn], np.ones(30))) == found
    other = events.typical_values(events.subset_sums(y, x, np.ones(30))).ratio
    assert (1 / other.high, 1 / other.low) == pytest.approx(found.ratio[:2], rel=0.05)


def test_events_of_one_block_decide_nothing() -> None:
    x, none = np.zeros(30), np.zeros(30)
    x[4] = 500.0
    sums = events.subset_sums(x, none, np.ones(30))
    assert events.typical_p(sums) == pytest.approx(1.0, abs=0.02)
    assert events.typical_values(sums).ratio[:2] == (0.0, np.inf)


def test_units_weigh_by_their_exposure() -> None:
    x, y, blocks = np.arange(6.0) + 8, np.full(6, 4.0), np.array([1.0, 2, 1, 2, 1, 2])
    found = events.typical_values(events.subset_sums(x, y, blocks)).difference
    each = (x - y) / blocks
    assert (found.low, found.high) == (each.min(), each.max())  # of 63 events.subsets the outermost, single units
    assert np.isnan(events.typical_p(events.subset_sums(np.zeros(0), np.zeros(0), np.zeros(0))))


def test_subsets_are_all_or_drawn() -> None:
    assert events.subsets(3).tolist() == [[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1], [1, 0, 1], [0, 1, 1], [1, 1, 1]]
    assert events.subsets(0).shape == (0, 0)
    assert events.subsets(30).shape == (19_999, 30)
    assert events.subsets(30).any(axis=1).all()
    assert events.subsets(30).mean() == pytest.approx(0.5, abs=0.005)


FAILED = {"workload": "web", "metric": "failed_requests", "unit": "1", "better": "lower"}
LOSS = {"workload": "iperf3", "metric": "loss_percent", "unit": "%", "better": "lower"}
REPAIRED = {"workload": "integrity", "metric": "repaired", "unit": "1", "better": "higher"}


def one(native: object, docker: object, kind: dict[str, str], margin: float = 0.02, **how: int) -> pd.Series:
    values = {"native": [float(v) for v in native], "docker": [float(v) for v in docker]}  # type: ignore[attr-defined]
    return contrasts(table_of(values, **kind, **how), "native", {"": margin}).iloc[0]


def test_zero_against_five_has_a_verdict() -> None:
    row = one([0] * 10, np.random.default_rng(1).poisson(5, 10), FAILED)
    assert (row["verdict"], row["p_method"], row["reason"]) == (DIFFERENT, events.BY_COUNTS, "")
    assert row["ratio"] == row["ratio_high"] == np.inf
    assert 1 < row["ratio_low"] < np.inf
    assert row["p"] < 1e-10
    assert row["difference_low"] > 0
    assert (row["overhead_percent"], row["overhead_high"]) == (np.inf, np.inf)
    other = one(np.random.default_rng(1).poisson(5, 10), [0] * 10, FAILED)
    assert (other["verdict"], other["ratio"], other["ratio_low"]) == (DIFFERENT, 0.0, 0.0)
    assert other["ratio_high"] == pytest.approx(1 / row["ratio_low"])


def test_a_few_events_decide_nothing() -> None:
    row = one([0] * 30, [1, 0, 1, 0, 1, 0, 1, 0, 1, *[0] * 21], FAILED)
    assert (row["verdict"], row["p"]) == (INCONCLUSIVE, pytest.approx(2 / 32))
    assert row["ratio_low"] < 1
    assert row["difference_low"] < 0 < row["difference_high"]
    assert np.isnan(row["n_to_decide"])


def test_no_event_in_either_says_how_many_there_may_be() -> None:
    row = one([0] * 30, [0] * 30, FAILED)
    assert (row["verdict"], row["reason"]) == (NOT_COMPARABLE, "no event in either: at most 0.13 a trial (95 %)")
    assert np.isnan(row["ratio"])
    assert (row["difference_low"], row["difference_high"]) == pytest.approx((-3.688879 / 30, 3.688879 / 30))


@pytest.mark.parametrize("n", [2, 10, 30, 37, 1000])
def test_the_most_events_that_there_may_be_are_rounded_up(n: int) -> None:
    said = events.judge_events("count", np.zeros((2, n)), None, 0.1, percent=False)["reason"]
    most = float(said.partition("at most ")[2].split()[0])
    assert -np.log(0.025) / n <= most < -1.1 * np.log(0.025) / n


def test_many_events_at_one_rate_are_equivalent() -> None:
    x, y = np.random.default_rng(7).poisson(4000, (2, 30))
    row = one(x, y, FAILED)
    assert (row["verdict"], row["p_method"]) == (EQUIVALENT, events.BY_COUNTS)


def test_events_in_one_block_are_no_difference() -> None:
    """Fifty failures at once are one event: as independent ones they gave p of 1e-15."""
    row = one([0] * 30, [50, *[0] * 29], FAILED)
    assert row["verdict"] == INCONCLUSIVE
    assert row["p_method"] == "sign flips over blocks"
    assert row["reason"].startswith(events.CLUSTERED)
    assert row["difference_low"] <= 0


def test_clustered_events_in_every_block_differ() -> None:
    rng = np.random.default_rng(9)
    row = one(20 * rng.poisson(0.3, 30), 20 * rng.poisson(3, 30), FAILED)
    assert (row["verdict"], row["p_method"]) == (DIFFERENT, "sign flips over blocks")
    assert 1 < row["ratio_low"] < row["ratio"] < row["ratio_high"]
    assert row["p"] < 0.001
    zero = one([0] * 30, 20 * rng.poisson(3, 30), FAILED)
    assert (zero["verdict"], zero["ratio"]) == (DIFFERENT, np.inf)
    assert np.isnan(zero["ratio_low"])
    assert zero["difference_low"] > 0


def test_clustered_counts_far_from_0_are_compared_as_any_metric() -> None:
    rng = np.random.default_rng(4)
    x, y = np.rint(100 * np.exp(rng.normal(0, 0.5, (2, 20))) + 50)
    row = one(y, x, FAILED)
    plain = one(y, x, FAILED | {"workload": "unknown"})
    assert row["reason"] == f"{events.CLUSTERED}: compared over blocks"
    assert (row["ratio_low"], row["p"], row["verdict"]) == (plain["ratio_low"], plain["p"], plain["verdict"])


def test_two_blocks_do_not_show_whether_events_are_clustered() -> None:
    row = one([0, 0], [9, 8], FAILED)
    assert (row["verdict"], row["reason"]) == (INCONCLUSIVE, f"{events.FEW_BLOCKS}; fewer than 6 blocks: no interval")
    assert one([0] * 3, [9, 8, 7], FAILED)["verdict"] == DIFFERENT
    assert one([300, 310], [320, 290], FAILED)["reason"].endswith(f"{events.FEW_BLOCKS}: compared over blocks")
    assert one([0], [9], FAILED)["verdict"] == NOT_COMPARABLE


def test_deployments_that_differ_are_the_units() -> None:
    """Each deployment fails in its own way: 24 trials are 6 deployments."""
    row = one([0] * 24, [*[6] * 4, *[0] * 20], FAILED, blocks_per_deployment=4)
    assert (row["verdict"], row["p_method"]) == (INCONCLUSIVE, "sign flips over deployments")
    steady = one([0] * 24, np.random.default_rng(1).poisson(2, 24), FAILED, blocks_per_deployment=4)
    assert (steady["verdict"], steady["p_method"], steady["n_pairs"]) == (DIFFERENT, events.BY_COUNTS, 6)


def test_shares_of_trials_are_compared_by_newcombe() -> None:
    row = one([1] * 10, [0] * 10, REPAIRED)
    assert (row["verdict"], row["p_method"], row["reason"]) == (DIFFERENT, events.BY_SHARES, events.BY_DIFFERENCE)
    assert (row["difference"], row["difference_low"]) == (-1.0, -1.0)
    assert row["difference_high"] == pytest.approx(-0.6075, abs=5e-5)  # Newcombe 1998, table II
    same = one([1] * 10, [1] * 10, REPAIRED)
    assert same["verdict"] == INCONCLUSIVE
    assert (same["difference_low"], same["difference_high"]) == pytest.approx((-0.2775, 0.2775), abs=5e-5)
    assert one([1] * 200, [1] * 200, REPAIRED)["verdict"] == EQUIVALENT


def test_lost_packets_against_none() -> None:
    row = one([0] * 10, np.random.default_rng(3).gamma(2, 0.2, 10), LOSS)
    assert (row["verdict"], row["p"]) == (DIFFERENT, pytest.approx(2 / 1024))
    assert row["reason"] == f"{events.FRACTIONS}: the difference, compared over blocks"
    assert 0 < row["difference_low"] < row["difference"] < row["difference_high"]
    five = one([0] * 10, [0.4, 0.1, 0.2, 0.3, 0.1, *[0] * 5], LOSS)
    assert five["verdict"] == INCONCLUSIVE
    assert one([0] * 10, [0] * 10, LOSS)["verdict"] == NOT_COMPARABLE


@pytest.mark.parametrize("values", [(4000, 4000), (300, 300), (2, 3)])
def test_the_narrow_interval_and_the_p_of_equivalence_agree(values: tuple[int, int]) -> None:
    x, y = np.random.default_rng(8).poisson(np.array(values)[:, None], (2, 30)).astype(float)
    for factor in (1.0, 3.0):  # as they are, and in clusters
        row = events.judge_events("count", np.stack([x * factor, y * factor]), None, 0.1, percent=False)
        if "apart" not in row:
            continue
        inside = row["equivalence_low"] >= 0.9 and row["equivalence_high"] <= 1.1
        assert inside == (row["p_equivalence"] < 0.05)
        assert row["ratio_low"] < row["equivalence_low"] < row["ratio"] < row["equivalence_high"] < row["ratio_high"]


def test_events_in_blocks_that_lack_one_of_the_two_are_told() -> None:
    none = np.zeros((2, 10))
    assert events.judge_events("count", none, None, 0.1, percent=False)["reason"] == events.NOTHING.format(most=0.3689)
    none[:, 9] = 3, np.nan
    row = events.judge_events("count", none, None, 0.1, percent=False)
    assert row["reason"] == events.ELSEWHERE.format(n=9, count=3)
    assert not row["inferred"]


COUNT = np.inf


def cells(values: np.ndarray, top: float) -> Means:
    """Rows of `values` as cells, each of their trials a unit."""
    made = np.asarray(values, dtype=float)
    return event_means(
        made.ravel(), np.repeat(np.arange(len(made)), made.shape[1]), np.arange(made.size), np.full(len(made), top)
    )


def cell(values: object, kind: dict[str, str], **how: int) -> pd.Series:
    return estimates(table_of({"native": [float(v) for v in values]}, **kind, **how)).iloc[0]  # type: ignore[attr-defined]


@pytest.mark.parametrize("counts", [[2, 3, 1, 2, 4, 1], [0, 1, 0, 0, 1, 0], [40, 37, 44, 41, 39, 45]])
def test_independent_counts_have_the_exact_interval_of_poisson(counts: list[int]) -> None:
    row, x, n = cell(counts, FAILED), sum(counts), len(counts)
    assert row["mean_method"] == GARWOOD
    # at each end the counts that were seen, or rarer ones, have a chance of 2.5 %
    assert stats.poisson.sf(x - 1, n * row["mean_low"]) == pytest.approx(0.025)
    assert stats.poisson.cdf(x, n * row["mean_high"]) == pytest.approx(0.025)
    assert row["mean"] == pytest.approx(x / n)


@pytest.mark.parametrize("repaired", [0, 1, 7, 11, 12])
def test_shares_of_trials_have_the_exact_interval_of_the_binomial(repaired: int) -> None:
    row = cell([1] * repaired + [0] * (12 - repaired), REPAIRED)
    exact = stats.binomtest(repaired, 12).proportion_ci(0.95, "exact")
    assert tuple(row[["mean_low", "mean_high"]]) == pytest.approx((exact.low, exact.high))
    assert row["mean_method"] == CLOPPER_PEARSON
    assert events.clopper_pearson(repaired, 12)[:2] == pytest.approx((exact.low, exact.high))


def test_no_event_gives_0_and_an_upper_end() -> None:
    row = cell([0] * 30, FAILED)
    assert (row["mean"], row["mean_low"], row["deterministic"]) == (0, 0, True)
    assert row["mean_high"] == pytest.approx(3.688879 / 30)
    lossless = cell([0] * 30, LOSS)
    assert (lossless["mean_low"], lossless["mean_high"]) == pytest.approx((0, 100 * (1 - 0.025 ** (1 / 30))))
    # it is shown, where a deterministic metric of another kind has no interval
    shown = estimates_table(estimates(table_of({"native": [0.0] * 30}, **FAILED))).iloc[0]
    assert (shown["mean"], shown["mean 95 % CI"], shown["method"]) == ("0.000", "[0.000, 0.123]", GARWOOD)
    other = estimates_table(estimates(table_of({"native": [0.0] * 30}))).iloc[0]
    assert other["mean 95 % CI"] == "deterministic"
    assert "method" not in other


def test_fifty_failures_at_once_are_one_event() -> None:
    row = cell([50, *[0] * 29], FAILED)
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
    row = cell(x, LOSS)
    assert row["mean_method"] == EFFECTIVE.format(method=CLOPPER_PEARSON, unit="trials")
    assert 0 < row["mean_low"] < x.mean() < row["mean_high"]
    assert row["mean_high"] - row["mean_low"] == pytest.approx(np.ptp(t_interval(x)[:2]), rel=0.15)
    alike = cell([0.5] * 8, LOSS)
    assert np.isnan(alike["mean_low"])
    assert alike["mean_method"] == ""


def test_deployments_that_differ_are_the_units_of_a_mean() -> None:
    row = cell([*[6] * 4, *[0] * 20], FAILED, blocks_per_deployment=4)
    assert row["mean_method"] == EFFECTIVE.format(method=GARWOOD, unit="deployments")
    assert row["mean_high"] > 5
    steady = cell(np.random.default_rng(1).poisson(2, 24), FAILED, blocks_per_deployment=4)
    assert (steady["mean_method"], steady["deployments"]) == (GARWOOD, 6)


def test_what_cannot_be_said_has_no_interval() -> None:
    assert np.isnan(cell([3], FAILED)["mean_high"])
    few = cell([9, 8], FAILED)
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
