from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from infrabench import cli
from infrabench.analysis.tidy import check as tidy_check
from infrabench.core import DesignError, InfrabenchError
from infrabench.experiment.design import orders
from infrabench.stats import dependence, events, intervals, losses, meta_analysis, multiplicity, pairwise, segmentation
from infrabench.stats import verdicts as judging
from infrabench.stats.intervals import Interval
from infrabench_selfcheck import known_answers
from infrabench_selfcheck.known_answers import relabelled
from infrabench_selfcheck.validation import CHECKS, choose_checks, format_outcome, lines, pipelines, run
from infrabench_selfcheck.validation import generators as made
from infrabench_selfcheck.validation import sites as several
from infrabench_selfcheck.validation.check import (
    Check,
    SimulatedCase,
    at_most,
    binomial_band,
    carry_out,
    near,
)


@pytest.mark.parametrize("name", CHECKS)
def test_validation(name):
    told = list(carry_out(CHECKS[name]))
    assert [format_outcome(outcome) for outcome in told if not outcome.passed] == []
    assert told


def test_every_check_is_there_once_in_order():
    assert list(CHECKS) == [*(f"V{i}" for i in range(1, 31) if i != 6), *(f"N{i}" for i in range(1, 11))]


# the harness can fail


def z_interval(values, level=0.95):
    half = stats.norm.ppf((1 + level) / 2) * values.std(axis=-1, ddof=1) / np.sqrt(values.shape[-1])
    return Interval(values.mean(axis=-1) - half, values.mean(axis=-1) + half, level)


def failed(name):
    return [outcome.what for outcome in carry_out(CHECKS[name]) if not outcome.passed]


def test_events_taken_as_independent_where_they_come_in_clusters_are_caught(monkeypatch):
    monkeypatch.setattr(events, "DISPERSED", 0.0)
    assert len(failed("V20")) >= 2


def test_a_verdict_on_the_rest_of_the_trials_is_caught(monkeypatch):
    monkeypatch.setattr(losses, "is_lost", np.zeros_like)
    monkeypatch.setattr(losses, "unequal_p", lambda *_: 1.0)
    assert [what for what in failed("V26") if "called different: the slowest 10" in what]


def test_an_inexact_interval_of_a_ratio_of_counts_is_caught(monkeypatch):
    right = events.poisson_ratio
    monkeypatch.setattr(events, "poisson_ratio", lambda x, y, level=0.95: right(x, y, 0.9))
    assert [what for what in failed("V21") if "exact ratio" in what]


def test_sessions_taken_as_independent_where_nights_resemble_the_night_before_are_caught(monkeypatch):
    (case,) = (each for each in CHECKS["V30"].cases if each.data.startswith("6 series of 30 sessions, correlation"))
    monkeypatch.setattr(segmentation, "CORRELATION", 0.0)
    segmentation._tail.cache_clear()  # simulated with the other one
    try:
        (outcome,) = carry_out(replace(CHECKS["V30"], cases=(case,)))
    finally:
        segmentation._tail.cache_clear()
    assert not outcome.passed


def test_a_normal_quantile_in_place_of_students_is_caught(monkeypatch):
    monkeypatch.setattr(intervals, "t_interval", z_interval)
    assert "t interval: normal, n = 5" in failed("V1")


def test_one_degree_of_freedom_too_many_is_caught_where_there_are_few_pairs(monkeypatch):
    right = pairwise.paired_t

    def more_sure(x, y, level=0.95):
        found = right(x, y, level)
        return found._replace(p=np.asarray(found.p) / 2)

    monkeypatch.setattr(pairwise, "paired_t", more_sure)
    assert failed("V7")
    assert failed("V8")


def test_ranks_of_the_median_that_are_one_too_narrow_are_caught(monkeypatch):
    right = intervals.median_ranks
    monkeypatch.setattr(intervals, "median_ranks", lambda n, level=0.95: (right(n)[0] + 1, right(n)[1] - 1, 0.95))
    assert len(failed("V2")) == 8


