from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from infrabench.analysis.tidy import missing, tidy
from infrabench.stats import contrasts, estimates, interim
from infrabench.stats.estimates import TYPES
from infrabench.stats.intervals import bootstrap_t, hodges_lehmann, log_t_interval, median_interval, t_interval
from tests.support.analysis_fixtures import CASES, DATA_A, MARGINS, PRIMARY, table_of, write_session


def test_a_cell_says_what_the_array_functions_say() -> None:
    x = np.array(DATA_A["native"])
    row = estimates(table_of(DATA_A)).set_index("system").loc["native"]
    geometric, pseudo = log_t_interval(x), hodges_lehmann(x)
    for name, ends in (
        ("mean", t_interval(x)), ("median", median_interval(x)), ("geometric", geometric.interval),
        ("pseudo", pseudo.interval), ("boot_t", bootstrap_t(x)),
    ):  # fmt: skip
        assert (row[f"{name}_low"], row[f"{name}_high"]) == pytest.approx(ends[:2], rel=1e-12), name
    centres = ["mean", "median", "median_level", "geometric_mean", "pseudo_median", "sd"]
    expected = [x.mean(), np.median(x), 0.978515625, geometric.value, pseudo.value, 1.310209907]
    assert row[centres].tolist() == pytest.approx(expected, rel=1e-8)
    assert (row["n"], row["deployments"], row["unit_n"]) == (10, 1, 10)
    assert np.isnan(row["between_share"])
    assert row["cov"] == pytest.approx(1.310209907 / 101.245, rel=1e-6)
    assert (row["min"], row["max"], row["deterministic"]) == (98.67, 102.6, False)


def test_counts_of_every_cell(tmp_path: Path) -> None:
    session = write_session(tmp_path / "s", blocks=7, skip_last=4)
    table, absent = tidy(session), missing(session)
    cells = estimates(table, absent)
    assert list(cells.columns) == list(TYPES)
    assert (cells["planned"] == 7).all()
    states = cells[["ok", "failed", "invalid", "timeout", "unparsable", "aborted"]].sum(axis=1)
    per_case = absent.groupby(["workload", "scenario", "system"]).size()
    unrecorded = [per_case.get((r.workload, r.scenario, r.system), 0) for r in cells.itertuples()]
    assert list(cells["planned"] - states) == unrecorded
    assert sum(unrecorded) > 0
    assert (cells["n"] == cells["ok"]).all()
    assert len(cells) == 3 * sum(len(case[4]) for case in CASES)
    failed = cells.query("workload == 'stream' and system == 'docker'")
    assert list(failed["metric"]) == ["copy_B_per_s", "triad_B_per_s"]
    assert (failed["failed"] > 0).all()
    assert failed[["mean", "median", "sd", "min", "max"]].isna().all(axis=None)
    assert cells.query("scenario == 'threads=4' and system == 'lxc'")["invalid"].tolist() == [1]
    web = cells.query("workload == 'web' and metric == 'total_s' and system == 'native'")
    assert list(web["level"]) == [1000.0 * i for i in range(1, 9)]  # scenarios come in order of their level


def test_a_case_that_never_succeeded_borrows_metrics_of_its_workload() -> None:
    good = table_of(DATA_A, scenario="threads=1")
    dead = table_of({"native": [None, None], "docker": [None, None]}, scenario="threads=2")
    cells = estimates(pd.concat([good, dead], ignore_index=True)).query("scenario == 'threads=2'")
    assert list(cells["metric"]) == ["events_per_s"] * 2
    assert list(cells["unit"]) == ["1/s"] * 2
    alone = estimates(dead)
    assert alone["metric"].isna().all()
    assert list(alone["failed"]) == [2, 2]


def test_an_empty_table_gives_an_empty_frame() -> None:
    cells = estimates(table_of({}))
    assert len(cells) == 0
    assert list(cells.columns) == list(TYPES)


def test_deployments_are_the_unit_of_the_intervals() -> None:
    """Six deployments of five trials: n = 6 from their means, not n = 30."""
    rng = np.random.default_rng(1)
    x = (rng.normal(100, 3, (6, 1)) + rng.normal(0, 1, (6, 5))).ravel()
    row = estimates(table_of({"native": x}, blocks_per_deployment=5)).iloc[0]
    means = x.reshape(6, 5).mean(axis=1)
    assert (row["n"], row["ok"], row["deployments"], row["unit_n"]) == (30, 30, 6, 6)
    assert tuple(row[["mean", "mean_low", "mean_high"]]) == pytest.approx((means.mean(), *t_interval(means)[:2]))
    expected = (np.median(means), *median_interval(means))
    assert tuple(row[["median", "median_low", "median_high", "median_level"]]) == pytest.approx(expected)
    assert tuple(row[["boot_t_low", "boot_t_high"]]) == pytest.approx(bootstrap_t(np.sort(means))[:2])
    assert tuple(row[["sd", "min", "max"]]) == pytest.approx((x.std(ddof=1), x.min(), x.max()))
    # S2^2 - S1^2 / r over itself plus S1^2, the variances of Kalibera and Jones
    within = x.reshape(6, 5).var(axis=1, ddof=1).mean()
    between = means.var(ddof=1) - within / 5
    assert row["between_share"] == pytest.approx(between / (between + within))
    assert row["mean_high"] - row["mean_low"] > 1.5 * np.subtract(*t_interval(x)[1::-1])


