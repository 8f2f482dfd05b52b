from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infrabench.core import DesignError
from infrabench.stats import stopping
from infrabench.stats.intervals import median_interval, t_interval
from infrabench.stats.stopping import PrecisionCheck, Share, look, relative_width, share_out, stopping_n
from tests.support.analysis_fixtures import table_of

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
    assert found.criterion == {(*CELL, "native"): "t", (*CELL, "lxc"): "t"}
    assert (found.stop, found.reason) == (True, "target")


@pytest.mark.parametrize("n", range(2, 30))
def test_never_below_thirty(n: int) -> None:
    still = look_at({"native": np.full(n, 5.0), "lxc": noise(n, 0.001)}, elapsed_s=9e9, budget_s=1.0)
    assert (still.n, still.stop, still.reason) == (n, False, "")


@pytest.mark.parametrize(
    ("n", "cov", "elapsed_s", "reason"),
    [
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
    assert found.criterion[(*CELL, "native")] == "median"
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
    last = table["block"] == 30
    table.loc[last, ["state", "value", "metric", "unit", "better"]] = ["discarded", np.nan, None, None, None]
    assert look(table, PRIMARY).n == 30


SERIES = st.lists(st.lists(st.floats(90, 110), min_size=30, max_size=30), min_size=2, max_size=3)


@given(SERIES, st.permutations(range(3)), st.sampled_from([0.25, 4.0]))
@settings(max_examples=25)
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


def test_the_rule_cannot_see_a_baseline_or_a_p_value() -> None:
    assert "baseline" not in inspect.signature(look).parameters
    imports = [line for line in inspect.getsource(stopping).splitlines() if line.startswith(("import", "from"))]
    assert not any(word in line for line in imports for word in ("contrasts", "pairwise", "ratios", "equivalence"))


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


def test_the_last_look_is_at_the_most_even_between_batches() -> None:
    x = np.random.default_rng(44).normal(100, 60, (5, 1, 98))
    assert stopping_n(x, most=98).n.tolist() == [98] * 5
    with pytest.raises(DesignError, match="98 blocks cannot show"):
        stopping_n(x)


def test_widths_of_many_cells_at_once() -> None:
    x = np.stack([noise(30, 0.01), np.full(30, 2.0), np.where(np.arange(30) % 5, 1.0, 2.0)])
    width, median = relative_width(x)
    assert width.tolist() == pytest.approx([0.01 * 2.0452296 / np.sqrt(30), 0, 0])
    assert median.tolist() == [False, False, True]
    assert np.isnan(relative_width(np.empty((2, 0)))[0]).all()


# ---------------------------------------------------------------------------------------- a time that is shared out

CPU = PRIMARY[0]


def cases(block_s: float, n: int = 20, **covs: float) -> pd.DataFrame:
    """Return scenarios on two systems, each with this spread of its log ratios; a block takes `block_s`."""
    tables = []
    for number, (name, cov) in enumerate(covs.items()):
        table = table_of({"native": np.full(n, 100.0), "lxc": noise(n, cov, number)})
        tables.append(table.assign(scenario=name, trial=table["trial"] + name, duration_s=block_s / 2))
    return pd.concat(tables, ignore_index=True)


def share(left_s: float, n: int = 20, most: int = 100, block_s: float = 4.0, **covs: float) -> Share:
    table = cases(block_s, n, **covs)
    return share_out(table, [CPU], "native", {"": 0.02}, left_s=left_s, between_s=1.0, most=most)


@pytest.mark.parametrize(
    ("left_s", "chosen", "reason"),
    [
        (10_000, "near", ""),  # both can get there: the cheaper one
        (200, "near", ""),
        (60, "far", ""),  # none can: the widest against its margin
        (24, None, "time"),  # five blocks of 5 s do not fit
    ],
)
def test_time_goes_to_what_can_get_there_and_then_to_the_widest(left_s: float, chosen: str, reason: str) -> None:
    found = share(left_s, narrow=0.002, near=0.03, far=0.06)
    assert found.case == (None if chosen is None else (CPU[0], chosen))
    assert found.reason == reason
    assert found.costs_s[CPU[0], "near"] == pytest.approx(5.0)
    assert list(found.missing_s()) == [(CPU[0], "near"), (CPU[0], "far")]


def test_time_ends_with_what_is_narrow_enough_or_has_most_blocks() -> None:
    assert share(1e6, narrow=0.002, still=0.0).reason == "target"
    assert share(1e6, most=20, near=0.03).reason == "n_max"
    one = share_out(table_of({"native": [100.0], "lxc": [101.0]}), [CPU], "native", {"": 0.02}, left_s=1e6)
    assert (one.needs, one.case, one.reason) == ({(CPU[0], "default"): np.inf}, None, "n_max")
    table = cases(4.0, near=0.03)
    alone = share_out(table[table["system"] != "native"], [CPU], "native", {"": 0.02}, left_s=1e6)
    assert (alone.case, alone.reason) == (None, "n_max")


def test_what_the_ratios_say_does_not_move_the_time() -> None:
    """Only spread, margin and cost do: a system that is three times as fast, or no other, gets the same."""
    table = cases(4.0, near=0.03, far=0.06)
    faster = table.assign(value=table["value"].where(table["system"] == "native", 3 * table["value"]))
    one, other = (share_out(each, [CPU], "native", {"": 0.02}, left_s=900) for each in (table, faster))
    assert one.case == other.case
    assert one.needs == pytest.approx(other.needs)