def whole_way(name, data, spoil, monkeypatch):
    right = pipelines.contrasts
    monkeypatch.setattr(pipelines, "contrasts", lambda table, *rest: right(spoil(table), *rest))
    (case,) = (case for case in CHECKS[name].cases if data in case.data)
    (outcome,) = carry_out(replace(CHECKS[name], cases=(replace(case, fast=500),)))
    return outcome


def test_runs_of_a_deployment_taken_as_independent_are_caught_on_the_whole_way(monkeypatch):
    outcome = whole_way("V13", "6 deployments", lambda table: table.assign(deployment=0), monkeypatch)
    assert not outcome.passed
    assert outcome.estimate == pytest.approx(0.27, abs=0.06)


def test_pairs_from_different_blocks_are_caught_on_the_whole_way(monkeypatch):
    def swapped(table):
        first_half = (table["system"] == "native") & (table["block"] < 15)
        second_half = (table["system"] == "native") & (table["block"] >= 15)
        return table.assign(block=table["block"] + 15 * first_half - 15 * second_half)

    outcome = whole_way("V12", "linear drift of 3 %", swapped, monkeypatch)
    assert not outcome.passed
    assert outcome.estimate < 0.02


def test_equivalence_of_geometric_means_is_caught_on_skewed_values(monkeypatch):
    right = pairwise.ratio_equivalence

    def of_logs(x, y, margin, off=0.0):
        moments = pairwise.log_moments(x, y)
        p = stats.t.cdf((np.abs(moments.estimate) + np.log1p(-margin)) / moments.error, moments.df)
        return right(x, y, margin, off)._replace(p=p)

    monkeypatch.setattr(pairwise, "ratio_equivalence", of_logs)
    (outside, *_) = carry_out(CHECKS["V22"])
    assert outside.estimate == pytest.approx(0.35, abs=0.04)
    assert not outside.passed


def test_claims_of_equivalence_that_are_not_adjusted_are_caught(monkeypatch):
    monkeypatch.setattr(multiplicity, "holm", np.asarray)
    (wrong,) = failed("V23")
    assert wrong.startswith("Holm, any claimed")


def test_a_number_of_blocks_from_the_present_spread_and_half_the_need_is_caught(monkeypatch):
    right = judging.blocks_to_decide
    monkeypatch.setattr(judging, "blocks_to_decide", lambda *given: np.floor(right(*given) / 2))
    wrong = failed("V24")
    assert any(each.startswith("so many decide") for each in wrong)
    assert any(each.startswith("names none, or one that was reached") for each in wrong)


def test_the_variance_between_sites_taken_for_its_estimate_is_caught(monkeypatch):
    right = meta_analysis.summary

    def plugged_in(estimate, error, df):
        found = right(estimate, error, df)
        between = meta_analysis.between_variance(estimate, error)
        mean = meta_analysis.weighted(estimate, error, np.inf, between)
        half = 1.96 * np.sqrt(mean.variance)
        new = stats.t.ppf(0.975, estimate.shape[-1] - 1) * np.sqrt(between + mean.variance)
        return found._replace(
            interval=Interval(mean.mean - half, mean.mean + half, 0.95),
            predicted=Interval(mean.mean - new, mean.mean + new, 0.95),
        )

    monkeypatch.setattr(meta_analysis, "summary", plugged_in)
    wrong = failed("V16")
    assert "interval of a new site: 10 sites, sd between sites 1 errors" in wrong
    assert "interval of the mean: 3 sites, sd between sites 10 errors" in wrong


def test_a_flag_that_leaves_the_effective_n_out_is_caught(monkeypatch):
    monkeypatch.setattr(dependence, "dependent_pairs", dependence.dependent)
    assert "contrast flagged dependent: systems AR(1) of 0.6 under as much noise, n = 30" in failed("V25")


