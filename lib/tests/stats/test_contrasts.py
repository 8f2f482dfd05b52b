from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from infrabench.core import DesignError, SchemaError
from infrabench.stats import contrasts
from infrabench.stats.contrasts import COLUMNS, DIFFERENT, EQUIVALENT, INCONCLUSIVE, NOT_COMPARABLE, WITHIN
from infrabench.tidy import tidy
from tests.analysis_fixtures import DATA_A, MARGINS, PRIMARY, table_of, write_session

REFERENCE = {
    "docker": (0.9880586696, 0.9742567286, 1.001833226, -1.209, -2.603774556, 0.1857745558, 0.074655983, -0.48),
    "lxc": (0.9956244753, 0.9908060579, 1.000519232, -0.443, -0.9381552625, 0.05215526251, 0.0763602057, -0.44),
    "lxd": (1.003180404, 0.9966932012, 1.009751228, 0.322, -0.3369296184, 0.9809296184, 0.2933022324, 0.02),
}
NUMBERS = ["ratio", "ratio_low", "ratio_high", "difference", "difference_low", "difference_high", "p", "cliffs_delta"]


def one(values: dict[str, list[float | None]], **kind: str) -> pd.Series:
    return contrasts(table_of(values, **kind), "native", {"": 0.02}).iloc[0]


def test_reference_values() -> None:
    found = contrasts(table_of(DATA_A), "native", {"": 0.02}).set_index("system")
    for system, expected in REFERENCE.items():
        assert found.loc[system, NUMBERS].astype(float).to_numpy() == pytest.approx(expected, rel=1e-6)
    assert found["p_equivalence"].to_numpy() == pytest.approx([0.1095344672, 2.234676e-05, 0.0001140107578], rel=1e-6)
    assert list(found["verdict"]) == [INCONCLUSIVE, EQUIVALENT, EQUIVALENT]
    assert (found["n_pairs"] == 10).all()
    assert found.loc["docker", "n_to_decide"] > 10
    assert found.loc[["lxc", "lxd"], "n_to_decide"].isna().all()


def test_at_half_the_margin_lxc_and_lxd_are_still_equivalent() -> None:
    found = contrasts(table_of(DATA_A), "native", {"events_per_s": 0.01, "": 0.5})
    assert found["p_equivalence"].to_numpy() == pytest.approx([0.634853249, 0.01355562682, 0.0207463513], rel=1e-6)
    assert (found["margin"] == 0.01).all()


@pytest.mark.parametrize(("better", "sign"), [("higher", -1), ("lower", 1)])
def test_overhead_keeps_its_sign(better: str, sign: int) -> None:
    row = one({"native": DATA_A["native"], "docker": DATA_A["docker"]}, better=better)
    assert row["overhead_percent"] == pytest.approx(sign * 100 * (0.9880586696 - 1), rel=1e-6)
    assert row["overhead_low"] < row["overhead_percent"] < row["overhead_high"]


@pytest.mark.parametrize(
    ("shift", "noise", "verdict"),
    [(0.9, 0.005, DIFFERENT), (0.995, 0.001, WITHIN), (1.0, 0.005, EQUIVALENT), (1.0, 0.2, INCONCLUSIVE)],
)
def test_the_four_verdicts(shift: float, noise: float, verdict: str) -> None:
    rng = np.random.default_rng(11)
    native = 100 * np.exp(rng.normal(0, 0.05, 30))
    row = one({"native": list(native), "docker": list(native * shift * np.exp(rng.normal(0, noise, 30)))})
    assert row["verdict"] == verdict
    assert np.isfinite(row["n_to_decide"]) == (verdict == INCONCLUSIVE)


def test_only_the_same_block_is_paired() -> None:
    values: dict[str, list[float | None]] = {name: list(DATA_A[name]) for name in ("native", "docker")}
    values["native"][2] = None
    values["docker"][7] = None
    row = one(values)
    keep = [i for i in range(10) if i not in (2, 7)]
    x, y = np.array(DATA_A["docker"])[keep], np.array(DATA_A["native"])[keep]
    assert row["n_pairs"] == 8
    assert row["ratio"] == pytest.approx(x.mean() / y.mean())
    assert row["p"] == pytest.approx(stats.ttest_rel(np.log(x), np.log(y)).pvalue)


def test_row_order_does_not_matter() -> None:
    table = table_of(DATA_A)
    shuffled = table.sample(frac=1, random_state=4)
    pd.testing.assert_frame_equal(contrasts(shuffled, "native", {"": 0.02}), contrasts(table, "native", {"": 0.02}))


def test_blocks_of_two_sessions_are_not_mixed() -> None:
    two = pd.concat([table_of(DATA_A, session="s1"), table_of(DATA_A, session="s2")], ignore_index=True)
    assert (contrasts(two, "native", {"": 0.02})["n_pairs"] == 20).all()


def test_two_ok_trials_in_one_block_are_refused() -> None:
    table = table_of(DATA_A)
    table.loc[1, "block"] = table.loc[0, "block"]
    with pytest.raises(SchemaError, match="two ok trials"):
        contrasts(table, "native", {"": 0.02})


