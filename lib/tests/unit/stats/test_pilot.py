from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from infrabench.stats.planning import PILOT, blocks_to_decide, n_for_precision, plan_from_pilot, spread_limit
from tests.support.analysis_fixtures import DATA_A, table_of

MARGINS = {"": 0.02}


def plan_of(values: dict[str, list[float | None]], *, blocks_per_deployment: int = 0, **how: object) -> pd.DataFrame:
    table = table_of(values, blocks_per_deployment=blocks_per_deployment)
    return plan_from_pilot(table, "native", **({"margins": MARGINS} | how)).set_index(["system", "quantity", "target"])


def test_columns_types_and_rows() -> None:
    found = plan_from_pilot(table_of(DATA_A), "native", MARGINS)
    assert tuple(found.columns) == tuple(PILOT)
    assert {name: str(kind) for name, kind in found.dtypes.items()} == PILOT
    assert len(found) == 4 * 3 + 3 * (3 + 1)  # means of 4 systems and ratios of 3 at 3 targets, and 3 verdicts
    assert plan_from_pilot(table_of({"native": [None]}), "native", MARGINS).dtypes.to_dict() == found.dtypes.to_dict()


def test_sizes_come_from_the_pilots_spread_and_from_its_upper_limit() -> None:
    found = plan_of(DATA_A, seconds=360.0, targets=(0.001, 0.01))
    cov = np.std(DATA_A["docker"], ddof=1) / np.mean(DATA_A["docker"])
    mean = found.loc[("docker", "mean", 0.01)]
    assert mean["spread"] == pytest.approx(cov)
    assert mean["n"] == n_for_precision(cov, 0.01)
    assert mean["n_high"] == n_for_precision(spread_limit(cov, 10), 0.01) > mean["n"]
    assert (mean["hours"], mean["hours_high"]) == (mean["n"] / 10, mean["n_high"] / 10)
    sd = np.std(np.log(np.array(DATA_A["docker"]) / DATA_A["native"]), ddof=1)
    ratio = found.loc[("docker", "ratio", 0.001)]
    assert ratio["spread"] == pytest.approx(sd)
    assert ratio["n"] == n_for_precision(sd, np.log(1.001)) > n_for_precision(sd, 0.001)
    assert found.loc[("docker", "verdict", 0.02), "n"] == blocks_to_decide(sd, 0.02)
    assert (found["note"] == "").all()
    assert (found["baseline"] == "native").groupby("quantity").all().to_dict() == {
        "mean": False, "ratio": True, "verdict": True
    }  # fmt: skip


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
def test_why_there_is_no_size(values: list[float | None], note: str) -> None:
    row = plan_of({"native": [1.0, 2, 3], "lxc": values}).loc[("lxc", "verdict", 0.02)]
    assert row["note"] == note
    assert np.isnan(row["n_high"])


def test_a_mean_of_zero_and_a_metric_without_margin() -> None:
    found = plan_of({"native": [1.0, 2, 3], "lxc": [-1.0, 0.0, 1.0]}, margins={"other": 0.1})
    assert found.loc[("lxc", "mean", 0.01), "note"] == "the mean is 0"
    assert "verdict" not in found.index.get_level_values("quantity")