def test_one_system_always_first_on_a_machine_that_tires_is_caught(monkeypatch):
    right = orders.order

    def first_always_first(kind, **of):
        places = right(kind, **of)
        if kind == "random":
            return places
        return [(system, case) for case in dict.fromkeys(case for _, case in places) for system in (0, 1)]

    monkeypatch.setattr(orders, "order", first_always_first)
    assert failed("V27") == ["called different in adjacent order: the same, 10 % slower in each block, 30 blocks"]


def test_systems_of_a_case_that_stand_apart_are_caught(monkeypatch):
    right = orders.order
    monkeypatch.setattr(orders, "order", lambda _, **of: right("random", **of))
    assert len([each for each in failed("V27") if each.startswith("SD of the log ratio")]) == 2


def test_errors_of_sites_taken_as_known_are_caught(monkeypatch):
    right = meta_analysis.welch_homogeneity
    monkeypatch.setattr(meta_analysis, "welch_homogeneity", lambda y, e, df, between=0.0: right(y, e, np.inf, between))
    assert "Welch's test of equal sites: 3 sites of 6 deployments, one true value" in failed("V17")


@pytest.mark.parametrize(
    ("name", "tame"),
    [
        ("N1", made.sample(made.normal(), 50)),
        ("N2", made.ar1(0.0, 30)),
        ("N3", made.campaigns("no drift", 30, sequential=True)),
        ("N5", made.deployed(1, 30, 0.0)),
        ("N6", made.pooled(5, 60, 0.0)),
        ("N8", several.blocks(5, 0.0)),
        ("N9", several.campaign(5, 0.0)),
        ("N10", several.campaign(10, 0.0)),
    ],
)
def test_a_control_that_looks_nominal_is_a_failure(name, tame):
    (case,) = CHECKS[name].cases
    (outcome,) = carry_out(replace(CHECKS[name], cases=(replace(case, generate=tame),)))
    assert not outcome.passed


def test_a_procedure_without_an_answer_for_each_replicate_is_an_error():
    def silent(x):
        return np.full(len(x), np.nan)

    for procedure in (silent, lambda x: np.ones(3), lambda x: True):
        case = SimulatedCase("normal", made.sample(made.normal(), 5), (("broken", procedure, near(0.5)),), fast=10)
        with pytest.raises(ValueError, match="broken: expected one answer for each of 10 replicates"):
            list(carry_out(Check("X", "broken", (case,))))


# bands and seeds


@pytest.mark.parametrize(
    ("p", "replicates", "low", "high"),
    [
        (0.95, 2_000, 0.9335, 0.9655),
        (0.05, 2_000, 0.0345, 0.0665),
        (0.95, 10_000, 0.9427, 0.9570),
        (0.05, 10_000, 0.0430, 0.0573),
        (0.95, 20_000, 0.9449, 0.9550),
        (0.05, 20_000, 0.0450, 0.0552),
    ],
)
def test_bands_are_the_exact_binomial_ones(p, replicates, low, high):
    assert binomial_band(p, replicates) == pytest.approx((low, high), abs=5.1e-5)
    assert stats.binom.cdf(high * replicates, replicates, p) > 0.999
    assert near(p)(replicates) == binomial_band(p, replicates)
    assert at_most(p)(replicates) == (0.0, binomial_band(p, replicates).high)


def test_a_rounded_reference_has_a_wider_band():
    exact, rounded = near(0.81)(2_000), near(0.81, rounded=0.005)(2_000)
    assert rounded.low < exact.low
    assert exact.high < rounded.high
    with pytest.raises(ValueError, match="p is between 0 and 1"):
        binomial_band(1.5, 10)


def test_the_seed_decides_and_more_replicates_extend_the_same_stream():
    seen = []

    def keep(x):
        seen.append(x)
        return x[:, 0] > 0

    case = SimulatedCase("normal", made.sample(made.normal(), 2), (("kept", keep, near(0.5)),), 20, 50, 10)
    check = Check("X", "kept", (case,))
    fast, again, other = (list(carry_out(check, seed=seed)) for seed in (1, 1, 2))
    assert fast[0]._replace(seconds=0) == again[0]._replace(seconds=0)
    assert fast[0].estimate != other[0].estimate or not np.array_equal(seen[0], seen[4])
    (full,) = carry_out(check, full=True, seed=1)
    assert full.replicates == 50
    assert np.array_equal(np.concatenate(seen[:2]), np.concatenate(seen[6:8]))
    assert not np.array_equal(seen[6], seen[7])


