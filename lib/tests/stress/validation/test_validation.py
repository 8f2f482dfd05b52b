from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from infrabench import cli
from infrabench.core import DesignError
from infrabench.experiment.design import orders
from infrabench.stats import dependence, events, intervals, losses, meta_analysis, multiplicity, pairwise, segmentation
from infrabench.stats import verdicts as judging
from infrabench.stats.intervals import Interval
from infrabench_selfcheck import known_answers
from infrabench_selfcheck.known_answers import relabelled
from infrabench_selfcheck.validation import CHECKS, choose_checks, comparisons, format_outcome, pipelines, run
from infrabench_selfcheck.validation import generators as made
from infrabench_selfcheck.validation import sites as several
from infrabench_selfcheck.validation.check import Check, SimulatedCase, at_most, binomial_band, carry_out, near


@pytest.mark.parametrize("name", CHECKS)
def test_validation(name):
    told = list(carry_out(CHECKS[name]))
    assert [format_outcome(outcome) for outcome in told if not outcome.passed] == []
    assert told


def test_every_check_is_there_once_in_order():
    assert list(CHECKS) == [*(f"V{i}" for i in range(1, 31) if i != 6), *(f"N{i}" for i in range(1, 11))]


# the harness can fail


def z_interval(values):
    half = stats.norm.ppf(0.975) * values.std(axis=-1, ddof=1) / np.sqrt(values.shape[-1])
    return Interval(values.mean(axis=-1) - half, values.mean(axis=-1) + half, 0.95)


def failed(name):
    return [outcome.what for outcome in carry_out(CHECKS[name]) if not outcome.passed]


def halved_number(right):
    return lambda *given: np.floor(right(*given) / 2)


def halved_p(right):
    def fault(x, y):
        found = right(x, y)
        return found._replace(p=np.asarray(found.p) / 2)

    return fault


# what is wrong: where, what stands there instead, and what a check says of it at least how often
FAULTS = {
    "clustered events taken as independent": (events, "DISPERSED", lambda _: 0.0, "V20", "called different", 2),
    "an inexact interval of a ratio of counts": (
        events, "poisson_ratio", lambda right: lambda x, y, level=0.95: right(x, y, 0.9), "V21", "exact ratio", 1,
    ),
    "a normal quantile in place of Student's": (
        intervals, "t_interval", lambda _: z_interval, "V1", "t interval: normal, n = 5", 1,
    ),
    "half a p of few pairs": (pairwise, "paired_t", halved_p, "V7", "paired t with Holm", 1),
    "half a p of some pairs": (pairwise, "paired_t", halved_p, "V8", "", 1),
    "a p of ranks that is always 1": (
        comparisons, "friedman", lambda right: lambda x: right(x)._replace(iman_davenport_p=np.ones(len(x))), "V7",
        "Friedman, Iman-Davenport F", 1,
    ),
    "adjusted p that are always 1": (
        multiplicity, "benjamini_hochberg", lambda _: np.ones_like, "V8", "Benjamini-Hochberg, real effects found", 1,
    ),
    "deployments that are never called different": (
        pipelines, "contrasts", lambda right: lambda *given: right(*given).assign(verdict=judging.INCONCLUSIVE), "V13",
        "called different", 1,
    ),
    "ranks of the median that are one too narrow": (
        intervals, "median_ranks", lambda right: lambda n: (right(n)[0] + 1, right(n)[1] - 1, 0.95), "V2", "median", 8,
    ),
    "claims of equivalence that are not adjusted": (
        multiplicity, "holm", lambda _: np.asarray, "V23", "Holm, any claimed", 1,
    ),
    "half the number of blocks": (judging, "blocks_to_decide", halved_number, "V24", "so many decide", 1),
    "half the number of blocks, which was reached": (
        judging, "blocks_to_decide", halved_number, "V24", "names none, or one that was reached", 1,
    ),
    "a flag that leaves the effective n out": (
        dependence, "dependent_pairs", lambda _: dependence.dependent, "V25",
        "contrast flagged dependent: systems AR(1) of 0.6 under as much noise, n = 30", 1,
    ),
    "systems of a case that stand apart": (
        orders, "order", lambda right: lambda _, **of: right("random", **of), "V27", "SD of the log ratio", 2,
    ),
    "errors of sites taken as known": (
        meta_analysis, "welch_homogeneity",
        lambda right: lambda y, e, df, between=0.0: right(y, e, np.inf, between), "V17",
        "Welch's test of equal sites: 3 sites of 6 deployments, one true value", 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("module", "name", "fault", "check", "said", "count"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_caught(module, name, fault, check, said, count, monkeypatch):
    monkeypatch.setattr(module, name, fault(getattr(module, name)))
    assert len([what for what in failed(check) if what.startswith(said)]) >= count


def test_a_verdict_on_the_rest_of_the_trials_is_caught(monkeypatch):
    monkeypatch.setattr(losses, "is_lost", np.zeros_like)
    monkeypatch.setattr(losses, "unequal_p", lambda *_: 1.0)
    assert [what for what in failed("V26") if "called different: the slowest 10" in what]


def test_sessions_taken_as_independent_where_nights_resemble_the_night_before_are_caught(monkeypatch):
    (case,) = (each for each in CHECKS["V30"].cases if each.data.startswith("6 series of 30 sessions, correlation"))
    monkeypatch.setattr(segmentation, "CORRELATION", 0.0)
    segmentation._tail.cache_clear()  # simulated with the other one
    try:
        (outcome,) = carry_out(replace(CHECKS["V30"], cases=(case,)))
    finally:
        segmentation._tail.cache_clear()
    assert not outcome.passed


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


def test_one_system_always_first_on_a_machine_that_tires_is_caught(monkeypatch):
    right = orders.order

    def first_always_first(kind, **of):
        places = right(kind, **of)
        if kind == "random":
            return places
        return [(system, case) for case in dict.fromkeys(case for _, case in places) for system in (0, 1)]

    monkeypatch.setattr(orders, "order", first_always_first)
    assert failed("V27") == ["called different in adjacent order: the same, 10 % slower in each block, 30 blocks"]


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


# report and command line


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
