from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infrabench.core import DesignError
from infrabench.stats import contrasts
from infrabench.stats.intervals import median_interval, t_interval
from infrabench.stats.stopping import PrecisionCheck, Share, look, share_out
from tests.support.analysis_fixtures import lose, table_of

PRIMARY = [("sysbench-cpu", "events_per_s")]
CELL = ("sysbench-cpu", "default", "events_per_s")


def noise(n: int, cov: float, seed: int = 41) -> np.ndarray:
    """n values whose coefficient of variation is exactly `cov`."""
    x = np.random.default_rng(seed).normal(size=n)
    return 100 * (1 + cov * (x - x.mean()) / x.std(ddof=1))


def look_at(values: dict[str, Any], **how: Any) -> PrecisionCheck:
    return look(table_of(values), PRIMARY, **how)


def test_a_look_says_what_it_saw() -> None:
    x = noise(30, 0.02)
    found = look_at({"native": x, "lxc": 2 * x})
    low, high, _ = t_interval(x)
    assert found.n == 30
    assert found.widths[(*CELL, "native")] == pytest.approx((high - low) / 2 / x.mean())
    assert found.widths[(*CELL, "lxc")] == pytest.approx(0.02 * 2.0452296 / np.sqrt(30))
    assert (found.stop, found.reason) == (True, "target")


@pytest.mark.parametrize(
    ("n", "cov", "elapsed_s", "reason"),
    [
        (2, 0.001, 3600.0, ""),  # never below thirty
        (29, 0.001, 3600.0, ""),
        (30, 0.01, 0.0, "target"),
        (30, 0.20, 0.0, ""),
        (31, 0.01, 0.0, ""),  # whole batches only
        (34, 0.01, 0.0, ""),
        (35, 0.01, 0.0, "target"),
        (31, 0.20, 3600.0, "time"),
        (35, 0.01, 3600.0, "target"),
        (100, 0.20, 0.0, "n_max"),
        (100, 0.20, 3600.0, "n_max"),
        (100, 0.09, 0.0, "target"),
        (104, 0.01, 0.0, "target"),
    ],
)
def test_reasons(n: int, cov: float, elapsed_s: float, reason: str) -> None:
    found = look_at({"native": noise(n, cov)}, elapsed_s=elapsed_s, budget_s=3600.0)
    assert (found.reason, found.stop) == (reason, bool(reason))


def test_every_primary_cell_has_to_meet_the_target() -> None:
    good, bad = noise(30, 0.01), noise(30, 0.2)
    assert look_at({"native": good, "lxc": good}).stop
    assert not look_at({"native": good, "lxc": bad}).stop
    other = table_of({"native": bad}, metric="latency_s", unit="s", better="lower")
    both = pd.concat([table_of({"native": good}), other.assign(trial=other["trial"] + "l")])
    assert look(both, PRIMARY).stop
    assert not look(both, [*PRIMARY, ("sysbench-cpu", "latency_s")]).stop


def test_a_cell_with_two_modes_is_judged_by_its_median() -> None:
    x = noise(30, 0.005)
    x[::5] *= 1.5
    found = look_at({"native": x})
    low, high, _ = median_interval(x)
    assert found.widths[(*CELL, "native")] == pytest.approx((high - low) / 2 / np.median(x))
    assert found.reason == "target"
    assert (t_interval(x).high - t_interval(x).low) / 2 / x.mean() > 0.02


def test_what_cannot_be_measured_does_not_keep_a_session_going() -> None:
    found = look_at({"native": noise(30, 0.01), "lxd": [None] * 30})
    assert np.isnan(found.widths[(*CELL, "lxd")])
    assert found.reason == "target"
    assert not look_at({"native": noise(30, 0.01), "lxd": [1.0] + [None] * 29}).stop  # one value says no width
    assert not look_at({"lxd": [None] * 30}).stop


def test_equal_values_have_no_width_and_a_mean_of_zero_has_too_much() -> None:
    same = look_at({"native": np.full(30, 7.0)})
    assert (same.widths[(*CELL, "native")], same.reason) == (0.0, "target")
    zero = look_at({"native": np.tile([-1.0, 1.0], 15)})
    assert zero.widths[(*CELL, "native")] > 1e9
    assert not zero.stop


def test_discarded_blocks_do_not_count() -> None:
    table = table_of({"native": noise(31, 0.01)})
    lose(table, table["block"] == 30, "discarded")
    assert look(table, PRIMARY).n == 30


SERIES = st.lists(st.lists(st.floats(90, 110), min_size=30, max_size=30), min_size=2, max_size=3)


@given(SERIES, st.permutations(range(3)), st.sampled_from([0.25, 4.0]))
@settings(max_examples=8)
def test_neither_names_nor_the_scale_of_a_system_matter(values: list[list[float]], order: list[int], k: float) -> None:
    systems = {f"s{i}": np.array(x) for i, x in enumerate(values)}
    renamed = {f"s{order[i]}": x for i, x in enumerate(systems.values())}
    # were systems compared, one that is four times as fast would change the decision
    scaled = systems | {"s0": k * systems["s0"]}
    first = look_at(systems)
    for other in (renamed, scaled):
        again = look_at(other)
        assert (again.n, again.stop, again.reason) == (first.n, first.stop, first.reason)
        assert sorted(again.widths.values()) == pytest.approx(sorted(first.widths.values()))