# data whose truth is known


@pytest.mark.parametrize(
    "shape", [made.normal(100, 5), made.lognormal(0.5), made.exponential(), made.bimodal(), made.with_outliers()]
)
def test_shapes_have_the_mean_and_median_that_they_say(shape):
    x = shape.draw(np.random.default_rng(1), (400_000,))
    assert x.mean() == pytest.approx(shape.mean, abs=5 * x.std() / np.sqrt(x.size))
    assert (x <= shape.median).mean() == pytest.approx(0.5, abs=0.004)


def test_dependent_series_have_their_correlation_and_variance():
    x = made.ar1(0.6, 30)(np.random.default_rng(1), 20_000)
    assert x.var() == pytest.approx(1, abs=0.02)
    assert (x[:, 1:] * x[:, :-1]).mean() == pytest.approx(0.6, abs=0.01)


def test_samples_inside_runs_have_the_correlation_asked_for():
    x = made.pooled(5, 60, 0.2)(np.random.default_rng(1), 4_000).reshape(-1, 5, 60)
    assert x.var() == pytest.approx(1, abs=0.03)
    assert (x[..., 0] * x[..., 1]).mean() == pytest.approx(0.2, abs=0.03)
    assert (x[:, 0, 0] * x[:, 1, 0]).mean() == pytest.approx(0.0, abs=0.06)


def test_pairs_have_their_ratio_spread_and_correlation():
    x, y = made.pair(0.95, (0.02, 0.1), 30, 0.8)(np.random.default_rng(1), 5_000)
    assert x.mean() / y.mean() == pytest.approx(0.95, abs=0.002)
    assert (x.std() / x.mean(), y.std() / y.mean()) == pytest.approx((0.02, 0.1), rel=0.02)
    assert np.corrcoef(x.ravel(), y.ravel())[0, 1] == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize("environment", made.ENVIRONMENTS)
def test_campaigns_hold_both_systems_once_in_every_block(environment):
    values, positions = made.campaigns(environment, 30)(np.random.default_rng(1), 50)
    assert values.shape == positions.shape == (50, 2, 30)
    assert (np.sort(positions, axis=1) == np.stack([2 * np.arange(30), 2 * np.arange(30) + 1])).all()
    assert 0.3 < (positions[:, 0] < positions[:, 1]).mean() < 0.7
    assert values.mean() == pytest.approx(100, abs=3)


def test_a_sequential_campaign_puts_the_drift_between_the_systems():
    values, positions = made.campaigns("linear drift of 3 %", 30, sequential=True)(np.random.default_rng(1), 500)
    assert (positions[0, 0].max(), positions[0, 1].min()) == (29, 30)
    assert (values[:, 1] - values[:, 0]).mean() == pytest.approx(100 * 0.03 * 30 / 59, abs=0.05)


def test_campaigns_become_a_tidy_table():
    values = np.arange(24.0).reshape(2, 3, 4)
    table = made.campaigns_table(values, ("a", "b", "c"), deployment=np.array([0, 0, 1, 1]))
    assert len(tidy_check(table)) == 24
    cell = table[(table["scenario"] == "c00001") & (table["system"] == "b")].sort_values("block")
    assert cell["value"].tolist() == values[1, 1].tolist()
    assert cell["deployment"].tolist() == [0, 0, 1, 1]
    assert table.groupby("scenario")["position"].apply(list).map(lambda p: p == list(range(12))).all()


# report and command line


def outcome_of(name, **changed):
    return next(iter(carry_out(CHECKS[name])))._replace(**changed)


