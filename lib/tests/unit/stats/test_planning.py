"""Planning: power, variance components, how large a campaign a pilot asks for, and at what cost."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from infrabench.stats import planning
from infrabench.stats.intervals import t_interval
from tests.support.analysis_fixtures import DATA_A, table_of


@pytest.mark.parametrize("n", [2, 3, 10, 30, 400])
def test_power_is_that_of_statsmodels(n: int) -> None:
    from statsmodels.stats.power import TTestPower

    for effect in (0.0, 0.1, 0.5, 1.3, 4.0):
        power = TTestPower().power(effect, n, 0.05)
        if np.isfinite(power):  # scipy's noncentral t has no answer for some large n
            assert planning.t_power(effect, 1.0, n) == pytest.approx(power, abs=1e-9)
        else:
            assert n == 400


def quadrature(sd: float, n: int, margin: float, alpha: float) -> float:
    """Power of both one-sided tests, by adaptive quadrature over the chi-square distribution of the variance."""
    df, error = n - 1, sd / np.sqrt(n)
    critical = stats.t.ppf(1 - alpha, df)

    def passes(v: float) -> float:
        room = margin - critical * error * np.sqrt(v / df)
        return stats.chi2.pdf(v, df) * max(2 * stats.norm.cdf(room / error) - 1, 0)

    most = min(df * (margin / error / critical) ** 2, stats.chi2.isf(1e-15, df))
    return integrate.quad(passes, 0, most, epsabs=1e-11, epsrel=1e-11, limit=500)[0]


@pytest.mark.parametrize("n", [2, 3, 6, 30, 200])
def test_power_of_equivalence_by_another_quadrature(n: int) -> None:
    for margin in (0.2, 0.6, 2.0, 9.0):
        assert planning.tost_power(1.0, n, margin) == pytest.approx(quadrature(1.0, n, margin, 0.05), abs=1e-8)
        adjusted = planning.tost_power(1.0, n, margin, 0.05 / 9)
        assert adjusted == pytest.approx(quadrature(1.0, n, margin, 0.05 / 9), abs=1e-8)


def test_half_width_is_that_of_students_interval() -> None:
    x = np.random.default_rng(20).normal(100, 3, (4, 12))
    low, high, _ = t_interval(x)
    assert planning.half_width(x.std(axis=-1, ddof=1), 12) == pytest.approx((high - low) / 2)


@given(st.floats(0.001, 3), st.floats(0.05, 3))
def test_n_is_the_least_that_does(sd: float, wanted: float) -> None:
    n = planning.n_for_precision(sd, wanted)
    assert planning.half_width(sd, n) <= wanted
    assert n == 2 or planning.half_width(sd, n - 1) > wanted


@given(st.floats(0.001, 50), st.integers(2, 90))
def test_what_is_detectable_is_detected_and_scales(sd: float, n: int) -> None:
    found = planning.detectable(sd, n)
    assert planning.t_power(found, sd, n) == pytest.approx(0.8, abs=1e-6)
    assert found == pytest.approx(sd * planning.detectable(1.0, n))
    margin = planning.equivalence_margin(sd, n)
    assert planning.tost_power(sd, n, margin) == pytest.approx(0.8, abs=1e-6)
    adjusted = planning.equivalence_margin(sd, n, 0.01)
    assert adjusted > margin
    assert planning.tost_power(sd, n, adjusted, 0.01) == pytest.approx(0.8, abs=1e-6)


def test_arrays_are_answered_element_by_element() -> None:
    sd, n = np.array([[0.01, 0.02], [0.0, np.nan]]), np.array([10, 30])
    for solve in (planning.detectable, planning.equivalence_margin, planning.half_width, planning.spread_limit):
        found = solve(sd, n)
        assert found.shape == (2, 2)
        assert found[0, 1] == pytest.approx(solve(0.02, 30))
    found = planning.n_for_precision(sd, 0.01)
    assert found[0].tolist() == [planning.n_for_precision(0.01, 0.01), planning.n_for_precision(0.02, 0.01)]
    assert np.isnan(found[1]).all()
    assert np.isnan(planning.t_power(1.0, sd, n)[1]).all()
    assert np.isnan(planning.tost_power(sd, n, 1.0)[1]).all()


@pytest.mark.parametrize("n", [0, 1, np.nan])
def test_one_trial_shows_nothing(n: float) -> None:
    assert np.isnan(
        [
            f(1.0, n)
            for f in (planning.half_width, planning.spread_limit, planning.detectable, planning.equivalence_margin)
        ]
    ).all()
    assert np.isnan([planning.t_power(1.0, 1.0, n), planning.tost_power(1.0, n, 1.0)]).all()


def test_out_of_reach_is_said() -> None:
    assert np.isnan(planning.n_for_precision(1.0, 1e-6))
    assert np.isnan(planning.n_for_precision(1.0, 0.0))
    assert planning.n_for_precision(1.0, 0.003) == pytest.approx((stats.norm.ppf(0.975) / 0.003) ** 2, rel=1e-4)
    found = planning.blocks_to_decide([0.0, np.nan, 80.0, 1e-9], [0.02, 0.02, 1e-4, 0.02])
    assert np.isnan(found[:3]).all()
    assert found[3] == 2


def test_spread_limit_covers() -> None:
    x = np.random.default_rng(22).normal(size=(20_000, 8)).std(axis=1, ddof=1)
    assert (planning.spread_limit(x, 8) < 1).mean() == pytest.approx(0.025, abs=0.004)


def test_blocks_to_decide_holds_for_the_first_step_of_holm_and_leaves_room_for_rounding() -> None:
    for tests, off in ((1, 0.005), (3, 0.0), (12, 0.004)):
        n = int(planning.blocks_to_decide(0.02, 0.02, tests, off))
        for blocks, enough in ((n, True), (n - 1, False)):
            both = stats.t.ppf([0.975, 1 - 0.05 / tests], blocks - 1).sum() * 0.02 / np.sqrt(blocks)
            assert (both + 2 * off <= 0.02) == enough
    assert np.isnan(planning.blocks_to_decide(0.02, 0.02, 1, [0.01, 0.02])).all()


# the worked example of Kalibera and Jones 2013: 3 x 2 x 2
EXAMPLE = np.array([[[9, 5], [8, 3]], [[10, 6], [7, 11]], [[1, 12], [2, 4]]], dtype=float)


def test_reference_of_the_optimum() -> None:
    assert planning.blocks_per_deployment(0.7266667, 0.2627778, 3, 20) == pytest.approx(4.293660, rel=1e-6)
    assert planning.blocks_per_deployment(0.2627778, 0.7747222, 20, 100) == pytest.approx(1.302286, rel=1e-6)
    assert planning.blocks_per_deployment(16.5, -5.7, 1, 1) == np.inf
    assert planning.blocks_per_deployment(-5.7, 2.3, 1, 1) == 1.0


def test_one_way_of_balanced_groups_is_the_published_one_of_two_levels() -> None:
    found = planning.one_way(EXAMPLE.ravel(), np.repeat([0, 1, 2], 4))
    assert (found.within, found.between) == pytest.approx((12.722222, 0.381944), rel=1e-5)
    assert found.share == pytest.approx(0.381944 / (12.722222 + 0.381944), rel=1e-5)


def test_one_way_of_unequal_groups() -> None:
    x = np.random.default_rng(51).normal(10, 1, 14)
    group = np.repeat([7, 3, 9], [2, 5, 7])
    found = planning.one_way(x, group)
    parts = [x[group == label] for label in (7, 3, 9)]
    size = (14 - (4 + 25 + 49) / 14) / 2  # the number of trials that a group counts as having
    assert found.within == pytest.approx(sum(p.var() * p.size for p in parts) / 11)
    # the F of an analysis of variance is the ratio of the mean squares
    f = stats.f_oneway(*parts).statistic
    assert (found.between * size + found.within) / found.within == pytest.approx(f)


def test_one_way_without_groups_or_within() -> None:
    assert np.isnan(planning.one_way(np.arange(4.0), np.zeros(4, dtype=np.int64))).all()
    assert np.isnan(planning.one_way(np.arange(4.0), np.arange(4))).all()
    assert np.isnan(planning.one_way(np.full(4, 2.0), np.array([0, 0, 1, 1])).share)
    assert planning.one_way(np.array([1.0, 3, 1, 3]), np.array([0, 0, 1, 1])).share == 0


MARGINS = {"": 0.02}


def plan_of(values: dict[str, list[float | None]], *, blocks_per_deployment: int = 0, **how: object) -> pd.DataFrame:
    table = table_of(values, blocks_per_deployment=blocks_per_deployment)
    return planning.plan_from_pilot(table, "native", **({"margins": MARGINS} | how)).set_index(
        ["system", "quantity", "target"]
    )


def test_columns_types_and_rows() -> None:
    found = planning.plan_from_pilot(table_of(DATA_A), "native", MARGINS)
    assert tuple(found.columns) == tuple(planning.PILOT)
    assert {name: str(kind) for name, kind in found.dtypes.items()} == planning.PILOT
    assert len(found) == 4 * 3 + 3 * (3 + 1)  # means of 4 systems and ratios of 3 at 3 targets, and 3 verdicts
    assert (
        planning.plan_from_pilot(table_of({"native": [None]}), "native", MARGINS).dtypes.to_dict()
        == found.dtypes.to_dict()
    )


def test_sizes_come_from_the_pilots_spread_and_its_upper_limit_and_those_of_verdicts_from_their_family_too() -> None:
    found = plan_of(DATA_A, seconds=360.0, targets=(0.001, 0.01))
    cov = np.std(DATA_A["docker"], ddof=1) / np.mean(DATA_A["docker"])
    mean = found.loc[("docker", "mean", 0.01)]
    assert mean["spread"] == pytest.approx(cov)
    assert mean["n"] == planning.n_for_precision(cov, 0.01)
    assert mean["n_high"] == planning.n_for_precision(planning.spread_limit(cov, 10), 0.01) > mean["n"]
    assert (mean["hours"], mean["hours_high"]) == (mean["n"] / 10, mean["n_high"] / 10)
    sd = np.std(np.log(np.array(DATA_A["docker"]) / DATA_A["native"]), ddof=1)
    ratio = found.loc[("docker", "ratio", 0.001)]
    assert ratio["spread"] == pytest.approx(sd)
    assert ratio["n"] == planning.n_for_precision(sd, np.log(1.001)) > planning.n_for_precision(sd, 0.001)
    assert (
        found.loc[("docker", "verdict", 0.02), "n"]
        == planning.blocks_to_decide(sd, 0.02, 3)
        > planning.blocks_to_decide(sd, 0.02)
    )
    assert (found["note"] == "").all()
    assert (found["baseline"] == "native").groupby("quantity").all().to_dict() == {
        "mean": False, "ratio": True, "verdict": True
    }  # fmt: skip


def test_the_family_of_a_verdict_is_the_other_systems_that_have_a_spread() -> None:
    two = {name: DATA_A[name] for name in ("native", "docker")}
    sd = np.std(np.log(np.array(DATA_A["docker"]) / DATA_A["native"]), ddof=1)
    for values in (two, two | {"lxc": DATA_A["native"]}, two | {"lxc": [None] * 10}):
        assert plan_of(values).loc[("docker", "verdict", 0.02), "n"] == planning.blocks_to_decide(sd, 0.02)


def test_deployments_are_the_units_when_there_are_several() -> None:
    found = plan_of(DATA_A, blocks_per_deployment=2)
    means = np.reshape(DATA_A["lxc"], (5, 2)).mean(axis=1)
    mean = found.loc[("lxc", "mean", 0.01)]
    assert (mean["unit"], mean["n_pilot"]) == ("deployments", 5)
    assert mean["spread"] == pytest.approx(means.std(ddof=1) / means.mean())
    assert np.isnan(mean["hours"])


def test_only_blocks_with_both_make_a_pair() -> None:
    found = plan_of({"native": [1.0, 2, None, 4], "lxc": [1.1, None, 3.2, 4.4]})
    assert found.loc[("lxc", "mean", 0.01), "n_pilot"] == 3
    assert found.loc[("lxc", "ratio", 0.01), "n_pilot"] == 2


@pytest.mark.parametrize(
    ("values", "note"),
    [
        ([1.0, None, None], "fewer than two blocks"),
        ([2.0, 4.0, 6.0], "no spread"),
        ([0.0, 1.0, 2.0], "values not all positive"),
        ([1e-9, 1e9, 1e-9], "more than a million"),
    ],
)
def test_why_a_pilot_names_no_size(values: list[float | None], note: str) -> None:
    row = plan_of({"native": [1.0, 2, 3], "lxc": values}).loc[("lxc", "verdict", 0.02)]
    assert row["note"] == note
    assert np.isnan(row["n_high"])


def test_a_mean_of_zero_and_a_metric_without_margin() -> None:
    found = plan_of({"native": [1.0, 2, 3], "lxc": [-1.0, 0.0, 1.0]}, margins={"other": 0.1})
    assert found.loc[("lxc", "mean", 0.01), "note"] == "the mean is 0"
    assert "verdict" not in found.index.get_level_values("quantity")


DEPLOYMENTS, BLOCKS = 8, 5
GROUP = np.repeat(np.arange(DEPLOYMENTS), BLOCKS)


def pilot(between: float = 0.02, within: float = 0.03, seed: int = 81) -> dict[str, list[float]]:
    rng = np.random.default_rng(seed)
    y = 100 * np.exp(rng.normal(0, 0.05, GROUP.size))
    apart = rng.normal(0, between, DEPLOYMENTS)[GROUP] + rng.normal(0, within, GROUP.size)
    return {"native": list(y), "docker": list(0.98 * y * np.exp(apart))}


def planned(values: dict, costs: tuple[float, float] = (60.0, 600.0), per: int = BLOCKS) -> pd.DataFrame:
    table = table_of(values, blocks_per_deployment=per)
    found = planning.dimensions(table, "native", [0.01, 0.02], *costs)
    assert tuple(found.columns) == tuple(planning.DIMENSIONS)
    assert {name: str(kind) for name, kind in found.dtypes.items()} == planning.DIMENSIONS
    return found.set_index(["system", "quantity", "target"])


def test_sizes_are_those_of_the_formula() -> None:
    values = pilot()
    logs = np.log(np.array(values["docker"]) / values["native"])
    found = planning.one_way(logs, GROUP)
    row = planned(values).loc[("docker", "ratio", 0.01)]
    assert (row["sd_within"] ** 2, row["sd_between"] ** 2) == pytest.approx((found.within, found.between))
    blocks = np.ceil(np.sqrt(600 / 60 * found.within / found.between))
    spread = np.sqrt(found.between + found.within / blocks)
    assert row["blocks"] == blocks
    assert row["deployments"] == planning.n_for_precision(spread, np.log(1.01))
    assert row["deployments_high"] == planning.n_for_precision(planning.spread_limit(spread, DEPLOYMENTS), np.log(1.01))
    assert row["hours"] == pytest.approx(row["deployments"] * (600 + blocks * 60) / 3600)
    assert row["hours_high"] > row["hours"]
    assert row["note"] == ""


def test_why_there_is_no_size() -> None:
    where = ("docker", "ratio", 0.01)
    alike = pilot()
    alternating = np.tile([-0.01, 0.01], GROUP.size // 2)
    alike["docker"] = list(np.array(alike["native"]) * np.exp(alternating))
    negative = pilot()
    negative["docker"][3] = -1.0
    for values, how, note in (
        (pilot(), {"per": 0}, planning.ONE_LEVEL),
        (pilot(), {"per": 1}, planning.ONE_LEVEL),
        (pilot(), {"costs": (60.0, float("nan"))}, planning.NO_COSTS),
        (pilot(), {"costs": (0.0, 600.0)}, planning.NO_COSTS),
        (alike, {"per": 4}, planning.NONE_BETWEEN),
        (negative, {}, planning.NOT_POSITIVE),
    ):
        row = planned(values, **how).loc[where]
        assert row["note"] == note
        assert np.isnan(row["deployments"])
    assert (
        planning.dimensions(table_of({"native": [None]}), "native", [0.01], 1.0, 1.0).dtypes.to_dict()
        == planned(pilot()).reset_index()[list(planning.DIMENSIONS)].dtypes.to_dict()
    )