@pytest.mark.parametrize("how", [{"target": 0.0}, {"least": 1}, {"least": 40, "most": 39}, {"batch": 0}], ids=str)
def test_rules_that_are_none(how: dict[str, Any]) -> None:
    with pytest.raises(DesignError, match="no stopping rule"):
        look_at({"native": noise(30, 0.01)}, **how)


def test_what_is_not_there_is_said() -> None:
    table = table_of({"native": noise(30, 0.01)})
    for absent in (("sysbench-cpu", "latency_s"), ("web", "requests_per_s")):
        with pytest.raises(DesignError, match="not in the table"):
            look(table, [absent])
    with pytest.raises(DesignError, match="deployments is fixed"):
        look(table_of({"native": noise(30, 0.01)}, blocks_per_deployment=15), PRIMARY)


CPU = PRIMARY[0]


def cases(n: int = 20, **covs: float) -> pd.DataFrame:
    """Return scenarios on two systems, each with this spread of its ratios."""
    tables = []
    for number, (name, cov) in enumerate(covs.items()):
        table = table_of({"native": np.full(n, 100.0), "lxc": noise(n, cov, number)})
        tables.append(table.assign(scenario=name, trial=table["trial"] + name))
    return pd.concat(tables, ignore_index=True)


def share_of(table: pd.DataFrame, left_s: float = 1e6, most: int = 100, margin: float = 0.02) -> Share:
    """Return how `left_s` is shared out where a block of any case takes 5 s."""
    costs_s = {(CPU[0], scenario): 5.0 for scenario in table["scenario"].unique()}
    return share_out(table, [CPU], "native", {"": margin}, costs_s=costs_s, left_s=left_s, most=most)


def share(left_s: float, n: int = 20, most: int = 100, **covs: float) -> Share:
    return share_of(cases(n, **covs), left_s, most)


@pytest.mark.parametrize(
    ("left_s", "chosen", "reason"),
    [
        (10_000, "near", ""),  # both can get there
        (60, "near", ""),  # none can
        (4.9, None, "time"),  # one block of 5 s does not fit
    ],
)
def test_time_goes_to_what_is_narrow_enough_soonest(left_s: float, chosen: str, reason: str) -> None:
    found = share(left_s, narrow=0.002, near=0.03, far=0.06)
    assert found.case == (None if chosen is None else (CPU[0], chosen))
    assert found.reason == reason
    assert list(found.missing()) == [(CPU[0], "near"), (CPU[0], "far")]


def test_a_case_counts_for_its_next_system_and_not_for_the_one_that_takes_longest() -> None:
    mixed = table_of({"native": np.full(20, 100.0), "lxc": noise(20, 0.026, 0), "lxd": noise(20, 0.5, 1)})
    found = share_of(pd.concat([mixed, cases(near=0.03)]), most=1000)
    soon, late = (found.needs[(*CELL, system)] - 20 for system in ("lxc", "lxd"))
    assert 0 < soon < found.missing()[CPU[0], "near"] < late
    assert (found.case, found.missing()[found.case]) == ((CPU[0], "default"), soon)


def test_time_ends_with_what_is_narrow_enough_or_has_most_blocks() -> None:
    assert share(1e6, narrow=0.002, still=0.0).reason == "target"
    assert share(1e6, most=20, near=0.03).reason == "n_max"
    assert share(1e6, most=23, far=0.2).count == 3
    one = share_of(table_of({"native": [100.0], "lxc": [101.0]}))
    assert (one.needs, one.case, one.reason) == ({(*CELL, "lxc"): np.inf}, None, "n_max")
    assert one.why[(*CELL, "lxc")] == "fewer than two blocks have a value of both"
    table = cases(near=0.03)
    alone = share_of(table[table["system"] != "native"])
    assert (alone.case, alone.reason) == (None, "n_max")
    assert set(alone.why.values()) == {"no ok trial of native"}


def test_what_the_ratios_say_does_not_move_the_time() -> None:
    """Only spread, margin and cost do: a system that is three times as fast, or no other, gets the same."""
    table = cases(near=0.03, far=0.06)
    faster = table.assign(value=table["value"].where(table["system"] == "native", 3 * table["value"]))
    one, other = (share_of(each, 900) for each in (table, faster))
    assert (one.case, one.count) == (other.case, other.count)
    assert one.needs == pytest.approx(other.needs)


@pytest.mark.parametrize(("left_s", "count"), [(50, 5), (49, 4), (20, 2), (19, 1), (5, 1)])
def test_at_most_one_block_is_late_where_blocks_take_up_to_twice_their_cost(left_s: float, count: int) -> None:
    found = share(left_s, far=0.2)
    assert (found.case, found.count) == ((CPU[0], "far"), count)
    assert 2 * 5.0 * (count - 1) < left_s