def test_the_report_counts_and_names_what_failed():
    told = []
    with pytest.raises(InfrabenchError, match="1 of 2 checks failed: V1 t interval"):
        told.extend(lines([outcome_of("V1"), outcome_of("V1", estimate=0.9, passed=False)]))
    assert [each.split()[3] for each in told if "t interval: " in each] == ["passed", "FAILED"]
    assert told[-1].startswith("1 of 2 passed")


def test_unknown_checks_are_named():
    with pytest.raises(DesignError, match="unknown check V99: there are V1, V2"):
        choose_checks(["V1", "V99"])
    assert [check.id for check in choose_checks(["N1", "V3"])] == ["V3", "N1"]
    assert {outcome.id for outcome in run(["V1"])} == {"V1"}


def test_the_command_prints_a_table_and_its_status_says_whether_all_passed(capsys, monkeypatch):
    assert cli.main(["selfcheck", "statistics", "--only", "V1", "N2"]) == 0
    out = capsys.readouterr().out
    assert "t interval: normal, n = 5" in out
    assert "control: t interval of a dependent series" in out
    assert "4 of 4 passed" in out
    monkeypatch.setattr(intervals, "t_interval", z_interval)
    assert cli.main(["selfcheck", "statistics", "--only", "V1"]) == 1
    said = capsys.readouterr()
    assert "FAILED" in said.out
    assert "checks failed: V1 t interval: normal, n = 5" in said.err
    assert cli.main(["selfcheck", "statistics", "--only", "V99"]) == 2


# labels swapped on recorded data


def identical(seed=3, blocks=30, effect=1.0, cases=20):
    rng = np.random.default_rng(seed)
    values = 100 * np.exp(rng.normal(0, 0.02, (cases, 1, blocks)) + rng.normal(0, 0.01, (cases, 2, blocks)))
    values[:, 1] *= effect
    return values


def test_swapped_labels_of_one_system_differ_as_often_as_they_should():
    table = made.campaigns_table(identical(), ("native", "again"))
    found = relabelled(table, "native", "again", n=4_000)
    assert found.band == binomial_band(0.05, 4_000)
    assert found.share == pytest.approx(0.05, abs=0.003)
    assert found.share == pytest.approx(found.cases["share"].mean())
    assert len(found.cases) == 20
    assert found.cases["within"].mean() > 0.9
    again = relabelled(table, "native", "again", n=4_000)
    assert again.cases.equals(found.cases)


def test_an_analysis_that_is_too_sure_is_seen_on_swapped_labels(monkeypatch):
    right = known_answers.paired_fieller
    monkeypatch.setattr(known_answers, "paired_fieller", lambda x, y: right(x, y, 0.8))
    found = relabelled(made.campaigns_table(identical(), ("native", "again")), "native", "again")
    assert found.share > found.band.high


def test_deployments_are_swapped_whole():
    values = np.random.default_rng(1).normal(100, 1, (3, 2, 40))
    values += np.repeat(np.random.default_rng(2).normal(0, 5, (3, 2, 8)), 5, axis=-1)
    table = made.campaigns_table(values, ("a", "b"), deployment=np.repeat(np.arange(8), 5))
    assert relabelled(table, "a", "b").cases["n_pairs"].tolist() == [8, 8, 8]


def test_a_block_that_holds_most_of_the_variance_is_named_and_makes_the_interval_cautious() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(100, 1, (2, 1, 30))
    values[1, 0, 4] = 300
    table = made.campaigns_table(values.swapaxes(0, 1), ("native", "again"))
    found = relabelled(table, "native", "again")
    assert found.cases["dominated"].tolist() == [True]
    assert found.share < 0.01
    assert np.isnan(found.even)


def test_labels_that_do_not_exist_and_too_few_blocks_are_refused():
    table = made.campaigns_table(identical(blocks=5), ("native", "again"))
    with pytest.raises(DesignError, match="no system other in the table"):
        relabelled(table, "native", "other")
    with pytest.raises(DesignError, match="no case has 6 complete pairs"):
        relabelled(table, "native", "again")
