"""Trend over ordered levels: Page's published example and all permutations; slopes against a regression by block."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from infrabench.stats import trends
from infrabench.stats.multiplicity import holm
from infrabench.stats.omnibus import TRENDS, log_slope, page
from tests.support.analysis_fixtures import table_of

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
    assert found.statistic == pytest.approx(known.statistic, rel=1e-9)
    assert found.p == pytest.approx(known.pvalue, rel=1e-9)
    assert found.interval[:2] == pytest.approx(tuple(known.confidence_interval()), rel=1e-9)
    assert found.df == 8


def test_a_power_of_the_level_is_found() -> None:
    at = np.array([10.0, 20, 40])
    found = log_slope(7 * at[:, None] ** 0.5 * np.exp(RNG.normal(0, 1e-3, (3, 12))), np.log(at))
    assert found.interval.low < 0.5 < found.interval.high
    assert found.estimate == pytest.approx(0.5, abs=2e-3)


def test_slope_covers() -> None:
    noise, weather = np.random.default_rng(68).normal(size=(2, 4000, 4, 8))
    x = np.exp(0.05 * np.arange(4.0)[:, None] + 0.02 * noise + weather[:, :1])
    found = log_slope(x, np.arange(4.0))
    assert 0.938 <= ((found.interval.low <= 0.05) & (found.interval.high >= 0.05)).mean() <= 0.962


@given(st.floats(1e-6, 1e6), st.permutations(range(6)), st.sampled_from([0.5, 10.0]))
def test_unit_order_of_blocks_and_unit_of_the_level(unit: float, order: list[int], step: float) -> None:
    x = np.random.default_rng(69).lognormal(1, 0.3, (4, 6))
    at = np.array([1.0, 2, 3, 5])
    found, moved = log_slope(x, at), log_slope(unit * x[:, order], step * at + 3)
    assert moved.p == pytest.approx(found.p, rel=1e-6)
    assert moved.interval.low == pytest.approx(found.interval.low / step, rel=1e-6)
    assert page(unit * x[:, order]).p == page(x).p


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