def test_time_goes_first_to_what_can_get_there_with_the_most_blocks() -> None:
    found = {most: share(1e6, most=most, near=0.03, far=0.06) for most in (30, 100)}
    assert found[100].case == (CPU[0], "near")
    assert found[30].case == (CPU[0], "near")  # neither can
    assert {case: round(n) for case, n in found[30].missing().items()}[CPU[0], "near"] > 10


def lossy(lost: dict[str, int], n: int = 20) -> pd.DataFrame:
    """Return one case in which systems lose their first blocks, and are quiet in the others."""
    values = {"native": [100.0] * n} | {name: [None] * k + [*noise(n, 0.001, k)][k:] for name, k in lost.items()}
    return table_of(values)


def test_a_system_that_loses_more_trials_is_not_narrow_and_its_partners_are() -> None:
    found = share_of(lossy({"docker": 9, "lxc": 1}))
    assert found.unequal.keys() == {(*CELL, "docker")}
    assert "9 of 20" in found.unequal[(*CELL, "docker")]
    assert found.lacking() == [(*CELL, "docker")]
    assert (found.case, found.reason, found.missing()) == (None, "n_max", {})
    assert np.isfinite(found.needs[(*CELL, "lxc")])


def test_trials_lost_alike_count_for_the_bounds_that_they_leave_and_name_no_number() -> None:
    both = {name: [None] * 6 + [*noise(20, 0.001, 6 + at)][6:] for at, name in enumerate(("native", "lxc"))}
    found = share_of(table_of(both))
    assert (found.unequal, found.lacking(), found.missing()) == ({}, [(*CELL, "lxc")], {})
    assert found.why == {(*CELL, "lxc"): "lost trials leave bounds that are too wide for the margin"}
    assert (found.case, found.count) == ((CPU[0], "default"), 5)  # more blocks may do
    verdict = contrasts(table_of(both), "native", {"": 0.02}, [CPU]).iloc[0]
    assert verdict["verdict"] == "not comparable"
    wider = cases(other=0.03)
    beside = share_of(pd.concat([table_of(both), wider]))
    assert beside.case == (CPU[0], "other")  # of which a number is named
    one = share_of(lossy({"lxc": 1}))
    assert (one.lacking(), one.reason) == ([], "target")


def test_a_system_without_an_ok_trial_is_listed_and_holds_up_no_other() -> None:
    table = lossy({"lxd": 20})
    wide = table_of({"native": [100.0] * 20, "lxc": noise(20, 0.03)})
    found = share_of(pd.concat([table, wide[wide["system"] == "lxc"]]))
    assert found.why == {(*CELL, "lxd"): "no ok trial of lxd"}
    assert (found.case, found.pairs[(*CELL, "lxd")]) == ((CPU[0], "default"), 0)
    nobody = share_of(table_of({"native": [None] * 20, "lxc": [None] * 20}))
    assert nobody.why == {(*CELL, "lxc"): "no ok trial of native and lxc"}


def test_what_was_never_tried_in_a_case_is_not_listed() -> None:
    table = cases(near=0.03, far=0.06)
    absent = (table["scenario"] == "far") & (table["system"] == "lxc")
    assert share_of(table[~absent]).needs.keys() == {(CPU[0], "near", CPU[1], "lxc")}


def test_a_metric_without_a_margin_is_refused() -> None:
    with pytest.raises(DesignError, match="no equivalence margin for 'events_per_s' and no default"):
        share_out(cases(near=0.03), [CPU], "native", {"other": 0.1}, costs_s={}, left_s=1)


def test_a_printing_step_takes_its_room_in_the_margin() -> None:
    x = np.tile([100.0, 100.0, 100.0, 101.0], 5)  # printed in whole numbers, and hardly any spread
    table = table_of({"native": np.full(20, 100.0), "lxc": x}, metric="events_per_s")
    fine, coarse = (share_of(table, margin=margin) for margin in (0.05, 0.01))
    assert coarse.why == {(*CELL, "lxc"): "the printing step leaves no room within the margin"}
    assert np.isfinite(fine.needs[(*CELL, "lxc")])


@pytest.mark.parametrize("kind", ["quantity", "fixed-work rate"])
def test_the_spread_is_that_of_the_contrast_that_follows(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """The number of pairs at which it stops is the one from which on no contrast can be inconclusive."""
    monkeypatch.setattr("infrabench.stats.table.registry.metric_kinds", lambda name: {"events_per_s": kind})
    block = np.random.default_rng(3).lognormal(0, 0.3, 40)  # blocks differ far more than systems do
    table = table_of({"native": block, "lxc": 0.9 * block * noise(40, 0.05)})
    found = share_of(table)
    contrast = contrasts(table, "native", {"": 0.02}, [CPU]).iloc[0]
    half = (contrast["ratio_high"] - contrast["ratio_low"]) / 2
    assert half / contrast["ratio"] == pytest.approx(found.widths[(*CELL, "lxc")], rel=0.01)
