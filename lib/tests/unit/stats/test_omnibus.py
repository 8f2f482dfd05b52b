from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pingouin
import pytest
from scipy import stats

from infrabench.analysis.tidy import tidy
from infrabench.stats import omnibus
from infrabench.stats.multiplicity import holm
from infrabench.stats.omnibus import OMNIBUS, critical_distance, friedman, worst_friedman
from tests.support.analysis_fixtures import DATA_A, PRIMARY, table_of, write_session

X = np.array([DATA_A[name] for name in ("native", "docker", "lxc", "lxd")])


def test_critical_distance_of_mean_ranks() -> None:
    assert critical_distance(4, 10) == pytest.approx(1.483231188, rel=1e-6)
    # the published critical values at 5 % for k = 2 .. 6 (Demsar 2006, table 5), cut at three digits
    values = [critical_distance(k, 1) / np.sqrt(k * (k + 1) / 6) for k in range(2, 7)]
    assert values == pytest.approx([1.960, 2.343, 2.569, 2.728, 2.850], abs=1e-3)


def test_as_scipy_and_pingouin() -> None:
    tied = np.random.default_rng(9).integers(0, 4, (4, 12)).astype(float)
    assert friedman(tied).statistic == pytest.approx(stats.friedmanchisquare(*tied).statistic)
    assert friedman(tied).p == pytest.approx(stats.friedmanchisquare(*tied).pvalue)
    f = pingouin.friedman(pd.DataFrame(X.T), method="f")
    assert friedman(X).iman_davenport_f == pytest.approx(f["F"].iloc[0])


def test_blocks_that_all_agree_cannot_give_a_p_below_what_they_can() -> None:
    agreed = np.arange(3.0)[:, None] + np.linspace(0, 1, 4)
    found = friedman(agreed)
    assert np.isinf(found.iman_davenport_f)
    assert found.iman_davenport_p == pytest.approx(1 / 6**3)
    pair = friedman(np.array([[1.0, 2, 3], [2.0, 3, 4]]))
    assert pair.iman_davenport_p == pytest.approx(0.25)  # 3 blocks of two: the sign test


def test_one_row_for_each_case(tmp_path: Path) -> None:
    found = omnibus(tidy(write_session(tmp_path / "s", blocks=6)), PRIMARY)
    assert tuple(found.columns) == tuple(OMNIBUS)
    stream = found[found["workload"] == "stream"].iloc[0]
    assert stream["k"] == 2  # docker fails stream throughout
    cpu = found[found["workload"] == "sysbench-cpu"]
    assert len(cpu) == 5
    assert (cpu["k"] == 3).all()
    assert (cpu["adjustment"] == "Holm").all()
    assert cpu["p_adjusted"].to_numpy() == pytest.approx(holm(cpu["iman_davenport_p"]))
    assert (cpu["interaction_p"] == cpu["interaction_p"].iloc[0]).all()
    assert np.isnan(found[found["workload"] == "ftp"]["interaction_p"].iloc[0])
    assert found[found["workload"] == "web"]["n"].min() <= 6


def test_reference_data_as_a_table() -> None:
    row = omnibus(table_of(DATA_A)).iloc[0]
    assert (row["k"], row["n"], row["pair_unit"]) == (4, 10, "blocks")
    assert (row["friedman_chi2"], row["friedman_p"]) == pytest.approx((14.28, 0.002547770093), rel=1e-6)
    assert (row["iman_davenport_f"], row["df1"], row["df2"]) == pytest.approx((8.175572519, 3, 27), rel=1e-6)
    assert row["iman_davenport_p"] == pytest.approx(0.0004952643697, rel=1e-6)
    assert row["nemenyi_cd"] == pytest.approx(1.483231188, rel=1e-6)
    assert row["tiers"] == "a: docker, lxd, native; b: docker, lxc, native"


def test_only_blocks_complete_for_all_systems_count() -> None:
    values: dict[str, list[float | None]] = {name: list(series) for name, series in DATA_A.items()}
    values["native"][2], values["lxd"][7] = None, None
    keep = [i for i in range(10) if i not in (2, 7)]
    table = table_of(values)
    row = omnibus(table).iloc[0]
    assert row["n"] == 8
    assert row["iman_davenport_p"] == pytest.approx(worst_friedman(X[:, keep], 2).iman_davenport_p)
    table.loc[table["state"] == "failed", "state"] = "invalid"  # the machine's doing: missing by chance
    row = omnibus(table).iloc[0]
    assert row["n"] == 8
    assert row["iman_davenport_p"] == pytest.approx(friedman(X[:, keep]).iman_davenport_p)


def test_deployments_are_the_unit_where_there_are_several() -> None:
    row = omnibus(table_of(DATA_A, blocks_per_deployment=2)).iloc[0]
    assert (row["n"], row["pair_unit"]) == (5, "deployments")
    assert row["iman_davenport_p"] == pytest.approx(friedman(X.reshape(4, 5, 2).mean(axis=-1)).iman_davenport_p)


def test_a_single_system_or_block_is_no_comparison() -> None:
    for values in (
        {"native": [1.0, 2, 3]},
        {"native": [1.0], "docker": [2.0]},
        {"native": [1.0, None], "docker": [None, 2.0]},
    ):
        row = omnibus(table_of(values)).iloc[0]
        assert np.isnan(row["iman_davenport_p"])
        assert np.isnan(row["nemenyi_cd"])
        assert np.isnan(row["p_adjusted"])
    empty = table_of({"native": [None, None]})
    assert omnibus(empty).empty
