"""Several systems, scenarios and levels, and several tests: other implementations, published examples, tables."""

from __future__ import annotations

import warnings
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pingouin
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from infrabench.analysis.tidy import tidy
from infrabench.stats import interactions, omnibus, tiers, trends
from infrabench.stats.multiplicity import TYPES, benjamini_hochberg, by_family, compact_letters, holm
from infrabench.stats.omnibus import (
    INTERACTIONS,
    OMNIBUS,
    TRENDS,
    friedman,
    interaction,
    log_slope,
    worst_friedman,
)
from tests.support.analysis_fixtures import DATA_A, PRIMARY, levels_of, lose, table_of, write_session

X = np.array([DATA_A[name] for name in ("native", "docker", "lxc", "lxd")])


def test_as_scipy_and_pingouin() -> None:
    tied = np.random.default_rng(9).integers(0, 4, (4, 12)).astype(float)
    assert friedman(tied).statistic == pytest.approx(stats.friedmanchisquare(*tied).statistic)
    assert friedman(tied).p == pytest.approx(stats.friedmanchisquare(*tied).pvalue)
    f = pingouin.friedman(pd.DataFrame(X.T), method="f")
    assert friedman(X).iman_davenport_f == pytest.approx(f["F"].iloc[0])


def test_blocks_that_all_agree_cannot_give_a_p_below_what_they_can() -> None:
    agreed = np.arange(3.0)[:, None] + np.linspace(0, 1, 4)
    found = friedman(agreed)
    assert np.isinf(found.iman_davenport_f)
    assert found.iman_davenport_p == pytest.approx(1 / 6**3)
    pair = friedman(np.array([[1.0, 2, 3], [2.0, 3, 4]]))
    assert pair.iman_davenport_p == pytest.approx(0.25)  # 3 blocks of two: the sign test


def test_one_row_for_each_case(tmp_path: Path) -> None:
    found = omnibus(tidy(write_session(tmp_path / "s", blocks=6)), PRIMARY)
    assert tuple(found.columns) == tuple(OMNIBUS)
    stream = found[found["workload"] == "stream"].iloc[0]
    assert stream["k"] == 2  # docker fails stream throughout
    cpu = found[found["workload"] == "sysbench-cpu"]
    assert len(cpu) == 5
    assert (cpu["k"] == 3).all()
    assert (cpu["adjustment"] == "Holm").all()
    assert cpu["p_adjusted"].to_numpy() == pytest.approx(holm(cpu["iman_davenport_p"]))
    assert (cpu["interaction_p"] == cpu["interaction_p"].iloc[0]).all()
    assert np.isnan(found[found["workload"] == "ftp"]["interaction_p"].iloc[0])
    assert found[found["workload"] == "web"]["n"].min() <= 6


def test_reference_data_as_a_table() -> None:
    row = omnibus(table_of(DATA_A)).iloc[0]
    assert (row["k"], row["n"], row["pair_unit"]) == (4, 10, "blocks")
    assert (row["friedman_chi2"], row["friedman_p"]) == pytest.approx((14.28, 0.002547770093), rel=1e-6)
    assert (row["iman_davenport_f"], row["df1"], row["df2"]) == pytest.approx((8.175572519, 3, 27), rel=1e-6)
    assert row["iman_davenport_p"] == pytest.approx(0.0004952643697, rel=1e-6)
    assert row["tiers"] == "a: docker, lxd, native; b: docker, lxc, native"


def test_only_blocks_complete_for_all_systems_count() -> None:
    values: dict[str, list[float | None]] = {name: list(series) for name, series in DATA_A.items()}
    values["native"][2], values["lxd"][7] = None, None
    keep = [i for i in range(10) if i not in (2, 7)]
    table = table_of(values)
    row = omnibus(table).iloc[0]
    assert row["n"] == 8
    assert row["iman_davenport_p"] == pytest.approx(worst_friedman(X[:, keep], 2).iman_davenport_p)
    table.loc[table["state"] == "failed", "state"] = "invalid"  # the machine's doing: missing by chance
    row = omnibus(table).iloc[0]
    assert row["n"] == 8
    assert row["iman_davenport_p"] == pytest.approx(friedman(X[:, keep]).iman_davenport_p)


