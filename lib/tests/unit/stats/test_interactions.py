from __future__ import annotations

import numpy as np
import pandas as pd
import pingouin
import pytest
from scipy import stats

from infrabench.stats import interactions
from infrabench.stats.omnibus import INTERACTIONS, interaction
from tests.support.analysis_fixtures import table_of


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
    assert found.epsilon == pytest.approx(pingouin.epsilon(pd.DataFrame(change.T), correction="hf"))
    assert found.p == pytest.approx(stats.f.sf(found.statistic, 3 * found.epsilon, 33 * found.epsilon))
    three = rng.normal(size=(3, 4, 12))
    cells = [(s, level, b, three[s, level, b]) for s, level, b in np.ndindex(three.shape)]
    long = pd.DataFrame(cells, columns=["system", "level", "block", "y"])
    table = pingouin.rm_anova(long, dv="y", within=["system", "level"], subject="block").set_index("Source")
    assert interaction(three).statistic == pytest.approx(table.loc["system * level", "F"])


def test_interaction_does_not_see_blocks_systems_or_levels_by_themselves() -> None:
    rng = np.random.default_rng(4)
    noise = rng.normal(size=(3, 4, 10))
    moved = noise + 9 * rng.normal(size=10) + 5 * rng.normal(size=(3, 1, 1)) + 7 * rng.normal(size=(4, 1))
    assert interaction(moved).statistic == pytest.approx(interaction(noise).statistic)
    assert interaction(moved).p == pytest.approx(interaction(noise).p)
    crossing = noise + np.array([-1.0, 0, 1])[:, None, None] * np.array([-3.0, -1, 1, 3])[:, None]
    assert interaction(crossing).p < 1e-4


@pytest.mark.parametrize("shape", [(1, 4, 9), (3, 1, 9), (3, 4, 1)])
def test_no_interaction_without_two_of_each(shape: tuple[int, ...]) -> None:
    assert np.isnan(interaction(np.zeros(shape)).p)
    assert np.isnan(interaction(np.ones((2, 2, 5))).p)


@pytest.mark.parametrize(("k", "levels", "n"), [(2, 3, 6), (2, 8, 10), (4, 5, 30), (4, 8, 6)])
def test_identical_systems_are_rejected_in_five_percent(k: int, levels: int, n: int) -> None:
    noise = np.random.default_rng(5).normal(size=(2000, k, levels, n))
    share = (interaction(noise).p < 0.05).mean()
    assert 0.025 <= share <= 0.0665
    # the negative control: blocks taken for independent trials of a two-way layout lose the effect in block noise
    moved = noise + 5 * np.random.default_rng(6).normal(size=(2000, 1, 1, n))
    assert interaction(moved).p == pytest.approx(interaction(noise).p, abs=1e-6)


def levels_table(**systems: np.ndarray) -> pd.DataFrame:
    """Each system (levels, blocks) as one case for each level."""
    many = len(next(iter(systems.values())))
    cases = [{name: list(values[i]) for name, values in systems.items()} for i in range(many)]
    return pd.concat([table_of(case, scenario=f"users={i}") for i, case in enumerate(cases)], ignore_index=True)


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
    cases = [{"native": list(native[i]), "other": list(other[i])} for i in range(3)]
    cases[1]["other"][4] = None
    cases[2]["native"][7] = None
    table = pd.concat([table_of(case, scenario=f"s{i}") for i, case in enumerate(cases)], ignore_index=True)
    keep = [i for i in range(10) if i not in (4, 7)]
    row = interactions(table, "native").iloc[0]
    assert row["n"] == 8
    assert row["p"] == pytest.approx(interaction(np.log(np.stack([other, native])[..., keep])).p)


def test_deployments_are_the_unit_where_there_are_several() -> None:
    rng = np.random.default_rng(6)
    native, other = 100 * np.exp(rng.normal(0, 0.01, (2, 3, 12)))
    tables = [
        table_of({"native": list(native[i]), "other": list(other[i])}, scenario=f"s{i}", blocks_per_deployment=3)
        for i in range(3)
    ]
    row = interactions(pd.concat(tables, ignore_index=True), "native").iloc[0]
    assert (row["n"], row["pair_unit"]) == (4, "deployments")
    means = np.stack([other, native]).reshape(2, 3, 4, 3).mean(axis=-1)
    assert row["p"] == pytest.approx(interaction(np.log(means)).p)


@pytest.mark.parametrize("cases", [1, 2])
def test_one_level_or_values_that_are_not_positive_say_nothing(cases: int) -> None:
    values = {"native": [5.0, 6, 4, 5, 6, 5], "docker": [0.0, 1, 2, 0, 1, 2]}
    positive = {"native": [5.0, 6, 4, 5, 6, 5], "docker": [3.0, 1, 2, 4, 1, 2]}
    some = [table_of(positive if cases == 1 else values, scenario=f"s{i}") for i in range(cases)]
    row = interactions(pd.concat(some, ignore_index=True), "native").iloc[0]
    assert np.isnan(row["p"])
    assert np.isnan(row["p_adjusted"])


def test_no_baseline_no_rows() -> None:
    assert interactions(table_of({"docker": [1.0, 2], "lxc": [2.0, 3]}), "native").empty


def test_a_system_that_never_ran_has_no_interaction() -> None:
    parts = [table_of({"native": [1.0, 2.0, 1.5], "docker": [None] * 3}, scenario=f"threads={n}") for n in (1, 2)]
    found = interactions(pd.concat(parts, ignore_index=True), "native")
    assert list(found["n"]) == [0]
    assert found["p"].isna().all()
