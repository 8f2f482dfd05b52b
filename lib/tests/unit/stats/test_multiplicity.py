"""Adjusted p-values against statsmodels and scipy, and letters of tiers."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from infrabench.stats import tiers
from infrabench.stats.multiplicity import TYPES, benjamini_hochberg, by_family, compact_letters, holm
from tests.support.analysis_fixtures import DATA_A, table_of


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