def test_deployments_are_the_unit_where_there_are_several() -> None:
    row = omnibus(table_of(DATA_A, blocks_per_deployment=2)).iloc[0]
    assert (row["n"], row["pair_unit"]) == (5, "deployments")
    assert row["iman_davenport_p"] == pytest.approx(friedman(X.reshape(4, 5, 2).mean(axis=-1)).iman_davenport_p)


def test_a_single_system_or_block_is_no_comparison() -> None:
    for values in (
        {"native": [1.0, 2, 3]},
        {"native": [1.0], "docker": [2.0]},
        {"native": [1.0, None], "docker": [None, 2.0]},
    ):
        row = omnibus(table_of(values)).iloc[0]
        assert np.isnan(row["iman_davenport_p"])
        assert np.isnan(row["p_adjusted"])
    empty = table_of({"native": [None, None]})
    assert omnibus(empty).empty


def test_interaction_is_the_repeated_measures_test() -> None:
    rng = np.random.default_rng(8)
    values = rng.normal(size=(2, 4, 12)) + np.arange(4)[:, None] * np.array([0, 0.4])[:, None, None]
    found = interaction(values)
    # two systems: one-way repeated measures of the difference over the levels
    change = values[1] - values[0]
    cells = [(level, b, change[level, b]) for level, b in np.ndindex(change.shape)]
    long = pd.DataFrame(cells, columns=["level", "block", "y"])
    expected = pingouin.rm_anova(long, dv="y", within="level", subject="block").iloc[0]
    assert found.statistic == pytest.approx(expected["F"])
    epsilon = pingouin.epsilon(pd.DataFrame(change.T), correction="hf")
    assert (found.df1, found.df2) == pytest.approx((3 * epsilon, 33 * epsilon))
    assert found.p == pytest.approx(stats.f.sf(found.statistic, found.df1, found.df2))
    three = rng.normal(size=(3, 4, 12))
    cells = [(s, level, b, three[s, level, b]) for s, level, b in np.ndindex(three.shape)]
    long = pd.DataFrame(cells, columns=["system", "level", "block", "y"])
    table = pingouin.rm_anova(long, dv="y", within=["system", "level"], subject="block").set_index("Source")
    assert interaction(three).statistic == pytest.approx(table.loc["system * level", "F"])


@pytest.mark.parametrize("shape", [(1, 4, 9), (3, 1, 9), (3, 4, 1)])
def test_no_interaction_without_two_of_each(shape: tuple[int, ...]) -> None:
    assert np.isnan(interaction(np.zeros(shape)).p)
    assert np.isnan(interaction(np.ones((2, 2, 5))).p)


def levels_table(blocks_per_deployment: int = 0, **systems: np.ndarray) -> pd.DataFrame:
    """Each system (levels, blocks) as one case for each level; NaN is a failed trial."""
    given = {name: np.where(np.isnan(values), None, values).tolist() for name, values in systems.items()}
    cases = [dict(zip(given, level, strict=True)) for level in zip(*given.values(), strict=True)]
    return levels_of(dict(enumerate(cases)), "users", blocks_per_deployment=blocks_per_deployment)


