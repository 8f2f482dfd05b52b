from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from infrabench.analysis.tidy import tidy
from infrabench.stats import contrasts, estimates, interim
from tests.support.analysis_fixtures import DATA_A, MARGINS, PRIMARY, table_of, write_session

PAIR = (("sysbench-cpu", "events_per_s"),)
CELL = ["workload", "scenario", "metric", "system"]


def test_at_the_end_it_says_what_the_analysis_says(tmp_path: Path) -> None:
    table = tidy(write_session(tmp_path / "s"))
    found = interim(table, "native", PRIMARY).set_index(CELL)
    means, ratios = estimates(table).set_index(CELL), contrasts(table, "native", MARGINS, PRIMARY).set_index(CELL)
    assert set(found.index) == {key for key in means.index if (key[0], key[2]) in PRIMARY}
    for name in ("n", "mean", "mean_low", "mean_high"):
        assert found[name].to_numpy() == pytest.approx(means.loc[found.index, name].to_numpy())
    others = found[found.index.get_level_values("system") != "native"]
    for name in ("n_pairs", "ratio", "ratio_low", "ratio_high"):
        assert others[name].to_numpy() == pytest.approx(ratios.loc[others.index, name].to_numpy())
    assert found.drop(others.index)["ratio"].isna().all()


def test_deployments_are_the_unit_where_there_are_several() -> None:
    table = table_of(DATA_A, blocks_per_deployment=2)
    found = interim(table, "native", PAIR).set_index("system")
    ratios = contrasts(table, "native", {"": 0.02}).set_index("system")
    assert set(found["n"]) == {5}
    for name in ("n_pairs", "ratio", "ratio_low", "ratio_high"):
        assert found.loc[ratios.index, name].to_numpy() == pytest.approx(ratios[name].to_numpy())


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