def test_no_errors_on_either_side_is_not_comparable() -> None:
    kind = {"metric": "failed_requests", "unit": "1", "better": "lower"}
    row = one({"native": [0.0] * 6, "docker": [0.0] * 6}, **kind)
    assert (row["verdict"], row["reason"]) == (NOT_COMPARABLE, "both means are 0: no ratio")
    assert np.isnan(row["ratio"])
    assert row["difference"] == 0
    some = one({"native": [0.0] * 6, "docker": [1.0, 0, 3, 0, 2, 2]}, **kind)
    assert (some["verdict"], some["reason"]) == (NOT_COMPARABLE, "the mean of native is 0: no ratio")
    assert some["difference_low"] < some["difference"] < some["difference_high"]
    assert some["p_method"] == "paired t, differences"


def test_deterministic_values_have_a_ratio_and_no_interval() -> None:
    row = one({"native": [4.0] * 6, "docker": [5.0] * 6})
    assert row["ratio"] == 1.25
    assert np.isnan(row["ratio_low"])
    assert row["verdict"] == NOT_COMPARABLE
    assert "deterministic" in row["reason"]


def test_a_baseline_too_noisy_to_divide_by() -> None:
    row = one({"native": [1.0, 400.0, 2.0, 3.0, 1.0, 2.0], "docker": [5.0, 6.0, 5.0, 6.0, 5.0, 7.0]})
    assert row["reason"] == "baseline too noisy"
    assert row["verdict"] == INCONCLUSIVE
    assert np.isnan(row["ratio_low"])
    assert np.isnan(row["ratio_high"])
    assert np.isfinite(row["ratio"])


def test_values_that_are_not_all_positive_are_tested_on_differences() -> None:
    row = one({"native": [5.0, 6, 4, 5, 6, 5], "docker": [0.0, 1, 2, 0, 1, 2]})
    assert row["p_method"] == "paired t, differences"
    assert np.isnan(row["p_equivalence"])
    assert row["verdict"] == DIFFERENT


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"native": [1.0, 2.0], "docker": [None, None]}, "no ok trial of docker"),
        ({"native": [None, None], "docker": [1.0, 2.0]}, "no ok trial of native"),
        ({"docker": [1.0, 2.0]}, "no ok trial of native"),
        ({"native": [1.0, None], "docker": [None, 2.0]}, "no block has an ok trial of both"),
        ({"native": [1.0, None], "docker": [3.0, 2.0]}, "a single complete block: no interval"),
    ],
)
def test_too_little_to_compare(values: dict[str, list[float | None]], reason: str) -> None:
    row = one(values)
    assert (row["verdict"], row["reason"]) == (NOT_COMPARABLE, reason)


def test_families_are_adjusted_by_metric(tmp_path: Path) -> None:
    found = contrasts(tidy(write_session(tmp_path / "s", blocks=6)), "native", MARGINS, PRIMARY)
    assert tuple(found.columns) == COLUMNS
    cpu = found[found["workload"] == "sysbench-cpu"]
    assert set(cpu["adjustment"]) == {"Holm"}
    ordered = cpu.sort_values("p")
    assert ordered["p_adjusted"].iloc[0] == pytest.approx(min(1, len(cpu) * ordered["p"].iloc[0]))
    other = found[(found["workload"] == "web") & (found["metric"] == "total_s")]
    assert set(other["adjustment"]) == {"Benjamini-Hochberg, exploratory"}
    assert other["p_adjusted"].to_numpy() == pytest.approx(stats.false_discovery_control(other["p"]))
    lonely = found["reason"] == "not significant within its family"
    assert lonely.any()
    assert found.loc[lonely, "verdict"].isin([DIFFERENT, WITHIN]).all()
    assert (found.loc[lonely, "p"] < 0.05).all()
    assert (found.loc[lonely, "p_adjusted"] >= 0.05).all()
    known = found["p_adjusted"].notna()
    assert (found.loc[known, "p_adjusted"] >= found.loc[known, "p"] - 1e-15).all()


@pytest.mark.parametrize("margins", [{}, {"": 0.0}, {"events_per_s": 1.5}])
def test_a_margin_is_needed_and_is_a_share(margins: dict[str, float]) -> None:
    with pytest.raises(DesignError, match="margin"):
        contrasts(table_of(DATA_A), "native", margins)


def test_identical_systems_differ_in_five_percent_of_drifting_campaigns() -> None:
    """Blocked order keeps its level under a drift of 3 % (method.md 2.2, V12); R = 2000, 99.9 % band."""
    rng = np.random.default_rng(12)
    rejected = 0
    drift = 1 + 0.03 * np.linspace(0, 1, 60).reshape(30, 2)
    for _ in range(2000):
        values = rng.permuted(np.arange(60).reshape(30, 2), axis=1) % 2  # which of the two slots the system had
        run = drift * (1 + 0.01 * rng.normal(size=(30, 2)))
        x, y = run[np.arange(30), values[:, 0]], run[np.arange(30), values[:, 1]]
        rejected += stats.ttest_1samp(np.log(x / y), 0).pvalue < 0.05
    assert 0.0345 <= rejected / 2000 <= 0.0665


def test_negative_control_sequential_order_under_drift_always_differs() -> None:
    rng = np.random.default_rng(13)
    drift = 1 + 0.03 * np.linspace(0, 1, 60)
    runs = drift * (1 + 0.01 * rng.normal(size=(500, 60)))
    rejected = stats.ttest_ind(runs[:, :30], runs[:, 30:], axis=1, equal_var=False).pvalue < 0.05
    assert rejected.mean() > 0.99