def test_a_ratio_that_changes_with_the_level_is_found_and_one_that_does_not_is_not() -> None:
    rng = np.random.default_rng(3)
    native = 100 * np.array([[1.0], [4], [9]]) * np.exp(rng.normal(0, 0.01, (3, 12)))
    steady = 0.9 * native * np.exp(rng.normal(0, 0.01, (3, 12)))
    crossing = np.array([[1.05], [1.0], [0.95]]) * native * np.exp(rng.normal(0, 0.01, (3, 12)))
    table = levels_table(native=native, steady=steady, crossing=crossing)
    found = interactions(table, "native", [("sysbench-cpu", "events_per_s")]).set_index("system")
    assert tuple(interactions(table, "native").columns) == tuple(INTERACTIONS)
    assert found.loc["crossing", "p"] < 1e-6
    assert found.loc["steady", "p"] > 0.05
    assert (found["levels"] == 3).all()
    assert (found["n"] == 12).all()
    assert found["p_adjusted"].min() == pytest.approx(2 * found["p"].min())
    assert (found["adjustment"] == "Holm").all()
    expected = interaction(np.log(np.stack([crossing, native])))
    assert found.loc["crossing", "p"] == pytest.approx(expected.p)


def test_an_interaction_is_of_the_blocks_complete_at_every_level_or_of_deployments() -> None:
    native, other = 100 * np.exp(np.random.default_rng(4).normal(0, 0.01, (2, 3, 12)))
    both = np.log(np.stack([other, native]))
    row = interactions(levels_table(3, native=native, other=other), "native").iloc[0]
    assert (row["n"], row["pair_unit"]) == (4, "deployments")
    means = np.exp(both).reshape(2, 3, 4, 3).mean(axis=-1)
    assert row["p"] == pytest.approx(interaction(np.log(means)).p)
    other[1, 4], native[2, 7] = np.nan, np.nan
    row = interactions(levels_table(native=native, other=other), "native").iloc[0]
    assert row["n"] == 10
    assert row["p"] == pytest.approx(interaction(np.delete(both, (4, 7), axis=-1)).p)


def test_a_system_that_lacks_a_scenario_is_no_part_of_the_interaction_of_all() -> None:
    native, other, lacking = 100 * np.exp(np.random.default_rng(4).normal(0, 0.01, (3, 3, 12)))
    lacking[1] = np.nan
    found = omnibus(levels_table(native=native, other=other, lacking=lacking))
    assert found["interaction_p"].to_numpy() == pytest.approx(interaction(np.log(np.stack([native, other]))).p)


@pytest.mark.parametrize("cases", [1, 2])
def test_one_level_or_values_that_are_not_positive_say_nothing(cases: int) -> None:
    native, docker = np.array([[5.0, 6, 4, 5, 6, 5]] * cases), np.array([[2.0, 1, 2, 3, 1, 2]] * cases)
    docker[:, 0] = 2.0 if cases == 1 else 0.0
    row = interactions(levels_table(native=native, docker=docker), "native").iloc[0]
    assert np.isnan([row["p"], row["p_adjusted"]]).all()


def test_a_system_that_never_ran_has_no_interaction_and_without_a_baseline_there_is_no_row() -> None:
    native, docker = np.array([[1.0, 2.0, 1.5]] * 2), np.full((2, 3), np.nan)
    found = interactions(levels_table(native=native, docker=docker), "native")
    assert list(found["n"]) == [0]
    assert found["p"].isna().all()
    assert interactions(table_of({"docker": [1.0, 2], "lxc": [2.0, 3]}), "native").empty


RNG = np.random.default_rng(65)


def test_slope_is_that_of_a_regression_in_each_block() -> None:
    at = np.array([1.0, 2, 4, 8])
    x = np.exp(0.03 * at[:, None] + RNG.normal(0, 0.02, (4, 9)) + RNG.normal(0, 1, 9))
    slopes = np.array([stats.linregress(at, np.log(column)).slope for column in x.T])
    found, known = log_slope(x, at), stats.ttest_1samp(slopes, 0)
    assert found.estimate == pytest.approx(slopes.mean(), rel=1e-9)
    assert found.p == pytest.approx(known.pvalue, rel=1e-9)
    assert found.interval[:2] == pytest.approx(tuple(known.confidence_interval()), rel=1e-9)


