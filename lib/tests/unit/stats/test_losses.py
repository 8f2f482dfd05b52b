"""Trials that ended without a value: no verdict on the rest, or one that holds whatever they would have been."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrabench.analysis import figures, results, tables
from infrabench.analysis.figures import forest
from infrabench.core import STATES
from infrabench.stats import contrasts, diagnostics, estimates, interactions, interim, omnibus, sites, tiers, trends
from infrabench.stats.intervals import hodges_lehmann
from infrabench.stats.losses import LOST, explain_unequal, unequal_p, worst_ranks
from infrabench.stats.omnibus import _worst_tests, friedman, worst_friedman
from infrabench.stats.stopping import look
from infrabench.stats.verdicts import DIFFERENT, EQUIVALENT, INCONCLUSIVE, NOT_COMPARABLE, ONE_RATIO, WITHIN
from infrabench_selfcheck.validation.generators import METRIC, WORKLOAD, campaigns_table
from tests.support.analysis_fixtures import table_of
from tests.support.look_at import make_view, texts
from tests.unit.stats.test_events import FAILED, LOSS, REPAIRED


def rates(docker: float = 1.0, blocks: int = 30, seed: int = 1) -> dict[str, list[float | None]]:
    rng = np.random.default_rng(seed)
    return {
        name: list(by * 100 * np.exp(0.02 * rng.normal(size=blocks)))
        for name, by in {"native": 1.0, "docker": docker}.items()
    }


def slowest(values: list[float | None], k: int) -> list[float | None]:
    """Lose the `k` smallest rates."""
    gone = np.argsort(values)[:k]
    return [None if i in gone else value for i, value in enumerate(values)]


def without(values: list[float | None], blocks: Iterable[int]) -> list[float | None]:
    return [None if i in set(blocks) else value for i, value in enumerate(values)]


def one(values: dict[str, list[float | None]], **kind: object) -> pd.Series:
    return contrasts(table_of(values, **kind), "native", {"": 0.02}).iloc[0]  # type: ignore[arg-type]


def test_a_system_that_loses_its_slowest_third_is_not_called_faster() -> None:
    values = rates()
    table = table_of(values | {"docker": slowest(values["docker"], 9)})
    table.loc[table["state"] == "failed", "state"] = "timeout"
    found = contrasts(table, "native", {"": 0.02})
    row = found.iloc[0]
    assert row["verdict"] == NOT_COMPARABLE
    assert LOST in row["flags"]
    assert row["reason"] == "9 of 30 timed out (native: 0 of 30 lost): no verdict on the rest"
    for name in ("ratio", "ratio_low", "p", "p_equivalence", "log_ratio", "worse_share", "overhead_percent", "shift"):
        assert np.isnan(row[name]), name
    assert row["n_pairs"] == 21
    assert results.sentence(row) == f"default, docker: not comparable ({row['reason']})."
    assert tables.contrasts_table(found).loc[0, "reason"] == row["reason"]
    assert "9 of 30 timed out" in texts(forest(make_view(contrasts=found)).figure)


def test_a_faster_system_that_hangs_in_a_tenth_of_its_trials_is_never_called_faster_alone() -> None:
    values = rates(1.05)
    table = table_of(values | {"docker": slowest(values["docker"], 3)})
    table.loc[table["state"] == "failed", "state"] = "timeout"
    found = contrasts(table, "native", {"": 0.02}, [("sysbench-cpu", "events_per_s")])
    (row,) = found.itertuples(index=False)
    lost = "3 of 30 timed out (native: 0 of 30 lost)"
    assert (row.verdict, row.ratio_low > 1) == (DIFFERENT, True)
    assert lost in results.sentence(row)
    assert lost in tables.contrasts_table(found).loc[0, "reason"]
    whole_row = tables.results_table(estimates(table), found, diagnostics(table)).iloc[0]
    assert "3 timeout" in " ".join(whole_row.astype(str))
    for width_mm in (174, 85):
        shown = texts(forest(make_view(contrasts=found, width_mm=width_mm)).figure)
        assert f"{tables.ruled_out_label(row)} ‡" in shown.splitlines()
        assert f"default docker: {lost}" in " ".join(shown.split())
    assert "‡: with lost trials" in forest(make_view(contrasts=found)).caption
    view = make_view("sysbench-cpu", "events_per_s", tiers=tiers(table), contrasts=found)
    assert f"default docker: {lost}" in " ".join(texts(figures.tiers(view).figure).split())
    figure, caption = forest(make_view(contrasts=contrasts(table_of(values), "native", {"": 0.02})))
    assert "‡" not in caption + texts(figure)


@pytest.mark.parametrize(("native", "docker"), [(range(5), range(5, 10)), (range(6), range(6)), (range(5), ())])
def test_many_losses_of_both_or_of_the_baseline_leave_no_verdict(native: range, docker: range) -> None:
    values = rates(1.05)
    row = one({"native": without(values["native"], native), "docker": without(values["docker"], docker)})
    assert row["verdict"] == NOT_COMPARABLE
    assert "no verdict on the rest" in row["reason"]


def test_a_clear_difference_survives_a_few_losses_with_a_wider_interval() -> None:
    values = rates(1.05)
    whole, row = one(values), one(values | {"docker": slowest(values["docker"], 2)})
    assert (whole["verdict"], row["verdict"]) == (DIFFERENT, DIFFERENT)
    assert row["ratio_low"] < whole["ratio_low"] < whole["ratio_high"] < row["ratio_high"]
    assert whole["p"] < row["p"] < 0.05
    assert (row["bound_low"] >= row["ratio_low"]) & (row["bound_high"] <= row["ratio_high"])
    assert row["reason"].startswith("2 of 30 failed (native: 0 of 30 lost): bounds")
    assert np.isnan(whole["bound_low"])


def test_verdicts_agree_with_the_interval_and_the_p_that_stand_beside_them() -> None:
    rng = np.random.default_rng(5)
    by = np.repeat([0.97, 0.99, 1.0, 1.03], 15)[:, None, None] ** np.array([0, 1])[:, None]
    values = 100 * by * np.exp(0.015 * rng.normal(size=(60, 2, 30)))
    for row, lost in zip(values, rng.integers(0, 5, 60), strict=True):
        row[rng.integers(0, 2, lost), rng.integers(0, 30, lost)] = np.nan
    found = contrasts(campaigns_table(values, ("native", "docker")), "native", {"": 0.02})
    apart = (found["ratio_low"] > 1) | (found["ratio_high"] < 1)
    within = (found["equivalence_low"] > 0.98) & (found["equivalence_high"] < 1.02)
    assert list(apart) == list(found["p"] < 0.05) == list(found["verdict"].isin([DIFFERENT, WITHIN]))
    assert list(within) == list(found["p_equivalence"] < 0.05)
    alike = found["p_equivalence_adjusted"] < 0.05
    assert list(alike) == list(found["verdict"].isin([EQUIVALENT, WITHIN]))
    assert {DIFFERENT, INCONCLUSIVE} <= set(found["verdict"])
    assert found["n_to_decide"][found["flags"].str.contains(LOST)].isna().all()


def test_bounds_hold_whatever_the_lost_trials_would_have_been() -> None:
    rng = np.random.default_rng(2)
    values = np.exp(0.1 * rng.normal(size=(2, 30)))
    lost = np.zeros((2, 30), dtype=bool)
    lost[[0, 0, 1], [3, 8, 20]] = True
    ranks = worst_ranks(np.where(lost, np.nan, values), lost, None)
    for end in (0.5, 1.0, 2.0, 1e6, 1e-6):
        full = np.where(lost, end, values)
        ends = np.exp(hodges_lehmann(np.log(full[0] / full[1])).interval[:2])
        low, high = ranks.ends(0.95)
        assert (low <= ends[0] * (1 + 1e-12)) & (high >= ends[1] * (1 - 1e-12))
    assert ranks.ends(0.95)[0] > 1 or ranks.p_above(1.0) > 0.025


def test_a_trial_that_is_lost_in_a_deployment_is_bounded_by_its_others() -> None:
    values = rates(1.1)
    few = one(values | {"docker": without(values["docker"], [3])}, blocks_per_deployment=5)
    assert (few["verdict"], few["n_pairs"]) == (DIFFERENT, 6)
    row = one(values | {"docker": without(values["docker"], range(3))}, blocks_per_deployment=5)
    assert row["verdict"] == NOT_COMPARABLE


def test_a_trial_that_was_not_tried_yet_is_not_lost() -> None:
    table = table_of(rates())
    row = contrasts(table[table["trial"] != "default-docker-29"], "native", {"": 0.02}).iloc[0]
    assert (row["reason"], row["n_pairs"]) == ("", 29)
    assert LOST not in row["flags"]


def invalid(table: pd.DataFrame, system: str, blocks: Iterable[int]) -> pd.DataFrame:
    """Put an invalid attempt before the trials of these blocks, which are their repeats."""
    again = (table["system"] == system) & table["block"].isin(list(blocks))
    first = table[again].assign(state="invalid", metric=None, value=np.nan, unit=None, better=None)
    first["trial"] = "invalid-" + first["trial"]
    columns = table.dtypes.to_dict()
    return pd.concat([first.astype(columns), table.assign(attempt=again.astype(int))], ignore_index=True)


def test_repeats_of_the_machines_doing_change_nothing_unless_they_fall_on_one_system() -> None:
    table = table_of(rates(1.05))
    plain = contrasts(table, "native", {"": 0.02})
    even = contrasts(invalid(invalid(table, "native", range(8)), "docker", range(6, 14)), "native", {"": 0.02})
    pd.testing.assert_frame_equal(even, plain)
    row = contrasts(invalid(table, "docker", range(8)), "native", {"": 0.02}).iloc[0]
    assert row["verdict"] == NOT_COMPARABLE
    assert row["reason"] == "8 of 30 repeated (native: 0 of 30 lost): no verdict on the rest"


def test_unequal_losses_are_told_by_mcnemars_exact_test() -> None:
    one_, other = np.arange(20) < 9, (np.arange(20) >= 7) & (np.arange(20) < 9)
    assert unequal_p(one_, other) == pytest.approx(2 / 2**7)
    assert unequal_p(other, one_) == unequal_p(one_, other)
    assert unequal_p(one_, one_) == 1.0


def test_lost_shares_are_bounded_by_none_and_all() -> None:
    whole = {"native": [1.0] * 30, "docker": [0.0] * 12 + [1.0] * 18}
    clear = one(whole, **REPAIRED)
    row = one(whole | {"native": [None] * 3 + [1.0] * 27}, **REPAIRED)
    assert (clear["verdict"], row["verdict"]) == (DIFFERENT, DIFFERENT)
    bounded = [one(whole | {"native": [end] * 3 + [1.0] * 27}, **REPAIRED) for end in (0.0, 1.0)]
    assert row["difference_low"] == min(each["difference_low"] for each in bounded)
    assert row["difference_high"] == max(each["difference_high"] for each in bounded)
    close = one({"native": [1.0] * 30, "docker": [0.0] * 6 + [1.0] * 24}, **REPAIRED)
    lost = one({"native": [None] * 3 + [1.0] * 27, "docker": [0.0] * 6 + [1.0] * 24}, **REPAIRED)
    assert (close["verdict"], lost["verdict"]) == (DIFFERENT, INCONCLUSIVE)


def test_losses_that_may_turn_a_difference_round_leave_no_p_of_one() -> None:
    """Either system is the worse one where the lost trials of the other say so: each for itself has a small p."""
    rng = np.random.default_rng(5)
    values = np.where(rng.random((2, 30)) < 0.3, np.nan, rng.uniform(40, 60, (2, 30)))
    native, docker = ([None if np.isnan(each) else float(each) for each in row] for row in values)
    row = one({"native": native, "docker": docker}, **LOSS)
    assert row["verdict"] == INCONCLUSIVE
    assert row["ratio_low"] < 1 < row["ratio_high"]
    assert (row["p"], row["p_adjusted"]) == (1.0, 1.0)


def test_the_interval_over_lost_counts_holds_the_ratio_beside_it() -> None:
    """Of the complete blocks docker has no event; it has some in blocks in which native lost its trial."""
    row = one(
        {"native": [0.0, 2, 0, 1, 0, None, None, None, 1, 0], "docker": [0.0, 0, 0, 0, 0, 1, 1, 0, None, None]},
        **FAILED,
    )
    assert (row["ratio"], row["ratio_low"]) == (0, 0)
    assert row["ratio_high"] > 1
    assert row["verdict"] == INCONCLUSIVE


def test_counts_that_are_lost_may_be_none_or_many() -> None:
    rng = np.random.default_rng(3)
    native, docker = ([float(v) for v in rng.poisson(mean, 30)] for mean in (1.0, 2.0))
    whole = one({"native": native, "docker": docker}, **FAILED)
    gone = np.argsort(docker)[-4:]
    row = one({"native": native, "docker": without(docker, gone)}, **FAILED)
    assert whole["verdict"] == DIFFERENT
    assert row["ratio_low"] < row["ratio"] < row["ratio_high"]
    rest = [each for i, each in enumerate(docker) if i not in gone]
    ends = [one({"native": native, "docker": rest + [end] * 4}, **FAILED) for end in (0.0, max(native + rest))]
    assert (row["ratio_low"], row["ratio_high"]) == (ends[0]["ratio_low"], ends[1]["ratio_high"])
    third = one({"native": native, "docker": without(docker, np.argsort(docker)[-10:])}, **FAILED)
    assert third["verdict"] == NOT_COMPARABLE


def test_letters_do_not_separate_on_the_rest_alone() -> None:
    values = rates(1.01)
    values["lxc"] = rates(1.1)["docker"]
    table = table_of(values | {"docker": slowest(values["docker"], 10)})
    alone = tiers(table[table["state"] == "ok"]).set_index("system")["letters"]
    letters = tiers(table).set_index("system")["letters"]
    assert not set(alone["docker"]) & set(alone["native"])
    assert set(letters["docker"]) & set(letters["native"])
    assert not set(letters["lxc"]) & set(letters["native"])


def test_a_site_without_a_verdict_for_its_losses_leaves_no_mean_of_the_others() -> None:
    frames = {}
    for place in range(4):
        values = np.exp(0.02 * np.random.default_rng(place).normal(size=(1, 2, 30))) * np.array([1.0, 1.05])[:, None]
        if place == 3:
            values[0, 1, np.argsort(values[0, 1])[:9]] = np.nan
        frames[f"s{place}"] = contrasts(campaigns_table(values, ("native", "docker")), "native", {"": 0.02})
    rows, found = sites.over_sites(sites.per_site(frames), list(frames), [(WORKLOAD, METRIC)])
    row = found.iloc[0]
    assert (row["verdict"], row["sites"]) == (sites.NO_MEAN, 3)
    assert np.isnan(row[["ratio", "ratio_low", "p"]].astype(float)).all()
    assert "lost trials at s3: no verdict on the rest" in row["reason"]
    assert "9 of 30 timed out" in row["missing"]
    rest = {name: frames[name] for name in ("s0", "s1", "s2")}
    _, found = sites.over_sites(sites.per_site(rest), list(rest), [(WORKLOAD, METRIC)])
    assert found.iloc[0]["verdict"] == DIFFERENT
    assert rows["lost"].tolist() == [0.0] * 4


def test_the_same_few_losses_at_every_site_do_not_add_up_to_a_difference() -> None:
    frames = {}
    for place in range(10):
        values = np.exp(0.02 * np.random.default_rng(place).normal(size=(1, 2, 30)))
        values[0, 1, np.argsort(values[0, 1])[:3]] = np.nan
        frames[f"s{place}"] = contrasts(campaigns_table(values, ("native", "docker")), "native", {"": 0.02})
    rows = sites.per_site(frames)
    _, found = sites.over_sites(rows, list(frames), [(WORKLOAD, METRIC)])
    _, naive = sites.over_sites(rows.assign(lost=0.0), list(frames), [(WORKLOAD, METRIC)])
    assert naive.iloc[0]["ratio_low"] > 1  # this seed shows the bias that the bounds are there for
    assert found.iloc[0]["ratio_low"] < 1 < found.iloc[0]["ratio_high"]


def test_every_state_of_a_lost_trial_has_its_word() -> None:
    values = rates()
    for state in STATES[1:-1]:
        table = table_of(values | {"docker": slowest(values["docker"], 9)})
        table.loc[table["state"] == "failed", "state"] = state
        row = contrasts(table, "native", {"": 0.02}).iloc[0]
        assert row["verdict"] == NOT_COMPARABLE
        assert row["reason"].startswith("9 of 30 " + {"timeout": "timed out"}.get(state, state))


def test_what_one_pair_of_thirty_leaves_is_no_ratio_though_nothing_would_be_inferred_from_it() -> None:
    values = rates(1.05)
    row = one(values | {"docker": without(values["docker"], range(1, 30))})
    assert (row["verdict"], row["n_pairs"]) == (NOT_COMPARABLE, 1)
    assert row["reason"].endswith("29 of 30 failed (native: 0 of 30 lost): no verdict on the rest")
    assert np.isnan(row[["ratio", "difference"]].astype(float)).all()


@pytest.mark.parametrize("reason", [ONE_RATIO, "both means are 0: no ratio"])
def test_what_has_nothing_to_infer_from_keeps_its_reason_and_names_the_trial_that_was_lost(reason: str) -> None:
    native = [100.0 + block if reason == ONE_RATIO else 0.0 for block in range(30)]
    docker = [2 * each for each in native]
    assert one({"native": native, "docker": docker})["reason"] == reason
    row = one({"native": native, "docker": without(docker, [3])})
    assert row["verdict"] == NOT_COMPARABLE
    assert row["reason"].startswith(f"{reason}; 1 of 30 failed (native: 0 of 30 lost)")
    assert row["ratio"] == 2 or reason != ONE_RATIO


PRIMARY = [("web", "requests_per_s")]
TOLD = "docker: 9 of 30 timed out (native: 0 of 30 lost): no verdict on the rest"
ALL = TOLD.replace("native", "lxc")  # of those that lose least the first one is named
SPEED = {"native": 1.0, "docker": 1.1, "lxc": 0.95}


def campaign(
    lost: dict[str, Iterable[int]], scenarios: Iterable[str] = ("10 users",), state: str = "timeout"
) -> pd.DataFrame:
    """Return 30 blocks of three systems; in the last scenario the trials of these blocks are `lost`, by system."""
    rng, frames = np.random.default_rng(1), []
    for scenario in (names := list(scenarios)):
        values: dict[str, list[float | None]] = {
            name: list(100 * by * np.exp(0.02 * rng.normal(size=30))) for name, by in SPEED.items()
        }
        for name, blocks in lost.items() if scenario == names[-1] else ():
            values[name] = [None if i in set(blocks) else value for i, value in enumerate(values[name])]
        frame = table_of(values, workload="web", metric="requests_per_s", scenario=scenario)
        frames.append(frame.assign(factor="users", level=float(scenario.split()[0])))
    table = pd.concat(frames, ignore_index=True)
    table.loc[table["state"] == "failed", "state"] = state
    return table


def test_who_loses_more_is_named_with_who_loses_least() -> None:
    fates = np.zeros((3, 30), dtype=np.int8)
    values = np.ones((3, 30))
    assert explain_unequal(values, fates, ["a", "b", "c"]) == ""
    fates[0, :9], fates[1, :8], values[:2, :8], values[0, 8] = 1, 1, np.nan, np.nan
    said = explain_unequal(values, fates, ["a", "b", "c"])
    assert said == "a: 9 of 30 failed; b: 8 of 30 failed (c: 0 of 30 lost): no verdict on the rest"
    assert explain_unequal(values[:2], fates[:2], ["a", "b"]) == ""  # they lose alike


@pytest.mark.parametrize(
    ("lost", "withheld"),
    [
        ({"docker": range(9)}, True), ({"docker": range(9), "native": range(9)}, True), ({"docker": range(3)}, False),
        ({name: range(9) for name in SPEED}, False), ({"docker": range(30)}, False),  # there is no rest of it
    ],
)  # fmt: skip
def test_a_test_over_all_systems_has_no_p_where_one_loses_more(lost: dict[str, range], withheld: bool) -> None:
    found = omnibus(campaign(lost), PRIMARY)
    row, shown = found.iloc[0], tables.omnibus_table(found)
    assert bool(np.isnan(row[["friedman_p", "iman_davenport_p", "p_adjusted"]].astype(float)).all()) is withheld
    assert ("no verdict on the rest" in row["reason"]) is withheld
    told = bool(withheld or not ({*lost} == {"docker"} and len(lost["docker"]) == 30))
    assert ("reason" in shown) is told
    if list(lost) == ["docker"] and withheld:
        assert row["reason"] == shown["reason"][0] == f"not comparable: {ALL}"


def test_a_test_over_all_systems_holds_whatever_trials_that_all_lose_alike_were() -> None:
    whole, some, many = (
        omnibus(campaign({name: range(count) for name in SPEED} if count else {}), PRIMARY).iloc[0]
        for count in (0, 4, 21)
    )
    assert whole["iman_davenport_p"] < some["iman_davenport_p"] < 0.05 < many["iman_davenport_p"]
    assert whole["friedman_p"] < some["friedman_p"] < many["friedman_p"] == 1
    assert (some["n"], many["n"]) == (26, 9)
    each = "; ".join(f"{name}: 4 of 30 timed out" for name in ("docker", "lxc", "native"))
    assert sorted(some["reason"].partition(": p holds")[0].split("; ")) == each.split("; ")
    assert some["reason"].endswith("p holds whatever they would have been")
    assert whole["reason"] == ""


@given(st.integers(2, 4), st.integers(2, 6), st.integers(1, 3), st.data())
def test_no_lost_blocks_give_less_than_the_worst(k: int, n: int, lost: int, data: st.DataObject) -> None:
    def blocks(count: int) -> np.ndarray:
        ranks = [data.draw(st.permutations(range(k))) for _ in range(count)]
        return np.array(ranks, dtype=float).reshape(count, k).T

    there = blocks(n)
    worst, found = worst_friedman(there, lost), friedman(np.hstack([there, blocks(lost)]))
    assert worst.statistic <= found.statistic + 1e-9
    assert worst.p >= found.p - 1e-9
    assert worst.iman_davenport_p >= found.iman_davenport_p - 1e-9
    assert (worst.df1, worst.df2) == (found.df1, found.df2)


def test_deployments_that_lost_a_trial_are_unknown_whole() -> None:
    values = np.array([[1.0, 1, 2, 2, 3, 3], [2.0, 2, 3, 3, 4, 4]])
    fates = np.zeros((2, 6), dtype=np.int8)
    fates[:, 5], values[:, 5] = 1, np.nan
    by_deployment = _worst_tests(values, fates, np.array([0, 0, 1, 1, 2, 2]))
    assert by_deployment == [float(each) for each in worst_friedman([[1, 2], [2, 3]], 1)]
    by_block = _worst_tests(values, fates, None)
    assert by_block == [float(each) for each in worst_friedman(values[:, :5], 1)]


def test_an_interaction_says_at_which_scenario_trials_were_lost() -> None:
    table = campaign({"docker": range(9)}, ("1 user", "10 users"))
    found = interactions(table, "native", PRIMARY).set_index("system")
    assert found.loc["docker", "reason"] == f"at 10 users, not comparable: {TOLD}"
    assert np.isnan(found.loc["docker", ["f", "p", "p_adjusted"]].astype(float)).all()
    assert (found.loc["docker", "n"], found.loc["docker", "levels"]) == (21, 2)
    assert found.loc["lxc", "reason"] == ""
    assert found.loc["lxc", "p"] <= 1
    assert "9 of 30 timed out" in tables.interactions_table(found.reset_index())["reason"][0]
    both = omnibus(table, PRIMARY).set_index("scenario")
    assert both["interaction_p"].isna().all()
    assert both.loc["1 user", "friedman_p"] < 0.05
    assert both.loc["1 user", "reason"] == f"system x scenario at 10 users, not comparable: {ALL}"


def test_a_trend_says_at_which_level_trials_were_lost() -> None:
    found = trends(campaign({"docker": range(9)}, ("1 user", "10 users", "100 users")), PRIMARY).set_index("system")
    assert found.loc["docker", "reason"] == (
        "not comparable: 100 users: 9 of 30 timed out (1 user: 0 of 30 lost): no verdict on the rest"
    )
    assert np.isnan(found.loc["docker", ["power", "p"]].astype(float)).all()
    assert found.loc["docker", "n"] == 21
    assert found.loc["native", "p"] <= 1
    assert tables.trends_table(found.reset_index())["reason"].tolist() == [found.loc["docker", "reason"], "", ""]


def test_a_session_that_runs_shows_no_ratio_of_the_rest() -> None:
    found = interim(campaign({"docker": range(9)}), "native", PRIMARY).set_index("system")
    assert found.loc["docker", "reason"] == TOLD
    assert np.isnan(found.loc["docker", ["ratio", "ratio_low", "ratio_high"]].astype(float)).all()
    assert found.loc["docker", "n"] == 21
    assert found.loc["lxc", ["ratio_low", "ratio_high"]].notna().all()
    shown = tables.interim_table(found.reset_index(), "native")
    assert shown["reason"].tolist() == [TOLD, "", ""]
    drawn = figures.interim(found.reset_index(), "native", {"": 0.02}, list(SPEED))
    assert drawn is not None
    assert "no ratio of docker, 10 users: docker: 9 of 30 timed out" in " ".join(texts(drawn).split())
    few = interim(campaign({"docker": range(3)}), "native", PRIMARY)
    assert "reason" not in tables.interim_table(few, "native")


def test_a_session_does_not_stop_for_the_narrow_interval_of_the_rest() -> None:
    kept = look(campaign({}), PRIMARY)
    assert (kept.reason, kept.unequal) == ("target", {})
    rest = look(campaign({"docker": range(9)}), PRIMARY)
    assert max(rest.widths.values()) < 0.02
    assert (rest.stop, rest.reason) == (False, "")
    assert rest.unequal == {("web", "10 users", "requests_per_s", name): ALL for name in SPEED}
    assert look(campaign({"docker": range(9)}), PRIMARY, most=30).reason == "n_max"
    assert look(campaign({"docker": range(9)}), PRIMARY, elapsed_s=2, budget_s=1).reason == "time"
    alike = campaign({name: range(3) for name in SPEED})
    assert look(alike, PRIMARY).reason == "target"
    assert look(campaign({"docker": range(30)}), PRIMARY).reason == "target"  # it cannot run the workload