def test_sessions_are_deployments_too_and_need_not_be_equal() -> None:
    tables = [table_of({"native": [10.0 + i, 11.0, 12.0][: 3 - i]}, session=f"s{i}") for i in range(3)]
    row = estimates(pd.concat(tables, ignore_index=True)).iloc[0]
    assert (row["n"], row["deployments"], row["unit_n"]) == (6, 3, 3)
    assert row["mean"] == pytest.approx(np.mean([11, 11, 12]))
    # between sums of squares over the weighted size (6 - 14 / 6) / 2, by hand
    trials = [[10, 11, 12], [11, 11], [12]]
    within = sum(np.var(t) * len(t) for t in trials) / 3
    between = sum(len(t) * (np.mean(t) - 67 / 6) ** 2 for t in trials) / 2
    variance = max(0, (between - within) / ((6 - 14 / 6) / 2))
    assert row["between_share"] == pytest.approx(variance / (variance + within))


def test_repeats_of_invalid_trials_are_not_planned_ones() -> None:
    table = table_of({"native": [1.0, None, 3.0]})
    again = table.iloc[[0]].assign(trial="again", attempt=1, block=1, position=3)
    row = estimates(pd.concat([table, again], ignore_index=True)).iloc[0]
    assert (row["planned"], row["ok"], row["failed"], row["n"]) == (3, 3, 1, 3)


def test_cells_of_unequal_size_are_told_apart() -> None:
    values = {"a": [1.0, 2, 3, 5, 8, 13, 21], "b": [2.0, 4, None, 9], "c": [None, 7.0]}
    whole = estimates(table_of(values))
    for system, series in values.items():
        alone = estimates(table_of({system: series}))
        pd.testing.assert_frame_equal(whole[whole["system"] == system].reset_index(drop=True), alone)


PAIR = (("sysbench-cpu", "events_per_s"),)
CELL = ["workload", "scenario", "metric", "system"]


@pytest.mark.parametrize("deployed", [False, True])
def test_at_the_end_it_says_what_the_analysis_says(tmp_path: Path, deployed: bool) -> None:
    table = table_of(DATA_A, blocks_per_deployment=2) if deployed else tidy(write_session(tmp_path / "s"))
    found = interim(table, "native", PRIMARY).set_index(CELL)
    means, ratios = estimates(table).set_index(CELL), contrasts(table, "native", MARGINS, PRIMARY).set_index(CELL)
    means = means.rename(columns={"n": "trials", "unit_n": "n"})
    assert set(found.index) == {key for key in means.index if (key[0], key[2]) in PRIMARY}
    for name in ("n", "mean", "mean_low", "mean_high"):
        assert found[name].to_numpy() == pytest.approx(means.loc[found.index, name].to_numpy())
    others = found[found.index.get_level_values("system") != "native"]
    for name in ("n_pairs", "ratio", "ratio_low", "ratio_high"):
        assert others[name].to_numpy() == pytest.approx(ratios.loc[others.index, name].to_numpy())
    assert found.drop(others.index)["ratio"].isna().all()


def test_what_is_missing_is_not_invented() -> None:
    table = table_of({"native": [1.0, None, None], "docker": [None, 2.0, 3.0], "lxc": [None, None, None]})
    found = interim(table, "native", PAIR).set_index("system")
    assert dict(found["n"]) == {"native": 1, "docker": 2}
    assert found.loc["native", ["mean_low", "mean_high"]].isna().all()
    assert found.loc["docker", "n_pairs"] == 0
    assert np.isnan(found.loc["docker", "ratio"])


def test_without_a_primary_value_there_is_no_row() -> None:
    table = table_of({"native": [None]})
    assert interim(table, "native", PAIR).empty
    assert interim(table_of({"native": [1.0]}), "native", [("web", "requests_per_s")]).empty
    assert interim(table_of({"docker": [1.0, 2.0]}), "native", PAIR)["ratio"].isna().all()
