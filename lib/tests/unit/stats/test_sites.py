"""Tables over sites: what a site counts for, what is refused, what is missing, and what is said of few sites."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
import pytest

from infrabench.core import SchemaError
from infrabench.stats import meta_analysis, multiplicity, pairwise, sites
from infrabench.stats.contrasts import NOT_IN_FAMILY, contrasts
from infrabench.stats.losses import LOST
from infrabench.stats.verdicts import LIMITED
from infrabench_selfcheck.validation.generators import METRIC, WORKLOAD, campaigns_table

SYSTEMS = ("native", "docker", "lxc")
PRIMARY = [(WORKLOAD, METRIC)]


def trials(effects: tuple[float, float] = (0.97, 1.0), blocks: int = 20, sd: float = 0.01, seed: int = 1) -> np.ndarray:
    """Return two cases of three systems in blocks: (2, 3, blocks)."""
    rng = np.random.default_rng(seed)
    values = 100 * np.exp(sd * rng.normal(size=(2, 3, blocks)) + 0.05 * rng.normal(size=(2, 1, blocks)))
    return values * np.array([1.0, *effects])[None, :, None]


def site(values: np.ndarray, **how: np.ndarray) -> pd.DataFrame:
    return contrasts(campaigns_table(values, SYSTEMS, **how), "native", {"": 0.02}, PRIMARY)


def several(**effects: tuple[float, float]) -> dict[str, pd.DataFrame]:
    return {name: site(trials(each, seed=i)) for i, (name, each) in enumerate(effects.items())}


def over(
    frames: Mapping[str, pd.DataFrame], lost: Mapping[str, str] | None = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    return sites.over_sites(sites.per_site(frames), [*frames, *(lost or {})], PRIMARY, lost)


SAME = {"a": (0.97, 1.0), "b": (0.97, 1.0), "c": (0.97, 1.0), "d": (0.97, 1.0)}


def test_a_site_counts_with_the_paired_t_of_its_log_ratios() -> None:
    values = trials()
    rows = sites.per_site({"a": site(values)})
    row = rows[(rows["scenario"] == "c00001") & (rows["system"] == "docker")].iloc[0]
    logs = np.log(values[1, 1] / values[1, 0])
    assert (row["log_ratio"], row["error"]) == pytest.approx((logs.mean(), logs.std(ddof=1) / np.sqrt(20)), rel=1e-9)
    assert row["df"] == 19
    expected = pairwise.paired_t(np.log(values[1, 1]), np.log(values[1, 0])).interval
    assert np.log(row[["ratio_low", "ratio_high"]].to_numpy(dtype=float)) == pytest.approx(expected[:2], rel=1e-9)


def test_a_site_of_which_nobody_knows_what_its_lost_trials_did_counts_for_nothing() -> None:
    whole = site(trials())
    lost = whole.assign(flags=LOST, reason="1 of 20 failed (native: 0 of 20 lost)")
    for frame, used in ((whole, True), (lost, False), (lost.assign(bound_low=0.9, bound_high=1.1), True)):
        assert sites.per_site({"a": frame})["error"].notna().all() == used
    assert set(sites.per_site({"a": lost})["reason"]) == {"1 of 20 failed (native: 0 of 20 lost)"}


def test_deployments_are_a_sites_units_where_it_has_several() -> None:
    values = trials()
    deployment = np.repeat(np.arange(5), 4)
    rows = sites.per_site({"a": site(values, deployment=deployment)})
    row = rows[(rows["scenario"] == "c00000") & (rows["system"] == "docker")].iloc[0]
    means = values[0].reshape(3, 5, 4).mean(axis=-1)
    logs = np.log(means[1] / means[0])
    assert (row["error"], row["df"]) == pytest.approx((logs.std(ddof=1) / np.sqrt(5), 4), rel=1e-9)


def test_the_row_over_sites_is_what_the_array_functions_say() -> None:
    rows, found = over(several(**SAME))
    row = found[(found["scenario"] == "c00000") & (found["system"] == "docker")].iloc[0]
    mine = rows[(rows["scenario"] == "c00000") & (rows["system"] == "docker")]
    y, e, df = (mine[name].to_numpy() for name in ("log_ratio", "error", "df"))
    expected = meta_analysis.summary(y, e, df)
    assert np.log(row["ratio"]) == pytest.approx(expected.mean, rel=1e-6)
    assert np.log([row["ratio_low"], row["ratio_high"]]) == pytest.approx(expected.interval[:2], rel=1e-6)
    assert np.log([row["predicted_low"], row["predicted_high"]]) == pytest.approx(expected.predicted[:2], rel=1e-6)
    assert row["tau"] ** 2 == pytest.approx(meta_analysis.between_variance(y, e, df), rel=1e-8)
    assert row["p_sites"] == pytest.approx(meta_analysis.welch_homogeneity(y, e, df).p, rel=1e-8)
    assert mine["p_predicted"].to_numpy() == pytest.approx(meta_analysis.deleted(y, e, df).p_predicted, rel=1e-4)
    assert mine["weight"].sum() == pytest.approx(1)
    assert len(rows) == 16
    assert len(found) == 4


def test_a_claim_of_equivalence_is_adjusted_within_its_family() -> None:
    """Three of four 90 % intervals lie within the margin; by Holm the family supports none of these claims."""
    _, found = over({name: site(trials((0.985, 1.0), seed=i, sd=0.03)) for i, name in enumerate("abcd")})
    p = found["p_equivalence"].to_numpy()
    inside = (found["equivalence_low"] > 0.98) & (found["equivalence_high"] < 1.02)
    assert list(p < 0.05) == list(inside) == [True, True, False, True]
    assert found["p_equivalence_adjusted"].to_numpy() == pytest.approx(multiplicity.holm(p))
    assert set(found["verdict"]) == {"different", "inconclusive"}
    assert [NOT_IN_FAMILY in reason for reason in found["reason"]] == list(inside)
    alone = {
        name: frame[frame["system"] == "lxc"]
        for name, frame in ((each, site(trials((0.985, 1.0), seed=i, sd=0.03)[:1])) for i, each in enumerate("abcd"))
    }
    assert set(over(alone)[1]["verdict"]) == {"equivalent"}


def test_equal_sites_hold_everywhere_and_nobody_is_named() -> None:
    rows, found = over(several(**SAME))
    docker, lxc = (found[found["system"] == name] for name in ("docker", "lxc"))
    assert set(docker["verdict"]) == {"different"}
    assert set(lxc["verdict"]) == {"equivalent"}
    assert set(found["across"]) == {sites.HOLDS}
    assert (rows["named"] == "").all()
    assert (found["missing"] == "").all()


def test_a_planted_site_is_named_and_the_others_are_not() -> None:
    rows, found = over(several(**SAME | {"d": (0.70, 1.0)}))
    docker = found[found["system"] == "docker"]
    assert set(docker["across"]) == {sites.DIFFERS}
    assert set(docker["named"]) == {f"d {sites.STANDS_OUT}"}
    assert set(found[found["system"] == "lxc"]["named"]) == {""}
    named = rows[rows["named"] != ""]
    assert set(named["site"]) == {"d"}
    assert (named["apart"] < np.log(0.75)).all()


def test_of_three_sites_the_one_is_apart_from_two_that_agree() -> None:
    three = {name: SAME[name] for name in "ab"} | {"c": (0.94, 1.0)}
    _, found = over(several(**three))
    assert set(found[found["system"] == "docker"]["named"]) == {f"c {sites.APART}"}


def test_sites_that_differ_in_size_alone_hold_everywhere_all_the_same() -> None:
    effects = (0.60, 0.62, 0.58, 0.61, 0.63, 0.57, 0.60, 0.64)
    _, found = over(several(**{f"s{i}": (each, 1.0) for i, each in enumerate(effects)}))
    assert set(found[found["system"] == "docker"]["across"]) == {sites.SIZE}


def test_two_sites_have_no_mean_but_a_test_and_one_has_nothing() -> None:
    rows, two = over(several(a=(0.97, 1.0), b=(0.80, 1.0)))
    assert set(two["verdict"]) == {sites.NO_MEAN}
    assert two[["ratio", "ratio_low", "predicted_low", "tau", "i_squared"]].isna().all(axis=None)
    assert set(two[two["system"] == "docker"]["across"]) == {sites.DIFFERS}
    assert set(two["reason"]) == {sites.FEW[2]}
    assert (rows["named"] == "").all()
    _, one = over(several(a=(0.97, 1.0)), {"b": "failed: unreachable"})
    assert set(one["across"]) == {sites.OPEN}
    assert set(one["reason"]) == {sites.FEW[1]}
    assert set(one["missing"]) == {"b: failed: unreachable"}
    assert one["p_sites"].isna().all()
    assert list(one["sites"]) == [1] * 4
    assert list(one["planned"]) == [2] * 4


def test_a_site_without_a_case_or_without_an_interval_is_missing_there_with_the_reason() -> None:
    frames = several(**SAME)
    frames["b"] = frames["b"][frames["b"]["scenario"] != "c00001"]
    single = site(trials(blocks=1))
    frames["c"] = single
    _, found = over(frames, {"e": "missing: it was never begun"})
    first, second = (found[found["scenario"] == name].iloc[0] for name in ("c00000", "c00001"))
    assert first["missing"] == "c: a single complete block: no interval; e: missing: it was never begun"
    assert second["missing"].startswith(f"b: {sites.ABSENT}; c: ")
    assert (first["sites"], second["sites"], first["planned"]) == (3, 2, 5)


def test_sites_with_fixed_ratios_have_no_error_and_are_left_out() -> None:
    frames = several(**SAME)
    fixed = trials()
    fixed[:, 1] = fixed[:, 0] * 0.9
    frames["d"] = site(fixed)
    _, found = over(frames)
    docker = found[found["system"] == "docker"]
    assert set(docker["sites"]) == {3}
    assert docker["missing"].str.startswith("d: deterministic").all()


@pytest.mark.parametrize("name", ["unit", "better", "baseline", "margin"])
def test_sites_that_measure_different_things_are_refused(name: str) -> None:
    frames = several(a=(0.97, 1.0), b=(0.97, 1.0))
    other: object = 0.1 if name == "margin" else "another"
    frames["b"] = frames["b"].assign(**{name: other})
    with pytest.raises(SchemaError, match=f"the {name} differs between sites"):
        sites.per_site(frames)


@pytest.mark.parametrize(
    ("of_b", "reason"),
    [
        (lambda: site(trials(seed=9), deployment=np.repeat(np.arange(5), 4)), f"{sites.UNITS}: blocks, deployments"),
        (lambda: site(np.round(trials(sd=0.002), 0)), f"{LIMITED} at b"),
        (lambda: site(trials(seed=1)).assign(flags="dependent; outliers"), "dependent at b"),
    ],
)
def test_what_has_to_be_known_of_a_site_qualifies_the_mean(of_b: Callable[[], pd.DataFrame], reason: str) -> None:
    _, found = over(several(**SAME) | {"b": of_b()})
    assert found["reason"].str.endswith(reason).all()


def test_no_row_gives_tables_without_rows() -> None:
    rows = sites.per_site({})
    assert list(rows) == list(sites.PER_SITE)
    filled, found = sites.over_sites(rows, ["a"])
    assert filled.empty
    assert list(found) == list(sites.OVER_SITES)


@cache
def one_row() -> pd.DataFrame:
    rows = sites.per_site({"": site(trials())})
    return rows[(rows["scenario"] == "c00000") & (rows["system"] == "docker")]


def placed(logs: list[float], lost: list[float], error: float = 0.004) -> tuple[pd.Series, pd.DataFrame]:
    """Return the row over sites at these log ratios of one case, whose lost trials moved them by `lost`, and theirs."""
    rows = pd.concat([one_row().assign(site=f"s{i}") for i in range(len(logs))], ignore_index=True)
    rows = rows.assign(log_ratio=logs, lost=lost, error=error, df=29.0)
    mine, found = sites.over_sites(rows, list(rows["site"]), PRIMARY)
    return found.iloc[0], mine


SITES = [
    ([0.05, 0.03, 0.03, 0.02, 0.03], [0.02, 0, 0, 0, 0]),  # the outlying one may be one of the others, or further off
    ([0.06, 0.0, 0.0], [0.06, 0, 0]),
    ([0.0, 0.0, 0.0], [0.01, 0.02, 0.06]),
    ([0.03, 0.031, 0.03, 0.029], [0.002, 0.002, 0.001, 0.002]),
]


@pytest.mark.parametrize(("logs", "lost"), SITES)
def test_no_interval_is_narrower_for_lost_trials(logs: list[float], lost: list[float]) -> None:
    (found, rows), (without, plain) = placed(logs, lost), placed(logs, [0.0] * len(logs))
    for name in ("ratio", "predicted", "equivalence"):
        assert found[f"{name}_low"] < without[f"{name}_low"]
        assert found[f"{name}_high"] > without[f"{name}_high"]
    assert (found["ratio"], found["tau"]) == pytest.approx((without["ratio"], without["tau"]), rel=1e-9)
    assert (found[["p", "p_equivalence", "p_sites"]] >= without[["p", "p_equivalence", "p_sites"]]).all()
    for name in ("p_apart", "p_predicted"):
        assert (rows[name] >= plain[name]).all()


@pytest.mark.parametrize(("logs", "lost"), SITES)
def test_what_is_inferred_holds_wherever_lost_trials_would_put_the_sites(logs: list[float], lost: list[float]) -> None:
    found, rows = placed(logs, lost)
    y, off = np.array(logs), np.array(lost)
    rng = np.random.default_rng(1)
    shares = [*product((-1, 1), repeat=len(logs)), *rng.uniform(-1, 1, size=(200, len(logs)))]
    there = y + np.array(shares) * off
    error, df = np.full(there.shape, 0.004), np.full(there.shape, 29.0)
    within = (np.log(0.98), np.log(1.02))
    each, others = meta_analysis.summary(there, error, df, within), meta_analysis.deleted(there, error, df)
    for name, ends in (("ratio", each.interval), ("predicted", each.predicted), ("equivalence", each.narrow)):
        assert np.log(found[f"{name}_low"]) <= np.min(ends.low) + 1e-6
        assert np.log(found[f"{name}_high"]) >= np.max(ends.high) - 1e-6
    assert found["p"] >= each.p.max() - 1e-6
    assert found["p_equivalence"] >= min(each.p_outside.max(), 0.5) - 1e-6  # beyond, nothing is claimed
    assert found["p_sites"] >= meta_analysis.welch_homogeneity(there, error, df).p.max() - 1e-9
    for name in ("p_apart", "p_predicted"):
        assert (rows[name].to_numpy() >= getattr(others, name).max(axis=0) - 1e-6).all()


def test_an_outlying_site_that_may_be_like_the_others_does_not_make_a_ratio_hold_everywhere() -> None:
    logs, lost = SITES[0]
    assert placed(logs, [0.0] * 5)[0]["across"] == sites.DIFFERS
    assert placed(logs, lost)[0]["across"] == sites.OPEN
    assert placed([0.03] * 5, [0.06, 0, 0, 0, 0])[0]["across"] == sites.OPEN
    assert placed([0.03] * 5, [0.001, 0, 0, 0, 0])[0]["across"] == sites.HOLDS


def test_sites_differ_and_one_is_named_only_where_lost_trials_cannot_be_why() -> None:
    logs = [0.0, 0.001, 0.02]
    for lost, across, named in ((0.0, sites.DIFFERS, f"s2 {sites.APART}"), (0.02, sites.OPEN, "")):
        row, rows = placed(logs, [0.0, 0.0, lost])
        assert (row["across"], row["named"]) == (across, named)
        assert (row["p_sites"] < 0.05) == (named != "")
        assert rows["apart"].iloc[2] == pytest.approx(0.0195)
    row, _ = placed([0.0, 0.001, 0.04], [0.0, 0.0, 0.02])  # too far off for that
    assert (row["across"], row["named"]) == (sites.DIFFERS, f"s2 {sites.APART}")
    alike = [0.0, 0.002, -0.002, 0.001, 0.0, 0.06]
    assert placed(alike, [0.0] * 6)[0]["named"] == f"s5 {sites.STANDS_OUT}"
    assert placed(alike, [0.04, 0, 0, 0, 0, 0])[0]["named"] == ""  # the first may be as far off as the last


def test_losses_of_many_sites_take_no_more_ways_than_those_of_six() -> None:
    y, off = np.zeros((2, 12)), np.linspace(0.012, 0.001, 12) * np.array([[1.0], [0.0]])
    ways = sites._moved(y, off)
    assert ways.shape == (1 + 2**sites.FREE, 2, 12)
    assert (ways[:, 1] == 0).all()
    for end in (-off[0], off[0]):
        assert (ways[:, 0] == end).all(axis=1).any()
    assert (np.sign(ways[1:, 0, 5:]) == np.sign(ways[1:, 0, 5:6])).all()


@pytest.mark.parametrize(
    ("states", "told"),
    [(("timeout", "timeout"), True), (("failed", "invalid"), True), (("invalid", "invalid"), False)],
)
def test_a_site_that_lost_all_trials_of_both_leaves_no_mean_of_the_others(states: tuple[str, str], told: bool) -> None:
    frames = several(**SAME)
    table = campaigns_table(trials(), SYSTEMS)
    of_docker = table["scenario"] == "c00000"
    table = table[table["system"].isin(["native"]) | (table["system"] == np.where(of_docker, "docker", "lxc"))]
    gone = table["scenario"] == "c00000"
    table.loc[gone, "state"] = np.where(table.loc[gone, "system"] == "docker", *states)
    table.loc[gone, ["metric", "value", "unit", "better"]] = [None, np.nan, None, None]
    frames["c"] = contrasts(table, "native", {"": 0.02}, PRIMARY)
    rows = sites.per_site(frames, {"c": table})
    _, found = sites.over_sites(rows, list(frames), PRIMARY)
    found = found.set_index(["scenario", "system"])
    row = found.loc[("c00000", "docker")]
    assert (row["sites"], row["missing"]) == (3, "c: no ok trial of docker and native")
    assert (row["verdict"] == sites.NO_MEAN) == np.isnan(row["ratio"]) == told
    assert row["reason"] == (f"{LOST} at c: no verdict on the rest" if told else "")
    for case in (("c00000", "lxc"), ("c00001", "docker")):  # of which it tried nothing
        assert found.loc[case, "missing"] == f"c: {sites.ABSENT}"
        assert np.isfinite(found.loc[case, "ratio"])


def test_why_a_site_has_not_run_a_system_a_workload_or_a_case_is_told() -> None:
    frames = several(**SAME)
    for name, key in (("b", {"system": "lxc"}), ("c", {"workload": WORKLOAD}), ("d", {"scenario": "c00001"})):
        ((column, value),) = key.items()
        frames[name] = frames[name][frames[name][column] != value]
    why = {
        ("b", "lxc", "", ""): "not run: no guest image", ("c", "", WORKLOAD, ""): "not run: no room",
        ("d", "docker", WORKLOAD, "c00001"): "not run: no network",
    }  # fmt: skip
    _, found = sites.over_sites(sites.per_site(frames), list(frames), PRIMARY, not_run=why)
    told = found.set_index(["scenario", "system"])["missing"]
    assert told["c00000", "docker"] == "c: not run: no room"
    assert told["c00000", "lxc"] == "b: not run: no guest image; c: not run: no room"
    assert told["c00001", "docker"] == "c: not run: no room; d: not run: no network"
    assert told["c00001", "lxc"] == f"b: not run: no guest image; c: not run: no room; d: {sites.ABSENT}"


def test_a_difference_that_its_family_does_not_bear_is_told() -> None:
    rows = sites.per_site(several(**SAME))
    many = []
    for i in range(30):  # one case of thirty in which the sites differ a little
        some = rows[(rows["scenario"] == "c00000") & (rows["system"] == "docker")].assign(scenario=f"c{i:05d}")
        off = np.array([3.6, 0, 0, 0]) if i == 0 else np.zeros(4)
        many.append(some.assign(log_ratio=-0.03 + 0.002 * off, error=0.002, df=29.0))
    _, found = sites.over_sites(pd.concat(many, ignore_index=True), list(SAME), PRIMARY)
    row = found.iloc[0]
    assert row["p_sites"] < 0.05 < row["p_sites_adjusted"]
    assert row["reason"] == sites.ALONE
    assert set(found["reason"][1:]) == {""}


@pytest.mark.parametrize(("count", "per", "said"), [(10, 2, False), (11, 2, True), (11, 0, False)])
def test_more_sites_than_the_intervals_were_checked_for_are_said_to_be_so(count: int, per: int, said: bool) -> None:
    how = {"deployment": np.arange(30) // 5} if per else {}
    frames = {f"s{i:02d}": site(trials(blocks=30, seed=200 + i), **how) for i in range(count)}
    _, every = over(frames)
    assert (every["reason"].str.contains(sites.UNCHECKED, regex=False) == said).all()
    assert every[["hartung_knapp_low", "hartung_knapp_high"]].notna().all(axis=None)
