from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from infrabench.stats import estimates
from infrabench.stats.estimates import COLUMNS
from infrabench.tidy import missing, tidy
from tests.analysis_fixtures import CASES, DATA_A, table_of, write_session


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_session(tmp_path_factory.mktemp("runs") / "s", blocks=7, skip_last=4)


def test_reference_values() -> None:
    row = estimates(table_of(DATA_A)).set_index("system").loc["native"]
    assert row["n"] == 10
    assert row[["mean", "sd", "mean_low", "mean_high"]].astype(float).to_numpy() == pytest.approx(
        [101.245, 1.310209907, 100.3077323, 102.1822677], rel=1e-6
    )
    assert row[["median", "median_low", "median_high", "median_level"]].astype(float).to_numpy() == pytest.approx(
        [101.795, 99.39, 102.48, 0.978515625], rel=1e-6
    )
    assert row["cov"] == pytest.approx(1.310209907 / 101.245, rel=1e-6)
    assert (row["min"], row["max"], row["deterministic"]) == (98.67, 102.6, False)


def test_counts_of_every_cell(session: Path) -> None:
    table, absent = tidy(session), missing(session)
    cells = estimates(table, absent)
    assert tuple(cells.columns) == COLUMNS
    assert (cells["planned"] == 7).all()
    states = cells[["ok", "failed", "invalid", "timeout", "unparsable", "aborted"]].sum(axis=1)
    per_case = absent.groupby(["workload", "scenario", "system"]).size()
    unrecorded = [per_case.get((r.workload, r.scenario, r.system), 0) for r in cells.itertuples()]
    assert list(cells["planned"] - states) == unrecorded
    assert sum(unrecorded) > 0
    assert (cells["n"] == cells["ok"]).all()
    assert len(cells) == 3 * sum(len(case[4]) for case in CASES)


def test_a_cell_that_only_failed_is_shown_without_a_number(session: Path) -> None:
    cells = estimates(tidy(session)).query("workload == 'stream' and system == 'docker'")
    assert list(cells["metric"]) == ["copy_B_per_s", "triad_B_per_s"]
    assert (cells["n"] == 0).all()
    assert (cells["failed"] == cells["planned"]).all()
    assert cells[["mean", "median", "sd", "min", "max"]].isna().all(axis=None)


def test_a_case_that_never_succeeded_borrows_metrics_of_its_workload() -> None:
    good = table_of(DATA_A, scenario="threads=1")
    dead = table_of({"native": [None, None], "docker": [None, None]}, scenario="threads=2")
    cells = estimates(pd.concat([good, dead], ignore_index=True)).query("scenario == 'threads=2'")
    assert list(cells["metric"]) == ["events_per_s"] * 2
    assert list(cells["unit"]) == ["1/s"] * 2
    alone = estimates(dead)
    assert alone["metric"].isna().all()
    assert list(alone["failed"]) == [2, 2]


def test_invalid_trial_is_counted_not_averaged(session: Path) -> None:
    row = estimates(tidy(session)).query("scenario == 'threads=4' and system == 'lxc'").iloc[0]
    assert row["invalid"] == 1
    assert row["n"] == row["ok"] == row["planned"] - 1


def test_deterministic_metric_has_no_interval() -> None:
    cells = estimates(table_of({"native": [0.1] * 8, "docker": [0.1] * 7 + [0.2]})).set_index("system")
    assert bool(cells.loc["native", "deterministic"])
    assert cells.loc["native", "sd"] == 0
    assert cells.loc["native", ["mean_low", "mean_high", "median_low", "median_high"]].isna().all()
    assert not cells.loc["docker", "deterministic"]
    assert np.isfinite(cells.loc["docker", "mean_low"])


def test_few_values() -> None:
    cells = estimates(table_of({"a": [1.0], "b": [1.0, 2.0], "c": [1.0, 2, 3, 4, 5], "d": [1.0, 2, 3, 4, 5, 6]}))
    cells = cells.set_index("system")
    assert np.isnan(cells.loc["a", ["sd", "mean_low", "median_low"]].astype(float)).all()
    assert np.isfinite(cells.loc["b", "mean_low"])
    assert np.isnan(cells.loc["c", "median_low"])
    assert np.isnan(cells.loc["c", "median_level"])
    assert cells.loc["d", "median_level"] == 0.96875


def test_scenarios_come_in_order_of_their_level(session: Path) -> None:
    web = estimates(tidy(session)).query("workload == 'web' and metric == 'total_s' and system == 'native'")
    assert list(web["level"]) == [1000.0 * i for i in range(1, 9)]


def test_an_empty_table_gives_an_empty_frame() -> None:
    cells = estimates(table_of({}))
    assert len(cells) == 0
    assert tuple(cells.columns) == COLUMNS
