"""Several systems, scenarios and levels: scipy, pingouin, published examples, and the tables of a session."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pingouin
import pytest
from scipy import stats

from infrabench.analysis.tidy import tidy
from infrabench.stats import interactions, omnibus, trends
from infrabench.stats.multiplicity import holm
from infrabench.stats.omnibus import (
    INTERACTIONS,
    OMNIBUS,
    TRENDS,
    critical_distance,
    friedman,
    interaction,
    log_slope,
    page,
    worst_friedman,
)
from tests.support.analysis_fixtures import DATA_A, PRIMARY, table_of, write_session

X = np.array([DATA_A[name] for name in ("native", "docker", "lxc", "lxd")])


def test_critical_distance_of_mean_ranks() -> None:
    assert critical_distance(4, 10) == pytest.approx(1.483231188, rel=1e-6)
    # the published critical values at 5 % for k = 2 .. 6 (Demsar 2006, table 5), cut at three digits
    values = [critical_distance(k, 1) / np.sqrt(k * (k + 1) / 6) for k in range(2, 7)]
    assert values == pytest.approx([1.960, 2.343, 2.569, 2.728, 2.850], abs=1e-3)


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
    assert row["nemenyi_cd"] == pytest.approx(1.483231188, rel=1e-6)
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
        assert np.isnan(row["nemenyi_cd"])
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
    expected = pingouin.rm_anova(long, dv="y", within="level", subject="block", correction=True).iloc[0]
    assert found.statistic == pytest.approx(expected["F"])
    assert found.p_conservative == pytest.approx(expected["p_GG_corr"], abs=1e-6)
    assert found.epsilon == pytest.approx(pingouin.epsilon(pd.DataFrame(change.T), correction="hf"))
    assert found.p == pytest.approx(stats.f.sf(found.statistic, 3 * found.epsilon, 33 * found.epsilon))
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
    parts = [
        table_of(case, scenario=f"users={i}", blocks_per_deployment=blocks_per_deployment)
        for i, case in enumerate(cases)
    ]
    return pd.concat(parts, ignore_index=True)


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


def test_only_blocks_complete_at_every_level_count() -> None:
    rng = np.random.default_rng(4)
    native, other = 100 * np.exp(rng.normal(0, 0.01, (2, 3, 10)))
    keep = [i for i in range(10) if i not in (4, 7)]
    expected = interaction(np.log(np.stack([other, native])[..., keep]))
    other[1, 4], native[2, 7] = np.nan, np.nan
    row = interactions(levels_table(native=native, other=other), "native").iloc[0]
    assert row["n"] == 8
    assert row["p"] == pytest.approx(expected.p)


def test_deployments_are_the_unit_of_an_interaction() -> None:
    rng = np.random.default_rng(6)
    native, other = 100 * np.exp(rng.normal(0, 0.01, (2, 3, 12)))
    row = interactions(levels_table(3, native=native, other=other), "native").iloc[0]
    assert (row["n"], row["pair_unit"]) == (4, "deployments")
    means = np.stack([other, native]).reshape(2, 3, 4, 3).mean(axis=-1)
    assert row["p"] == pytest.approx(interaction(np.log(means)).p)


@pytest.mark.parametrize("cases", [1, 2])
def test_one_level_or_values_that_are_not_positive_say_nothing(cases: int) -> None:
    native, docker = np.array([[5.0, 6, 4, 5, 6, 5]] * cases), np.array([[2.0, 1, 2, 3, 1, 2]] * cases)
    docker[:, 0] = 2.0 if cases == 1 else 0.0
    row = interactions(levels_table(native=native, docker=docker), "native").iloc[0]
    assert np.isnan(row["p"])
    assert np.isnan(row["p_adjusted"])


def test_no_baseline_no_rows() -> None:
    assert interactions(table_of({"docker": [1.0, 2], "lxc": [2.0, 3]}), "native").empty


def test_a_system_that_never_ran_has_no_interaction() -> None:
    native, docker = np.array([[1.0, 2.0, 1.5]] * 2), np.full((2, 3), np.nan)
    found = interactions(levels_table(native=native, docker=docker), "native")
    assert list(found["n"]) == [0]
    assert found["p"].isna().all()


RNG = np.random.default_rng(65)


def test_page_by_hand() -> None:
    # L is the sum over levels of level times rank sum; 3 blocks in order: 3 (1 + 4 + 9)
    assert page(np.array([[1.0, 5, 2], [2.0, 6, 4], [3.0, 7, 9]])).statistic == 42
    # one of the 6^3 arrangements reaches the maximum
    assert page(np.array([[1.0, 5, 2], [2.0, 6, 4], [3.0, 7, 9]])).p == pytest.approx(1 / 6**3)


def test_page_finds_a_rise_and_not_a_fall_and_cells_are_told_apart() -> None:
    rising = np.arange(4.0)[:, None] + RNG.normal(0, 1, (4, 10)) + 100 * RNG.normal(size=10)
    stack = page(np.stack([rising, rising[::-1], np.ones((4, 10))]))
    assert stack.p[0] < 0.001 < 0.99 < stack.p[1]
    assert np.isnan(stack.p[2])
    assert np.isnan(stack.statistic[2])
    assert stack.p[0] == page(rising).p
    assert page(np.exp(rising / 1000)).p == page(rising).p  # ranks only


def test_slope_is_that_of_a_regression_in_each_block() -> None:
    at = np.array([1.0, 2, 4, 8])
    x = np.exp(0.03 * at[:, None] + RNG.normal(0, 0.02, (4, 9)) + RNG.normal(0, 1, 9))
    slopes = np.array([stats.linregress(at, np.log(column)).slope for column in x.T])
    found, known = log_slope(x, at), stats.ttest_1samp(slopes, 0)
    assert found.estimate == pytest.approx(slopes.mean(), rel=1e-9)
    assert found.p == pytest.approx(known.pvalue, rel=1e-9)
    assert found.interval[:2] == pytest.approx(tuple(known.confidence_interval()), rel=1e-9)


def test_too_little_says_nothing_and_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for shape in ((0, 5), (2, 5), (3, 1), (3, 0), (7, 0, 4)):
            found = page(np.ones(shape))
            assert np.isnan(found.p).all()
            assert np.shape(found.p) == shape[:-2]
        at = np.array([1.0, 2, 3])
        x = np.array([[1.0, 2, 3], [2.0, 3, 4], [3.0, 5, 4]])
        for bad, where in ((x, np.ones(3)), (x - 1, at), (x[:, :1], at), (x[:, :0], at), (np.full((3, 4), 0.1), at)):
            assert np.isnan(log_slope(bad, where).p)
            assert np.isnan(log_slope(bad, where).interval.low)
        assert log_slope(x[:, :1], at).estimate == pytest.approx(np.log(3) / 2)
        assert log_slope(np.full((3, 4), 0.1), at).estimate == pytest.approx(0, abs=1e-12)
        assert np.isnan(log_slope(2.0 ** np.tile(at[:, None], 5), at).p)  # every block has the same slope


def sweep(power: dict[str, float], n: int = 8, levels: tuple[float, ...] = (8, 1, 2, 4), **how: int) -> pd.DataFrame:
    """A table of systems that grow with a power of the level, the scenarios in no order."""
    rng = np.random.default_rng(73)
    parts = []
    for level in levels:
        noise = {name: np.exp(rng.normal(0, 0.02, n)) for name in power}
        values = {name: list(100 * level**each * noise[name]) for name, each in power.items()}
        parts.append(table_of(values, scenario=f"threads={level:g}", **how).assign(factor="threads", level=level))
    return pd.concat(parts, ignore_index=True)


def failed(table: pd.DataFrame, which: object) -> pd.DataFrame:
    table = table.copy()
    table.loc[which, ["metric", "unit", "better", "value"]] = None, None, None, np.nan
    table.loc[which, "state"] = "failed"
    return table


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
    assert found["page_l"].notna().all()
    assert by_system.loc["native", "page_p"] == pytest.approx(2 * page(np.tile(np.arange(4.0)[:, None], 8)).p)
    assert by_system.loc["lxc", "page_p"] > 0.01
    assert found["p_adjusted"].to_numpy() == pytest.approx(holm(found["p"]))
    falling = trends(sweep({"native": -1.0})).iloc[0]
    assert falling["page_p"] == by_system.loc["native", "page_p"]  # either direction


def test_trends_take_complete_blocks_and_deployments() -> None:
    table = sweep({"native": 1.0})
    assert trends(failed(table, 3))["n"].tolist() == [7]
    several = trends(sweep({"native": 1.0}, blocks_per_deployment=2)).iloc[0]
    assert (several["n"], several["pair_unit"]) == (4, "deployments")


def test_a_system_that_ran_some_levels_and_levels_that_are_none() -> None:
    table = sweep({"native": 1.0, "docker": 1.0})
    gone = (table["system"] == "docker") & (table["level"] > 2)
    found = trends(failed(table, gone)).set_index("system")
    assert found["levels"].to_dict() == {"docker": 2, "native": 4}
    assert np.isnan(found.loc["docker", "page_p"])  # two levels are a contrast, not a trend
    assert found.loc["docker", "p"] < 0.01
    zero = trends(sweep({"native": 0.0}, levels=(0, 1, 2))).iloc[0]
    assert np.isnan(zero["power"])
    assert np.isfinite(zero["page_p"])
    for none in (table_of({"native": [1.0, 2]}), sweep({"native": 1.0}, levels=(4,)), table_of({"native": [None]})):
        assert trends(none).empty