def test_a_slope_needs_levels_that_differ_and_values_that_have_a_logarithm() -> None:
    at = np.array([1.0, 2, 3])
    x = np.array([[1.0, 2, 3], [2.0, 3, 4], [3.0, 5, 4]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # the last one: every block has the same slope
        for bad, where in ((x, np.ones(3)), (x - 1, at), (x[:, :1], at), (2.0 ** np.tile(at[:, None], 5), at)):
            assert np.isnan(log_slope(bad, where).p)
            assert np.isnan(log_slope(bad, where).interval.low)
        assert log_slope(x[:, :1], at).estimate == pytest.approx(np.log(3) / 2)
        assert log_slope(np.full((3, 4), 0.1), at).estimate == pytest.approx(0, abs=1e-12)


def sweep(power: dict[str, float], n: int = 8, levels: tuple[float, ...] = (8, 1, 2, 4), **how: int) -> pd.DataFrame:
    """A table of systems that grow with a power of the level, the scenarios in no order."""
    rng = np.random.default_rng(73)
    values = {
        level: {name: 100 * level**each * np.exp(rng.normal(0, 0.02, n)) for name, each in power.items()}
        for level in levels
    }
    return levels_of(values, "threads", **how)


def test_trends_of_a_table() -> None:
    table = sweep({"native": 1.0, "docker": 0.9, "lxc": 0.0})
    found = trends(table, [("sysbench-cpu", "events_per_s")])
    assert tuple(found.columns) == tuple(TRENDS)
    assert (found["levels"] == 4).all()
    assert (found["n"] == 8).all()
    assert set(found["pair_unit"]) == {"blocks"}
    by_system = found.set_index("system")
    for name, power in (("native", 1.0), ("docker", 0.9), ("lxc", 0.0)):
        row = by_system.loc[name]
        assert row["power_low"] < power < row["power_high"]
        own = table[table["system"] == name].sort_values(["level", "block"])
        x, at = own["value"].to_numpy().reshape(4, 8), np.log([1.0, 2, 4, 8])
        assert (row["power"], row["p"]) == pytest.approx((log_slope(x, at).estimate, log_slope(x, at).p))
    assert found["p_adjusted"].to_numpy() == pytest.approx(holm(found["p"]))


def test_trends_take_complete_blocks_and_deployments() -> None:
    table = sweep({"native": 1.0})
    lose(table, table.index == 3, "failed")
    assert trends(table)["n"].tolist() == [7]
    several = trends(sweep({"native": 1.0}, blocks_per_deployment=2)).iloc[0]
    assert (several["n"], several["pair_unit"]) == (4, "deployments")


def test_a_system_that_ran_some_levels_and_levels_that_are_none() -> None:
    table = sweep({"native": 1.0, "docker": 1.0})
    lose(table, (table["system"] == "docker") & (table["level"] > 2), "failed")
    found = trends(table).set_index("system")
    assert found["levels"].to_dict() == {"docker": 2, "native": 4}
    assert found.loc["docker", "p"] < 0.01
    zero = trends(sweep({"native": 0.0}, levels=(0, 1, 2))).iloc[0]
    assert np.isnan(zero["power"])
    for none in (table_of({"native": [1.0, 2]}), sweep({"native": 1.0}, levels=(4,)), table_of({"native": [None]})):
        assert trends(none).empty


@settings(max_examples=25)
@given(st.lists(st.sampled_from([0.0, 0.001, 0.01, 0.02, 0.04, 0.3, 0.5, 1.0]), min_size=1, max_size=9))
def test_as_statsmodels_and_scipy(p: list[float]) -> None:
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1])
    assert benjamini_hochberg(p) == pytest.approx(stats.false_discovery_control(p))


@pytest.mark.parametrize("adjust", [holm, benjamini_hochberg])
def test_an_unknown_p_is_no_test(adjust) -> None:
    found = adjust([[0.04, np.nan, 0.01, 0.03], [np.nan] * 4])
    assert np.isnan(found[0, 1])
    assert found[0, [0, 2, 3]] == pytest.approx(adjust([0.04, 0.01, 0.03]))
    assert np.isnan(found[1]).all()
    assert adjust(np.empty(0)).shape == (0,)


