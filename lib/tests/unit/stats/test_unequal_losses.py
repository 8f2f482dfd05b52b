"""Whatever compares several systems says nothing on the rest of one that loses markedly more trials than another."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrabench.analysis import figures, tables
from infrabench.stats import interactions, interim, omnibus, trends
from infrabench.stats.losses import explain_unequal
from infrabench.stats.omnibus import _worst_tests, friedman, worst_friedman
from infrabench.stats.stopping import look
from tests.support.analysis_fixtures import table_of

PRIMARY = [("web", "requests_per_s")]
TOLD = "docker: 9 of 30 timed out (native: 0 of 30 lost): no verdict on the rest"
ALL = TOLD.replace("native", "lxc")  # of those that lose least the first one is named
BY = {"native": 1.0, "docker": 1.1, "lxc": 0.95}


def campaign(
    lost: dict[str, Iterable[int]], scenarios: Iterable[str] = ("10 users",), state: str = "timeout"
) -> pd.DataFrame:
    """Return 30 blocks of three systems; in the last scenario the trials of these blocks are `lost`, by system."""
    rng, frames = np.random.default_rng(1), []
    for scenario in (names := list(scenarios)):
        values: dict[str, list[float | None]] = {
            name: list(100 * by * np.exp(0.02 * rng.normal(size=30))) for name, by in BY.items()
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
        ({name: range(9) for name in BY}, False), ({"docker": range(30)}, False),  # there is no rest of it
    ],
)  # fmt: skip
def test_a_test_over_all_systems_has_no_p_where_one_loses_more(lost: dict[str, range], withheld: bool) -> None:
    found = omnibus(campaign(lost), PRIMARY)
    row, shown = found.iloc[0], tables.omnibus_table(found)
    assert bool(np.isnan(row[["friedman_p", "iman_davenport_p", "p_adjusted", "nemenyi_cd"]].astype(float)).all()) is (
        withheld
    )
    assert ("no verdict on the rest" in row["reason"]) is withheld
    told = bool(withheld or not ({*lost} == {"docker"} and len(lost["docker"]) == 30))
    assert ("reason" in shown) is told
    if list(lost) == ["docker"] and withheld:
        assert row["reason"] == shown["reason"][0] == f"not comparable: {ALL}"


def test_a_test_over_all_systems_holds_whatever_trials_that_all_lose_alike_were() -> None:
    whole, some, many = (
        omnibus(campaign({name: range(count) for name in BY} if count else {}), PRIMARY).iloc[0] for count in (0, 4, 21)
    )
    assert whole["iman_davenport_p"] < some["iman_davenport_p"] < 0.05 < many["iman_davenport_p"]
    assert whole["friedman_p"] < some["friedman_p"] < many["friedman_p"] == 1
    assert (some["n"], many["n"]) == (26, 9)
    assert np.isnan(some["nemenyi_cd"])
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
    assert by_deployment[:6] == [float(each) for each in worst_friedman([[1, 2], [2, 3]], 1)[:6]]
    by_block = _worst_tests(values, fates, None)
    assert by_block[:6] == [float(each) for each in worst_friedman(values[:, :5], 1)[:6]]


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
    assert np.isnan(found.loc["docker", ["power", "p", "page_p"]].astype(float)).all()
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
    drawn = figures.interim(found.reset_index(), "native", {"": 0.02}, list(BY))
    assert drawn is not None
    text = " ".join(each.get_text() for each in drawn.findobj(lambda each: hasattr(each, "get_text")))
    assert "no ratio of docker, 10 users: docker: 9 of 30 timed out" in " ".join(text.split())
    few = interim(campaign({"docker": range(3)}), "native", PRIMARY)
    assert "reason" not in tables.interim_table(few, "native")


def test_a_session_does_not_stop_for_the_narrow_interval_of_the_rest() -> None:
    kept = look(campaign({}), PRIMARY)
    assert (kept.reason, kept.unequal) == ("target", {})
    rest = look(campaign({"docker": range(9)}), PRIMARY)
    assert max(rest.widths.values()) < 0.02
    assert (rest.stop, rest.reason) == (False, "")
    assert rest.unequal == {("web", "10 users", "requests_per_s", name): ALL for name in BY}
    assert look(campaign({"docker": range(9)}), PRIMARY, most=30).reason == "n_max"
    assert look(campaign({"docker": range(9)}), PRIMARY, elapsed_s=2, budget_s=1).reason == "time"
    alike = campaign({name: range(3) for name in BY})
    assert look(alike, PRIMARY).reason == "target"
    assert look(campaign({"docker": range(30)}), PRIMARY).reason == "target"  # it cannot run the workload