def test_families_do_not_see_each_other() -> None:
    p = np.array([0.01, 0.02, 0.03, np.nan, 0.04])
    found = by_family(p, ["b", "a", "b", "a", "b"], holm)
    assert found[[0, 2, 4]] == pytest.approx(holm([0.01, 0.03, 0.04]))
    assert found[1] == 0.02
    assert np.isnan(found[3])
    assert by_family([], [], holm).shape == (0,)


PAIRS = st.sets(st.sampled_from(list(combinations(range(5), 2))))


@settings(max_examples=200)
@given(PAIRS)
def test_systems_share_a_letter_exactly_when_they_are_not_separated(separated: set[tuple[int, int]]) -> None:
    letters = compact_letters(5, frozenset(separated))
    for a, b in combinations(range(5), 2):
        assert bool(set(letters[a]) & set(letters[b])) == ((a, b) not in separated)
    assert all(letters)
    assert "a" in letters[0]  # the best system is in the first tier
    members = {x: {i for i in range(5) if x in letters[i]} for x in set("".join(letters))}
    assert not any(one < other for one in members.values() for other in members.values())


def test_reference_data() -> None:
    """Of the six pairs only lxc and lxd are separated: its exact signed-rank p of 1/512 points the same way."""
    found = tiers(table_of(DATA_A)).set_index("system")
    names = list(DATA_A)
    p = holm([stats.ttest_rel(np.log(DATA_A[a]), np.log(DATA_A[b])).pvalue for a, b in combinations(names, 2)])
    apart = {pair for pair, each in zip(combinations(names, 2), p, strict=True) if each < 0.05}
    for a, b in combinations(names, 2):
        shared = set(found.loc[a, "letters"]) & set(found.loc[b, "letters"])
        assert bool(shared) == ((a, b) not in apart)
    assert apart == {("lxc", "lxd")}
    assert found.loc["lxd", "letters"] == "a"
    assert found.loc["lxc", "letters"] == "b"
    assert found.loc["native", "letters"] == "ab"
    assert tuple(tiers(table_of(DATA_A)).columns) == tuple(TYPES)


@pytest.mark.parametrize(("better", "best"), [("higher", "fast"), ("lower", "slow")])
def test_letter_a_is_the_best_tier(better: str, best: str) -> None:
    base = 100 * np.exp(np.random.default_rng(1).normal(0, 0.01, 12))
    noise = np.exp(np.random.default_rng(2).normal(0, 0.001, (2, 12)))
    values = {"slow": list(base), "fast": list(1.2 * base * noise[0]), "same": list(base * noise[1])}
    found = tiers(table_of(values, better=better)).set_index("system")["letters"]
    assert "a" in found[best]
    assert found["slow"] == found["same"] != found["fast"]


def test_absent_systems_and_pairs_without_a_test() -> None:
    found = tiers(table_of({"native": [4.0] * 6, "docker": [5.0] * 6, "lxc": [None] * 6})).set_index("system")
    assert found.loc["native", "letters"] == found.loc["docker", "letters"] == "a"
    assert found.loc["lxc", "letters"] == ""
    assert np.isnan(found.loc["lxc", "mean"])
    assert tiers(table_of({"native": [4.0, 5.0]}))["letters"].tolist() == ["a"]


def test_the_best_tier_of_a_rate_of_fixed_work_is_that_of_the_least_mean_time() -> None:
    rng = np.random.default_rng(3)
    values = {"steady": list(40 * np.exp(rng.normal(0, 0.01, 20))), "bursts": [10.0, 100.0] * 10}
    found = tiers(table_of(values, workload="ftp", metric="transfer_B_per_s", unit="B/s")).set_index("system")
    assert found.loc["bursts", "mean"] == pytest.approx(stats.hmean(values["bursts"]))
    assert np.mean(values["bursts"]) > np.mean(values["steady"])
    assert found["letters"].to_dict() == {"steady": "a", "bursts": "b"}
